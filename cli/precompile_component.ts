/**
 * Translates a component into the cache that launches read (spec cli 11.1, 11.4, components 3.9).
 *
 * @module
 */
import { prepareMurmurHome } from "../base/private_directory.ts";
import type { ArtifactMetadata } from "../artifact/artifact_metadata.ts";
import { sha256Hex } from "../artifact/sha256.ts";
import type { CliContext } from "./context.ts";

/** What was done. */
export type PrecompileOutcome = "compiled" | "already stored";

/** Translates a component unless its translation is stored. @throws {MurError} `E-RUN-001` */
export async function precompileComponent(
  context: CliContext,
  metadata: Pick<ArtifactMetadata, "name" | "role">,
  component: Uint8Array<ArrayBuffer>,
): Promise<PrecompileOutcome> {
  const { TranspileCache } = await import("../runtime/component/transpile_cache.ts");
  const { TRANSLATION_VERSION } = await import("../runtime/component/translation_version.ts");
  const home = context.home();
  const sha256 = await sha256Hex(component);
  prepareMurmurHome(home);
  const stored = await exists(`${home.compiled}/${sha256}.${TRANSLATION_VERSION}`);
  await new TranspileCache(home.compiled).translate(component, sha256, `${metadata.role} '${metadata.name}'`);
  return stored ? "already stored" : "compiled";
}

async function exists(path: string): Promise<boolean> {
  try {
    await Deno.stat(path);
    return true;
  } catch {
    return false;
  }
}
