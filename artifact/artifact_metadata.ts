/**
 * What a store and a registry say about an artifact without opening it (spec cli 7).
 *
 * @module
 */
import { MurError } from "../base/errors.ts";
import { type ComponentNames, componentNames } from "./component_names.ts";
import type { ArtifactManifest, Packaging } from "./manifest/artifact_manifest.ts";
import type { Platform } from "./platform.ts";

/** Metadata of one stored archive. */
export interface ArtifactMetadata {
  readonly name: string;
  readonly version: string;
  readonly kind: Packaging;
  /** `tool`, `driver`, `hook`, `skill` or `capsule`; empty where a store has no metadata. */
  readonly role: string;
  readonly platforms: readonly Platform[];
  readonly description: string | null;
  readonly tags: readonly string[];
  /** Interface names of the packed component; `null` when there is none. */
  readonly contracts: ComponentNames | null;
}

/** Roles a packed manifest may name; older words stand for a tool (spec manifest 5.1). */
const ROLES = ["tool", "driver", "hook", "skill", "capsule"];

/**
 * Metadata of an archive about to be stored.
 *
 * @param payload The component of a wasm artifact; its interface names are read from it.
 * @param platform For which platform a native payload is filed.
 */
export function describeArtifact(
  manifest: ArtifactManifest,
  payload: Uint8Array | null,
  platform: Platform | null,
): ArtifactMetadata {
  return {
    name: manifest.name,
    version: manifest.version,
    kind: manifest.packaging,
    role: ROLES.includes(manifest.runtime) ? manifest.runtime : manifest.role,
    platforms: platform === null ? [] : [platform],
    description: manifest.description,
    tags: manifest.tags,
    contracts: manifest.packaging === "wasm" && payload !== null ? componentNames(payload) : null,
  };
}

/** Metadata of a stored archive that has none: a component of unknown role. */
export function unknownMetadata(name: string, version: string): ArtifactMetadata {
  return { name, version, kind: "wasm", role: "", platforms: [], description: null, tags: [], contracts: null };
}

/** The text of a `.meta.json` file. */
export function formatMetadata(metadata: ArtifactMetadata): string {
  const { name, version, kind, role, platforms, description, tags, contracts } = metadata;
  const meta = {
    name,
    version,
    runtime: kind,
    artifact_runtime: role,
    platforms,
    description,
    tags,
    ...(contracts === null ? {} : { wit_contracts: contracts }),
  };
  return `${JSON.stringify({ meta }, null, 2)}\n`;
}

/**
 * Reads the text of a `.meta.json` file.
 *
 * @param file What messages call it.
 * @throws {MurError} `E-IO-003` when it is no such file.
 */
export function parseMetadata(text: string, file: string): ArtifactMetadata {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new MurError("E-IO-003", `${file} is not JSON`, { cause: error, hint: "install the artifact again" });
  }
  const root = asRecord(value);
  const metadata = metadataFromJson(root?.meta, root?.wit_contracts);
  if (metadata === null) {
    throw new MurError("E-IO-003", `${file} is not artifact metadata`, { hint: "install the artifact again" });
  }
  return metadata;
}

/** Reads the keys of `meta`; `null` when name, version or kind is not one. Other keys of a wrong type read as absent. */
export function metadataFromJson(meta: unknown, outerContracts?: unknown): ArtifactMetadata | null {
  const record = asRecord(meta);
  if (record === null) return null;
  const { name, version, runtime, artifact_runtime, platforms, description, tags, wit_contracts } = record;
  if (typeof name !== "string" || typeof version !== "string") return null;
  if (runtime !== "wasm" && runtime !== "native" && runtime !== "static") return null;
  return {
    name,
    version,
    kind: runtime,
    role: typeof artifact_runtime === "string" ? artifact_runtime : "",
    platforms: (Array.isArray(platforms) ? platforms : []).filter(isPlatform),
    description: typeof description === "string" ? description : null,
    tags: strings(tags),
    contracts: contractsFromJson(wit_contracts ?? outerContracts),
  };
}

function contractsFromJson(value: unknown): ComponentNames | null {
  const record = asRecord(value);
  return record === null ? null : { exports: strings(record.exports), imports: strings(record.imports) };
}

function asRecord(value: unknown): Record<string, unknown> | null {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? value as Record<string, unknown> : null;
}

function strings(value: unknown): readonly string[] {
  return Array.isArray(value) ? value.filter((item): item is string => typeof item === "string") : [];
}

function isPlatform(value: unknown): value is Platform {
  return Array.isArray(value) && value.length === 2 && value.every((part) => typeof part === "string");
}
