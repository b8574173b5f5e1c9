import assert from "node:assert/strict";
import fc from "fast-check";
import { type Frame, type FrameBody, FrameLog, REPLAY_CHARACTERS, REPLAY_FRAMES } from "./frame_log.ts";

const text = (length: number) => ({ type: "text", taskId: "t", text: "x".repeat(length), final: false }) as const;
const ids = (log: FrameLog, after: number) => log.replay(after).frames.map(({ id }) => id);

Deno.test("kept frames are bounded by number and by size, and readers still get every new one", () => {
  const log = new FrameLog();
  const seen: number[] = [];
  log.subscribe(({ id }) => seen.push(id));
  for (let i = 0; i < REPLAY_FRAMES + 3; i++) log.publish(text(1));
  assert.deepEqual(ids(log, 0)[0], 4);
  assert.equal(ids(log, 0).length, REPLAY_FRAMES);
  assert.deepEqual(ids(log, REPLAY_FRAMES + 2), [REPLAY_FRAMES + 3]);

  const half = REPLAY_CHARACTERS / 2;
  for (let i = 0; i < 5; i++) log.publish(text(half));
  assert.deepEqual(ids(log, 0), [log.lastId - 1, log.lastId]);
  log.publish(text(REPLAY_CHARACTERS + 1));
  assert.deepEqual(ids(log, 0), [log.lastId]);
  assert.equal(log.frame(log.lastId)?.id, log.lastId);
  assert.equal(log.frame(log.lastId - 1), undefined);
  log.publish(text(1));
  assert.deepEqual(ids(log, 0), [log.lastId]);
  assert.equal(seen.length, log.lastId);
});

Deno.test("a replay gives exactly the frames after an id, or says where the gap ends and gives all", () => {
  fc.assert(fc.property(fc.integer({ min: 0, max: 1200 }), fc.integer({ min: 0, max: 1300 }), (published, seen) => {
    const log = new FrameLog();
    for (let i = 0; i < published; i++) log.publish(text(1));
    const { gap, frames } = log.replay(seen);
    const oldest = Math.max(1, published - REPLAY_FRAMES + 1);
    if (published === 0) assert.deepEqual({ gap, frames }, { gap: null, frames: [] });
    else if (seen > published || seen + 1 < oldest) {
      assert.equal(gap, oldest);
      assert.equal(frames.length, published - oldest + 1);
    } else {
      assert.equal(gap, null);
      assert.deepEqual(frames.map(({ id }) => id), Array.from({ length: published - seen }, (_, i) => seen + 1 + i));
    }
  }));
});

Deno.test("what is shown reaches the terminal and no stream, has no number and is not kept", () => {
  const log = new FrameLog();
  const streamed: Frame[] = [];
  const watched: FrameBody[] = [];
  log.subscribe((frame) => streamed.push(frame));
  log.watch((body) => watched.push(body));
  log.show(text(1));
  log.publish(text(2));
  const status = { type: "status", taskId: "t", contextId: "c", state: "working", message: "m", final: false } as const;
  log.publish(status);
  const { atMs } = streamed[0]!;
  assert.deepEqual(streamed, [{ id: 1, atMs, ...text(2) }, { id: 2, atMs: streamed[1]!.atMs, ...status }]);
  assert.ok(Math.abs(Date.now() - atMs) < 60_000);
  assert.deepEqual(watched, [text(1), status]);
  assert.deepEqual(ids(log, 0), [1, 2]);
});

Deno.test("readers are told once that the session ended, a late one at once, one that left never", () => {
  const log = new FrameLog();
  const told: string[] = [];
  log.subscribe(() => {}, () => told.push("a"));
  log.subscribe(() => {}, () => told.push("left"))();
  log.close();
  log.close();
  log.subscribe(() => {}, () => told.push("late"));
  assert.deepEqual(told, ["a", "late"]);
});
