import assert from "node:assert/strict";
import { shown } from "./console.ts";

Deno.test("values are shown on one line, for people", () => {
  const circle: Record<string, unknown> = { a: 1 };
  circle["self"] = circle;
  class Named {
    x = 1;
  }
  const cases: [unknown, string][] = [
    ["text", "text"],
    [["a", 1, null, undefined, true], '[ "a", 1, null, undefined, true ]'],
    [{}, "{}"],
    [[], "[]"],
    [{ a: { b: { c: { d: { e: 1 } } } } }, "{ a: { b: { c: { d: [Object] } } } }"],
    [circle, "{ a: 1, self: [Circular] }"],
    [new Map([["k", "v"]]), 'Map { "k" => "v" }'],
    [new Set([1]), "Set { 1 }"],
    [Uint8Array.of(1, 2), "Uint8Array [ 1, 2 ]"],
    [new Date(0), "1970-01-01T00:00:00.000Z"],
    [new Date(NaN), "Invalid Date"],
    [/a/g, "/a/g"],
    [12n, "12n"],
    [Symbol("s"), "Symbol(s)"],
    [function named() {}, "[Function named]"],
    [new Named(), "Named { x: 1 }"],
    [Object.create(null), "{}"],
    [-0, "0"],
  ];
  for (const [value, text] of cases) assert.equal(shown(value), text);
  assert.match(shown(Array.from({ length: 150 }, (_, i) => i)), /98, 99, … 50 more \]$/);
  assert.match(shown(new RangeError("far")), /^RangeError: far\n/);
});
