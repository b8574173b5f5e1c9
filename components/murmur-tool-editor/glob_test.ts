import assert from "node:assert/strict";
import { globPattern } from "./glob.ts";

Deno.test("globs match whole paths", () => {
  const cases: [string, string[], string[]][] = [
    ["*.ts", ["a.ts", "a.b.ts"], ["a.tsx", "src/a.ts", ".hidden.ts", "a.ts/b"]],
    ["src/*.ts", ["src/a.ts"], ["src/x/a.ts", "a.ts", "xsrc/a.ts"]],
    ["**/*.ts", ["a.ts", "src/a.ts", "a/b/c.ts"], ["a.js", ".git/a.ts"]],
    ["src/**", ["src/a", "src/a/b"], ["src2/a"]],
    ["src/**/x.ts", ["src/x.ts", "src/a/b/x.ts"], ["x.ts"]],
    ["**", ["a", "a/b"], [".a", "a/.b"]],
    ["a?c", ["abc"], ["ac", "a/c", "abbc"]],
    ["[a-c]x", ["ax", "cx"], ["dx"]],
    ["[!a-c]x", ["dx"], ["ax", "/x"]],
    ["[]]x", ["]x"], ["ax"]],
    ["*.{ts,tsx}", ["a.ts", "a.tsx"], ["a.js", "a.{ts,tsx}"]],
    ["{a,b/c}.md", ["a.md", "b/c.md"], ["b.md"]],
    [".*", [".env"], ["env"]],
    ["a(1)+$.txt", ["a(1)+$.txt"], ["a1.txt"]],
    ["a\\*b", ["a*b"], ["axb"]],
    ["[", ["["], []],
    ["ä*", ["äh"], ["ah"]],
  ];
  for (const [pattern, yes, no] of cases) {
    for (const path of yes) assert.ok(globPattern(pattern).test(path), `${pattern} ${path}`);
    for (const path of no) assert.ok(!globPattern(pattern).test(path), `${pattern} ${path}`);
  }
});
