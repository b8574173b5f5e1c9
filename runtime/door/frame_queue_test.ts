import assert from "node:assert/strict";
import fc from "fast-check";
import { FrameLog, REPLAY_CHARACTERS, REPLAY_FRAMES } from "../session/frame_log.ts";
import { FrameQueue, QUEUE_FRAMES, type QueueItem } from "./frame_queue.ts";

const text = (taskId: string, length = 1) =>
  ({ type: "text", taskId, text: "x".repeat(length), final: false }) as const;
const final = (taskId: string) =>
  ({ type: "status", taskId, contextId: "c", state: "completed", message: "session ended", final: true }) as const;

/** Everything a queue gives without waiting. */
async function drain(queue: FrameQueue): Promise<QueueItem[]> {
  const items: QueueItem[] = [];
  for (;;) {
    const item = await Promise.race([
      queue.next(),
      new Promise<"waits">((resolve) => setTimeout(() => resolve("waits"), 0)),
    ]);
    if (item === "waits" || item === null) return items;
    items.push(item);
    if (item.kind === "closed") return items;
  }
}

const idsOf = (items: readonly QueueItem[]) => items.flatMap((item) => item.kind === "frame" ? [item.frame.id] : []);
const missedOf = (items: readonly QueueItem[]) =>
  items.reduce((sum, item) => sum + (item.kind === "lagged" ? item.missed : 0), 0);

Deno.test("whatever is written and read when, each frame is given once in order or counted as missed", async () => {
  const step = fc.oneof(
    { weight: 3, arbitrary: fc.record({ publish: fc.integer({ min: 1, max: 90 }), own: fc.boolean() }) },
    { weight: 1, arbitrary: fc.record({ read: fc.integer({ min: 1, max: 60 }) }) },
  );
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 25 }), async (steps) => {
      const log = new FrameLog();
      const queue = new FrameQueue(log, ({ taskId }) => taskId === "a");
      const given: QueueItem[] = [];
      /** How many frames had been published when each was given. */
      const givenAt: number[] = [];
      const own: number[] = [];
      let pending = 0;
      for (const step of steps) {
        if ("publish" in step) {
          for (let i = 0; i < step.publish; i++) {
            const { id } = log.publish(text(step.own ? "a" : "b"));
            if (step.own) own.push(id);
          }
          pending = Math.min(QUEUE_FRAMES, pending + (step.own ? step.publish : 0));
          continue;
        }
        for (let i = 0; i < step.read && pending > 0; i++) {
          const item = (await queue.next())!;
          given.push(item);
          givenAt.push(log.lastId);
          if (item.kind === "frame") pending--;
          if (item.kind === "lagged") {
            // What the log evicted meanwhile is counted when it is noticed.
            pending = own.length - idsOf(given).length - missedOf(given);
          }
        }
      }
      given.push(...await drain(queue));
      const ids = idsOf(given);
      assert.deepEqual(ids, ids.toSorted((a, b) => a - b));
      assert.ok(ids.every((id) => own.includes(id)));
      assert.equal(new Set(ids).size, ids.length);
      assert.equal(ids.length + missedOf(given), own.length);
      // Two notices of loss stand beside each other only when more was lost since the first was given.
      for (const [i, item] of given.slice(1).entries()) {
        const isSecond = item.kind === "lagged" && given[i]!.kind === "lagged";
        assert.ok(!isSecond || givenAt[i] !== (givenAt[i + 1] ?? log.lastId));
      }
      queue.close();
    }),
    { numRuns: 60 },
  );
});

Deno.test("a reader that does not read keeps the newest frames, and is told of the loss before them", async () => {
  const log = new FrameLog();
  const queue = new FrameQueue(log, () => true);
  for (let i = 0; i < QUEUE_FRAMES + 10; i++) log.publish(text("a"));
  const items = await drain(queue);
  assert.deepEqual(items[0], { kind: "lagged", missed: 10 });
  assert.deepEqual(idsOf(items), Array.from({ length: QUEUE_FRAMES }, (_, i) => i + 11));
  queue.close();
});

Deno.test("frames the log had to let go are missed; a reader that stopped reading holds none", async () => {
  const log = new FrameLog();
  const queue = new FrameQueue(log, ({ taskId }) => taskId === "a");
  for (let i = 0; i < 5; i++) log.publish(text("a"));
  for (let i = 0; i < 3; i++) log.publish(text("b", REPLAY_CHARACTERS / 2));
  log.publish(text("a"));
  assert.deepEqual(await drain(queue), [{ kind: "lagged", missed: 5 }, { kind: "frame", frame: log.frame(9)! }]);
  queue.close();
});

Deno.test("a reader that keeps up gets a frame larger than all the log keeps", async () => {
  const log = new FrameLog();
  const queue = new FrameQueue(log, () => true);
  const next = queue.next();
  log.publish(text("a", REPLAY_CHARACTERS + 1));
  const item = await next;
  assert.ok(item?.kind === "frame" && item.frame.id === 1);
  queue.close();
});

Deno.test("a lost final status is known as such", async () => {
  const log = new FrameLog();
  const queue = new FrameQueue(log, ({ taskId }) => taskId === "a");
  log.publish(final("a"));
  assert.ok(!queue.lostFinal);
  for (let i = 0; i < REPLAY_FRAMES; i++) log.publish(text("b"));
  assert.deepEqual(await queue.next(), { kind: "lagged", missed: 1 });
  assert.ok(queue.lostFinal);
  queue.close();
});

Deno.test("a replay is given before what is live, whole, and never again", async () => {
  await fc.assert(
    fc.asyncProperty(fc.nat(700), fc.nat(800), fc.nat(60), async (published, after, later) => {
      const log = new FrameLog();
      for (let i = 0; i < published; i++) log.publish(text(i % 3 === 0 ? "b" : "a"));
      const own = ({ taskId }: { taskId: string }) => taskId === "a";
      const queue = new FrameQueue(log, own);
      queue.replay(after, own);
      const { gap, frames } = log.replay(after);
      for (let i = 0; i < later; i++) log.publish(text("a"));
      const items = await drain(queue);
      queue.close();
      const lost = missedOf(items);
      assert.equal(items.some(({ kind }) => kind === "gap"), gap !== null);
      if (gap !== null) assert.deepEqual(items[0], { kind: "gap", firstAvailableId: gap });
      const expected = [
        ...frames.filter(own).map(({ id }) => id),
        ...Array.from({ length: later }, (_, i) => published + 1 + i),
      ];
      assert.equal(idsOf(items).length + lost, expected.length);
      assert.deepEqual(idsOf(items), expected.slice(lost));
    }),
    { numRuns: 50 },
  );
});

Deno.test("the end of the session comes after everything else, also to a reader that comes late", async () => {
  const log = new FrameLog();
  const queue = new FrameQueue(log, () => true);
  log.publish(text("a"));
  log.close();
  assert.deepEqual((await drain(queue)).map(({ kind }) => kind), ["frame", "closed"]);
  const late = new FrameQueue(log, () => true);
  assert.deepEqual(await late.next(), { kind: "closed" });
});

Deno.test("a closed reader gets nothing, not even what it waits for", async () => {
  const log = new FrameLog();
  const queue = new FrameQueue(log, () => true);
  const waiting = queue.next();
  queue.close();
  assert.equal(await waiting, null);
  log.publish(text("a"));
  assert.equal(await queue.next(), null);
});
