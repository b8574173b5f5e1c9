/**
 * What a parent's runtime reads of a child's packed manifest before it launches it (spec roost 10, step 4): from the very
 * archive the daemon judged, and with every `${NAME}` in it left as it is.
 *
 * @module
 */
import { bareHalf } from "../../artifact/artifact_name.ts";
import { parseCapsuleManifest } from "../../artifact/manifest/parse_capsule_manifest.ts";
import { openPackage } from "../../artifact/package.ts";
import { hostPlatformTag } from "../../artifact/platform.ts";
import type { ArtifactStore } from "../../artifact/store.ts";
import { maxDecompressedBytes } from "../../artifact/zip_archive.ts";
import { MurError } from "../../base/errors.ts";

/** Facts of a child's manifest. */
export interface PackedCapsule {
  readonly envAllow: readonly string[];
  /** Ceiling of its work folder, in bytes. */
  readonly workdirMaxBytes: number;
  /** Its door asks for a token. */
  readonly authenticated: boolean;
}

/**
 * Facts by hash of the archive they were read from. Reading one holds the thread for some milliseconds, and many children
 * of one capsule may be started at once.
 */
const known = new Map<string, PackedCapsule>();

/**
 * Reads the manifest of the judged archive.
 *
 * @param stores The parent's, in order.
 * @throws {MurError} `E-RUN-008` when no store holds the capsule, `E-RUN-047` when none holds the approved bytes, and those
 * of reading it.
 */
export async function readPackedCapsule(
  stores: readonly ArtifactStore[],
  { capsule, version, sha256 }: { readonly capsule: string; readonly version: string; readonly sha256: string },
  env: { get(name: string): string | undefined },
): Promise<PackedCapsule> {
  const name = bareHalf(capsule);
  const label = `${name}@${version}`;
  let other: string | null = null;
  for (const store of stores) {
    const facts = known.get(sha256);
    if (facts !== undefined && (await store.resolve(name, version, hostPlatformTag()))?.sha256 === sha256) return facts;
    const loaded = await store.load(name, version, hostPlatformTag());
    if (loaded === null) continue;
    if (loaded.artifact.sha256 !== sha256) {
      other ??= loaded.artifact.sha256;
      continue;
    }
    const { manifest } = await openPackage(loaded.bytes, label, maxDecompressedBytes(env));
    const { capabilities, network } = parseCapsuleManifest(manifest.text, `${label}/murmur.yaml`).manifest;
    const read = {
      envAllow: capabilities.envAllow,
      workdirMaxBytes: capabilities.resources.workdirMaxBytes,
      authenticated: network.authentication !== null,
    };
    known.set(sha256, read);
    return read;
  }
  if (other === null) throw new MurError("E-RUN-008", `capsule ${capsule}@${version} is not installed`);
  throw new MurError(
    "E-RUN-047",
    `${label} is not the capsule that was approved\n  approved  ${sha256}\n  installed ${other}`,
  );
}
