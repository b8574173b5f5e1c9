import assert from "node:assert/strict";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { newId } from "../../base/ids.ts";
import type { JsonObject } from "../../base/json_value.ts";
import { RootedDir } from "../../base/rooted_dir.ts";
import { type CallScope, DispatchRefusal } from "../agent/tool_dispatch.ts";
import type { ChildExit, ChildLaunch, ChildLaunchResult, ChildProcess } from "./child_launch.ts";
import type { CompletionRecord } from "./completion_record.ts";
import { deadlineSeconds, type DelegationServices, SessionDelegations } from "./session_delegations.ts";

/** A child as its launch hands it over, driven by the test. */
interface TestChild extends ChildProcess {
  /** Its process ends. */
  exit(exit?: Partial<ChildExit>): Promise<void>;
  /** It writes its record, and its answer when one is given. */
  record(more?: Partial<CompletionRecord>, answer?: string): void;
  kept(): CompletionRecord;
  ends: number;
}

interface Harness extends AsyncDisposable {
  readonly delegations: SessionDelegations;
  readonly lines: { readonly type: string; readonly fields: JsonObject }[];
  readonly said: string[];
  readonly reported: string[];
  /** Starts a delegation; the launch answers what `result` makes of the child. */
  start(signal?: AbortSignal, taskId?: string): Promise<TestChild>;
  call(input: JsonObject, signal?: AbortSignal): ReturnType<ReturnType<SessionDelegations["tool"]>["run"]>;
  next: (launch: ChildLaunch) => Promise<ChildLaunchResult>;
  lastChild(): TestChild;
}

const TASK = "tsk_1";
const CALL = { capsule: "worker", version: "1.0.0", task: "do it" };
const settled = () => new Promise((resolve) => setTimeout(resolve, 0));

async function harness(options: Partial<DelegationServices> = {}): Promise<Harness> {
  const root = await Deno.realPath(await Deno.makeTempDir({ prefix: "mur-test-" }));
  Deno.mkdirSync(`${root}/runtime`);
  const runtime = RootedDir.open(`${root}/runtime`, { symlinks: "refuse" });
  const lines: Harness["lines"] = [];
  const said: string[] = [];
  const reported: string[] = [];
  let last: TestChild | null = null;

  const child = (launch: ChildLaunch): TestChild => {
    const delegationId = newId("dlg");
    const sessionId = newId("ses");
    const recordsDir = `${root}/${sessionId}`;
    Deno.mkdirSync(`${recordsDir}/out`, { recursive: true });
    const exited = Promise.withResolvers<ChildExit>();
    const made: TestChild = {
      delegationId,
      sessionId,
      capsule: launch.capsule,
      version: launch.version,
      pid: 1,
      url: "localhost:1",
      doorToken: null,
      workdir: `/work/${sessionId}`,
      recordsDir,
      snapshot: null,
      launchedAt: performance.now(),
      readyAt: performance.now(),
      exited: exited.promise,
      ends: 0,
      stderrTail: () => ["last words"],
      end() {
        this.ends++;
        return exited.promise;
      },
      kill: () => exited.promise,
      async exit(exit = {}) {
        exited.resolve({ code: 0, signal: null, at: performance.now(), ...exit });
        await settled();
      },
      record(more = {}, answer) {
        if (answer !== undefined) Deno.writeTextFileSync(`${recordsDir}/out/result.txt`, answer);
        Deno.writeTextFileSync(
          `${recordsDir}/completion.json`,
          JSON.stringify({
            delegation_id: delegationId,
            capsule_name: "worker",
            capsule_version: "1.0.0",
            session_id: sessionId,
            status: "ok",
            workdir: "/w",
            duration_ms: 7,
            reported_by: "child",
            delivered: true,
            ...more,
          }),
        );
      },
      kept: () => JSON.parse(Deno.readTextFileSync(`${recordsDir}/completion.json`)) as CompletionRecord,
    };
    last = made;
    return made;
  };

  const made: Harness = {
    lines,
    said,
    reported,
    next: (launch) => {
      const started = child(launch);
      launch.ready(started);
      return Promise.resolve({ status: "started", child: started, taskId: "tsk_child" });
    },
    delegations: new SessionDelegations({
      grant: { allow: ["local/worker"], snapshots: [] },
      launch: (launch) => made.next(launch),
      trace: {
        second: {
          write: (type: string, fields: JsonObject) => void lines.push({ type, fields }),
        },
      } as unknown as DelegationServices["trace"],
      runtime,
      deadlineSeconds: 600,
      bounds: { delegationBackstop: 30_000, reportedExit: 20_000 },
      progress: (_taskId, message) => void said.push(message),
      traceparentOf: () => null,
      report: (text) => void reported.push(text),
      ...options,
    }),
    call: (input, signal = new AbortController().signal) =>
      made.delegations.tool().run(input, { ...scope(TASK), signal }),
    async start(signal = new AbortController().signal, taskId = TASK) {
      const run = await made.delegations.tool().run(CALL, { ...scope(taskId), signal });
      assert.ok(run.passed);
      return last!;
    },
    lastChild: () => last!,
    async [Symbol.asyncDispose]() {
      runtime.close();
      await Deno.remove(root, { recursive: true });
    },
  };
  return made;
}

function scope(taskId: string): CallScope {
  return {
    taskId,
    contextId: "ctx_1",
    turn: 0,
    overDoor: true,
    trust: "trusted",
    signal: new AbortController().signal,
  };
}

const outcomes = (lines: Harness["lines"]) =>
  lines.filter(({ type }) => type === "delegation").map(({ fields }) => [fields.outcome, fields.reason]);

Deno.test("a call that started tells the child's ids and folder, and asks for the granted capsule by its full name", async () => {
  await using made = await harness();
  const asked: ChildLaunch[] = [];
  const launch = made.next;
  made.next = (given) => {
    asked.push(given);
    return launch(given);
  };
  const run = await made.call(CALL);
  const { delegationId, sessionId, workdir } = made.lastChild();
  assert.deepEqual(JSON.parse(run.text), {
    delegation_id: delegationId,
    session_id: sessionId,
    capsule: "worker",
    version: "1.0.0",
    status: "started",
    child_workdir: workdir,
  });
  const [{ capsule, version, task, contextId, reports }] = asked as [ChildLaunch];
  assert.deepEqual([capsule, version, task, contextId, reports], [
    "local/worker",
    "1.0.0",
    "do it",
    "ctx_1",
    true,
  ]);
  assert.deepEqual(made.lines, [{
    type: "delegation_start",
    fields: {
      delegation_id: delegationId,
      capsule: "worker",
      version: "1.0.0",
      child_session_id: sessionId,
      child_workdir: workdir,
    },
  }]);
});

Deno.test("a refusal is the daemon's sentence and one line; a launch that failed is an object and one line", async () => {
  await using made = await harness();
  made.next = () => Promise.resolve({ status: "refused", reason: "no depth left" });
  await assert.rejects(made.call(CALL), new DispatchRefusal("no depth left"));
  made.next = () => Promise.resolve({ status: "failed", delegationId: "dlg_x", sessionId: null, reason: "no door" });
  const run = await made.call(CALL);
  assert.equal(run.passed, false);
  assert.deepEqual(JSON.parse(run.text), {
    delegation_id: "dlg_x",
    session_id: "",
    capsule: "worker",
    version: "1.0.0",
    status: "failed",
    output: "no door",
  });
  assert.deepEqual(
    made.lines.map(({ type, fields }) => [type, fields.outcome, fields.delegation_id, fields.reason]),
    [["delegation", "refused", null, "no depth left"], ["delegation", "failed", "dlg_x", "no door"]],
  );
  // What may not be named is not even asked for.
  await assert.rejects(made.call({ ...CALL, capsule: "other" }), DispatchRefusal);
  assert.equal(made.lines.length, 2);
  assert.ok(!made.delegations.has(TASK));
});

Deno.test("a child that was ready and then did not take its task is nobody's, whoever asks for it", async () => {
  await using made = await harness();
  const start = made.next;
  made.next = async (launch) => {
    const started = await start(launch);
    assert.ok(started.status === "started");
    const { delegationId, sessionId } = started.child;
    return { status: "failed", delegationId, sessionId, reason: "its door took no task" };
  };
  const run = await made.call(CALL);
  const { delegationId } = made.lastChild();
  assert.equal(JSON.parse(run.text).delegation_id, delegationId);
  assert.deepEqual(made.lines.map(({ type }) => type), ["delegation_start", "delegation"]);
  assert.equal(made.delegations.receive(delegationId), "not-awaited");
  assert.ok(!made.delegations.has(TASK));
  await made.delegations.endRunning(TASK, { kind: "no-turn" });
  assert.deepEqual(outcomes(made.lines), [["failed", "its door took no task"]]);
});

Deno.test("a child that is over before its door's answer was read has held its task", async () => {
  await using made = await harness();
  const start = made.next;
  const overAtOnce = (report: (child: TestChild) => void) => {
    made.next = async (launch) => {
      await start(launch);
      const child = made.lastChild();
      report(child);
      await child.exit();
      const { delegationId, sessionId } = child;
      return { status: "failed", delegationId, sessionId, reason: "it ended first" };
    };
    return made.call(CALL);
  };
  const told = await overAtOnce((child) => {
    child.record({}, "told");
    assert.equal(made.delegations.receive(child.delegationId), "received");
  });
  // Its parent did not answer when it reported.
  const untold = await overAtOnce((child) => child.record({ delivered: false, delivery_error: "silence" }, "untold"));
  assert.ok(told.passed && untold.passed);
  const { text } = (await made.delegations.round(TASK, new AbortController().signal))!;
  assert.match(text, /result:\ntold\n[^]*result:\nuntold\n/);
  assert.deepEqual(outcomes(made.lines), [["ok", null], ["ok", null]]);
  // One without a task has an end to report, too.
  const idle = await overAtOnce((child) => child.record({ status: "error", delivered: false }));
  assert.ok(!idle.passed);
});

Deno.test("a round waits for all, counts what is out, and delivers in the order of ids however they end", async () => {
  await using made = await harness();
  const [first, second, third] = [await made.start(), await made.start(), await made.start()];
  const signal = new AbortController().signal;
  const round = made.delegations.round(TASK, signal);
  assert.deepEqual(made.said, ["waiting on delegate-task: 3 delegation(s) outstanding"]);
  third.record({ status: "error" }, "third");
  assert.equal(made.delegations.receive(third.delegationId), "received");
  await third.exit();
  first.record({}, "first");
  await first.exit();
  await second.exit({ code: null, signal: "SIGKILL" });
  const { text, fence, delegations } = (await round)!;
  assert.deepEqual(made.said, [
    "waiting on delegate-task: 3 delegation(s) outstanding",
    "waiting on delegate-task: 2 delegation(s) outstanding",
    "waiting on delegate-task: 1 delegation(s) outstanding",
    "continuing with 3 delegation outcome(s)",
  ]);
  assert.deepEqual(delegations, [first, second, third].map(({ delegationId }) => delegationId));
  assert.equal(fence, "delegation:worker");
  assert.deepEqual(
    [...text.matchAll(/^\[delegate-task\] delegation (\S+) to worker@1\.0\.0 ended (\w+):$/gm)].map((
      [, id, word],
    ) => [id, word]),
    [
      [first.delegationId, "ok"],
      [second.delegationId, "crashed"],
      [third.delegationId, "error"],
    ],
  );
  assert.match(text, /result:\nfirst\n<\/untrusted-content>\n\n\[delegate-task\]/);
  // It is over for good: the next round has nothing of it.
  assert.ok(!made.delegations.has(TASK));
  await made.delegations.endRunning(TASK, { kind: "no-turn" });
  assert.equal(outcomes(made.lines).length, 3);
});

Deno.test("outcomes that came before the turn ended are delivered without waiting", async () => {
  await using made = await harness();
  const child = await made.start();
  child.record({}, "done");
  await child.exit();
  const round = await made.delegations.round(TASK, new AbortController().signal);
  assert.deepEqual(made.said, ["continuing with 1 delegation outcome(s)"]);
  assert.match(round!.text, /result:\ndone\n/);
});

Deno.test("what an attempt that failed was not given is kept for the next, and goes with the task", async () => {
  await using made = await harness();
  const [quick, slow] = [await made.start(), await made.start()];
  quick.record({}, "the answer");
  await quick.exit();
  const ended = made.delegations.endRunning(TASK, { kind: "task-ended", exitStatus: "failed" });
  assert.deepEqual([quick.ends, slow.ends], [0, 1]);
  await slow.exit();
  await ended;

  const later = await made.start();
  later.record({}, "another");
  await later.exit();
  assert.ok(made.delegations.has(TASK));
  const round = await made.delegations.round(TASK, new AbortController().signal);
  assert.deepEqual(made.said, ["continuing with 3 delegation outcome(s)"]);
  assert.deepEqual(round!.delegations, [quick, slow, later].map(({ delegationId }) => delegationId));
  assert.match(round!.text, /result:\nthe answer\n[^]*\nstatus: terminated\n[^]*result:\nanother\n/);
  assert.deepEqual(outcomes(made.lines).map(([outcome]) => outcome), ["ok", "terminated", "ok"]);

  const undelivered = await made.start();
  await undelivered.exit();
  made.delegations.leaveTask(TASK);
  assert.ok(!made.delegations.has(TASK));
});

Deno.test("what a child could not deliver its launcher delivers, once; a crash is recorded and delivered by it", async () => {
  await using made = await harness();
  const child = await made.start();
  child.record({ delivered: false, delivery_error: "no connection" });
  await child.exit();
  const { delivered, delivery_error, reported_by, status } = child.kept();
  assert.deepEqual([delivered, delivery_error, reported_by, status], [true, undefined, "child", "ok"]);
  // The child's own request may still arrive.
  assert.equal(made.delegations.receive(child.delegationId), "received");

  const crashed = await made.start();
  await crashed.exit({ code: null, signal: "SIGSEGV" });
  const record = crashed.kept();
  assert.deepEqual([record.status, record.reported_by, record.delivered], ["crashed", "launcher", true]);
  assert.match(record.detail!, /SIGSEGV[^]*\nlast words$/);
  assert.deepEqual(outcomes(made.lines).map(([outcome]) => outcome), ["ok", "crashed"]);
});

Deno.test("a canceled task signals all its children at once, names them, and records them behind the cancel", async () => {
  await using made = await harness();
  const task = new AbortController();
  const children = [await made.start(task.signal), await made.start(task.signal)];
  const ids = children.map(({ delegationId }) => delegationId);
  assert.deepEqual(made.delegations.residue().map(({ delegation_id, kind }) => [kind, delegation_id]), [
    ["delegation", ids[0]],
    ["delegation", ids[1]],
  ]);
  const waiting = made.delegations.round(TASK, task.signal);
  task.abort();
  assert.deepEqual(children.map(({ ends }) => ends), [1, 1]);
  assert.equal(await waiting, null);
  // A child that goes down tells its parent, which is the one that ends it.
  children[0]!.record({ status: "error", delivered: false });
  assert.equal(made.delegations.receive(ids[0]!), "being-ended");
  await children[0]!.exit();
  assert.deepEqual(outcomes(made.lines), []);
  assert.deepEqual(made.delegations.inFlight(TASK), ids);
  const ended = made.delegations.endRunning(TASK, { kind: "canceled" });
  await children[1]!.exit({ code: null, signal: "SIGKILL" });
  await ended;
  assert.deepEqual(outcomes(made.lines), [
    ["terminated", "the delegating task was cancelled"],
    ["terminated", "the delegating task was cancelled"],
  ]);
  for (const child of children) {
    const { status, detail, reported_by, delivered, delivery_error } = child.kept();
    assert.deepEqual([status, detail, reported_by, delivered, delivery_error], [
      "terminated",
      "the parent ended this delegation",
      "launcher",
      false,
      undefined,
    ]);
    assert.equal(made.delegations.receive(child.delegationId), "not-awaited");
  }
  assert.deepEqual(made.delegations.residue(), []);
});

Deno.test("a launch that is under way when its task is canceled is ended with it", async () => {
  await using made = await harness();
  const task = new AbortController();
  const start = made.next;
  made.next = async (launch) => {
    const started = await start(launch);
    task.abort();
    return started;
  };
  const call = made.call(CALL, task.signal);
  await settled();
  const child = made.lastChild();
  assert.equal(child.ends, 1);
  await call;
  const ended = made.delegations.endRunning(TASK, { kind: "canceled" });
  await child.exit();
  await ended;
  assert.deepEqual(outcomes(made.lines), [["terminated", "the delegating task was cancelled"]]);
});

Deno.test("a task that ends otherwise ends what it left running, for the reason it ended", async () => {
  await using made = await harness();
  for (
    const [cause, reason] of [
      [{ kind: "no-turn" }, "the delegating task had no inference turn left to read this outcome"],
      [
        { kind: "task-ended", exitStatus: "failed" },
        "the delegating task ended failed before this sub-capsule finished",
      ],
    ] as const
  ) {
    const child = await made.start();
    const ended = made.delegations.endRunning(TASK, cause);
    assert.equal(child.ends, 1);
    await child.exit();
    await ended;
    assert.deepEqual(outcomes(made.lines).at(-1), ["terminated", reason]);
  }
});

Deno.test("the watch, the backstop and a child that reported and does not go are all bounded", async () => {
  await using made = await harness({
    deadlineSeconds: 0.02,
    bounds: { delegationBackstop: 30_000, reportedExit: 20_000 },
  });
  const watched = await made.start();
  const round = made.delegations.round(TASK, new AbortController().signal);
  await new Promise((resolve) => setTimeout(resolve, 60));
  assert.equal(watched.ends, 1);
  await watched.exit({ code: null, signal: "SIGKILL" });
  assert.match((await round)!.text, /status: terminated\n[^]*detail: the sub-capsule was still running 0\.02s after/);
  assert.deepEqual([watched.kept().status, watched.kept().delivered], ["terminated", true]);

  await using slow = await harness({
    deadlineSeconds: 0.02,
    bounds: { delegationBackstop: -10, reportedExit: 20_000 },
  });
  const stopped = await slow.start();
  await new Promise((resolve) => setTimeout(resolve, 60));
  assert.equal(stopped.ends, 1);
  await stopped.exit();
  assert.match(String(outcomes(slow.lines)[0]![1]), /^no outcome reached the delegating task within 0s of this/);

  await using lingering = await harness({ bounds: { delegationBackstop: 30_000, reportedExit: 20 } });
  const reporter = await lingering.start();
  reporter.record({}, "the answer");
  assert.equal(lingering.delegations.receive(reporter.delegationId), "received");
  await new Promise((resolve) => setTimeout(resolve, 60));
  assert.equal(reporter.ends, 1);
  await reporter.exit({ code: null, signal: "SIGKILL" });
  assert.deepEqual(outcomes(lingering.lines), [["ok", null]]);
});

Deno.test("a child that reported before its door took its task and does not go is ended like any other", async () => {
  await using made = await harness({ bounds: { delegationBackstop: 30_000, reportedExit: 20 } });
  const { next } = made;
  const answered = Promise.withResolvers<void>();
  made.next = async (launch) => {
    const result = await next(launch);
    await answered.promise;
    return result;
  };
  const calling = made.call(CALL);
  const child = made.lastChild();
  child.record({}, "the answer");
  assert.equal(made.delegations.receive(child.delegationId), "received");
  await new Promise((resolve) => setTimeout(resolve, 60));
  assert.equal(child.ends, 1);
  answered.resolve();
  await calling;
  const round = made.delegations.round(TASK, new AbortController().signal);
  await child.exit();
  assert.match((await round)!.text, /the answer/);
  assert.deepEqual(outcomes(made.lines), [["ok", null]]);
});

Deno.test("a completion that nothing stands behind ends no child; the child's own is heard after it", async () => {
  await using made = await harness({ bounds: { delegationBackstop: 30_000, reportedExit: 20 } });
  const child = await made.start();
  for (let times = 0; times < 3; times++) assert.equal(made.delegations.receive(child.delegationId), "received");
  await new Promise((resolve) => setTimeout(resolve, 60));
  assert.equal(child.ends, 0);
  child.record({}, "the answer");
  for (let times = 0; times < 3; times++) assert.equal(made.delegations.receive(child.delegationId), "received");
  await new Promise((resolve) => setTimeout(resolve, 60));
  assert.equal(child.ends, 1);
  await child.exit();
  assert.deepEqual(outcomes(made.lines), [["ok", null]]);
});

Deno.test("a completion that nothing stands behind is an unknown end", async () => {
  await using made = await harness();
  const child = await made.start();
  assert.equal(made.delegations.receive(child.delegationId), "received");
  assert.equal(made.delegations.receive("dlg_other"), "not-awaited");
  await child.exit({ code: null, signal: "SIGKILL" });
  assert.equal(outcomes(made.lines)[0]![0], "unknown");
  assert.throws(() => child.kept(), Deno.errors.NotFound);
});

Deno.test("a plan's step waits for its child itself: its line is its own, and its child is ended with it", async () => {
  await using made = await harness();
  const begin = async (signal: AbortSignal) => {
    const step = await made.delegations.startStep(
      { ...CALL, capsule: "local/worker" },
      { taskId: TASK, contextId: "ctx_1", signal },
    );
    assert.ok("child" in step);
    return { step, child: made.lastChild() };
  };
  const { step, child } = await begin(new AbortController().signal);
  assert.ok(!made.delegations.has(TASK));
  child.record({ delivered: false, delivery_error: "no parent door" });
  const finished = step.finish("completed", null);
  assert.equal(child.ends, 1);
  await child.exit();
  await finished;
  assert.deepEqual(outcomes(made.lines), [["completed", null]]);
  assert.deepEqual([child.kept().delivered, child.kept().delivery_error], [false, "no parent door"]);

  const task = new AbortController();
  const canceled = await begin(task.signal);
  task.abort();
  const over = canceled.step.finish("failed", "canceled");
  await canceled.child.exit();
  await over;
  assert.equal(outcomes(made.lines).length, 1);
  await made.delegations.endRunning(TASK, { kind: "canceled" });
  assert.deepEqual(outcomes(made.lines).at(-1), ["terminated", "the delegating task was cancelled"]);

  made.next = () => Promise.resolve({ status: "refused", reason: "no depth left" });
  assert.deepEqual(
    await made.delegations.startStep({ ...CALL, capsule: "local/worker" }, scope(TASK)),
    { reason: "no depth left", refused: true },
  );
});

Deno.test("a session keeps nothing of the children of tasks that are over, but whose report it received", async () => {
  await using made = await harness();
  const gone: WeakRef<TestChild>[] = [];
  const receipts = new Map<string, string>();
  const task = async (id: string, reports: boolean) => {
    const child = await made.start(undefined, id);
    gone.push(new WeakRef(child));
    if (reports) made.delegations.receive(child.delegationId);
    child.record({ delivered: reports });
    const ended = made.delegations.endRunning(id, reports ? { kind: "no-turn" } : { kind: "canceled" });
    await child.exit();
    await ended;
    made.delegations.leaveTask(id);
    receipts.set(child.delegationId, reports ? "received" : "not-awaited");
  };
  for (const index of [0, 1, 2, 3]) await task(`tsk_${index}`, index % 2 === 0);
  // The harness holds the last one.
  await made.start();
  await settled();
  setFlagsFromString("--expose-gc");
  runInNewContext("gc")();
  assert.deepEqual(gone.map((child) => child.deref()), [undefined, undefined, undefined, undefined]);
  for (const [id, receipt] of receipts) assert.equal(made.delegations.receive(id), receipt);
});

Deno.test("the end of a session ends every child of it", async () => {
  await using made = await harness();
  const children = [await made.start(undefined, "tsk_1"), await made.start(undefined, "tsk_2")];
  const closed = made.delegations.close();
  assert.deepEqual(children.map(({ ends }) => ends), [1, 1]);
  for (const child of children) await child.exit();
  await closed;
});

Deno.test("the variable sets the deadline when it is a positive whole number", () => {
  for (const value of [undefined, "", "0", "abc", "1.5", "-1", " 5", "9".repeat(20)]) {
    assert.equal(deadlineSeconds(value, 600), 600, String(value));
  }
  assert.equal(deadlineSeconds("2", 600), 2);
  assert.equal(deadlineSeconds("007", 600), 7);
});
