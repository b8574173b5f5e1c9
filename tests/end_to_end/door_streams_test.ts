/**
 * Streams of real sessions: what a client that went away gets back, and how they end (spec door 12).
 *
 * @module
 */
import assert from "node:assert/strict";
import { ClientFactory } from "@a2a-js/sdk/client";
import { SendMessageRequest, type StreamResponse } from "@a2a-js/sdk";
import { agentProject, capsule, toolEntry } from "../support/agent_project.ts";
import {
  allEvents,
  type DoorSession,
  message,
  type SentEvent,
  sentEvents,
  startSession,
} from "../support/door_session.ts";

const serving = () =>
  agentProject(capsule({
    artifacts: [toolEntry("probe-tool")],
    lifecycle: { task_acceptance: "queue", after_task: "sleep", queue_depth: 2 },
  }));

/** Frames of every kind, in bursts with pauses between. */
const SCRIPT = {
  turns: [
    {
      delayMs: 40,
      thinking: ["so", "then"],
      chunks: ["one ", "two "],
      calls: [{ name: "probe-tool", input: { operation: "chunk", text: "t" } }],
    },
    {
      delayMs: 40,
      chunks: ["three "],
      calls: [{ name: "probe-tool", input: { operation: "letters", size: 2_000_000 } }],
    },
    { delayMs: 40, chunks: ["four"], text: "four" },
  ],
};

const textOf = ({ data: { result } }: SentEvent) => result.artifactUpdate?.artifact.parts[0].text as string | undefined;

/** What a reader has seen, by the number of its frame; pieces without a number belong to the next one. */
function framesOf(events: readonly SentEvent[]): Map<number, string> {
  const frames = new Map<number, string>();
  let pieces = "";
  for (const event of events) {
    if (event.event === "task" || event.event === ":") continue;
    const { result } = event.data;
    pieces += result.statusUpdate === undefined
      ? `${result.artifactUpdate.artifact.artifactId.replace(/\d+/, "N")}:${textOf(event)!.length};`
      : JSON.stringify(result.statusUpdate.metadata.murmur);
    if (event.id === null) continue;
    const id = Number(event.id);
    assert.ok(!frames.has(id), `frame ${id} came twice`);
    frames.set(id, pieces);
    pieces = "";
  }
  return frames;
}

/** Runs the script once and gives its frames, numbered from its first. */
async function scripted(session: DoorSession): Promise<SentEvent[]> {
  return await allEvents(await session.stream("SendStreamingMessage", message(SCRIPT)));
}

/** Starts the script and leaves after so many events. */
async function leaveAfter(
  session: DoorSession,
  count: number,
): Promise<{ readonly taskId: string; readonly seen: SentEvent[] }> {
  const seen: SentEvent[] = [];
  for await (const event of sentEvents(await session.stream("SendStreamingMessage", message(SCRIPT)))) {
    seen.push(event);
    if (seen.length === count) break;
  }
  return { taskId: seen[0]!.data.result.task.id, seen };
}

/** Waits until a task has ended. */
async function ended(session: DoorSession, taskId: string): Promise<void> {
  for (;;) {
    const { result } = await session.rpc("GetTask", { id: taskId });
    if (result.status.state === "TASK_STATE_COMPLETED") return;
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

const taskOf = ({ data: { result } }: SentEvent): string | undefined =>
  (result.statusUpdate ?? result.artifactUpdate)?.taskId;

/** A task's frames after an id, from the session's stream. */
async function watched(session: DoorSession, taskId: string, after: string): Promise<SentEvent[]> {
  const events: SentEvent[] = [];
  for await (const event of sentEvents(await session.stream("murmur.WatchStream", {}, { "last-event-id": after }))) {
    if (event.event === "connection-ack" || taskOf(event) !== taskId) continue;
    events.push(event);
    if (event.data.result.statusUpdate?.metadata.murmur.final === true && event.event === "status") break;
  }
  return events;
}

Deno.test("a client that leaves at any event gets exactly the missing ones, once and in order", async () => {
  await using project = await serving();
  await using session = await startSession(project);
  const whole = await scripted(session);
  // Numbers are the session's; those of a task are told apart by their distance to its first frame.
  const template = [...framesOf(whole)].map(([id, shown]) => [id - 1, shown]);
  assert.ok(whole.length >= 18, `${whole.length} events`);
  let subscribed = 0;
  for (let count = 1; count <= whole.length; count++) {
    const firstId = count * template.length + 1;
    const { taskId, seen } = await leaveAfter(session, count);
    const numbered = seen.findLastIndex(({ id }) => id !== null);
    const after = seen[numbered]?.id ?? String(firstId - 1);
    const again = await session.stream("SubscribeToTask", { id: taskId }, { "last-event-id": after });
    let rest: SentEvent[];
    if (again.headers.get("content-type") === "text/event-stream") {
      rest = await allEvents(again);
      assert.equal(rest.shift()!.event, "task");
      subscribed++;
    } else {
      assert.equal((await again.json()).error.code, -32004);
      // The task has ended meanwhile: the session's stream still holds what is missing, unless nothing is.
      const isWhole = after === String(firstId + template.length - 1);
      rest = isWhole ? [] : await watched(session, taskId, after);
    }
    await ended(session, taskId);
    // A reader that left in the middle of a frame that comes in pieces takes the frame from its start.
    const all = [...framesOf(seen.slice(0, numbered + 1)), ...framesOf(rest)];
    assert.deepEqual(
      all.map(([id, shown]) => [id - firstId, shown]),
      template,
      `left after ${count} of ${whole.length}`,
    );
  }
  assert.ok(subscribed >= whole.length / 2, `${subscribed} of ${whole.length} came back while the task ran`);
  assert.equal((await session.stop()).status, 0);
});

Deno.test("the official client that lost its stream gets the task as it stands, then every later event once", async () => {
  await using project = await serving();
  await using session = await startSession(project);
  const client = await new ClientFactory().createFromUrl(session.url);
  const frameOf = ({ payload }: StreamResponse) =>
    payload?.$case === "task"
      ? "task"
      : payload?.$case === "statusUpdate"
      ? JSON.stringify(payload.value.metadata)
      : payload?.$case === "artifactUpdate"
      ? `${payload.value.artifact!.artifactId} ${String(payload.value.artifact!.parts[0]!.content!.value).length}`
      : "";
  const whole = (await collect(client.sendMessageStream(SendMessageRequest.fromJSON(message(SCRIPT))))).map(frameOf);
  const withoutNumbers = (text: string) => text.replace(/tool-\d+/, "tool");
  for (let count = 1; count < whole.length; count++) {
    let taskId = "";
    let seen = 0;
    for await (const { payload } of client.sendMessageStream(SendMessageRequest.fromJSON(message(SCRIPT)))) {
      if (payload?.$case === "task") taskId = payload.value.id;
      if (++seen === count) break;
    }
    const rest: StreamResponse[] = [];
    try {
      for await (const event of client.resubscribeTask({ id: taskId, tenant: "" })) rest.push(event);
    } catch (error) {
      // It had ended; then the task itself holds everything.
      assert.match(String(error), /has ended/);
    }
    const task = await client.getTask({ id: taskId, tenant: "" });
    assert.equal(String(task.artifacts[0]!.parts[0]!.content!.value), "four");
    if (rest.length === 0) continue;
    assert.equal(rest[0]!.payload!.$case, "task");
    // What follows is the end of the whole stream, nothing left out and nothing twice.
    const tail = rest.slice(1).map(frameOf).map(withoutNumbers);
    assert.deepEqual(tail, whole.map(withoutNumbers).slice(whole.length - tail.length), `left after ${count}`);
    assert.ok(tail.length <= whole.length - 1);
  }
  assert.equal((await session.stop()).status, 0);
});

async function collect(stream: AsyncIterable<StreamResponse>): Promise<StreamResponse[]> {
  const events: StreamResponse[] = [];
  for await (const event of stream) events.push(event);
  return events;
}

Deno.test("the end of the session reaches everybody who waits: streams, watchers and held requests", async () => {
  await using project = await agentProject(capsule({ lifecycle: { task_acceptance: "single" } }));
  await using session = await startSession(project);
  const watchedStream = allEvents(await session.stream("murmur.WatchStream"));
  const held = session.rpc("SendMessage", message({ turns: [{ delayMs: 300, text: "done" }] }, {}, {}));
  const { result } = await until(async () => {
    const listed = await session.rpc("ListTasks");
    return listed.result.totalSize === 1 ? listed : null;
  });
  const followed = allEvents(await session.stream("SubscribeToTask", { id: result.tasks[0].id }));
  // Its one task ends it: exit after a task, single.
  const outcome = await session.finish();
  assert.equal(outcome.status, 0, outcome.stderr);
  assert.equal((await held).result.task.artifacts[0].parts[0].text, "done");
  assert.equal((await followed).at(-1)!.data.result.statusUpdate.status.state, "TASK_STATE_COMPLETED");
  const seen = await watchedStream;
  assert.equal(seen.at(-1)!.event, "capsule-closed");
  assert.deepEqual(outcome.events("a2a_task_received").length, 1);
});

async function until<T>(ask: () => Promise<T | null>): Promise<T> {
  for (;;) {
    const got = await ask();
    if (got !== null) return got;
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

Deno.test("a session that is stopped tells its streams how their tasks ended", async () => {
  await using project = await serving();
  await using session = await startSession(project);
  const slow = { turns: [{ delayMs: 60_000, text: "never" }] };
  const running = allEvents(await session.stream("SendStreamingMessage", message(slow)));
  await session.traced("task_start");
  const queued = allEvents(await session.stream("SendStreamingMessage", message(slow)));
  const held = session.rpc("SendMessage", message(slow, {}, {}));
  const watching = allEvents(await session.stream("stream/watch"));
  await until(async () => (await session.rpc("ListTasks")).result.totalSize === 3 ? true : null);
  const outcome = await session.stop();
  assert.equal(outcome.status, 1, outcome.stderr);
  const last = async (events: Promise<SentEvent[]>) => (await events).at(-1)!.data.result.statusUpdate.status;
  assert.deepEqual((await last(running)).state, "TASK_STATE_CANCELED");
  const rejected = await last(queued);
  assert.deepEqual([rejected.state, rejected.message.parts[0].text], [
    "TASK_STATE_REJECTED",
    "task rejected: the session was stopped before this task started",
  ]);
  assert.equal((await held).result.task.status.state, "TASK_STATE_REJECTED");
  const seen = await watching;
  assert.equal(seen.at(-1)!.event, "capsule-closed");
  assert.deepEqual(seen.filter(({ data }) => data.final === true).length, 3);
  assert.deepEqual(outcome.trace.at(-1)!.event_type, "session_end");
  assert.equal(outcome.events("task_rejected").length, 2);
});
