import assert from "node:assert/strict";
import fc from "fast-check";
import { installPatternCovers, installPatternMatches, isInstallPattern } from "./install_pattern.ts";

Deno.test("a pattern is *, a prefix with one final *, or a name", () => {
  for (const good of ["*", "a*", "a-*", "acme/*", "acme/led*", "ledger", "acme/ledger", "0*"]) {
    assert.ok(isInstallPattern(good), good);
  }
  for (
    const bad of [
      "",
      "**",
      "*a",
      "a*b",
      "-a*",
      "/a*",
      "a//*",
      "a/b/c*",
      "A*",
      "a_b*",
      "a b",
      "a/",
      "-a",
      "a-",
      " a",
      `${"a".repeat(101)}*`,
      `a/${"b".repeat(101)}*`,
    ]
  ) assert.ok(!isInstallPattern(bad), bad);
});

Deno.test("a pattern with / is for the full name, one without for the bare half", () => {
  assert.ok(installPatternMatches("led*", "acme/ledger") && installPatternMatches("led*", "ledger"));
  assert.ok(installPatternMatches("acme/*", "acme/ledger") && !installPatternMatches("acme/*", "ledger"));
  assert.ok(!installPatternMatches("acme*", "acme/ledger"));
  assert.ok(installPatternMatches("ledger", "acme/ledger") && !installPatternMatches("ledger", "acme/ledger2"));
  for (const name of ["A", "a/b/c", "", "../x", "a_b"]) assert.ok(!installPatternMatches("*", name), name);
});

Deno.test("covering is by text and never across the two halves", () => {
  assert.ok(installPatternCovers("*", "l*") && installPatternCovers("*", "a/b"));
  assert.ok(
    installPatternCovers("l*", "led*") && installPatternCovers("l*", "ledger") && installPatternCovers("a/*", "a/b"),
  );
  assert.ok(!installPatternCovers("l*", "local/*") && !installPatternCovers("local/x", "x"));
  assert.ok(!installPatternCovers("led*", "l*") && !installPatternCovers("ledger", "ledger*"));
  assert.ok(!installPatternCovers("l*", "*") && !installPatternCovers("l*", "L"));
});

Deno.test("what a covered pattern lets in, the covering one lets in", () => {
  const half = fc.string({ unit: fc.constantFrom("a", "b", "-"), minLength: 1, maxLength: 3 });
  const name = fc.oneof(half, fc.tuple(half, half).map(([a, b]) => `${a}/${b}`));
  const pattern = fc.oneof(name, name.map((each) => `${each}*`), half.map((each) => `${each}/*`), fc.constant("*"));
  fc.assert(
    fc.property(pattern, pattern, name, (parent, child, artifact) => {
      if (installPatternCovers(parent, child) && installPatternMatches(child, artifact)) {
        assert.ok(installPatternMatches(parent, artifact));
      }
    }),
    { numRuns: 3000 },
  );
});
