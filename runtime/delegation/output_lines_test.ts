import assert from "node:assert/strict";
import fc from "fast-check";
import { OutputLines } from "./output_lines.ts";

function lines(pieces: readonly Uint8Array[], max = 100): string[] {
  const found: string[] = [];
  const cut = new OutputLines(max, (line) => found.push(line));
  for (const piece of pieces) cut.add(piece);
  cut.end();
  return found;
}

const bytes = (text: string) => new TextEncoder().encode(text);

Deno.test("lines come as they end, the last one without an ending too", () => {
  assert.deepEqual(lines([bytes("a\nb\r\n\nc")]), ["a", "b", "", "c"]);
  assert.deepEqual(lines([bytes("a\n")]), ["a"]);
  assert.deepEqual(lines([]), []);
});

Deno.test("a line is cut at the bound, and the next one is whole", () => {
  assert.deepEqual(lines([bytes(`${"x".repeat(50)}`), bytes(`${"x".repeat(50)}\nok`)], 10), ["x".repeat(10), "ok"]);
  assert.deepEqual(lines([bytes(`${"x".repeat(9)}\u{1f600}\n`)], 10), [`${"x".repeat(9)}\ufffd`]);
});

Deno.test("how the bytes are cut into pieces does not matter", () => {
  fc.assert(fc.property(fc.string({ unit: "grapheme" }), fc.array(fc.nat(40)), (text, cuts) => {
    const whole = bytes(text);
    const places = [0, ...cuts.map((cut) => cut % (whole.length + 1)).sort((a, b) => a - b), whole.length];
    const pieces = places.slice(1).map((end, index) => whole.subarray(places[index], end));
    assert.deepEqual(lines(pieces, 1_000), lines([whole], 1_000));
  }));
});
