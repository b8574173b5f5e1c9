/**
 * What a capsule may do, as far as the spawn envelope compares it: lowered once from its manifest, with every allow rule
 * parsed (spec roost 8). Nothing of a gateway or a credential is kept.
 *
 * @module
 */
import { artifactStateStore, judgeScopes, judgeStateStores, lowerCapabilities } from "../artifact/capability_policy.ts";
import type { CapsuleManifest, ContainmentClass } from "../artifact/manifest/capsule_manifest.ts";
import { type NetworkRule, parseNetworkRule } from "../artifact/network_rules.ts";
import { normalWorkdirPath } from "../artifact/workdir_path.ts";

/** A directory of the host that commands may read. */
export interface HostDirectory {
  /** As written: what it leads to is known where the command runs. */
  readonly path: string;
  /** Whether they may list it, beside reading what they know the name of. */
  readonly list: boolean;
}

/** The twelve axes, and what a manifest grants beside them. Lists are in the order of the manifest. */
export interface Grants {
  readonly network: readonly NetworkRule[];
  readonly unixSockets: boolean;
  readonly peerFetch: readonly NetworkRule[];
  readonly shell: readonly string[];
  /** Full names. */
  readonly spawn: readonly string[];
  readonly env: readonly string[];
  /** Normal form below the work folder; `null`: none declared, which is all of it. */
  readonly scope: string | null;
  readonly workdirExec: boolean;
  /** Stores the capsule's artifacts open. */
  readonly stateStores: readonly string[];
  readonly installSkill: readonly string[];
  readonly installTool: readonly string[];
  readonly containment: ContainmentClass;
  /** What hooks may reach: their entries are bounded by nothing else of the manifest (spec manifest 8.6). */
  readonly hookNetwork: readonly NetworkRule[];
  /** `shell.interpreter_runtime`. */
  readonly interpreterRuntime: readonly HostDirectory[];
  /** `shell.staged_runtime`. */
  readonly stagedRuntime: readonly HostDirectory[];
}

/**
 * The grants a manifest declares.
 *
 * @throws {MurError} `E-CAP-…` when an entry cannot be read, so that there is nothing to compare it by.
 */
export function grantsOf(manifest: CapsuleManifest): Grants {
  judgeScopes(manifest);
  judgeStateStores(manifest);
  const { network, peerFetch, capabilities } = lowerCapabilities(manifest);
  const stores = manifest.artifacts.map((entry) => artifactStateStore(entry, manifest.name));
  return {
    network,
    unixSockets: capabilities.unixSockets,
    peerFetch,
    shell: capabilities.shellAllow,
    spawn: capabilities.spawnAllow,
    env: capabilities.envAllow,
    scope: capabilities.scope === null ? null : normalWorkdirPath(capabilities.scope),
    workdirExec: capabilities.workdirExec,
    stateStores: [...new Set(stores.filter((store) => store !== null))],
    installSkill: capabilities.installSkill,
    installTool: capabilities.installTool,
    containment: capabilities.containment ?? "advisory",
    hookNetwork: manifest.artifacts.flatMap(({ role, grant }) =>
      role === "hook" ? (grant?.networkAllow ?? []).map(parseNetworkRule) : []
    ),
    interpreterRuntime: capabilities.interpreterRuntime.flatMap(({ dirs }) =>
      dirs.map(({ path, listDir }) => ({ path, list: listDir }))
    ),
    stagedRuntime: capabilities.stagedRuntime.map(({ sourcePath }) => ({ path: sourcePath, list: true })),
  };
}
