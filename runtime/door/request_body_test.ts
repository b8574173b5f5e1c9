import assert from "node:assert/strict";
import fc from "fast-check";
import { bodyText } from "./request_body.ts";

function strictly(bytes: Uint8Array): string {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    return "";
  }
}

Deno.test("the text of a body is its UTF-8, and none when it is no UTF-8", () => {
  const cases: readonly (readonly [number[], string])[] = [
    [[], ""],
    [[0x7b, 0x7d], "{}"],
    [[0x00, 0x7f], "\0\x7f"],
    [[0x22, 0xc3, 0xa9, 0x22], '"é"'],
    [[0x22, 0xef, 0xbf, 0xbd, 0x22], '"\ufffd"'],
    [[0xef, 0xbb, 0xbf, 0x7b, 0x7d], "{}"],
    [[0x22, 0x80, 0x22], ""],
    [[0x22, 0xf0, 0x9f, 0x98, 0x22], ""],
    [[0x22, 0xed, 0xa0, 0x80, 0x22], ""],
    [[0x22, 0xff, 0x22], ""],
  ];
  for (const [bytes, text] of cases) assert.equal(bodyText(Uint8Array.from(bytes)), text, String(bytes));
});

Deno.test("property: bodies of any bytes and length read as a strict decoder reads them", () => {
  const body = fc.oneof(
    fc.uint8Array({ maxLength: 40 }),
    fc.uint8Array({ max: 0x7f, maxLength: 1_200 }),
    fc.string({ unit: "binary", maxLength: 600 }).map((text) => new TextEncoder().encode(text)),
  );
  fc.assert(fc.property(body, (bytes) => assert.equal(bodyText(bytes), strictly(bytes))));
  for (const length of [511, 512, 513]) {
    const bytes = new Uint8Array(length).fill(0x61);
    assert.equal(bodyText(bytes), "a".repeat(length));
    bytes[length - 1] = 0x80;
    assert.equal(bodyText(bytes), "");
  }
});
