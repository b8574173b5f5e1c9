import assert from "node:assert/strict";
import { MurError } from "../../base/errors.ts";
import { LAUNCH_TASK, LOST_COMMANDS_TASK, requestStanding } from "../agent/task_origin.ts";
import { FrameLog } from "./frame_log.ts";
import { runTaskLoop, type TaskLoopOptions } from "./task_loop.ts";
import { type TaskOffer, TaskRegistry, type TaskRequest } from "./task_registry.ts";
import type { TaskOutcome } from "./task_runner.ts";

const OFFER: TaskOffer = {
  contextId: null,
  text: "do it",
  standing: requestStanding({ origin: null, trust: null, tokenPresented: false }),
  door: { messageId: "m", traceparent: null, submitter: null, referenceTaskIds: [], partKinds: [] },
};
const LAUNCH: TaskRequest = {
  id: "tsk_launch",
  contextId: "ctx_1",
  loadHistory: false,
  text: "go",
  source: "task_md",
  standing: LAUNCH_TASK,
  door: null,
};
const LOST: TaskRequest = { ...LAUNCH, id: "tsk_lost", source: "detached_lost", standing: LOST_COMMANDS_TASK };
const OK: TaskOutcome = { status: "ok", text: "done", fatal: null };
const FAILED: TaskOutcome = { status: "failed", text: "no", fatal: null };

type Lifecycle = TaskLoopOptions["lifecycle"];
const SINGLE: Lifecycle = { taskAcceptance: "single", afterTask: "exit" };
const NONE: Lifecycle = { taskAcceptance: "none", afterTask: "exit" };
const QUEUE: Lifecycle = { taskAcceptance: "queue", afterTask: "exit" };
const SLEEP: Lifecycle = { taskAcceptance: "queue", afterTask: "sleep" };

/** Runs the loop; `during` is what happens while each task runs and gives its outcome. */
async function loop(
  lifecycle: Lifecycle,
  during: (task: TaskRequest, world: World) => Promise<TaskOutcome> | TaskOutcome,
  more: Partial<TaskLoopOptions> & { readonly before?: (world: World) => void; readonly frames?: FrameLog } = {},
) {
  const ran: string[] = [];
  const records: string[] = [];
  const registry = new TaskRegistry({
    acceptance: lifecycle.taskAcceptance,
    queueDepth: 2,
    frames: more.frames ?? new FrameLog(),
    records: { canceledQueued: () => {}, rejected: (_task, cause) => void records.push(cause) },
    contextOf: (contextId) => ({ contextId: contextId ?? "ctx_2", loadHistory: false }),
    residue: () => [],
  });
  const stop = new AbortController();
  const world: World = { registry, stop };
  more.before?.(world);
  const decided = await runTaskLoop({
    registry,
    lifecycle,
    launchTask: null,
    idleMs: 5,
    stop: stop.signal,
    run: async (task, signal) => {
      ran.push(task.source);
      const outcome = await during(task, world);
      const canceled = signal.aborted
        ? { status: "canceled", text: "the task was canceled", fatal: null } as const
        : null;
      registry.finish(task.id, { state: canceled === null ? "completed" : "canceled", message: "", response: null });
      return canceled ?? outcome;
    },
    afterLaunch: () => Promise.resolve(null),
    goOn: () => void ran.push("-"),
    ...more,
  });
  return { decided, ran, records, registry };
}

interface World {
  readonly registry: TaskRegistry;
  readonly stop: AbortController;
}

Deno.test("a launch task ends the session under none, single and exit, and its result is the session's", async () => {
  for (const lifecycle of [NONE, SINGLE, QUEUE]) {
    for (const outcome of [OK, FAILED]) {
      const { decided, ran } = await loop(lifecycle, () => outcome, { launchTask: LAUNCH });
      assert.equal(decided, outcome);
      assert.deepEqual(ran, ["task_md"]);
    }
  }
});

Deno.test("without a launch task none ends at once, the others wait their time for a first one", async () => {
  for (const lifecycle of [NONE, SINGLE, QUEUE]) {
    const { decided, ran } = await loop(lifecycle, () => assert.fail("nothing to run"));
    assert.equal(decided, null);
    assert.deepEqual(ran, []);
  }
});

Deno.test("a session that does not sleep ends with its one task and refuses what waits", async () => {
  const { decided, ran, records, registry } = await loop(QUEUE, (_task, { registry }) => {
    registry.offer(OFFER);
    return OK;
  }, { before: ({ registry }) => void registry.offer(OFFER) });
  assert.equal(decided, OK);
  assert.deepEqual(ran, ["a2a"]);
  assert.deepEqual(records, ["session_ended"]);
  assert.ok(registry.closed);
});

Deno.test("a sleeping session goes on after tasks that fail, until it is stopped while idle, which is ok", async () => {
  let tasks = 0;
  const { decided, ran } = await loop(SLEEP, (_task, { registry, stop }) => {
    if (++tasks < 3) registry.offer(OFFER);
    else setTimeout(() => stop.abort(), 5);
    return FAILED;
  }, { before: ({ registry }) => void registry.offer(OFFER) });
  assert.equal(decided, null);
  assert.deepEqual(ran, ["a2a", "-", "a2a", "-", "a2a", "-"]);
});

Deno.test("a sleeping session stopped in the middle of a task is canceled, and what waited is refused", async () => {
  const { decided, records } = await loop(SLEEP, (_task, { registry, stop }) => {
    registry.offer(OFFER);
    stop.abort();
    return OK;
  }, { before: ({ registry }) => void registry.offer(OFFER) });
  assert.equal(decided?.status, "canceled");
  assert.deepEqual(records, ["session_stopped"]);
});

Deno.test("a task canceled by a request to stop decides the status of the session that the signal then ends", async () => {
  const { decided } = await loop(SLEEP, (_task, { registry, stop }) => {
    registry.stop();
    setTimeout(() => stop.abort(), 5);
    return OK;
  }, { before: ({ registry }) => void registry.offer(OFFER) });
  assert.equal(decided?.status, "canceled");
});

Deno.test("a launch task that failed ends a sleeping session, one that went well does not", async () => {
  const failed = await loop(SLEEP, () => FAILED, { launchTask: LAUNCH });
  assert.equal(failed.decided, FAILED);
  const well = await loop(SLEEP, (task, { stop }) => {
    if (task.source === "task_md") setTimeout(() => stop.abort(), 5);
    return OK;
  }, { launchTask: LAUNCH });
  assert.equal(well.decided, OK);
  assert.deepEqual(well.ran, ["task_md", "-"]);
});

Deno.test("a task that cannot be survived ends a sleeping session", async () => {
  const fatal: TaskOutcome = { ...FAILED, fatal: new Error("full") as never };
  const { decided } = await loop(SLEEP, () => fatal, { before: ({ registry }) => void registry.offer(OFFER) });
  assert.equal(decided, fatal);
});

Deno.test("whoever follows a task is told of its end when the session cannot go on in the midst of it", async () => {
  const error = new MurError("E-RUN-007", "trace write failed: no space is left");
  for (const launchTask of [LAUNCH, null]) {
    const frames = new FrameLog();
    let world: World | undefined;
    await assert.rejects(
      loop(SLEEP, () => Promise.reject(error), {
        launchTask,
        frames,
        before(given) {
          world = given;
          given.registry.offer(OFFER);
        },
      }),
      error,
    );
    const finals = frames.replay(0).frames.flatMap((frame) => frame.type === "status" && frame.final ? [frame] : []);
    const failed = ["failed", "error[E-RUN-007]: trace write failed: no space is left"];
    const refused = ["rejected", "task rejected: the session ended before this task started"];
    assert.deepEqual(finals.map(({ state, message }) => [state, message]), launchTask ? [failed, refused] : [failed]);
    assert.deepEqual(world!.registry.list(null).map(({ state }) => state).sort(), finals.map(({ state }) => state));
    assert.equal(world!.registry.running, null);
  }
});

Deno.test("the runtime's own task runs after the launch task, decides nothing and takes no place", async () => {
  const afterLaunch = () => Promise.resolve(LOST);
  const none = await loop(NONE, () => FAILED, { afterLaunch });
  assert.deepEqual([none.decided, none.ran], [null, ["detached_lost"]]);
  const launched = await loop(SINGLE, (task) => task === LAUNCH ? OK : FAILED, { launchTask: LAUNCH, afterLaunch });
  assert.deepEqual([launched.decided, launched.ran], [OK, ["task_md", "detached_lost"]]);
  const single = await loop(SINGLE, (task, { registry }) => {
    if (task === LOST) assert.ok(registry.offer(OFFER).accepted);
    return OK;
  }, { afterLaunch });
  assert.deepEqual(single.ran, ["detached_lost", "a2a"]);
});

Deno.test("a session stopped before its first task runs none", async () => {
  const { decided, ran } = await loop(SLEEP, () => OK, { launchTask: LAUNCH, before: ({ stop }) => stop.abort() });
  assert.deepEqual([decided, ran], [null, []]);
});

Deno.test("who sent a task is answered before the work on it begins, however long that keeps the thread", async () => {
  const answered = await Deno.makeTempFile();
  let wasAnswered = false;
  let client: Deno.ChildProcess | null = null;
  let server: Deno.HttpServer<Deno.NetAddr> | null = null;
  const work = () => {
    for (const end = Date.now() + 10_000; !wasAnswered && Date.now() < end;) {
      wasAnswered = Deno.readTextFileSync(answered) === "taken";
    }
    return OK;
  };
  const before = ({ registry }: World) => {
    server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen: () => {} }, () => {
      registry.offer(OFFER);
      return new Response("taken");
    });
    const program = `const answer = await fetch("http://127.0.0.1:${server.addr.port}");
      Deno.writeTextFileSync("${answered}", await answer.text());`;
    client = new Deno.Command(Deno.execPath(), { args: ["eval", program], env: { NO_PROXY: "127.0.0.1" } }).spawn();
  };
  await loop(SINGLE, work, { idleMs: 30_000, before });
  await client!.status;
  await server!.shutdown();
  await Deno.remove(answered);
  assert.ok(wasAnswered);
});
