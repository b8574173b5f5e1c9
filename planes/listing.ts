/**
 * The listing of an export root (seed resource-plane, `GET /resources/files`): every regular file below it, its size, time
 * and hash from one open each.
 *
 * Symbolic links to files are listed where links are followed; directories behind links are not gone into, as what lies in
 * them is listed under its own path and a link may lead back up. What cannot be opened, or has gone meanwhile, is left out:
 * no read would serve it either.
 *
 * @module
 */
import { letOthersWork } from "../base/other_work.ts";
import type { RootedDir, RootedFile } from "../base/rooted_dir.ts";
import { isRootedError } from "../base/rooted_error.ts";
import type { ExportRoot, OpenExport } from "./export_root.ts";
import { loadHashing, unixMs } from "./file_reader.ts";
import { type FileError, isRefusal, type PlaneRefusal, refusal } from "./plane_refusal.ts";

/** One file of a listing, as the plane shows it. */
export interface ListedFile {
  /** From the export root, `/` between its components. */
  readonly path: string;
  /** Bytes that were hashed. */
  readonly size_bytes: number;
  /** Unix milliseconds. */
  readonly mtime_ms: number;
  /** Lower-case hex. */
  readonly sha256: string;
}

/** What of a file is held at once while it is hashed, in bytes. */
const PIECE_BYTES = 256 << 10;

/**
 * Longest listing, in characters of its JSON text and of the paths of directories that are still to be read: about 400,000
 * files. Who fills the folder must not fill the memory of the session, too.
 */
const MAX_LENGTH = 64 << 20;

/** What an entry has besides its path, in characters: names, numbers and hash. */
const ENTRY_LENGTH = 150;

/** What a directory that waits to be read is counted for besides its path, in characters. */
const WAITING_LENGTH = 50;

/** How long files are hashed before others have their turn, in milliseconds. */
const SLICE_MS = 8;

/** Orders texts by their code points, which is the order of their bytes in UTF-8. */
export function comparePaths(a: string, b: string): number {
  const length = Math.min(a.length, b.length);
  for (let i = 0; i < length; i++) {
    const [x, y] = [a.charCodeAt(i), b.charCodeAt(i)];
    // A surrogate stands for a code point above all others.
    if (x !== y) return isSurrogate(x) === isSurrogate(y) ? x - y : isSurrogate(x) ? 1 : -1;
  }
  return a.length - b.length;
}

function isSurrogate(unit: number): boolean {
  return unit >= 0xd800 && unit <= 0xdfff;
}

/** Lets others have a turn every {@linkcode SLICE_MS} and gives up after a while. */
class Slices {
  readonly #deadline: number;
  #sliceEnd = performance.now() + SLICE_MS;

  constructor(budgetMs: number) {
    this.#deadline = performance.now() + budgetMs;
  }

  /** Whether a turn is over. */
  get over(): boolean {
    return performance.now() >= this.#sliceEnd;
  }

  /** @returns `false` when the time for the whole is over. */
  async next(): Promise<boolean> {
    await letOthersWork();
    const now = performance.now();
    this.#sliceEnd = now + SLICE_MS;
    return now < this.#deadline;
  }
}

/**
 * Lists a root; one that does not exist is empty.
 *
 * @param budgetMs Longest time it may take; `io_error` after it.
 * @param maxLength Longest listing, in characters; `io_error` above it.
 */
export async function listExported(
  root: ExportRoot,
  budgetMs: number,
  maxLength = MAX_LENGTH,
): Promise<readonly ListedFile[] | PlaneRefusal<FileError>> {
  const { createHash } = await loadHashing();
  const opened = root.open();
  if (opened === null) return [];
  if (isRefusal(opened)) return opened;
  using folder = opened.folder;
  const slices = new Slices(budgetMs);
  const late = refusal("io_error", `the listing took longer than ${Math.round(budgetMs / 1_000)} s`);
  const buffer = new Uint8Array(PIECE_BYTES);
  const files: ListedFile[] = [];
  let listed = 0;
  const tooLong = refusal(
    "io_error",
    `the listing is longer than ${maxLength} characters: the folder holds too many files or directories`,
  );
  const directories = ["."];
  /** Characters that those in `directories` are counted for. */
  let waiting = WAITING_LENGTH + 1;
  for (let directory = directories.pop(); directory !== undefined; directory = directories.pop()) {
    waiting -= WAITING_LENGTH + directory.length;
    if (slices.over && !await slices.next()) return late;
    for (const { name, kind } of entriesOf(folder.directory, directory)) {
      // An entry that is no file costs time too, and there may be a million of them.
      if (slices.over && !await slices.next()) return late;
      const path = directory === "." ? name : `${directory}/${name}`;
      if (kind === "directory") {
        directories.push(path);
        waiting += WAITING_LENGTH + path.length;
        if (listed + waiting > maxLength) return tooLong;
      }
      if (kind !== "file" && (kind !== "symlink" || root.options.symlinks === "refused")) continue;
      using file = openListed(folder, path, kind === "symlink");
      if (file === null) continue;
      listed += ENTRY_LENGTH + JSON.stringify(path).length;
      if (listed + waiting > maxLength) return tooLong;
      try {
        const { size, mtime } = file.opened;
        const hash = createHash("sha256");
        let length = 0;
        while (length < size) {
          if (length > 0 && slices.over && !await slices.next()) return late;
          const count = file.read(length, buffer.subarray(0, Math.min(PIECE_BYTES, size - length)));
          if (count === 0) break;
          hash.update(buffer.subarray(0, count));
          length += count;
        }
        files.push({ path, size_bytes: length, mtime_ms: unixMs(mtime), sha256: hash.digest("hex") });
      } catch (error) {
        if (!isRootedError(error)) throw error;
      }
    }
  }
  return files.sort((a, b) => comparePaths(a.path, b.path));
}

/** Entries of a directory, as many as can be read. */
function* entriesOf(directory: RootedDir, path: string): ReturnType<RootedDir["entries"]> {
  try {
    yield* directory.entries(path);
  } catch (error) {
    if (!isRootedError(error)) throw error;
  }
}

/** Opens a file of the listing; `null` when it is left out. */
function openListed(folder: OpenExport, path: string, isLink: boolean): RootedFile | null {
  if (isLink) {
    const found = folder.openFile(path);
    return isRefusal(found) ? null : found;
  }
  try {
    // What was a file a moment ago and is a link now is not followed.
    return folder.directory.openFile(path, { follow: false });
  } catch (error) {
    if (isRootedError(error)) return null;
    throw error;
  }
}
