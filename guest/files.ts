/**
 * The files a component was given: the work folder as `.`, and where granted `state/` and `murmur-runtime/` (spec
 * components 3.4). Paths are relative; nothing else can be named. Every function answers at once, without `await`.
 *
 * @module
 */
import { type Descriptor, dispose, host, payloadOf } from "./host.ts";

const CHUNK = 262_144;
const FOLLOW = { symlinkFollow: true };
const KEEP = { symlinkFollow: false };

/** Kind of a directory entry. */
export type FileKind = "file" | "directory" | "symlink" | "other";

/** What {@linkcode files.stat} tells. */
export interface FileStat {
  readonly kind: FileKind;
  /** Bytes. */
  readonly size: number;
  readonly modified: Date | null;
}

/** One entry of {@linkcode files.list}. */
export interface FileEntry {
  readonly name: string;
  readonly kind: FileKind;
}

const REASONS: Readonly<Record<string, string>> = {
  "access": "permission denied",
  "exist": "it exists already",
  "insufficient-space": "no space left",
  "invalid": "not a valid path",
  "is-directory": "it is a directory",
  "loop": "a symbolic link leads in a circle or may not be followed",
  "name-too-long": "the name is too long",
  "no-entry": "no such file or directory",
  "not-directory": "a part of the path is no directory",
  "not-empty": "the directory is not empty",
  "not-permitted": "it lies outside the directories this component was given, or is read-only",
  "quota": "the size limit is reached",
  "read-only": "it is read-only",
};

/** A failed file operation. `code` is the `wasi:filesystem` error code, e.g. `no-entry`. */
export class FileError extends Error {
  override readonly name = "FileError";
  readonly code: string;
  readonly path: string;
  constructor(operation: string, path: string, code: string) {
    super(`cannot ${operation} ${path}: ${REASONS[code] ?? code}`);
    this.code = code;
    this.path = path;
  }
}

interface Located {
  readonly root: Descriptor;
  readonly path: string;
}

function cleaned(path: string): string {
  return path.split("/").filter((part) => part !== "" && part !== ".").join("/");
}

/**
 * Which preopen a path lies in: the one with the longest matching guest path. The rest goes to the host as it is; it
 * alone decides what `..` and symbolic links may do.
 */
export function locate(path: string, guestPaths: readonly string[]): { index: number; rest: string } | null {
  if (path.startsWith("/") || path.includes("\0")) return null;
  const wanted = cleaned(path);
  let best: { index: number; rest: string } | null = null;
  let longest = -1;
  for (const [index, guestPath] of guestPaths.entries()) {
    const prefix = cleaned(guestPath);
    const inside = prefix === "" || wanted === prefix || wanted.startsWith(`${prefix}/`);
    if (!inside || prefix.length <= longest) continue;
    longest = prefix.length;
    const rest = prefix === "" ? wanted : wanted.slice(prefix.length + 1);
    best = { index, rest: rest === "" ? "." : rest };
  }
  return best;
}

let directories: [Descriptor, string][] | null = null;

function located(operation: string, path: string): Located {
  if (typeof path !== "string" || path === "") throw new FileError(operation, String(path), "invalid");
  // No file has such a name, and the engine would end the component on it.
  if (!path.isWellFormed()) throw new FileError(operation, path, "illegal-byte-sequence");
  directories ??= host().preopens.getDirectories();
  const found = locate(path, directories.map(([, guestPath]) => guestPath));
  const root = found === null ? undefined : directories[found.index]?.[0];
  if (found === null || root === undefined) throw new FileError(operation, path, "not-permitted");
  return { root, path: found.rest };
}

function attempt<T>(operation: string, path: string, action: (at: Located) => T): T {
  const at = located(operation, path);
  try {
    return action(at);
  } catch (error) {
    const payload = payloadOf(error);
    if (typeof payload === "string") throw new FileError(operation, path, payload);
    throw error;
  }
}

function kindOf(type: string): FileKind {
  if (type === "regular-file") return "file";
  if (type === "directory") return "directory";
  return type === "symbolic-link" ? "symlink" : "other";
}

function readAll(file: Descriptor, start: number, length: number): Uint8Array {
  const chunks: Uint8Array[] = [];
  let total = 0;
  while (total < length) {
    const [chunk, end] = file.read(Math.min(CHUNK, length - total), start + total);
    if (chunk.length > 0) chunks.push(chunk);
    total += chunk.length;
    if (end || chunk.length === 0) break;
  }
  const first = chunks[0];
  if (chunks.length === 1 && first !== undefined) return first;
  const all = new Uint8Array(total);
  let offset = 0;
  for (const chunk of chunks) {
    all.set(chunk, offset);
    offset += chunk.length;
  }
  return all;
}

function bytesOf(contents: string | Uint8Array): Uint8Array {
  return typeof contents === "string" ? new TextEncoder().encode(contents) : contents;
}

function opened<T>(
  at: Located,
  open: Record<string, boolean>,
  access: Record<string, boolean>,
  use: (file: Descriptor) => T,
): T {
  const openFlags = { create: false, directory: false, exclusive: false, truncate: false, ...open };
  const descriptorFlags = {
    read: false,
    write: false,
    fileIntegritySync: false,
    dataIntegritySync: false,
    requestedWriteSync: false,
    mutateDirectory: false,
    ...access,
  };
  const file = at.root.openAt(FOLLOW, at.path, openFlags, descriptorFlags);
  try {
    return use(file);
  } finally {
    dispose(file);
  }
}

function missing(error: unknown): boolean {
  return error instanceof FileError && (error.code === "no-entry" || error.code === "not-directory");
}

/** Reading and writing files. Every function throws {@linkcode FileError}. */
export const files = {
  /** The whole file, or `length` bytes from `offset` on. */
  readBytes(path: string, range: { offset?: number; length?: number } = {}): Uint8Array {
    return attempt("read", path, (at) =>
      opened(at, {}, { read: true }, (file) => {
        if (file.stat().type === "directory") throw { payload: "is-directory" };
        return readAll(file, range.offset ?? 0, range.length ?? Number.MAX_SAFE_INTEGER);
      }));
  },

  /** The file as text. Bytes that are no UTF-8 become U+FFFD. */
  readText(path: string): string {
    return new TextDecoder().decode(files.readBytes(path));
  },

  /** Writes a file, replacing what it held. Its directory must exist. */
  write(path: string, contents: string | Uint8Array): void {
    attempt("write", path, (at) =>
      opened(at, { create: true, truncate: true }, { write: true }, (file) => {
        const bytes = bytesOf(contents);
        let offset = 0;
        while (offset < bytes.length) offset += file.write(bytes.subarray(offset, offset + CHUNK), offset);
      }));
  },

  /** Adds to the end of a file, making it when it is not there. */
  append(path: string, contents: string | Uint8Array): void {
    attempt("append to", path, (at) =>
      opened(at, { create: true }, { write: true }, (file) => {
        const bytes = bytesOf(contents);
        const stream = file.appendViaStream();
        try {
          for (let offset = 0; offset < bytes.length;) {
            const allowed = stream.checkWrite();
            if (allowed > 0) stream.write(bytes.subarray(offset, offset + allowed));
            else stream.blockingFlush();
            offset += allowed;
          }
          stream.blockingFlush();
        } finally {
          dispose(stream);
        }
      }));
  },

  /** Entries of a directory, sorted by name. */
  list(path = "."): FileEntry[] {
    return attempt("list", path, (at) =>
      opened(at, { directory: true }, { read: true }, (directory) => {
        const stream = directory.readDirectory();
        const entries: FileEntry[] = [];
        try {
          for (;;) {
            const entry = stream.readDirectoryEntry();
            if (entry === null) break;
            if (entry.name !== "." && entry.name !== "..") {
              entries.push({ name: entry.name, kind: kindOf(entry.type) });
            }
          }
        } finally {
          dispose(stream);
        }
        return entries.sort((a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0));
      }));
  },

  /** What a path leads to; symbolic links are followed. */
  stat(path: string): FileStat {
    return attempt("stat", path, (at) => {
      const stat = at.root.statAt(FOLLOW, at.path);
      const time = stat.dataModificationTimestamp;
      return {
        kind: kindOf(stat.type),
        size: stat.size,
        modified: time === null ? null : new Date(time.seconds * 1000 + Math.floor(time.nanoseconds / 1e6)),
      };
    });
  },

  /** Whether there is something at that path. */
  exists(path: string): boolean {
    try {
      files.stat(path);
      return true;
    } catch (error) {
      if (missing(error)) return false;
      throw error;
    }
  },

  /** Makes a directory; with `recursive` its parents too, and one that is there already is no error. */
  mkdir(path: string, options: { recursive?: boolean } = {}): void {
    if (options.recursive !== true) {
      attempt("make directory", path, (at) => at.root.createDirectoryAt(at.path));
      return;
    }
    const parts = cleaned(path).split("/");
    for (let i = 1; i <= parts.length; i++) {
      const partial = parts.slice(0, i).join("/");
      if (partial === "" || (files.exists(partial) && files.stat(partial).kind === "directory")) continue;
      files.mkdir(partial);
    }
  },

  /** Removes a file or an empty directory; with `recursive` a directory with all it holds. Links are not followed. */
  remove(path: string, options: { recursive?: boolean } = {}): void {
    const kind = attempt("remove", path, (at) => kindOf(at.root.statAt(KEEP, at.path).type));
    if (kind !== "directory") {
      attempt("remove", path, (at) => at.root.unlinkFileAt(at.path));
      return;
    }
    if (options.recursive === true) {
      for (const entry of files.list(path)) files.remove(`${path}/${entry.name}`, options);
    }
    attempt("remove", path, (at) => at.root.removeDirectoryAt(at.path));
  },

  /** Moves a file or directory; a file at `to` is replaced. */
  rename(from: string, to: string): void {
    const target = located("rename", to);
    attempt("rename", from, (at) => at.root.renameAt(at.path, target.root, target.path));
  },
} as const;
