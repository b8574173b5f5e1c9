/**
 * Who ends a delegated child, with which recorded reason, and what the parent's door answers to completions (roost seed
 * "How the outcome arrives", "The completion path"; spec roost 14.5, 16; door 10.3, 13).
 *
 * @module
 */
import assert from "node:assert/strict";
import type { JsonObject } from "../../base/json_value.ts";
import { type AgentRun, capsule, type CapsuleBlocks } from "../support/agent_project.ts";
import {
  childProcesses,
  delegate,
  delegates,
  delegating,
  type DelegationWorld,
  delegationWorld,
  readTrace,
  worker,
} from "../support/delegation_world.ts";
import { type DoorSession, message, type RpcAnswer, startSession } from "../support/door_session.ts";
import { SHORT_BOUNDS } from "../support/faulty_mur.ts";
import { processesBelow, stillRunning, until } from "../support/process_tree.ts";

const SLEEPS: JsonObject = { task_acceptance: "queue", after_task: "sleep", queue_depth: 4 };
const FAULTY_MUR = new URL("../support/faulty_mur.ts", import.meta.url).pathname;
const says = (text: string, delayMs = 0): JsonObject => ({ turns: [{ delayMs, text }] });
/** Longest wait until processes have started, on a busy machine. */
const STARTS_MS = 40_000;
const LONG = says("never", 60_000);

function boss(blocks: CapsuleBlocks = {}): JsonObject {
  return capsule(delegating(["local/worker"], { name: "boss", ...blocks }));
}

/** What the parent's trace and the children's records say of children their task ended. */
function checkTerminated(world: DelegationWorld, run: Pick<AgentRun, "trace" | "events">, reason: string): void {
  const children = world.children(run.trace);
  assert.ok(children.length > 0);
  assert.deepEqual(
    run.events("delegation").map(({ outcome, reason, delegation_id }) => [outcome, reason, delegation_id]).sort(),
    children.map(({ delegationId }) => ["terminated", reason, delegationId]).sort(),
  );
  for (const child of children) {
    const { status, detail, reported_by, delivered, delivery_error } = child.completion!;
    assert.deepEqual([status, detail, reported_by, delivered, delivery_error], [
      "terminated",
      "the parent ended this delegation",
      "launcher",
      false,
      undefined,
    ]);
    assert.equal(child.events("session_end")[0]?.exit_status, "canceled");
    assert.equal(child.events("spawner_ended").length, 0);
  }
}

Deno.test("a canceled task names its children, ends them at once and leaves the session as it was", async () => {
  await using world = await delegationWorld(boss({ lifecycle: SLEEPS }), [worker("worker")]);
  await using session = await startSession(world.project, [], { env: world.env });
  const sent = await session.rpc(
    "SendMessage",
    message(JSON.stringify(delegates(delegate("worker", LONG), delegate("worker", LONG)))),
  );
  const taskId: string = sent.result.task.id;
  const events = await session.stream("SubscribeToTask", { id: taskId });
  const told = new Response(events.body).text().catch(() => "");
  await until("the task delegated", () => readTrace(session.records).filter(isDelegation).length === 2, STARTS_MS);
  await until("both hold their tasks", async () => {
    const task = await session.rpc("GetTask", { id: taskId });
    return task.result.status.state === "TASK_STATE_WORKING" &&
      readTrace(session.records).filter(({ event_type }) => event_type === "inference").length === 2;
  });
  const processes = childProcesses(session.pid);
  assert.equal(processes.length, 2);
  const begun = performance.now();
  const canceled = await session.rpc("CancelTask", { id: taskId });
  await until("no child is left", () => stillRunning(processes).length === 0);
  assert.ok(performance.now() - begun < 7_000);

  const trace = readTrace(session.records);
  const children = world.children(trace);
  const residue = canceled.result.artifacts[0].parts.map((part: { data: JsonObject }) => part.data);
  assert.deepEqual(
    residue,
    children.map(({ delegationId, sessionId, workdir }) => ({
      kind: "delegation",
      delegation_id: delegationId,
      capsule: "worker",
      version: "0.1.0",
      child_session_id: sessionId,
      child_workdir: workdir,
    })),
  );
  await session.traced("task_end");
  const after = { trace: readTrace(session.records) };
  const run = { ...after, events: (type: string) => after.trace.filter(({ event_type }) => event_type === type) };
  const [line] = run.events("task_canceled");
  assert.equal(line!.phase, "delegation");
  assert.deepEqual(line!.delegation_ids, children.map(({ delegationId }) => delegationId));
  const order = after.trace.map(({ event_type }) => event_type).filter((type) =>
    ["task_canceled", "delegation", "task_end"].includes(type)
  );
  assert.deepEqual(order, ["task_canceled", "delegation", "delegation", "task_end"]);
  checkTerminated(world, run, "the delegating task was cancelled");
  assert.match(await told, /waiting on delegate-task: 2 delegation\(s\) outstanding/);

  // The session goes on, with all of its delegations' slots.
  assert.equal(await world.liveChildren(session.sessionId), 0);
  const again = await session.rpc(
    "SendMessage",
    message(JSON.stringify(delegates(delegate("worker", says("back again")))), {}, { returnImmediately: false }),
  );
  assert.match(JSON.stringify(again.result.task.artifacts), /back again/);
});

function isDelegation({ event_type }: { readonly event_type: string }): boolean {
  return event_type === "delegation_start";
}

Deno.test("a parent that is told to end ends its children first, and a last turn that is used leaves none waiting", async () => {
  await using world = await delegationWorld(boss(), [worker("worker")]);
  await using short = await delegationWorld(boss({ inference: { max_turns: 2 } }), [worker("worker")]);
  const [stopped, spent] = await Promise.all([
    (async () => {
      const run = await world.start(delegates(delegate("worker", LONG), delegate("worker", LONG)));
      await until("the task waits", () => readTrace(run.records).filter(isInference).length === 2, STARTS_MS);
      const processes = childProcesses(run.pid);
      run.kill("SIGTERM");
      const ended = await run.finish();
      assert.deepEqual(stillRunning(processes), []);
      return ended;
    })(),
    short.run(delegates(delegate("worker", LONG))),
  ]);
  assert.equal(stopped.events("session_end")[0]!.exit_status, "canceled");
  checkTerminated(world, stopped, "the delegating task was cancelled");
  assert.equal(spent.status, 0);
  assert.equal(spent.result, "handed over");
  assert.equal(spent.events("task_continued").length, 0);
  checkTerminated(short, spent, "the delegating task had no inference turn left to read this outcome");
});

Deno.test("a signal to the parent's whole process group, or to everybody, ends its children in order", async () => {
  await using world = await delegationWorld(boss(), [worker("worker")]);
  await using killed = await delegationWorld(boss(), [worker("worker")]);
  await using managed = await delegationWorld(boss(), [worker("worker")]);
  const ended = async (of: DelegationWorld, signal: Deno.Signal, everybody = false) => {
    const run = await of.start(delegates(delegate("worker", LONG)), { under: ["setsid"] });
    await until("the task waits", () => readTrace(run.records).filter(isInference).length === 2, STARTS_MS);
    const processes = childProcesses(run.pid);
    assert.equal(processes.length, 1);
    if (everybody) Deno.kill(processes[0]!.pid, signal);
    Deno.kill(-run.pid, signal);
    const end = await run.finish();
    await until("no child is left", () => stillRunning(processes).length === 0);
    return end;
  };
  // As `timeout` and a shell's `kill %1` do it, and as a terminal does on Ctrl-C, which ends the parent at once.
  const [terminated, interrupted, stopped] = await Promise.all([
    ended(world, "SIGTERM"),
    ended(killed, "SIGINT"),
    // As a service manager does it.
    ended(managed, "SIGTERM", true),
  ]);
  checkTerminated(world, terminated, "the delegating task was cancelled");
  assert.equal(managed.children(stopped.trace)[0]!.events("session_end")[0]?.exit_status, "canceled");
  assert.equal(interrupted.signal, "SIGINT");
  const [child] = killed.children(interrupted.trace);
  assert.equal(child!.events("spawner_ended").length, 1);
  assert.equal(child!.events("session_end")[0]?.exit_status, "canceled");
});

Deno.test("a child that stands still is killed once its grace is over, with all it had started", async () => {
  await using world = await delegationWorld(boss(), [worker("worker")]);
  const run = await world.start(delegates(delegate("worker", LONG)), { main: FAULTY_MUR });
  await until("the task waits", () => readTrace(run.records).filter(isInference).length === 2, STARTS_MS);
  const [child] = childProcesses(run.pid);
  const processes = [child!, ...processesBelow(child!.pid)];
  assert.ok(processes.length > 1, "it has helpers of its own");
  Deno.kill(child!.pid, "SIGSTOP");
  const begun = performance.now();
  run.kill("SIGTERM");
  const ended = await run.finish();
  // It is given the grace that any child is, and no more.
  const took = performance.now() - begun;
  assert.ok(took >= SHORT_BOUNDS.childStopGrace - 100, `${took} ms`);
  await until("nothing of it is left", () => stillRunning(processes).length === 0);
  assert.deepEqual(ended.events("delegation").map(({ outcome, reason }) => [outcome, reason]), [
    ["terminated", "the delegating task was cancelled"],
  ]);
  assert.equal(ended.trace.at(-1)!.exit_status, "canceled");
  const [left] = world.children(ended.trace);
  assert.deepEqual([left!.completion!.status, left!.completion!.reported_by], ["terminated", "launcher"]);
  assert.ok(!left!.trace.some(({ event_type }) => event_type === "session_end"), "it did nothing more");
  assert.equal((await world.daemon.status(run.sessionId)).body.live_capsules, 0);
});

Deno.test("a child that outruns its watch is ended, its parent's task goes on, and the process sets the bound for all", async () => {
  await using world = await delegationWorld(boss(), [worker("worker")]);
  const bounded = await world.run(delegates(delegate("worker", LONG)), { MURMUR_DELEGATION_TIMEOUT_SECS: "2" });
  assert.equal(bounded.status, 0, bounded.stderr);
  const [line] = bounded.events("delegation");
  assert.equal(line!.outcome, "terminated");
  assert.match(String(line!.reason), /still running 2s after it was ready, and its parent ended it/);
  assert.equal(bounded.events("task_continued").length, 1);
  assert.match(
    bounded.result!,
    /\nstatus: terminated\nduration_ms: \d+\nworkdir: \S+\ndetail: the sub-capsule was still/,
  );
  const [child] = world.children(bounded.trace);
  assert.deepEqual([child!.completion!.status, child!.completion!.reported_by, child!.completion!.delivered], [
    "terminated",
    "launcher",
    true,
  ]);
});

/** A completion as a child posts it. */
function complete(session: DoorSession, sessionId: string | null, delegationId: string | null): Promise<RpcAnswer> {
  return session.rpc("SendMessage", message("delegation_id: x"), {
    "x-murmur-task-origin": "completion",
    ...(sessionId === null ? {} : { "x-murmur-completion-session": sessionId }),
    ...(delegationId === null ? {} : { "x-murmur-delegation-id": delegationId }),
  });
}

Deno.test("the door takes a completion once and again, for what is waited for alone, and makes no task of it", async () => {
  await using world = await delegationWorld(
    boss({ lifecycle: { task_acceptance: "single", after_task: "exit" } }),
    [worker("worker")],
  );
  await using session = await startSession(world.project, [], { env: world.env, main: FAULTY_MUR });
  const sent = await session.rpc(
    "SendMessage",
    // Longer than a child that reported has for its exit, under the short bounds of this program.
    message(JSON.stringify(delegates(delegate("worker", says("the true answer", 8_000))))),
  );
  await until("the child runs", () => readTrace(session.records).filter(isDelegation).length === 1, STARTS_MS);
  await until("the task waits", () => readTrace(session.records).filter(isInference).length === 2, STARTS_MS);
  const [child] = world.children(readTrace(session.records));
  const { delegationId } = child!;

  const misaddressed = await complete(session, "ses_other", delegationId);
  assert.deepEqual([misaddressed.error!.code, misaddressed.error!.data![0]!.reason], [
    -31001,
    "COMPLETION_MISADDRESSED",
  ]);
  for (const [id, metadata] of [[null, {}], ["dlg_unknown", { delegationId: "dlg_unknown" }]] as const) {
    const refused = await complete(session, session.sessionId, id);
    assert.deepEqual([refused.error!.code, refused.error!.data![0]!.metadata], [-31002, metadata]);
  }
  // Nothing but the headers says whose it is: the door takes it, though it is forged.
  for (let times = 0; times < 2; times++) {
    const taken = await complete(session, session.sessionId, delegationId);
    assert.deepEqual(taken.result, { delegation_id: delegationId, received: true });
  }
  const task = await session.rpc("GetTask", { id: sent.result.task.id });
  assert.equal(task.result.status.state, "TASK_STATE_WORKING");

  // A forger's word ends no child: it goes on, and what it answers is what the task is told.
  const run = await session.finish();
  assert.equal(run.events("a2a_task_received").length, 1);
  assert.deepEqual(run.events("delegation").map(({ outcome }) => outcome), ["ok"]);
  assert.match(run.result!, /\nstatus: ok\n[^]*\nresult:\nthe true answer\n/);
});

function isInference({ event_type }: { readonly event_type: string }): boolean {
  return event_type === "inference";
}

Deno.test("a forged completion for a child that leaves no record is an unknown end", async () => {
  await using world = await delegationWorld(boss({ lifecycle: { task_acceptance: "single" } }), [worker("worker")]);
  await using session = await startSession(world.project, [], { env: world.env });
  await session.rpc("SendMessage", message(JSON.stringify(delegates(delegate("worker", LONG)))));
  await until("the task waits", () => readTrace(session.records).filter(isInference).length === 2, STARTS_MS);
  const [child] = world.children(readTrace(session.records));
  await complete(session, session.sessionId, child!.delegationId);
  const [process] = childProcesses(session.pid);
  Deno.kill(process!.pid, "SIGKILL");
  const run = await session.finish();
  assert.deepEqual(run.events("delegation").map(({ outcome }) => outcome), ["unknown"]);
  assert.match(run.result!, /\nstatus: unknown\n/);
  assert.equal(world.children(run.trace)[0]!.completion, null);
});

Deno.test("a parent that came back at the same address is another session, and takes no completion of the first", async () => {
  const port = freePort();
  await using world = await delegationWorld(
    boss({ lifecycle: { task_acceptance: "single" }, network: { internal_port: port } }),
    [worker("worker")],
  );
  const first = await world.start(null);
  const call = async (headers: Record<string, string>, params: object) =>
    await (await fetch(`http://localhost:${port}`, {
      method: "POST",
      headers: { "content-type": "application/json", "a2a-version": "1.0", ...headers },
      body: JSON.stringify({ jsonrpc: "2.0", id: 1, method: "SendMessage", params }),
    })).json();
  await call({}, message(JSON.stringify(delegates(delegate("worker", LONG)))));
  await until("the child works", () => readTrace(first.records).filter(isInference).length === 2, STARTS_MS);
  const [child] = world.children(readTrace(first.records));
  const [process] = childProcesses(first.pid);
  // It stands still until another session listens where its parent did.
  Deno.kill(process!.pid, "SIGSTOP");
  first.kill("SIGKILL");
  await first.finish();
  await using second = await startSession(world.project, [], { env: world.env });
  assert.equal(second.port, port);
  Deno.kill(process!.pid, "SIGCONT");
  await until("the child is gone", () => stillRunning([process!]).length === 0);
  const record = JSON.parse(await Deno.readTextFile(`${child!.records}/completion.json`));
  assert.deepEqual([record.status, record.reported_by, record.delivered, record.delivery_error], [
    "error",
    "child",
    false,
    `completion is addressed to session ${first.sessionId}, which is not the session running here`,
  ]);
  assert.equal(readTrace(child!.records).filter(({ event_type }) => event_type === "spawner_ended").length, 1);
  assert.equal(readTrace(second.records).filter(({ event_type }) => event_type === "task_start").length, 0);
});

/** A port nobody listens on. */
function freePort(): number {
  using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  return (listener.addr as Deno.NetAddr).port;
}
