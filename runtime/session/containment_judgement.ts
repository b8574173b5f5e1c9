/**
 * What a launch decides about its commands before anything of the session exists: how they are contained here, what they
 * are granted, what is refused and what is warned about (spec containment 2.1, session 3.1 checks 10 to 16). One
 * judgement serves a run, `--explain-scope` and `mur doctor`.
 *
 * @module
 */
import { judgeStagedRuntime } from "../../artifact/capability_policy.ts";
import type { CapsuleManifest, ContainmentClass } from "../../artifact/manifest/capsule_manifest.ts";
import { shownValue } from "../../artifact/manifest/shown_value.ts";
import { MurError, type Warning } from "../../base/errors.ts";
import { type MurmurHome, recordsGroup } from "../../base/murmur_home.ts";
import { isAtOrBelow, parentDirectory } from "../../base/paths.ts";
import type { TrustedPath } from "../../base/trusted_files.ts";
import {
  type AggregateDecision,
  type AggregateHost,
  aggregateRefusal,
  chooseAggregateLimits,
  type UntriedHost,
} from "../../sandbox/aggregate_limits.ts";
import { canonicalPlace } from "../../sandbox/canonical_place.ts";
import { probeAggregateHost } from "../../sandbox/cgroup_scope.ts";
import { findHostFiles, type HostFile } from "../../sandbox/command_grants.ts";
import type { PathLink } from "../../sandbox/composed_root.ts";
import { compilerHelperWarnings } from "../../sandbox/compiler_helpers.ts";
import { type ContainmentDecision, decideContainment, egressRefusal } from "../../sandbox/containment_class.ts";
import { launchContainmentWarnings, stagingContainmentWarnings } from "../../sandbox/containment_warnings.ts";
import type { HostReading } from "../../sandbox/host_containment.ts";
import {
  type HostPathEntry,
  type HostPathGrant,
  resolveHostPaths,
  sessionExecutables,
} from "../../sandbox/host_paths.ts";
import { judgeScripts } from "../../sandbox/script_reachability.ts";
import { resolveShellAllow, type ShellAllow } from "../../sandbox/shell_allow.ts";
import { planTrustedGuards, standingOf, type TrustedGuards } from "../../sandbox/trusted_guards.ts";

/** What is judged. */
export interface ContainmentInputs {
  readonly manifest: CapsuleManifest;
  readonly floor: ContainmentClass;
  readonly host: HostReading;
  readonly home: MurmurHome;
  /** `PATH` on which allowed names are looked up. */
  readonly path: string;
  /** Work folder that was given; `null` for one of the session's own, in which nothing is yet. */
  readonly workdir: string | null;
  /** The work folder, or the directory it will be made in. */
  readonly workdirRoot: string;
  readonly hostPaths: readonly HostPathEntry[];
  /** File they come from, for messages. */
  readonly hostPathFile: string;
  readonly trusted: readonly TrustedPath[];
  /** `MURMUR_HOST_WARNINGS_REPORTED`. */
  readonly hostReported: boolean;
  /** Tools that turned out to run natively: programs like any other, without any being allowed. */
  readonly nativeTools: readonly string[];
}

/** The judgement. */
export interface ContainmentJudgement {
  readonly host: HostReading;
  readonly decision: ContainmentDecision;
  readonly aggregate: AggregateDecision;
  /** Whether anything can start a command. */
  readonly commands: boolean;
  readonly allow: ShellAllow;
  /** Those that hold up; empty when one does not. */
  readonly hostPaths: readonly HostPathGrant[];
  /** Names the operator wrote that lead to them. */
  readonly hostPathLinks: readonly PathLink[];
  readonly guards: TrustedGuards;
  /** Canonical, or as it will be; `null` for one of the session's own. */
  readonly workdir: string | null;
  /** Files of the host that commands may read besides what is granted to them. */
  readonly hostFiles: readonly HostFile[];
  /** Why the launch is refused, in the order of the checks; empty when it is not. */
  readonly refusals: readonly MurError[];
  readonly stagingWarnings: readonly Warning[];
  readonly launchWarnings: readonly Warning[];
}

/** Judges. Makes nothing but control groups that it removes at once. */
export async function judgeContainment(inputs: ContainmentInputs): Promise<ContainmentJudgement> {
  const { manifest, floor, host, home } = inputs;
  const { capabilities } = manifest;
  const commands = capabilities.shellAllow.length > 0 || capabilities.spawnAllow.length > 0 ||
    inputs.nativeTools.length > 0;
  const allow = resolveShellAllow(capabilities.shellAllow, inputs.path);
  const murmurHome = canonicalPlace(home.root);
  const workdir = inputs.workdir === null ? null : canonicalPlace(inputs.workdir);
  const { hostPaths, links, refusal: hostPathRefusal } = await hostPathsOf(inputs, allow);

  const writable = [
    ...(workdir === null ? [] : [workdir]),
    ...hostPaths.filter(({ access }) => access === "read-write").map(({ path }) => path),
  ];
  const hidden = inputs.trusted.filter(({ path, hidden }) =>
    hidden && writable.some((grant) => isAtOrBelow(canonicalPlace(path), grant))
  );
  const guards = planTrustedGuards(
    inputs.trusted.filter(({ hidden }) => !hidden)
      .flatMap((trusted) => standingOf(trusted, writable) ?? []),
  );
  const decision = decideContainment({
    manifest,
    floor,
    host,
    commands,
    places: {
      sessionDirectoryInWorkdir: workdir === null ? null : sessionDirectoryIn(workdir, home, inputs.workdir!),
      trusted: [...guards.trusted, ...hidden.map(({ path }) => path)],
      unguardable: [...guards.unguardable, ...hidden.map(({ path }) => path)],
    },
  });
  const aggregate = chooseAggregateLimits(commands, await aggregateHost(inputs, commands));
  const findings = {
    manifest,
    host,
    decision,
    aggregate,
    nativeTools: inputs.nativeTools,
    commands,
    hostReported: inputs.hostReported,
  };
  return {
    host,
    decision,
    aggregate,
    commands,
    allow,
    hostPaths,
    hostPathLinks: links,
    guards,
    workdir,
    hostFiles: decision.tier === "full" && commands ? findHostFiles(capabilities.networkAllow.length > 0) : [],
    refusals: [
      decision.refusal,
      refusalOf(() => judgeStagedRuntime(manifest, floor)),
      refusalOf(() => judgeScripts(manifest, floor, inputs.path)),
      egressRefusal(host, commands),
      hostPathRefusal,
      runtimeGrantRefusal(manifest, murmurHome),
      aggregateRefusal(manifest, aggregate, host.kind !== "foreign"),
    ].filter((each) => each !== null),
    stagingWarnings: [
      // A host that can't meet it has no walls to ask a compiler behind either, and refuses the launch.
      ...(floor === "sealed" && decision.refusal === null ? await compilerWarnings(inputs, allow, writable) : []),
      ...stagingContainmentWarnings(findings),
    ],
    launchWarnings: launchContainmentWarnings(findings),
  };
}

/** The directory of scratch or records of any session, when it lies in the work folder (spec containment 1.3). */
function sessionDirectoryIn(workdir: string, home: MurmurHome, named: string): string | null {
  const directories = [home.sessions, recordsGroup(home, named)];
  return directories.find((directory) => isAtOrBelow(canonicalPlace(directory), workdir)) ?? null;
}

interface HostPathFindings {
  readonly hostPaths: readonly HostPathGrant[];
  readonly links: readonly PathLink[];
  readonly refusal: MurError | null;
}

async function hostPathsOf(inputs: ContainmentInputs, allow: ShellAllow): Promise<HostPathFindings> {
  const { manifest, hostPaths: entries, home } = inputs;
  try {
    const hostPaths = await resolveHostPaths(entries, {
      file: inputs.hostPathFile,
      home: parentDirectory(home.root),
      murmurHome: home.root,
      workdir: inputs.workdir ?? inputs.workdirRoot,
      executables: sessionExecutables(manifest.capabilities, allow),
    });
    const links = hostPaths.flatMap(({ path }, index): PathLink[] => {
      const named = entries[index]!.path;
      return named === path ? [] : [{ path: named, target: path, kind: "directory", inCanonicalDirectory: false }];
    });
    return { hostPaths, links, refusal: null };
  } catch (cause) {
    return { hostPaths: [], links: [], refusal: asRefusal(cause) };
  }
}

/** A refusal as a value. @throws What is none. */
function asRefusal(cause: unknown): MurError {
  if (cause instanceof MurError) return cause;
  throw cause;
}

/** What a check throws; `null` when it passes. */
function refusalOf(check: () => void): MurError | null {
  try {
    check();
    return null;
  } catch (cause) {
    return asRefusal(cause);
  }
}

/** Canonical directories of the manifest's runtime grants. */
function runtimeDirectories({ capabilities }: CapsuleManifest): string[] {
  return [
    ...capabilities.interpreterRuntime.flatMap(({ dirs }) => dirs.map(({ path }) => path)),
    ...capabilities.stagedRuntime.map(({ sourcePath }) => sourcePath),
  ].map(canonicalPlace);
}

/**
 * `E-MAN-003` for a runtime grant that would show `~/.murmur` to commands: keys, records and stores of all sessions are
 * open to none (spec containment 3).
 */
function runtimeGrantRefusal(manifest: CapsuleManifest, murmurHome: string): MurError | null {
  const { interpreterRuntime, stagedRuntime } = manifest.capabilities;
  const grants = [
    ...interpreterRuntime.flatMap(({ dirs }, index) =>
      dirs.map(({ path }, at) => ({ path, field: `capabilities.shell.interpreter_runtime[${index}].dirs[${at}].path` }))
    ),
    ...stagedRuntime.map(({ sourcePath }, index) => ({
      path: sourcePath,
      field: `capabilities.shell.staged_runtime[${index}].source_path`,
    })),
  ];
  for (const { path, field } of grants) {
    const canonical = canonicalPlace(path);
    if (!isAtOrBelow(murmurHome, canonical) && !isAtOrBelow(canonical, murmurHome)) continue;
    const place = manifest.place(field);
    return new MurError(
      "E-MAN-003",
      `invalid capability config for '${field}': '${
        shownValue(path)
      }' would show ${murmurHome} to commands, where keys ` +
        "and records of all sessions are",
      { hint: "name the directories the interpreter needs", ...(place === undefined ? {} : { place }) },
    );
  }
  return null;
}

/** What bounds all commands together, tried where it can be used. */
async function aggregateHost(
  { manifest, host, workdirRoot }: ContainmentInputs,
  commands: boolean,
): Promise<AggregateHost | UntriedHost> {
  if (host.kind === "foreign") return { untried: `${host.platform} has no control groups` };
  if (!commands) return { untried: "the capsule starts no commands" };
  const tried = await probeAggregateHost({
    sessionId: "probe",
    limits: manifest.capabilities.resources,
    onDevice: existingAbove(workdirRoot),
  });
  return {
    ...tried,
    samplingProblem: host.probe.sampling ? null : "the helper cannot list the processes of a command",
  };
}

/** The nearest directory at or above a path that exists. */
function existingAbove(path: string): string {
  for (let at = path; at !== "/"; at = parentDirectory(at)) {
    try {
      Deno.statSync(at);
      return at;
    } catch {
      // Not yet.
    }
  }
  return "/";
}

async function compilerWarnings(
  { manifest, path }: ContainmentInputs,
  allow: ShellAllow,
  writable: readonly string[],
): Promise<Warning[]> {
  return await compilerHelperWarnings({ allow, directories: runtimeDirectories(manifest), writable }, path);
}
