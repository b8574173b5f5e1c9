/**
 * From what a session's commands were granted to the records that the containment helper carries out, one list per
 * command (spec containment 4, 5, 8, 14, 19.3). Pure: every fact was looked up before.
 *
 * @module
 */
import { MurError } from "../base/errors.ts";
import { directoriesBetween, isAtOrBelow, parentDirectory } from "../base/paths.ts";
import { type CommandGrants, executableDirectories, type NativeName, writableGrants } from "./command_grants.ts";
import { composedRoot, type HostRoot, ROOT_DEVICES, type RootBind, SYNTHETIC_FILES } from "./composed_root.ts";
import type {
  CommandRecord,
  ConfineTier,
  JoinRecord,
  Presence,
  RightSet,
  RlimitName,
  RootRecord,
  WatchedLimit,
} from "./confine_records.ts";
import { SYSTEM_DIRECTORIES } from "./system_directories.ts";
import { type TemporaryDirectory, temporaryDirectory } from "./temporary_directory.ts";
import { comparePaths } from "./trusted_guards.ts";

type RuleRecord = Extract<CommandRecord, { op: "rule" }>;
type MountRecord = Extract<CommandRecord, { op: "rw" | "rebind" | "tmpmap" }>;
type ProtectRecord = Extract<CommandRecord, { op: "protect" }>;

/** What a session's plan is made from. */
export interface PlanFacts {
  readonly tier: ConfineTier;
  readonly privateMounts: boolean;
  readonly pidNamespace: boolean;
  /** Highest Landlock ABI that is used; `null`: the kernel's own. */
  readonly landlockAbiAtMost: number | null;
  readonly uid: number;
  readonly gid: number;
  readonly grants: CommandGrants;
  readonly protect: readonly ProtectRecord[];
  readonly rlimits: Readonly<Partial<Record<RlimitName, number>>>;
  readonly watch: ReadonlyMap<WatchedLimit, number>;
  /** `cgroup.procs` files to join. */
  readonly cgroups: readonly string[];
  /** `~/.murmur/sessions/<id>/sealed-etc`: files of `/etc` that the runtime writes; canonical. */
  readonly syntheticEtc: string;
  /** Needed by the tier `sealed` alone. */
  readonly hostRoot: HostRoot | null;
}

/** A session's plan. */
export interface CommandPlan {
  readonly temporary: TemporaryDirectory;
  /** Value of `HOME` and `USERPROFILE`. */
  readonly home: string;
  /** Value of `MURMUR_RUNTIME_DIR`. */
  readonly runtime: string;
  readonly workdir: string;
  /** Records that all commands share. */
  readonly records: readonly CommandRecord[];
  readonly tier: ConfineTier;
}

/** One command. */
export interface PlannedCommand {
  readonly program: string;
  /** All of it, the program's name first. */
  readonly argv: readonly string[];
  /** Files that a native tool besides may execute: itself and what it opens to start; empty for a shell command. */
  readonly nativeFiles: readonly string[];
  /** Names by which it starts them, where these are not their canonical paths. */
  readonly nativeNames: readonly NativeName[];
  /** `null`: the network is a fresh and empty one. */
  readonly join: JoinRecord | null;
}

/**
 * Plans for a session.
 *
 * @throws {MurError} `E-IO-003` when the work folder is the root directory, `E-RUN-014` when no root can be composed.
 */
export function planCommands(facts: PlanFacts): CommandPlan {
  const { tier, grants } = facts;
  const { directories } = grants;
  if (directories.workdir === "/" && tier !== "env") {
    throw new MurError("E-IO-003", "the work folder is the root directory, and commands may write to all of it", {
      hint: "choose another --workdir",
    });
  }
  const temporary = temporaryDirectory(tier, facts.privateMounts, directories.workdir, `${directories.records}/tmp`);
  const records: CommandRecord[] = [{ op: "tier", tier }, { op: "ids", uid: facts.uid, gid: facts.gid }];
  if (tier !== "env") {
    records.push({ op: "unix", allowed: grants.unixSockets }, { op: "pidns", own: facts.pidNamespace });
    for (const path of facts.cgroups) records.push({ op: "cgroup", path });
    for (const [name, value] of facts.watch) records.push({ op: "watch", name, value });
  }
  for (const [name, value] of Object.entries(facts.rlimits)) {
    if (value !== undefined) records.push({ op: "rlimit", name: name as RlimitName, value });
  }
  if (tier === "full" || tier === "sealed") {
    if (facts.landlockAbiAtMost !== null) records.push({ op: "abi", atMost: facts.landlockAbiAtMost });
    records.push(...filesystemRules(grants, tier, facts.syntheticEtc));
  }
  if (tier === "sealed") {
    records.push(...facts.protect, ...sealedRoot(facts));
  } else if (tier !== "env" && facts.privateMounts) {
    records.push({ op: "mounts", own: true }, ...hostMounts(grants, temporary), ...facts.protect);
    if (grants.resolvConf !== null) {
      records.push({ op: "cover", source: `${facts.syntheticEtc}/resolv.conf`, path: grants.resolvConf });
    }
  }
  records.push({ op: "cwd", path: directories.workdir });
  return {
    temporary,
    home: `${directories.records}/home`,
    runtime: directories.runtime,
    workdir: directories.workdir,
    records,
    tier,
  };
}

/** The records of one command. */
export function commandRecords(plan: CommandPlan, command: PlannedCommand): CommandRecord[] {
  const { program, argv, nativeFiles, join } = command;
  const records: CommandRecord[] = [...plan.records, { op: "exec", path: program, argv }];
  if (plan.tier !== "env" && join !== null) records.push(join);
  if (plan.tier === "full" || plan.tier === "sealed") {
    records.push(...nativeFiles.map((path) => rule("RX", "req", path)));
  }
  const seal = records.findIndex(({ op }) => op === "seal");
  if (seal >= 0) records.splice(seal, 0, ...nativeBinds(plan, command));
  else if (records.some(({ op }) => op === "mounts")) {
    const covered = plan.temporary.mapped ? [plan.runtime, "/tmp"] : [plan.runtime];
    const shown = nativeFiles.filter((path) => covered.some((place) => isAtOrBelow(path, place)))
      .filter((path) => !writableAt(plan, path));
    records.push(...shown.map((path): MountRecord => ({ op: "rebind", exec: true, path })));
  }
  return records;
}

/** Whether commands may write a file of the host, so that none may run it. */
function writableAt(plan: CommandPlan, path: string): boolean {
  return plan.records.some((record) =>
    record.op === "rw"
      ? isAtOrBelow(path, record.path)
      : record.op === "bind" && record.access.startsWith("rw") && isAtOrBelow(path, record.source)
  );
}

/**
 * What a native tool's files need in a composed root: those outside of the system's directories are not there, and the
 * runtime directory, where the tool itself lies, is no place to run from. Each is bound by itself, so that nothing is
 * hidden by it.
 */
function nativeBinds(plan: CommandPlan, { nativeFiles, nativeNames }: PlannedCommand): RootRecord[] {
  const own = nativeFiles.map((path): NativeName => ({ path, target: path }));
  const missing = [...own, ...nativeNames].filter(({ path, target }) =>
    !SYSTEM_DIRECTORIES.some((directory) => isAtOrBelow(path, directory)) && !writableAt(plan, target)
  );
  return missing.flatMap(({ path, target }): RootRecord[] => {
    const bind: RootRecord = { op: "bind", access: "ro", presence: "req", source: target, target: path };
    if (isAtOrBelow(path, plan.runtime)) return [bind];
    // What stands already is left as it is.
    const above = directoriesBetween("/", path).map((directory): RootRecord => ({ op: "mkdir", path: directory }));
    return [...above, { op: "mkfile", path }, bind];
  });
}

function rule(rights: RightSet, presence: Presence, path: string): RuleRecord {
  return { op: "rule", rights, presence, path };
}

const FULL_DEVICES = [["DRW", "/dev/null"], ["R", "/dev/zero"], ["R", "/dev/urandom"]] as const;

/** Landlock rules of the tiers that have it (spec containment 4.3, 5.3). */
export function filesystemRules(
  grants: CommandGrants,
  tier: "full" | "sealed",
  syntheticEtc: string,
): RuleRecord[] {
  const { directories, hostFiles, resolvConf } = grants;
  const own = grants.workdirExec ? "WX" : "W";
  const rules = [
    rule(own, "req", directories.workdir),
    rule(own, "req", `${directories.records}/tmp`),
    rule(own, "req", `${directories.records}/home`),
    rule("RL", "req", directories.records),
    rule("RL", "req", directories.runtime),
    ...grants.execute.map((path) => rule("RX", "opt", path)),
    ...grants.interpreterRuntime.map(({ canonical, listDir }) => rule(listDir ? "RXL" : "RX", "opt", canonical)),
    ...grants.hostPaths.map(({ path, access }) => rule(access === "read" ? "RL" : "W", "req", path)),
  ];
  if (tier === "full") {
    rules.push(...hostFiles.map(({ path, kind }) => rule(kind === "directory" ? "RL" : "R", "opt", path)));
    // Where it cannot be mounted over the host's, nobody asks for it.
    if (resolvConf !== null) rules.push(rule("R", "req", `${syntheticEtc}/resolv.conf`));
    rules.push(...FULL_DEVICES.map(([rights, path]) => rule(rights, "opt", path)));
  } else {
    rules.push(
      ...grants.stagedRuntime.map(({ path }) => rule("RXL", "opt", path)),
      // Not to be executed: the allow list would mean nothing.
      ...SYSTEM_DIRECTORIES.map((path) => rule("RL", "opt", path)),
      ...ETC_RULES.map(([rights, path]) => rule(rights, "opt", path)),
      ...ROOT_DEVICES.map(({ path, writable }) => rule(writable ? "DRW" : "R", "opt", path)),
    );
    rules.push(...SYNTHETIC_FILES.map((name) => rule("R", "req", `${syntheticEtc}/${name}`)));
  }
  const seen = new Map<string, RuleRecord>();
  for (const each of rules) {
    const key = `${each.rights} ${each.path}`;
    if (seen.get(key)?.presence !== "req") seen.set(key, each);
  }
  return [...seen.values()];
}

const ETC_RULES: readonly (readonly [RightSet, string])[] = [
  ["RL", "/etc/ssl"],
  ["RL", "/etc/pki"],
  ["RL", "/etc/ca-certificates"],
  ["RL", "/etc/ld.so.conf.d"],
  ["RL", "/etc/alternatives"],
  ["RL", "/etc/terminfo"],
  ["R", "/etc/ld.so.cache"],
  ["R", "/etc/ld.so.conf"],
  ["R", "/etc/ca-certificates.conf"],
  ["R", "/etc/hosts"],
  ["R", "/etc/nsswitch.conf"],
  ["R", "/etc/localtime"],
  ["R", "/etc/timezone"],
];

/** Mounts of the tiers that keep the host's tree: read-only but for these. */
function hostMounts(grants: CommandGrants, temporary: TemporaryDirectory): MountRecord[] {
  const { directories, workdirExec } = grants;
  const writable: MountRecord[] = writableGrants(grants).map(({ path, exec }) => ({ op: "rw", exec, path }));
  const shown = rebound(grants, writable.map(({ path }) => path), temporary.mapped);
  const mounts = [...writable, ...shown].sort((a, b) => comparePaths(a.path, b.path));
  return temporary.mapped
    ? [{ op: "tmpmap", exec: workdirExec, path: `${directories.records}/tmp` }, ...mounts]
    : mounts;
}

/** Directories of which commands read files that none of them may run: the runtime keeps their own words there. */
function dataDirectories({ directories, hostPaths }: CommandGrants): string[] {
  return [
    directories.records,
    directories.runtime,
    ...hostPaths.filter(({ access }) => access === "read").map(({ path }) => path),
  ];
}

/**
 * What is mounted once more, read-only: what may be read and not run, and granted paths beneath `/tmp` that its mapping
 * would cover. What a writable grant brings along needs none: so it keeps `noexec`.
 */
function rebound(grants: CommandGrants, writable: readonly string[], mapped: boolean): MountRecord[] {
  const { execute, interpreterRuntime, links } = grants;
  const runnable = [
    ...interpreterRuntime.map(({ canonical }) => canonical),
    ...execute,
    // Where a name of an allowed binary is a link, the link is needed too.
    ...links.flatMap(({ path, kind, inCanonicalDirectory }) =>
      kind === "file" && inCanonicalDirectory ? [parentDirectory(path)] : []
    ),
  ].filter((path) => mapped && path !== "/tmp" && isAtOrBelow(path, "/tmp"));
  const data = dataDirectories(grants);
  const shown = new Map<string, boolean>();
  for (const path of [...new Set([...runnable, ...data])].sort(comparePaths)) {
    if (writable.some((other) => isAtOrBelow(path, other))) continue;
    const exec = !data.includes(path);
    const above = [...shown.keys()].findLast((other) => isAtOrBelow(path, other));
    if (above === undefined || shown.get(above) !== exec) shown.set(path, exec);
  }
  return [...shown].map(([path, exec]) => ({ op: "rebind", exec, path }));
}

/** The composed root of a session. */
function sealedRoot(facts: PlanFacts): RootRecord[] {
  const { grants, hostRoot, syntheticEtc } = facts;
  const { directories } = grants;
  const writable = grants.workdirExec ? "rwx" : "rw";
  const bind = (
    target: string,
    access: RootBind["access"],
    presence: Presence,
    kind: RootBind["kind"] = "directory",
  ): RootBind => ({ target, access, presence, kind });
  const system = (path: string) => SYSTEM_DIRECTORIES.some((directory) => isAtOrBelow(path, directory));
  return composedRoot({
    host: hostRoot!,
    syntheticEtc,
    temporary: `${directories.records}/tmp`,
    executableTemporary: grants.workdirExec,
    workdir: directories.workdir,
    links: grants.links,
    binds: [
      ...grants.stagedRuntime.map(({ path, kind }) => bind(path, "ro", "req", kind)),
      ...executableDirectories(grants.execute).filter(({ path }) => !system(path))
        .map(({ path, kind }) => bind(path, "ro", "opt", kind)),
      ...grants.interpreterRuntime.filter(({ canonical }) => !system(canonical))
        .map(({ canonical, kind }) => bind(canonical, "ro", "opt", kind)),
      bind(directories.records, "data", "req"),
      bind(`${directories.records}/home`, writable, "req"),
      // It is /tmp, too. Left to the bind above, what was written there could be mapped to be executed.
      bind(`${directories.records}/tmp`, writable, "req"),
      bind(directories.runtime, "data", "req"),
      ...grants.hostPaths.map(({ path, access }) => bind(path, access === "read" ? "data" : "rw", "req")),
      bind(directories.workdir, writable, "req"),
    ],
  });
}
