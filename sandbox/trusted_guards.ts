/**
 * Keeping files that a later launch trusts read-only for commands, although they lie where commands may write: which
 * mounts hold them, which names must be taken before a command can take them, and which cannot be held at all (spec
 * containment 4.8). Components are held by `base/trusted_files.ts`.
 *
 * @module
 */
import { directoriesBetween, isAtOrBelow, parentDirectory } from "../base/paths.ts";
import type { TrustedPath } from "../base/trusted_files.ts";
import type { CommandRecord } from "./confine_records.ts";

/** What stands at a path. */
export type StandingKind = "directory" | "file" | "linked-file" | "symlink" | "absent";

/** A trusted path as it was met in a writable grant. */
export interface TrustedStanding {
  /** As the launch names it. */
  readonly path: string;
  readonly tree: boolean;
  /** Canonical root of the outermost writable grant that it lies in. */
  readonly grant: string;
  /** Canonical path down to which the way was followed: the trusted path itself, or the step that ends the way. */
  readonly reached: string;
  readonly kind: StandingKind;
  /** Whether `reached` is the trusted path itself. */
  readonly whole: boolean;
}

/** A name that is taken by an empty file or directory before a command can take it. */
export interface TrustedPlaceholder {
  /** Canonical root of the writable grant that it lies in. */
  readonly grant: string;
  readonly path: string;
  readonly directory: boolean;
}

/** How the trusted files of a session are held. */
export interface TrustedGuards {
  /** In the order they are carried out. */
  readonly protect: readonly Extract<CommandRecord, { op: "protect" }>[];
  readonly placeholders: readonly TrustedPlaceholder[];
  /** Trusted paths in a writable grant, as the launch names them. */
  readonly trusted: readonly string[];
  /** Those of them that no mount holds. */
  readonly unguardable: readonly string[];
}

/**
 * Follows a trusted path from the root to see whether it lies in a writable grant. `null` when it does not.
 *
 * @param grants Canonical.
 */
export function standingOf({ path, tree = false }: TrustedPath, grants: readonly string[]): TrustedStanding | null {
  const holding = (place: string) =>
    grants.filter((grant) => isAtOrBelow(place, grant)).sort((a, b) => a.length - b.length)[0];
  const pending = path.split("/").reverse();
  let at = "/";
  let links = 0;
  while (pending.length > 0) {
    const name = pending.pop()!;
    if (name === "" || name === ".") continue;
    if (name === "..") {
      at = parentDirectory(at);
      continue;
    }
    const next = at === "/" ? `/${name}` : `${at}/${name}`;
    const whole = pending.every((part) => part === "" || part === ".");
    const kind = whole && isPlaceholder(next, tree) ? "absent" : kindAt(next);
    // What holds the name decides: who may write its directory may replace it.
    const grant = holding(at);
    if (grant !== undefined && (kind !== "directory" || whole)) {
      return { path, tree, grant, reached: next, kind, whole };
    }
    if (kind === "symlink") {
      if (++links > MAX_LINKS) return null;
      const target = Deno.readLinkSync(next);
      if (target.startsWith("/")) at = "/";
      pending.push(...target.split("/").reverse());
      continue;
    }
    if (kind !== "directory") return null;
    at = next;
  }
  // A grant inside a trusted tree: everything in it is trusted and writable at once.
  const inside = tree ? grants.find((grant) => isAtOrBelow(grant, at)) : undefined;
  return inside === undefined ? null : { path, tree, grant: inside, reached: at, kind: "directory", whole: true };
}

/** Symbolic links followed on one way. */
const MAX_LINKS = 40;

function kindAt(path: string): StandingKind {
  try {
    const info = Deno.lstatSync(path);
    if (info.isSymlink) return "symlink";
    if (info.isDirectory) return "directory";
    return (info.nlink ?? 1) > 1 ? "linked-file" : "file";
  } catch {
    return "absent";
  }
}

/**
 * Whether a placeholder stands at a path: another session's, which it will take away. Then it is still needed, and every
 * reader takes it for absent.
 */
function isPlaceholder(path: string, tree: boolean): boolean {
  try {
    const { isDirectory, isFile, mode, nlink, size } = Deno.lstatSync(path);
    if (!tree) return isFile && size === 0 && (nlink ?? 1) === 1;
    return isDirectory && ((mode ?? 0o222) & 0o222) === 0 &&
      Deno.readDirSync(path)[Symbol.iterator]().next().done === true;
  } catch {
    return false;
  }
}

/** Plans the guards. Pure. */
export function planTrustedGuards(standings: readonly TrustedStanding[]): TrustedGuards {
  const directories = new Set<string>();
  const fixed = new Set<string>();
  const placeholders = new Map<string, TrustedPlaceholder>();
  const unguardable = new Set<string>();
  for (const { path, tree, grant, reached, kind, whole } of standings) {
    // Under another name, or through a link that could be replaced, it stays writable whatever is mounted here.
    if (kind === "symlink" || kind === "linked-file" || isAtOrBelow(grant, reached) || (kind === "file" && !whole)) {
      unguardable.add(path);
      continue;
    }
    for (const directory of directoriesBetween(grant, reached)) directories.add(directory);
    fixed.add(reached);
    if (kind === "absent") placeholders.set(reached, { grant, path: reached, directory: !whole || tree });
  }
  const covered = (path: string) => [...fixed].some((other) => other !== path && isAtOrBelow(path, other));
  const protect = [
    ...[...directories].filter((path) => !fixed.has(path)).map((path) => ({ how: "dir" as const, path })),
    ...[...fixed].map((path) => ({ how: "ro" as const, path })),
  ].filter(({ path }) => !covered(path));
  return {
    protect: protect.sort((a, b) => comparePaths(a.path, b.path)).map((each) => ({ op: "protect", ...each })),
    placeholders: [...placeholders.values()].filter(({ path }) => !covered(path)),
    trusted: [...new Set(standings.map(({ path }) => path))],
    unguardable: [...unguardable],
  };
}

/** Orders paths so that a directory comes before what lies in it. */
export function comparePaths(a: string, b: string): number {
  const [left, right] = [a.split("/"), b.split("/")];
  for (let index = 0; index < Math.min(left.length, right.length); index++) {
    if (left[index] !== right[index]) return left[index]! < right[index]! ? -1 : 1;
  }
  return left.length - right.length;
}
