/**
 * Which containment class commands achieve here, and what is said about it (spec containment 1, 2.3, 17).
 *
 * Commands are not contained by the kernel in this version: their environment is cleared, they end with the runtime, and
 * each has its resource limits, nothing else. The achieved class is therefore `advisory` on every host, and a floor above it is refused.
 *
 * @module
 */
import { MurError, type Warning } from "../base/errors.ts";
import type { CapsuleManifest, ContainmentClass } from "../artifact/manifest/capsule_manifest.ts";

/** What the host enforces on commands. */
export interface ContainmentDecision {
  readonly achieved: ContainmentClass;
  /** What the host could back before this session's own choices. */
  readonly host: ContainmentClass;
  /** Wire name of the applied tier. */
  readonly tier: "none";
  /** Why the achieved class is below the floor; `null` when it is not. */
  readonly shortfall: string | null;
  /** `E-CAP-003` when the floor is not met. */
  readonly refusal: MurError | null;
  /** `E-RUN-012` when a declared limit of all commands together cannot be held. */
  readonly aggregateRefusal: MurError | null;
  readonly usernsGrant: null;
  readonly landlockAbi: null;
  /** For stderr, at staging. */
  readonly stagingWarnings: readonly Warning[];
  /** For stderr and the bootstrap log, at launch. */
  readonly launchWarnings: readonly Warning[];
}

/** Why the tree of commands has no cgroup. */
export const AGGREGATE_REASON = "this version of mur places commands in no cgroup yet";

function warning(code: Warning["code"], message: string): Warning {
  return { code, source: "capsule-runtime", message };
}

/** What a decision takes into account beside the manifest. */
export interface ContainmentFacts {
  /** Trusted files that lie where commands may write. */
  readonly unguarded?: readonly string[];
  /** Tools with a native implementation, known once artifacts are resolved: they are programs like any other. */
  readonly nativeTools?: readonly string[];
}

/** Decides for a manifest under a floor. Pure. */
export function decideContainment(
  manifest: CapsuleManifest,
  floor: ContainmentClass,
  { unguarded = [], nativeTools = [] }: ContainmentFacts = {},
): ContainmentDecision {
  const shortfall = floor === "advisory"
    ? null
    : manifest.capabilities.workdirExec
    ? "capabilities.filesystem.workdir_exec is true, which no host can satisfy above 'advisory'"
    : "this version of mur does not contain commands by kernel means yet";
  return {
    achieved: "advisory",
    host: "advisory",
    tier: "none",
    shortfall,
    refusal: shortfall === null ? null : refusal(manifest, floor, shortfall),
    aggregateRefusal: aggregateRefusal(manifest, nativeTools),
    usernsGrant: null,
    landlockAbi: null,
    stagingWarnings: [],
    launchWarnings: launchWarnings(manifest, unguarded, nativeTools),
  };
}

function refusal(manifest: CapsuleManifest, floor: ContainmentClass, shortfall: string): MurError {
  const place = manifest.place("capabilities.containment");
  return new MurError(
    "E-CAP-003",
    `the declared containment floor is '${floor}', and this host achieves 'advisory': ${shortfall}`,
    {
      hint: "lower the floor to 'advisory' if the capsule may run uncontained",
      ...(place === undefined ? {} : { place }),
    },
  );
}

function launchWarnings(
  manifest: CapsuleManifest,
  unguarded: readonly string[],
  nativeTools: readonly string[],
): Warning[] {
  const { capabilities } = manifest;
  const programs = [
    ...capabilities.shellAllow.length === 0 ? [] : ["capabilities.shell.allow is not empty"],
    ...nativeTools.length === 0
      ? []
      : [`of the tools, ${nativeTools.map((name) => `'${name}'`).join(", ")} run natively`],
  ];
  if (programs.length === 0) return [];
  const warnings = [warning(
    "W-SEC-001",
    `${programs.join("; ")}: no kernel mechanism contains commands here, so what they may read, write, run and ` +
      "reach is advisory",
  )];
  if (capabilities.shellAllow.includes("bash") && capabilities.networkAllow.length > 0) {
    warnings.push(warning(
      "W-SEC-003",
      "capabilities.shell.allow has 'bash' beside capabilities.network.allow: nothing holds its own traffic to that list here",
    ));
  }
  if (unguarded.length > 0) {
    warnings.push(warning(
      "W-SEC-033",
      "files that a later launch trusts lie in the work folder, where commands may write them: " +
        `${unguarded.join(", ")}; use another --workdir`,
    ));
  }
  warnings.push(warning("W-SEC-034", `limits of all commands together are by sampling: ${AGGREGATE_REASON}`));
  return warnings;
}

/**
 * `E-RUN-012` for a written `cgroup_*` field that no cgroup enforces here; `null` when there is none (spec containment
 * 14.1).
 */
function aggregateRefusal(manifest: CapsuleManifest, nativeTools: readonly string[]): MurError | null {
  const { resources, shellAllow } = manifest.capabilities;
  const written = [...resources.declared].find((key) => key.startsWith("cgroup_"));
  if (written === undefined || (shellAllow.length === 0 && nativeTools.length === 0)) return null;
  const place = manifest.place(`capabilities.resources.${written}`);
  return new MurError(
    "E-RUN-012",
    `capabilities.resources.${written} is declared, and no cgroup can enforce it: ${AGGREGATE_REASON}`,
    { hint: "drop the field", ...(place === undefined ? {} : { place }) },
  );
}
