/**
 * What is known of an archive before it is filed or published: its manifest, its payload, what stores say about it
 * (spec cli 7, 8.3, 10.3).
 *
 * @module
 */
import { MurError } from "../base/errors.ts";
import { type ArtifactMetadata, describeArtifact } from "./artifact_metadata.ts";
import { isReservedVersion, requireName, requireVersion } from "./artifact_name.ts";
import type { ArtifactManifest } from "./manifest/artifact_manifest.ts";
import { openPackage, readPayload } from "./package.ts";
import { hostPlatformTag, parsePlatform, type Platform } from "./platform.ts";

/** An archive whose manifest and payload can be used. */
export interface InspectedArchive {
  readonly manifest: ArtifactManifest;
  readonly metadata: ArtifactMetadata;
  /** Platform a native payload is filed under; `null` for a platform-independent one. */
  readonly platform: Platform | null;
  /** The component, the native binary or the skill's text; `null` for a manifest alone. */
  readonly payload: Uint8Array<ArrayBuffer> | null;
}

/**
 * Opens an archive, checks that it can be filed, and describes it. Its bytes have the hash their origin told.
 *
 * @param label What messages call the archive.
 * @param nativePlatform Platform of a native payload; without one the host's.
 * @throws {MurError} `E-IO-003` for an unusable archive, a name or version no store takes, or a native payload on a host
 * of unknown platform; `E-MAN-*`; `E-BLD-003`.
 */
export async function inspectArchive(
  bytes: Uint8Array<ArrayBuffer>,
  label: string,
  maxBytes: number,
  nativePlatform?: Platform,
): Promise<InspectedArchive> {
  const artifact = await openPackage(bytes, label, maxBytes);
  const { manifest } = artifact;
  const name = requireName(manifest.name);
  if (name.scope !== null) {
    throw new MurError("E-IO-003", `${label} calls itself '${manifest.name}'; an artifact's own name has no scope`);
  }
  requireVersion(manifest.version);
  const payload = await readPayload(artifact);
  const platform = manifest.packaging === "native" ? nativePlatform ?? requireHostPlatform() : null;
  return { manifest, metadata: describeArtifact(manifest, payload, platform), platform, payload };
}

/** The host's platform. @throws {MurError} `E-IO-003` when it is none this product knows. */
export function requireHostPlatform(tag: string = hostPlatformTag()): Platform {
  if (tag === "unknown") {
    throw new MurError("E-IO-003", "this host's platform is unknown, and a native artifact needs one", {
      hint: "name it with --platform <os>-<arch>",
    });
  }
  return parsePlatform(tag);
}

/**
 * Checks an archive against what was asked for.
 *
 * @param version `null`: any.
 * @throws {MurError} `E-IO-003`.
 */
export function requireIdentity(manifest: ArtifactManifest, name: string, version: string | null, label: string): void {
  if (manifest.name !== name) {
    throw new MurError("E-IO-003", `${label} holds '${manifest.name}', asked for was '${name}'`);
  }
  if (version !== null && manifest.version !== version) {
    throw new MurError("E-IO-003", `${label} holds ${name}@${manifest.version}, asked for was ${version}`);
  }
}

/** Refuses a version that can never be published or resolved. @throws {MurError} `E-REG-004`. */
export function refuseReservedVersion(version: string): void {
  if (!isReservedVersion(version)) return;
  throw new MurError("E-REG-004", `reserved artifact version '${version}' is not allowed`, {
    hint: "publish an exact version",
  });
}
