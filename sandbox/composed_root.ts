/**
 * The root that a sealed command sees: what is in it, and in which order it is put together (spec containment 5). What is
 * not named here is not there. Pure but for {@linkcode readHostRoot}.
 *
 * @module
 */
import { MurError } from "../base/errors.ts";
import { isAtOrBelow, parentDirectory } from "../base/paths.ts";
import type { ConfineFailure } from "./confine_control.ts";
import type { BindAccess, Presence, RootRecord } from "./confine_records.ts";
import { SYSTEM_DIRECTORIES } from "./system_directories.ts";
import { comparePaths } from "./trusted_guards.ts";

/** Entries of `/etc` that are directories, listed and read. */
const ETC_DIRECTORIES = ["ssl", "pki", "ca-certificates", "ld.so.conf.d", "alternatives", "terminfo"] as const;

/** Entries of `/etc` that are files of the host's, read. */
const ETC_FILES = [
  "ld.so.cache",
  "ld.so.conf",
  "ca-certificates.conf",
  "hosts",
  "nsswitch.conf",
  "localtime",
  "timezone",
] as const;

/** Files of `/etc` that the runtime writes itself. */
export const SYNTHETIC_FILES = ["passwd", "group", "resolv.conf"] as const;

/** Device nodes of a composed root, and whether they may be written. */
export const ROOT_DEVICES: readonly { readonly path: string; readonly writable: boolean }[] = [
  { path: "/dev/null", writable: true },
  { path: "/dev/zero", writable: true },
  { path: "/dev/full", writable: true },
  { path: "/dev/tty", writable: true },
  { path: "/dev/random", writable: false },
  { path: "/dev/urandom", writable: false },
];

/** Where the new root may be mounted while it is put together, the first that can be. */
const BASES = ["/tmp", "/run", "/var/tmp", "/mnt", "/media"] as const;

/** Directories that are put together here and never bound as a whole. */
const COMPOSED = ["/", "/etc", "/dev", "/proc", "/tmp"] as const;

/** What stands at a path of the host. */
export type HostEntry =
  | { readonly path: string; readonly kind: "directory" | "file" }
  | { readonly path: string; readonly kind: "symlink"; readonly target: string };

/** What the host has of the things every root is made of. */
export interface HostRoot {
  /** Of {@linkcode SYSTEM_DIRECTORIES}. */
  readonly runtime: readonly HostEntry[];
  /** Of the allowed entries of `/etc`, as they are when links are followed. */
  readonly etc: readonly HostEntry[];
  /** Of {@linkcode ROOT_DEVICES}. */
  readonly devices: readonly string[];
  /** Real directories of the candidates for the base. */
  readonly bases: readonly string[];
}

/** Looks at the host. */
export function readHostRoot(): HostRoot {
  const entry = (path: string, follow: boolean): HostEntry[] => {
    try {
      const info = follow ? Deno.statSync(path) : Deno.lstatSync(path);
      if (info.isSymlink) return [{ path, kind: "symlink", target: Deno.readLinkSync(path) }];
      return [{ path, kind: info.isDirectory ? "directory" : "file" }];
    } catch {
      return [];
    }
  };
  const allowed = [...ETC_DIRECTORIES, ...ETC_FILES].map((name) => `/etc/${name}`);
  return {
    runtime: SYSTEM_DIRECTORIES.flatMap((path) => entry(path, false)).filter(({ kind }) => kind !== "file"),
    etc: allowed.flatMap((path) => entry(path, true)).filter(({ path, kind }) =>
      (kind === "directory") === ETC_DIRECTORIES.some((name) => `/etc/${name}` === path)
    ),
    devices: ROOT_DEVICES.map(({ path }) => path).filter((path) => entry(path, true).length > 0),
    bases: BASES.filter((path) => entry(path, false)[0]?.kind === "directory"),
  };
}

/** Something of the host's that a session's root has besides. */
export interface RootBind {
  /** Path in the root; canonical on the host. */
  readonly target: string;
  /** Where it differs. */
  readonly source?: string;
  readonly access: Exclude<BindAccess, "dev">;
  readonly presence: Presence;
  readonly kind: "directory" | "file";
}

/** A name that leads elsewhere: a symbolic link on the way to it, on the host, or itself. */
export interface PathLink {
  readonly path: string;
  /** Canonical. */
  readonly target: string;
  readonly kind: "directory" | "file";
  /** Whether the directory of `path` is written without a link. */
  readonly inCanonicalDirectory: boolean;
}

/** What a session's root is made of. All paths canonical. */
export interface RootRequest {
  readonly host: HostRoot;
  readonly binds: readonly RootBind[];
  /** Directory of the files that the runtime writes itself. */
  readonly syntheticEtc: string;
  /** `<records>/tmp`. */
  readonly temporary: string;
  readonly executableTemporary: boolean;
  readonly workdir: string;
  /** Further names of what is in the root. */
  readonly links: readonly PathLink[];
}

interface PlannedBind {
  readonly access: BindAccess;
  readonly presence: Presence;
  readonly source: string;
  readonly kind: "directory" | "file";
}

/**
 * The records that put a root together.
 *
 * @throws {MurError} `E-RUN-014` when no directory can hold the new root.
 */
export function composedRoot(request: RootRequest): RootRecord[] {
  const { host, workdir, temporary } = request;
  const binds = new Map<string, PlannedBind>();
  const add = (target: string, bind: PlannedBind) => {
    const other = binds.get(target);
    // What must be there is never replaced by what may be, nor what may be written by what may not.
    if (other === undefined || rank(bind) > rank(other)) binds.set(target, bind);
  };
  const optional = (path: string, kind: "directory" | "file", source = path) =>
    add(path, { access: "ro", presence: "opt", source, kind });
  for (const entry of host.runtime) if (entry.kind === "directory") optional(entry.path, "directory");
  for (const { path, kind } of host.etc) if (kind !== "symlink") optional(path, kind);
  for (const name of SYNTHETIC_FILES) {
    const source = `${request.syntheticEtc}/${name}`;
    add(`/etc/${name}`, { access: "ro", presence: "req", source, kind: "file" });
  }
  for (const path of host.devices) add(path, { access: "dev", presence: "opt", source: path, kind: "file" });
  const writable = request.executableTemporary ? "rwx" : "rw";
  add("/tmp", { access: writable, presence: "req", source: temporary, kind: "directory" });
  for (const { target, source = target, access, presence, kind } of request.binds) {
    if (isComposed(target)) continue;
    add(target, { access, presence, source, kind });
  }
  // What lies in the session's own /tmp outlives a command: a link could be made once only, the place of a bind stays.
  const [inTmp, links] = partition(request.links, ({ path }) => isAtOrBelow(path, "/tmp"));
  for (const { path, target, kind } of inTmp) {
    if (!isComposed(path)) add(path, { access: "ro", presence: "opt", source: target, kind });
  }
  const base = baseOf(host.bases, [workdir, ...[...binds.values()].map(({ source }) => source)]);

  const root = new RootSteps();
  for (const entry of host.runtime) if (entry.kind === "symlink") root.link(entry.path, entry.target);
  root.directory("/etc");
  root.directory("/dev");
  root.steps.push({ op: "tmpfs", path: "/dev" });
  root.directory("/dev/pts");
  root.steps.push({ op: "devpts", path: "/dev/pts" });
  for (const [name, target] of DEVICE_LINKS) root.link(`/dev/${name}`, target);
  root.directory("/proc");
  root.steps.push({ op: "proc", path: "/proc" });
  for (const [target, bind] of [...binds].sort(([a], [b]) => comparePaths(a, b))) root.bind(target, bind);
  for (const { path, target } of links) if (!isComposed(path)) root.link(path, target);
  return [{ op: "base", path: base }, ...root.steps, { op: "seal" }];
}

function partition<T>(items: readonly T[], first: (item: T) => boolean): [T[], T[]] {
  return [items.filter(first), items.filter((item) => !first(item))];
}

const DEVICE_LINKS = [
  ["fd", "/proc/self/fd"],
  ["stdin", "/proc/self/fd/0"],
  ["stdout", "/proc/self/fd/1"],
  ["stderr", "/proc/self/fd/2"],
  ["ptmx", "pts/ptmx"],
] as const;

/** Whether a path is made here, or lies in a file system that is. */
function isComposed(path: string): boolean {
  return COMPOSED.some((composed) => composed === path) || isAtOrBelow(path, "/dev") || isAtOrBelow(path, "/proc");
}

function rank({ presence, access }: PlannedBind): number {
  return (access.startsWith("rw") ? 2 : 0) + (presence === "req" ? 1 : 0);
}

/**
 * `E-RUN-014` for a root that the helper could not compose although the host can: no command of the session would run
 * (spec containment 19.10); `null` for another failure.
 */
export function composedRootFailure({ stage, reason }: ConfineFailure): MurError | null {
  if (stage !== "sealed-root") return null;
  return new MurError("E-RUN-014", `sealed-root: ${reason}`, {
    hint: "make what the step names available, or run under a floor below 'sealed'",
  });
}

function rootError(step: string, reason: string): MurError {
  return new MurError("E-RUN-014", `sealed-root: ${step} failed: ${reason}`, { hint: "choose another --workdir" });
}

function baseOf(candidates: readonly string[], sources: readonly string[]): string {
  const base = candidates.find((path) => !sources.some((source) => isAtOrBelow(source, path)));
  if (base === undefined) {
    throw rootError("base", `each of ${BASES.join(", ")} is absent or holds what the root is made of`);
  }
  return base;
}

/** Collects steps; knows what stands already, and what a bind brought along. */
class RootSteps {
  readonly steps: RootRecord[] = [];
  readonly #standing = new Set(["/"]);
  readonly #links = new Set<string>();
  /** Binds whose content is the host's at the same path: below them everything stands. */
  readonly #mirrors: string[] = [];

  /** Makes a directory and those above it. */
  directory(path: string): void {
    if (this.#standing.has(path) || this.#mirrored(path)) return;
    this.directory(parentDirectory(path));
    this.#standing.add(path);
    this.steps.push({ op: "mkdir", path });
  }

  link(path: string, target: string): void {
    if (this.#standing.has(path) || this.#mirrored(path) || this.#behindLink(path)) return;
    this.directory(parentDirectory(path));
    this.#standing.add(path);
    this.#links.add(path);
    this.steps.push({ op: "symlink", target, path });
  }

  bind(target: string, { access, presence, source, kind }: PlannedBind): void {
    // A canonical path leads through no link; were there one, the place would be another.
    if (this.#behindLink(target)) return;
    if (!this.#mirrored(target)) {
      this.directory(parentDirectory(target));
      if (kind === "directory") this.directory(target);
      else this.steps.push({ op: "mkfile", path: target });
      this.#standing.add(target);
    }
    this.steps.push({ op: "bind", access, presence, source, target });
    if (source === target && kind === "directory") this.#mirrors.push(target);
  }

  #mirrored(path: string): boolean {
    return this.#mirrors.some((mirror) => mirror !== path && isAtOrBelow(path, mirror));
  }

  #behindLink(path: string): boolean {
    return [...this.#links].some((link) => isAtOrBelow(path, link));
  }
}

/**
 * Where commands ask for names: the session's own relay, which takes what is sent to any address. The host's file may name
 * servers over IPv6, which nothing in a session's network can reach, or a search list that no rule allows.
 */
export const RESOLVER_CONFIGURATION = "nameserver 127.0.0.1\n";

/** The synthetic `passwd` and `group`: no account of the host's is in them (spec containment 5.2). */
export interface SyntheticAccounts {
  readonly passwd: string;
  readonly group: string;
}

/**
 * Writes the accounts of a command.
 *
 * @param home Its `HOME`, byte for byte.
 * @throws {MurError} `E-IO-003` when the home cannot stand in such a file.
 */
export function syntheticAccounts(uid: number, gid: number, home: string): SyntheticAccounts {
  if (/[:\n]/.test(home)) {
    throw new MurError("E-IO-003", `the home of commands, ${JSON.stringify(home)}, holds a colon or a line break`, {
      hint:
        "choose a --workdir whose path has neither, and a HOME likewise: the records of a session are named after both",
    });
  }
  if (uid === 0) {
    return { passwd: `root:x:0:${gid}:root:${home}:/bin/sh\n`, group: gid === 0 ? "root:x:0:\n" : "" };
  }
  return {
    passwd: `root:x:0:0:root:/root:/bin/sh\ncapsule:x:${uid}:${gid}:capsule:${home}:/bin/sh\n`,
    group: `root:x:0:\ncapsule:x:${gid}:\n`,
  };
}
