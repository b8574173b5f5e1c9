import assert from "node:assert/strict";
import { readSummary } from "./test_runner.ts";

Deno.test("the last summary counts, coloured or not, with or without steps", () => {
  assert.deepEqual(readSummary("ok | 3 passed | 0 failed (1ms)\n"), { passed: 3, failed: 0 });
  assert.deepEqual(readSummary("\x1b[31mFAILED\x1b[0m | 3 passed (2 steps) | 1 failed (1 step) | 2 ignored (1ms)"), {
    passed: 3,
    failed: 1,
  });
  assert.deepEqual(readSummary("ok | 1 passed | 0 failed\nnoise\nFAILED | 1 passed | 4 failed\n"), {
    passed: 1,
    failed: 4,
  });
});

Deno.test("output without a summary is no count", () => {
  assert.equal(readSummary("error: Module not found"), null);
});
