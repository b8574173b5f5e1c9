import assert from "node:assert/strict";
import { FrameLog, REPLAY_FRAMES } from "../session/frame_log.ts";
import type { TaskView } from "../session/task_registry.ts";
import type { StreamEvent } from "./stream_events.ts";
import { lastEventId, TaskSubscription, watchStream } from "./task_stream.ts";

const WORKING: TaskView = {
  id: "tsk_a",
  contextId: "ctx_a",
  state: "working",
  message: null,
  response: null,
  prompt: null,
  changedMs: 0,
  submitter: null,
};
const ENDED: TaskView = { ...WORKING, state: "completed", message: "session ended", response: "42" };

function session() {
  const frames = new FrameLog();
  let task = WORKING;
  return {
    frames,
    tasks: { find: () => task },
    text: (taskId = "tsk_a") => frames.publish({ type: "text", taskId, text: "x", final: false }),
    end() {
      task = ENDED;
      frames.publish({
        type: "status",
        taskId: "tsk_a",
        contextId: "ctx_a",
        state: "completed",
        message: "session ended",
        response: "42",
        final: true,
      });
    },
  };
}

async function collect(events: AsyncIterable<StreamEvent>): Promise<(readonly [number | null, string])[]> {
  const seen: (readonly [number | null, string])[] = [];
  for await (const { id, type } of events) seen.push([id, type]);
  return seen;
}

Deno.test("an id to resume from is an unsigned integer, and nothing else", () => {
  assert.deepEqual(["0", "12", "007"].map(lastEventId), [0, 12, 7]);
  assert.equal(lastEventId("9".repeat(400)), Infinity);
  for (const header of [null, "", " ", "-1", "1.5", "1, 2", "0x1", "a"]) {
    assert.equal(lastEventId(header), null, String(header));
  }
});

Deno.test("a task's stream has its frames alone and ends with its final status", async () => {
  const own = session();
  const subscription = new TaskSubscription(own, "tsk_a");
  own.text();
  own.text("tsk_b");
  const { events } = subscription.open(WORKING);
  own.end();
  own.text();
  assert.deepEqual(await collect(events), [[null, "task"], [1, "text"], [null, "artifact"], [3, "status"]]);
});

Deno.test("a reader that lost its task's end gets it all the same, and is told what it lost before", async () => {
  const own = session();
  const { events } = new TaskSubscription(own, "tsk_a").open(WORKING);
  own.text();
  own.end();
  for (let i = 0; i < REPLAY_FRAMES; i++) own.text("tsk_b");
  assert.deepEqual(await collect(events), [[null, "task"], [null, "lagged"], [null, "artifact"], [null, "status"]]);
});

Deno.test("a reader that is slow but not too slow loses the oldest and keeps the end", async () => {
  const own = session();
  const { events } = new TaskSubscription(own, "tsk_a").open(WORKING);
  for (let i = 0; i < 200; i++) own.text();
  own.end();
  const seen = await collect(events);
  assert.deepEqual(seen.slice(0, 3), [[null, "task"], [null, "lagged"], [74, "text"]]);
  assert.deepEqual(seen.slice(-2), [[null, "artifact"], [201, "status"]]);
});

Deno.test("an id that was never issued, or is long gone, gives a gap and all that is kept", async () => {
  const own = session();
  for (let i = 0; i < 5; i++) own.text(i % 2 === 0 ? "tsk_a" : "tsk_b");
  const subscription = new TaskSubscription(own, "tsk_a");
  subscription.replay(99);
  const { events } = subscription.open(WORKING);
  own.end();
  assert.deepEqual(await collect(events), [
    [null, "task"],
    [null, "gap"],
    [1, "text"],
    [3, "text"],
    [5, "text"],
    [null, "artifact"],
    [6, "status"],
  ]);
});

Deno.test("a stream that is closed ends, and one that was never read is no reader any more", async () => {
  const own = session();
  const open = new TaskSubscription(own, "tsk_a").open(WORKING);
  const seen = collect(open.events);
  await new Promise((resolve) => setTimeout(resolve, 1));
  open.close();
  assert.deepEqual(await seen, [[null, "task"]]);
  const abandoned = new TaskSubscription(own, null);
  abandoned.abandon();
  const watched = watchStream(own, "threaded", null);
  watched.close();
  own.text();
  assert.deepEqual(await collect(watched.events), [[null, "connection-ack"]]);
});
