/**
 * Copying a directory tree that others may be changing at that moment. Both sides are walked by descriptors, one name after
 * the other, and no symbolic link is ever followed: whatever is renamed or replaced meanwhile, nothing outside the source
 * is read and nothing outside the target is written.
 *
 * Names are bytes here, so those that are no UTF-8 are copied too. Content goes from file to file inside the kernel where it
 * can, as shared blocks where the file system has them, in bounded pieces; other work goes on meanwhile. Memory does not
 * grow with the tree.
 *
 * @module
 */
import { letOthersWork } from "./other_work.ts";
import { MurError } from "./errors.ts";
import {
  AT_SYMLINK_NOFOLLOW,
  type CString,
  ERRNO,
  type FileKind,
  type FileStat,
  type Libc,
  libc,
  O,
  type RawDirEntry,
  SEEK,
} from "./libc.ts";
import { type FileIdentity, type RootedDir, sameFile } from "./rooted_dir.ts";
import { RootedError } from "./rooted_error.ts";

/** Why an entry is not in the copy. */
export type LeftOutReason = "fifo" | "socket" | "device" | "unreadable" | "excluded";

/** What is copied, and how. */
export interface TreeCopyOptions {
  /** Names directly below the source that are left out, whatever they are. */
  readonly excludedNames: ReadonlySet<string>;
  /** Directories that are left out under whatever name they are met. */
  readonly excludedDirectories: readonly FileIdentity[];
  /** What a symbolic link of the copy holds, from what it holds in the source. */
  readonly linkTarget: (target: Uint8Array<ArrayBuffer>) => Uint8Array<ArrayBuffer>;
  /** Most bytes of content, holes included. */
  readonly maxBytes: number;
  /** Told of every entry that is left out, by its path below the source. */
  readonly leftOut: (path: string, reason: LeftOutReason) => void;
  /** Aborted: the copy stops where it is. */
  readonly signal: AbortSignal;
}

/** What was copied. */
export interface CopiedTree {
  readonly files: number;
  /** Without the root. */
  readonly directories: number;
  readonly links: number;
  /** Bytes of content, holes included. */
  readonly bytes: number;
}

/** The content is more than was allowed. */
export class TreeTooLarge extends MurError {
  constructor(readonly maxBytes: number) {
    super("E-IO-003", `the copy would hold more than ${maxBytes} bytes`);
  }
}

/**
 * Directories inside one another: each holds two descriptors, of which a process may have no more than a thousand, and
 * no project is near it.
 */
export const MAX_TREE_DEPTH = 256;

/** Milliseconds of copying before other work gets its turn. */
const SLICE_MS = 8;

/**
 * From so many bytes on a file is copied on another thread: on this one it would take longer than a slice, and going there
 * costs time of its own. And so many are copied at once.
 */
const ELSEWHERE_BYTES = 4 << 20;
const PIECE_BYTES = 16 << 20;

/** What passes through this program where the kernel does not copy by itself. */
const PASSING_BYTES = 512 << 10;

/** Bytes of a directory read at once, near the root and deep below it: what is read of every level stays in memory. */
const BLOCK_BYTES = 32_768;
const DEEP_BLOCK_BYTES = 4_096;
const DEEP = 16;

/** How often an entry that changes its kind while it is looked at is looked at again. */
const MAX_ATTEMPTS = 8;

const PERMISSIONS = 0o777;
const SELF: CString = Uint8Array.of(0x2e, 0);

/** Failures of opening that speak of this process or machine, not of the entry. */
const EXHAUSTED: ReadonlySet<number> = new Set([-ERRNO.EMFILE, -ERRNO.ENFILE, -ERRNO.ENOMEM]);

/** Answers of the kernel that it can't copy between these two files by itself. */
const NOT_BY_KERNEL: ReadonlySet<number> = new Set(
  [ERRNO.EXDEV, ERRNO.ENOSYS, ERRNO.EOPNOTSUPP, ERRNO.EINVAL, ERRNO.EPERM, ERRNO.EBADF, ERRNO.ETXTBSY]
    .map((errno) => -errno),
);

/** A directory that is being copied. */
interface Level {
  readonly source: number;
  readonly target: number;
  readonly name: Uint8Array<ArrayBuffer>;
  readonly mode: number;
  readonly mtime: bigint;
  block: readonly RawDirEntry[];
  next: number;
}

/**
 * Copies what is in one directory into another, which is empty.
 *
 * @throws {TreeTooLarge}
 * @throws {RootedError} What can't be read or written, a full disk first of all; the part that was copied stays.
 * @throws {unknown} The reason of the signal.
 */
export async function copyTree(source: RootedDir, target: RootedDir, options: TreeCopyOptions): Promise<CopiedTree> {
  return await new TreeCopy(libc(), options).copy(source, target);
}

class TreeCopy {
  readonly #c: Libc;
  readonly #options: TreeCopyOptions;
  readonly #levels: Level[] = [];
  readonly #block = new Uint8Array(BLOCK_BYTES);
  readonly #deepBlock = new Uint8Array(DEEP_BLOCK_BYTES);
  /** `false` once the file system said that it shares no blocks, or that the kernel can't copy. */
  #shares = true;
  #byKernel = true;
  #passing: Uint8Array<ArrayBuffer> | null = null;
  #slice = performance.now();
  #files = 0;
  #directories = 0;
  #links = 0;
  #bytes = 0;

  constructor(c: Libc, options: TreeCopyOptions) {
    this.#c = c;
    this.#options = options;
  }

  async copy(source: RootedDir, target: RootedDir): Promise<CopiedTree> {
    try {
      this.#enter(this.#openRoot(source), this.#openRoot(target), null, new Uint8Array());
      for (let level = this.#levels.at(-1); level !== undefined; level = this.#levels.at(-1)) {
        const entry = this.#nextEntry(level);
        if (entry === null) {
          this.#leave(level);
          continue;
        }
        const large = this.#copyEntry(level, entry);
        if (large !== null) await this.#copyLarge(large, entry.name);
        if (performance.now() - this.#slice > SLICE_MS) await this.#pause();
      }
    } finally {
      for (const level of this.#levels.splice(0)) this.#close(level);
    }
    return { files: this.#files, directories: this.#directories, links: this.#links, bytes: this.#bytes };
  }

  #openRoot(root: RootedDir): number {
    const fd = this.#c.openat(root.fd, SELF, O.RDONLY | O.DIRECTORY);
    if (fd < 0) throw RootedError.fromResult(fd, "open", root.path);
    return fd;
  }

  async #pause(): Promise<void> {
    await letOthersWork();
    this.#options.signal.throwIfAborted();
    this.#slice = performance.now();
  }

  #enter(source: number, target: number, stat: FileStat | null, name: Uint8Array<ArrayBuffer>): void {
    const { mode, mtime } = stat ?? { mode: -1, mtime: 0n };
    this.#levels.push({ source, target, name, mode, mtime, block: [], next: 0 });
  }

  /** The next entry; `null` at the end. */
  #nextEntry(level: Level): RawDirEntry | null {
    if (level.next === level.block.length) {
      const block = this.#c.getdents(level.source, this.#levels.length > DEEP ? this.#deepBlock : this.#block);
      if (typeof block === "number") throw RootedError.fromResult(block, "list", this.#path());
      level.block = block;
      level.next = 0;
    }
    return level.block[level.next++] ?? null;
  }

  /** The contents are in: now its mode, which may forbid writing, and its time, which writing changes. */
  #leave(level: Level): void {
    if (level.mode >= 0) {
      this.#check(this.#c.fchmod(level.target, level.mode & PERMISSIONS), "change the mode of");
      this.#check(this.#c.futimens(level.target, null, level.mtime), "set the times of");
    }
    this.#levels.pop();
    this.#close(level);
  }

  #close({ source, target }: Level): void {
    this.#c.close(source);
    this.#c.close(target);
  }

  /** Copies one entry, or enters it; a file whose content would hold this thread is handed back, its times still to be set. */
  #copyEntry(level: Level, entry: RawDirEntry): LargeFile | null {
    if (this.#levels.length === 1 && this.#options.excludedNames.has(decoder.decode(entry.name))) {
      return this.#leaveOut(entry, "excluded");
    }
    const name = new Uint8Array(entry.name.length + 1);
    name.set(entry.name);
    let { kind } = entry;
    // What the kernel said of it was true when the directory was read.
    for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
      switch (kind) {
        case "symlink": {
          const target = this.#c.readlinkat(level.source, name);
          if (typeof target !== "number") return this.#copyLink(level, name, target);
          if (target === -ERRNO.ENOENT) return null;
          if (target !== -ERRNO.EINVAL) return this.#leaveOut(entry, "unreadable");
          kind = "unknown";
          break;
        }
        case "file":
        case "directory": {
          const flags = O.RDONLY | O.NONBLOCK | O.NOFOLLOW | O.NOCTTY | (kind === "directory" ? O.DIRECTORY : 0);
          const fd = this.#c.openat(level.source, name, flags);
          if (fd < 0) {
            if (fd === -ERRNO.ENOENT) return null;
            if (EXHAUSTED.has(fd)) throw RootedError.fromResult(fd, "open", this.#path(entry.name));
            const other = fd === -ERRNO.ELOOP || fd === -ERRNO.ENOTDIR || fd === -ERRNO.ENXIO;
            if (!other) return this.#leaveOut(entry, "unreadable");
            kind = "unknown";
            break;
          }
          const stat = this.#c.fstat(fd);
          if (typeof stat === "number") {
            this.#c.close(fd);
            throw RootedError.fromResult(stat, "stat", this.#path(entry.name));
          }
          if (stat.kind === "directory") return this.#enterDirectory(level, entry, name, fd, stat);
          if (stat.kind === "file") return this.#copyFile(level, entry, name, fd, stat);
          this.#c.close(fd);
          kind = stat.kind;
          break;
        }
        case "unknown": {
          const stat = this.#c.statx(level.source, name, AT_SYMLINK_NOFOLLOW);
          if (stat === -ERRNO.ENOENT) return null;
          if (typeof stat === "number") return this.#leaveOut(entry, "unreadable");
          if (stat.kind === "unknown") return this.#leaveOut(entry, "unreadable");
          kind = stat.kind;
          break;
        }
        default:
          return this.#leaveOut(entry, SPECIAL[kind]);
      }
    }
    return this.#leaveOut(entry, "unreadable");
  }

  #copyLink(level: Level, name: CString, target: Uint8Array<ArrayBuffer>): null {
    const kept = this.#options.linkTarget(target);
    const text = new Uint8Array(kept.length + 1);
    text.set(kept);
    const result = this.#c.symlinkat(text, level.target, name);
    // A name that was taken away and given again while the directory was read comes twice.
    if (result === -ERRNO.EEXIST) return null;
    this.#check(result, "make the link", name.subarray(0, -1));
    this.#links++;
    return null;
  }

  #enterDirectory(level: Level, entry: RawDirEntry, name: CString, source: number, stat: FileStat): null {
    try {
      if (this.#options.excludedDirectories.some((directory) => sameFile(directory, stat))) {
        this.#c.close(source);
        return this.#leaveOut(entry, "excluded");
      }
      if (this.#levels.length > MAX_TREE_DEPTH) {
        throw new RootedError("name-too-long", "copy", this.#path(entry.name), "the tree is too deep");
      }
      const made = this.#c.mkdirat(level.target, name, 0o700);
      if (made === -ERRNO.EEXIST) {
        this.#c.close(source);
        return null;
      }
      this.#check(made, "make the directory", entry.name);
      const target = this.#c.openat(level.target, name, O.RDONLY | O.DIRECTORY | O.NOFOLLOW);
      this.#check(target, "open the copy of", entry.name);
      this.#directories++;
      this.#enter(source, target, stat, entry.name);
      return null;
    } catch (error) {
      this.#c.close(source);
      throw error;
    }
  }

  #copyFile(level: Level, entry: RawDirEntry, name: CString, source: number, stat: FileStat): LargeFile | null {
    let target = -1;
    let handedOn = false;
    try {
      if (this.#bytes + stat.size > this.#options.maxBytes) throw new TreeTooLarge(this.#options.maxBytes);
      target = this.#c.openat(level.target, name, O.WRONLY | O.CREAT | O.EXCL | O.NOFOLLOW, 0o600);
      if (target === -ERRNO.EEXIST) return null;
      this.#check(target, "make the file", entry.name);
      const file = { source, target, stat };
      if (stat.size > 0 && !this.#share(file, entry.name)) {
        const sparse = stat.blocks * 512 < stat.size;
        if (sparse || stat.size >= ELSEWHERE_BYTES || !this.#copyAtOnce(file, entry.name)) {
          handedOn = true;
          return file;
        }
      }
      this.#finish(file, entry.name);
      return null;
    } finally {
      if (!handedOn) {
        this.#c.close(source);
        if (target >= 0) this.#c.close(target);
      }
    }
  }

  /** Lets the copy share the blocks of the file, holes and all; false where that can't be. */
  #share({ source, target, stat }: LargeFile, name: Uint8Array<ArrayBuffer>): boolean {
    if (!this.#shares) return false;
    if (this.#c.cloneFile(source, target) < 0) {
      // The files of a folder that spans file systems can differ in this: at worst they are copied.
      this.#shares = false;
      return false;
    }
    const now = this.#c.fstat(target);
    if (typeof now === "number") throw RootedError.fromResult(now, "stat the copy of", this.#path(name));
    // It may have grown since it was looked at.
    if (now.size > stat.size) this.#check(this.#c.ftruncate(target, stat.size), "cut the copy of", name);
    this.#bytes += Math.min(now.size, stat.size);
    return true;
  }

  /** Copies a small file in one step; false when more is to be done, from where both files stand. */
  #copyAtOnce({ source, target, stat }: LargeFile, name: Uint8Array<ArrayBuffer>): boolean {
    if (!this.#byKernel) return false;
    const count = this.#c.copyFileRange(source, target, stat.size);
    if (count < 0) {
      this.#notByKernel(count, name);
      return false;
    }
    if (count !== stat.size) return false;
    this.#bytes += count;
    return true;
  }

  #notByKernel(result: number, name: Uint8Array<ArrayBuffer>): void {
    if (!NOT_BY_KERNEL.has(result)) throw RootedError.fromResult(result, "copy", this.#path(name));
    this.#byKernel = false;
  }

  /** Copies the content of a file piece by piece, its holes left out, and closes it. */
  async #copyLarge(file: LargeFile, name: Uint8Array<ArrayBuffer>): Promise<void> {
    const { source, target, stat } = file;
    const c = this.#c;
    try {
      // It never counts as more than it was when it was opened, however long it is written to.
      let at = this.#check(c.lseek(source, 0, SEEK.CURRENT), "copy", name);
      let known = at;
      while (at < stat.size) {
        if (at === known) {
          const data = c.lseek(source, at, SEEK.DATA);
          if (data === -ERRNO.ENXIO) break;
          // A file system without holes: all of it is content.
          const start = data < 0 ? at : Math.min(data, stat.size);
          const hole = data < 0 ? stat.size : c.lseek(source, start, SEEK.HOLE);
          known = hole < 0 ? stat.size : Math.min(hole, stat.size);
          at = start;
          this.#check(c.lseek(source, at, SEEK.SET), "copy", name);
          this.#check(c.lseek(target, at, SEEK.SET), "copy", name);
          if (at >= stat.size) break;
        }
        const count = await this.#copyPiece(file, Math.min(known - at, PIECE_BYTES), name);
        // It was cut while it was copied.
        if (count === 0) break;
        at += count;
        if (performance.now() - this.#slice > SLICE_MS) await this.#pause();
      }
      const end = c.fstat(source);
      // A hole at the end is made by the size alone; what was cut meanwhile stays cut.
      const size = typeof end === "number" ? at : Math.max(at, Math.min(end.size, stat.size));
      this.#check(c.ftruncate(target, size), "set the size of the copy of", name);
      this.#bytes += size;
      this.#finish(file, name);
    } finally {
      c.close(source);
      c.close(target);
    }
  }

  async #copyPiece({ source, target }: LargeFile, count: number, name: Uint8Array<ArrayBuffer>): Promise<number> {
    if (this.#byKernel) {
      const done = count >= ELSEWHERE_BYTES
        ? await this.#c.copyFileRangeElsewhere(source, target, count)
        : this.#c.copyFileRange(source, target, count);
      if (done > 0) return done;
      // Asked again here for what went wrong. Files that the kernel makes as they are read copy nothing.
      const again = done < 0 && count >= ELSEWHERE_BYTES
        ? this.#c.copyFileRange(source, target, Math.min(count, PASSING_BYTES))
        : done;
      if (again > 0) return again;
      if (again < 0) this.#notByKernel(again, name);
    }
    this.#passing ??= new Uint8Array(PASSING_BYTES);
    const piece = this.#passing.subarray(0, Math.min(count, PASSING_BYTES));
    const read = this.#check(this.#c.read(source, piece), "read", name);
    for (let done = 0; done < read;) {
      done += this.#check(this.#c.write(target, piece.subarray(done, read)), "write the copy of", name);
    }
    return read;
  }

  #finish({ target, stat }: LargeFile, name: Uint8Array<ArrayBuffer>): void {
    this.#check(this.#c.fchmod(target, stat.mode & PERMISSIONS), "change the mode of", name);
    this.#check(this.#c.futimens(target, null, stat.mtime), "set the times of", name);
    this.#files++;
  }

  #leaveOut(entry: RawDirEntry, reason: LeftOutReason): null {
    this.#options.leftOut(this.#path(entry.name), reason);
    return null;
  }

  #check(result: number, operation: string, name?: Uint8Array<ArrayBuffer>): number {
    if (result < 0) throw RootedError.fromResult(result, operation, this.#path(name));
    return result;
  }

  /** Path below the source, for reports. */
  #path(name?: Uint8Array<ArrayBuffer>): string {
    const names = this.#levels.slice(1).map((level) => level.name);
    return [...names, ...name === undefined ? [] : [name]].map((bytes) => decoder.decode(bytes)).join("/") || ".";
  }
}

/** A file whose content is still to be copied. */
interface LargeFile {
  readonly source: number;
  readonly target: number;
  readonly stat: FileStat;
}

const SPECIAL: Readonly<Record<Exclude<FileKind, "file" | "directory" | "symlink" | "unknown">, LeftOutReason>> = {
  "fifo": "fifo",
  "socket": "socket",
  "character-device": "device",
  "block-device": "device",
};

/** A byte order mark is part of a name like any other character. */
const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
