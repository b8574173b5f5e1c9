import assert from "node:assert/strict";
import fc from "fast-check";
import { judgeSeed, type SeedBudget, seedCeiling } from "./seed.ts";

const BUDGET: SeedBudget = { window: 1_000, share: 0.1, margin: 0.1 };

Deno.test("every outcome at its bound", () => {
  assert.equal(seedCeiling(BUDGET), 100);
  assert.equal(seedCeiling({ ...BUDGET, window: 1_009 }), 100);
  assert.equal(seedCeiling({ ...BUDGET, window: null }), 0);
  const judge = (...tokens: number[]) => judgeSeed(tokens, BUDGET);
  assert.deepEqual(judgeSeed([1], { ...BUDGET, window: null }), { kind: "rejected", reason: "no_budget" });
  assert.deepEqual(judge(101), { kind: "rejected", reason: "message_over_budget" });
  assert.deepEqual(judge(100, 100, 100, 100), { kind: "overflows", from: 3 });
  assert.deepEqual(judge(100, 100, 100, 100, 1), { kind: "rejected", reason: "overflow_over_limit" });
  assert.deepEqual(judge(50, 50), { kind: "seeded" });
  assert.deepEqual(judge(10, 100), { kind: "trimmed", from: 1 });
  assert.deepEqual(judge(11, 100), { kind: "overflows", from: 1 });
  assert.deepEqual(judgeSeed([1], { ...BUDGET, share: 0 }), { kind: "rejected", reason: "message_over_budget" });
});

Deno.test("what is kept fits, and one message more would not", () => {
  fc.assert(fc.property(fc.array(fc.integer({ min: 1, max: 100 })), (tokens) => {
    const decision = judgeSeed(tokens, BUDGET);
    if (decision.kind !== "trimmed" && decision.kind !== "overflows") return;
    const sum = (from: number) => tokens.slice(from).reduce((total, count) => total + count, 0);
    assert.ok(sum(decision.from) <= 100);
    assert.ok(sum(decision.from - 1) > 100);
  }));
});
