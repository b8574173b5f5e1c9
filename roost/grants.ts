/**
 * What a capsule may do, as far as the spawn envelope compares it: lowered once from its manifest, with every allow rule
 * parsed (spec roost 8). Nothing of a gateway or a credential is kept.
 *
 * @module
 */
import { artifactStateStore, judgeScopes, judgeStateStores, lowerCapabilities } from "../artifact/capability_policy.ts";
import type { CapsuleManifest, ContainmentClass } from "../artifact/manifest/capsule_manifest.ts";
import type { NetworkRule } from "../artifact/network_rules.ts";
import { normalWorkdirPath } from "../artifact/workdir_path.ts";

/** The twelve axes. Lists are in the order of the manifest. */
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
  };
}
