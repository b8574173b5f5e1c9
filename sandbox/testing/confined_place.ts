/**
 * A place for tests of contained commands: a work folder, things outside it to reach for, and the records of each tier
 * that let a shell run there and nothing else.
 *
 * @module
 */
import { makeControlDirectory } from "../confine_control.ts";
import { type CommandRecord, type ConfineTier, type RootRecord } from "../confine_records.ts";
import { type ConfinedCommand, type ConfinedStart, startConfinedCommand } from "../confined_command.ts";
import type { CommandEnd } from "../running_command.ts";

export const CONTAINED_TIERS = ["sealed", "full", "seccomp"] as const satisfies readonly ConfineTier[];
export type ContainedTier = typeof CONTAINED_TIERS[number];

/** What a test changes about a command. */
export interface CommandChanges {
  readonly tier?: ConfineTier;
  readonly records?: readonly CommandRecord[];
  readonly env?: Readonly<Record<string, string>>;
  readonly input?: Uint8Array<ArrayBuffer>;
  readonly workdirExec?: boolean;
  /** `false`: no mount namespace of its own. */
  readonly mounts?: boolean;
  readonly helper?: string;
}

/** How a command ended, with its output as text. */
export interface EndedCommand extends Omit<CommandEnd, "stdout" | "stderr"> {
  readonly stdout: string;
  readonly stderr: string;
}

const SYSTEM = ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"] as const;

function exists(path: string): boolean {
  try {
    Deno.lstatSync(path);
    return true;
  } catch {
    return false;
  }
}

/** A place of its own in the file system, removed when disposed. */
export class ConfinedPlace implements AsyncDisposable {
  readonly #helper: string;
  readonly root: string;
  readonly workdir: string;
  readonly tmp: string;
  /** What no command may touch: a folder of the same user. */
  readonly outside: string;
  readonly control: string;

  /** @param parent Where it lies; not below `/tmp` where a test maps that. */
  constructor(helper: string, parent?: string) {
    this.#helper = helper;
    this.root = Deno.realPathSync(Deno.makeTempDirSync(parent === undefined ? {} : { dir: parent }));
    this.workdir = `${this.root}/work`;
    this.tmp = `${this.root}/tmp`;
    this.outside = `${this.root}/outside`;
    for (const directory of [this.workdir, this.tmp, this.outside]) Deno.mkdirSync(directory, { mode: 0o700 });
    this.control = `${this.root}/ctl`;
    makeControlDirectory(this.control);
  }

  /** Makes a file in the work folder or at an absolute path. */
  file(path: string, text: string, mode = 0o644): string {
    const whole = path.startsWith("/") ? path : `${this.workdir}/${path}`;
    Deno.writeTextFileSync(whole, text);
    Deno.chmodSync(whole, mode);
    return whole;
  }

  /** Records of a command in the work folder. */
  records(program: string, argv: readonly string[], changes: CommandChanges = {}): CommandRecord[] {
    const tier = changes.tier ?? "full";
    const exec = changes.workdirExec ?? false;
    const records: CommandRecord[] = [
      { op: "tier", tier },
      { op: "exec", path: program, argv },
      { op: "ids", uid: Deno.uid()!, gid: Deno.gid()! },
      { op: "cwd", path: this.workdir },
    ];
    if (tier === "full" || tier === "sealed") {
      for (const path of SYSTEM) records.push({ op: "rule", rights: "RXL", presence: "opt", path });
      records.push({ op: "rule", rights: "R", presence: "opt", path: "/etc/ld.so.cache" });
      records.push({ op: "rule", rights: "DRW", presence: "req", path: "/dev/null" });
      for (const path of [this.workdir, this.tmp]) {
        records.push({ op: "rule", rights: exec ? "WX" : "W", presence: "req", path });
      }
    }
    if (tier === "sealed") records.push(...this.#composedRoot(exec));
    else if (tier !== "env" && changes.mounts !== false) {
      records.push({ op: "mounts", own: true }, { op: "rw", exec, path: this.workdir }, {
        op: "rw",
        exec,
        path: this.tmp,
      });
    }
    records.push(...changes.records ?? []);
    return records;
  }

  #composedRoot(exec: boolean): RootRecord[] {
    const access = exec ? "rwx" : "rw";
    const root: RootRecord[] = [{ op: "base", path: "/run" }];
    for (const path of SYSTEM) {
      if (!exists(path)) continue;
      if (Deno.lstatSync(path).isSymlink) root.push({ op: "symlink", target: Deno.readLinkSync(path), path });
      else {
        root.push({ op: "mkdir", path });
        root.push({ op: "bind", access: "ro", presence: "opt", source: path, target: path });
      }
    }
    root.push({ op: "mkdir", path: "/etc" }, { op: "mkfile", path: "/etc/ld.so.cache" });
    const cache = "/etc/ld.so.cache";
    root.push({ op: "bind", access: "ro", presence: "opt", source: cache, target: cache });
    root.push({ op: "mkdir", path: "/dev" }, { op: "tmpfs", path: "/dev" }, { op: "mkfile", path: "/dev/null" });
    root.push({ op: "bind", access: "dev", presence: "opt", source: "/dev/null", target: "/dev/null" });
    root.push({ op: "mkdir", path: "/dev/pts" }, { op: "devpts", path: "/dev/pts" });
    root.push({ op: "mkdir", path: "/proc" }, { op: "proc", path: "/proc" });
    root.push({ op: "mkdir", path: "/tmp" });
    root.push({ op: "bind", access, presence: "req", source: this.tmp, target: "/tmp" });
    let made = "";
    for (const part of this.workdir.slice(1).split("/")) root.push({ op: "mkdir", path: made += `/${part}` });
    root.push({ op: "bind", access, presence: "req", source: this.workdir, target: this.workdir });
    root.push({ op: "seal" });
    return root;
  }

  /** Starts a program. */
  start(program: string, argv: readonly string[], changes: CommandChanges = {}): ConfinedCommand {
    return this.startRecords(this.records(program, argv, changes), changes);
  }

  /** Starts a command of which every record is given. */
  startRecords(records: readonly CommandRecord[], changes: CommandChanges = {}): ConfinedCommand {
    const start: ConfinedStart = {
      helper: changes.helper ?? this.#helper,
      records,
      env: { PATH: "/usr/bin:/bin", ...changes.env },
      input: changes.input ?? null,
      controlDirectory: this.control,
      keep: 1 << 20,
      spoolDir: null,
      connectMs: 10_000,
    };
    return startConfinedCommand(start);
  }

  /** Runs a program to its end. */
  run(program: string, argv: readonly string[], changes: CommandChanges = {}): Promise<EndedCommand> {
    return this.runRecords(this.records(program, argv, changes), changes);
  }

  /** Runs a command of which every record is given to its end. */
  async runRecords(records: readonly CommandRecord[], changes: CommandChanges = {}): Promise<EndedCommand> {
    const { stdout, stderr, ...rest } = await this.startRecords(records, changes).end;
    const texts = { stdout: stdout.text(), stderr: stderr.text() };
    stdout.close();
    stderr.close();
    return { ...rest, ...texts };
  }

  /** Runs a script of `sh` to its end. */
  sh(script: string, changes: CommandChanges = {}): Promise<EndedCommand> {
    return this.run("/bin/sh", ["sh", "-c", script], changes);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Deno.remove(this.root, { recursive: true });
  }
}
