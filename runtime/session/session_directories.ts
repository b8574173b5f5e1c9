/**
 * The directories of one session: scratch, runtime and records, their modes and locks (spec session 4).
 *
 * @module
 */
import { withDirectoryLock } from "../../base/directory_lock.ts";
import { ioError, MurError, reasonOf } from "../../base/errors.ts";
import { type MurmurHome, recordsGroup } from "../../base/murmur_home.ts";
import { makePrivate, prepareMurmurHome } from "../../base/private_directory.ts";
import { RootedDir, type RootedFile, sameFile } from "../../base/rooted_dir.ts";
import { isRootedError } from "../../base/rooted_error.ts";
import type { TrustedFiles } from "../../base/trusted_files.ts";

/** In the scratch directory: what the session put in place of trusted files that are not there. */
export const PLACEHOLDER_RECORD = "placeholders.json";

/** Where a session's directories lie. Absolute paths. */
export interface SessionPaths {
  readonly sessionId: string;
  readonly scratch: string;
  readonly runtime: string;
  readonly records: string;
  readonly workdir: string;
}

/** The paths of a session. */
export function sessionPaths(
  home: MurmurHome,
  session: { readonly id: string; readonly workdirRoot: string; readonly workdir: string },
): SessionPaths {
  const scratch = `${home.sessions}/${session.id}`;
  return {
    sessionId: session.id,
    scratch,
    runtime: `${scratch}/runtime`,
    records: `${recordsGroup(home, session.workdirRoot)}/${session.id}`,
    workdir: session.workdir,
  };
}

/** The open directories of a running session. Everything the runtime does below them goes through these handles. */
export interface SessionDirectories {
  readonly paths: SessionPaths;
  readonly runtime: RootedDir;
  readonly records: RootedDir;
  readonly out: RootedDir;
  /** Follows symbolic links inside it, as components see it; trusted files are never written. */
  readonly workdir: RootedDir;
  /**
   * Lets go of everything and removes the scratch directory, but for the record of placeholders that a command holds
   * still: {@linkcode removeDeadScratch} removes both once it has ended.
   */
  remove(): void;
}

/** Makes a work folder that is there for one session. @throws {MurError} `E-IO-002`, `E-IO-003`. */
export function makeWorkFolder(path: string): void {
  try {
    Deno.mkdirSync(path, { recursive: true });
  } catch (cause) {
    throw ioError(`make the work folder ${path}`, cause, "let it be made, or name another folder with --workdir");
  }
}

/**
 * Makes the directories of a session and opens them.
 *
 * @throws {MurError} `E-IO-003` when the home cannot hold them.
 */
export async function createSessionDirectories(
  home: MurmurHome,
  paths: SessionPaths,
  trusted: TrustedFiles,
): Promise<SessionDirectories> {
  prepareMurmurHome(home);
  let lock: RootedFile;
  let scratch: RootedDir;
  try {
    for (const directory of [home.sessions, home.records, home.running]) makePrivate(directory);
    // A scratch directory that is made and not locked yet looks dead to another launch.
    [scratch, lock] = await withDirectoryLock(home.sessions, async () => {
      await removeDeadScratch(home.sessions);
      return openScratch(paths.scratch);
    });
    for (const directory of ["runtime", "runtime/tools", "ctl"]) scratch.mkdir(directory, { mode: 0o700 });
    makePrivate(paths.records);
  } catch (cause) {
    throw new MurError("E-IO-003", `the session's directories cannot be made: ${reasonOf(cause)}`, {
      hint: `make ${home.root} writable, or set HOME to a directory you own`,
      cause,
    });
  }
  const records = RootedDir.open(paths.records, { symlinks: "refuse" });
  for (const directory of ["logs", "out", "tmp", "home"]) records.mkdir(directory, { mode: 0o700 });
  const runtime = scratch.openDir("runtime", { follow: false });
  const out = records.openDir("out", { follow: false });
  const workdir = RootedDir.open(paths.workdir, { trusted });
  return {
    paths,
    runtime,
    records,
    out,
    workdir,
    remove() {
      for (const directory of [runtime, out, workdir, records]) directory.close();
      const held = scratch.exists(PLACEHOLDER_RECORD);
      removeContent(scratch, held ? [".lock", PLACEHOLDER_RECORD] : [".lock"]);
      if (!held) scratch.unlink(".lock");
      lock.close();
      scratch.close();
      if (held) return;
      try {
        Deno.removeSync(paths.scratch);
      } catch (cause) {
        if (!(cause instanceof Deno.errors.NotFound)) throw ioError(`remove ${paths.scratch}`, cause);
      }
    },
  };
}

/** Makes and opens a scratch directory, its lock held. */
function openScratch(path: string): [RootedDir, RootedFile] {
  makePrivate(path);
  const scratch = RootedDir.open(path, { symlinks: "refuse" });
  const lock = scratch.openFile(".lock", { write: true, create: true, mode: 0o600, follow: false });
  lock.tryLock();
  return [scratch, lock];
}

/**
 * Removes scratch directories whose lock nobody holds: their process is gone (spec session 4.3). What such a session left
 * in place of trusted files goes with them, unless a command that outlives it holds it still: then its record stays. The
 * caller holds the lock of `sessions`.
 */
export async function removeDeadScratch(sessions: string): Promise<void> {
  let root: RootedDir;
  try {
    root = RootedDir.open(sessions, { symlinks: "refuse" });
  } catch (cause) {
    if (isRootedError(cause, "no-entry")) return;
    throw cause;
  }
  try {
    for (const entry of root.readDir()) {
      if (entry.kind !== "directory" || !/^ses_[0-9a-f]{32}$/.test(entry.name)) continue;
      try {
        using lock = root.openFile(`${entry.name}/.lock`, { write: true, follow: false });
        if (!lock.tryLock()) continue;
        using scratch = root.openDir(entry.name, { follow: false });
        if (scratch.exists(PLACEHOLDER_RECORD)) {
          const { removeLeftPlaceholders } = await import("../../sandbox/trusted_placeholders.ts");
          if (removeLeftPlaceholders(`${sessions}/${entry.name}/${PLACEHOLDER_RECORD}`)) continue;
        }
        removeContent(scratch);
        root.removeAll(entry.name);
      } catch (cause) {
        // Without a lock it is being removed, or its removal was interrupted at the very end.
        if (isRootedError(cause, "no-entry")) removeEmpty(root, entry.name);
      }
    }
  } finally {
    root.close();
  }
}

/** The lock stays for last: what an interrupted removal leaves can be told from a live session's, and is removed later. */
function removeContent(scratch: RootedDir, kept: readonly string[] = [".lock"]): void {
  for (const { name } of scratch.readDir()) if (!kept.includes(name)) scratch.removeAll(name);
}

/**
 * Whether a process holds the scratch directory of a session: from its staging to the end of its teardown, also while it has
 * no running record.
 */
export function scratchIsHeld(sessions: string, sessionId: string): boolean {
  try {
    using root = RootedDir.open(sessions, { symlinks: "refuse" });
    using lock = root.openFile(`${sessionId}/.lock`, { write: true, follow: false });
    return !lock.tryLock();
  } catch (cause) {
    if (isRootedError(cause, "no-entry")) return false;
    throw cause;
  }
}

function removeEmpty(root: RootedDir, name: string): void {
  try {
    root.rmdir(name);
  } catch {
    // Its own process is at it, or it is not empty.
  }
}

/**
 * Refuses a work folder that is not the one that was staged (spec session 4.3).
 *
 * @throws {MurError} `E-IO-003`.
 */
export function sameWorkdir(directories: SessionDirectories): void {
  const now = RootedDir.open(directories.paths.workdir);
  try {
    if (sameFile(now.identity, directories.workdir.identity)) return;
  } finally {
    now.close();
  }
  throw replacedWorkdir(directories.paths.workdir);
}

/** The error for a work folder in whose place another directory was put. */
export function replacedWorkdir(path: string): MurError {
  return new MurError("E-IO-003", `the work folder ${path} is not the directory that was staged`, {
    hint: "launch again once nothing replaces it",
  });
}
