/**
 * The daemon's view of its artifact registry: which artifact a name and version are now, by content hash, and what it may
 * do (spec roost 2.1, 3).
 *
 * An archive is read and hashed again whenever its files changed in any way; while they did not, the reading of before
 * stands.
 *
 * @module
 */
import type { Grants } from "./grants.ts";

/** What the registry holds under a name and a version. */
export interface JudgedArtifact {
  /** Content hash of the archive, 64 lowercase hex digits. */
  readonly sha256: string;
  readonly grants: Grants;
}

/** Finds artifacts. */
export interface Registry {
  /**
   * The artifact of a full name; at once when it was read before and nothing changed since.
   *
   * @throws {MurError} When there is none, or it cannot be read.
   */
  resolve(name: string, version: string): JudgedArtifact | Promise<JudgedArtifact>;
}

/** An artifact, and the files it was read from: the directory of its version, its archive, its hash file. */
export interface ArtifactReading {
  readonly artifact: JudgedArtifact;
  readonly paths: readonly string[];
}

/** Readings that are kept. */
const MAX_KEPT = 256;

/**
 * How long after a change, in milliseconds, another may leave the same times: on file systems that keep parts of seconds,
 * and on those that keep none.
 */
const RACY_MS = { fine: 100, coarse: 2_500 };

/** A registry in a directory, laid out as a store of artifacts (spec cli 7). */
export class StoreRegistry implements Registry {
  readonly #root: string;
  readonly #kept = new Map<string, ArtifactReading & { readonly stamp: string }>();
  /** Readings are made one after another, so that one archive is in memory at most. */
  #last: Promise<unknown> = Promise.resolve();

  /** @param root Absolute path. It need not exist. */
  constructor(root: string) {
    this.#root = root;
  }

  resolve(name: string, version: string): JudgedArtifact | Promise<JudgedArtifact> {
    const key = `${name}@${version}`;
    const kept = this.#unchanged(key);
    if (kept !== null) return kept;
    const reading = this.#last.then(() => this.#unchanged(key) ?? this.#read(key, name, version));
    this.#last = reading.catch(() => {});
    return reading;
  }

  #unchanged(key: string): JudgedArtifact | null {
    const kept = this.#kept.get(key);
    if (kept === undefined) return null;
    if (stampOf(kept.paths) === kept.stamp) return kept.artifact;
    this.#kept.delete(key);
    return null;
  }

  async #read(key: string, name: string, version: string): Promise<JudgedArtifact> {
    const { findArtifact } = await import("./find_artifact.ts");
    const { paths, read } = await findArtifact(this.#root, name, version);
    const stamp = stampOf(paths);
    const artifact = await read();
    if (stamp !== null && stampOf(paths) === stamp) {
      const [oldest] = this.#kept.size >= MAX_KEPT ? this.#kept.keys() : [];
      if (oldest !== undefined) this.#kept.delete(oldest);
      this.#kept.set(key, { artifact, paths, stamp });
    }
    return artifact;
  }
}

/** Identity, size and times of files; `null` when one is not there, or changed too lately for its times to tell. */
function stampOf(paths: readonly string[]): string | null {
  const now = Date.now();
  let stamp = "";
  for (const path of paths) {
    let info: Deno.FileInfo;
    try {
      info = Deno.statSync(path);
    } catch {
      return null;
    }
    const modified = info.mtime?.getTime() ?? Infinity;
    const changed = info.ctime?.getTime() ?? Infinity;
    const latest = Math.max(modified, changed);
    if (!(latest + (latest % 1_000 === 0 ? RACY_MS.coarse : RACY_MS.fine) < now)) return null;
    stamp += `${info.dev}:${info.ino}:${info.size}:${modified}:${changed};`;
  }
  return stamp;
}
