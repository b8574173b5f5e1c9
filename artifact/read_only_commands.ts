/**
 * Which shell commands are writes to a `filesystem.read_only` path (spec manifest 9.3): redirections, and the commands
 * that change what their arguments name.
 *
 * Beyond the table there, whatever is seen to be the same write is refused too: the sources of `mv`, `-t` of the copying
 * commands, a source's name below the folder it is copied into, patterns and folders that hold a covered path where the
 * command removes them, the text of `sh -c`, and commands behind `env`, `sudo` and their like.
 *
 * @module
 */
import type { ReadOnlyPaths, ReadOnlyRefusal } from "./read_only_rules.ts";
import { expandBraces, literalWord, shellSteps, type Word, wordText } from "./shell_syntax.ts";

/** A call of a shell tool: the text an interpreter gets with `-c`, or a binary with its arguments. */
export type ShellCall =
  | { readonly kind: "body"; readonly shell: string; readonly text: string }
  | { readonly kind: "argv"; readonly binary: string; readonly args: readonly string[] };

/** Commands that write every argument that is no flag. */
const WRITES_ALL = [
  "tee",
  "rm",
  "rmdir",
  "unlink",
  "shred",
  "truncate",
  "mkdir",
  "touch",
  "chmod",
  "chown",
  "patch",
];
/** Commands that take their arguments away, with everything below. */
const REMOVES = ["rm", "mv"];
/** Commands that change everything below an argument with `-R`. */
const RECURSIVE = ["chmod", "chown"];
/** Commands that write their last argument, or what `-t` names. */
const WRITES_LAST = ["mv", "cp", "install", "ln"];
const SHELLS = ["bash", "sh", "zsh", "fish", "dash", "ksh"];

/** Commands that run the command behind them: letters of flags that take an argument, and words before the command. */
const WRAPPERS: Readonly<Record<string, { readonly valued: string; readonly words?: number }>> = {
  busybox: { valued: "" },
  builtin: { valued: "" },
  command: { valued: "" },
  doas: { valued: "uC" },
  env: { valued: "uCS" },
  exec: { valued: "a" },
  ionice: { valued: "cnp" },
  nice: { valued: "n" },
  nohup: { valued: "" },
  setsid: { valued: "" },
  stdbuf: { valued: "ioe" },
  sudo: { valued: "ugCDhpRTr" },
  time: { valued: "fo" },
  timeout: { valued: "ks", words: 1 },
  toybox: { valued: "" },
  xargs: { valued: "EIJLPRSadns" },
};

/** Deepest `sh -c` inside `sh -c` that is read. */
const MAX_NESTING = 8;

/** Where relative paths start; `.` is the work folder. */
function from(directory: string, path: string): string {
  return path.startsWith("/") || directory === "." ? path : `${directory.replace(/\/$/, "")}/${path}`;
}

/** Whether a name matches one component of a pattern, `*`, `?` and `[…]` being unquoted in it. Linear with one `*` back. */
function componentMatches(pattern: Word, name: string): boolean {
  const characters = [...name];
  if (characters[0] === "." && !(pattern[0]?.kind === "char" && pattern[0].char === ".")) return false;
  let p = 0;
  let n = 0;
  let star = -1;
  let mark = 0;
  /** Length of the pattern element at `p` when it matches `char`, else 0. */
  const step = (char: string): number => {
    const cell = pattern[p];
    if (cell === undefined) return 0;
    if (cell.kind !== "char") return 0;
    if (cell.quoted || (cell.char !== "?" && cell.char !== "[")) return cell.char === char ? 1 : 0;
    if (cell.char === "?") return 1;
    let end = p + 2;
    while (end < pattern.length && !isWild(pattern[end], "]")) end++;
    // A class is taken to hold every character: a name it might match is one it may match.
    return end < pattern.length ? end - p + 1 : char === "[" ? 1 : 0;
  };
  while (n < characters.length) {
    if (isWild(pattern[p], "*")) {
      star = p++;
      mark = n;
      continue;
    }
    const length = step(characters[n]!);
    if (length > 0) {
      p += length;
      n++;
    } else if (star >= 0) {
      p = star + 1;
      n = ++mark;
    } else return false;
  }
  while (isWild(pattern[p], "*")) p++;
  return p === pattern.length;
}

function isWild(cell: Word[number] | undefined, char: string): boolean {
  return cell?.kind === "char" && !cell.quoted && cell.char === char;
}

function isPattern(word: Word): boolean {
  return word.some((cell) => cell.kind === "char" && !cell.quoted && "*?[".includes(cell.char));
}

/** The words between unquoted and quoted slashes alike; a leading slash gives an empty first one. */
function components(word: Word): Word[] {
  const parts: Word[number][][] = [[]];
  for (const cell of word) {
    if (cell.kind === "char" && cell.char === "/") parts.push([]);
    else parts.at(-1)!.push(cell);
  }
  return parts;
}

/** Judges the commands of one call. */
class CommandJudge {
  constructor(readonly paths: ReadOnlyPaths) {}

  /** Judges what one word of a command names. */
  #word(word: Word, directory: string, signal: string, removes: boolean): ReadOnlyRefusal | null {
    for (const each of expandBraces(word)) {
      const refusal = this.#plainWord(each, directory, signal, removes);
      if (refusal !== null) return refusal;
    }
    return null;
  }

  #plainWord(word: Word, directory: string, signal: string, removes: boolean): ReadOnlyRefusal | null {
    // `~` is the synthetic home, which lies outside the work folder; `~+` is the current directory.
    if (isWild(word[0], "~") && (word.length === 1 || isWild(word[1], "/"))) return null;
    if (isWild(word[0], "~") && isWild(word[1], "+")) {
      return this.#plainWord([{ kind: "pwd" }, ...word.slice(2)], directory, signal, removes);
    }
    const text = wordText(word);
    if (text !== null && !isPattern(word)) return this.paths.judge(from(directory, text), signal, removes);

    // Up to the first component that is not known, the folder is.
    const parts = components(word);
    const open = parts.findIndex((part) => isPattern(part) || wordText(part) === null);
    const known = parts.slice(0, open).map((part) => wordText(part)!).join("/");
    const folder = open === 0 ? from(directory, ".") : from(directory, known === "" ? "/" : known);
    if (open > 0) {
      const refusal = this.paths.judge(folder, signal);
      if (refusal !== null) return refusal;
    }
    const base = this.paths.resolve(folder);
    if (base === null || !isPattern(parts[open]!)) return null;
    const pattern: Word[] = [
      ...(base === "." ? [] : base.split("/").map(literalWord)),
      ...parts.slice(open).filter((part) => wordText(part) !== "" && wordText(part) !== "."),
    ];
    for (const { rule, path } of this.paths.folders()) {
      const names = path.split("/");
      if (pattern.length < names.length && !removes) continue;
      const shared = Math.min(pattern.length, names.length);
      if (names.slice(0, shared).every((name, index) => componentMatches(pattern[index]!, name))) {
        return this.paths.refusal({ rule, path }, signal);
      }
    }
    return null;
  }

  /** Splits arguments into those that are no flags and the values of one flag. */
  #arguments(args: readonly Word[], valued: { readonly short: string; readonly long: string } | null): {
    readonly plain: Word[];
    readonly values: Word[];
  } {
    const plain: Word[] = [];
    const values: Word[] = [];
    for (let i = 0; i < args.length; i++) {
      const word = args[i]!;
      const text = wordText(word) ?? "";
      if (text === "--") {
        plain.push(...args.slice(i + 1));
        break;
      }
      if (!text.startsWith("-") || text === "-") {
        plain.push(word);
        continue;
      }
      if (valued === null) continue;
      if (text.startsWith(`--${valued.long}=`)) values.push(literalWord(text.slice(valued.long.length + 3)));
      else if (text === `--${valued.long}`) {
        const value = args[++i];
        if (value !== undefined) values.push(value);
      } else if (!text.startsWith("--") && text.includes(valued.short)) {
        const attached = text.slice(text.indexOf(valued.short) + 1);
        const value = attached === "" ? args[++i] : literalWord(attached);
        if (value !== undefined) values.push(value);
      }
    }
    return { plain, values };
  }

  #first(
    words: readonly Word[],
    directory: string,
    signal: string,
    removes: boolean,
  ): ReadOnlyRefusal | null {
    for (const word of words) {
      const refusal = this.#word(word, directory, signal, removes);
      if (refusal !== null) return refusal;
    }
    return null;
  }

  /** `cp`, `mv`, `install`, `ln`: the target, and each source's name below it. */
  #copy(name: string, args: readonly Word[], directory: string): ReadOnlyRefusal | null {
    const { plain, values } = this.#arguments(args, { short: "t", long: "target-directory" });
    const targets = values.length > 0 ? values : plain.slice(-1);
    const sources = values.length > 0 ? plain : plain.slice(0, -1);
    const makesFolders = name === "install" && args.some((arg) => /^-[A-Za-z]*d/.test(wordText(arg) ?? ""));
    const direct = this.#first(makesFolders ? plain : targets, directory, name, false) ??
      (name === "mv" ? this.#first(sources, directory, name, true) : null);
    if (direct !== null) return direct;
    for (const target of targets) {
      for (const source of sources) {
        const last = components(source).findLast((part) => part.length > 0);
        if (last === undefined || ["..", "."].includes(wordText(last) ?? "")) continue;
        const below: Word = [...target, ...literalWord("/"), ...last];
        // A folder that replaces one holding a covered path is a write to it as well.
        const refusal = this.#word(below, directory, name, false);
        if (refusal !== null) return refusal;
      }
    }
    return null;
  }

  /** `sed -i`: every argument but the script. */
  #sed(args: readonly Word[], directory: string): ReadOnlyRefusal | null {
    let inPlace = false;
    let script = false;
    const files: Word[] = [];
    for (let i = 0; i < args.length; i++) {
      const text = wordText(args[i]!) ?? "";
      if (text === "--") {
        files.push(...args.slice(i + 1));
        break;
      }
      if (text.startsWith("--")) {
        const name = text.slice(2).split("=", 1)[0]!;
        if (name !== "" && "in-place".startsWith(name)) inPlace = true;
        const takesValue = ["expression", "file", "line-length"].some((each) => each.startsWith(name) && name !== "");
        if (takesValue) {
          if (!"line-length".startsWith(name)) script = true;
          if (!text.includes("=")) i++;
        }
      } else if (text.startsWith("-") && text !== "-") {
        for (let letter = 1; letter < text.length; letter++) {
          const each = text[letter]!;
          if (each === "i") {
            inPlace = true;
            break;
          }
          if ("efl".includes(each)) {
            if (each !== "l") script = true;
            if (letter === text.length - 1) i++;
            break;
          }
        }
      } else files.push(args[i]!);
    }
    if (!inPlace) return null;
    return this.#first(script ? files : files.slice(1), directory, "sed -i", false);
  }

  /** Judges one command; wrappers in front of it are stepped over. */
  command(words: readonly Word[], directory: string, nesting: number): ReadOnlyRefusal | null {
    const start = commandStart(words);
    const text = start < words.length ? wordText(words[start]!) : null;
    if (text === null) return null;
    const name = baseName(text);
    const args = words.slice(start + 1);
    if (SHELLS.includes(name)) return this.#shell(name, args, directory, nesting);
    if (WRITES_ALL.includes(name)) {
      const valued = name === "patch" ? { short: "o", long: "output" } : null;
      const { plain, values } = this.#arguments(args, valued);
      const whole = REMOVES.includes(name) || (RECURSIVE.includes(name) && args.some(isRecursiveFlag));
      return this.#first([...plain, ...values], directory, name, whole);
    }
    if (WRITES_LAST.includes(name)) return this.#copy(name, args, directory);
    if (name === "sed") return this.#sed(args, directory);
    if (name === "dd") {
      const outputs = args.filter((arg) => leading(arg).startsWith("of=")).map((arg) => arg.slice(3));
      return this.#first(outputs, directory, "dd of=", false);
    }
    return null;
  }

  /** The text behind `-c` of a shell, when it is known. */
  #shell(shell: string, args: readonly Word[], directory: string, nesting: number): ReadOnlyRefusal | null {
    if (nesting >= MAX_NESTING) return null;
    for (let i = 0; i < args.length; i++) {
      const flag = wordText(args[i]!) ?? "";
      if (!/^[-+]/.test(flag)) return null;
      if (!/^-[A-Za-z]*c[A-Za-z]*$/.test(flag)) continue;
      // Flags may stand between `-c` and its text.
      const body = args.slice(i + 1).find((arg) => !/^[-+]/.test(wordText(arg) ?? ""));
      const text = body === undefined ? null : wordText(body);
      return text === null ? null : this.body(text, shell, directory, nesting + 1);
    }
    return null;
  }

  /** Judges a command line. `cd` to a known folder moves where later paths start; to an unknown one it does not. */
  body(text: string, shell: string, start: string, nesting: number): ReadOnlyRefusal | null {
    let directory = start;
    const outer: string[] = [];
    for (const step of shellSteps(text, shell)) {
      if (step.kind !== "command") {
        if (step.kind === "open") outer.push(directory);
        else directory = outer.pop() ?? directory;
        continue;
      }
      for (const { operator, target } of step.redirections) {
        const signal = `redirect ${operator}`;
        // In zsh a `!` right behind the operator is part of it.
        const forced = isWild(target[0], "!") && target.length > 1 ? [target, target.slice(1)] : [target];
        const refusal = this.#first(forced, directory, signal, false);
        if (refusal !== null) return refusal;
      }
      const refusal = this.command(step.words, directory, nesting);
      if (refusal !== null) return refusal;
      const moved = changedDirectory(step.words);
      if (moved !== null) directory = from(directory, moved);
    }
    return null;
  }
}

function baseName(text: string): string {
  return text.slice(text.lastIndexOf("/") + 1);
}

function isRecursiveFlag(word: Word): boolean {
  return /^(?:-[A-Za-z]*R[A-Za-z]*|--recursive)$/.test(wordText(word) ?? "");
}

/** Where the command itself stands, behind assignments and wrappers; the number of words when there is none. */
function commandStart(words: readonly Word[]): number {
  let at = 0;
  for (;;) {
    while (at < words.length && /^[A-Za-z_][A-Za-z0-9_]*\+?=/.test(leading(words[at]!))) at++;
    const text = at < words.length ? wordText(words[at]!) : null;
    const name = text === null ? "" : baseName(text);
    if (!Object.hasOwn(WRAPPERS, name)) return at;
    const { valued, words: further = 0 } = WRAPPERS[name]!;
    for (at++; at < words.length; at++) {
      const flag = wordText(words[at]!) ?? "";
      if (!flag.startsWith("-")) break;
      if (flag === "--") {
        at++;
        break;
      }
      if (!flag.startsWith("--") && valued.includes(flag.at(-1)!)) at++;
    }
    at += further;
  }
}

/** The characters a word starts with, up to what is unknown. */
function leading(word: Word): string {
  const unknown = word.findIndex((cell) => cell.kind === "unknown");
  return wordText(unknown < 0 ? word : word.slice(0, unknown)) ?? "";
}

/** Where `cd` or `pushd` leads, when the command is one with a known folder. */
function changedDirectory(words: readonly Word[]): string | null {
  const name = words[0] === undefined ? null : wordText(words[0]);
  if (name !== "cd" && name !== "pushd") return null;
  const target = words.slice(1).find((word) => !/^-[LPe@]*$|^--$/.test(wordText(word) ?? "") || wordText(word) === "-");
  if (target === undefined || isPattern(target) || isWild(target[0], "~")) return null;
  const text = wordText(target);
  return text === "-" ? null : text;
}

/** The refusal of a shell call, or `null` when it is not seen to write to a covered path. */
export function refuseShellWrite(paths: ReadOnlyPaths, call: ShellCall): ReadOnlyRefusal | null {
  if (paths.isEmpty) return null;
  const judge = new CommandJudge(paths);
  return call.kind === "body"
    ? judge.body(call.text, call.shell, ".", 0)
    : judge.command([call.binary, ...call.args].map(literalWord), ".", 0);
}
