import assert from "node:assert/strict";
import fc from "fast-check";
import { RecentIds } from "./recent_ids.ts";

Deno.test("whatever comes and goes, it tells what a map and a list would", () => {
  const id = fc.oneof(fc.nat(300).map((number) => `ses_${number}`), fc.string({ maxLength: 5 }), fc.constant("\ud800"));
  const step = fc.oneof(
    { weight: 5, arbitrary: id.map((id) => ({ kind: "add" as const, id })) },
    { weight: 2, arbitrary: id.map((id) => ({ kind: "get" as const, id })) },
    { weight: 2, arbitrary: fc.constant({ kind: "shift" as const, id: "" }) },
  );
  fc.assert(
    fc.property(fc.array(step, { maxLength: 600, size: "max" }), fc.integer({ min: 1, max: 300 }), (steps, max) => {
      const ids = new RecentIds(max);
      const map = new Map<string, number>();
      // Half a character has no bytes of its own.
      const keyOf = (id: string) => id.toWellFormed();
      for (const [number, { kind, id }] of steps.entries()) {
        const [oldest] = map.keys();
        if (kind === "add" && !map.has(keyOf(id))) {
          if (map.size === max) map.delete(oldest!);
          map.set(keyOf(id), number);
          ids.add(id, number);
        } else if (kind === "shift") {
          if (oldest !== undefined) map.delete(oldest);
          ids.shift();
        }
        assert.equal(ids.get(id), map.get(keyOf(id)));
        assert.equal(ids.has(id), map.has(keyOf(id)));
        assert.equal(ids.size, map.size);
        assert.equal(ids.peek(), map.values().next().value);
      }
      for (const [id, number] of map) assert.equal(ids.get(id), number);
    }),
    { numRuns: 300 },
  );
});

Deno.test("many ids are held, long ones too, and the oldest go", () => {
  const ids = new RecentIds(10_000);
  for (let count = 0; count < 25_000; count++) ids.add(`ses_${count}`, count);
  assert.equal(ids.size, 10_000);
  assert.equal(ids.peek(), 15_000);
  assert.deepEqual([14_999, 15_000, 24_999].map((count) => ids.get(`ses_${count}`)), [undefined, 15_000, 24_999]);
  const long = "é".repeat(100_000);
  ids.add(long, 0.5);
  assert.equal(ids.get(long), 0.5);
  assert.ok(!ids.has(`${long}é`));
});
