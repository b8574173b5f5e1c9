/**
 * Small artifacts for tests, packed as `mur build` packs them.
 *
 * @module
 */
import type { ArtifactMetadata } from "../../artifact/artifact_metadata.ts";
import { writeZip } from "../../artifact/zip_writer.ts";

/** What goes into an artifact; every file by its name in the archive. */
export interface PackedArtifactOptions {
  readonly name: string;
  readonly version?: string;
  readonly runtime?: string;
  /** Further lines of the manifest. */
  readonly manifest?: string;
  readonly files?: Readonly<Record<string, string | Uint8Array>>;
}

/** A component without imports and exports: enough to be stored, not to be run. */
export const EMPTY_COMPONENT = Uint8Array.of(0x00, 0x61, 0x73, 0x6d, 0x0d, 0x00, 0x01, 0x00);

/** What a store says of a native tool `a@1.0.0` for one platform. */
export const NATIVE_METADATA: ArtifactMetadata = {
  name: "a",
  version: "1.0.0",
  kind: "native",
  role: "tool",
  platforms: [["linux", "x86_64"]],
  description: null,
  tags: [],
  contracts: null,
};

/** Packs an artifact; a skill by default. */
export async function packedArtifact(options: PackedArtifactOptions): Promise<Uint8Array<ArrayBuffer>> {
  const { name, version = "1.0.0", runtime = "skill", manifest = "" } = options;
  const files = options.files ??
    (runtime === "skill" ? { "skill.md": `# ${name}` } : { "capsule.wasm": EMPTY_COMPONENT });
  const encoder = new TextEncoder();
  const text = `name: ${JSON.stringify(name)}\nversion: ${JSON.stringify(version)}\nruntime: ${runtime}\n${manifest}`;
  return await writeZip([
    { name: "murmur.yaml", bytes: encoder.encode(text) },
    ...Object.entries(files).map(([file, content]) => ({
      name: file,
      bytes: typeof content === "string" ? encoder.encode(content) : content,
    })),
  ]);
}

/** A packed native tool whose binary has the given content. */
export async function packedNativeTool(name: string, binary: string | Uint8Array, version = "1.0.0") {
  const files = { [`bin/${name}`]: binary };
  return await packedArtifact({ name, version, runtime: "tool", manifest: "implementation: native\n", files });
}
