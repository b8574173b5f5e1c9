/**
 * The command line of `mur-confine guard` and what it says: starting a program that ends when this process does (spec
 * containment 19.12, components 3.9).
 *
 * @module
 */

/** Walls around a component host, outermost first, as the helper names them. */
export const WALLS = [
  "pid-namespace",
  "network-namespace",
  "read-only-mounts",
  "capabilities",
  "no-new-privileges",
  "landlock",
  "seccomp",
] as const;
export type Wall = typeof WALLS[number];

/** Limits the kernel holds for each process; a value above the inherited hard limit is lowered to it. */
export interface ProcessRlimits {
  readonly nofile?: number;
  readonly fsize?: number;
  readonly cpu?: number;
  readonly nproc?: number;
  readonly as?: number;
}

/** Limits the helper itself looks after, several times a second (spec containment 14.1, mechanism 3). */
export interface SampledLimits {
  /** Resident bytes of one process; it is killed alone. */
  readonly memory_bytes?: number;
  /** Resident bytes of all processes together, shared pages counted in each; everything is killed. */
  readonly cgroup_memory_bytes?: number;
  /** Number of processes; everything is killed. */
  readonly cgroup_pids_max?: number;
}

/** How a program is guarded. */
export interface GuardOptions {
  /**
   * `pass`: the program reads the piped standard input itself; when its other end closes, the program is killed.
   * `none`: the program reads `/dev/null`. A number: it reads that many bytes of the piped standard input, then its end.
   * With `none` and a number the (rest of the) standard input is the control line, see {@linkcode GUARD_RELEASE}.
   */
  readonly input: "pass" | "none" | number;
  /** Put every wall around the program that the kernel grants, and name them in the first line of stderr. */
  readonly componentHost?: {
    /** Files the program may execute and read besides itself. Absent ones are left out. */
    readonly execute: readonly string[];
    /** Files it may read; a directory with everything below it. */
    readonly read: readonly string[];
  };
  readonly samples?: SampledLimits;
  readonly rlimits?: ProcessRlimits;
}

/**
 * The one word of the control line: from now on the end of the line, or of this process, means nothing. Its end without
 * this word kills everything.
 */
export const GUARD_RELEASE = "R";

/** Signal to the helper that kills everything at once. */
export const GUARD_KILL_SIGNAL = "SIGVTALRM";

/**
 * Arguments for the helper.
 *
 * @param program Absolute path.
 */
export function guardArguments(options: GuardOptions, program: string, args: readonly string[]): string[] {
  const line = ["guard", "--input", String(options.input)];
  if (options.componentHost !== undefined) {
    line.push("--profile", "component-host");
    for (const path of options.componentHost.execute) line.push("--rx", path);
    for (const path of options.componentHost.read) line.push("--r", path);
  }
  for (const [name, value] of Object.entries(options.samples ?? {})) {
    if (value !== undefined) line.push("--sample", `${name}=${value}`);
  }
  for (const [name, value] of Object.entries(options.rlimits ?? {})) {
    if (value !== undefined) line.push("--rlimit", `${name}=${value}`);
  }
  return [...line, "--", program, ...args];
}

/** Walls named by the helper's first line of stderr, or `null` when the line is another. */
export function parseWalls(line: string): readonly Wall[] | null {
  const match = /^mur-confine: walls:((?: [a-z-]+)*)$/.exec(line.trimEnd());
  if (match === null) return null;
  return WALLS.filter((wall) => match[1]!.split(" ").includes(wall));
}

/** Stage and reason of a start that failed, or `null` when the text says something else (spec containment 19.10). */
export function parseGuardFailure(stderr: string): { readonly stage: string; readonly reason: string } | null {
  const match = /^(?:mur-confine: walls:[a-z -]*\n)?mur-confine: failed: ([a-z-]+): ([^\n]*)\n$/.exec(stderr);
  return match === null ? null : { stage: match[1]!, reason: match[2]! };
}

/** The limit the helper killed for, as the last line of stderr tells it; `null` when it tells none. */
export function parseExceeded(stderr: string): keyof SampledLimits | null {
  const match = /(?:^|\n)mur-confine: limit: (memory_bytes|cgroup_memory_bytes|cgroup_pids_max)\n$/.exec(stderr);
  return match === null ? null : match[1] as keyof SampledLimits;
}
