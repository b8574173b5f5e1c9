/**
 * Containment of one session's commands at work: what {@linkcode judgeContainment} decided, turned into what each command
 * is started with. Made once the session's directories stand; every path is looked up here for the last time (spec
 * containment 2.1, 4.8, 8, 14.1).
 *
 * @module
 */
import type { CapsuleManifest } from "../../artifact/manifest/capsule_manifest.ts";
import { MurError, reasonOf, type Warning } from "../../base/errors.ts";
import { parentDirectory } from "../../base/paths.ts";
import { watchedLimits } from "../../sandbox/aggregate_limits.ts";
import { type CgroupScope, createCgroupScope, type ScopeCounters } from "../../sandbox/cgroup_scope.ts";
import { type NativeTool, nativeTool, resolveGrants } from "../../sandbox/command_grants.ts";
import { readHostRoot, RESOLVER_CONFIGURATION, syntheticAccounts } from "../../sandbox/composed_root.ts";
import { type CommandPlan, commandRecords, planCommands } from "../../sandbox/confine_plan.ts";
import type { CommandRecord, JoinRecord } from "../../sandbox/confine_records.ts";
import type { ExecutablePath } from "../../sandbox/executable_path.ts";
import { processRlimits, taskBaseline } from "../../sandbox/process_limits.ts";
import { TrustedPlaceholders } from "../../sandbox/trusted_placeholders.ts";
import type { ContainmentJudgement } from "./containment_judgement.ts";
import { PLACEHOLDER_RECORD, type SessionPaths } from "./session_directories.ts";

/** What containment of a session's commands needs. */
export interface CommandContainmentOptions {
  readonly manifest: CapsuleManifest;
  readonly judgement: ContainmentJudgement;
  readonly paths: SessionPaths;
  /** `PATH` of the launch. */
  readonly path: string;
  /** Highest Landlock ABI that is used; `null`: the kernel's own. */
  readonly landlockAbiAtMost?: number | null;
}

/** A program that is started contained. */
export interface ContainedProgram {
  readonly program: string;
  /** Without the program's name. */
  readonly args: readonly string[];
  /** Whether it is a native tool: then it may run itself besides what shell commands may. */
  readonly native: boolean;
}

/** The containment of one session's commands. */
export class CommandContainment {
  readonly plan: CommandPlan;
  /** `W-SEC-021`, for the launch. */
  readonly warnings: readonly Warning[];
  readonly #path: string;
  readonly #placeholders: TrustedPlaceholders;
  readonly #scope: CgroupScope | null;
  readonly #native = new Map<string, NativeTool>();

  private constructor(
    plan: CommandPlan,
    path: string,
    placeholders: TrustedPlaceholders,
    scope: CgroupScope | null,
    warnings: readonly Warning[],
  ) {
    this.plan = plan;
    this.#path = path;
    this.warnings = warnings;
    this.#placeholders = placeholders;
    this.#scope = scope;
  }

  /**
   * Takes the free trusted names, makes the control group and plans. After the lock file was written, before the first
   * task.
   *
   * @throws {MurError} `E-IO-003` for a trusted name that cannot be taken, a home that cannot stand in a passwd file or a
   * work folder that is the root directory; `E-RUN-012` when the group that staging found possible is so no longer;
   * `E-RUN-014` when no root can be composed.
   */
  static async prepare(options: CommandContainmentOptions): Promise<CommandContainment> {
    const { manifest, judgement, paths } = options;
    const { capabilities } = manifest;
    const { decision, aggregate, guards, allow, hostPaths, hostPathLinks } = judgement;
    const placeholders = new TrustedPlaceholders(
      decision.privateMounts ? guards.placeholders : [],
      `${paths.scratch}/${PLACEHOLDER_RECORD}`,
    );
    let scope: CgroupScope | null = null;
    try {
      placeholders.ensure();
      scope = await scopeOf(options);
      const grants = resolveGrants(capabilities, {
        directories: { workdir: paths.workdir, records: paths.records, runtime: paths.runtime },
        allow,
        hostPaths,
        hostPathLinks,
      });
      const plan = planCommands({
        tier: decision.tier,
        privateMounts: decision.privateMounts,
        pidNamespace: decision.pidNamespace,
        landlockAbiAtMost: options.landlockAbiAtMost ?? null,
        uid: Deno.uid() ?? 0,
        gid: Deno.gid() ?? 0,
        grants,
        protect: decision.privateMounts ? guards.protect.filter(({ path }) => !placeholders.unneeded.has(path)) : [],
        rlimits: processRlimits(capabilities.resources, taskBaseline()),
        watch: watchedLimits(capabilities.resources, aggregate),
        cgroups: scope?.procs ?? [],
        syntheticEtc: writeEtc(paths, decision.tier === "sealed" ? `${grants.directories.records}/home` : null),
        hostRoot: decision.tier === "sealed" ? readHostRoot() : null,
      });
      return new CommandContainment(plan, options.path, placeholders, scope, ioWarning(scope));
    } catch (cause) {
      placeholders.remove();
      scope?.remove();
      throw cause;
    }
  }

  /**
   * Records that start a program, once the trusted names are seen to be taken still.
   *
   * @throws {MurError} `E-IO-003` for a trusted name that cannot be taken again.
   */
  records({ program, args, native }: ContainedProgram, join: JoinRecord | null): readonly CommandRecord[] {
    this.#placeholders.ensure();
    const { files, names } = native ? this.#nativeTool(program) : { files: [], names: [] };
    const records = commandRecords(this.plan, {
      program,
      argv: [program, ...args],
      nativeFiles: files,
      nativeNames: names,
      join,
    });
    // A name that is free again while the command goes on would be the command's to take.
    return [...records, ...this.#placeholders.made.map((path) => ({ op: "hold" as const, path }))];
  }

  /**
   * The path an allowed binary is executed by. A name that `/tmp`, mapped to the session's own, covers is left for the
   * canonical one.
   */
  programOf({ invoked, canonical }: ExecutablePath): string {
    return this.plan.temporary.mapped && parentDirectory(invoked) === "/tmp" ? canonical : invoked;
  }

  /** What the session's control group stopped so far; `null` without one. */
  counters(): ScopeCounters | null {
    return this.#scope?.counters() ?? null;
  }

  /** Removes the placeholders that no command holds any more and, as far as it is empty, the control group. */
  close(): void {
    this.#placeholders.remove();
    this.#scope?.remove();
  }

  #nativeTool(program: string): NativeTool {
    let tool = this.#native.get(program);
    if (tool === undefined) this.#native.set(program, tool = nativeTool(program, this.#path));
    return tool;
  }
}

/** The control group of the session, where one bounds its commands. */
async function scopeOf({ manifest, judgement, paths }: CommandContainmentOptions): Promise<CgroupScope | null> {
  const { mechanism } = judgement.aggregate;
  if (mechanism !== "cgroup-v2" && mechanism !== "cgroup-v1") return null;
  try {
    return await createCgroupScope(mechanism, {
      sessionId: paths.sessionId,
      limits: manifest.capabilities.resources,
      onDevice: paths.workdir,
    });
  } catch (cause) {
    throw new MurError("E-RUN-012", `no cgroup scope could be created to bound commands (${reasonOf(cause)})`, {
      hint: "launch again; mur doctor shows what this host offers",
      cause,
    });
  }
}

function ioWarning(scope: CgroupScope | null): Warning[] {
  if (scope === null || scope.mechanism !== "cgroup-v2" || scope.ioProblem === null) return [];
  return [{
    code: "W-SEC-021",
    source: "capsule-runtime",
    message: `capabilities.resources.cgroup_io_bytes_per_sec is not enforced: ${scope.ioProblem}`,
  }];
}

/**
 * Writes the files of `/etc` that are the session's own into the scratch directory.
 *
 * @param home That of the accounts; `null` where the host's are seen.
 * @returns Their directory.
 */
function writeEtc(paths: SessionPaths, home: string | null): string {
  const accounts = home === null ? {} : syntheticAccounts(Deno.uid() ?? 0, Deno.gid() ?? 0, home);
  const directory = `${Deno.realPathSync(paths.scratch)}/sealed-etc`;
  Deno.mkdirSync(directory, { recursive: true, mode: 0o700 });
  for (const [name, text] of Object.entries({ ...accounts, "resolv.conf": RESOLVER_CONFIGURATION })) {
    // Emptied and written again, not replaced: the rule and the bind name this very file.
    Deno.writeTextFileSync(`${directory}/${name}`, text, { mode: 0o644 });
  }
  return directory;
}
