/**
 * The first-party artifacts that a program in one file carries, as the first of the install sources: what such a program
 * was built and tested with is there without a network.
 *
 * @module
 */
import { ARCHIVE_SUFFIX } from "../package.ts";
import { sha256Hex } from "../sha256.ts";
import type { ArtifactSource } from "./artifact_source.ts";

/** Where the archives lie beside a bundle, each under `<name>-<version>.mur.zip`. */
export const ARCHIVES_FOLDER = "components";

/** The archives of a directory. There is one version of each name. */
export function carriedSource(directory: string): ArtifactSource {
  return {
    label: "this mur",
    isLocal: true,
    async fetch({ name, version }) {
      const file = version === null ? await fileOf(directory, name) : `${name}-${version}${ARCHIVE_SUFFIX}`;
      if (file === null) return { kind: "not-found", reason: "it carries none" };
      try {
        const bytes = await Deno.readFile(`${directory}/${file}`);
        return { kind: "found", bytes, sha256: await sha256Hex(bytes) };
      } catch (error) {
        if (error instanceof Deno.errors.NotFound) return { kind: "not-found", reason: "it carries none" };
        throw error;
      }
    },
  };
}

/** The archive of a name, whatever its version. */
async function fileOf(directory: string, name: string): Promise<string | null> {
  for await (const entry of Deno.readDir(directory)) {
    const version = entry.name.startsWith(`${name}-`) ? entry.name.slice(name.length + 1) : "";
    if (/^\d/.test(version) && version.endsWith(ARCHIVE_SUFFIX)) return entry.name;
  }
  return null;
}
