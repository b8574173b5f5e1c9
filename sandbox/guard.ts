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

/** How a program is guarded. Its standard input stays its own: when the other end closes, it is killed. */
export interface GuardOptions {
  /** Put every wall around the program that the kernel grants, and name them in the first line of stderr. */
  readonly componentHost?: {
    /** Files the program may execute and read besides itself. Absent ones are left out. */
    readonly execute: readonly string[];
    /** Files it may read; a directory with everything below it. */
    readonly read: readonly string[];
  };
  /** Most resident bytes of one of its processes; one with more is killed. */
  readonly memoryBytes?: number;
}

/**
 * Arguments for the helper.
 *
 * @param program Absolute path.
 */
export function guardArguments(options: GuardOptions, program: string, args: readonly string[]): string[] {
  const line = ["guard"];
  if (options.componentHost !== undefined) {
    line.push("--profile", "component-host");
    for (const path of options.componentHost.execute) line.push("--rx", path);
    for (const path of options.componentHost.read) line.push("--r", path);
  }
  if (options.memoryBytes !== undefined) line.push("--memory", String(options.memoryBytes));
  return [...line, "--", program, ...args];
}

/** Walls named by the helper's first line of stderr, or `null` when the line is another. */
export function parseWalls(line: string): readonly Wall[] | null {
  const match = /^mur-confine: walls:((?: [a-z-]+)*)$/.exec(line.trimEnd());
  if (match === null) return null;
  return WALLS.filter((wall) => match[1]!.split(" ").includes(wall));
}
