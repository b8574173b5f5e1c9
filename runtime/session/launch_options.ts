/**
 * What a launch is asked for, and the checks that need nothing but that (spec session 2, steps 2, 3, 6 and 13).
 *
 * @module
 */
import { CONTAINMENT_CLASSES, type ContainmentClass } from "../../artifact/manifest/capsule_manifest.ts";
import { MurError, type WarningSink } from "../../base/errors.ts";
import type { MurmurHome } from "../../base/murmur_home.ts";
import type { TimeBounds } from "../../base/time_bounds.ts";
import type { SpawnedLaunch } from "../delegation/spawned_launch.ts";

/** Read access to variables. */
export interface Variables {
  get(name: string): string | undefined;
}

/** Which capsule is launched. */
export type CapsuleSource =
  /** A manifest on disk, as the operator named it. */
  | { readonly kind: "manifest"; readonly path: string }
  /** An installed capsule, staged from its archive. */
  | { readonly kind: "installed"; readonly name: string; readonly version: string; readonly sha256: string | null };

/** Everything a launch is given. */
export interface LaunchOptions {
  /**
   * Absolute directory that relative paths, the project and its configuration are taken against: the current one, but for a
   * delegated child. That stands in its work folder, where all may come from an agent.
   */
  readonly cwd: string;
  readonly env: Variables;
  readonly home: MurmurHome;
  readonly bounds: TimeBounds;
  readonly source: CapsuleSource;
  /** Directory whose project store and `.env` are used instead of the current directory's; only with an installed capsule. */
  readonly storeRoot: string | null;
  /** `--task`: a path or the text. */
  readonly task: string | null;
  readonly contextId: string | null;
  /** `--resume`: a session address, empty for the newest. */
  readonly resume: string | null;
  readonly resumeMode: "full" | "compact";
  readonly forgetSession: boolean;
  readonly workdir: string | null;
  /** Address of the door, without brackets. */
  readonly bind: string;
  readonly taskAcceptance: string | null;
  readonly afterTask: string | null;
  readonly useEnvFile: boolean;
  readonly containment: string | null;
  readonly systemPrompt: string | null;
  /** What another session launched it with; `null` when an operator did. */
  readonly spawned: SpawnedLaunch | null;
  readonly warn: WarningSink;
  /** Takes lines for stderr that carry no code. */
  readonly notice: (line: string) => void;
}

/** Containment class of a flag. @throws {MurError} `E-IO-003`. */
export function containmentFlag(value: string | null): ContainmentClass | null {
  if (value === null) return null;
  const found = CONTAINMENT_CLASSES.find((name) => name === value);
  if (found !== undefined) return found;
  throw new MurError("E-IO-003", `invalid value '${value}' for --containment`, {
    hint: `use one of: ${CONTAINMENT_CLASSES.join(", ")}`,
  });
}

/** The stronger of two classes; `null` asks for nothing. */
export function strongerClass(a: ContainmentClass | null, b: ContainmentClass | null): ContainmentClass | null {
  if (a === null || b === null) return a ?? b;
  return CONTAINMENT_CLASSES.indexOf(a) >= CONTAINMENT_CLASSES.indexOf(b) ? a : b;
}

function flagWord<T extends string>(flag: string, value: string | null, words: readonly T[]): T | null {
  if (value === null) return null;
  const found = words.find((word) => word === value);
  if (found !== undefined) return found;
  throw new MurError("E-IO-003", `invalid value '${value}' for ${flag}`, { hint: `use one of: ${words.join(", ")}` });
}

/** Lifecycle fields that flags replace. */
export interface LifecycleFlags {
  readonly taskAcceptance: "none" | "single" | "queue" | null;
  readonly afterTask: "exit" | "sleep" | null;
}

/** The two lifecycle flags. @throws {MurError} `E-IO-003`. */
export function lifecycleFlags(options: Pick<LaunchOptions, "taskAcceptance" | "afterTask">): LifecycleFlags {
  return {
    taskAcceptance: flagWord("--lifecycle-task-acceptance", options.taskAcceptance, ["none", "single", "queue"]),
    afterTask: flagWord("--lifecycle-after-task", options.afterTask, ["exit", "sleep"]),
  };
}

/**
 * Variables by which another program launches a capsule as its child or as a member of a formation. No formation is served
 * by this version, and no child inside another program; running such a session on its own would break what its launcher
 * relies on.
 */
const LAUNCHER_VARIABLES: readonly { readonly name: string; readonly code: "E-RUN-020" | "E-RUN-044" | "E-RUN-046" }[] =
  [
    { name: "MURMUR_FORMATION_ID", code: "E-RUN-044" },
    { name: "MURMUR_SPAWNER", code: "E-RUN-020" },
    { name: "MURMUR_SPAWNER_LIFELINE", code: "E-RUN-020" },
    { name: "MURMUR_FORMATION_CHANNEL", code: "E-RUN-046" },
    { name: "MURMUR_FORMATION_LIFELINE", code: "E-RUN-046" },
    { name: "MURMUR_FORMATION_PEERS", code: "E-RUN-046" },
  ];

/** Whether another session launched this process, as far as its variables tell. */
export function hasSpawnerVariables(env: Variables): boolean {
  return LAUNCHER_VARIABLES.some(({ name, code }) => code === "E-RUN-020" && (env.get(name) ?? "").trim() !== "");
}

/**
 * Refuses a launch as somebody's member, or as a child by a program that took nothing of what its launcher handed it.
 *
 * @throws {MurError} `E-RUN-020`, `E-RUN-044`, `E-RUN-046`.
 */
export function refuseForeignLaunch({ env, spawned }: Pick<LaunchOptions, "env" | "spawned">): void {
  for (const { name, code } of LAUNCHER_VARIABLES) {
    if ((env.get(name) ?? "").trim() === "" || (spawned !== null && code === "E-RUN-020")) continue;
    throw new MurError(code, `${name} is set, and this version of mur cannot be launched so`, {
      hint: `unset ${name} to run the capsule on its own`,
    });
  }
}

/** Refuses flags that exclude each other. @throws {MurError} `E-RUN-015`. */
export function refuseExclusiveFlags(options: Pick<LaunchOptions, "resume" | "contextId">): void {
  if (options.resume !== null && options.contextId !== null) {
    throw new MurError("E-RUN-015", "--resume and --context cannot be given together", { hint: "pass one of the two" });
  }
}
