/**
 * Everything a delegation takes, real: a `mur-roost`, a home with capsules installed, and parents as `mur run` processes
 * whose children are `mur run` processes of their own.
 *
 * @module
 */
import assert from "node:assert/strict";
import { writeZip } from "../../artifact/zip_writer.ts";
import type { JsonObject, JsonValue } from "../../base/json_value.ts";
import { type AgentProject, agentProject, capsule, type CapsuleBlocks, type TraceLine } from "./agent_project.ts";
import { processesBelow, type SeenProcess } from "./process_tree.ts";
import { RoostDaemon, RoostHome } from "../../roost/testing/daemon.ts";
import { type ServingRun, startRun } from "./serving_run.ts";

/** Version of every capsule of a world. */
export const VERSION = "0.1.0";

/** One delegation as a program's call. */
export function delegate(name: string, task: JsonObject | string): JsonObject {
  return {
    name: "delegate-task",
    input: { capsule: name, version: VERSION, task: typeof task === "string" ? task : JSON.stringify(task) },
  };
}

/** A program that makes delegations in one turn and ends its turn. */
export function delegates(...calls: readonly JsonObject[]): JsonObject {
  return { turns: [{ calls }, { text: "handed over" }] };
}

/** A capsule that does one task and exits, as `delegate-task` wants it. */
export function worker(name: string, blocks: CapsuleBlocks = {}): JsonObject {
  return capsule({
    name,
    ...blocks,
    lifecycle: { task_acceptance: "single", after_task: "exit", ...blocks.lifecycle as JsonObject | undefined },
  });
}

/** A capsule that may delegate to others, named in full. */
export function delegating(allow: readonly string[], blocks: CapsuleBlocks = {}): CapsuleBlocks {
  return { ...blocks, capabilities: { ...blocks.capabilities, spawn: { allow } } };
}

/** Line of a child's trace, and where it lies. */
export interface ChildRecord {
  readonly delegationId: string;
  readonly sessionId: string;
  readonly workdir: string;
  readonly records: string;
  readonly trace: readonly TraceLine[];
  /** `completion.json`; `null` when there is none. */
  readonly completion: { readonly [key: string]: JsonValue } | null;
  events(type: string): readonly TraceLine[];
}

/** How a parent is started. */
export interface StartOptions {
  readonly args?: readonly string[];
  /** Beside the daemon's address. */
  readonly env?: Readonly<Record<string, string>>;
  /** Main module instead of the program's own. */
  readonly main?: string;
  /** Command line in front of its own. */
  readonly under?: readonly string[];
}

export interface DelegationWorld extends AsyncDisposable {
  readonly project: AgentProject;
  readonly daemon: RoostDaemon;
  /** Variables a parent runs with. */
  readonly env: Readonly<Record<string, string>>;
  /** Starts the parent and waits until its door serves. */
  start(task: JsonObject | null, options?: StartOptions): Promise<ServingRun>;
  /** Runs the parent to its end. */
  run(task: JsonObject, env?: Readonly<Record<string, string>>): ReturnType<AgentProject["run"]>;
  /** Reads what the children that a trace started left, in the order they were started. */
  children(trace: readonly TraceLine[]): readonly ChildRecord[];
  /** Children the daemon counts for a session. */
  liveChildren(sessionId: string): Promise<number>;
}

/** Installs a capsule into the home of a project, as `mur install -g` of its archive would. */
export async function installCapsule(home: string, manifest: JsonObject): Promise<void> {
  const packed = { ...manifest, runtime: "capsule", execution: "static" };
  const bytes = await writeZip([
    { name: "murmur.yaml", bytes: new TextEncoder().encode(JSON.stringify(packed)) },
  ]);
  await new RoostHome(home).store.put({
    metadata: {
      name: String(manifest.name),
      version: String(manifest.version),
      kind: "static",
      role: "capsule",
      platforms: [],
      description: null,
      tags: [],
      contracts: null,
    },
    platform: null,
    bytes,
  }, "install");
}

/**
 * Makes a world.
 *
 * @param parent The capsule that is run; it is installed as well, since the daemon judges by its registry.
 * @param others Capsules it may delegate to.
 * @param roost Flags of the daemon.
 */
export async function delegationWorld(
  parent: JsonObject,
  others: readonly JsonObject[],
  roost: readonly string[] = [],
): Promise<DelegationWorld> {
  const project = await agentProject(parent);
  for (const manifest of [parent, ...others]) await installCapsule(project.home, manifest);
  const daemon = await RoostDaemon.start(["--spawn-allow", `local/${parent.name}`, ...roost], { home: project.home });
  const env = { MURMUR_ROOST_URL: daemon.url };
  return {
    project,
    daemon,
    env,
    start: (task, { args, env: more, ...options } = {}) =>
      startRun(project, task, args, { ...options, env: { ...env, ...more } }),
    run: (task, more = {}) => project.run({ task, env: { ...env, ...more } }),
    children: (trace) => childRecords(project, trace),
    liveChildren: async (sessionId) => {
      const { status, body } = await daemon.status(sessionId);
      assert.equal(status, 200);
      return body.live_children;
    },
    async [Symbol.asyncDispose]() {
      await daemon[Symbol.asyncDispose]();
      await project[Symbol.asyncDispose]();
    },
  };
}

function childRecords(project: AgentProject, trace: readonly TraceLine[]): readonly ChildRecord[] {
  return trace.filter(({ event_type }) => event_type === "delegation_start").map((line) => {
    const workdir = String(line.child_workdir);
    const sessionId = String(line.child_session_id);
    const records = `${project.murmur}/records${workdir}/${sessionId}`;
    const lines = readTrace(records);
    return {
      delegationId: String(line.delegation_id),
      sessionId,
      workdir,
      records,
      trace: lines,
      completion: readJson(`${records}/completion.json`),
      events: (type) => lines.filter(({ event_type }) => event_type === type),
    };
  });
}

/** The lines of a session's trace so far; a line that is being written is left out. */
export function readTrace(records: string): readonly TraceLine[] {
  try {
    const text = Deno.readTextFileSync(`${records}/trace.jsonl`);
    return text.slice(0, text.lastIndexOf("\n") + 1).split("\n").filter((line) => line !== "")
      .map((line) => JSON.parse(line) as TraceLine);
  } catch {
    return [];
  }
}

function readJson(path: string): ChildRecord["completion"] {
  try {
    return JSON.parse(Deno.readTextFileSync(path));
  } catch {
    return null;
  }
}

/** The processes of delegated children below a process, as their command lines show them, nearest first. */
export function childProcesses(pid: number): readonly SeenProcess[] {
  return processesBelow(pid).filter((seen) => {
    try {
      return Deno.readTextFileSync(`/proc/${seen.pid}/cmdline`).split("\0").includes("--spawn-grant-stdin");
    } catch {
      return false;
    }
  });
}
