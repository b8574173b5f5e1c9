/**
 * Chains of four capsules, each delegated by the one before: whatever ends a link, by whatever means, nothing below it is
 * left, and what is above comes to its end (roost seed "A child ends with its parent", spec roost 13).
 *
 * @module
 */
import assert from "node:assert/strict";
import type { JsonObject } from "../../base/json_value.ts";
import { peekRunningDirectory } from "../../base/running_record.ts";
import {
  delegate,
  delegating,
  type DelegationWorld,
  delegationWorld,
  readTrace,
  worker,
} from "../support/delegation_world.ts";
import { processesBelow, type SeenProcess, stillRunning, until } from "../support/process_tree.ts";

const LEVELS = 4;

/** Longest wait for what takes well under a second a level on an idle machine; the bound of the seed is 60 s. */
const BOUND_MS = 40_000;

/** A link delegates to the next one; the last one thinks for as long as anyone waits. */
function link(level: number): JsonObject {
  return level === LEVELS - 1
    ? { turns: [{ delayMs: 120_000, text: "never" }] }
    : { turns: [{ calls: [delegate("link", link(level + 1))] }, { text: `level ${level}` }] };
}

interface Link {
  readonly pid: number;
  readonly sessionId: string;
  readonly records: string;
}

interface Chain {
  readonly world: DelegationWorld;
  /** From the top. */
  readonly links: readonly Link[];
  /** Every process of it, component hosts and helpers included. */
  readonly processes: readonly SeenProcess[];
}

/** Starts a chain and waits until its last link works; at its end nothing of it may be left, whatever the test did. */
async function chain(body: (chain: Chain) => Promise<void>): Promise<void> {
  await using world = await delegationWorld(worker("link", delegating(["local/link"])), []);
  const root = await world.start(link(0));
  let processes: readonly SeenProcess[] = [];
  try {
    const links: Link[] = [];
    await until("four links", () => {
      const { records } = peekRunningDirectory(`${world.project.murmur}/running`);
      links.length = 0;
      let next = records.find(({ pid }) => pid === root.pid);
      while (next !== undefined) {
        const { pid, session_id, records_dir } = next;
        links.push({ pid, sessionId: session_id, records: records_dir });
        next = records.find(({ spawned_by }) => spawned_by === session_id);
      }
      // Each link above knows that the one below took its task: before that a killed child is a launch that failed.
      return links.length === LEVELS && events(links[LEVELS - 1]!).includes("task_start") &&
        links.slice(0, -1).every((above) => events(above).includes("tool_call"));
    }, BOUND_MS);
    processes = processesBelow(root.pid);
    await body({ world, links, processes });
    await root.finish();
    await until("no process is left", () => stillRunning(processes).length === 0, BOUND_MS);
    const { status, body: census } = await world.daemon.status(links[0]!.sessionId);
    assert.deepEqual([status, census.live_children, census.live_capsules], [200, 0, 0], "no slot is held");
  } finally {
    for (const { pid } of stillRunning(processes)) Deno.kill(pid, "SIGKILL");
    try {
      root.kill("SIGKILL");
    } catch {
      // It has ended.
    }
  }
}

const events = ({ records }: Link) => readTrace(records).map(({ event_type }) => event_type);

/** The first link below the one that ended: it learns of it by its lifeline, and winds down in order. */
function assertEndedByLifeline(parent: Link, child: Link): void {
  const trace = readTrace(child.records);
  const at = trace.findIndex(({ event_type }) => event_type === "spawner_ended");
  assert.ok(at >= 0, `${trace.map(({ event_type }) => event_type)}`);
  const line = trace[at]!;
  assert.equal(line.spawned_by, parent.sessionId);
  assert.match(String(line.delegation_id), /^dlg_/);
  const rest = trace.slice(at + 1);
  assert.deepEqual(
    rest.map(({ event_type }) => event_type).filter((type) =>
      ["task_canceled", "task_end", "session_end"].includes(type)
    ),
    [
      "task_canceled",
      "task_end",
      "session_end",
    ],
  );
  assert.equal(rest.at(-1)!.exit_status, "canceled");
}

/** The launcher of a link that was killed tells its task. */
async function assertCrashTold(above: Link): Promise<void> {
  await until("its launcher tells the outcome", () => events(above).includes("delegation"), BOUND_MS);
  const line = readTrace(above.records).find(({ event_type }) => event_type === "delegation")!;
  assert.equal(line.outcome, "crashed");
  assert.match(String(line.reason), /SIGKILL/);
}

for (let level = 0; level < LEVELS; level++) {
  Deno.test(`the link at level ${level} is killed`, () =>
    chain(async ({ links }) => {
      const begin = performance.now();
      Deno.kill(links[level]!.pid, "SIGKILL");
      const below = links.slice(level + 1);
      await until("all below it are gone", () => below.every(({ pid }) => isGone(pid)), BOUND_MS);
      const took = performance.now() - begin;
      assert.ok(took < 20_000 * Math.max(1, below.length), `${took} ms for ${below.length} levels`);
      if (below.length > 0) assertEndedByLifeline(links[level]!, below[0]!);
      // What is further down ends in order, too: by its launcher's signal, or by its own lifeline when that was faster.
      for (const each of below.slice(1)) assert.equal(events(each).at(-1), "session_end");
      if (level > 0) await assertCrashTold(links[level - 1]!);
    }));
}

Deno.test("the top is asked to end: it ends its child before itself, which so learns it from no lifeline", () =>
  chain(async ({ links }) => {
    Deno.kill(links[0]!.pid, "SIGTERM");
    await until("all are gone", () => links.every(({ pid }) => isGone(pid)), BOUND_MS);
    const [top, child, ...below] = links as [Link, Link, ...Link[]];
    const end = readTrace(top.records).at(-1)!;
    assert.deepEqual([end.event_type, end.exit_status], ["session_end", "canceled"]);
    const delegation = readTrace(top.records).find(({ event_type }) => event_type === "delegation")!;
    assert.deepEqual([delegation.outcome, delegation.reason], ["terminated", "the delegating task was cancelled"]);
    assert.ok(!events(child).includes("spawner_ended"));
    // The child has its grace for all below it; one that took longer was killed, and those learnt it from their lifelines.
    for (const each of below) assert.equal(events(each).at(-1), "session_end", each.sessionId);
  }));

Deno.test("a link that stands still when the top is killed goes on to its end once it moves again", () =>
  chain(async ({ links }) => {
    const still = links[1]!;
    Deno.kill(still.pid, "SIGSTOP");
    Deno.kill(links[0]!.pid, "SIGKILL");
    await until("the top is gone", () => isGone(links[0]!.pid), BOUND_MS);
    Deno.kill(still.pid, "SIGCONT");
    await until("all are gone", () => links.every(({ pid }) => isGone(pid)), BOUND_MS);
    assertEndedByLifeline(links[0]!, still);
  }));

const MEMORY_GROUPS = "/sys/fs/cgroup/memory";

/** Whether a group whose memory the kernel bounds can be made here. */
function canBoundMemory(): boolean {
  const group = `${MEMORY_GROUPS}/murmur-lifeline-probe`;
  try {
    Deno.mkdirSync(group);
    Deno.removeSync(group);
    return true;
  } catch {
    return false;
  }
}

/** The top, and one with a launcher above it and children below. */
for (const level of [0, 1]) {
  Deno.test({
    name: `the kernel kills the link at level ${level} for want of memory`,
    ignore: !canBoundMemory(),
    fn: () => chain((made) => killForMemory(made, level)),
  });
}

async function killForMemory({ links }: Chain, level: number): Promise<void> {
  const group = `${MEMORY_GROUPS}/murmur-lifeline-${crypto.randomUUID()}`;
  Deno.mkdirSync(group);
  const victim = links[level]!;
  try {
    const { pid, records } = victim;
    Deno.writeTextFileSync(`${group}/memory.limit_in_bytes`, String(4 << 20));
    Deno.writeTextFileSync(`${group}/cgroup.procs`, String(pid));
    // What it does from now on counts; large requests make it do something.
    const url = JSON.parse(Deno.readTextFileSync(runningRecord(records, victim))).url as string;
    const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "GetTask", params: { id: "x".repeat(8 << 20) } });
    await until("it is killed", async () => {
      await fetch(`http://${url}/`, { method: "POST", body, headers: { "content-type": "application/json" } })
        .then((response) => response.body?.cancel(), () => {});
      return isGone(pid);
    }, BOUND_MS);
    assert.match(Deno.readTextFileSync(`${group}/memory.oom_control`), /oom_kill [1-9]/);
    await until("all below it are gone", () => links.slice(level).every((each) => isGone(each.pid)), BOUND_MS);
    assertEndedByLifeline(victim, links[level + 1]!);
    if (level > 0) await assertCrashTold(links[level - 1]!);
  } finally {
    await until("the group is empty", () => {
      try {
        Deno.removeSync(group);
        return true;
      } catch {
        return false;
      }
    });
  }
}

/** Path of the running record of a session, from its records directory below the same home. */
function runningRecord(records: string, { sessionId }: Link): string {
  return `${records.slice(0, records.indexOf("/.murmur/"))}/.murmur/running/${sessionId}.json`;
}

function isGone(pid: number): boolean {
  return stillRunning(processesOfPid(pid)).length === 0;
}

function processesOfPid(pid: number): SeenProcess[] {
  try {
    const stat = Deno.readTextFileSync(`/proc/${pid}/stat`);
    const start = stat.slice(stat.lastIndexOf(")") + 2).split(" ")[19]!;
    return [{ pid, start, command: "" }];
  } catch {
    return [];
  }
}
