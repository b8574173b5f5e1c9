/**
 * Capabilities, judged and lowered once at staging (spec manifest 9.13, session 3.1). Every judgement is a pure function
 * of the manifest, callable alone; {@linkcode judgeCapabilities} runs them in the one order.
 *
 * @module
 */
import { MurError } from "../base/errors.ts";
import type { ArtifactEntry, CapabilityPolicy, CapsuleManifest } from "./manifest/capsule_manifest.ts";
import type { NetworkRule } from "./network_rules.ts";

/** Runs checks 1 to 9 of spec session 3.1 in their order. @throws {MurError} `E-CAP-…`. */
export function judgeCapabilities(_manifest: CapsuleManifest): void {
  throw new MurError("E-CAP-001", "not judged yet");
}

/** Parses the allow lists; the manifest has passed the judgements. @throws {MurError} `E-CAP-001`. */
export function lowerCapabilities(_manifest: CapsuleManifest): CapabilityPolicy {
  throw new MurError("E-CAP-001", "not lowered yet");
}

/** Network rules of one artifact and the entries that were dropped (W-SEC-007). */
export interface ArtifactNetwork {
  readonly rules: readonly NetworkRule[];
  /** Entries no ceiling rule covers, as written. Always empty for a hook. */
  readonly dropped: readonly string[];
}

/** The rule list of an artifact's own requests (spec components 3.6). */
export function artifactNetworkRules(_entry: ArtifactEntry, _policy: CapabilityPolicy): ArtifactNetwork {
  throw new MurError("E-CAP-001", "not derived yet");
}
