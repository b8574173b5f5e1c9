import assert from "node:assert/strict";
import fc from "fast-check";
import { afterAnswer, afterThreadedTask, type Continuation, continuationUse } from "./driver_continuation.ts";

const HELD: Continuation = { id: "k1", contextId: "ctx_a", acked: 3 };

Deno.test("what the next request carries", () => {
  assert.deepEqual(continuationUse(null, "ctx_a", 5), { continuationId: null, from: 0 });
  assert.deepEqual(continuationUse(HELD, "ctx_a", 5), { continuationId: "k1", from: 3 });
  assert.deepEqual(continuationUse(HELD, "ctx_a", 3), { continuationId: "k1", from: 3 });
  assert.deepEqual(continuationUse(HELD, "ctx_b", 5), { continuationId: null, from: 0 });
  assert.deepEqual(continuationUse(HELD, "ctx_a", 2), { continuationId: null, from: 0 });
});

Deno.test("what is held after an answer", () => {
  assert.deepEqual(afterAnswer("k2", "ctx_a", 7), { id: "k2", contextId: "ctx_a", acked: 7 });
  assert.equal(afterAnswer(null, "ctx_a", 7), null);
  assert.equal(afterAnswer("", "ctx_a", 7), null);
});

Deno.test("a threaded task that ended ok moves the count past its answer, in its own context only", () => {
  assert.deepEqual(afterThreadedTask(HELD, "ctx_a", 9), { ...HELD, acked: 9 });
  assert.deepEqual(afterThreadedTask(HELD, "ctx_b", 9), HELD);
  assert.equal(afterThreadedTask(null, "ctx_a", 9), null);
});

Deno.test("over any run of turns the driver has each message exactly once", () => {
  const step = fc.record({
    context: fc.constantFrom("ctx_a", "ctx_b"),
    grows: fc.nat(3),
    id: fc.constantFrom("k", "", null),
  });
  fc.assert(fc.property(fc.array(step), (steps) => {
    const lists: Record<string, number> = { ctx_a: 1, ctx_b: 1 };
    /** What the driver behind the held id has seen. */
    let known: { context: string; messages: number } | null = null;
    let held: Continuation | null = null;
    for (const { context, grows, id } of steps) {
      const length = lists[context]! += grows;
      const use = continuationUse(held, context, length);
      if (use.continuationId !== null) assert.deepEqual(known, { context, messages: use.from });
      else assert.equal(use.from, 0);
      held = afterAnswer(id, context, length);
      known = held === null ? null : { context, messages: length };
      lists[context]! += 1;
    }
  }));
});
