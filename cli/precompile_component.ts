/**
 * Translates a component into the cache that launches read (spec cli 11.1, 11.4, components 3.9).
 *
 * @module
 */
import { pathExists } from "../base/path_exists.ts";
import { prepareMurmurHome } from "../base/private_directory.ts";
import type { ArtifactMetadata } from "../artifact/artifact_metadata.ts";
import { sha256Hex } from "../artifact/sha256.ts";
import type { CliContext } from "./context.ts";

/** What was done. */
export type PrecompileOutcome = "compiled" | "already stored";

/**
 * Translates a component unless its translation is stored.
 *
 * @param archiveSha256 Hash of the archive it lies in: a launch that knows it need not unpack the archive. `null` without
 * one.
 * @throws {MurError} `E-RUN-001`
 */
export async function precompileComponent(
  context: CliContext,
  metadata: Pick<ArtifactMetadata, "name" | "role">,
  component: Uint8Array<ArrayBuffer>,
  archiveSha256: string | null,
): Promise<PrecompileOutcome> {
  const { TranspileCache } = await import("../runtime/component/transpile_cache.ts");
  const { TRANSLATION_VERSION } = await import("../runtime/component/translation_version.ts");
  const home = context.home();
  const sha256 = await sha256Hex(component);
  prepareMurmurHome(home);
  const stored = await pathExists(`${home.compiled}/${sha256}.${TRANSLATION_VERSION}`);
  const cache = new TranspileCache(home.compiled);
  await cache.translate(component, sha256, `${metadata.role} '${metadata.name}'`);
  if (archiveSha256 !== null) cache.remember("archive", archiveSha256, sha256);
  return stored ? "already stored" : "compiled";
}
