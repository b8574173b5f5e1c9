/**
 * Everything a program in one file is made of, laid out in a folder as it is unpacked on the user's machine. Both forms of
 * such a file carry exactly this folder.
 *
 * @module
 */
import { inspectArchive } from "../artifact/publication.ts";
import { ARCHIVES_FOLDER, carryArchive } from "../artifact/registry/carried_source.ts";
import { maxDecompressedBytes } from "../artifact/zip_archive.ts";
import { sha256Hex } from "../artifact/sha256.ts";
import { CARRIED_TRANSLATIONS, TranspileCache } from "../runtime/component/transpile_cache.ts";
import { TRANSLATION_VERSION } from "../runtime/component/translation_version.ts";
import { firstPartyComponents } from "./build_components.ts";
import { bundleMur, bundleRoost } from "./bundle.ts";
import type { NativePackages } from "./toolchain_files.ts";

const DIST = decodeURIComponent(new URL("../dist", import.meta.url).pathname);

/** What the folder depends on besides this checkout. */
export interface ProgramInputs {
  /** Path of the containment helper for the machine; `null` where it has none. */
  readonly helper: string | null;
  readonly native: NativePackages;
}

/** A program as a folder. */
export interface ProgramFolder {
  readonly folder: string;
  /** Name of its main module. */
  readonly entry: string;
  /** Flags of `deno run` that are this program's own: permissions, limits of the engine. */
  readonly flags: readonly string[];
}

/** A program that is built. */
export interface ProgramEntry {
  readonly name: string;
  readonly prepare: (folder: string, inputs: ProgramInputs) => Promise<ProgramFolder>;
}

/**
 * `mur` starts commands, opens doors, reads what its user names and calls the kernel by FFI, so none of these has bounds
 * that could be told beforehand; and both read what they need below `/proc`, which Deno allows only with all permissions.
 * Code from elsewhere neither imports: nothing is fetched, and the flags in front of these see to that.
 */
const PERMISSIONS = "--allow-all";

/** The programs of a release. */
export const PROGRAMS: readonly ProgramEntry[] = [
  { name: "mur", prepare: prepareMur },
  { name: "mur-roost", prepare: prepareRoost },
];

async function prepareRoost(folder: string): Promise<ProgramFolder> {
  const entry = await bundleRoost(folder);
  // As its task in deno.json. Young objects get 2 MB: with 1 MB a grant took 8 % more of the processor, with 4 MB a thousand
  // sessions took a third more memory than none. Threads that collect beside the daemon's own changed neither, but on one
  // core its slowest answers took up to twice as long. All functions are compiled at once, and so lie in what Deno keeps of
  // the compiled program: it is little, and compiling each as it is reached was a twentieth of the start.
  return {
    folder,
    entry: entry.slice(folder.length + 1),
    flags: [PERMISSIONS, "--v8-flags=--max-semi-space-size=2,--single-threaded-gc,--no-lazy"],
  };
}

async function prepareMur(folder: string, inputs: ProgramInputs): Promise<ProgramFolder> {
  const entry = await bundleMur({ folder, ...inputs });
  await addComponents(folder);
  return { folder, entry: entry.slice(folder.length + 1), flags: [PERMISSIONS] };
}

/** Adds the first-party artifacts, and their components as they are loaded. */
async function addComponents(folder: string): Promise<void> {
  await Deno.mkdir(`${folder}/${ARCHIVES_FOLDER}`);
  await Deno.mkdir(`${folder}/${CARRIED_TRANSLATIONS}`);
  // The same component is translated once, however often a program is built.
  const translated = `${DIST}/translated`;
  const cache = new TranspileCache(translated);
  const limit = maxDecompressedBytes(Deno.env);
  for (const archive of [...(await firstPartyComponents()).values()].sort()) {
    const bytes = await Deno.readFile(archive);
    const { payload, metadata } = await inspectArchive(bytes, archive, limit);
    await carryArchive(`${folder}/${ARCHIVES_FOLDER}`, `${metadata.name}-${metadata.version}`, bytes, limit);
    if (metadata.kind !== "wasm" || payload === null) continue;
    const sha256 = await sha256Hex(payload);
    (await cache.translate(payload, sha256, metadata.name))[Symbol.dispose]();
    const translation = `${sha256}.${TRANSLATION_VERSION}`;
    await Deno.copyFile(`${translated}/${translation}`, `${folder}/${CARRIED_TRANSLATIONS}/${translation}`);
  }
}
