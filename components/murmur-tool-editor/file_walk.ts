/**
 * Files below a directory, without what version control and package managers keep.
 *
 * @module
 */
import { FileError, files } from "murmur/files";

const SKIPPED: ReadonlySet<string> = new Set([".git", ".hg", ".svn", "node_modules", ".murmur"]);
const MAX_DEPTH = 64;

/** A file and its path relative to where the walk began. */
export interface WalkedFile {
  readonly path: string;
  readonly relative: string;
}

function* walkDirectory(path: string, relative: string, depth: number): Generator<WalkedFile> {
  let entries;
  try {
    entries = files.list(path);
  } catch (error) {
    // A directory that went away or may not be read hides only itself.
    if (error instanceof FileError && depth > 0) return;
    throw error;
  }
  for (const { name, kind } of entries) {
    const child = path === "." ? name : `${path}/${name}`;
    const below = relative === "" ? name : `${relative}/${name}`;
    if (kind === "directory") {
      if (!SKIPPED.has(name) && depth < MAX_DEPTH) yield* walkDirectory(child, below, depth + 1);
    } else if (kind === "file") yield { path: child, relative: below };
  }
}

/** Every regular file below `path`, or the file itself; symbolic links are not followed. */
export function* walkFiles(path: string): Generator<WalkedFile> {
  if (files.stat(path).kind === "file") {
    yield { path, relative: path.slice(path.lastIndexOf("/") + 1) };
    return;
  }
  yield* walkDirectory(path, "", 0);
}
