/**
 * The fault matrix of delegation: each party killed or stalled at each step of a child's launch and of its completion, and
 * what has to hold afterwards whatever it was (roost seed "Who reports, and what happens when nobody can").
 *
 * @module
 */
import assert from "node:assert/strict";
import type { JsonObject } from "../../base/json_value.ts";
import { type AgentRun, capsule } from "./agent_project.ts";
import {
  childProcesses,
  delegate,
  delegates,
  delegating,
  type DelegationWorld,
  delegationWorld,
  readTrace,
  worker,
} from "./delegation_world.ts";
import type { FaultStep } from "./faulty_mur.ts";
import { processesBelow, type SeenProcess, stillRunning, until } from "./process_tree.ts";
import type { ServingRun } from "./serving_run.ts";

const FAULTY_MUR = new URL("faulty_mur.ts", import.meta.url).pathname;
const CONFIG = new URL("../../deno.json", import.meta.url).pathname;

/** Where the child stands when the fault comes: at a step of its own life, or amid its task. */
export type FaultPoint = FaultStep | "task";

export type Party = "daemon" | "parent" | "child" | "grandchild";

/** One cell of the matrix. */
export interface Fault {
  /** Of the child; with a grandchild as victim, of the grandchild. */
  readonly at: FaultPoint;
  readonly victim: Party;
  /** A stalled parent or daemon goes on after a while; a stalled child does not. */
  readonly signal: "SIGKILL" | "SIGSTOP";
}

/** What the parent's `delegation` line says; `null`: the parent was killed. */
export function expectedOutcome({ at, victim, signal }: Fault): string | null {
  const beforeItsTask = at === "launch" || at === "ready" || at === "reported";
  switch (victim) {
    case "parent":
      return signal === "SIGKILL" ? null : "ok";
    case "daemon":
      // Only a child that has not registered needs it.
      return at === "launch" ? "failed" : "ok";
    case "grandchild":
      return "ok";
    case "child":
      if (beforeItsTask) return "failed";
      if (at === "task") return signal === "SIGKILL" ? "crashed" : "terminated";
      // Killed before it told its parent, its record still says how it ended; stalled there, it runs on as far as anybody
      // can tell.
      return at === "post" && signal === "SIGSTOP" ? "terminated" : "ok";
  }
}

/** Seconds a child may run: short where that is what ends a stalled one, else no matter here. */
function watchSeconds({ at, signal }: Fault): number {
  return signal === "SIGSTOP" && (at === "task" || at === "post") ? 5 : 60;
}

/** Longest wait for what a fault leads to: all bounds of a launch and an ending, on a busy machine. */
const BOUND_MS = 60_000;

/** How long a parent or daemon is stalled. Longer than a child tries to tell its parent of its end. */
const STALL_MS = 3_000;

/** Every session of a world is the faulty `mur`, children of children included. */
const faulty: JsonObject = { env: { allow: ["TEST_FAULT", "MURMUR_MUR_BINARY"] } };

/** Plays one fault and checks what has to hold. */
async function playFault(fault: Fault): Promise<void> {
  await using world = await delegationWorld(
    capsule(delegating(["local/worker", "local/sub"], {
      name: "boss",
      capabilities: faulty,
      lifecycle: { delegation_deadline_secs: fault.victim === "child" ? watchSeconds(fault) : 60 },
    })),
    [
      worker(
        "worker",
        delegating(["local/sub"], {
          capabilities: faulty,
          lifecycle: { delegation_deadline_secs: fault.victim === "grandchild" ? watchSeconds(fault) : 60 },
        }),
      ),
      worker("sub", { capabilities: faulty }),
    ],
  );
  const below = fault.victim === "grandchild";
  const name = below ? "sub" : "worker";
  // One that is itself the victim amid its task never ends it.
  const workMs = fault.at !== "task" ? 0 : fault.victim === "child" || below ? 60_000 : 3_000;
  const busy = { turns: [{ delayMs: workMs, text: "the answer" }] };
  const task = below ? delegates(delegate("sub", busy)) : busy;
  const binary = `${world.project.root}/faulty-mur`;
  await Deno.writeTextFile(
    binary,
    `#!/bin/sh\nDENO_DIR='${Deno.env.get("DENO_DIR") ?? `${Deno.env.get("HOME")}/.cache/deno`}' NO_COLOR=1 \\\n` +
      `exec '${Deno.execPath()}' run --quiet -A --config '${CONFIG}' '${FAULTY_MUR}' "$@"\n`,
    { mode: 0o755 },
  );
  const run = await world.start(delegates(delegate("worker", task)), {
    main: FAULTY_MUR,
    env: {
      MURMUR_MUR_BINARY: binary,
      ...(fault.at === "task" ? {} : { TEST_FAULT: `${name}:${fault.at}:SIGSTOP` }),
    },
  });
  try {
    await play(world, run, fault, name);
  } finally {
    for (const pid of [world.daemon.child.pid, run.pid]) tell(pid, "SIGCONT");
    tell(run.pid, "SIGKILL");
  }
}

/** Faults played at the same time: most of what they take is waiting. */
const AT_ONCE = 4;

/** Plays faults, several at the same time; what comes of each. */
export function playFaults(faults: readonly Fault[]): ReadonlyMap<Fault, Promise<void>> {
  const outcomes = new Map(faults.map((fault) => [fault, Promise.withResolvers<void>()]));
  const waiting = [...outcomes];
  const player = async () => {
    for (let next; (next = waiting.shift()) !== undefined;) {
      const [fault, { promise, resolve, reject }] = next;
      // Whoever asks for it is told.
      promise.catch(() => {});
      await playFault(fault).then(resolve, reject);
    }
  };
  for (let i = 0; i < AT_ONCE; i++) player();
  return new Map([...outcomes].map(([fault, { promise }]) => [fault, promise]));
}

async function play(world: DelegationWorld, run: ServingRun, fault: Fault, name: string): Promise<void> {
  const { at, victim, signal } = fault;
  const child = await standing(run, name, at);
  const seen = [...processesBelow(run.pid)];
  const stall = async (pid: number) => {
    tell(pid, signal);
    if (signal !== "SIGSTOP") return tell(child.pid, "SIGCONT");
    // What the child does meanwhile, it does to somebody who does not answer.
    tell(child.pid, "SIGCONT");
    if (victim === "daemon" && at === "launch") await until("the launch is given up", () => hasOutcome(run), BOUND_MS);
    else await pause(STALL_MS);
    tell(pid, "SIGCONT");
  };
  switch (victim) {
    case "parent":
      await stall(run.pid);
      break;
    case "daemon":
      await stall(world.daemon.child.pid);
      break;
    default:
      // One that stands still already is stalled as it is.
      if (signal === "SIGKILL" || at === "task") tell(child.pid, signal);
  }
  const ended = await within("the parent ends", run.finish());
  if (victim === "parent" && signal === "SIGKILL") assert.equal(ended.signal, "SIGKILL");
  else checkParent(world, ended, fault);
  for (const [index, processes] of [seen, processesBelow(run.pid)].entries()) {
    await until(`no process is left (${index}): ${JSON.stringify(stillRunning(processes))}`, () => {
      return stillRunning(processes).length === 0;
    }, BOUND_MS);
  }
  if (victim !== "daemon" || signal !== "SIGKILL") {
    // An approval nobody redeemed holds its slot until it expires, after a minute; the parent's own end frees it at once.
    await until("no slot is held", async () => (await world.liveChildren(run.sessionId)) === 0, BOUND_MS);
  }
}

/** Waits until a child stands where the fault is to come. */
async function standing(run: ServingRun, name: string, at: FaultPoint): Promise<SeenProcess> {
  let child: SeenProcess | undefined;
  await until(`${name} stands at ${at}`, () => {
    child = childProcesses(run.pid).find(({ pid }) => {
      const command = Deno.readTextFileSync(`/proc/${pid}/cmdline`).split("\0");
      return command.includes(`local/${name}`) && (at === "task" ? works(command) : isStopped(pid));
    });
    return child !== undefined;
  }, BOUND_MS);
  return child!;
}

function hasOutcome(run: ServingRun): boolean {
  return readTrace(run.records).some(({ event_type }) => event_type === "delegation");
}

/** Whether a child works on its task, and whoever gave it knows that it does. */
function works(command: readonly string[]): boolean {
  const workdir = command[command.indexOf("--workdir") + 1]!;
  const giver = workdir.slice(0, workdir.lastIndexOf("/children/"));
  return readTrace(giver).some(({ event_type, tool_name }) =>
    event_type === "tool_call" && tool_name === "delegate-task"
  );
}

function isStopped(pid: number): boolean {
  try {
    return /^State:\tT/m.test(Deno.readTextFileSync(`/proc/${pid}/status`));
  } catch {
    return false;
  }
}

/** The parent lives: it has one outcome for each delegation, and its task went on and ended. */
function checkParent(world: DelegationWorld, run: AgentRun, fault: Fault): void {
  assert.equal(run.status, 0, run.stderr);
  const lines = run.events("delegation");
  assert.deepEqual(lines.map(({ outcome }) => outcome), [expectedOutcome(fault)], JSON.stringify(lines));
  assert.equal(run.events("task_end")[0]?.exit_status, "ok");
  assert.equal(run.events("task_end").length, 1);
  const [line] = lines;
  const started = line!.outcome !== "failed";
  assert.equal(run.events("task_continued").length, started ? 1 : 0);
  assert.equal(run.events("delegation_start").length, started || fault.at === "reported" ? 1 : 0);
  if (!started) return;
  const [child] = world.children(run.trace);
  const { status, delivered, delivery_error } = child!.completion!;
  assert.equal(status, line!.outcome);
  assert.deepEqual([delivered, delivery_error], [true, undefined]);
  assert.match(run.result!, new RegExp(`\\nstatus: ${line!.outcome}\\n`));
  if (fault.victim !== "grandchild") return;
  // The child's own trace has one outcome for its own child.
  const [below] = child!.events("delegation");
  assert.equal(child!.events("delegation").length, 1);
  assert.equal(below!.outcome, expectedOutcome({ ...fault, victim: "child" }));
}

const POINTS: readonly FaultPoint[] = ["launch", "ready", "reported", "task", "post", "posted", "exit"];
const PARTIES: readonly Party[] = ["daemon", "parent", "child", "grandchild"];
const SIGNALS = ["SIGKILL", "SIGSTOP"] as const;

/** Every cell of the matrix. */
export const FAULT_MATRIX: readonly Fault[] = POINTS.flatMap((at) =>
  PARTIES.flatMap((victim) => SIGNALS.map((signal) => ({ at, victim, signal })))
);

/** How a fault is named in a report. */
export function faultName({ at, victim, signal }: Fault): string {
  return `${victim} ${signal === "SIGKILL" ? "killed" : "stalled"} at ${at}`;
}

function tell(pid: number, signal: Deno.Signal): void {
  try {
    Deno.kill(pid, signal);
  } catch {
    // It is gone.
  }
}

function pause(milliseconds: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, milliseconds));
}

async function within<T>(what: string, promise: Promise<T>): Promise<T> {
  const late = Promise.withResolvers<never>();
  const timer = setTimeout(() => late.reject(new Error(`not within ${BOUND_MS} ms: ${what}`)), BOUND_MS);
  try {
    return await Promise.race([promise, late.promise]);
  } finally {
    clearTimeout(timer);
  }
}
