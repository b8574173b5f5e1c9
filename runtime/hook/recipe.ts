/**
 * What the target of a `make`, `just` or `npm run` does, read from the project's own file, so that a policy hook can judge
 * it (spec components 10.3 `on-shell`). Best effort: no recipe means only that none was found (10.5, rule 6).
 *
 * @module
 */
import { shellSteps, wordText } from "../../artifact/shell_syntax.ts";
import { isJsonObject } from "../../base/json_value.ts";
import type { ShellCommandLine } from "../agent/agent_hooks.ts";

/** Reads a file of the work folder; `null` when there is none. */
export type ReadProjectFile = (name: string) => string | null;

/** Longest recipe handed over, in UTF-16 units. */
const MAX_RECIPE = 64 << 10;

/** The bodies of every target a command line runs, one behind the other; `null` when none is found. */
export function recipeOf(
  command: Pick<ShellCommandLine, "argv" | "script" | "binary">,
  read: ReadProjectFile,
): string | null {
  const commands = command.script === null
    ? [command.argv]
    : shellSteps(command.script, baseName(command.argv[0] ?? "")).flatMap((step) => {
      if (step.kind !== "command") return [];
      const words = step.words.map(wordText);
      const known = words.filter((word) => word !== null);
      return known.length === words.length ? [known] : [];
    });
  const bodies = commands.flatMap((words) => bodiesOf(words, read));
  return bodies.length === 0 ? null : bodies.join("\n").slice(0, MAX_RECIPE);
}

function baseName(path: string): string {
  return path.slice(path.lastIndexOf("/") + 1);
}

function bodiesOf([program = "", ...args]: readonly string[], read: ReadProjectFile): string[] {
  switch (baseName(program)) {
    case "make":
    case "gmake":
      return makeBodies(args, read);
    case "just":
      return justBodies(args, read);
    case "npm":
      return npmBodies(args, read);
    default:
      return [];
  }
}

/** Reads the first of some files that exists. */
function firstOf(names: readonly string[], read: ReadProjectFile): string | null {
  for (const name of names) {
    const text = read(name);
    if (text !== null) return text;
  }
  return null;
}

/** Rules of a file whose targets stand at the start of a line and whose bodies are indented. */
function indentedRules(text: string, header: RegExp): Map<string, string> {
  const rules = new Map<string, string>();
  let names: readonly string[] = [];
  for (const line of text.split(/\r?\n/)) {
    if (/^[ \t]/.test(line)) {
      for (const name of names) rules.set(name, `${rules.get(name)!}${line.trim()}\n`);
      continue;
    }
    if (line.trim() === "") continue;
    const found = header.exec(line);
    names = found === null ? [] : found[1]!.trim().split(/\s+/).filter((name) => !rules.has(name));
    for (const name of names) rules.set(name, "");
  }
  return rules;
}

function bodiesIn(rules: ReadonlyMap<string, string>, targets: readonly string[]): string[] {
  const wanted = targets.length > 0 ? targets : [...rules.keys()].filter((name) => !name.startsWith(".")).slice(0, 1);
  return wanted.flatMap((name) => {
    const body = rules.get(name)?.trim() ?? "";
    return body === "" ? [] : [body];
  });
}

function makeBodies(args: readonly string[], read: ReadProjectFile): string[] {
  const targets: string[] = [];
  let file: string | null = null;
  for (let i = 0; i < args.length; i++) {
    const arg = args[i]!;
    if (/^(-C|--directory)/.test(arg)) return [];
    if (arg === "-f" || arg === "--file" || arg === "--makefile") file = args[++i] ?? null;
    else if (/^-[joIlWo]$/.test(arg)) i++;
    else if (!arg.startsWith("-") && !arg.includes("=")) targets.push(arg);
  }
  const text = file === null ? firstOf(["GNUmakefile", "makefile", "Makefile"], read) : read(file);
  return text === null ? [] : bodiesIn(indentedRules(text, /^([^#=:\t][^#=:]*?)\s*:(?![=:])/), targets);
}

function justBodies(args: readonly string[], read: ReadProjectFile): string[] {
  if (args.some((arg) => arg.startsWith("-"))) return [];
  const text = firstOf(["justfile", "Justfile", ".justfile"], read);
  if (text === null) return [];
  const rules = indentedRules(text, /^@?([A-Za-z_][A-Za-z0-9_-]*)(?:\s[^:]*)?:(?!=)/);
  return bodiesIn(rules, args.slice(0, 1));
}

function npmBodies([command = "", ...args]: readonly string[], read: ReadProjectFile): string[] {
  const name = ["run", "run-script"].includes(command)
    ? args.find((arg) => !arg.startsWith("-"))
    : ["test", "start", "stop", "restart"].includes(command)
    ? command
    : undefined;
  const text = name === undefined ? null : read("package.json");
  if (text === null) return [];
  let manifest: unknown;
  try {
    manifest = JSON.parse(text);
  } catch {
    return [];
  }
  const scripts = isJsonObject(manifest) && isJsonObject(manifest.scripts) ? manifest.scripts : {};
  return [`pre${name}`, name!, `post${name}`].flatMap((key) => {
    const body = Object.hasOwn(scripts, key) ? scripts[key] : null;
    return typeof body === "string" ? [body] : [];
  });
}
