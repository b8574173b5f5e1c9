import assert from "node:assert/strict";
import { FrameLog, REPLAY_CHARACTERS, REPLAY_FRAMES } from "./frame_log.ts";

const text = (length: number) => ({ type: "text", taskId: "t", text: "x".repeat(length), final: false }) as const;

Deno.test("kept frames are bounded by number and by size, and readers still get every new one", () => {
  const log = new FrameLog();
  const seen: number[] = [];
  log.subscribe(({ id }) => seen.push(id));
  for (let i = 0; i < REPLAY_FRAMES + 3; i++) log.publish(text(1));
  assert.deepEqual(log.after(0).map(({ id }) => id)[0], 4);
  assert.equal(log.after(0).length, REPLAY_FRAMES);
  assert.deepEqual(log.after(REPLAY_FRAMES + 2).map(({ id }) => id), [REPLAY_FRAMES + 3]);

  const half = REPLAY_CHARACTERS / 2;
  for (let i = 0; i < 5; i++) log.publish(text(half));
  assert.deepEqual(log.after(0).map(({ id }) => id), [log.lastId - 1, log.lastId]);
  log.publish(text(REPLAY_CHARACTERS + 1));
  assert.deepEqual(log.after(0), []);
  log.publish(text(1));
  assert.deepEqual(log.after(0).map(({ id }) => id), [log.lastId]);
  assert.equal(seen.length, log.lastId);
});
