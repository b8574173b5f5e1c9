import assert from "node:assert/strict";
import { LargeAnswers, SMALL_ANSWER_BYTES } from "./large_answer.ts";

const MB = 1 << 20;

function counting(length: number): Uint8Array<ArrayBuffer> {
  return Uint8Array.from({ length }, (_, i) => i % 251);
}

Deno.test("every byte comes once, in pieces, whatever the length", async () => {
  const answers = new LargeAnswers(10_000);
  for (const length of [1, SMALL_ANSWER_BYTES - 1, SMALL_ANSWER_BYTES, SMALL_ANSWER_BYTES + 1, 300_000]) {
    const bytes = counting(length);
    const pieces = await Array.fromAsync(answers.open(bytes)!);
    assert.ok(pieces.every((piece) => piece.length <= SMALL_ANSWER_BYTES));
    assert.deepEqual(new Uint8Array(await new Blob(pieces).arrayBuffer()), bytes);
  }
});

Deno.test("answers that nobody takes share a bound; what is taken, left or broken off makes room", async () => {
  const answers = new LargeAnswers(10_000);
  const first = answers.open(new Uint8Array(40 * MB))!;
  assert.equal(answers.open(new Uint8Array(30 * MB)), null);
  const second = answers.open(new Uint8Array(20 * MB))!;
  assert.equal(answers.open(new Uint8Array(30 * MB)), null);
  await first.cancel();
  const third = answers.open(new Uint8Array(30 * MB))!;
  for await (const _ of second);
  const fourth = answers.open(new Uint8Array(30 * MB))!;
  assert.equal(answers.open(new Uint8Array(30 * MB)), null);
  answers.cut();
  for (const body of [third, fourth]) await assert.rejects(Array.fromAsync(body), { name: "AbortError" });
  const alone = answers.open(new Uint8Array(100 * MB))!;
  assert.equal(answers.open(new Uint8Array(1 * MB)), null, "one alone may be larger than the bound");
  await alone.cancel();
});

Deno.test("an answer of which nothing is taken for long is broken off, one that is taken slowly is not", async () => {
  const answers = new LargeAnswers(60);
  const slow = answers.open(new Uint8Array(4 * SMALL_ANSWER_BYTES))!.getReader();
  const stalled = answers.open(new Uint8Array(64 * MB - 4 * SMALL_ANSWER_BYTES))!.getReader();
  await stalled.read();
  for (let i = 0; i < 4; i++) {
    assert.equal((await slow.read()).done, false);
    await new Promise((resolve) => setTimeout(resolve, 30));
  }
  assert.equal((await slow.read()).done, true);
  await assert.rejects(stalled.read(), { name: "AbortError" });
  await answers.open(new Uint8Array(64 * MB))!.cancel();
});
