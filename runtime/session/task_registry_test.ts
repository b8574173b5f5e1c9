import assert from "node:assert/strict";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import fc from "fast-check";
import { LAUNCH_TASK, requestStanding } from "../agent/task_origin.ts";
import { type Frame, FrameLog, isFinalState, type StatusFrame } from "./frame_log.ts";
import {
  type DoorOrigin,
  InputAborted,
  InputTimeout,
  type ResidueItem,
  type TaskOffer,
  TaskRegistry,
  type TaskRegistryOptions,
  type TaskRequest,
} from "./task_registry.ts";

const DOOR: DoorOrigin = { messageId: "m", traceparent: null, submitter: null, referenceTaskIds: [], partKinds: [] };
const EVENT = requestStanding({ origin: null, trust: null, tokenPresented: false });
const PEER = requestStanding({ origin: "peer", trust: null, tokenPresented: false });
const NEVER = new AbortController().signal;

function offer(more: Partial<TaskOffer> = {}): TaskOffer {
  return { contextId: null, text: "do it", standing: EVENT, door: DOOR, ...more };
}

function launch(id = "tsk_launch"): TaskRequest {
  return {
    id,
    contextId: "ctx_launch",
    loadHistory: false,
    text: "go",
    source: "task_md",
    standing: LAUNCH_TASK,
    door: null,
  };
}

interface Recorded {
  readonly registry: TaskRegistry;
  readonly frames: FrameLog;
  readonly statuses: StatusFrame[];
  readonly records: string[];
  residue: readonly ResidueItem[];
}

function registryWith(options: Partial<TaskRegistryOptions> = {}): Recorded {
  const frames = new FrameLog();
  const statuses: StatusFrame[] = [];
  const records: string[] = [];
  frames.subscribe((frame: Frame) => {
    if (frame.type === "status") statuses.push(frame);
  });
  let contexts = 0;
  const recorded: Recorded = {
    frames,
    statuses,
    records,
    residue: [],
    registry: new TaskRegistry({
      acceptance: "queue",
      queueDepth: 2,
      frames,
      records: {
        canceledQueued: ({ id }) => void records.push(`canceled ${id}`),
        rejected: ({ id }, cause) => void records.push(`${cause} ${id}`),
      },
      contextOf: (contextId) => ({ contextId: contextId ?? `ctx_${++contexts}`, loadHistory: false }),
      residue: () => recorded.residue,
      ...options,
    }),
  };
  return recorded;
}

const said = (statuses: readonly StatusFrame[]) => statuses.map(({ state, message, final }) => [state, message, final]);

Deno.test("none takes nothing, single one task ever, queue as many as may wait", async () => {
  const { registry: none } = registryWith({ acceptance: "none" });
  assert.equal(none.offer(offer()).accepted, false);

  const { registry: single } = registryWith({ acceptance: "single" });
  const first = single.offer(offer());
  assert.equal(first.accepted, true);
  assert.equal(single.offer(offer()).accepted, false);
  await single.next(null, NEVER);
  single.finish(first.task.id, { state: "completed", message: "session ended", response: "42" });
  const late = single.offer(offer());
  assert.deepEqual([late.accepted, late.task.state, late.task.message], [
    false,
    "rejected",
    "task rejected: capsule is busy",
  ]);
  assert.equal(single.find(late.task.id, null), null, "a refused task is not kept");

  const { registry: queue } = registryWith({ queueDepth: 1 });
  assert.equal(queue.offer(offer()).accepted, true);
  assert.equal(queue.offer(offer()).accepted, false);
  await queue.next(null, NEVER);
  assert.equal(queue.offer(offer()).accepted, true, "the running task does not count");
  assert.equal(queue.offer(offer()).accepted, false);
});

Deno.test("a launch task holds the one place of a single session", () => {
  const { registry } = registryWith({ acceptance: "single" });
  registry.enter(launch());
  assert.equal(registry.offer(offer()).task.message, "task rejected: capsule is busy");
});

Deno.test("lanes: user before peer before the rest, first come first served within one", async () => {
  const { registry } = registryWith({ queueDepth: 9 });
  const event = registry.offer(offer()).task.id;
  const peerOne = registry.offer(offer({ standing: PEER })).task.id;
  const peerTwo = registry.offer(offer({ standing: PEER })).task.id;
  registry.enqueue(launch("tsk_user"));
  const order: string[] = [];
  for (let i = 0; i < 4; i++) {
    const next = await registry.next(null, NEVER);
    order.push(next!.request.id);
    registry.finish(next!.request.id, { state: "completed", message: "session ended", response: "" });
  }
  assert.deepEqual(order, ["tsk_user", peerOne, peerTwo, event]);
  assert.equal(registry.generation, 4);
});

Deno.test("waiting for a task ends when its time is over, when it is stopped, and when one comes", async () => {
  const { registry } = registryWith();
  assert.equal(await registry.next(1, NEVER), null);
  const stop = new AbortController();
  const waiting = registry.next(null, stop.signal);
  stop.abort();
  assert.equal(await waiting, null);
  const coming = registry.next(5_000, NEVER);
  const { task } = registry.offer(offer());
  assert.equal((await coming)?.request.id, task.id);
});

Deno.test("a canceled queued task frees its place, has a final frame and its record, and is skipped", async () => {
  const { registry, statuses, records } = registryWith({ queueDepth: 1 });
  const { task } = registry.offer(offer());
  assert.equal(registry.cancel(task.id)?.task.state, "canceled");
  assert.deepEqual(records, [`canceled ${task.id}`]);
  assert.deepEqual(said(statuses), [["canceled", "task canceled before it started", true]]);
  assert.equal(registry.cancel(task.id), null, "it has ended");
  const other = registry.offer(offer());
  assert.equal(other.accepted, true);
  assert.equal((await registry.next(null, NEVER))?.request.id, other.task.id);
});

Deno.test("a canceled running task is canceled at once and for good; its residue is read before it is told", async () => {
  const recorded = registryWith();
  const { registry, statuses } = recorded;
  const { task } = registry.offer(offer());
  const { signal } = (await registry.next(null, NEVER))!;
  recorded.residue = [{ kind: "detached_shell", work_id: "wrk_1", binary: "b", command: "c", started_at_ms: 1 }];
  signal.addEventListener("abort", () => recorded.residue = []);
  const canceled = registry.cancel(task.id)!;
  assert.equal(canceled.residue.length, 1);
  assert.ok(signal.aborted);
  assert.equal(registry.find(task.id, null)?.state, "canceled");
  assert.deepEqual(said(statuses), [], "the stream is told when the loop has stopped");
  registry.finish(task.id, { state: "completed", message: "session ended", response: "too late" });
  assert.deepEqual(said(statuses), [["canceled", "task canceled", true]]);
  assert.equal(registry.find(task.id, null)?.response, null);
});

Deno.test("stopping cancels everything live, takes no more work, and can be repeated", async () => {
  const { registry, records } = registryWith();
  const running = registry.offer(offer()).task.id;
  await registry.next(null, NEVER);
  const queued = registry.offer(offer()).task.id;
  assert.deepEqual(registry.stop().canceled, [running, queued].sort());
  assert.deepEqual(records, [`canceled ${queued}`]);
  assert.deepEqual(registry.stop().canceled, []);
  assert.equal(registry.offer(offer()).task.message, "task rejected: the session is closing");
  registry.enqueue(launch());
  assert.equal(records.at(-1), "session_ended tsk_launch");
});

Deno.test("closing rejects what waits; a stop also cancels what runs, an end does not", async () => {
  for (const cause of ["session_ended", "session_stopped"] as const) {
    const { registry, records, statuses } = registryWith();
    const running = registry.offer(offer()).task.id;
    const { signal } = (await registry.next(null, NEVER))!;
    const queued = registry.offer(offer()).task.id;
    registry.close(cause);
    registry.close(cause);
    assert.deepEqual(records, [`${cause} ${queued}`]);
    const text = cause === "session_ended"
      ? "task rejected: the session ended before this task started"
      : "task rejected: the session was stopped before this task started";
    assert.deepEqual(said(statuses), [["rejected", text, true]]);
    assert.equal(registry.find(queued, null)?.message, text);
    assert.equal(signal.aborted, cause === "session_stopped");
    assert.equal(registry.find(running, null)?.state, cause === "session_stopped" ? "canceled" : "working");
  }
});

Deno.test("a question makes the task wait, the reply is its answer", async () => {
  const { registry, statuses } = registryWith();
  const { task } = registry.offer(offer());
  assert.equal(registry.reply(task.id, "nobody asked"), false);
  await registry.next(null, NEVER);
  const answer = registry.requestInput(task.id, "which one?", null);
  assert.deepEqual([registry.find(task.id, null)?.state, registry.find(task.id, null)?.prompt], [
    "input-required",
    "which one?",
  ]);
  await assert.rejects(registry.requestInput(task.id, "and?", null), InputAborted, "one waiter a task");
  assert.equal(registry.reply(task.id, "the red one"), true);
  assert.equal(await answer, "the red one");
  assert.equal(registry.reply(task.id, "again"), false);
  assert.equal(registry.find(task.id, null)?.state, "working");
  assert.deepEqual(said(statuses), [["input-required", "which one?", false], ["working", "resumed", false]]);
});

Deno.test("a question ends by its time, by a cancel, and is impossible outside a working task of the door", async () => {
  const { registry } = registryWith();
  registry.enter(launch());
  await assert.rejects(registry.requestInput("tsk_launch", "?", null), InputAborted);
  registry.finish("tsk_launch", { state: "completed", message: "session ended", response: "" });
  const { task } = registry.offer(offer());
  await assert.rejects(registry.requestInput(task.id, "?", null), InputAborted, "it is queued");
  await registry.next(null, NEVER);
  await assert.rejects(registry.requestInput(task.id, "?", 1), InputTimeout);
  assert.equal(registry.find(task.id, null)?.state, "working");
  const waiting = registry.requestInput(task.id, "?", null);
  registry.cancel(task.id);
  await assert.rejects(waiting, InputAborted);
  assert.equal(registry.cancelPhase(task.id), "input");
});

Deno.test("who waits for a task is told at its end, at a question, and when it leaves", async () => {
  const { registry } = registryWith();
  const { task } = registry.offer(offer());
  const gone = new AbortController();
  const left = registry.settled(task.id, gone.signal);
  gone.abort();
  assert.equal((await left)?.state, "submitted");
  const waiting = registry.settled(task.id, NEVER);
  await registry.next(null, NEVER);
  registry.requestInput(task.id, "?", null).catch(() => {});
  assert.equal((await waiting)?.prompt, "?");
  registry.reply(task.id, "yes");
  const end = registry.settled(task.id, NEVER);
  registry.finish(task.id, { state: "completed", message: "session ended", response: "42" });
  assert.equal((await end)?.response, "42");
  assert.equal((await registry.settled(task.id, NEVER))?.state, "completed");
  assert.equal(await registry.settled("tsk_unknown", NEVER), null);
});

Deno.test("a member of a formation sees its own tasks only", () => {
  const { registry } = registryWith();
  const own = registry.offer(offer({ door: { ...DOOR, submitter: "a" } })).task.id;
  registry.offer(offer());
  assert.equal(registry.find(own, "b"), null);
  assert.equal(registry.find(own, "a")?.id, own);
  assert.deepEqual(registry.list("a").map(({ id }) => id), [own]);
  assert.equal(registry.list(null).length, 2);
});

Deno.test("whatever happens in whatever order: one final frame a task, never more waiting than may, ends never undone", async () => {
  const step = fc.oneof(
    { weight: 4, arbitrary: fc.constant("offer" as const) },
    { weight: 3, arbitrary: fc.constant("next" as const) },
    { weight: 3, arbitrary: fc.constant("finish" as const) },
    { weight: 2, arbitrary: fc.constant("cancel" as const) },
    fc.constant("ask" as const),
    fc.constant("reply" as const),
    fc.constant("stop" as const),
    fc.constant("close" as const),
  );
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.tuple(step, fc.nat(9)), { maxLength: 60 }),
      fc.integer({ min: 1, max: 3 }),
      async (steps, queueDepth) => {
        const { registry, statuses } = registryWith({ queueDepth });
        const ids: string[] = [];
        const ended = new Map<string, string>();
        for (const [what, pick] of steps) {
          const id = ids[pick % Math.max(1, ids.length)] ?? "tsk_none";
          switch (what) {
            case "offer": {
              const { accepted, task } = registry.offer(offer());
              if (accepted) ids.push(task.id);
              break;
            }
            case "next":
              if (registry.running === null) await registry.next(0, NEVER);
              break;
            case "finish":
              registry.finish(id, { state: "completed", message: "session ended", response: "r" });
              break;
            case "cancel":
              registry.cancel(id);
              break;
            case "ask":
              registry.requestInput(id, "?", null).catch(() => {});
              break;
            case "reply":
              registry.reply(id, "a");
              break;
            case "stop":
              registry.stop();
              break;
            case "close":
              registry.close("session_stopped");
          }
          const all = registry.list(null);
          assert.ok(all.filter(({ state }) => state === "submitted").length <= queueDepth);
          assert.ok(all.filter(({ state }) => state === "working" || state === "input-required").length <= 1);
          for (const task of all) {
            const before = ended.get(task.id);
            if (before !== undefined) assert.equal(task.state, before);
            if (isFinalState(task.state)) ended.set(task.id, task.state);
          }
          const finals = statuses.filter(({ final }) => final).map(({ taskId }) => taskId);
          assert.equal(new Set(finals).size, finals.length);
        }
      },
    ),
  );
});

Deno.test("a cancel is recorded in the phase of what the task waits for, and of nothing else", async () => {
  const { registry } = registryWith();
  const phases: (string | null)[] = [];
  for (const kind of ["waits", "waited", "nested"] as const) {
    const { task } = registry.offer(offer());
    const { signal } = (await registry.next(null, NEVER))!;
    const aborted = (given: AbortSignal) =>
      new Promise<void>((resolve) => given.addEventListener("abort", () => resolve()));
    let waiting: Promise<unknown> = Promise.resolve();
    switch (kind) {
      case "waits":
        waiting = registry.waitIn(task.id, "delegation", aborted);
        break;
      case "waited":
        await registry.waitIn(task.id, "delegation", () => Promise.resolve());
        break;
      case "nested":
        waiting = registry.waitIn(task.id, "plan", async (outer) => {
          await registry.waitIn(task.id, "delegation", () => Promise.resolve());
          await aborted(outer);
        });
        await new Promise((resolve) => setTimeout(resolve, 0));
    }
    registry.cancel(task.id);
    assert.ok(signal.aborted);
    await waiting;
    phases.push(registry.cancelPhase(task.id));
    registry.finish(task.id, { state: "canceled", message: "", response: null });
  }
  assert.deepEqual(phases, ["delegation", null, "plan"]);
});

Deno.test("a task is shown as the same object until something of it changes, and as it is then", async () => {
  const { registry } = registryWith();
  const { task } = registry.offer(offer());
  const look = () => registry.find(task.id, null)!;
  /** What was shown since the last change, and what is now. */
  const changed = async (change: () => unknown) => {
    const before = look();
    assert.equal(look(), before);
    assert.equal(registry.list(null)[0], before);
    await change();
    const after = look();
    assert.notEqual(after, before);
    return after;
  };
  assert.equal(look(), task);
  assert.equal((await changed(() => registry.next(null, NEVER))).state, "working");
  const asked = await changed(() => void registry.requestInput(task.id, "which?", null));
  assert.deepEqual([asked.state, asked.prompt], ["input-required", "which?"]);
  const resumed = await changed(() => registry.reply(task.id, "this"));
  assert.deepEqual([resumed.state, resumed.prompt], ["working", null]);
  const canceled = await changed(() => registry.cancel(task.id));
  assert.deepEqual([canceled.state, canceled.message], ["canceled", "task canceled"]);
  const ended = await changed(() =>
    registry.finish(task.id, { state: "canceled", message: "stopped at the tool", response: null })
  );
  assert.deepEqual([ended.state, ended.message, ended.response], ["canceled", "stopped at the tool", null]);
});

Deno.test("a question that nobody answered is not remembered with what was shown of its task", async () => {
  const { registry } = registryWith();
  const shown: WeakRef<object>[] = [];
  const ask = async () => {
    const { task } = registry.offer(offer());
    await registry.next(null, NEVER);
    const asked = registry.requestInput(task.id, "which?", 1);
    shown.push(new WeakRef(registry.find(task.id, null)!));
    await assert.rejects(asked, InputTimeout);
    registry.finish(task.id, { state: "failed", message: "input-timeout", response: null });
  };
  await ask();
  await ask();
  // What a turn of the event loop has held is let go with it.
  await new Promise((resolve) => setTimeout(resolve));
  setFlagsFromString("--expose-gc");
  runInNewContext("gc")();
  assert.deepEqual(shown.map((view) => view.deref()), [undefined, undefined]);
});
