/**
 * The first-party artifacts that a program in one file carries, as the first of the install sources: what such a program
 * was built and tested with is there without a network. They are carried unpacked, since archives compress no further;
 * packed again they are the published bytes, because an archive follows from its content (spec cli 6.3).
 *
 * @module
 */
import { MurError } from "../../base/errors.ts";
import { sha256Hex } from "../sha256.ts";
import { openZip, readZipEntry } from "../zip_archive.ts";
import { writeZip } from "../zip_writer.ts";
import type { ArtifactSource } from "./artifact_source.ts";

/** Where they lie beside a bundle: `<name>-<version>/` with the files of each, `<name>-<version>.json` with their list. */
export const ARCHIVES_FOLDER = "components";

/** The list of one archive. */
interface CarriedList {
  /** Of the archive. */
  readonly sha256: string;
  /** In the archive's order. */
  readonly entries: readonly string[];
}

/**
 * Lays an archive out in a directory.
 *
 * @param base `<name>-<version>`.
 * @throws {Error} When it was not written by this program: packed again it would be another.
 */
export async function carryArchive(
  directory: string,
  base: string,
  bytes: Uint8Array<ArrayBuffer>,
  maxBytes: number,
): Promise<void> {
  const archive = openZip(bytes, base);
  const entries: string[] = [];
  let left = maxBytes;
  for (const entry of archive.entries.values()) {
    const content = await readZipEntry(archive, entry, left);
    left -= content.length;
    const path = `${directory}/${base}/${entry.name}`;
    await Deno.mkdir(path.slice(0, path.lastIndexOf("/")), { recursive: true });
    await Deno.writeFile(path, content);
    entries.push(entry.name);
  }
  const list: CarriedList = { sha256: await sha256Hex(bytes), entries };
  await Deno.writeTextFile(`${directory}/${base}.json`, JSON.stringify(list));
  if (await packed(directory, base) === null) throw new Error(`${base} is not the same when it is packed again`);
}

/** An archive as it was before it was laid out; `null` when the bytes differ. */
async function packed(directory: string, base: string): Promise<Uint8Array<ArrayBuffer> | null> {
  const list = JSON.parse(await Deno.readTextFile(`${directory}/${base}.json`)) as CarriedList;
  const bytes = await writeZip(
    await Promise.all(list.entries.map(async (name) => ({
      name,
      bytes: await Deno.readFile(`${directory}/${base}/${name}`),
    }))),
  );
  return await sha256Hex(bytes) === list.sha256 ? bytes : null;
}

/** The archives of a directory. There is one version of each name. */
export function carriedSource(directory: string): ArtifactSource {
  return {
    label: "this mur",
    isLocal: true,
    async fetch({ name, version }) {
      const base = await baseOf(directory, name, version);
      if (base === null) return { kind: "not-found", reason: "it carries none" };
      const bytes = await packed(directory, base);
      if (bytes === null) {
        throw new MurError("E-REG-002", `'${base}' as this mur carries it does not have its hash`, {
          hint: "install mur again",
        });
      }
      return { kind: "found", bytes, sha256: await sha256Hex(bytes) };
    },
  };
}

/** `<name>-<version>` of what is carried; any version when none is asked for. */
async function baseOf(directory: string, name: string, version: string | null): Promise<string | null> {
  for await (const { name: file } of Deno.readDir(directory)) {
    if (!file.startsWith(`${name}-`) || !file.endsWith(".json")) continue;
    const carried = file.slice(name.length + 1, -".json".length);
    if (version === null ? /^\d/.test(carried) : carried === version) return `${name}-${carried}`;
  }
  return null;
}
