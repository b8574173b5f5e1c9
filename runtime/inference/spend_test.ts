import assert from "node:assert/strict";
import fc from "fast-check";
import { admitSpend, openingSpend, settleSpend, spendOpen, spendRefusalText, type SpendState } from "./spend.ts";

const ask = (state: SpendState, input: number, mostOutput: number, machineDay = 0) =>
  admitSpend(state, { input, mostOutput }, machineDay);

Deno.test("a call that fits exactly is sent, one token more is not", () => {
  const opening = openingSpend({ session: 100, machine: null });
  const [, fits] = ask(opening, 60, 40);
  assert.deepEqual(fits, { admitted: true, id: 1 });
  const [refused, decision] = ask(opening, 60, 41);
  assert.deepEqual(decision, { admitted: false, limit: "session", ceiling: 100, used: 0, requested: 101 });
  assert.ok(refused.latched);
});

Deno.test("a refusal of the session's ceiling latches: later calls are refused though they would fit", () => {
  const [latched] = ask(openingSpend({ session: 100, machine: null }), 101, 0);
  const [, decision] = ask(latched, 1, 0);
  assert.deepEqual(decision, { admitted: false, limit: "session", ceiling: 100, used: 0, requested: 1 });
});

Deno.test("a refusal of the machine's ceiling does not latch", () => {
  const opening = openingSpend({ session: null, machine: 100 });
  const [after, refused] = ask(opening, 50, 10, 60);
  assert.deepEqual(refused, { admitted: false, limit: "machine", ceiling: 100, used: 60, requested: 60 });
  assert.equal(after, opening);
  assert.equal(ask(after, 30, 10, 60)[1].admitted, true);
});

Deno.test("calls in flight count with their reservation, settled ones with what they cost", () => {
  const [one, first] = ask(openingSpend({ session: 100, machine: 1000 }), 30, 30);
  assert.ok(first.admitted && spendOpen(one));
  assert.equal(ask(one, 20, 21)[1].admitted, false);
  const settled = settleSpend(one, first.admitted ? first.id : 0, 30, 5);
  assert.equal(settled.used, 35);
  assert.ok(!spendOpen(settled));
  assert.equal(ask(settled, 45, 20)[1].admitted, true);
  // The machine's day holds settled calls already: only what flies is added.
  assert.equal(ask(one, 20, 20, 900)[1].admitted, true);
  assert.equal(ask(one, 20, 20, 901)[1].admitted, false);
});

Deno.test("a call is charged once", () => {
  const [state] = ask(openingSpend({ session: 100, machine: null }), 10, 10);
  const once = settleSpend(state, 1, 10, 3);
  assert.equal(settleSpend(once, 1, 10, 3), once);
  assert.equal(settleSpend(once, 99, 10, 3), once);
});

Deno.test("the text names the ceiling and ends as agreed", () => {
  for (const limit of ["session", "machine"] as const) {
    const text = spendRefusalText({ limit, ceiling: 100, used: 90, requested: 20 });
    assert.match(text, /^stopped: spend ceiling reached: .*100.*90.*20; retrying will not get past it$/);
  }
});

Deno.test("whatever is asked and settled, no call is sent that could cross the session's ceiling", () => {
  const step = fc.oneof(
    fc.record({ kind: fc.constant("ask" as const), input: fc.nat(500), mostOutput: fc.nat(500) }),
    fc.record({
      kind: fc.constant("settle" as const),
      pick: fc.nat(10),
      share: fc.double({ min: 0, max: 1, noNaN: true }),
    }),
  );
  fc.assert(fc.property(fc.nat(2_000), fc.array(step, { maxLength: 60 }), (ceiling, steps) => {
    let state = openingSpend({ session: ceiling, machine: null });
    const open = new Map<number, { input: number; mostOutput: number }>();
    let spent = 0;
    let refused = false;
    for (const move of steps) {
      if (move.kind === "ask") {
        const [next, decision] = admitSpend(state, move, 0);
        state = next;
        if (decision.admitted) {
          assert.ok(!refused);
          open.set(decision.id, move);
        } else refused = true;
      } else {
        const entry = [...open][move.pick % Math.max(1, open.size)];
        if (entry === undefined) continue;
        const [id, call] = entry;
        const output = Math.floor(call.mostOutput * move.share);
        open.delete(id);
        spent += call.input + output;
        state = settleSpend(state, id, call.input, output);
      }
      const worst = [...open.values()].reduce((sum, call) => sum + call.input + call.mostOutput, spent);
      assert.ok(worst <= ceiling);
      assert.equal(state.used, spent);
      assert.equal(spendOpen(state), open.size > 0);
    }
  }));
});
