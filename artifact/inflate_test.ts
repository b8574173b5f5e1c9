import assert from "node:assert/strict";
import { constants, deflateRawSync, inflateRawSync } from "node:zlib";
import fc from "fast-check";
import { inflate } from "./inflate.ts";

const TEXT = new TextEncoder().encode("name: a\nversion: 1\n".repeat(200));

Deno.test("what was deflated comes back, whatever the level, strategy and content", () => {
  const compressible = fc.array(fc.constantFrom("a", "bc", "\n", "name: ", "\0", "ü"), { maxLength: 3_000 })
    .map((parts) => new TextEncoder().encode(parts.join("")));
  fc.assert(fc.property(
    fc.oneof(compressible, fc.uint8Array({ maxLength: 5_000 })),
    fc.integer({ min: 0, max: 9 }),
    fc.constantFrom(constants.Z_DEFAULT_STRATEGY, constants.Z_FIXED, constants.Z_HUFFMAN_ONLY, constants.Z_RLE),
    (content, level, strategy) => {
      const packed = new Uint8Array(deflateRawSync(content, { level, strategy }));
      assert.deepEqual(inflate(packed, content.length), new Uint8Array(content));
    },
  ));
});

Deno.test("more than the size is not made", () => {
  for (const level of [0, 6]) {
    const packed = new Uint8Array(deflateRawSync(TEXT, { level }));
    assert.equal(inflate(packed, TEXT.length - 1), "larger");
    assert.equal(inflate(packed, 0), "larger");
    assert.deepEqual(inflate(packed, TEXT.length + 10), TEXT);
  }
});

Deno.test("data that is cut short or goes on behind its end is damaged", () => {
  for (const level of [0, 6]) {
    const packed = new Uint8Array(deflateRawSync(TEXT, { level }));
    for (let length = 0; length < packed.length; length++) {
      assert.equal(inflate(packed.subarray(0, length), TEXT.length), "damaged");
    }
    assert.equal(inflate(Uint8Array.of(...packed, 0), TEXT.length), "damaged");
  }
});

Deno.test("arbitrary and damaged data gives what zlib makes of it, or nothing", () => {
  const judge = (packed: Uint8Array) => {
    const made = inflate(packed, 1 << 16);
    if (typeof made === "string") return;
    assert.deepEqual(made, new Uint8Array(inflateRawSync(packed)));
  };
  fc.assert(fc.property(fc.uint8Array({ maxLength: 200 }), judge), { numRuns: 2_000 });
  const packed = new Uint8Array(deflateRawSync(TEXT.subarray(0, 500)));
  for (let at = 0; at < packed.length * 8; at++) {
    const bad = packed.slice();
    bad[at >> 3]! ^= 1 << (at & 7);
    judge(bad);
  }
});
