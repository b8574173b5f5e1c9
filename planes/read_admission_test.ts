import assert from "node:assert/strict";
import { ReadAdmission } from "./read_admission.ts";

Deno.test("room is given up to the budget, to those who wait in their order, and back when it is released", async () => {
  const admission = new ReadAdmission(100);
  const first = admission.tryTake(60)!;
  const second = admission.tryTake(40)!;
  assert.equal(admission.tryTake(1), null);
  const order: string[] = [];
  const third = admission.take(50, 10_000).then((room) => (order.push("third"), room!));
  const fourth = admission.take(10, 10_000).then((room) => (order.push("fourth"), room!));
  second.release();
  second.release();
  assert.equal(admission.taken, 60);
  // Ten would fit, but somebody came before.
  assert.equal(admission.tryTake(10), null);
  await new Promise((resolve) => setTimeout(resolve, 0));
  assert.deepEqual(order, []);
  first.release();
  for (const room of [await third, await fourth]) room.release();
  assert.deepEqual(order, ["third", "fourth"]);
  assert.equal(admission.taken, 0);
});

Deno.test("what alone is larger than the budget is let in alone", async () => {
  const admission = new ReadAdmission(100);
  const small = admission.tryTake(1)!;
  const large = admission.take(1_000, 10_000);
  const behind = admission.take(1, 10_000);
  small.release();
  const room = (await large)!;
  assert.equal(admission.taken, 1_000);
  room.release();
  (await behind)!.release();
});

Deno.test("who waits too long, or when it is over, is turned away, and those behind go on", async () => {
  const admission = new ReadAdmission(100);
  const held = admission.tryTake(60)!;
  const late = admission.take(80, 10);
  const behind = admission.take(30, 10_000);
  assert.equal(await late, null);
  assert.notEqual(await behind, null);
  const closed = admission.take(100, 10_000);
  admission.close();
  assert.equal(await closed, null);
  held.release();
});

Deno.test("a crowd is turned away at once", async () => {
  const admission = new ReadAdmission(1);
  admission.tryTake(1);
  const waiting = Array.from({ length: 1_024 }, () => admission.take(1, 10_000));
  assert.equal(await admission.take(1, 10_000), null);
  admission.close();
  assert.deepEqual(new Set(await Promise.all(waiting)), new Set([null]));
});
