import assert from "node:assert/strict";
import fc from "fast-check";
import { commandArguments, isShellInterpreter, splitWords } from "./command_words.ts";

Deno.test("words are split at unquoted whitespace", () => {
  const cases: Record<string, string[]> = {
    "": [],
    "   ": [],
    "a b\tc\nd": ["a", "b", "c", "d"],
    " a  b ": ["a", "b"],
    "'a b' c": ["a b", "c"],
    '"a b" c': ["a b", "c"],
    "a'b c'd": ["ab cd"],
    '"it\'s"': ["it's"],
    "'say \"hi\"'": ['say "hi"'],
    "a\\ b": ["a b"],
    "'a\\'b'": ["a'b"],
    '"a\\"b"': ['a"b'],
    "'a\\nb'": ["anb"],
    "''": [],
    "a '' b": ["a", "b"],
    "''x": ["x"],
    "'open quote": ["open quote"],
    "trailing\\": ["trailing"],
    "\\\\": ["\\"],
    "$HOME *.ts; rm | x > y && z": ["$HOME", "*.ts;", "rm", "|", "x", ">", "y", "&&", "z"],
    "grüße 😀\u00a0x": ["grüße", "😀", "x"],
  };
  for (const [command, words] of Object.entries(cases)) assert.deepEqual(splitWords(command), words, command);
});

Deno.test("any words survive quoting and splitting", () => {
  const quoted = (word: string) => word.replace(/[\s\\'"]/gu, (char) => `\\${char}`);
  fc.assert(fc.property(fc.array(fc.string({ minLength: 1, unit: "grapheme" })), (words) => {
    assert.deepEqual(splitWords(words.map(quoted).join(" ")), words);
  }));
  fc.assert(fc.property(fc.string({ unit: fc.constantFrom("a", " ", "'", '"', "\\", "\n") }), (command) => {
    for (const word of splitWords(command)) assert.notEqual(word, "");
  }));
});

Deno.test("interpreters get the line, others the words", () => {
  for (const name of ["bash", "sh", "zsh", "fish", "dash", "ksh"]) {
    assert.ok(isShellInterpreter(name));
    assert.deepEqual(commandArguments(name, "a 'b c' | d"), ["-c", "a 'b c' | d"]);
  }
  for (const name of ["python", "git", "BASH", "bash ", "/bin/bash", "rbash"]) {
    assert.equal(isShellInterpreter(name), false);
  }
  assert.deepEqual(commandArguments("git", "commit -m 'a b'"), ["commit", "-m", "a b"]);
});
