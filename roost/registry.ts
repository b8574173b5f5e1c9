/**
 * The daemon's view of its artifact registry: which artifact a name and version are now, by content hash, and what it may
 * do (spec roost 2.1, 3).
 *
 * An archive is read and hashed again whenever its files changed in any way; while they did not, the reading of before
 * stands.
 *
 * @module
 */
import { FileStamp } from "../base/file_stamp.ts";
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
   * @param moment A number that rises: whether anything changed is looked at once for each.
   * @throws {MurError} When there is none, or it cannot be read.
   */
  resolve(name: string, version: string, moment: number): JudgedArtifact | Promise<JudgedArtifact>;
}

/** A reading that is kept. */
interface Reading {
  readonly artifact: JudgedArtifact;
  readonly stamps: readonly FileStamp[];
  /** When it was last seen to be what the files hold. */
  seenAt: number;
}

/** Readings that are kept. */
const MAX_KEPT = 256;

/** A registry in a directory, laid out as a store of artifacts (spec cli 7). */
export class StoreRegistry implements Registry {
  readonly #root: string;
  readonly #kept = new Map<string, Reading>();
  /** Readings are made one after another, so that one archive is in memory at most. */
  #last: Promise<unknown> = Promise.resolve();
  /** Those that have not begun: whoever asks meanwhile asks for the same. */
  readonly #waiting = new Map<string, Promise<JudgedArtifact>>();

  /** @param root Absolute path. It need not exist. */
  constructor(root: string) {
    this.#root = root;
  }

  resolve(name: string, version: string, moment: number): JudgedArtifact | Promise<JudgedArtifact> {
    const key = `${name}@${version}`;
    const kept = this.#unchanged(key, moment);
    if (kept !== null) return kept;
    const waiting = this.#waiting.get(key);
    if (waiting !== undefined) return waiting;
    const reading = this.#last.then(() => {
      this.#waiting.delete(key);
      return this.#unchanged(key, Infinity) ?? this.#read(key, name, version);
    });
    this.#waiting.set(key, reading);
    this.#last = reading.catch(() => {});
    return reading;
  }

  #unchanged(key: string, moment: number): JudgedArtifact | null {
    const kept = this.#kept.get(key);
    if (kept === undefined) return null;
    if (kept.seenAt >= moment) return kept.artifact;
    if (kept.stamps.every((stamp) => stamp.isUnchanged())) {
      if (moment < Infinity) kept.seenAt = moment;
      return kept.artifact;
    }
    this.#kept.delete(key);
    return null;
  }

  async #read(key: string, name: string, version: string): Promise<JudgedArtifact> {
    const { findArtifact } = await loadFindArtifact();
    const { paths, read } = await findArtifact(this.#root, name, version);
    const stamps = paths.map((path) => new FileStamp(path));
    const lookedAt = Date.now();
    const areKept = stamps.every((stamp) => stamp.look() === "there" && stamp.keep(lookedAt));
    const artifact = await read();
    if (areKept && stamps.every((stamp) => stamp.isUnchanged())) {
      const [oldest] = this.#kept.size >= MAX_KEPT ? this.#kept.keys() : [];
      if (oldest !== undefined) this.#kept.delete(oldest);
      this.#kept.set(key, { artifact, stamps, seenAt: -Infinity });
    }
    return artifact;
  }
}

/** Loads what reads archives and manifests. */
export function loadFindArtifact(): Promise<typeof import("./find_artifact.ts")> {
  // Written out, it would be parsed when the daemon starts.
  return import(new URL("./find_artifact.ts", import.meta.url).href);
}
