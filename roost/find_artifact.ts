/**
 * Finding and judging one artifact of the registry: the bytes a launch on this host would take, verified against their
 * recorded hash, and the grants of the manifest in them. No credential is resolved, and no literal key is kept.
 *
 * Loaded when the first artifact is asked for: it brings the manifest's parser with it.
 *
 * @module
 */
import { MurError } from "../base/errors.ts";
import { bareHalf } from "../artifact/artifact_name.ts";
import { parseCapsuleManifest } from "../artifact/manifest/parse_capsule_manifest.ts";
import { shownValue } from "../artifact/manifest/shown_value.ts";
import { openPackage } from "../artifact/package.ts";
import { hostPlatformTag } from "../artifact/platform.ts";
import { requireIdentity } from "../artifact/publication.ts";
import { ArtifactStore } from "../artifact/store.ts";
import { DEFAULT_MAX_DECOMPRESSED_BYTES } from "../artifact/zip_archive.ts";
import { grantsOf } from "./grants.ts";
import type { JudgedArtifact } from "./registry.ts";

/** Largest archive of a capsule that is judged, in bytes: a capsule brings a manifest, prompts and one component. */
export const MAX_CAPSULE_BYTES = 256 * 1024 * 1024;

/** A found artifact, not read yet. */
export interface FoundArtifact {
  /** What it is read from: the directory of its version, its archive, its hash file. */
  readonly paths: readonly string[];
  /** @throws {MurError} */
  readonly read: () => Promise<JudgedArtifact>;
}

/**
 * Finds an artifact. A store keeps no scopes, so a full name is looked up by its bare half (spec roost 18).
 *
 * @throws {MurError} `E-REG-001` when the registry does not hold it, `E-IO-003` for what no store can hold or a registry
 * that cannot be read.
 */
export async function findArtifact(root: string, name: string, version: string): Promise<FoundArtifact> {
  const store = new ArtifactStore(root);
  const bare = bareHalf(name);
  const label = `${bare}@${version}`;
  const platform = hostPlatformTag();
  const missing = () => new MurError("E-REG-001", `${shownValue(label)} is not in ${root}`);
  const found = await store.resolve(bare, version, platform);
  if (found === null) throw missing();
  const { size } = await Deno.stat(found.path);
  if (size > MAX_CAPSULE_BYTES) {
    throw new MurError("E-IO-003", `${found.path} holds ${size} bytes, more than a capsule may: ${MAX_CAPSULE_BYTES}`);
  }
  return {
    paths: [
      found.path.slice(0, found.path.lastIndexOf("/")),
      found.path,
      found.path.replace(/\.mur\.zip$/, ".sha256"),
    ],
    async read() {
      const loaded = await store.load(bare, version, platform);
      if (loaded === null) throw missing();
      const opened = await openPackage(loaded.bytes, label, DEFAULT_MAX_DECOMPRESSED_BYTES);
      requireIdentity(opened.manifest, bare, version, `the archive of ${label}`);
      const { manifest } = parseCapsuleManifest(opened.manifest.text, `${label}/murmur.yaml`, {
        dropLiteralKeys: true,
      });
      return { sha256: loaded.artifact.sha256, grants: grantsOf(manifest) };
    },
  };
}
