import assert from "node:assert/strict";
import { parseByteSize } from "./byte_size.ts";

Deno.test("sizes are digits with Ki, Mi, Gi or nothing", () => {
  assert.equal(parseByteSize("10"), 10);
  assert.equal(parseByteSize(" 5Mi "), 5 * 1024 * 1024);
  assert.equal(parseByteSize("1Ki"), 1024);
  assert.equal(parseByteSize("2Gi"), 2 * 1024 ** 3);
  assert.equal(parseByteSize("0"), 0);
  assert.equal(parseByteSize("0010"), 10);
});

Deno.test("anything else is no size", () => {
  for (
    const text of [
      "",
      " ",
      "10MB",
      "10 Mi",
      "1.5Gi",
      "-1",
      "+1",
      "10mi",
      "10KI",
      "10K",
      "Mi",
      "1_000",
      "0x10",
      "1e3",
      "١",
    ]
  ) assert.equal(parseByteSize(text), null, text);
});

Deno.test("64 bits are the most", () => {
  assert.equal(parseByteSize("18446744073709551615"), Number.MAX_SAFE_INTEGER);
  assert.equal(parseByteSize("18446744073709551616"), null);
  assert.equal(parseByteSize("17179869184Gi"), null);
  assert.equal(parseByteSize("17179869183Gi"), Number.MAX_SAFE_INTEGER);
  assert.equal(parseByteSize("9".repeat(5000)), null);
});
