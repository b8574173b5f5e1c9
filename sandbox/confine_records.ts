/**
 * What the runtime tells the containment helper about one command, or about the session's keeper: a list of records, each
 * an operation with its operands, already decided and resolved (spec containment 19.3). The helper checks every one of
 * them before it forks and refuses the whole list for one it does not know.
 *
 * Every path is absolute. `rw`, `protect`, `hold`, `rebind`, `cover`, `tmpmap`, `base` and targets of the composed root
 * are canonical as well: the helper follows no symbolic link in them, since the agent may have put one there.
 *
 * @module
 */
import { MurError } from "../base/errors.ts";

/** Version of the record language; the helper refuses every other. */
export const RECORDS_VERSION = 1;

/** Enforcement tiers as the helper knows them (spec containment 1.1). */
export type ConfineTier = "sealed" | "full" | "seccomp" | "env";

/** Sets of Landlock rights (spec containment 4.2). */
export type RightSet = "W" | "WX" | "RX" | "RXL" | "R" | "RL" | "DRW";

/** Kernel limits of each process (spec containment 14). `core` is always 0 and has no record. */
export type RlimitName = "nproc" | "nofile" | "fsize" | "cpu" | "as";

/** Limits the helper samples (spec containment 14.1). */
export type WatchedLimit = "memory_bytes" | "cgroup_memory_bytes" | "cgroup_pids_max";

/** How a missing path is taken: `req` fails the command, `opt` leaves the record out. */
export type Presence = "req" | "opt";

/**
 * How a composed root's bind is mounted, always nosuid:
 * `ro` read-only, nodev; `data` the same and noexec; `rw` writable, nodev, noexec; `rwx` writable, nodev (`workdir_exec`); `dev` a device node, noexec.
 */
export type BindAccess = "ro" | "data" | "rw" | "rwx" | "dev";

/** Records of a keeper. */
export type KeeperRecord =
  /** 32 random bytes, as 64 lower-case hex digits; every connection after the control connection presents them. */
  | { readonly op: "token"; readonly hex: string }
  /** A TCP port the keeper listens on; ascending, at most 16. */
  | { readonly op: "port"; readonly port: number };

/** Records of the composed root, carried out in their order (spec containment 5); targets are paths in the new root. */
export type RootRecord =
  /** Directory of the host that the new root is mounted over. */
  | { readonly op: "base"; readonly path: string }
  /** A directory, 0755; its parent stands. One that stands already is left as it is. */
  | { readonly op: "mkdir"; readonly path: string }
  /** An empty file, the place of a file's bind. */
  | { readonly op: "mkfile"; readonly path: string }
  | { readonly op: "symlink"; readonly target: string; readonly path: string }
  /** A bind with everything mounted below its source. A missing source fails the command or is left out. */
  | {
    readonly op: "bind";
    readonly access: BindAccess;
    readonly presence: Presence;
    readonly source: string;
    readonly target: string;
  }
  /** A tmpfs, 0755, 1 MiB, nosuid, noexec; read-only once sealed. */
  | { readonly op: "tmpfs"; readonly path: string }
  /** `/proc` of the command's own PID namespace, else the host's bound (spec containment 5.4). */
  | { readonly op: "proc"; readonly path: string }
  /** A devpts of its own; left out where the kernel refuses. */
  | { readonly op: "devpts"; readonly path: string }
  /** Pivots into the new root and makes it read-only. The last of them. */
  | { readonly op: "seal" };

/** Records of a command. Order counts where it is said to. */
export type CommandRecord =
  | { readonly op: "tier"; readonly tier: ConfineTier }
  /** @property argv All of it, the program's name first. */
  | { readonly op: "exec"; readonly path: string; readonly argv: readonly string[] }
  /** User and group the runtime runs as. */
  | { readonly op: "ids"; readonly uid: number; readonly gid: number }
  /** The session's keeper: its pid and its network namespace's inode number. Without it the network is a fresh, empty one. */
  | { readonly op: "join"; readonly pid: number; readonly netns: number }
  /** Whether unix sockets may be made (`capabilities.network.unix_sockets`). Absent: not. */
  | { readonly op: "unix"; readonly allowed: boolean }
  | { readonly op: "rlimit"; readonly name: RlimitName; readonly value: number }
  /** A `cgroup.procs` file to join; once per hierarchy. */
  | { readonly op: "cgroup"; readonly path: string }
  | { readonly op: "watch"; readonly name: WatchedLimit; readonly value: number }
  | { readonly op: "rule"; readonly rights: RightSet; readonly presence: Presence; readonly path: string }
  /** Handles Landlock no further than this ABI, as an older kernel would. */
  | { readonly op: "abi"; readonly atMost: number }
  /** Whether the PID namespace is made; absent: it is. */
  | { readonly op: "pidns"; readonly own: boolean }
  /** Whether the mount namespace is made; `sealed` always has one. Absent: not. */
  | { readonly op: "mounts"; readonly own: boolean }
  /** A writable grant of the tiers without a composed root; with `rebind` in one order, a directory before what lies in it. */
  | { readonly op: "rw"; readonly exec: boolean; readonly path: string }
  /**
   * A path that is mounted once more, read-only: what `tmpmap` would cover, and what may be read and never run (`exec`
   * false), since the runtime keeps a command's own words there.
   */
  | { readonly op: "rebind"; readonly exec: boolean; readonly path: string }
  /** A file that is mounted over another, read-only and not to be run, on the tiers without a composed root. */
  | { readonly op: "cover"; readonly source: string; readonly path: string }
  /** The folder that becomes `/tmp`, on the tiers without a composed root. */
  | { readonly op: "tmpmap"; readonly exec: boolean; readonly path: string }
  /**
   * `ro`: a path of a writable grant becomes read-only. `dir`: a directory is bound onto itself, so that it can't be
   * renamed. In the order given: a directory before what lies in it.
   */
  | { readonly op: "protect"; readonly how: "ro" | "dir"; readonly path: string }
  /**
   * A placeholder that stays as long as the command runs: the helper holds its shared lock, also when the session is over
   * and the runtime's is gone.
   */
  | { readonly op: "hold"; readonly path: string }
  | RootRecord
  /** Directory the command starts in, looked up in its own root. */
  | { readonly op: "cwd"; readonly path: string };

/** The record that puts a command into its session's network. */
export type JoinRecord = Extract<CommandRecord, { op: "join" }>;

/** Any record. */
export type ConfineRecord = KeeperRecord | CommandRecord;

/** Operands of a record, in the helper's order. */
function operands(record: ConfineRecord): readonly (string | number)[] {
  switch (record.op) {
    case "token":
      return [record.hex];
    case "port":
      return [record.port];
    case "tier":
      return [record.tier];
    case "exec":
      return [record.path, record.argv.length, ...record.argv];
    case "ids":
      return [record.uid, record.gid];
    case "join":
      return [record.pid, record.netns];
    case "unix":
      return [record.allowed ? 1 : 0];
    case "rlimit":
    case "watch":
      return [record.name, record.value];
    case "rule":
      return [record.rights, record.presence, record.path];
    case "abi":
      return [record.atMost];
    case "pidns":
    case "mounts":
      return [record.own ? 1 : 0];
    case "rw":
    case "rebind":
    case "tmpmap":
      return [record.exec ? "exec" : "noexec", record.path];
    case "cover":
      return [record.source, record.path];
    case "protect":
      return [record.how, record.path];
    case "symlink":
      return [record.target, record.path];
    case "bind":
      return [record.access, record.presence, record.source, record.target];
    case "seal":
      return [];
    case "cgroup":
    case "hold":
    case "base":
    case "mkdir":
    case "mkfile":
    case "tmpfs":
    case "proc":
    case "devpts":
    case "cwd":
      return [record.path];
  }
}

/**
 * The bytes of a `SPEC` frame: NUL-terminated strings, the version first.
 *
 * @throws {MurError} `E-IO-003` naming the record, when an operand holds a NUL (C would cut it short there), is not well
 * formed, or is no whole number of zero or more.
 */
export function encodeRecords(records: readonly ConfineRecord[]): Uint8Array<ArrayBuffer> {
  const words: string[] = ["version", String(RECORDS_VERSION)];
  for (const record of records) {
    words.push(record.op);
    for (const operand of operands(record)) {
      if (typeof operand === "number" && !(Number.isSafeInteger(operand) && operand >= 0)) {
        throw new MurError("E-IO-003", `containment record '${record.op}': ${operand} is no whole number of 0 or more`);
      }
      const word = String(operand);
      if (word.includes("\0") || !word.isWellFormed()) {
        throw new MurError("E-IO-003", `containment record '${record.op}': an operand can't be passed to a program`, {
          hint: "a path, an argument or a name holds a NUL character or broken text",
        });
      }
      words.push(word);
    }
  }
  return new TextEncoder().encode(words.map((word) => `${word}\0`).join(""));
}
