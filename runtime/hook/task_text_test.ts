import assert from "node:assert/strict";
import fc from "fast-check";
import { textLength, textPiece } from "./task_text.ts";

Deno.test("pieces end between characters, offsets count bytes", () => {
  const text = "aä€😀";
  assert.equal(textLength(text), 10);
  assert.equal(textPiece(text, 0, 2), "a");
  assert.equal(textPiece(text, 0, 3), "aä");
  assert.equal(textPiece(text, 3, 2), "");
  assert.equal(textPiece(text, 6, 100), "😀");
  assert.equal(textPiece(text, 10, 1), "");
  for (const outside of [2, 4, 7, 9, 11]) assert.equal(textPiece(text, outside, 5), null, String(outside));
  assert.equal(textPiece("\ufeffx", 0, 10), "\ufeffx");
});

Deno.test("read in pieces of any size, a text is whole", () => {
  fc.assert(fc.property(fc.string({ unit: "binary" }), fc.integer({ min: 4, max: 50 }), (raw, size) => {
    const text = raw.toWellFormed();
    let read = "";
    for (let at = 0; at < textLength(text); at = textLength(read)) read += textPiece(text, at, size)!;
    assert.equal(read, text);
  }));
});
