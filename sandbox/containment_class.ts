/**
 * Which enforcement tier is applied to commands here, which class that achieves under which floor, and why a floor is not
 * met (spec containment 1.3, 2.3, 2.4). Pure: everything follows from one reading of the host, the manifest and what
 * staging found out about places.
 *
 * @module
 */
import { MurError } from "../base/errors.ts";
import type { CapsuleManifest, ContainmentClass } from "../artifact/manifest/capsule_manifest.ts";
import { CONTAINMENT_CLASSES } from "../artifact/manifest/capsule_manifest.ts";
import type { ConfineTier } from "./confine_records.ts";
import type { HostReading } from "./host_containment.ts";
import type { HostProbe, MountsOutcome, SealedOutcome, UsernsGrant } from "./host_probe.ts";

/** Names of the tiers in reports and traces. */
export const TIER_NAMES: Readonly<Record<ConfineTier, string>> = {
  sealed: "mountns+pivot_root+landlock+seccomp",
  full: "landlock+seccomp",
  seccomp: "seccomp-only",
  env: "none",
};

/** What keeps a floor from being met by the host. */
export type ContainmentBlocker =
  | "not_linux"
  | "app_armor_profile_missing"
  | "namespace_creation_denied"
  | "id_map_denied"
  | "mount_denied"
  | "pivot_denied"
  | "kernel_unsupported"
  | "landlock_unavailable";

/** A blocker in words, and what to do about it. */
export interface HostObstacle {
  readonly blocker: ContainmentBlocker;
  readonly reason: string;
  /** `null` where nothing helps. */
  readonly remedy: string | null;
}

/** What a manifest, or the place of a work folder, takes from the class on every host. */
export interface ContainmentCap {
  readonly reason: string;
  readonly remedy: string;
}

/** What staging found out about places. */
export interface ContainedPlaces {
  /** The session's scratch or records directory, when it lies in the work folder; else `null`. */
  readonly sessionDirectoryInWorkdir: string | null;
  /** Trusted files that commands could write and that no read-only mount can hold (spec containment 4.8, rule 4). */
  readonly unguardable: readonly string[];
  /** Trusted files that lie in a writable grant at all. */
  readonly trusted: readonly string[];
}

/** A question to {@linkcode decideContainment}. */
export interface ContainmentQuestion {
  readonly manifest: CapsuleManifest;
  /** Strongest class asked for. */
  readonly floor: ContainmentClass;
  readonly host: HostReading;
  readonly places: ContainedPlaces;
  /** Whether anything can start a command: `shell.allow`, `spawn.allow` or a native tool. */
  readonly commands: boolean;
}

/** What is enforced on commands, and what that is worth. */
export interface ContainmentDecision {
  readonly floor: ContainmentClass;
  readonly achieved: ContainmentClass;
  /** Class of the host's own tier, whatever this capsule does with it. */
  readonly host: ContainmentClass;
  readonly hostTier: ConfineTier;
  /** The tier that is applied. */
  readonly tier: ConfineTier;
  readonly privateMounts: boolean;
  readonly pidNamespace: boolean;
  /** `null` off Linux and where nothing was probed. */
  readonly usernsGrant: UsernsGrant | null;
  readonly landlockAbi: number | null;
  /** Why the achieved class is below the floor; `null` when it is not. */
  readonly shortfall: string | null;
  /** `E-CAP-003` when the floor is not met. */
  readonly refusal: MurError | null;
  /** What takes from the class, the reason that is told first in front. */
  readonly caps: readonly ContainmentCap[];
  /** Trusted files that commands can write. */
  readonly unguarded: readonly string[];
  /** Those that are kept read-only. */
  readonly guarded: readonly string[];
}

/** Whether class `a` is at least as strong as `b`. */
export function meetsClass(a: ContainmentClass, b: ContainmentClass): boolean {
  return CONTAINMENT_CLASSES.indexOf(a) >= CONTAINMENT_CLASSES.indexOf(b);
}

/** The strongest tier the host could back (spec containment 1.3). */
export function hostTierOf(host: HostReading): ConfineTier {
  if (host.kind !== "probed") return "env";
  const { probe } = host;
  if (!probe.landlock) return "seccomp";
  return namespacesGranted(probe) && probe.sealed === "ok" ? "sealed" : "full";
}

/** The tier that is applied: a composed root only for who asks for one, since it takes host paths away. */
export function appliedTier(hostTier: ConfineTier, floor: ContainmentClass): ConfineTier {
  return hostTier === "sealed" && floor !== "sealed" ? "full" : hostTier;
}

/** Class of a tier. Without private mounts Landlock alone does not hold the execute list. */
export function classOfTier(tier: ConfineTier, privateMounts: boolean): ContainmentClass {
  if (tier === "sealed") return "sealed";
  return tier === "full" && privateMounts ? "scoped" : "advisory";
}

function namespacesGranted({ usernsGrant }: HostProbe): boolean {
  return usernsGrant !== "withheld";
}

/** Whether commands get mounts of their own. A composed root is made of them. */
function mountsOf(host: HostReading): boolean {
  return host.kind === "probed" && (host.probe.privateMounts === "ok" || hostTierOf(host) === "sealed");
}

/** Decides. */
export function decideContainment(question: ContainmentQuestion): ContainmentDecision {
  const { manifest, floor, host, places, commands } = question;
  const hostTier = hostTierOf(host);
  const tier = appliedTier(hostTier, floor);
  const privateMounts = mountsOf(host);
  const unguarded = !commands ? [] : privateMounts ? places.unguardable : places.trusted;
  const caps = capsOf(manifest, places, commands);
  const possible = classOfTier(tier, privateMounts);
  const achieved = caps.length > 0 || unguarded.length > 0 ? "advisory" : possible;
  const met = meetsClass(achieved, floor);
  const why = met ? null : caps[0] ?? obstacleOf(host, floor);
  return {
    floor,
    achieved,
    host: classOfTier(hostTier, privateMounts),
    hostTier,
    tier,
    privateMounts,
    pidNamespace: host.kind === "probed" && host.probe.pidNamespace,
    usernsGrant: host.kind === "probed" ? host.probe.usernsGrant : null,
    landlockAbi: host.kind === "probed" && host.probe.landlockAbi > 0 ? host.probe.landlockAbi : null,
    shortfall: why?.reason ?? null,
    refusal: why === null ? null : classRefusal(manifest, floor, achieved, why),
    caps,
    unguarded,
    guarded: places.trusted.filter((path) => !unguarded.includes(path)),
  };
}

/** What caps the class at `advisory` on every host, in the order it is told. */
function capsOf(manifest: CapsuleManifest, places: ContainedPlaces, commands: boolean): ContainmentCap[] {
  const caps: ContainmentCap[] = [];
  if (manifest.capabilities.workdirExec) {
    caps.push({
      reason: "capabilities.filesystem.workdir_exec is true, which no host can satisfy above 'advisory'",
      remedy: "remove workdir_exec, or declare the class 'advisory'",
    });
  }
  const inside = places.sessionDirectoryInWorkdir;
  if (inside !== null) {
    caps.push({
      reason: `${inside}, which holds the session's own directories, lies in the work folder, where commands may write`,
      remedy: "choose another --workdir",
    });
  }
  if (commands && places.unguardable.length > 0) {
    caps.push({
      reason: "files that a later launch trusts lie where commands may write and cannot be kept read-only: " +
        places.unguardable.join(", "),
      remedy: "choose another --workdir, or put a regular file with one name in the place of each",
    });
  }
  return caps;
}

function classRefusal(
  manifest: CapsuleManifest,
  floor: ContainmentClass,
  achieved: ContainmentClass,
  why: { readonly reason: string; readonly remedy: string | null },
): MurError {
  const place = manifest.place("capabilities.containment");
  const lower = "or lower the floor, if the capsule may run less contained";
  return new MurError(
    "E-CAP-003",
    `declared containment class '${floor}' is not achievable on this host (achieved: '${achieved}'): ${why.reason}`,
    {
      hint: why.remedy === null ? "lower the floor, if the capsule may run uncontained" : `${why.remedy}; ${lower}`,
      ...(place === undefined ? {} : { place }),
    },
  );
}

const SETUP = "run 'sudo mur setup', which installs the profile for the root-owned helper";

const OBSTACLES: Readonly<Record<ContainmentBlocker, Omit<HostObstacle, "blocker">>> = {
  not_linux: {
    reason: "this platform has no mount namespaces, and never will",
    remedy: null,
  },
  app_armor_profile_missing: {
    reason: "AppArmor restricts unprivileged user namespaces and the profile 'mur-sealed' does not confine the helper",
    remedy: `${SETUP}; as a last resort set the sysctl kernel.apparmor_restrict_unprivileged_userns to 0`,
  },
  namespace_creation_denied: {
    reason: "unshare(CLONE_NEWUSER | CLONE_NEWNS) is refused",
    remedy: "in a container: start it with --cap-add SYS_ADMIN; elsewhere let users make namespaces " +
      "(sysctl kernel.unprivileged_userns_clone=1, where there is such a switch)",
  },
  id_map_denied: {
    reason: "writing uid_map and gid_map is refused",
    remedy: "raise user.max_user_namespaces, or leave the security module or the unmapped namespace that refuses it",
  },
  mount_denied: {
    reason: "mount(2) inside a new namespace is refused, so commands have no private mount namespace",
    remedy: `${SETUP}; in a container: start it with --cap-add SYS_ADMIN`,
  },
  pivot_denied: {
    reason: "mount(2) works in a new namespace and pivot_root(2) is refused",
    remedy: "let the AppArmor profile have 'pivot_root,'; in a container: let its system call list have pivot_root",
  },
  kernel_unsupported: {
    reason: "the kernel offers no user namespaces (CONFIG_USER_NS=n or user.max_user_namespaces=0)",
    remedy: "set the sysctl user.max_user_namespaces above 0, or use another kernel",
  },
  landlock_unavailable: {
    reason: "this host has no usable Landlock, which mediates what commands open (Linux 5.13 and later)",
    remedy: "run on Linux 5.13 or later with Landlock enabled",
  },
};

function obstacle(blocker: ContainmentBlocker): HostObstacle {
  return { blocker, ...OBSTACLES[blocker] };
}

/**
 * What on this host keeps `floor` from being met, the first to blame (spec containment 2.3); `null` when nothing does.
 * AppArmor is blamed before the outcome of a namespace: that is then its consequence.
 */
export function obstacleOf(host: HostReading, floor: ContainmentClass): HostObstacle | null {
  if (floor === "advisory") return null;
  if (host.kind === "foreign") return obstacle(floor === "scoped" ? "landlock_unavailable" : "not_linux");
  const { probe } = host;
  if (floor === "scoped") {
    if (!probe.landlock) return obstacle("landlock_unavailable");
    return mountsOf(host) ? null : namespaceObstacle(probe, probe.privateMounts);
  }
  return namespaceObstacle(probe, probe.sealed) ?? (probe.landlock ? null : obstacle("landlock_unavailable"));
}

const NAMESPACE_BLOCKERS: Readonly<Record<Exclude<SealedOutcome | MountsOutcome, "ok">, ContainmentBlocker>> = {
  "denied": "namespace_creation_denied",
  "map-denied": "id_map_denied",
  "mount-denied": "mount_denied",
  "pivot-denied": "pivot_denied",
  "unsupported": "kernel_unsupported",
};

function namespaceObstacle(probe: HostProbe, outcome: SealedOutcome | MountsOutcome): HostObstacle | null {
  if (!namespacesGranted(probe)) return obstacle("app_armor_profile_missing");
  return outcome === "ok" ? null : obstacle(NAMESPACE_BLOCKERS[outcome]);
}

/** Everything on this host that keeps commands from the strongest class, for reports. */
export function hostObstacles(host: HostReading): HostObstacle[] {
  const found = [obstacleOf(host, "scoped"), obstacleOf(host, "sealed")].filter((each) => each !== null);
  if (host.kind === "probed" && !host.probe.landlock) found.push(obstacle("landlock_unavailable"));
  return found.filter(({ blocker }, index) => found.findIndex((other) => other.blocker === blocker) === index);
}

/** Why commands get no network of their own (spec containment 2.4); `null` when they do, and off Linux. */
export function egressBlocker(host: HostReading): "capability_grant_missing" | "kernel_support_missing" | null {
  if (host.kind !== "probed") return null;
  const { network } = host.probe;
  if (network === "unsupported") return "kernel_support_missing";
  return network === "ok" && namespacesGranted(host.probe) ? null : "capability_grant_missing";
}

/**
 * `E-CAP-005` for a capsule that can start commands on a host that gives them no network namespace; `null` otherwise. The
 * floor has no part in it: without the namespace an empty `network.allow` would mean everything.
 */
export function egressRefusal(host: HostReading, commands: boolean): MurError | null {
  const blocker = commands ? egressBlocker(host) : null;
  if (blocker === null || host.kind !== "probed") return null;
  const { network, usernsGrant } = host.probe;
  const [reason, hint] = blocker === "kernel_support_missing"
    ? ["the kernel offers no network namespaces to users", "enable user namespaces, or use another kernel"]
    : usernsGrant === "withheld"
    ? [OBSTACLES.app_armor_profile_missing.reason, OBSTACLES.app_armor_profile_missing.remedy!]
    : network === "map-denied"
    ? [OBSTACLES.id_map_denied.reason, OBSTACLES.id_map_denied.remedy!]
    : network === "denied"
    ? ["unshare(CLONE_NEWUSER | CLONE_NEWNET) is refused", OBSTACLES.namespace_creation_denied.remedy!]
    : [
      "the new namespace's loopback interface or route cannot be set up",
      OBSTACLES.namespace_creation_denied.remedy!,
    ];
  return new MurError(
    "E-CAP-005",
    "the capsule can start commands, and this host cannot give their processes a network namespace of their own: " +
      `${reason} (${blocker})`,
    { hint: hint! },
  );
}

/** How symbolic links below an export root are answered (spec containment 4.7). */
export function exportSymlinks(achieved: ContainmentClass): "refused" | "followed-inside" {
  return achieved === "scoped" ? "refused" : "followed-inside";
}
