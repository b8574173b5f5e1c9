/**
 * What a launch warns about when it has decided how commands are contained (spec containment 17). Pure.
 *
 * @module
 */
import type { Warning, WarningCode } from "../base/errors.ts";
import type { CapsuleManifest } from "../artifact/manifest/capsule_manifest.ts";
import type { AggregateDecision } from "./aggregate_limits.ts";
import { type ContainmentDecision, TIER_NAMES } from "./containment_class.ts";
import type { HostReading } from "./host_containment.ts";

/** What a launch knows. */
export interface ContainmentFindings {
  readonly manifest: CapsuleManifest;
  readonly host: HostReading;
  readonly decision: ContainmentDecision;
  readonly aggregate: AggregateDecision;
  /** Tools that run natively. */
  readonly nativeTools: readonly string[];
  /** Whether anything can start a command. */
  readonly commands: boolean;
  /** Whether whoever started this launch has told its user about the host already. */
  readonly hostReported: boolean;
}

/**
 * Of the launch's warnings those that speak of the host alone. A child may meet another mechanism than its parent, so that
 * it is no child's to leave them out; a parent does not pass on one that says what it said itself.
 */
export const HOST_WARNINGS: ReadonlySet<WarningCode> = new Set<WarningCode>(["W-SEC-010", "W-SEC-034"]);

function warning(code: WarningCode, message: string): Warning {
  return { code, source: "capsule-runtime", message };
}

/** `W-SEC-013`, at staging. */
export function stagingContainmentWarnings({ decision, hostReported }: ContainmentFindings): Warning[] {
  if (decision.usernsGrant !== "restriction_disabled_host_wide" || hostReported) return [];
  return [warning(
    "W-SEC-013",
    "AppArmor is on and its restriction of unprivileged user namespaces is off for the whole host, so every program " +
      "may make them: set kernel.apparmor_restrict_unprivileged_userns to 1 and run 'sudo mur setup'",
  )];
}

/** Those of the launch, for stderr and the bootstrap log: `W-SEC-001`, `-002`, `-003`, `-005`, `-010`, `-033`, `-034`. */
export function launchContainmentWarnings(findings: ContainmentFindings): Warning[] {
  const { manifest, host, decision, aggregate, commands, nativeTools } = findings;
  const { shellAllow, networkAllow } = manifest.capabilities;
  const warnings: Warning[] = [];
  const programs = [
    ...shellAllow.length === 0 ? [] : ["capabilities.shell.allow is not empty"],
    ...nativeTools.length === 0
      ? []
      : [`of the tools, ${nativeTools.map((name) => `'${name}'`).join(", ")} run natively`],
  ];
  if (programs.length > 0) {
    warnings.push(tierWarning(decision, host, programs.join("; ")));
    if (decision.tier === "env" && shellAllow.includes("bash") && networkAllow.length > 0) {
      warnings.push(warning(
        "W-SEC-003",
        "capabilities.shell.allow has 'bash' beside capabilities.network.allow: nothing holds its own traffic to that " +
          "list here",
      ));
    }
  }
  if (!commands) return warnings;
  if (host.kind === "foreign") {
    warnings.push(warning(
      "W-SEC-010",
      `commands have no limits as a group on ${host.platform}: only those of each process are enforced`,
    ));
  }
  if (decision.unguarded.length > 0) {
    warnings.push(warning(
      "W-SEC-033",
      "files that a later launch trusts lie where commands may write and cannot be kept read-only here: " +
        `${decision.unguarded.join(", ")}; use another --workdir`,
    ));
  }
  if (host.kind !== "foreign" && aggregate.reason !== null) {
    warnings.push(warning(
      "W-SEC-034",
      `limits of all commands together are by '${aggregate.mechanism}': ${aggregate.reason}`,
    ));
  }
  return warnings;
}

function tierWarning(
  { tier, privateMounts, pidNamespace }: ContainmentDecision,
  host: HostReading,
  programs: string,
): Warning {
  const own = pidNamespace ? "their own processes, network" : "their own network";
  switch (tier) {
    case "env":
      return warning(
        "W-SEC-001",
        `${programs}: no kernel mechanism contains commands here, so what they may read, write, run and reach is advisory`,
      );
    case "seccomp":
      return warning(
        "W-SEC-002",
        `${programs}, and this host has no Landlock: commands have ${own} and system call list, and ` +
          `${privateMounts ? "may read and run" : "may read, write and run"} what this user can`,
      );
    case "full":
      return warning(
        "W-SEC-005",
        `${programs}: commands run under ${TIER_NAMES.full}, have ${own} and system call list, open only what is ` +
          "granted and reach only capabilities.network.allow; metadata of other paths stays visible" +
          (privateMounts ? "" : ", and without private mounts an allowed loader can run written files"),
      );
    case "sealed":
      return warning(
        "W-SEC-005",
        `${programs}: commands run under ${TIER_NAMES.sealed}, have ${own} and system call list, what is not granted is ` +
          "absent for them, and they reach only capabilities.network.allow" +
          (host.kind === "probed" && host.probe.ownProc
            ? ""
            : "; /proc is the host's here, so metadata of its processes stays visible"),
      );
  }
}
