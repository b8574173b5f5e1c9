/**
 * Manual pages in the form of `man(7)`, from what `--help` shows too. Pure.
 *
 * @module
 */

/** An option or an argument. */
export interface ManualEntry {
  /** As it is written, e.g. `--workdir <dir>`. */
  readonly written: string;
  readonly brief: string;
}

/** A command of a program, or the program itself where it has none. */
export interface ManualCommand {
  /** Words of the command, the program's name first. */
  readonly name: string;
  /** What may follow them on a line. */
  readonly usage: string;
  readonly description: string;
  readonly entries: readonly ManualEntry[];
}

/** What a page says. */
export interface ManualPage {
  readonly name: string;
  readonly version: string;
  readonly brief: string;
  readonly description: readonly string[];
  readonly commands: readonly ManualCommand[];
  readonly exitStatus: readonly ManualEntry[];
  readonly environment: readonly ManualEntry[];
  readonly files: readonly ManualEntry[];
  readonly seeAlso: readonly string[];
}

/** Text as roff shows it as it is: nothing in it is a request, an escape or a dash of typography. */
export function roffText(text: string): string {
  const escaped = text.replaceAll("\\", "\\e").replaceAll("-", "\\-").replaceAll("`", "\\(ga").replaceAll("'", "\\(aq")
    .replaceAll("~", "\\(ti").replaceAll("^", "\\(ha").replaceAll("…", "...");
  return escaped.replace(/\s+/g, " ").trim().replace(/^\./, "\\&.");
}

function quoted(text: string): string {
  return `"${roffText(text).replaceAll('"', "\\(dq")}"`;
}

function tagged({ written, brief }: ManualEntry): string[] {
  return [".TP", `.B ${quoted(written)}`, roffText(brief)];
}

function section(title: string, entries: readonly ManualEntry[]): string[] {
  return entries.length === 0 ? [] : [`.SH ${title}`, ...entries.flatMap(tagged)];
}

/** The page as text. Without a date, so that it follows from the program alone. */
export function manualPage(page: ManualPage): string {
  const { name, version, commands } = page;
  const single = commands.length === 1 && commands[0]!.name === name;
  const lines = [
    `.TH ${quoted(name.toUpperCase())} 1 "" ${quoted(`${name} ${version}`)} "Murmur"`,
    ".SH NAME",
    `${roffText(name)} \\- ${roffText(page.brief)}`,
    ".SH SYNOPSIS",
    `.B ${quoted(name)}`,
    single ? roffText(commands[0]!.usage) : roffText("<command> [options]"),
    ".SH DESCRIPTION",
    ...page.description.flatMap((paragraph, index) => [...(index === 0 ? [] : [".PP"]), roffText(paragraph)]),
  ];
  if (single) {
    lines.push(...section("OPTIONS", commands[0]!.entries));
  } else {
    lines.push(".SH COMMANDS");
    for (const { name: words, usage, description, entries } of commands) {
      lines.push(`.SS ${quoted(`${words} ${usage}`.trim())}`, roffText(description), ...entries.flatMap(tagged));
    }
  }
  lines.push(
    ...section("EXIT STATUS", page.exitStatus),
    ...section("ENVIRONMENT", page.environment),
    ...section("FILES", page.files),
  );
  if (page.seeAlso.length > 0) {
    const references = page.seeAlso.map((reference) => {
      const [, program, number] = /^(.+)\((\d)\)$/.exec(reference) ?? [];
      return `.BR ${roffText(program ?? reference)} (${number ?? ""})`;
    });
    lines.push(".SH SEE ALSO", references.join(" ,\n"));
  }
  return `${lines.join("\n")}\n`;
}
