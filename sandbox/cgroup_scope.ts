/**
 * Control groups for the commands of a session (spec containment 14.1, mechanisms 1 and 2): finding the place where this
 * process may make some, trying it, making one with its limits, and asking what it has stopped.
 *
 * @module
 */
import { readVariable } from "../base/environment_variable.ts";
import { reasonOf } from "../base/errors.ts";
import { RootedDir, type RootedFile } from "../base/rooted_dir.ts";
import type { ProcessLimits } from "../artifact/manifest/capsule_manifest.ts";
import type { AggregateHost } from "./aggregate_limits.ts";
import type { WatchedLimit } from "./confine_records.ts";

/** Texts of `/proc/self/mountinfo` and `/proc/self/cgroup`. */
export interface CgroupFiles {
  readonly mountinfo: string;
  readonly self: string;
}

/** A mounted hierarchy and the directory in it that this process is in. */
export interface CgroupPlace {
  /** Controllers of a v1 hierarchy; empty for v2. */
  readonly controllers: readonly string[];
  readonly directory: string;
}

/** A place, or why there is none. */
export type Found<T> = T | { readonly problem: string };

/**
 * Why no scope can be made; its message is shown as a reason and never on its own. It names no group of this process: two
 * launches must give the same reason.
 */
class CgroupProblem extends Error {}

/** Name of the group that the runtime moves into where it stands in the way of its own commands. */
const SUPERVISOR = "murmur-supervisor";

/** Octal escapes of `mountinfo` undone. */
function unescaped(text: string): string {
  return text.replace(/\\([0-7]{3})/g, (_, octal: string) => String.fromCharCode(Number.parseInt(octal, 8)));
}

interface CgroupMount {
  readonly version: 1 | 2;
  /** Directory of the hierarchy that is mounted. */
  readonly root: string;
  readonly point: string;
  readonly options: readonly string[];
}

function cgroupMounts(mountinfo: string): CgroupMount[] {
  return mountinfo.split("\n").flatMap((line) => {
    const [before, after] = line.split(" - ");
    if (before === undefined || after === undefined) return [];
    const [type, , options = ""] = after.split(" ");
    const [, , , root, point] = before.split(" ");
    if ((type !== "cgroup" && type !== "cgroup2") || root === undefined || point === undefined) return [];
    return [{
      version: type === "cgroup2" ? 2 as const : 1 as const,
      root: unescaped(root),
      point: unescaped(point),
      options: options.split(","),
    }];
  });
}

/** Where a group lies under a mount of its hierarchy; `null` when that mount does not show it. */
function directoryOf({ root, point }: CgroupMount, group: string): string | null {
  if (root === "/") return group === "/" ? point : `${point}${group}`;
  if (group === root) return point;
  return group.startsWith(`${root}/`) ? `${point}${group.slice(root.length)}` : null;
}

/** The v2 group this process is in. A group of the runtime's own making is stepped out of. */
export function cgroupV2Place({ mountinfo, self }: CgroupFiles): Found<CgroupPlace> {
  const group = /^0::(\/.*)$/m.exec(self)?.[1];
  if (group === undefined) return { problem: "/proc/self/cgroup has no '0::' line" };
  const mount = cgroupMounts(mountinfo).find(({ version }) => version === 2);
  if (mount === undefined) return { problem: "no cgroup2 file system is mounted" };
  let directory = directoryOf(mount, group);
  if (directory === null) return { problem: "this process's group is not below the mounted cgroup2 file system" };
  while (directory.endsWith(`/${SUPERVISOR}`)) directory = directory.slice(0, -SUPERVISOR.length - 1);
  return { controllers: [], directory };
}

/** The v1 group of this process under a controller's hierarchy. */
export function cgroupV1Place({ mountinfo, self }: CgroupFiles, controller: string): Found<CgroupPlace> {
  for (const line of self.split("\n")) {
    const [, names = "", group = ""] = /^\d+:([^:]*):(.*)$/.exec(line) ?? [];
    if (!names.split(",").includes(controller)) continue;
    const mount = cgroupMounts(mountinfo).find(({ version, options }) => version === 1 && options.includes(controller));
    const directory = mount === undefined ? null : directoryOf(mount, group);
    if (directory !== null) return { controllers: names.split(","), directory };
  }
  return { problem: `no ${controller} hierarchy is mounted` };
}

/** Name of a session's group: what a file name may hold of its id, this process and a count. */
export function scopeName(sessionId: string, pid: number, count: number): string {
  return `murmur-${sessionId.replace(/[^A-Za-z0-9._-]/g, "_")}-${pid}-${count}`;
}

function readFiles(): CgroupFiles {
  return {
    mountinfo: Deno.readTextFileSync("/proc/self/mountinfo"),
    self: Deno.readTextFileSync("/proc/self/cgroup"),
  };
}

let count = 0;

/** Locks on this process's groups: their end says that it is gone, to whatever process and in whatever namespace. */
const locks = new Map<string, RootedFile>();

function lockOf(group: string): RootedFile {
  using directory = RootedDir.open(group, { symlinks: "refuse" });
  return directory.openFile("cgroup.procs", { follow: false });
}

/** A group that was made just now may not be locked yet. Milliseconds. */
const UNLOCKED_GRACE_MS = 60_000;

/** Removes groups of processes that were killed before they could. One in which something still runs stays. */
function removeDeadGroups(directory: string): void {
  for (const { name, isDirectory } of Deno.readDirSync(directory)) {
    if (!isDirectory || !/^murmur-.+-\d+-\d+$/.test(name)) continue;
    const group = `${directory}/${name}`;
    try {
      const made = Deno.statSync(group).mtime;
      if (made !== null && Date.now() - made.getTime() < UNLOCKED_GRACE_MS) continue;
      using lock = lockOf(group);
      if (lock.tryLock()) Deno.removeSync(group);
    } catch {
      // It went meanwhile, is not empty, or is another user's.
    }
  }
}

/** Makes a group. @throws {CgroupProblem} */
function makeGroup(directory: string, name: string): string {
  const group = `${directory}/${name}`;
  try {
    Deno.mkdirSync(group);
    const lock = lockOf(group);
    lock.tryLock();
    locks.set(group, lock);
    return group;
  } catch (cause) {
    throw new CgroupProblem(`no group can be made below this process's own: ${shortReason(cause)}`);
  }
}

/** Sets a limit. @throws {CgroupProblem} */
function set(group: string, file: string, value: string): void {
  try {
    Deno.writeTextFileSync(`${group}/${file}`, value, { create: false });
  } catch (cause) {
    throw new CgroupProblem(`${file} cannot be set: ${shortReason(cause)}`);
  }
}

function shortReason(cause: unknown): string {
  if (cause instanceof Deno.errors.PermissionDenied) return "permission denied";
  if (cause instanceof Deno.errors.NotFound) return "not found";
  return reasonOf(cause).replace(/: \w+ '.*$/s, "");
}

function removeGroup(group: string): void {
  locks.get(group)?.close();
  locks.delete(group);
  try {
    Deno.removeSync(group);
  } catch {
    // Something of a background command is still in it: a later launch removes it.
  }
}

/** Controllers a v2 scope needs. */
const V2_CONTROLLERS = ["memory", "pids", "cpu"] as const;

/** The place for v2 scopes with its controllers enabled, once found. */
let v2Base: string | undefined;

/** How long the runtime waits for its own move between groups, in milliseconds, and how often it looks. */
const MOVE_TIMEOUT_MS = 2_000;
const MOVE_STEP_MS = 20;

const pause = () => new Promise<void>((resolve) => setTimeout(resolve, MOVE_STEP_MS));

/** Finds and prepares the place for v2 scopes: steps 1 to 5 of spec containment 14.1. */
async function prepareV2(): Promise<Found<string>> {
  if (v2Base !== undefined) return v2Base;
  await moveIntoTransientScope();
  const place = cgroupV2Place(readFiles());
  if ("problem" in place) return place;
  const { directory } = place;
  let offered: string[];
  try {
    offered = Deno.readTextFileSync(`${directory}/cgroup.controllers`).trim().split(" ");
  } catch (cause) {
    return { problem: `cgroup.controllers cannot be read: ${shortReason(cause)}` };
  }
  const missing = V2_CONTROLLERS.filter((controller) => !offered.includes(controller));
  if (missing.length > 0) {
    return {
      problem: `this process's group does not offer ${
        missing.join(", ")
      }; a service manager gives them with Delegate=yes`,
    };
  }
  try {
    removeGroup(makeGroup(directory, `murmur-delegation-probe-${Deno.pid}`));
  } catch (cause) {
    return { problem: `${reasonOf(cause)}; a service manager lets one be made with Delegate=yes` };
  }
  const refused = await enableControllers(directory, offered.includes("io"));
  if (refused !== null) return { problem: `its controllers cannot be enabled: ${refused}` };
  v2Base = directory;
  return directory;
}

/** Enables the controllers for groups below; the runtime itself moves out of the way where it must. */
async function enableControllers(directory: string, io: boolean): Promise<string | null> {
  const words = `${V2_CONTROLLERS.map((name) => `+${name}`).join(" ")}${io ? " +io" : ""}`;
  const enable = () => {
    try {
      Deno.writeTextFileSync(`${directory}/cgroup.subtree_control`, words, { create: false });
      return null;
    } catch (cause) {
      return shortReason(cause);
    }
  };
  let refused = enable();
  if (refused === null) return null;
  try {
    Deno.mkdirSync(`${directory}/${SUPERVISOR}`, { recursive: true });
    Deno.writeTextFileSync(`${directory}/${SUPERVISOR}/cgroup.procs`, String(Deno.pid), { create: false });
  } catch (cause) {
    return shortReason(cause);
  }
  for (let waited = 0; waited < MOVE_TIMEOUT_MS; waited += MOVE_STEP_MS) {
    refused = enable();
    if (refused === null) return null;
    await pause();
  }
  return refused;
}

/** Arguments of `busctl` that ask the user's service manager for a scope of this process with a subtree of its own. */
export function transientScopeCall(unit: string, pid: number): string[] {
  return [
    "--user",
    "call",
    "org.freedesktop.systemd1",
    "/org/freedesktop/systemd1",
    "org.freedesktop.systemd1.Manager",
    "StartTransientUnit",
    "ssa(sv)a(sa(sv))",
    unit,
    "fail",
    "4",
    "PIDs",
    "au",
    "1",
    String(pid),
    "Delegate",
    "b",
    "true",
    "CollectMode",
    "s",
    "inactive-or-failed",
    "Description",
    "s",
    "Commands of a murmur capsule",
    "0",
  ];
}

let moved: Promise<void> | undefined;

/** Best-effort, silent and once: where there is no user manager, the group this process is in has to do. */
function moveIntoTransientScope(): Promise<void> {
  return moved ??= askForTransientScope();
}

async function askForTransientScope(): Promise<void> {
  const unit = `murmur-${Deno.pid}-${count++}.scope`;
  try {
    const runtimeDirectory = readVariable("XDG_RUNTIME_DIR");
    if (runtimeDirectory === undefined || !runtimeDirectory.startsWith("/")) return;
    Deno.statSync(`${runtimeDirectory}/bus`);
    const { success } = await new Deno.Command("busctl", {
      args: transientScopeCall(unit, Deno.pid),
      clearEnv: true,
      env: {
        PATH: "/usr/bin:/bin",
        XDG_RUNTIME_DIR: runtimeDirectory,
        DBUS_SESSION_BUS_ADDRESS: `unix:path=${runtimeDirectory}/bus`,
      },
      stdin: "null",
      stdout: "null",
      stderr: "null",
      signal: AbortSignal.timeout(MOVE_TIMEOUT_MS),
    }).output();
    if (!success) return;
  } catch {
    return;
  }
  for (let waited = 0; waited < MOVE_TIMEOUT_MS; waited += MOVE_STEP_MS) {
    if (Deno.readTextFileSync("/proc/self/cgroup").trimEnd().endsWith(`/${unit}`)) return;
    await pause();
  }
}

/** Tries what this host offers, limits included. Leaves nothing behind but the preparation of the v2 place. */
export async function probeAggregateHost(request: ScopeRequest): Promise<Omit<AggregateHost, "samplingProblem">> {
  const v2 = await tryScope("cgroup-v2", request);
  const v1 = "problem" in v2 ? await tryScope("cgroup-v1", request) : null;
  return {
    v2Problem: "problem" in v2 ? v2.problem : null,
    ioProblem: "problem" in v2 ? v2.problem : v2.ioProblem,
    v1Problem: v1 === null ? "not tried" : "problem" in v1 ? v1.problem : null,
    v1Cpu: v1 !== null && !("problem" in v1) && v1.boundsCpu,
  };
}

/** Makes a scope and removes it again. */
async function tryScope(mechanism: CgroupScope["mechanism"], request: ScopeRequest): Promise<Found<CgroupScope>> {
  try {
    const scope = await createCgroupScope(mechanism, request);
    scope.remove();
    return scope;
  } catch (cause) {
    return { problem: cause instanceof CgroupProblem ? cause.message : shortReason(cause) };
  }
}

/** What the group of a session has stopped so far. */
export interface ScopeCounters {
  /** Processes killed for `cgroup_memory_bytes`. */
  readonly outOfMemory: number;
  /** Processes not started for `cgroup_pids_max`. */
  readonly tooManyProcesses: number;
}

/** The group, or groups, of one session's commands. */
export interface CgroupScope {
  readonly mechanism: "cgroup-v2" | "cgroup-v1";
  /** `cgroup.procs` of each: a command joins all. */
  readonly procs: readonly string[];
  readonly boundsCpu: boolean;
  /** Why input and output have no ceiling; `null` when they have. */
  readonly ioProblem: string | null;
  counters(): ScopeCounters;
  /** Best-effort: a background command may still be in it. */
  remove(): void;
}

/**
 * The limit a group's counters tell of between two looks at them (spec containment 14.2); `null` when nothing was stopped.
 */
export function limitReached(before: ScopeCounters, after: ScopeCounters): WatchedLimit | null {
  if (after.outOfMemory > before.outOfMemory) return "cgroup_memory_bytes";
  return after.tooManyProcesses > before.tooManyProcesses ? "cgroup_pids_max" : null;
}

/** What a scope is made for. */
export interface ScopeRequest {
  readonly sessionId: string;
  readonly limits: ProcessLimits;
  /** An existing path on the device whose input and output is bounded. */
  readonly onDevice: string;
}

/**
 * Makes the group of a session by a mechanism that {@linkcode probeAggregateHost} found usable.
 *
 * @throws {CgroupProblem} When one cannot be made or given its limits; nothing is left then.
 */
export async function createCgroupScope(
  mechanism: "cgroup-v2" | "cgroup-v1",
  request: ScopeRequest,
): Promise<CgroupScope> {
  const name = scopeName(request.sessionId, Deno.pid, count++);
  if (mechanism === "cgroup-v1") return createV1Scope(name, request.limits);
  const base = await prepareV2();
  if (typeof base !== "string") throw new CgroupProblem(base.problem);
  removeDeadGroups(base);
  return createV2Scope(makeGroup(base, name), request);
}

function createV2Scope(group: string, { limits, onDevice }: ScopeRequest): CgroupScope {
  let ioProblem: string | null = null;
  try {
    set(group, "memory.max", String(limits.cgroupMemoryBytes));
    set(group, "pids.max", String(limits.cgroupPidsMax));
    set(group, "cpu.max", `${limits.cgroupCpuPercent * 1_000} 100000`);
    try {
      const rate = limits.cgroupIoBytesPerSec;
      set(group, "io.max", `${deviceNumber(Deno.statSync(onDevice).dev)} rbps=${rate} wbps=${rate}`);
    } catch (cause) {
      ioProblem = `the device of ${onDevice} takes no ceiling: ${reasonOf(cause)}`;
    }
  } catch (cause) {
    removeGroup(group);
    throw cause;
  }
  return {
    mechanism: "cgroup-v2",
    procs: [`${group}/cgroup.procs`],
    boundsCpu: true,
    ioProblem,
    counters: () => ({
      outOfMemory: counter(`${group}/memory.events`, "oom_kill"),
      tooManyProcesses: counter(`${group}/pids.events`, "max"),
    }),
    remove: () => removeGroup(group),
  };
}

function createV1Scope(name: string, limits: ProcessLimits): CgroupScope {
  const files = readFiles();
  const groups = new Map<string, string>();
  const make = (controller: string, settings: readonly (readonly [string, number])[]) => {
    const place = cgroupV1Place(files, controller);
    if ("problem" in place) throw new CgroupProblem(place.problem);
    // Controllers that share a hierarchy share the directory.
    let group = [...groups.values()].find((made) => made === `${place.directory}/${name}`);
    if (group === undefined) {
      removeDeadGroups(place.directory);
      group = makeGroup(place.directory, name);
    }
    groups.set(controller, group);
    for (const [file, value] of settings) set(group, file, String(value));
  };
  const remove = () => new Set(groups.values()).forEach(removeGroup);
  try {
    make("memory", [["memory.limit_in_bytes", limits.cgroupMemoryBytes]]);
    make("pids", [["pids.max", limits.cgroupPidsMax]]);
  } catch (cause) {
    remove();
    throw cause;
  }
  try {
    make("cpu", [["cpu.cfs_period_us", 100_000], ["cpu.cfs_quota_us", limits.cgroupCpuPercent * 1_000]]);
  } catch {
    // Without it the processor is not bounded, as the report says.
    const group = groups.get("cpu");
    groups.delete("cpu");
    if (group !== undefined && ![...groups.values()].includes(group)) removeGroup(group);
  }
  return {
    mechanism: "cgroup-v1",
    procs: [...new Set(groups.values())].map((group) => `${group}/cgroup.procs`),
    boundsCpu: groups.has("cpu"),
    ioProblem: "cgroup v1 groups bound memory, processes and the processor",
    counters: () => ({
      outOfMemory: counter(`${groups.get("memory")}/memory.oom_control`, "oom_kill"),
      tooManyProcesses: counter(`${groups.get("pids")}/pids.events`, "max"),
    }),
    remove,
  };
}

/** `<major>:<minor>` of a device number as `stat` packs it. */
export function deviceNumber(dev: number): string {
  const packed = BigInt(dev);
  const major = ((packed >> 8n) & 0xfffn) | ((packed >> 32n) & ~0xfffn);
  const minor = (packed & 0xffn) | ((packed >> 12n) & ~0xffn & 0xffff_ffffn);
  return `${major}:${minor}`;
}

/** A number behind its name in a flat file of the kernel's; 0 when it is not there. */
function counter(path: string, name: string): number {
  try {
    return Number(new RegExp(`^${name} (\\d+)$`, "m").exec(Deno.readTextFileSync(path))?.[1] ?? 0);
  } catch {
    return 0;
  }
}
