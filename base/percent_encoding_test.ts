import assert from "node:assert/strict";
import fc from "fast-check";
import { percentDecode, percentDecodeForRecord, percentEncodePath } from "./percent_encoding.ts";

Deno.test("what is encoded is decoded once", () => {
  for (
    const [encoded, text] of [
      ["", ""],
      ["a/b", "a/b"],
      ["a%2Fb%2fc", "a/b/c"],
      ["%2e%2E", ".."],
      ["%252e", "%2e"],
      ["%00", "\0"],
      ["a+b", "a+b"],
      ["%C3%A4ä", "ää"],
      ["%F0%9F%98%80", "😀"],
      ["%EF%BB%BFx", "\ufeffx"],
    ] as const
  ) assert.equal(percentDecode(encoded), text, encoded);
});

Deno.test("malformed encodings and what is not UTF-8 are none, overlong forms and surrogates among them", () => {
  for (
    const encoded of [
      "%",
      "a%",
      "%2",
      "%2g",
      "%g2",
      "%%32",
      "% 20",
      "%c0%ae%c0%ae", // `..`, overlong
      "%e0%80%ae",
      "%80",
      "%ff",
      "%ed%a0%80",
      "%f4%90%80%80",
      "%c3",
      "\ud800",
      "%41\udc00",
    ]
  ) assert.equal(percentDecode(encoded), null, encoded);
});

Deno.test("records show what can be shown", () => {
  assert.equal(percentDecodeForRecord("a%2Fb"), "a/b");
  assert.equal(percentDecodeForRecord("a%zz%"), "a%zz%");
  assert.equal(percentDecodeForRecord("%ff"), "\ufffd");
});

Deno.test("decoding undoes encoding, and gives what decodeURIComponent gives where that gives anything", () => {
  fc.assert(fc.property(fc.string({ unit: "binary" }), (text) => {
    if (text.isWellFormed()) assert.equal(percentDecode(percentEncodePath(text)), text);
  }));
  fc.assert(
    fc.property(fc.string({ unit: fc.constantFrom("%", "2", "e", "C", "3", "A", "4", "/", "g", "ä") }), (text) => {
      let expected: string | null;
      try {
        expected = decodeURIComponent(text);
      } catch {
        expected = null;
      }
      assert.equal(percentDecode(text), expected);
    }),
  );
});
