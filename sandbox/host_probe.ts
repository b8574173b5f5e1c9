/**
 * What this machine grants to containment: the helper's `probe`, read (spec containment 1.2, 1.5).
 *
 * @module
 */
import { MurError, reasonOf } from "../base/errors.ts";
import { type CapturedOutput, captureOutput } from "../base/piped_process.ts";

/** Most the helper says. */
const MAX_OUTPUT_BYTES = 64 << 10;

/** How making a network namespace went. */
export const NETWORK_OUTCOMES = ["ok", "denied", "map-denied", "config-denied", "unsupported"] as const;
export type NetworkOutcome = typeof NETWORK_OUTCOMES[number];

/** How making a mount namespace and turning a root went. */
export const SEALED_OUTCOMES = ["ok", "denied", "map-denied", "mount-denied", "pivot-denied", "unsupported"] as const;
export type SealedOutcome = typeof SEALED_OUTCOMES[number];

/** How making a private mount namespace of the host's tree went. */
export const MOUNTS_OUTCOMES = ["ok", "denied", "map-denied", "mount-denied", "unsupported"] as const;
export type MountsOutcome = typeof MOUNTS_OUTCOMES[number];

/** Who lets the helper make user namespaces. */
export const USERNS_GRANTS = [
  "apparmor_absent",
  "restriction_disabled_host_wide",
  "profile_confining",
  "withheld",
] as const;
export type UsernsGrant = typeof USERNS_GRANTS[number];

/** One reading of the host, good for one capsule run. */
export interface HostProbe {
  /** Landlock's ABI number; 0 without Landlock. */
  readonly landlockAbi: number;
  /** Whether a ruleset could be entered. */
  readonly landlock: boolean;
  readonly network: NetworkOutcome;
  readonly sealed: SealedOutcome;
  readonly privateMounts: MountsOutcome;
  readonly pidNamespace: boolean;
  /** Whether a PID namespace gets a `/proc` of its own; else the host's is shown (spec containment 5.4). */
  readonly ownProc: boolean;
  /** Whether the helper can walk a tree of processes (spec containment 14.1). */
  readonly sampling: boolean;
  readonly usernsGrant: UsernsGrant;
}

function oneOf<T extends string>(words: readonly T[], value: unknown): T | null {
  return words.find((word) => word === value) ?? null;
}

/** Reads the helper's line; `null` when it is not one of this version's. Pure. */
export function parseHostProbe(line: string): HostProbe | null {
  let json: unknown;
  try {
    json = JSON.parse(line);
  } catch {
    return null;
  }
  if (typeof json !== "object" || json === null) return null;
  const read = json as Record<string, unknown>;
  const network = oneOf(NETWORK_OUTCOMES, read.netns);
  const sealed = oneOf(SEALED_OUTCOMES, read.sealed);
  const privateMounts = oneOf(MOUNTS_OUTCOMES, read.mountns);
  const usernsGrant = oneOf(USERNS_GRANTS, read.apparmor);
  const { landlock_abi: landlockAbi, landlock, pidns: pidNamespace, own_proc: ownProc, sampling } = read;
  if (network === null || sealed === null || privateMounts === null || usernsGrant === null) return null;
  if (!Number.isSafeInteger(landlockAbi) || (landlockAbi as number) < 0) return null;
  if (typeof landlock !== "boolean" || typeof pidNamespace !== "boolean") return null;
  if (typeof ownProc !== "boolean" || typeof sampling !== "boolean") return null;
  return {
    landlockAbi: landlockAbi as number,
    landlock,
    network,
    sealed,
    privateMounts,
    pidNamespace,
    ownProc,
    sampling,
    usernsGrant,
  };
}

/**
 * Probes this host.
 *
 * @param helper Path of `mur-confine`.
 * @throws {MurError} `E-IO-003` when the helper can't be run or says something else.
 */
export async function probeHost(helper: string): Promise<HostProbe> {
  let output: CapturedOutput;
  try {
    // Not by Deno's own command: a launch waits for this, and that one's streams alone take milliseconds to load.
    output = await captureOutput({ command: helper, args: ["probe"], env: {}, cwd: "/" }, MAX_OUTPUT_BYTES);
  } catch (cause) {
    throw new MurError("E-IO-003", `the containment helper ${helper} can't be run: ${reasonOf(cause)}`, { cause });
  }
  const probe = output.status.code === 0 ? parseHostProbe(output.stdout) : null;
  if (probe === null) {
    const said = output.stderr.trim();
    throw new MurError(
      "E-IO-003",
      `the containment helper ${helper} does not tell what this host grants${said === "" ? "" : `: ${said}`}`,
    );
  }
  return probe;
}
