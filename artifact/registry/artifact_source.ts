/**
 * Where an artifact can come from: a store, a remote registry, the releases of a repository (spec cli 8).
 *
 * @module
 */
import type { ArtifactStore } from "../store.ts";

/** What is asked for. */
export interface ArtifactRequest {
  /** Bare name. */
  readonly name: string;
  /** `null`: the latest release, where the source has such a thing. */
  readonly version: string | null;
  /** Platform tag of the host; `null` asks for a platform-independent payload alone. */
  readonly platform: string | null;
}

/** An archive whose bytes have the hash its source reports for them. */
export interface FoundArtifact {
  readonly kind: "found";
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly sha256: string;
}

/** What a source answers. `reason` is what it returned, in a few words. */
export type SourceAnswer =
  | FoundArtifact
  | { readonly kind: "not-found"; readonly reason: string }
  /** It could not be asked: no artifact can be concluded to be missing from this. */
  | { readonly kind: "unanswered"; readonly reason: string };

/** A place that is asked for artifacts. */
export interface ArtifactSource {
  /** What messages call it. */
  readonly label: string;
  /** Whether what it holds is a copy on this machine, which another source may mend. */
  readonly isLocal?: boolean;
  /** @throws {MurError} For an answer that must not be passed over, such as `E-REG-002`. */
  fetch(request: ArtifactRequest): Promise<SourceAnswer>;
}

/** A store as a source of artifacts of exact versions. */
export function storeSource(store: ArtifactStore, label: string): ArtifactSource {
  return {
    label,
    isLocal: true,
    async fetch({ name, version, platform }) {
      if (version === null) return { kind: "not-found", reason: "it answers for exact versions only" };
      const loaded = await store.load(name, version, platform);
      if (loaded === null) return { kind: "not-found", reason: "not there" };
      return { kind: "found", bytes: loaded.bytes, sha256: loaded.artifact.sha256 };
    },
  };
}
