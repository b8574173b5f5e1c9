import assert from "node:assert/strict";
import fc from "fast-check";
import { recipeOf } from "./recipe.ts";

const FILES: Readonly<Record<string, string>> = {
  "Makefile":
    "CC := gcc\n.PHONY: all\nall: build\n\techo all\n\nbuild test: dep\n\trm -rf /\n\t@echo done\n# x: y\nlast:\n\techo last",
  "other.mk": "all:\n\techo other\n",
  "justfile": "set shell := ['sh']\nx := 'a'\ndeploy target='prod':\n    kubectl apply\n    echo {{target}}\n",
  "package.json": '{"scripts":{"pretest":"one","test":"two","build":"tsc","bad":3}}',
};
const read = (name: string) => Object.hasOwn(FILES, name) ? FILES[name]! : null;
const argv = (...words: string[]) => recipeOf({ binary: words[0]!, argv: words, script: null }, read);
const script = (text: string) => recipeOf({ binary: "/bin/sh", argv: ["sh", "-c", text], script: text }, read);

Deno.test("targets of make, just and npm, run directly or in a script", () => {
  assert.equal(argv("make", "test"), "rm -rf /\n@echo done");
  assert.equal(argv("/usr/bin/make", "-j", "4", "A=b", "last"), "echo last");
  assert.equal(argv("make"), "echo all");
  assert.equal(argv("make", "-f", "other.mk"), "echo other");
  assert.equal(argv("make", "build", "last"), "rm -rf /\n@echo done\necho last");
  assert.equal(argv("just", "deploy", "prod"), "kubectl apply\necho {{target}}");
  assert.equal(argv("npm", "test"), "one\ntwo");
  assert.equal(argv("npm", "run", "--silent", "build"), "tsc");
  assert.equal(script("cd x && make test; npm run build"), "rm -rf /\n@echo done\ntsc");
});

Deno.test("what cannot be told has no recipe", () => {
  for (
    const words of [["ls"], ["make", "none"], ["make", "-C", "x", "test"], ["npm", "run"], ["npm", "run", "bad"], [
      "npm",
      "run",
      "toString",
    ], ["just", "-f", "x"]]
  ) assert.equal(argv(...words), null, words.join(" "));
  assert.equal(script("make $TARGET"), null);
  assert.equal(recipeOf({ binary: "make", argv: ["make"], script: null }, () => null), null);
});

Deno.test("no file and no command line makes it fail", () => {
  fc.assert(fc.property(fc.string(), fc.array(fc.string()), (text, words) => {
    for (const program of ["make", "just", "npm"]) {
      recipeOf({ binary: program, argv: [program, ...words], script: null }, () => text);
    }
    recipeOf({ binary: "sh", argv: ["sh", "-c", text], script: text }, () => text);
  }));
});
