/**
 * Staging of the declared artifacts: found, verified, unpacked and, when they are components, translated
 * (spec session 3.2). Nothing of an artifact is unpacked or compiled before its hash was checked.
 *
 * @module
 */
import { type ArtifactManifest, judgeHookContract } from "../../artifact/manifest/artifact_manifest.ts";
import type { ArtifactEntry } from "../../artifact/manifest/capsule_manifest.ts";
import { type ArtifactPackage, openPackage, readPayload } from "../../artifact/package.ts";
import { hostPlatformTag } from "../../artifact/platform.ts";
import { requireIdentity } from "../../artifact/publication.ts";
import {
  type ArtifactStore,
  hashMismatch,
  type LoadedArtifact,
  unplatformedNativeWarning,
} from "../../artifact/store.ts";
import { ioError, MurError, type WarningSink } from "../../base/errors.ts";
import type { CompiledComponent, ComponentRuntime } from "../component/component_runtime.ts";
import { readOperatorText } from "./operator_file.ts";

/** What an artifact runs as. */
export type ArtifactPayload =
  | { readonly kind: "component"; readonly component: CompiledComponent }
  | { readonly kind: "native"; readonly bytes: Uint8Array }
  | { readonly kind: "skill"; readonly text: string };

/** One declared artifact, ready to be installed into the session. */
export interface StagedArtifact {
  readonly entry: ArtifactEntry;
  /** Text of its own manifest; a local skill without one gets a minimal one. */
  readonly manifestText: string;
  /** `null` for a local skill. */
  readonly manifest: ArtifactManifest | null;
  /** Hash of the archive and the platform it is filed under; `null` for a local skill, which is never pinned. */
  readonly archive: { readonly sha256: string; readonly platform: string | null } | null;
  readonly payload: ArtifactPayload;
  /** Whether a running capsule pulled it (`origin: runtime` in the lock). */
  readonly pulledBy: string | null;
}

/** What the lock file says of one artifact. */
export interface ArtifactPin {
  readonly version: string;
  /** Pinned hash for this platform. */
  readonly sha256: string;
  /** Session that pulled it; `null` for the operator's own pins. */
  readonly pulledBy: string | null;
}

export interface ArtifactStaging {
  /** In order: project store, global store. */
  readonly stores: readonly ArtifactStore[];
  /** Directory of the manifest, against which `source:` is taken. */
  readonly manifestDir: string;
  /** `null`: staged unpinned. */
  readonly pins: ReadonlyMap<string, ArtifactPin> | null;
  readonly components: ComponentRuntime;
  /** Most bytes one archive entry may inflate to. */
  readonly maxBytes: number;
  readonly warn: WarningSink;
}

/** Finds an artifact in the stores, in order; the first that has it answers. */
export async function findArtifact(
  stores: readonly ArtifactStore[],
  entry: ArtifactEntry,
): Promise<LoadedArtifact | null> {
  for (const store of stores) {
    const loaded = await store.load(entry.bareName, entry.version, hostPlatformTag());
    if (loaded !== null) return loaded;
  }
  return null;
}

/**
 * Names every declared artifact that no store has for this platform.
 *
 * @throws {MurError} `E-RUN-008`.
 */
export async function requireInstalled(
  stores: readonly ArtifactStore[],
  entries: readonly ArtifactEntry[],
): Promise<void> {
  const platform = hostPlatformTag();
  const missing: string[] = [];
  for (const entry of entries) {
    if (entry.source !== null) continue;
    let found = false;
    for (const store of stores) {
      if (await store.resolve(entry.bareName, entry.version, platform) !== null) {
        found = true;
        break;
      }
    }
    if (!found) missing.push(`${entry.name}@${entry.version}`);
  }
  if (missing.length === 0) return;
  throw new MurError("E-RUN-008", `not installed for ${platform}: ${missing.join(", ")}`, {
    hint: "run mur install; for an archive of your own: mur install <path of the .mur.zip file>",
  });
}

/**
 * Stages one artifact.
 *
 * @throws {MurError} `E-REG-002`, `E-RUN-001`, `E-RUN-002`, `E-RUN-008`, `E-IO-001`, `E-IO-003`.
 */
export async function stageArtifact(entry: ArtifactEntry, staging: ArtifactStaging): Promise<StagedArtifact> {
  if (entry.source !== null) return await stageLocalSkill(entry, staging.manifestDir);
  const pin = staging.pins?.get(entry.bareName) ?? null;
  const loaded = await findArtifact(staging.stores, entry);
  if (loaded === null) {
    throw new MurError("E-RUN-008", `${entry.name}@${entry.version} is not installed any more`, {
      hint: "run mur install",
    });
  }
  const { artifact, bytes } = loaded;
  const label = `${entry.bareName}@${entry.version}`;
  if (pin !== null && pin.sha256 !== artifact.sha256) {
    throw hashMismatch(`${label} (murmur.lock)`, pin.sha256, artifact.sha256);
  }
  const unplatformed = unplatformedNativeWarning(artifact);
  if (unplatformed !== null) staging.warn(unplatformed);
  const opened = await openPackage(bytes, label, staging.maxBytes);
  // A store is only as good as whoever filled it: what runs under a name is what was published under it.
  requireIdentity(opened.manifest, entry.bareName, entry.version, `the archive of ${label}`);
  return {
    entry,
    manifestText: opened.manifest.text,
    manifest: opened.manifest,
    archive: { sha256: artifact.sha256, platform: artifact.platform },
    payload: await stagePayload(entry, opened, artifact.sha256, staging.components),
    pulledBy: pin?.pulledBy ?? null,
  };
}

async function stagePayload(
  entry: ArtifactEntry,
  opened: ArtifactPackage,
  archiveSha256: string,
  components: ComponentRuntime,
): Promise<ArtifactPayload> {
  const label = `${entry.bareName}@${entry.version}`;
  const { manifest } = opened;
  const unpack = async (): Promise<Uint8Array> => {
    const payload = await readPayload(opened);
    if (payload !== null) return payload;
    throw new MurError("E-RUN-001", `${label} holds nothing that could run as a ${entry.role}`);
  };
  if (entry.role === "skill") {
    if (manifest.role !== "skill") {
      throw new MurError("E-IO-003", `${label} is declared as a skill, but its archive holds none`, {
        hint: "declare the role the artifact's own manifest names",
      });
    }
    return { kind: "skill", text: new TextDecoder().decode(await unpack()) };
  }
  if (manifest.implementation === "native" && entry.role === "tool") return { kind: "native", bytes: await unpack() };
  if (manifest.packaging !== "wasm") {
    throw new MurError("E-RUN-001", `${label} holds nothing that could run as a ${entry.role}`);
  }
  // Before its component is compiled (spec manifest 5.3).
  if (entry.role === "hook") judgeHookContract(manifest);
  const subject = `${entry.role} '${entry.bareName}'`;
  return { kind: "component", component: await components.compileArchived(archiveSha256, unpack, subject) };
}

async function stageLocalSkill(entry: ArtifactEntry, manifestDir: string): Promise<StagedArtifact> {
  const source = entry.source!;
  const path = source.startsWith("/") ? source : `${manifestDir}/${source}`;
  const text = await readSkill(path);
  return {
    entry,
    manifestText: `name: ${entry.bareName}\nversion: local\nruntime: skill\n`,
    manifest: null,
    archive: null,
    payload: { kind: "skill", text },
    pulledBy: null,
  };
}

/** Reads a skill from a file, or from the `skill.md` of a directory in any letter case. */
async function readSkill(path: string): Promise<string> {
  try {
    const { isDirectory } = await Deno.stat(path);
    if (!isDirectory) return await readOperatorText(path);
    for await (const { name, isFile } of Deno.readDir(path)) {
      if (isFile && name.toLowerCase() === "skill.md") return await readOperatorText(`${path}/${name}`);
    }
  } catch (cause) {
    if (cause instanceof Deno.errors.NotFound) {
      throw new MurError("E-IO-001", `skill source path not found: ${path}`, {
        hint: "correct the entry's source in murmur.yaml",
        cause,
      });
    }
    throw cause instanceof MurError ? cause : ioError(`read the skill ${path}`, cause);
  }
  throw new MurError("E-IO-001", `skill source directory '${path}' contains no skill.md`, {
    hint: "add a skill.md, or name the file itself",
  });
}
