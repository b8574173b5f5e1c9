/**
 * A store of artifacts: `<root>/<name>/<version>/` with an archive, its hash and its metadata, once for a
 * platform-independent payload and once per platform for a native one (spec cli 7).
 *
 * Readers take no lock unless what they read disagrees. An archive counts only with the hash file beside it, and only
 * bytes of that hash are ever handed out, so a write that is cut short at any point reads as absent or as a hash that does
 * not match, never as an artifact.
 *
 * @module
 */
import { pathExists } from "../base/path_exists.ts";
import { withDirectoryLock } from "../base/directory_lock.ts";
import { ioError, MurError, type Warning } from "../base/errors.ts";
import type { MurmurHome } from "../base/murmur_home.ts";
import { type ArtifactMetadata, formatMetadata, parseMetadata, unknownMetadata } from "./artifact_metadata.ts";
import { bareNameProblem, isBareName, isReservedVersion, versionProblem } from "./artifact_name.ts";
import { ARCHIVE_SUFFIX } from "./package.ts";
import { type Platform, platformTag } from "./platform.ts";
import { isSha256Hex, sha256Hex } from "./sha256.ts";
import { replaceSet, undoInterruptedWrites } from "./staged_files.ts";
import { MAX_ARCHIVE_BYTES } from "./zip_archive.ts";

/** An archive a store holds. */
export interface StoredArtifact {
  readonly name: string;
  readonly version: string;
  /** Tag it is filed under; `null` for the platform-independent place. */
  readonly platform: string | null;
  /** Path of the archive. */
  readonly path: string;
  /** The recorded hash. */
  readonly sha256: string;
  readonly metadata: ArtifactMetadata;
}

/** A stored archive and its bytes, which have the recorded hash. */
export interface LoadedArtifact {
  readonly artifact: StoredArtifact;
  readonly bytes: Uint8Array<ArrayBuffer>;
}

/** What a store write files. */
export interface StoreEntry {
  readonly metadata: ArtifactMetadata;
  /** Platform a native payload is filed under; `null` files it platform-independent. */
  readonly platform: Platform | null;
  readonly bytes: Uint8Array<ArrayBuffer>;
}

/** One line of a listing: an artifact with every platform it is filed for. */
export interface StoreListing extends ArtifactMetadata {
  readonly paths: readonly string[];
}

/** The three files of one stored payload, in the order they are put in place: the hash makes it count. */
const SUFFIXES = [".meta.json", ARCHIVE_SUFFIX, ".sha256"] as const;

export class ArtifactStore {
  /** Absolute path of the store. It need not exist. */
  readonly root: string;

  constructor(root: string) {
    this.root = root.replace(/(?<=.)\/+$/, "");
  }

  /**
   * Finds an archive: under the platform's tag when archive and hash are both there, else platform-independent.
   *
   * @param platform Tag of a platform, or `null` to look only at the platform-independent place.
   * @returns `null` when the store does not hold it; a reserved version is held by none (spec manifest 3.2).
   * @throws {MurError} `E-IO-003` for an empty hash file, unreadable files, and names that cannot be a path.
   */
  // deno-lint-ignore require-await -- a small file is read at once: turns of the event loop would cost a launch more
  async resolve(name: string, version: string, platform: string | null): Promise<StoredArtifact | null> {
    requirePathParts(name, version);
    if (isReservedVersion(version)) return null;
    const tagged = platform === null ? null : this.#resolveAt(name, version, platform);
    return tagged ?? this.#resolveAt(name, version, null);
  }

  #resolveAt(name: string, version: string, platform: string | null): StoredArtifact | null {
    const base = this.#base(name, version, platform);
    const path = `${base}${ARCHIVE_SUFFIX}`;
    if (!isFile(path)) return null;
    const recorded = readTextOrNull(`${base}.sha256`);
    if (recorded === null) return null;
    const sha256 = recorded.trim();
    if (!isSha256Hex(sha256)) {
      const what = sha256 === "" ? "is empty" : "does not hold a SHA-256 in lowercase hex";
      throw new MurError("E-IO-003", `the hash file ${base}.sha256 ${what}`, { hint: "install the artifact again" });
    }
    const metaPath = `${base}.meta.json`;
    const text = readTextOrNull(metaPath);
    const metadata = text === null ? unknownMetadata(name, version) : parseMetadata(text, metaPath);
    return { name, version, platform, path, sha256, metadata };
  }

  /**
   * Finds an archive and reads it, verified.
   *
   * @returns `null` when the store does not hold it.
   * @throws {MurError} `E-REG-002` when the bytes do not have the recorded hash, and those of {@linkcode resolve}.
   */
  async load(name: string, version: string, platform: string | null): Promise<LoadedArtifact | null> {
    const first = await this.#read(name, version, platform);
    if (first === null || "bytes" in first) return first;
    // Another process may be replacing archive and hash just now. While none is, what is read here is final.
    const directory = `${this.root}/${name}/${version}`;
    const look = () => this.#read(name, version, platform);
    const settled = await withDirectoryLock(directory, look, { shared: true }).catch((error) => {
      throw error instanceof MurError ? error : ioError(`lock ${directory}`, error);
    });
    if (settled === null || "bytes" in settled) return settled;
    throw hashMismatch(settled.artifact.path, settled.artifact.sha256, settled.actual);
  }

  /** Reads archive and hash once; they may disagree. */
  async #read(
    name: string,
    version: string,
    platform: string | null,
  ): Promise<LoadedArtifact | { readonly artifact: StoredArtifact; readonly actual: string } | null> {
    const artifact = await this.resolve(name, version, platform);
    const bytes = artifact === null ? null : await readArchive(artifact.path);
    if (artifact === null || bytes === null) return null;
    const actual = await sha256Hex(bytes);
    return actual === artifact.sha256 ? { artifact, bytes } : { artifact, actual };
  }

  /**
   * Files an archive: all three files are staged beside their places, then renamed; a failure undoes every rename.
   *
   * @param mode `publish` refuses when the archive or its hash is there already, `install` replaces it.
   * @throws {MurError} `E-REG-003`, `E-IO-002`, `E-IO-003`.
   */
  async put(entry: StoreEntry, mode: "publish" | "install"): Promise<StoredArtifact> {
    const { metadata, platform, bytes } = entry;
    const { name, version } = metadata;
    requirePathParts(name, version);
    if (isReservedVersion(version)) {
      throw new MurError("E-IO-003", `'${name}@${version}' cannot be stored: the version '${version}' is reserved`, {
        hint: "build the artifact with an exact version",
      });
    }
    const tag = platform === null ? null : platformTag(platform);
    const base = this.#base(name, version, tag);
    const directory = `${this.root}/${name}/${version}`;
    const sha256 = await sha256Hex(bytes);
    const contents = [formatMetadata(metadata), bytes, `${sha256}\n`];
    try {
      await Deno.mkdir(directory, { recursive: true });
      await withDirectoryLock(directory, async () => {
        await undoInterruptedWrites(directory, SUFFIXES);
        if (
          mode === "publish" && (await pathExists(`${base}${ARCHIVE_SUFFIX}`) || await pathExists(`${base}.sha256`))
        ) {
          const where = tag === null ? "" : ` for ${tag}`;
          throw new MurError("E-REG-003", `${name}@${version} is already published${where}`, {
            hint: "a published version never changes; publish a new one",
          });
        }
        await replaceSet(base, SUFFIXES.map((suffix, index) => ({ suffix, content: contents[index]! })));
      });
    } catch (error) {
      if (error instanceof MurError) throw error;
      throw ioError(`write ${name}@${version} to the store ${this.root}`, error);
    }
    return { name, version, platform: tag, path: `${base}${ARCHIVE_SUFFIX}`, sha256, metadata };
  }

  /** Versions of a name that have an archive, in plain string order. */
  async versions(name: string): Promise<readonly string[]> {
    if (!isBareName(name)) return [];
    const versions = [];
    for (const version of await directoriesIn(`${this.root}/${name}`)) {
      if (versionProblem(version) !== null || isReservedVersion(version)) continue;
      if ((await this.#archivesOf(name, version)).length > 0) versions.push(version);
    }
    return versions;
  }

  /** Everything the store holds, by name, version and kind in plain string order. */
  async list(): Promise<readonly StoreListing[]> {
    const rows: StoreListing[] = [];
    for (const name of await directoriesIn(this.root)) {
      for (const version of await this.versions(name)) rows.push(...await this.#listingsOf(name, version));
    }
    return rows.sort((a, b) => compare(a.name, b.name) || compare(a.version, b.version) || compare(a.kind, b.kind));
  }

  async #listingsOf(name: string, version: string): Promise<StoreListing[]> {
    const rows: StoreListing[] = [];
    for (const { base, path, tag } of await this.#archivesOf(name, version)) {
      const metadata = listedMetadata(base, name, version);
      const filed: readonly Platform[] = tag === null ? metadata.platforms : [splitTag(tag)];
      const same = rows.findIndex((row) => row.kind === metadata.kind && row.role === metadata.role);
      const row = rows[same];
      if (row === undefined) {
        rows.push({ ...metadata, name, version, platforms: filed, paths: [path] });
      } else {
        const known = new Set(row.platforms.map(platformTag));
        const platforms = [...row.platforms, ...filed.filter((platform) => !known.has(platformTag(platform)))];
        rows[same] = { ...row, platforms, paths: [...row.paths, path] };
      }
    }
    return rows;
  }

  /** The archives of one version, platform-independent first. */
  async #archivesOf(name: string, version: string): Promise<{ base: string; path: string; tag: string | null }[]> {
    const directory = `${this.root}/${name}/${version}`;
    const plain = `${name}-${version}`;
    const archives = [];
    for (const file of (await filesIn(directory)).toSorted()) {
      if (!file.endsWith(ARCHIVE_SUFFIX)) continue;
      const stem = file.slice(0, -ARCHIVE_SUFFIX.length);
      const tag = stem === plain ? null : stem.startsWith(`${plain}-`) ? stem.slice(plain.length + 1) : "";
      if (tag === "") continue;
      archives.push({ base: `${directory}/${stem}`, path: `${directory}/${file}`, tag });
    }
    return archives.sort((a, b) => (a.tag === null ? 0 : 1) - (b.tag === null ? 0 : 1));
  }

  #base(name: string, version: string, platform: string | null): string {
    const stem = platform === null ? `${name}-${version}` : `${name}-${version}-${platform}`;
    return `${this.root}/${name}/${version}/${stem}`;
  }
}

/** Path of the project store of a project root (spec cli 7). */
export function projectStore(projectRoot: string): ArtifactStore {
  return new ArtifactStore(`${projectRoot}/.murmur/artifacts`);
}

/** The global store of a home. */
export function globalStore(home: MurmurHome): ArtifactStore {
  return new ArtifactStore(home.artifacts);
}

/** `W-REG-001` for a native artifact that was found at the platform-independent place (spec cli 7, rule 5). */
export function unplatformedNativeWarning(artifact: StoredArtifact): Warning | null {
  if (artifact.platform !== null || artifact.metadata.kind !== "native") return null;
  return {
    code: "W-REG-001",
    source: null,
    message: `native artifact ${artifact.name}@${artifact.version} is installed without a recorded platform`,
    details: [`Fix: mur install ${artifact.name}@${artifact.version} on this host`],
  };
}

/** The refusal of bytes that do not have the hash recorded for them (`E-REG-002`). */
export function hashMismatch(what: string, expected: string, actual: string): MurError {
  return new MurError(
    "E-REG-002",
    `${what} does not have the recorded hash\n  expected ${expected}\n  actual   ${actual}`,
    {
      hint:
        "install the artifact again; if it is pinned in murmur.lock and the change is intended, remove that entry first",
    },
  );
}

function requirePathParts(name: string, version: string): void {
  const problem = bareNameProblem(name) ?? versionProblem(version);
  if (problem !== null) throw new MurError("E-IO-003", `'${name}@${version}' cannot be stored: ${problem}`);
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

function splitTag(tag: string): Platform {
  const dash = tag.indexOf("-");
  return dash === -1 ? [tag, ""] : [tag.slice(0, dash), tag.slice(dash + 1)];
}

function listedMetadata(base: string, name: string, version: string): ArtifactMetadata {
  const text = readTextOrNull(`${base}.meta.json`);
  if (text === null) return unknownMetadata(name, version);
  try {
    return parseMetadata(text, `${base}.meta.json`);
  } catch {
    // A listing shows what is there; using the artifact reports the damage.
    return unknownMetadata(name, version);
  }
}

/** Longest archive that is read in one go, in bytes: a larger one would hold up the event loop. */
const MAX_READ_AT_ONCE = 4 << 20;

/** Reads an archive of bounded size; `null` when it is not there. @throws {MurError} */
export async function readArchive(path: string): Promise<Uint8Array<ArrayBuffer> | null> {
  try {
    const info = Deno.statSync(path);
    if (!info.isFile) throw new MurError("E-IO-003", `${path} is not a regular file`);
    if (info.size > MAX_ARCHIVE_BYTES) {
      throw new MurError("E-IO-003", `${path} is larger than ${MAX_ARCHIVE_BYTES} bytes`);
    }
    return info.size <= MAX_READ_AT_ONCE ? Deno.readFileSync(path) : await Deno.readFile(path);
  } catch (error) {
    if (error instanceof MurError) throw error;
    if (error instanceof Deno.errors.NotFound) return null;
    throw ioError(`read ${path}`, error);
  }
}

function readTextOrNull(path: string): string | null {
  try {
    return Deno.readTextFileSync(path);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return null;
    throw ioError(`read ${path}`, error);
  }
}

function isFile(path: string): boolean {
  try {
    return Deno.statSync(path).isFile;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound || error instanceof Deno.errors.NotADirectory) return false;
    throw ioError(`read ${path}`, error);
  }
}

async function entriesIn(directory: string): Promise<Deno.DirEntry[]> {
  try {
    return await Array.fromAsync(Deno.readDir(directory));
  } catch (error) {
    if (error instanceof Deno.errors.NotFound || error instanceof Deno.errors.NotADirectory) return [];
    throw ioError(`read ${directory}`, error);
  }
}

async function directoriesIn(directory: string): Promise<string[]> {
  return (await entriesIn(directory)).filter((entry) => entry.isDirectory).map((entry) => entry.name).sort();
}

async function filesIn(directory: string): Promise<string[]> {
  return (await entriesIn(directory)).filter((entry) => entry.isFile).map((entry) => entry.name);
}
