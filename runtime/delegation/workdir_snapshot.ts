/**
 * The workdir snapshot: a copy of the parent's work folder in the child's, made before the child exists (roost seed
 * "Workdir snapshot", spec roost 11). It is whole or not there at all.
 *
 * @module
 */
import { MurError, reasonOf } from "../../base/errors.ts";
import { type FileIdentity, RootedDir } from "../../base/rooted_dir.ts";
import { isRootedError } from "../../base/rooted_error.ts";
import { copyTree, type LeftOutReason, TreeTooLarge } from "../../base/tree_copy.ts";
import { repointedTarget } from "./snapshot_link.ts";
import type { SkippedEntry, SkipReason, SnapshotReport } from "./snapshot_report.ts";

/** What the runtime itself writes at the top of a work folder. */
const RUNTIME_OWNED: ReadonlySet<string> = new Set(["peer-in", "out"]);

/** Most entries and characters of paths a report lists: it goes into traces and over a pipe. */
const MAX_LISTED = 256;
const MAX_LISTED_CHARACTERS = 65_536;

/** One copy to be made. */
export interface SnapshotRequest {
  /** Bare name of the child, for messages. */
  readonly child: string;
  /** The parent's work folder. */
  readonly source: string;
  /** The child's work folder: there, and empty. */
  readonly target: string;
  /** Directories of the runtime: none of them is copied, wherever it lies. They need not exist. */
  readonly runtimeDirectories: readonly string[];
  /** The child's `capabilities.resources.workdir_max_bytes`. */
  readonly maxBytes: number;
  readonly signal: AbortSignal;
}

/** Copies wait for each other: two at once would take the disk from each other and this thread from the door. */
let last: Promise<unknown> = Promise.resolve();

/**
 * Makes the copy. On failure the child's folder is removed.
 *
 * @throws {MurError} `E-IO-…`, saying which child has no copy and why; the ceiling's names the key that sets it.
 */
export async function takeSnapshot(request: SnapshotRequest): Promise<SnapshotReport> {
  const turn = last.then(() => copy(request));
  last = turn.catch(() => {});
  return await turn;
}

async function copy(request: SnapshotRequest): Promise<SnapshotReport> {
  const { source, target, maxBytes, signal } = request;
  const skipped = new SkippedEntries();
  try {
    signal.throwIfAborted();
    using from = RootedDir.open(source);
    using to = RootedDir.open(target, { symlinks: "refuse" });
    const roots = [source, realPath(source)];
    const copied = await copyTree(from, to, {
      excludedNames: RUNTIME_OWNED,
      excludedDirectories: [to.identity, ...request.runtimeDirectories.flatMap(identityOf)],
      linkTarget: (link) => repointedTarget(link, roots, target),
      maxBytes,
      leftOut: (path, reason) => skipped.add(path, reason),
      signal,
    });
    return { source, ...copied, ...skipped.report() };
  } catch (cause) {
    await removeFolder(target);
    throw snapshotFailure(request, cause);
  }
}

function snapshotFailure({ child, maxBytes }: SnapshotRequest, cause: unknown): unknown {
  if (cause instanceof TreeTooLarge) {
    return new MurError(
      "E-IO-003",
      `the work folder is larger than the copy '${child}' may begin with: its manifest allows ${maxBytes} bytes ` +
        "(capabilities.resources.workdir_max_bytes)",
      { cause },
    );
  }
  if (!(cause instanceof MurError)) return cause;
  return new MurError(cause.code, `the work folder could not be copied for '${child}': ${cause.message}`, { cause });
}

/** Removes the folder of a child that never came to be. What can't be removed goes with the session's records. */
export async function removeFolder(path: string): Promise<void> {
  const slash = path.lastIndexOf("/");
  try {
    using parent = RootedDir.open(path.slice(0, slash), { symlinks: "refuse" });
    await parent.removeAllInTurns(path.slice(slash + 1));
  } catch {
    // The failure that brought this about is the one to tell.
  }
}

function identityOf(path: string): FileIdentity[] {
  try {
    using directory = RootedDir.open(path);
    return [directory.identity];
  } catch (error) {
    if (isRootedError(error, "no-entry")) return [];
    throw error;
  }
}

function realPath(path: string): string {
  try {
    return Deno.realPathSync(path);
  } catch (cause) {
    throw new MurError("E-IO-003", `${path} is not there: ${reasonOf(cause)}`, { cause });
  }
}

/** What was left out: the first of it by name, the rest by number. */
class SkippedEntries {
  readonly #listed: SkippedEntry[] = [];
  #characters = 0;
  #unlisted = 0;

  add(path: string, reason: LeftOutReason): void {
    if (this.#listed.length >= MAX_LISTED || this.#characters + path.length > MAX_LISTED_CHARACTERS) {
      this.#unlisted++;
      return;
    }
    this.#characters += path.length;
    this.#listed.push({ path, reason: WORDS[reason] });
  }

  report(): Pick<SnapshotReport, "skipped" | "skipped_unlisted"> {
    return { skipped: this.#listed, ...(this.#unlisted === 0 ? {} : { skipped_unlisted: this.#unlisted }) };
  }
}

const WORDS: Readonly<Record<LeftOutReason, SkipReason>> = {
  fifo: "fifo",
  socket: "socket",
  device: "device",
  unreadable: "unreadable",
  excluded: "runtime-owned",
};
