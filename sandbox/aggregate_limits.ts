/**
 * What bounds all commands of a session together (spec containment 14.1): a cgroup v2 scope, cgroup v1 scopes, the
 * helper's sampling, or nothing. Pure; what the host offers is found out in `cgroup_scope.ts`.
 *
 * @module
 */
import { MurError } from "../base/errors.ts";
import type { CapsuleManifest, ProcessLimits } from "../artifact/manifest/capsule_manifest.ts";
import type { WatchedLimit } from "./confine_records.ts";

/** The mechanism in force, as reports name it. */
export type AggregateMechanism = "cgroup-v2" | "cgroup-v1" | "sampling" | "none" | "not-required" | "not-probed";

/** Limits of all commands together that a manifest may declare. */
export type AggregateLimit =
  | "cgroup_memory_bytes"
  | "cgroup_pids_max"
  | "cgroup_cpu_percent";

/** What was decided. */
export interface AggregateDecision {
  readonly mechanism: AggregateMechanism;
  /** Why it is not a cgroup v2 scope; `null` for that and for `not-required`. */
  readonly reason: string | null;
  /** Limits it holds; that of input and output is told apart. */
  readonly holds: ReadonlySet<AggregateLimit>;
  readonly io: IoCeiling;
}

/** Whether the ceiling of input and output is in force. */
export interface IoCeiling {
  readonly status: "enforced" | "unavailable" | "not-required" | "not-probed";
  /** `null` only when it is enforced. */
  readonly reason: string | null;
}

/** What the host was found to offer. */
export interface AggregateHost {
  /** Why there is no usable v2 scope; `null` when there is. */
  readonly v2Problem: string | null;
  /** The same for v1 scopes of memory and processes. */
  readonly v1Problem: string | null;
  /** A v1 scope of the processor can be made too. */
  readonly v1Cpu: boolean;
  /** Why input and output get no ceiling; `null` when they do. */
  readonly ioProblem: string | null;
  /** Why the helper cannot sample; `null` when it can. */
  readonly samplingProblem: string | null;
}

/** Where nothing is tried, and why not. */
export interface UntriedHost {
  readonly untried: string;
}

/** Takes the first mechanism that works. */
export function chooseAggregateLimits(
  commands: boolean,
  host: AggregateHost | UntriedHost,
): AggregateDecision {
  if (!commands) {
    const io: IoCeiling = { status: "not-required", reason: "the capsule starts no commands" };
    return { mechanism: "not-required", reason: null, holds: new Set(), io };
  }
  if ("untried" in host) {
    const { untried: reason } = host;
    return { mechanism: "none", reason, holds: new Set(), io: { status: "unavailable", reason } };
  }
  const { v2Problem, v1Problem, v1Cpu, ioProblem, samplingProblem } = host;
  const io: IoCeiling = { status: ioProblem === null ? "enforced" : "unavailable", reason: ioProblem };
  const held: AggregateLimit[] = ["cgroup_memory_bytes", "cgroup_pids_max"];
  if (v2Problem === null) {
    return { mechanism: "cgroup-v2", reason: null, holds: new Set([...held, "cgroup_cpu_percent"]), io };
  }
  const v2 = `cgroup v2: ${v2Problem}`;
  if (v1Problem === null) {
    return { mechanism: "cgroup-v1", reason: v2, holds: new Set(v1Cpu ? [...held, "cgroup_cpu_percent"] : held), io };
  }
  const both = `${v2}; cgroup v1: ${v1Problem}`;
  if (samplingProblem === null) return { mechanism: "sampling", reason: both, holds: new Set(), io };
  return { mechanism: "none", reason: `${both}; sampling: ${samplingProblem}`, holds: new Set(), io };
}

/**
 * `E-RUN-012` when the manifest itself declares a limit of all commands together that no cgroup holds here; `null`
 * otherwise. The ceiling of input and output stays best-effort.
 *
 * @param linux Elsewhere there are no cgroups to ask for, and `W-SEC-010` says so.
 */
export function aggregateRefusal(
  manifest: CapsuleManifest,
  { mechanism, reason, holds }: AggregateDecision,
  linux: boolean,
): MurError | null {
  if (mechanism === "not-required" || !linux) return null;
  const { declared } = manifest.capabilities.resources;
  const written = (["cgroup_memory_bytes", "cgroup_pids_max", "cgroup_cpu_percent"] as const)
    .filter((key) => declared.has(key) && !holds.has(key));
  if (written.length === 0) return null;
  const names = written.map((key) => `capabilities.resources.${key}`);
  const place = manifest.place(names[0]!);
  return new MurError(
    "E-RUN-012",
    `${names.join(", ")}: declared, and no cgroup scope could be created to bound them (${reason})`,
    {
      hint: "drop the field, or let this user have cgroups, as systemd does with Delegate=yes",
      ...(place === undefined ? {} : { place }),
    },
  );
}

/** Limits the helper samples for each command beside what a cgroup holds; those of one process always. */
export function watchedLimits(limits: ProcessLimits, { mechanism }: AggregateDecision): Map<WatchedLimit, number> {
  const watched = new Map<WatchedLimit, number>([["memory_bytes", limits.memoryBytes]]);
  if (mechanism === "sampling") {
    watched.set("cgroup_memory_bytes", limits.cgroupMemoryBytes);
    watched.set("cgroup_pids_max", limits.cgroupPidsMax);
  }
  return watched;
}
