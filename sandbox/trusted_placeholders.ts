/**
 * Empty files and directories that take the names of absent trusted files, so that no command can (spec containment 4.8,
 * rule 2). Every reader of these names takes an empty one for an absent one, so one that a crash leaves means nothing.
 *
 * @module
 */
import { writeAtomically } from "../base/atomic_file.ts";
import { MurError } from "../base/errors.ts";
import { isJsonObject } from "../base/json_value.ts";
import type { FileStat } from "../base/libc.ts";
import { isAtOrBelow } from "../base/paths.ts";
import { RootedDir, type RootedFile, sameFile } from "../base/rooted_dir.ts";
import { isRootedError, RootedError } from "../base/rooted_error.ts";
import type { TrustedPlaceholder } from "./trusted_guards.ts";

/** A placeholder in place, and the lock that keeps others from removing it. */
interface Held {
  /** The writable grant that it lies in. */
  readonly root: RootedDir;
  /** Relative to the grant. */
  readonly name: string;
  readonly directory: boolean;
  /**
   * Holds a shared lock on what a session made: this one, or one that holds it still and leaves its removal to the last.
   * `null`: it is the operator's own.
   */
  readonly handle: RootedFile | RootedDir | null;
}

/**
 * Mode of a placeholder. What its owner may do with it tells it from an empty one of the operator's, from its first moment
 * on: a directory that is not written to, a file that is executed.
 */
const MODE = { directory: 0o555, file: 0o700 } as const;

/** The placeholders of one session. */
export class TrustedPlaceholders {
  readonly #wanted: readonly TrustedPlaceholder[];
  readonly #held = new Map<string, Held>();
  readonly #unneeded = new Set<string>();
  readonly #record: string | null;
  #recorded = false;

  /**
   * @param record Where it is written down what is made, before it is made: with that {@linkcode removeLeftPlaceholders}
   * finds what a session that was killed could not remove.
   */
  constructor(wanted: readonly TrustedPlaceholder[], record: string | null = null) {
    this.#wanted = wanted;
    this.#record = record;
  }

  /** Names that need none: this user cannot make them, so no command can. */
  get unneeded(): ReadonlySet<string> {
    return this.#unneeded;
  }

  /** Names this session has put something at. */
  get made(): readonly string[] {
    return [...this.#held].filter(([, { handle }]) => handle !== null).map(([path]) => path);
  }

  /**
   * Puts one wherever the name is free. Called again before every command: another session that ends may have removed
   * its own.
   *
   * @throws {MurError} `E-IO-003` for one that cannot be made although a command could.
   */
  ensure(): void {
    if (this.#record !== null && !this.#recorded && this.#wanted.length > 0) {
      writeAtomically(this.#record, JSON.stringify(this.#wanted), { mode: 0o600 });
      this.#recorded = true;
    }
    for (const wanted of this.#wanted) {
      if (!this.#unneeded.has(wanted.path)) this.#ensureOne(wanted);
    }
  }

  #ensureOne({ grant, path, directory }: TrustedPlaceholder): void {
    const name = nameBelow(grant, path);
    const held = this.#held.get(path);
    if (held?.root.exists(name)) return;
    if (held !== undefined) this.#drop(path, held);
    const root = RootedDir.open(grant, { symlinks: "refuse" });
    try {
      const handle = take(root, name, directory);
      this.#held.set(path, { root, name, directory, handle });
    } catch (cause) {
      const unneeded = isRootedError(cause, "read-only") || isRootedError(cause, "access") && !ownsParent(root, name);
      root.close();
      if (unneeded) {
        this.#unneeded.add(path);
        return;
      }
      if (!(cause instanceof RootedError)) throw cause;
      throw new MurError(
        "E-IO-003",
        `${path}, a name that a later launch trusts, cannot be taken before commands run: ${cause.message}`,
        { hint: "choose another --workdir", cause },
      );
    }
  }

  /**
   * Removes what this session made and nothing else holds or has filled, and lets go of the rest. What a command that
   * outlives the session holds, or another session, stays, and with it the record.
   */
  remove(): void {
    let left = false;
    for (const [path, held] of this.#held) {
      const { root, name, directory, handle } = held;
      if (handle !== null && !removeUnheld(root, name, directory, handle)) left = true;
      this.#drop(path, held);
    }
    if (this.#record === null || !this.#recorded || left) return;
    Deno.removeSync(this.#record);
    this.#recorded = false;
  }

  #drop(path: string, { root, handle }: Held): void {
    handle?.close();
    root.close();
    this.#held.delete(path);
  }
}

/** Most times that what another session is just removing is tried again. */
const MAX_TRIES = 1_000;

/**
 * Takes a name: makes what is missing there, and holds what a session made so that no other removes it. `null`: what stands
 * there is the operator's own.
 */
function take(root: RootedDir, name: string, directory: boolean): RootedFile | RootedDir | null {
  for (let tries = 0; tries < MAX_TRIES; tries++) {
    make(root, name, directory);
    const handle = openStanding(root, name);
    if (handle === null) continue;
    const own = !isMarked(handle) && handle.tryLock("exclusive");
    const locked = own || handle.tryLock("shared");
    if (locked && !own && isStill(root, name, handle)) return handle;
    const found = own && isStill(root, name, handle);
    handle.close();
    if (found) return null;
  }
  throw new RootedError("would-block", "lock", name, "another session goes on removing it");
}

/** Opens what stands at a name; `null` when it was removed meanwhile. */
function openStanding(root: RootedDir, name: string): RootedFile | RootedDir | null {
  try {
    return root.openEntry(name, { follow: false });
  } catch (cause) {
    if (isRootedError(cause, "no-entry")) return null;
    throw cause;
  }
}

/** Whether a name still leads to what was opened by it: one that removed it meanwhile held it before. */
function isStill(root: RootedDir, name: string, handle: RootedFile | RootedDir): boolean {
  try {
    return sameFile(root.stat(name, { follow: false }), statOf(handle));
  } catch {
    return false;
  }
}

/** Removes a placeholder that neither another session nor a command holds; false when one does. */
function removeUnheld(root: RootedDir, name: string, directory: boolean, handle: RootedFile | RootedDir): boolean {
  try {
    if (!handle.tryLock("exclusive")) return false;
    // One that was filled is no directory to be removed.
    if (directory) root.rmdir(name);
    else if (root.stat(name, { follow: false }).size === 0) root.unlink(name);
  } catch {
    // Filled or removed meanwhile.
  }
  return true;
}

/**
 * Removes what a session has left of its placeholders, one that was killed or one whose commands went on: what its record
 * names, what still is one, and what neither a session nor a command holds. Whatever cannot be read or reached is left as
 * it is.
 *
 * @returns Whether any is held still: then the record is needed once more.
 */
export function removeLeftPlaceholders(record: string): boolean {
  let held = false;
  for (const { grant, path, directory } of readRecord(record)) {
    try {
      using root = RootedDir.open(grant, { symlinks: "refuse" });
      const name = nameBelow(grant, path);
      using handle = root.openEntry(name, { follow: false });
      if (handle instanceof RootedDir !== directory || !isMarked(handle)) continue;
      if (!removeUnheld(root, name, directory, handle)) held = true;
    } catch {
      // Gone, or somewhere that is not there now.
    }
  }
  return held;
}

/** The placeholders of a record; none when it cannot be read. */
function readRecord(record: string): TrustedPlaceholder[] {
  try {
    const list: unknown = JSON.parse(Deno.readTextFileSync(record));
    return Array.isArray(list) ? list.filter(isPlaceholder) : [];
  } catch {
    return [];
  }
}

function isPlaceholder(value: unknown): value is TrustedPlaceholder {
  if (!isJsonObject(value)) return false;
  const { grant, path, directory } = value;
  return typeof grant === "string" && typeof path === "string" && typeof directory === "boolean" &&
    path !== grant && isAtOrBelow(path, grant);
}

function nameBelow(grant: string, path: string): string {
  return path.slice(grant === "/" ? 1 : grant.length + 1);
}

/** Whether an entry was made by a session, and is as it was made; a process may take more of a mode away. */
function isMarked(handle: RootedFile | RootedDir): boolean {
  const { size, mode, nlink } = statOf(handle);
  return handle instanceof RootedDir ? (mode & 0o222) === 0 : size === 0 && nlink === 1 && (mode & 0o100) !== 0;
}

function statOf(handle: RootedFile | RootedDir): FileStat {
  return handle instanceof RootedDir ? handle.stat(".") : handle.stat();
}

/** Makes an entry; one that stands already is as good. */
function make(root: RootedDir, name: string, directory: boolean): void {
  try {
    if (directory) return root.mkdir(name, { mode: MODE.directory });
    root.openFile(name, { write: true, createNew: true, mode: MODE.file, follow: false }).close();
  } catch (cause) {
    if (!isRootedError(cause, "exist")) throw cause;
  }
}

/** Whether the directory of an entry is this user's own: then a command could open it to itself. */
function ownsParent(root: RootedDir, name: string): boolean {
  const slash = name.lastIndexOf("/");
  return root.stat(slash < 0 ? "." : name.slice(0, slash)).uid === Deno.uid();
}
