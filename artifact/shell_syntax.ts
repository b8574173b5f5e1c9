/**
 * Reads a shell command line far enough to see which simple commands and redirections stand in it (spec manifest 9.3).
 *
 * It is no shell: nothing is expanded that would need one. What is inside a command substitution, a process
 * substitution or a here-document is skipped, what an expansion yields is unknown. Reading takes time linear in the
 * length of the text and never fails: text that no shell would accept gives whatever commands can be seen in it. Where
 * shells differ, what one of them would do counts: `((` is two subshells in dash, and `>` inside `[[ ]]` redirects there.
 *
 * @module
 */

/** One character of a word, or what an expansion leaves unknown. */
export type Cell =
  | { readonly kind: "char"; readonly char: string; readonly quoted: boolean }
  /** The current directory: `$PWD`. */
  | { readonly kind: "pwd" }
  | { readonly kind: "unknown" };

/** A word before any expansion. */
export type Word = readonly Cell[];

/** A redirection that writes. */
export interface Redirection {
  /** The operator with its descriptor, e.g. `2>>`. */
  readonly operator: string;
  readonly target: Word;
}

/** Something that happens, in the order it is written. */
export type ShellStep =
  | { readonly kind: "command"; readonly words: readonly Word[]; readonly redirections: readonly Redirection[] }
  /** A subshell begins or ends: the current directory is restored at its end. */
  | { readonly kind: "open" | "close" };

type Token =
  | { readonly kind: "word"; readonly word: Word }
  | { readonly kind: "operator"; readonly text: string };

const UNKNOWN: Cell = { kind: "unknown" };

/** Operators, longest first. */
const OPERATORS = [
  "&>>",
  "&>|",
  "<<<",
  "<<-",
  ";;&",
  "((",
  "))",
  "&&",
  "||",
  "|&",
  ";;",
  ";&",
  ">>",
  ">|",
  ">&",
  "&>",
  "<<",
  "<>",
  "<&",
  ";",
  "&",
  "|",
  "<",
  ">",
  "(",
  ")",
];
const OPERATOR_START = new Set([..."&|;<>()"]);

/** Index behind the bracket that closes the one at `open`; quotes are respected. The end of the text when none does. */
function closing(text: string, open: number, left: string, right: string): number {
  let depth = 0;
  for (let i = open; i < text.length; i++) {
    const char = text[i]!;
    if (char === "\\") i++;
    else if (char === "'") {
      const end = text.indexOf("'", i + 1);
      if (end < 0) return text.length;
      i = end;
    } else if (char === '"') {
      for (i++; i < text.length && text[i] !== '"'; i++) if (text[i] === "\\") i++;
    } else if (char === left) depth++;
    else if (char === right && --depth === 0) return i + 1;
  }
  return text.length;
}

/** Whether a word has an unquoted `[` that is still open. */
function openSubscript(word: Word | null): boolean {
  let open = false;
  for (const cell of word ?? []) {
    if (cell.kind !== "char" || cell.quoted) continue;
    if (cell.char === "[") open = true;
    if (cell.char === "]") open = false;
  }
  return open;
}

const ESCAPES: Readonly<Record<string, string>> = {
  a: "\x07",
  b: "\b",
  e: "\x1b",
  E: "\x1b",
  f: "\f",
  n: "\n",
  r: "\r",
  t: "\t",
  v: "\v",
};

/** Splits the text into words and operators. */
class Lexer {
  #at = 0;
  /** Inside `((`, where bash shifts with `<<`. */
  #arithmetic = 0;
  #word: Cell[] | null = null;
  readonly #tokens: Token[] = [];
  /** Delimiters of here-documents whose bodies begin behind the next line break. */
  readonly #heredocs: { readonly delimiter: string; readonly stripTabs: boolean }[] = [];
  #expectDelimiter: "no" | "plain" | "stripTabs" = "no";

  constructor(readonly text: string, readonly fish: boolean) {}

  #push(char: string, quoted: boolean): void {
    (this.#word ??= []).push({ kind: "char", char, quoted });
  }

  #endWord(): void {
    const word = this.#word;
    if (word === null) return;
    this.#word = null;
    if (this.#expectDelimiter !== "no") {
      const delimiter = word.map((cell) => cell.kind === "char" ? cell.char : "").join("");
      this.#heredocs.push({ delimiter, stripTabs: this.#expectDelimiter === "stripTabs" });
      this.#expectDelimiter = "no";
      return;
    }
    this.#tokens.push({ kind: "word", word });
  }

  #skipHeredocs(): void {
    for (const { delimiter, stripTabs } of this.#heredocs.splice(0)) {
      while (this.#at < this.text.length) {
        const end = this.text.indexOf("\n", this.#at);
        const line = this.text.slice(this.#at, end < 0 ? undefined : end);
        this.#at = end < 0 ? this.text.length : end + 1;
        if ((stripTabs ? line.replace(/^\t+/, "") : line) === delimiter) break;
      }
    }
  }

  /** An expansion at `$`; the position is behind it afterwards. */
  #dollar(quoted: boolean): void {
    const next = this.text[this.#at + 1];
    this.#word ??= [];
    if (next === "(") {
      this.#at = closing(this.text, this.#at + 1, "(", ")");
      this.#word.push(UNKNOWN);
    } else if (next === "{") {
      const end = closing(this.text, this.#at + 1, "{", "}");
      this.#word.push(this.text.slice(this.#at, end) === "${PWD}" ? { kind: "pwd" } : UNKNOWN);
      this.#at = end;
    } else if (next === "'" && !quoted) {
      this.#at += 2;
      this.#ansiQuoted();
    } else if (next === '"' && !quoted) {
      this.#at += 1;
    } else {
      const name = /^\$(?:[A-Za-z_][A-Za-z0-9_]*|[0-9@*#?$!-])/.exec(this.text.slice(this.#at, this.#at + 256))?.[0];
      if (name === undefined) {
        this.#push("$", quoted);
        this.#at += 1;
      } else {
        this.#word.push(name === "$PWD" ? { kind: "pwd" } : UNKNOWN);
        this.#at += name.length;
      }
    }
  }

  /** Inside `$'…'`, with its escapes. */
  #ansiQuoted(): void {
    while (this.#at < this.text.length && this.text[this.#at] !== "'") {
      if (this.text[this.#at] !== "\\") {
        this.#push(this.text[this.#at++]!, true);
        continue;
      }
      const rest = this.text.slice(this.#at, this.#at + 12);
      const code = /^\\(?:x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{1,4})|U([0-9a-fA-F]{1,8})|([0-7]{1,3}))/.exec(rest);
      if (code !== null) {
        const hex = code[1] ?? code[2] ?? code[3];
        const value = hex === undefined ? Number.parseInt(code[4]!, 8) : Number.parseInt(hex, 16);
        this.#push(value <= 0x10ffff ? String.fromCodePoint(value) : "\ufffd", true);
        this.#at += code[0].length;
      } else {
        const char = rest[1] ?? "\\";
        this.#push(ESCAPES[char] ?? char, true);
        this.#at += 2;
      }
    }
    this.#at += 1;
  }

  #singleQuoted(): void {
    this.#word ??= [];
    for (this.#at++; this.#at < this.text.length && this.text[this.#at] !== "'"; this.#at++) {
      // In fish a backslash quotes a quote and itself here; everywhere else it is a character.
      const escaped = this.fish && this.text[this.#at] === "\\" && /['\\]/.test(this.text[this.#at + 1] ?? "");
      if (escaped) this.#at++;
      this.#push(this.text[this.#at]!, true);
    }
    this.#at += 1;
  }

  #doubleQuoted(): void {
    this.#at += 1;
    this.#word ??= [];
    while (this.#at < this.text.length && this.text[this.#at] !== '"') {
      const char = this.text[this.#at]!;
      if (char === "\\") {
        const next = this.text[this.#at + 1] ?? "";
        if (next !== "\n") {
          if (!'$`"\\'.includes(next) || next === "") this.#push("\\", true);
          if (next !== "") this.#push(next, true);
        }
        this.#at += 2;
      } else if (char === "$") this.#dollar(true);
      else if (char === "`") this.#backticks();
      else {
        this.#push(char, true);
        this.#at += 1;
      }
    }
    this.#at += 1;
  }

  #backticks(): void {
    (this.#word ??= []).push(UNKNOWN);
    for (this.#at++; this.#at < this.text.length && this.text[this.#at] !== "`"; this.#at++) {
      if (this.text[this.#at] === "\\") this.#at++;
    }
    this.#at += 1;
  }

  #operator(): void {
    const rest = this.text.slice(this.#at, this.#at + 3);
    if ((rest.startsWith("<(") || rest.startsWith(">(")) && this.#expectDelimiter === "no") {
      // Process substitution: a file name the shell makes up.
      this.#at = closing(this.text, this.#at + 1, "(", ")");
      (this.#word ??= []).push(UNKNOWN);
      return;
    }
    const operator = OPERATORS.find((each) => rest.startsWith(each)) ?? rest[0]!;
    // Digits right before a redirection are its descriptor, not a word.
    const digits =
      this.#word?.every((cell) => cell.kind === "char" && !cell.quoted && /[0-9]/.test(cell.char)) === true &&
      /^[<>]/.test(operator);
    const descriptor = digits ? this.#word!.map((cell) => cell.kind === "char" ? cell.char : "").join("") : "";
    // `a[1<<2]=x` is one word in bash; taking it for a here-document would hide what follows.
    const subscript = openSubscript(this.#word);
    if (digits) this.#word = null;
    this.#endWord();
    this.#at += operator.length;
    if (operator === "((") this.#arithmetic++;
    if (operator === "))") this.#arithmetic = Math.max(0, this.#arithmetic - 1);
    if ((operator === "<<" || operator === "<<-") && this.#arithmetic === 0 && !subscript) {
      this.#expectDelimiter = operator === "<<" ? "plain" : "stripTabs";
      return;
    }
    this.#tokens.push({ kind: "operator", text: descriptor + operator });
  }

  tokens(): readonly Token[] {
    while (this.#at < this.text.length) {
      const char = this.text[this.#at]!;
      if (char === "\n") {
        this.#endWord();
        this.#at += 1;
        this.#tokens.push({ kind: "operator", text: "\n" });
        this.#skipHeredocs();
      } else if (char === " " || char === "\t" || char === "\r") {
        this.#endWord();
        this.#at += 1;
      } else if (char === "\\") {
        if (this.text[this.#at + 1] !== "\n") this.#push(this.text[this.#at + 1] ?? "\\", true);
        this.#at += 2;
      } else if (char === "'") this.#singleQuoted();
      else if (char === '"') this.#doubleQuoted();
      else if (char === "$") this.#dollar(false);
      else if (char === "`") this.#backticks();
      else if (char === "#" && this.#word === null) {
        const end = this.text.indexOf("\n", this.#at);
        this.#at = end < 0 ? this.text.length : end;
      } else if (OPERATOR_START.has(char)) this.#operator();
      else {
        this.#push(char, false);
        this.#at += 1;
      }
    }
    this.#endWord();
    return this.#tokens;
  }
}

/** The text of a word without expansions; `null` when one leaves it unknown. `$PWD` is `.`. */
export function wordText(word: Word): string | null {
  let text = "";
  for (const cell of word) {
    if (cell.kind === "unknown") return null;
    text += cell.kind === "pwd" ? "." : cell.char;
  }
  return text;
}

/** Whether a word is this text and none of it is quoted, as a reserved word has to be. */
function isBare(word: Word, text: string): boolean {
  return word.length === text.length &&
    word.every((cell, index) => cell.kind === "char" && !cell.quoted && cell.char === text[index]);
}

/** A word as one that the reader knows literally. */
export function literalWord(text: string): Word {
  return [...text].map((char) => ({ kind: "char", char, quoted: true }));
}

const WRITES = /^[0-9]*(?:>|>>|>\||<>|>&)$|^&>(?:>|\|)?$/;
const READS = /^[0-9]*(?:<|<&|<<|<<-|<<<)$/;
const RESERVED = ["if", "then", "else", "elif", "while", "until", "do", "!", "{", "time", "coproc"];

/**
 * The simple commands of a command line in the order they are written.
 *
 * @param shell Name of the shell that is to run it; fish quotes differently.
 */
export function shellSteps(text: string, shell: string): readonly ShellStep[] {
  const tokens = new Lexer(text, shell === "fish").tokens();
  const steps: ShellStep[] = [];
  let words: Word[] = [];
  let redirections: Redirection[] = [];
  const endCommand = (): void => {
    if (words.length > 0 || redirections.length > 0) steps.push({ kind: "command", words, redirections });
    words = [];
    redirections = [];
  };

  for (let i = 0; i < tokens.length; i++) {
    const token = tokens[i]!;
    if (token.kind === "word") {
      if (words.length === 0 && RESERVED.some((each) => isBare(token.word, each))) continue;
      words.push(token.word);
      continue;
    }
    const following = tokens[i + 1];
    if (WRITES.test(token.text) || READS.test(token.text)) {
      if (following?.kind !== "word") continue;
      i++;
      if (READS.test(token.text)) continue;
      const copied = token.text.endsWith(">&") && /^(?:[0-9]+-?|-)$/.test(wordText(following.word) ?? "");
      if (copied) continue;
      redirections.push({ operator: token.text, target: following.word });
      // In zsh a `!` of its own behind the operator is part of it.
      const forced = shell === "zsh" && isBare(following.word, "!") ? tokens[i + 1] : undefined;
      if (forced?.kind === "word") redirections.push({ operator: token.text, target: forced.word });
      continue;
    }
    endCommand();
    for (const char of token.text) {
      if (char === "(") steps.push({ kind: "open" });
      if (char === ")") steps.push({ kind: "close" });
    }
  }
  endCommand();
  return steps;
}

/** Most words one word becomes by brace expansion here. */
const MAX_BRACES = 64;
/** Longest word that is expanded, in characters. */
const MAX_BRACED = 4096;

/** The words that unquoted `{a,b}` make of one word; the word itself beyond a bound. */
export function expandBraces(word: Word): readonly Word[] {
  const isChar = (cell: Cell | undefined, char: string): boolean =>
    cell?.kind === "char" && !cell.quoted && cell.char === char;
  if (word.length > MAX_BRACED) return [word];
  const results: Word[] = [];
  const pending: Word[] = [word];
  while (pending.length > 0) {
    const current = pending.pop()!;
    if (results.length + pending.length > MAX_BRACES) return [word];
    let found = false;
    for (let open = 0; open < current.length && !found; open++) {
      if (!isChar(current[open], "{")) continue;
      let depth = 0;
      const cuts = [open];
      for (let i = open; i < current.length; i++) {
        if (isChar(current[i], "{")) depth++;
        else if (isChar(current[i], ",") && depth === 1) cuts.push(i);
        else if (isChar(current[i], "}") && --depth === 0) {
          if (cuts.length > 1) {
            cuts.push(i);
            for (let part = cuts.length - 2; part >= 0; part--) {
              pending.push([
                ...current.slice(0, open),
                ...current.slice(cuts[part]! + 1, cuts[part + 1]),
                ...current.slice(i + 1),
              ]);
            }
            found = true;
          }
          break;
        }
      }
    }
    if (!found) results.push(current);
  }
  return results;
}
