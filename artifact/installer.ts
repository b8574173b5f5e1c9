/**
 * Installing one artifact: find it, verify it, check it against the lock, file it (spec cli 8, 11.1).
 *
 * @module
 */
import { MurError } from "../base/errors.ts";
import type { ArtifactMetadata } from "./artifact_metadata.ts";
import { type ArtifactName, isReservedVersion } from "./artifact_name.ts";
import { findPin, lockConflict, type LockFile, type ResolvedArtifact } from "./lockfile.ts";
import { nativePlatforms } from "./native_platform.ts";
import { type Platform, platformTag } from "./platform.ts";
import { inspectArchive, requireIdentity } from "./publication.ts";
import type { ArtifactSource, SourceAnswer } from "./registry/artifact_source.ts";
import { fetchFromChain } from "./registry/source_chain.ts";
import type { ArtifactStore } from "./store.ts";

/** An archive on its way into a store. */
export interface ArrivedArchive {
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly sha256: string;
  /** What messages call the archive. */
  readonly label: string;
  /** Source it came from; `null` when it is the registry's. */
  readonly source: string | null;
}

/** An artifact that was filed. */
export interface InstalledArtifact extends ResolvedArtifact {
  readonly metadata: ArtifactMetadata;
  /** Path of the archive in the store. */
  readonly path: string;
  readonly source: string | null;
  /** The component of a wasm artifact, for translation; `null` for every other. */
  readonly component: Uint8Array<ArrayBuffer> | null;
}

/** Where artifacts are looked for. */
export interface ArtifactOrigins {
  /** The registry, asked first for an exact version. Made when it is needed, since it may need a key. */
  registry(): Promise<ArtifactSource>;
  /** The sources a scope admits. */
  sources(scope: string | null): readonly ArtifactSource[];
  /** The host's platform tag; `null` when it is unknown. */
  readonly platform: string | null;
}

/**
 * Finds an archive: an exact version in the registry and then, when that does not have it, in the source chain; the latest
 * one in the source chain alone.
 *
 * @throws {MurError} `E-REG-001`, `E-REG-002`, `E-REG-006`, `E-IO-003`.
 */
export async function findArchive(
  origins: ArtifactOrigins,
  name: ArtifactName,
  version: string | null,
): Promise<ArrivedArchive> {
  if (version !== null && isReservedVersion(version)) {
    throw new MurError("E-IO-003", `'${version}' is reserved, no artifact has that version`, {
      hint: `for the latest release write mur install ${name.bare}`,
    });
  }
  const request = { name: name.bare, version, platform: origins.platform };
  const label = version === null ? name.bare : `${name.bare}@${version}`;
  const fromChain = async (): Promise<ArrivedArchive> => {
    const { artifact, source } = await fetchFromChain(origins.sources(name.scope), request);
    return { ...artifact, label: `${label} from ${source}`, source };
  };
  if (version === null) return await fromChain();
  const registry = await origins.registry();
  let answer: SourceAnswer;
  try {
    answer = await registry.fetch(request);
  } catch (error) {
    const damaged = error instanceof MurError && error.code === "E-REG-002" && registry.isLocal;
    if (!damaged) throw error;
    // The copy on this machine is damaged. A source that has the artifact mends it; without one, the damage is told.
    return await fromChain().catch(() => {
      throw error;
    });
  }
  if (answer.kind === "found") return { ...answer, label: `${label} from ${registry.label}`, source: null };
  if (answer.kind === "unanswered") {
    throw new MurError("E-IO-003", `${registry.label} did not answer: ${answer.reason}`);
  }
  return await fromChain();
}

/** How an archive is filed. */
export interface FilingOptions {
  readonly store: ArtifactStore;
  /** Checked for a pin that disagrees; `null` without a lock. */
  readonly lock: LockFile | null;
  /** What was asked for; without it the archive is taken by its own name. */
  readonly wanted?: { readonly name: string; readonly version: string | null };
  /** Platform a native payload was offered for; a binary for another one is refused. Without one, the host's. */
  readonly platform?: Platform;
  readonly maxBytes: number;
}

/**
 * Opens an archive that arrived, checks it and files it. Nothing is written when a check fails.
 *
 * @throws {MurError} `E-IO-003`, `E-MAN-*`, `E-BLD-003`, `E-REG-005`.
 */
export async function fileArchive(archive: ArrivedArchive, options: FilingOptions): Promise<InstalledArtifact> {
  const { bytes, sha256, label, source } = archive;
  const inspected = await inspectArchive(bytes, label, options.maxBytes, options.platform);
  const { manifest, metadata, platform, payload } = inspected;
  if (options.wanted !== undefined) requireIdentity(manifest, options.wanted.name, options.wanted.version, label);
  const { name, version, kind } = metadata;
  const resolved = { name, version, platform: platform === null ? null : platformTag(platform), sha256 };
  if (kind === "native" && options.platform !== undefined) requirePlatform(payload!, options.platform, label);
  refuseConflict(options.lock, resolved);
  const stored = await options.store.put({ metadata, platform, bytes }, "install");
  const component = kind === "wasm" ? payload : null;
  return { ...resolved, metadata, path: stored.path, source, component };
}

/** Refuses a binary that names other platforms in its header; one that names none is taken as offered. */
function requirePlatform(binary: Uint8Array, platform: Platform, label: string): void {
  const built = nativePlatforms(binary);
  const tag = platformTag(platform);
  if (built.length === 0 || built.includes(tag)) return;
  throw new MurError("E-REG-001", `${label} is not for ${tag}: its binary is built for ${built.join(", ")}`);
}

/** Refuses an artifact whose pin disagrees. @throws {MurError} `E-REG-005`. */
export function refuseConflict(lock: LockFile | null, resolved: ResolvedArtifact): void {
  const pin = lock === null ? undefined : findPin(lock, resolved.name);
  const conflict = pin === undefined ? null : lockConflict(pin, resolved);
  if (conflict === null) return;
  throw new MurError("E-REG-005", conflict, {
    hint: "if the change is intended, remove the entry from murmur.lock and install again",
  });
}
