/**
 * A directory held by a descriptor, and every access to files below it: nothing leaves it, whatever symbolic links,
 * `..` or renames under way say. All input and output goes through the descriptor that was opened; no path is checked
 * first and opened later (spec session 4.3, containment 4.8).
 *
 * Two policies for symbolic links: `inside`, for components, follows them as long as they stay below the root; `refuse`,
 * for the runtime's own files, refuses any (`E-IO-003`).
 *
 * All calls are synchronous; a small file takes a few microseconds to open, read and close.
 *
 * ```ts
 * using root = RootedDir.open("/home/me/work");
 * using file = root.openFile("notes/today.md", { read: true });
 * const text = new TextDecoder().decode(file.readAll(1 << 20));
 * ```
 *
 * @module
 */
import { letOthersWork } from "./other_work.ts";
import { type BeneathResolver, beneathResolver, type SymlinkPolicy } from "./beneath.ts";
import {
  AT_FDCWD,
  AT_REMOVEDIR,
  AT_SYMLINK_NOFOLLOW,
  type CString,
  cString,
  ERRNO,
  type FileKind,
  type FileStat,
  type Libc,
  libc,
  LOCK,
  O,
  RENAME_NOREPLACE,
  SEEK,
} from "./libc.ts";
import { RootedError } from "./rooted_error.ts";
import { type TrustedFiles, TrustGuard } from "./trusted_files.ts";

/** What names a file whatever its path. */
export interface FileIdentity {
  readonly dev: bigint;
  readonly ino: bigint;
}

/** Whether two identities name one file. */
export function sameFile(a: FileIdentity, b: FileIdentity): boolean {
  return a.dev === b.dev && a.ino === b.ino;
}

/** One entry of a directory. */
export interface RootedEntry {
  readonly name: string;
  readonly kind: FileKind;
  readonly ino: bigint;
}

/** How a root is opened. */
export interface RootOptions {
  /** Default `inside`. */
  readonly symlinks?: SymlinkPolicy;
  /** Files below it that nothing may change through this root. */
  readonly trusted?: TrustedFiles;
  /** How paths are opened; by default the kernel's way where it is there. */
  readonly resolver?: BeneathResolver;
}

/** How a file is opened. Without `write` and `append` it is read. */
export interface OpenFileOptions {
  readonly read?: boolean;
  readonly write?: boolean;
  /** Every write goes to the end. */
  readonly append?: boolean;
  /** Make it when it is not there. */
  readonly create?: boolean;
  /** Make it, and fail with `exist` when something is there. */
  readonly createNew?: boolean;
  /** Empty it. Needs `write`. */
  readonly truncate?: boolean;
  /** Follow a symbolic link in the last place. Default true; the root's policy holds as well. */
  readonly follow?: boolean;
  /** Mode of a new file, before the umask. Default `0o666`. */
  readonly mode?: number;
}

/** Times in nanoseconds since the epoch; an absent one stays. */
export interface FileTimes {
  readonly atime?: bigint;
  readonly mtime?: bigint;
}

/** A directory handle and one name in it: where an operation on an entry happens. */
interface Place {
  readonly dir: number;
  /** Whether {@linkcode dir} must be closed after use. */
  readonly owned: boolean;
  readonly name: string;
  readonly bytes: CString;
  /** The name was followed by a slash: only a directory is meant. */
  readonly slash: boolean;
}

/** As in the kernel. */
const MAX_LINKS = 40;

/** Bytes taken by one read of a whole file. */
const READ_STEP = 65_536;

/** How deep a tree may be to be made at once, or removed where files are trusted. */
const MAX_DEPTH = 1_024;

/** How deep a removal goes down before it moves what lies deeper up: a descriptor is open for each level. */
const MAX_DESCENT = 128;

/** A tree that is being removed. */
interface Removal {
  /** Where entries are read, a block at a time. */
  readonly buffer: Uint8Array<ArrayBuffer>;
  /** The tree itself, opened; -1 before. */
  top: number;
  /** Directories that were moved up into it so far. */
  moved: number;
}

/** A directory cannot be moved there: there is a file, or a directory that is not empty. */
const NAME_IS_TAKEN: ReadonlySet<number> = new Set([ERRNO.ENOTDIR, ERRNO.EEXIST, ERRNO.ENOTEMPTY]);

/** Milliseconds of removing before other work gets its turn. */
const SLICE_MS = 8;

function encode(path: string, operation: string): CString {
  const bytes = cString(path);
  if (bytes === null) throw new RootedError("illegal-byte-sequence", operation, JSON.stringify(path));
  return bytes;
}

/** A regular file, open. */
export class RootedFile implements Disposable {
  readonly #c: Libc;
  #fd: number;
  /** As the caller named it, for messages. */
  readonly path: string;
  /** What its descriptor said when it was opened. */
  readonly opened: FileStat;

  /** Takes over an open descriptor. Callers use `RootedDir.openFile`. */
  constructor(c: Libc, fd: number, path: string, opened: FileStat) {
    this.#c = c;
    this.#fd = fd;
    this.path = path;
    this.opened = opened;
  }

  #check(result: number, operation: string): number {
    if (result < 0) throw RootedError.fromResult(result, operation, this.path);
    return result;
  }

  /** The descriptor, for calls that have no method here. It stays this object's. */
  get fd(): number {
    return this.#fd;
  }

  /** Reads at `offset`; the number of bytes, 0 at the end. */
  read(offset: number, buffer: Uint8Array<ArrayBuffer>): number {
    if (buffer.length === 0) return 0;
    for (;;) {
      const result = this.#c.pread(this.#fd, buffer, offset);
      if (result !== -ERRNO.EINTR) return this.#check(result, "read");
    }
  }

  /** As {@linkcode read} in another thread, for pieces that would hold this one up. The file stays open until it settles. */
  async readElsewhere(offset: number, buffer: Uint8Array<ArrayBuffer>): Promise<number> {
    const count = await this.#c.preadElsewhere(this.#fd, buffer, offset);
    if (count >= 0) return count;
    // Tells why, or succeeds after a signal.
    return this.read(offset, buffer);
  }

  /**
   * The whole file.
   *
   * @throws {RootedError} `file-too-large` when it holds more than `maxBytes`.
   */
  readAll(maxBytes: number): Uint8Array<ArrayBuffer> {
    const { size } = this.stat();
    if (size > maxBytes) throw new RootedError("file-too-large", "read", this.path, `it has ${size} bytes`);
    let bytes = new Uint8Array(size === 0 ? READ_STEP : size);
    const beyond = new Uint8Array(1);
    let length = 0;
    for (;;) {
      if (length === bytes.length) {
        // One byte beyond the size tells the end from a file that grew, without a copy of one that did not.
        if (this.read(length, beyond) === 0) return bytes;
        const more = new Uint8Array(bytes.length + READ_STEP);
        more.set(bytes);
        bytes = more;
      }
      const count = this.read(length, bytes.subarray(length));
      if (count === 0) return bytes.slice(0, length);
      length += count;
      if (length > maxBytes) throw new RootedError("file-too-large", "read", this.path, "it grew while it was read");
    }
  }

  /** Writes all of `bytes` at `offset`; at the end when the file was opened with `append`. */
  write(offset: number, bytes: Uint8Array<ArrayBuffer>): void {
    for (let done = 0; done < bytes.length;) {
      const result = this.#c.pwrite(this.#fd, bytes.subarray(done), offset + done);
      if (result !== -ERRNO.EINTR) done += this.#check(result, "write");
    }
  }

  /** Writes all of `bytes` where the file stands: at its end when it was opened with `append`. */
  append(bytes: Uint8Array<ArrayBuffer>): void {
    for (let done = 0; done < bytes.length;) {
      const result = this.#c.write(this.#fd, bytes.subarray(done));
      if (result !== -ERRNO.EINTR) done += this.#check(result, "write");
    }
  }

  stat(): FileStat {
    const stat = this.#c.fstat(this.#fd);
    if (typeof stat === "number") throw RootedError.fromResult(stat, "stat", this.path);
    return stat;
  }

  /** Cuts or grows it to `size` bytes. */
  truncate(size: number): void {
    this.#check(this.#c.ftruncate(this.#fd, size), "truncate");
  }

  chmod(mode: number): void {
    this.#check(this.#c.fchmod(this.#fd, mode), "change the mode of");
  }

  setTimes(times: FileTimes): void {
    this.#check(this.#c.futimens(this.#fd, times.atime ?? null, times.mtime ?? null), "set the times of");
  }

  /** Waits until its content is on the disk; with `dataOnly` not for its times. */
  sync(options: { readonly dataOnly?: boolean } = {}): void {
    this.#check(options.dataOnly ? this.#c.fdatasync(this.#fd) : this.#c.fsync(this.#fd), "sync");
  }

  /** Takes the advisory lock without waiting; false when another process holds it. Freed when the file is closed. */
  tryLock(mode: "exclusive" | "shared" = "exclusive"): boolean {
    return tryLock(this.#c, this.#fd, mode, this.path);
  }

  /** Closes it. A second call does nothing; any other call then fails with `bad-descriptor`. */
  close(): void {
    if (this.#fd >= 0) this.#c.close(this.#fd);
    this.#fd = -1;
  }

  [Symbol.dispose](): void {
    this.close();
  }
}

function tryLock(c: Libc, fd: number, mode: "exclusive" | "shared", path: string): boolean {
  const result = c.flock(fd, (mode === "exclusive" ? LOCK.EX : LOCK.SH) | LOCK.NB);
  if (result === -ERRNO.EAGAIN) return false;
  if (result < 0) throw RootedError.fromResult(result, "lock", path);
  return true;
}

/** A directory, held. */
export class RootedDir implements Disposable {
  readonly #c: Libc;
  readonly #resolver: BeneathResolver;
  readonly #symlinks: SymlinkPolicy;
  readonly #guard: TrustGuard | null;
  /** Whether closing this directory ends the guard: true of the one that made it. */
  readonly #ownsGuard: boolean;
  #fd: number;
  /** Where it was when it was opened. For messages and reports, never used to open anything. */
  readonly path: string;
  readonly identity: FileIdentity;

  private constructor(
    c: Libc,
    fd: number,
    path: string,
    resolver: BeneathResolver,
    symlinks: SymlinkPolicy,
    guard: TrustGuard | null,
    ownsGuard: boolean,
  ) {
    this.#c = c;
    this.#fd = fd;
    this.path = path;
    this.#resolver = resolver;
    this.#symlinks = symlinks;
    this.#guard = guard;
    this.#ownsGuard = ownsGuard;
    const stat = c.fstat(fd);
    if (typeof stat === "number") throw RootedError.fromResult(stat, "open", path);
    this.identity = { dev: stat.dev, ino: stat.ino };
  }

  /**
   * Opens a directory as a root. Symbolic links in `path` itself are followed: it is the operator's.
   *
   * @throws {RootedError} `no-entry`, `not-directory`, `access`, …
   * @throws {MurError} `E-IO-003` on an operating system that is not served.
   */
  static open(path: string, options: RootOptions = {}): RootedDir {
    const c = libc();
    const fd = c.openat(AT_FDCWD, encode(path, "open"), O.PATH | O.DIRECTORY);
    if (fd < 0) throw RootedError.fromResult(fd, "open", path);
    try {
      const guard = options.trusted === undefined ? null : TrustGuard.of(c, fd, options.trusted);
      const resolver = options.resolver ?? (defaultResolver ??= beneathResolver(c));
      return new RootedDir(c, fd, path, resolver, options.symlinks ?? "inside", guard, true);
    } catch (error) {
      c.close(fd);
      throw error;
    }
  }

  /** The held descriptor, for calls that have no method here. It stays this object's. */
  get fd(): number {
    return this.#fd;
  }

  /**
   * Opens a regular file. It never waits: a fifo, a socket or a device is refused with `not-permitted`.
   *
   * @throws {RootedError} `not-permitted` also when the path leaves the root or a trusted file would be written.
   */
  openFile(path: string, options: OpenFileOptions = {}): RootedFile {
    const opened = this.#openAny(path, options);
    if (opened.stat.kind !== "directory") return new RootedFile(this.#c, opened.fd, path, opened.stat);
    this.#c.close(opened.fd);
    throw new RootedError("is-directory", "open", path);
  }

  /**
   * Takes the advisory lock of this directory without waiting; false when another process holds it. Only of one that
   * {@linkcode openEntry} gave, which was opened for reading.
   */
  tryLock(mode: "exclusive" | "shared" = "exclusive"): boolean {
    return tryLock(this.#c, this.#fd, mode, this.path);
  }

  /** Opens whatever regular file or directory the path names, as WASI's `open-at` does without its `directory` flag. */
  openEntry(path: string, options: OpenFileOptions = {}): RootedFile | RootedDir {
    const opened = this.#openAny(path, options);
    return opened.stat.kind === "directory"
      ? this.#child(opened.fd, path)
      : new RootedFile(this.#c, opened.fd, path, opened.stat);
  }

  #openAny(path: string, options: OpenFileOptions): { readonly fd: number; readonly stat: FileStat } {
    const c = this.#c;
    const { createNew = false, append = false, truncate = false } = options;
    const create = options.create === true || createNew;
    const write = options.write === true || append;
    const read = options.read ?? !write;
    const follow = (options.follow ?? true) && !createNew;
    if (truncate && !write) throw new RootedError("invalid", "open", path, "it can be emptied only when it is written");
    let flags = write ? (read ? O.RDWR : O.WRONLY) : O.RDONLY;
    // No waiting for the other end of a fifo, no terminal taken over. The file is emptied after it was judged.
    flags |= O.NONBLOCK | O.NOCTTY;
    if (append) flags |= O.APPEND;
    if (create) flags |= O.CREAT;
    if (createNew) flags |= O.EXCL;
    if (!follow) flags |= O.NOFOLLOW;
    const mode = create ? options.mode ?? 0o666 : 0;

    const changes = write || create;
    const fd = this.#guard !== null && (changes || this.#guard.hides)
      ? this.#openGuarded(this.#guard, path, flags, mode, follow, changes)
      : this.#resolve(path, flags, mode, "open");
    let stat: FileStat | number = -ERRNO.EBADF;
    try {
      stat = c.fstat(fd);
      if (typeof stat === "number") throw RootedError.fromResult(stat, "open", path);
      if (stat.kind !== "file" && stat.kind !== "directory") {
        throw new RootedError("not-permitted", "open", path, "it is no regular file");
      }
      if (changes && this.#guard?.protectsFile(stat)) throw trusted("open", path);
      if (stat.kind === "directory") this.#refuseHidden(fd, path);
      if (truncate && stat.size > 0) {
        const result = c.ftruncate(fd, 0);
        if (result < 0) throw RootedError.fromResult(result, "truncate", path);
      }
      return { fd, stat };
    } catch (error) {
      c.close(fd);
      throw error;
    }
  }

  /** Refuses a directory of which nothing may be read. */
  #refuseHidden(dir: number, path: string): void {
    if (this.#guard !== null && this.#guard.hides && this.#guard.hidesDirectory(dir)) throw hidden("open", path);
  }

  /** Opens with the name judged in the very directory the file is opened in. */
  #openGuarded(
    guard: TrustGuard,
    path: string,
    flags: number,
    mode: number,
    follow: boolean,
    changes: boolean,
  ): number {
    // A link that comes into the last place between the two steps starts the search anew.
    for (let attempt = 0; attempt < MAX_LINKS; attempt++) {
      const place = this.#locate(path, follow, "open");
      try {
        this.#refuseHidden(place.dir, path);
        if (isDots(place.name)) {
          const fd = this.#c.openat(place.dir, place.bytes, flags & ~(O.CREAT | O.EXCL), 0);
          if (fd < 0) throw RootedError.fromResult(fd, "open", path);
          return fd;
        }
        if (changes && guard.protectsName(place.dir, place.name)) throw trusted("open", path);
        const bytes = place.slash ? encode(`${place.name}/`, "open") : place.bytes;
        const fd = this.#resolver.open(place.dir, bytes, flags | O.NOFOLLOW, mode, "refuse");
        if (fd >= 0) return fd;
        if (fd !== -ERRNO.ELOOP || !follow) throw failedOpen(fd, path);
      } finally {
        this.#leave(place);
      }
    }
    throw new RootedError("loop", "open", path);
  }

  /**
   * Opens a directory below as a root of its own; its paths can't leave it either.
   *
   * @param options.create Makes it, and every missing directory above it, with `mode` (default `0o777`, before the umask).
   */
  openDir(
    path: string,
    options: { readonly create?: boolean; readonly mode?: number; readonly follow?: boolean } = {},
  ): RootedDir {
    if (options.create) this.#makeAll(path, options.mode ?? 0o777);
    const flags = O.PATH | O.DIRECTORY | (options.follow === false ? O.NOFOLLOW : 0);
    const fd = this.#resolve(path, flags, 0, "open");
    try {
      this.#refuseHidden(fd, path);
    } catch (error) {
      this.#c.close(fd);
      throw error;
    }
    return this.#child(fd, path);
  }

  #makeAll(path: string, mode: number): void {
    const pieces = path.split("/").filter((piece) => piece !== "" && piece !== ".");
    if (path.startsWith("/")) throw outside("open", path);
    if (pieces.length > MAX_DEPTH) throw new RootedError("name-too-long", "make", path);
    for (let count = 1; count <= pieces.length; count++) {
      const prefix = pieces.slice(0, count).join("/");
      try {
        this.mkdir(prefix, { mode });
      } catch (error) {
        if (!(error instanceof RootedError) || error.kind !== "exist") throw error;
      }
    }
  }

  #child(fd: number, path: string): RootedDir {
    const relative = path.replace(/^(\.\/+)+|\/+$/g, "");
    const full = relative === "" || relative === "." ? this.path : `${this.path.replace(/\/+$/, "")}/${relative}`;
    try {
      return new RootedDir(this.#c, fd, full, this.#resolver, this.#symlinks, this.#guard, false);
    } catch (error) {
      this.#c.close(fd);
      throw error;
    }
  }

  /** Makes one directory. Mode before the umask, default `0o777`. */
  mkdir(path: string, options: { readonly mode?: number } = {}): void {
    const operation = "make directory";
    this.#at(path, operation, (place) => {
      if (isDots(place.name)) throw new RootedError("exist", operation, path);
      if (this.#guard?.protectsName(place.dir, place.name)) {
        // A directory on the way to a trusted file is there, which is what the caller wants to hear.
        if (typeof this.#c.statx(place.dir, place.bytes, AT_SYMLINK_NOFOLLOW) !== "number") {
          throw new RootedError("exist", operation, path);
        }
        throw trusted(operation, path);
      }
      return this.#c.mkdirat(place.dir, place.bytes, options.mode ?? 0o777);
    });
  }

  /** Removes a file or a symbolic link itself. */
  unlink(path: string): void {
    const operation = "remove";
    this.#at(path, operation, (place) => {
      if (isDots(place.name)) throw new RootedError("is-directory", operation, path);
      const stat = this.#c.statx(place.dir, place.bytes, AT_SYMLINK_NOFOLLOW);
      this.#judge(place, stat, operation, path);
      if (typeof stat === "number") return stat;
      if (stat.kind === "directory") return -ERRNO.EISDIR;
      if (place.slash) return -ERRNO.ENOTDIR;
      return this.#c.unlinkat(place.dir, place.bytes, 0);
    });
  }

  /** Removes an empty directory. */
  rmdir(path: string): void {
    const operation = "remove";
    this.#at(path, operation, (place) => {
      if (isDots(place.name)) throw new RootedError("invalid", operation, path, "it can't be removed by this name");
      this.#judge(place, this.#c.statx(place.dir, place.bytes, AT_SYMLINK_NOFOLLOW), operation, path);
      return this.#c.unlinkat(place.dir, place.bytes, AT_REMOVEDIR);
    });
  }

  /**
   * Removes a file, a link itself, or a directory with all that is in it, directories that their owner closed included,
   * however deep they lie. Nothing there is no error.
   */
  removeAll(path: string): void {
    const removal = this.#removal(path);
    while (removal.next().done !== true);
  }

  /** The same for a tree that may be large: other work goes on meanwhile. */
  async removeAllInTurns(path: string): Promise<void> {
    const removal = this.#removal(path);
    let begun = performance.now();
    while (removal.next().done !== true) {
      if (performance.now() - begun < SLICE_MS) continue;
      await letOthersWork();
      begun = performance.now();
    }
  }

  /** Removes a tree, in a step for each entry. */
  *#removal(path: string): Generator<void, void> {
    const operation = "remove";
    let place: Place;
    try {
      place = this.#place(path, operation);
    } catch (error) {
      if (error instanceof RootedError && error.kind === "no-entry" && path !== "") return;
      throw error;
    }
    try {
      if (isDots(place.name)) throw new RootedError("invalid", operation, path, "it can't be removed by this name");
      yield* this.#removeTree(place, path, 0, { buffer: new Uint8Array(32_768), top: -1, moved: 0 });
    } finally {
      this.#leave(place);
    }
  }

  *#removeTree(place: Place, path: string, depth: number, removal: Removal): Generator<void, void> {
    const c = this.#c;
    const operation = "remove";
    const done = (result: number) => {
      if (result < 0 && result !== -ERRNO.ENOENT) throw RootedError.fromResult(result, operation, path);
    };
    if (depth > MAX_DEPTH) throw new RootedError("name-too-long", operation, path, "the tree is too deep");
    const stat = c.statx(place.dir, place.bytes, AT_SYMLINK_NOFOLLOW);
    if (typeof stat === "number") return done(stat);
    this.#judge(place, stat, operation, path);
    if (stat.kind !== "directory") return done(c.unlinkat(place.dir, place.bytes, 0));
    const OPENED = 0o700;
    // Its owner closed it, by its mode: nothing in it could be removed.
    if ((stat.mode & OPENED) !== OPENED) this.#openUp(place, OPENED);
    // Below another directory it would be judged as another file.
    if (depth === MAX_DESCENT && this.#guard === null) return done(this.#moveUp(place, removal));
    const fd = c.openat(place.dir, place.bytes, O.RDONLY | O.DIRECTORY | O.NOFOLLOW);
    if (fd < 0) return done(fd);
    if (depth === 0) removal.top = fd;
    let moved = 0;
    try {
      // Names are bytes here: one that is not UTF-8 must go as well. A block at a time, since removing moves the rest.
      for (;;) {
        const block = c.getdents(fd, removal.buffer);
        if (typeof block === "number") throw RootedError.fromResult(block, operation, path);
        if (block.length === 0) {
          if (depth > 0 || moved === removal.moved) break;
          // What was moved up meanwhile may stand behind or before this.
          moved = removal.moved;
          c.lseek(fd, 0, SEEK.SET);
          continue;
        }
        for (const entry of block) {
          const bytes = new Uint8Array(entry.name.length + 1);
          bytes.set(entry.name);
          const name = new TextDecoder().decode(entry.name);
          yield* this.#removeTree(
            { dir: fd, owned: false, name, bytes, slash: false },
            `${path}/${name}`,
            depth + 1,
            removal,
          );
          yield;
        }
      }
    } finally {
      c.close(fd);
    }
    done(c.unlinkat(place.dir, place.bytes, AT_REMOVEDIR));
  }

  /** Moves a directory into the tree it lies deep in. */
  #moveUp(place: Place, removal: Removal): number {
    for (;;) {
      const name = cString(`moved-${++removal.moved}`)!;
      const result = this.#c.renameat2(place.dir, place.bytes, removal.top, name, 0);
      // An empty directory of that name is replaced: it would have gone too.
      if (!NAME_IS_TAKEN.has(-result)) return result;
    }
  }

  /** Changes the mode of a directory that is about to be removed. One of another owner stays, and then tells so itself. */
  #openUp(place: Place, mode: number): void {
    const fd = this.#c.openat(place.dir, place.bytes, O.PATH | O.DIRECTORY | O.NOFOLLOW);
    if (fd < 0) return;
    this.#c.chmodPath(fd, mode);
    this.#c.close(fd);
  }

  /**
   * Moves an entry, replacing what is at the target.
   *
   * @param options.noReplace Fails with `exist` when something is at the target.
   */
  rename(from: string, toDir: RootedDir, to: string, options: { readonly noReplace?: boolean } = {}): void {
    const operation = "rename";
    this.#at(from, operation, (source) => {
      toDir.#at(to, operation, (target) => {
        if (isDots(source.name) || isDots(target.name)) {
          throw new RootedError("busy", operation, isDots(source.name) ? from : to);
        }
        const stat = this.#c.statx(source.dir, source.bytes, AT_SYMLINK_NOFOLLOW);
        this.#judge(source, stat, operation, from);
        toDir.#judge(target, this.#c.statx(target.dir, target.bytes, AT_SYMLINK_NOFOLLOW), operation, to);
        if (typeof stat === "number") return stat;
        if ((source.slash || target.slash) && stat.kind !== "directory") return -ERRNO.ENOTDIR;
        const flags = options.noReplace ? RENAME_NOREPLACE : 0;
        return this.#c.renameat2(source.dir, source.bytes, target.dir, target.bytes, flags);
      });
      return 0;
    });
  }

  /** Gives a file a second name. A symbolic link at `from` is not followed. */
  link(from: string, toDir: RootedDir, to: string): void {
    const operation = "link";
    this.#at(from, operation, (source) => {
      toDir.#at(to, operation, (target) => {
        if (isDots(source.name)) throw new RootedError("not-permitted", operation, from);
        if (isDots(target.name)) throw new RootedError("exist", operation, to);
        const stat = this.#c.statx(source.dir, source.bytes, AT_SYMLINK_NOFOLLOW);
        this.#judge(source, stat, operation, from);
        toDir.#judge(target, this.#c.statx(target.dir, target.bytes, AT_SYMLINK_NOFOLLOW), operation, to);
        if (typeof stat !== "number" && source.slash && stat.kind !== "directory") return -ERRNO.ENOTDIR;
        if (target.slash) return -ERRNO.ENOENT;
        return this.#c.linkat(source.dir, source.bytes, target.dir, target.bytes, 0);
      });
      return 0;
    });
  }

  /** Makes a symbolic link. An absolute target is refused with `not-permitted`. */
  symlink(target: string, path: string): void {
    const operation = "link";
    const bytes = encode(target, operation);
    if (target.startsWith("/")) throw outside(operation, target);
    this.#at(path, operation, (place) => {
      if (isDots(place.name)) throw new RootedError("exist", operation, path);
      if (this.#guard?.protectsName(place.dir, place.name)) throw trusted(operation, path);
      if (place.slash) return -ERRNO.ENOENT;
      return this.#c.symlinkat(bytes, place.dir, place.bytes);
    });
  }

  /** Text of a symbolic link. */
  readlink(path: string): string {
    const operation = "read link";
    let text = "";
    this.#at(path, operation, (place) => {
      if (isDots(place.name) || place.slash) return -ERRNO.EINVAL;
      const target = this.#c.readlinkat(place.dir, place.bytes);
      if (typeof target === "number") return target;
      text = decode(target, operation, path);
      return 0;
    });
    return text;
  }

  /** Facts about an entry. With `follow: false` about a symbolic link itself. Default true. */
  stat(path: string, options: { readonly follow?: boolean } = {}): FileStat {
    const fd = this.#resolve(path, O.PATH | (options.follow === false ? O.NOFOLLOW : 0), 0, "stat");
    const stat = this.#c.fstat(fd);
    this.#c.close(fd);
    if (typeof stat === "number") throw RootedError.fromResult(stat, "stat", path);
    return stat;
  }

  /** Whether anything, a dangling link included, has this name. */
  exists(path: string): boolean {
    try {
      this.stat(path, { follow: false });
      return true;
    } catch (error) {
      if (error instanceof RootedError && error.kind === "no-entry") return false;
      throw error;
    }
  }

  /** Entries in the order of the file system. A name that is not UTF-8 is left out, as no path could name it. */
  readDir(path = "."): RootedEntry[] {
    return [...this.entries(path)];
  }

  /** The same one by one, for directories that may have any number: it is open until the last was taken, or the loop left. */
  *entries(path = "."): Generator<RootedEntry, void, undefined> {
    const fd = this.#resolve(path, O.RDONLY | O.DIRECTORY | O.NONBLOCK, 0, "list");
    const buffer = new Uint8Array(32_768);
    try {
      this.#refuseHidden(fd, path);
      for (;;) {
        const block = this.#c.getdents(fd, buffer);
        if (typeof block === "number") throw RootedError.fromResult(block, "list", path);
        if (block.length === 0) return;
        for (const { name: raw, ino, kind: told } of block) {
          let name: string;
          try {
            name = strict.decode(raw);
          } catch {
            continue;
          }
          let kind = told;
          if (kind === "unknown") {
            const stat = this.#c.statx(fd, encode(name, "list"), AT_SYMLINK_NOFOLLOW);
            if (typeof stat !== "number") kind = stat.kind;
          }
          yield { name, kind, ino };
        }
      }
    } finally {
      this.#c.close(fd);
    }
  }

  /** Sets times of an entry. Default `follow: true`. */
  setTimes(path: string, times: FileTimes, options: { readonly follow?: boolean } = {}): void {
    const operation = "set the times of";
    const place = this.#locate(path, options.follow ?? true, operation);
    try {
      const stat = this.#c.statx(place.dir, place.bytes, AT_SYMLINK_NOFOLLOW);
      if (isDots(place.name)) {
        if (this.#guard?.protectsName(place.dir, place.name)) throw trusted(operation, path);
      } else {
        this.#judge(place, stat, operation, path);
      }
      if (typeof stat === "number") throw RootedError.fromResult(stat, operation, path);
      if (place.slash && stat.kind !== "directory") throw new RootedError("not-directory", operation, path);
      const { atime = null, mtime = null } = times;
      const result = this.#c.utimensat(place.dir, place.bytes, atime, mtime, AT_SYMLINK_NOFOLLOW);
      if (result < 0) throw RootedError.fromResult(result, operation, path);
    } finally {
      this.#leave(place);
    }
  }

  /** Waits until the names in this directory are on the disk. */
  sync(): void {
    const fd = this.#resolve(".", O.RDONLY | O.DIRECTORY, 0, "sync");
    const result = this.#c.fsync(fd);
    this.#c.close(fd);
    if (result < 0) throw RootedError.fromResult(result, "sync", this.path);
  }

  /** Lets go of the directory. Directories opened from it stay open, but those of a guarded root refuse every change. */
  close(): void {
    if (this.#fd < 0) return;
    if (this.#ownsGuard) this.#guard?.close();
    this.#c.close(this.#fd);
    this.#fd = -1;
  }

  [Symbol.dispose](): void {
    this.close();
  }

  #resolve(path: string, flags: number, mode: number, operation: string): number {
    const bytes = encode(path, operation);
    const fd = this.#resolver.open(this.#held(operation, path), bytes, flags, mode, this.#symlinks);
    if (fd < 0) throw failedOpen(fd, path, operation);
    return fd;
  }

  #held(operation: string, path: string): number {
    // A negative descriptor may mean something to the kernel.
    if (this.#fd < 0) throw new RootedError("bad-descriptor", operation, path);
    return this.#fd;
  }

  /** The directory an entry lies in, opened, and its name there. The last piece is not followed. */
  #place(path: string, operation: string): Place {
    encode(path, operation);
    if (path === "") throw new RootedError("no-entry", operation, path);
    if (path.startsWith("/")) throw outside(operation, path);
    const trimmed = path.replace(/\/+$/, "");
    const slash = trimmed.length < path.length;
    const at = trimmed.lastIndexOf("/");
    const name = trimmed.slice(at + 1);
    const root = this.#held(operation, path);
    if (isDots(name)) {
      const dir = this.#resolve(trimmed, O.PATH | O.DIRECTORY, 0, operation);
      return { dir, owned: true, name: ".", bytes: encode(".", operation), slash };
    }
    const bytes = encode(name, operation);
    if (at < 0) return { dir: root, owned: false, name, bytes, slash };
    const dir = this.#resolve(trimmed.slice(0, at), O.PATH | O.DIRECTORY, 0, operation);
    return { dir, owned: true, name, bytes, slash };
  }

  /** As {@linkcode #place}, with symbolic links in the last place followed up to what they mean. */
  #locate(path: string, follow: boolean, operation: string): Place {
    let current = path;
    for (let links = 0;; links++) {
      const place = this.#place(current, operation);
      if (isDots(place.name) || (!follow && !place.slash)) return place;
      const target = this.#c.readlinkat(place.dir, place.bytes);
      // No link, or nothing there: the operation itself will tell.
      if (typeof target === "number") return place;
      this.#leave(place);
      if (this.#symlinks === "refuse" || links >= MAX_LINKS) throw new RootedError("loop", operation, path);
      const text = decode(target, operation, path);
      if (text.startsWith("/")) throw outside(operation, path);
      const trimmed = current.replace(/\/+$/, "");
      const at = trimmed.lastIndexOf("/");
      current = `${at < 0 ? "" : trimmed.slice(0, at + 1)}${text}${place.slash ? "/" : ""}`;
    }
  }

  #leave(place: Place): void {
    if (place.owned) this.#c.close(place.dir);
  }

  #at(path: string, operation: string, act: (place: Place) => number): void {
    const place = this.#place(path, operation);
    try {
      const result = act(place);
      if (result < 0) throw RootedError.fromResult(result, operation, path);
    } finally {
      this.#leave(place);
    }
  }

  /** Refuses a change of an entry that is trusted by its name or by what it is. */
  #judge(place: Place, stat: FileStat | number, operation: string, path: string): void {
    if (this.#guard === null) return;
    if (this.#guard.protectsName(place.dir, place.name)) throw trusted(operation, path);
    if (typeof stat !== "number" && this.#guard.protectsFile(stat)) throw trusted(operation, path);
  }
}

let defaultResolver: BeneathResolver | undefined;

const strict = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

function decode(bytes: Uint8Array, operation: string, path: string): string {
  try {
    return strict.decode(bytes);
  } catch {
    throw new RootedError("illegal-byte-sequence", operation, path);
  }
}

function isDots(name: string): boolean {
  return name === "." || name === "..";
}

function outside(operation: string, path: string): RootedError {
  return new RootedError("not-permitted", operation, path, "the path leaves its directory");
}

function trusted(operation: string, path: string): RootedError {
  return new RootedError("not-permitted", operation, path, "a later launch trusts this file");
}

function hidden(operation: string, path: string): RootedError {
  return new RootedError("not-permitted", operation, path, "keys and records of all sessions lie there");
}

function failedOpen(result: number, path: string, operation = "open"): RootedError {
  if (result === -ERRNO.EXDEV) return outside(operation, path);
  // A socket, or a fifo nobody reads.
  if (result === -ERRNO.ENXIO) return new RootedError("not-permitted", operation, path, "it is no regular file");
  return RootedError.fromResult(result, operation, path);
}
