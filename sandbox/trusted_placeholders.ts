/**
 * Empty files and directories that take the names of absent trusted files, so that no command can (spec containment 4.8,
 * rule 2). Every reader of these names takes an empty one for an absent one, so one that a crash leaves means nothing.
 *
 * @module
 */
import { MurError } from "../base/errors.ts";
import { RootedDir, type RootedFile } from "../base/rooted_dir.ts";
import { isRootedError, RootedError } from "../base/rooted_error.ts";
import type { TrustedPlaceholder } from "./trusted_guards.ts";

/** A placeholder in place, and the lock that keeps another session from removing it. */
interface Held {
  /** The writable grant that it lies in. */
  readonly root: RootedDir;
  /** Relative to the grant. */
  readonly name: string;
  readonly directory: boolean;
  /** Whether a session made it: this one, or one that holds it still and leaves its removal to the last. */
  readonly made: boolean;
  /** Holds a shared lock on a file that a session made. */
  readonly handle: RootedFile | null;
}

/** The placeholders of one session. */
export class TrustedPlaceholders {
  readonly #wanted: readonly TrustedPlaceholder[];
  readonly #held = new Map<string, Held>();
  readonly #unneeded = new Set<string>();

  constructor(wanted: readonly TrustedPlaceholder[]) {
    this.#wanted = wanted;
  }

  /** Names that need none: this user cannot make them, so no command can. */
  get unneeded(): ReadonlySet<string> {
    return this.#unneeded;
  }

  /** Names this session has put something at. */
  get made(): readonly string[] {
    return [...this.#held].filter(([, { made }]) => made).map(([path]) => path);
  }

  /**
   * Puts one wherever the name is free. Called again before every command: another session that ends may have removed
   * its own.
   *
   * @throws {MurError} `E-IO-003` for one that cannot be made although a command could.
   */
  ensure(): void {
    for (const wanted of this.#wanted) {
      if (!this.#unneeded.has(wanted.path)) this.#ensureOne(wanted);
    }
  }

  #ensureOne({ grant, path, directory }: TrustedPlaceholder): void {
    const name = path.slice(grant === "/" ? 1 : grant.length + 1);
    const held = this.#held.get(path);
    if (held?.root.exists(name)) return;
    if (held !== undefined) this.#drop(path, held);
    const root = RootedDir.open(grant, { symlinks: "refuse" });
    try {
      let made = make(root, name, directory);
      let handle = directory ? null : root.openFile(name, { follow: false });
      // One that stands and is locked is another session's; one that is not is the operator's own empty file.
      if (handle !== null && !made) made = !handle.tryLock("exclusive");
      if (made) handle?.tryLock("shared");
      else {
        handle?.close();
        handle = null;
      }
      this.#held.set(path, { root, name, directory, made, handle });
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

  /** Removes what this session made and nothing else holds or has filled, and lets go of the rest. */
  remove(): void {
    for (const [path, held] of this.#held) {
      const { root, name, directory, made, handle } = held;
      try {
        if (made && directory) root.rmdir(name);
        else if (made && handle!.tryLock("exclusive") && root.stat(name, { follow: false }).size === 0) {
          root.unlink(name);
        }
      } catch {
        // Filled or removed meanwhile.
      }
      this.#drop(path, held);
    }
  }

  #drop(path: string, { root, handle }: Held): void {
    handle?.close();
    root.close();
    this.#held.delete(path);
  }
}

/** Makes an entry; one that stands already is as good. Answers whether it was made. */
function make(root: RootedDir, name: string, directory: boolean): boolean {
  try {
    if (directory) root.mkdir(name, { mode: 0o555 });
    else root.openFile(name, { write: true, createNew: true, mode: 0o600, follow: false }).close();
    return true;
  } catch (cause) {
    if (isRootedError(cause, "exist")) return false;
    throw cause;
  }
}

/** Whether the directory of an entry is this user's own: then a command could open it to itself. */
function ownsParent(root: RootedDir, name: string): boolean {
  const slash = name.lastIndexOf("/");
  return root.stat(slash < 0 ? "." : name.slice(0, slash)).uid === Deno.uid();
}
