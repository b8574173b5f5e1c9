import assert from "node:assert/strict";
import fc from "fast-check";
import { SlotMap } from "./slot_map.ts";

Deno.test("a slot map holds what a map holds, whatever came and went", () => {
  const key = fc.oneof(fc.integer({ min: 0, max: 40 }).map((count) => `ses_${count}`), fc.string());
  const step: fc.Arbitrary<{ readonly key: string; readonly value?: number }> = fc.oneof(
    fc.record({ key, value: fc.integer() }),
    fc.record({ key }),
  );
  fc.assert(fc.property(fc.array(step, { maxLength: 300 }), (steps) => {
    const map = new SlotMap<number>();
    const peer = new Map<string, number>();
    for (const step of steps) {
      if (step.value !== undefined) {
        map.set(step.key, step.value);
        peer.set(step.key, step.value);
      } else {
        assert.equal(map.delete(step.key), peer.delete(step.key));
      }
      assert.equal(map.size, peer.size);
      assert.equal(map.get(step.key), peer.get(step.key));
      assert.equal(map.has(step.key), peer.has(step.key));
    }
    assert.deepEqual(new Map(map), peer);
    for (const [key, value] of peer) assert.equal(map.get(key), value);
  }));
});

Deno.test("a slot map of many entries finds each", () => {
  const map = new SlotMap<number>();
  for (let count = 0; count < 100_000; count++) map.set(`key ${count}`, count);
  for (let count = 0; count < 100_000; count += 2) assert.ok(map.delete(`key ${count}`));
  assert.equal(map.size, 50_000);
  for (let count = 0; count < 100_000; count++) {
    assert.equal(map.get(`key ${count}`), count % 2 === 0 ? undefined : count);
  }
});
