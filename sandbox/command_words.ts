/**
 * From a tool call's `command` to an argument vector (spec containment 13.2, components 8.7). Pure.
 *
 * @module
 */

/** Binaries whose `command` is a whole shell line, passed with `-c`. */
const SHELL_INTERPRETERS: ReadonlySet<string> = new Set(["bash", "sh", "zsh", "fish", "dash", "ksh"]);

/** Whether a binary takes a shell line instead of arguments. */
export function isShellInterpreter(name: string): boolean {
  return SHELL_INTERPRETERS.has(name);
}

/**
 * Splits a command into words: whitespace separates, `'…'` and `"…"` group, a backslash takes the next character
 * literally everywhere, inside quotes of either kind too. Empty words are dropped, an open quote runs to the end. No
 * variables, patterns or operators.
 */
export function splitWords(command: string): string[] {
  const words: string[] = [];
  let word = "";
  let quote: string | null = null;
  let literal = false;
  const end = () => {
    if (word !== "") words.push(word);
    word = "";
  };
  for (const char of command) {
    if (literal) {
      word += char;
      literal = false;
    } else if (char === "\\") {
      literal = true;
    } else if (quote !== null) {
      if (char === quote) quote = null;
      else word += char;
    } else if (char === '"' || char === "'") {
      quote = char;
    } else if (/\s/u.test(char)) {
      end();
    } else {
      word += char;
    }
  }
  end();
  return words;
}

/** Arguments of a shell tool call: `-c` and the line for an interpreter, the words for any other binary. */
export function commandArguments(binary: string, command: string): string[] {
  return isShellInterpreter(binary) ? ["-c", command] : splitWords(command);
}
