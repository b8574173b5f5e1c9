import assert from "node:assert/strict";
import fc from "fast-check";
import { Fifo } from "./fifo.ts";

Deno.test("entries leave in the order they came, whatever was let go of between", () => {
  const step = fc.oneof(
    fc.record({ push: fc.nat(3_000) }),
    fc.record({ shift: fc.nat(3_000) }),
    fc.constant("keep" as const),
  );
  fc.assert(
    fc.property(fc.array(step, { maxLength: 12 }), (steps) => {
      const queue = new Fifo<number>();
      let model: number[] = [];
      let next = 0;
      for (const step of steps) {
        if (step === "keep") {
          queue.keep((entry) => entry % 3 !== 0);
          model = model.filter((entry) => entry % 3 !== 0);
        } else if ("push" in step) {
          for (let count = 0; count < step.push; count++) {
            queue.push(next);
            model.push(next++);
          }
        } else {
          const taken = model.splice(0, step.shift);
          for (const entry of taken) {
            assert.equal(queue.peek(), entry);
            assert.equal(queue.shift(), entry);
          }
        }
        assert.equal(queue.size, model.length);
        assert.equal(queue.peek(), model[0]);
      }
    }),
    { numRuns: 50 },
  );
  assert.equal(new Fifo().shift(), undefined);
});
