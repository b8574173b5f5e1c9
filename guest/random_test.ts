import assert from "node:assert/strict";
import { crypto, random } from "./random.ts";
import { installTestHost, TestClock } from "./testing_host.ts";

Deno.test("random numbers come from the host's bytes and fill the unit interval", () => {
  const asked: number[] = [];
  installTestHost(new TestClock(), {
    random: {
      getRandomBytes(length) {
        asked.push(length);
        return globalThis.crypto.getRandomValues(new Uint8Array(length));
      },
    },
  });
  const numbers = Array.from({ length: 20_000 }, random);
  assert.deepEqual(asked, [16], "seeded once");
  assert.ok(numbers.every((number) => number >= 0 && number < 1));
  const counts = new Array<number>(10).fill(0);
  for (const number of numbers) counts[Math.floor(number * 10)]! += 1;
  // 2000 expected, standard deviation 42.
  assert.ok(counts.every((count) => count > 1_700 && count < 2_300), counts.join());
  assert.ok(new Set(numbers).size > 19_990);
});

Deno.test("bytes and identifiers", () => {
  installTestHost(new TestClock(), { random: { getRandomBytes: (length) => new Uint8Array(length).fill(0xff) } });
  const part = new Uint16Array(new ArrayBuffer(8), 2, 2);
  assert.equal(crypto.getRandomValues(part), part);
  assert.deepEqual([...new Uint8Array(part.buffer)], [0, 0, 255, 255, 255, 255, 0, 0]);
  assert.equal(crypto.randomUUID(), "ffffffff-ffff-4fff-bfff-ffffffffffff");
  assert.throws(() => crypto.getRandomValues(new Float64Array(1) as never), TypeError);
  assert.throws(() => crypto.getRandomValues(new Uint8Array(65_537)), /65536/);
});
