/**
 * The C library and the kernel calls this program needs beside what Deno offers, opened on first use through FFI.
 *
 * Every function answers like the kernel does: a value of zero or more, or a negative error number. Nothing here throws
 * on a failed call, and nothing here decides anything. Linux on x86-64 and aarch64, glibc and musl; elsewhere
 * {@linkcode libc} refuses.
 *
 * @module
 */
import { MurError, reasonOf } from "./errors.ts";

/** Error numbers, as the kernel of x86-64 and aarch64 counts them. */
export const ERRNO = {
  EPERM: 1,
  ENOENT: 2,
  ESRCH: 3,
  EINTR: 4,
  EIO: 5,
  ENXIO: 6,
  EBADF: 9,
  EAGAIN: 11,
  ENOMEM: 12,
  EACCES: 13,
  EBUSY: 16,
  EEXIST: 17,
  EXDEV: 18,
  ENODEV: 19,
  ENOTDIR: 20,
  EISDIR: 21,
  EINVAL: 22,
  ENFILE: 23,
  EMFILE: 24,
  ETXTBSY: 26,
  ENOTTY: 25,
  EFBIG: 27,
  ENOSPC: 28,
  ESPIPE: 29,
  EROFS: 30,
  EMLINK: 31,
  EPIPE: 32,
  ENAMETOOLONG: 36,
  ENOSYS: 38,
  ENOTEMPTY: 39,
  ELOOP: 40,
  EOVERFLOW: 75,
  EOPNOTSUPP: 95,
  ECONNABORTED: 103,
  ECONNRESET: 104,
  ENOBUFS: 105,
  ECONNREFUSED: 111,
  EINPROGRESS: 115,
  EDQUOT: 122,
} as const;

/** Flags of `open`. aarch64 numbers four of them differently. */
export interface OpenFlags {
  readonly RDONLY: number;
  readonly WRONLY: number;
  readonly RDWR: number;
  readonly CREAT: number;
  readonly EXCL: number;
  readonly NOCTTY: number;
  readonly TRUNC: number;
  readonly APPEND: number;
  readonly NONBLOCK: number;
  readonly DIRECTORY: number;
  readonly NOFOLLOW: number;
  readonly CLOEXEC: number;
  readonly PATH: number;
}

const ARM = Deno.build.arch === "aarch64";

/** Flags of `open` on this machine. */
export const O: OpenFlags = {
  RDONLY: 0,
  WRONLY: 0o1,
  RDWR: 0o2,
  CREAT: 0o100,
  EXCL: 0o200,
  NOCTTY: 0o400,
  TRUNC: 0o1000,
  APPEND: 0o2000,
  NONBLOCK: 0o4000,
  DIRECTORY: ARM ? 0o40000 : 0o200000,
  NOFOLLOW: ARM ? 0o100000 : 0o400000,
  CLOEXEC: 0o2000000,
  PATH: 0o10000000,
};

/** `resolve` flags of `openat2`. */
export const RESOLVE = { NO_MAGICLINKS: 0x02, NO_SYMLINKS: 0x04, BENEATH: 0x08 } as const;

/** The current directory in place of a descriptor. */
export const AT_FDCWD = -100;
/** `unlinkat`: remove a directory. */
export const AT_REMOVEDIR = 0x200;
/** Do not follow a symbolic link in the last place. */
export const AT_SYMLINK_NOFOLLOW = 0x100;
/** The descriptor itself is meant, not a name below it. */
export const AT_EMPTY_PATH = 0x1000;
/** `renameat2`: refuse when the target exists. */
export const RENAME_NOREPLACE = 1;
/** `flock` operations. */
export const LOCK = { SH: 1, EX: 2, NB: 4, UN: 8 } as const;
/** `poll` events. */
export const POLL = { IN: 1, PRI: 2, OUT: 4, ERR: 8, HUP: 16, NVAL: 32 } as const;
/** `lseek`: a place by its offset, or the next one where content or a hole begins. */
export const SEEK = { SET: 0, CURRENT: 1, DATA: 3, HOLE: 4 } as const;
/** `fcntl` commands. */
export const FCNTL = { GETFD: 1, SETFD: 2, GETFL: 3, SETFL: 4, SETPIPE_SZ: 1031 } as const;
/** Close-on-exec, the only descriptor flag. */
export const FD_CLOEXEC = 1;
/** `prctl` operations. */
export const PRCTL = { GET_DUMPABLE: 3, SET_DUMPABLE: 4 } as const;

/** What kind of file an entry is. */
export type FileKind =
  | "file"
  | "directory"
  | "symlink"
  | "fifo"
  | "socket"
  | "character-device"
  | "block-device"
  | "unknown";

const KIND_BY_MODE: Readonly<Record<number, FileKind>> = {
  0o010000: "fifo",
  0o020000: "character-device",
  0o040000: "directory",
  0o060000: "block-device",
  0o100000: "file",
  0o120000: "symlink",
  0o140000: "socket",
};

/** Kind of a file from its `st_mode`. */
export function kindOfMode(mode: number): FileKind {
  return KIND_BY_MODE[mode & 0o170000] ?? "unknown";
}

/** What `statx` tells. */
export interface FileStat {
  readonly kind: FileKind;
  /** Permission bits, `0o7777`. */
  readonly mode: number;
  readonly nlink: number;
  readonly uid: number;
  readonly gid: number;
  readonly size: number;
  /** Blocks of 512 bytes that it takes; fewer than its size where it has holes. */
  readonly blocks: number;
  /** Device and inode name a file whatever its path. */
  readonly dev: bigint;
  readonly ino: bigint;
  /** Nanoseconds since the epoch. */
  readonly atime: bigint;
  readonly mtime: bigint;
  readonly ctime: bigint;
}

/** One directory entry as the kernel gives it, name undecoded. */
export interface RawDirEntry {
  readonly name: Uint8Array<ArrayBuffer>;
  readonly ino: bigint;
  /** `unknown` when the file system does not say. */
  readonly kind: FileKind;
}

/** Bytes of a path ending in NUL, as C wants it. */
export type CString = Uint8Array<ArrayBuffer>;

const encoder = new TextEncoder();

/** Encodes a path for the kernel; `null` when it holds a NUL or an unpaired surrogate and so names no file. */
export function cString(text: string): CString | null {
  if (text.includes("\0") || !text.isWellFormed()) return null;
  return encoder.encode(`${text}\0`);
}

/**
 * Kernel calls go through the one function for all of them, in a form for each order of numbers and buffers: opening a
 * symbol takes a tenth of a millisecond or two, and a launch makes twenty kinds of calls.
 *
 * Numbers are of 32 bits wherever the kernel looks at no more than that or they are never negative. A parameter of 64 bits
 * wants a `bigint`: a plain number is taken too, but the compiled code of whoever calls is thrown away at each such call and
 * compiled again, for ever, which makes everything around it twenty times as slow.
 */
const SYMBOLS = {
  call: { name: "syscall", parameters: ["i32", "i32", "i32", "i32", "i32", "i32"], result: "i32" },
  callNL: { name: "syscall", parameters: ["i32", "i32", "i64"], result: "i32" },
  // Offsets and sizes of files do not fit the answer of the others.
  callWide: { name: "syscall", parameters: ["i32", "i32", "i64", "i32", "i32", "i64", "i32"], result: "i64" },
  callB: { name: "syscall", parameters: ["i32", "buffer", "i32"], result: "i32" },
  callBNB: { name: "syscall", parameters: ["i32", "buffer", "i32", "buffer", "i32", "i32"], result: "i32" },
  callNB: { name: "syscall", parameters: ["i32", "i32", "buffer", "i32", "i32"], result: "i32" },
  callNBNL: { name: "syscall", parameters: ["i32", "i32", "buffer", "i32", "i64"], result: "i32" },
  callNBB: { name: "syscall", parameters: ["i32", "i32", "buffer", "buffer", "i32"], result: "i32" },
  callNBNB: { name: "syscall", parameters: ["i32", "i32", "buffer", "i32", "buffer", "i32"], result: "i32" },
  callNNNBB: { name: "syscall", parameters: ["i32", "i32", "i32", "i32", "buffer", "buffer"], result: "i32" },
  callNNNB: { name: "syscall", parameters: ["i32", "i32", "i32", "i32", "buffer", "i32"], result: "i32" },
  callNBNNB: { name: "syscall", parameters: ["i32", "i32", "buffer", "i32", "i32", "buffer"], result: "i32" },
  epollWait: { name: "epoll_wait", parameters: ["i32", "buffer", "i32", "i32"], result: "i32" },
  epollWaitElsewhere: {
    name: "epoll_wait",
    parameters: ["i32", "buffer", "i32", "i32"],
    result: "i32",
    nonblocking: true,
  },
  strerror: { parameters: ["i32"], result: "pointer" },
  pollElsewhere: { name: "poll", parameters: ["buffer", "u64", "i32"], result: "i32", nonblocking: true },
  copyFileRangeElsewhere: {
    name: "copy_file_range",
    parameters: ["i32", "buffer", "i32", "buffer", "usize", "u32"],
    result: "isize",
    nonblocking: true,
  },
  preadElsewhere: { name: "pread", parameters: ["i32", "buffer", "usize", "i64"], result: "isize", nonblocking: true },
  writevElsewhere: { name: "writev", parameters: ["i32", "buffer", "i32"], result: "isize", nonblocking: true },
  waitpidElsewhere: { name: "waitpid", parameters: ["i32", "buffer", "i32"], result: "i32", nonblocking: true },
  execv: { parameters: ["buffer", "buffer"], result: "i32" },
  posix_spawn: { parameters: ["buffer", "buffer", "buffer", "buffer", "buffer", "buffer"], result: "i32" },
  fileActionsInit: { name: "posix_spawn_file_actions_init", parameters: ["buffer"], result: "i32" },
  fileActionsDup2: { name: "posix_spawn_file_actions_adddup2", parameters: ["buffer", "i32", "i32"], result: "i32" },
  fileActionsChdir: { name: "posix_spawn_file_actions_addchdir_np", parameters: ["buffer", "buffer"], result: "i32" },
  spawnAttributesInit: { name: "posix_spawnattr_init", parameters: ["buffer"], result: "i32" },
  spawnAttributesFlags: { name: "posix_spawnattr_setflags", parameters: ["buffer", "i16"], result: "i32" },
  spawnAttributesDestroy: { name: "posix_spawnattr_destroy", parameters: ["buffer"], result: "i32" },
  fileActionsDestroy: { name: "posix_spawn_file_actions_destroy", parameters: ["buffer"], result: "i32" },
  errnoLocation: { name: "__errno_location", parameters: [], result: "pointer" },
} as const satisfies Deno.ForeignLibraryInterface;

type Symbols = Deno.DynamicLibrary<typeof SYMBOLS>["symbols"];

/**
 * Each symbol is opened on its first use: opening all takes tens of milliseconds, and most programs need a few. The first
 * call puts the symbol in its own place, so that later ones find a plain property.
 */
function symbolsOf(library: string): Symbols {
  const symbols: Record<string, (...args: never[]) => unknown> = {};
  for (const name of Object.keys(SYMBOLS) as (keyof typeof SYMBOLS)[]) {
    symbols[name] = (...args) => {
      const opened = Deno.dlopen(library, { [name]: SYMBOLS[name] }).symbols[name] as (...args: never[]) => unknown;
      symbols[name] = opened;
      return opened(...args);
    };
  }
  return symbols as unknown as Symbols;
}

// Kernel call numbers; the calls newer than both machines have one number on each.
const SYS = {
  read: ARM ? 63 : 0,
  write: ARM ? 64 : 1,
  close: ARM ? 57 : 3,
  lseek: ARM ? 62 : 8,
  ioctl: ARM ? 29 : 16,
  pread64: ARM ? 67 : 17,
  pwrite64: ARM ? 68 : 18,
  socket: ARM ? 198 : 41,
  connect: ARM ? 203 : 42,
  accept4: ARM ? 242 : 288,
  shutdown: ARM ? 210 : 48,
  bind: ARM ? 200 : 49,
  listen: ARM ? 201 : 50,
  getsockname: ARM ? 204 : 51,
  setsockopt: ARM ? 208 : 54,
  getsockopt: ARM ? 209 : 55,
  epoll_ctl: ARM ? 21 : 233,
  epoll_create1: ARM ? 20 : 291,
  wait4: ARM ? 260 : 61,
  kill: ARM ? 129 : 62,
  fcntl: ARM ? 25 : 72,
  flock: ARM ? 32 : 73,
  fsync: ARM ? 82 : 74,
  fdatasync: ARM ? 83 : 75,
  ftruncate: ARM ? 46 : 77,
  fchmod: ARM ? 52 : 91,
  fchmodat: ARM ? 53 : 268,
  getuid: ARM ? 174 : 102,
  geteuid: ARM ? 175 : 107,
  prctl: ARM ? 167 : 157,
  getdents64: ARM ? 61 : 217,
  openat: ARM ? 56 : 257,
  mkdirat: ARM ? 34 : 258,
  unlinkat: ARM ? 35 : 263,
  linkat: ARM ? 37 : 265,
  symlinkat: ARM ? 36 : 266,
  readlinkat: ARM ? 78 : 267,
  ppoll: ARM ? 73 : 271,
  utimensat: ARM ? 88 : 280,
  pipe2: ARM ? 59 : 293,
  renameat2: ARM ? 276 : 316,
  copy_file_range: ARM ? 285 : 326,
  statx: ARM ? 291 : 332,
  fstatfs: ARM ? 44 : 138,
  pidfd_open: 434,
  close_range: 436,
  openat2: 437,
} as const;

// Types, mode, links, owner, times, inode, size.
const STATX_BASIC_STATS = 0x7ff;

/** What a call reads from or writes to. */
type Buffer = Uint8Array<ArrayBuffer> | null;

/** The calls, opened. Results are values of zero or more, or negative error numbers. */
export class Libc {
  readonly #c: Symbols;
  readonly #errno: Int32Array;
  readonly #statBuffer = new Uint8Array(STATX_BYTES);
  readonly #statView = new DataView(this.#statBuffer.buffer);
  readonly #how = new BigUint64Array(3);
  readonly #howBytes = new Uint8Array(this.#how.buffer);

  constructor(symbols: Symbols) {
    this.#c = symbols;
    const location = this.#c.errnoLocation();
    if (location === null) throw new MurError("E-IO-003", "the C library does not tell error numbers");
    // The location belongs to the thread; all calls here are synchronous and stay on it.
    this.#errno = new Int32Array(Deno.UnsafePointerView.getArrayBuffer(location, Int32Array.BYTES_PER_ELEMENT));
  }

  // Each form of a call looks at the error number itself, and as memory: whenever a function is entered the runtime may do
  // other work, which leaves an error number of its own.

  #call(nr: number, a: number, b: number, c: number, d: number, e: number): number {
    const result = this.#c.call(nr, a, b, c, d, e);
    return result < 0 ? -this.#errno[0]! : result;
  }

  #callB(nr: number, a: Buffer, b: number): number {
    const result = this.#c.callB(nr, a, b);
    return result < 0 ? -this.#errno[0]! : result;
  }

  #callBNB(nr: number, a: Buffer, b: number, c: Buffer, d: number, e: number): number {
    const result = this.#c.callBNB(nr, a, b, c, d, e);
    return result < 0 ? -this.#errno[0]! : result;
  }

  #callNB(nr: number, a: number, b: Buffer, c: number, d: number): number {
    const result = this.#c.callNB(nr, a, b, c, d);
    return result < 0 ? -this.#errno[0]! : result;
  }

  #callNBB(nr: number, a: number, b: Buffer, c: Buffer, d: number): number {
    const result = this.#c.callNBB(nr, a, b, c, d);
    return result < 0 ? -this.#errno[0]! : result;
  }

  #callNBNB(nr: number, a: number, b: Buffer, c: number, d: Buffer, e: number): number {
    const result = this.#c.callNBNB(nr, a, b, c, d, e);
    return result < 0 ? -this.#errno[0]! : result;
  }

  #callNNNB(nr: number, a: number, b: number, c: number, d: Buffer, e: number): number {
    const result = this.#c.callNNNB(nr, a, b, c, d, e);
    return result < 0 ? -this.#errno[0]! : result;
  }

  #callNNNBB(nr: number, a: number, b: number, c: number, d: Buffer, e: Buffer): number {
    const result = this.#c.callNNNBB(nr, a, b, c, d, e);
    return result < 0 ? -this.#errno[0]! : result;
  }

  #callNBNNB(nr: number, a: number, b: Buffer, c: number, d: number, e: Buffer): number {
    const result = this.#c.callNBNNB(nr, a, b, c, d, e);
    return result < 0 ? -this.#errno[0]! : result;
  }

  #callNL(nr: number, a: number, b: bigint): number {
    const result = this.#c.callNL(nr, a, b);
    return result < 0 ? -this.#errno[0]! : result;
  }

  #callNBNL(nr: number, a: number, b: Buffer, c: number, d: bigint): number {
    const result = this.#c.callNBNL(nr, a, b, c, d);
    return result < 0 ? -this.#errno[0]! : result;
  }

  #callWide(nr: number, a: number, b: bigint, c: number, d: number, e: bigint, f: number): number {
    const result = this.#c.callWide(nr, a, b, c, d, e, f);
    return result < 0n ? -this.#errno[0]! : Number(result);
  }

  /** `open` without a root. */
  openat(dir: number, path: CString, flags: number, mode = 0): number {
    return this.#callNB(SYS.openat, dir, path, flags | O.CLOEXEC, mode);
  }

  /** `openat2`: `resolve` as {@linkcode RESOLVE}. */
  openat2(dir: number, path: CString, flags: number, mode: number, resolve: number): number {
    this.#how[0] = BigInt(flags | O.CLOEXEC);
    this.#how[1] = BigInt(mode);
    this.#how[2] = BigInt(resolve);
    return this.#callNBB(SYS.openat2, dir, path, this.#howBytes, 24);
  }

  /** `statx` of a name below `dir`, or of `dir` itself with {@linkcode AT_EMPTY_PATH}; an error number on failure. */
  statx(dir: number, path: CString, flags: number): FileStat | number {
    const result = this.#callNBNNB(SYS.statx, dir, path, flags, STATX_BASIC_STATS, this.#statBuffer);
    if (result < 0) return result;
    const v = this.#statView;
    const mode = v.getUint16(28, true);
    const time = (at: number) => v.getBigInt64(at, true) * 1_000_000_000n + BigInt(v.getUint32(at + 8, true));
    return {
      kind: kindOfMode(mode),
      mode: mode & 0o7777,
      nlink: v.getUint32(16, true),
      uid: v.getUint32(20, true),
      gid: v.getUint32(24, true),
      size: Number(v.getBigUint64(40, true)),
      blocks: Number(v.getBigUint64(48, true)),
      dev: (BigInt(v.getUint32(136, true)) << 32n) | BigInt(v.getUint32(140, true)),
      ino: v.getBigUint64(32, true),
      atime: time(64),
      mtime: time(112),
      ctime: time(96),
    };
  }

  /** `statx` of an absolute path into a buffer of {@linkcode STATX_BYTES} bytes, as the kernel lays it out. */
  statxInto(path: CString, flags: number, buffer: Uint8Array<ArrayBuffer>): number {
    return this.#callNBNNB(SYS.statx, AT_FDCWD, path, flags, STATX_BASIC_STATS, buffer);
  }

  /** `statx` of an open descriptor, as {@linkcode statxInto}. */
  fstatInto(fd: number, buffer: Uint8Array<ArrayBuffer>): number {
    return this.#callNBNNB(SYS.statx, fd, EMPTY, AT_EMPTY_PATH, STATX_BASIC_STATS, buffer);
  }

  /** The number by which `statfs` tells the kind of file system an open descriptor is of, or an error number. */
  fileSystem(fd: number): number {
    const result = this.#callNB(SYS.fstatfs, fd, this.#statBuffer, 0, 0);
    return result < 0 ? result : this.#statView.getUint32(0, true);
  }

  /** `statx` of an open descriptor. */
  fstat(fd: number): FileStat | number {
    return this.statx(fd, EMPTY, AT_EMPTY_PATH);
  }

  /** The next entries of a directory opened for reading, `.` and `..` left out; empty at the end. */
  getdents(fd: number, buffer: Uint8Array<ArrayBuffer>): RawDirEntry[] | number {
    for (;;) {
      const length = this.#callNB(SYS.getdents64, fd, buffer, buffer.length, 0);
      if (length < 0) return length;
      if (length === 0) return [];
      const view = new DataView(buffer.buffer, buffer.byteOffset, length);
      const entries: RawDirEntry[] = [];
      for (let at = 0; at < length;) {
        const size = view.getUint16(at + 16, true);
        let end = at + 19;
        while (buffer[end] !== 0) end++;
        const name = buffer.slice(at + 19, end);
        const dots = name[0] === 0x2e && (name.length === 1 || (name.length === 2 && name[1] === 0x2e));
        if (!dots) {
          const kind = KIND_BY_MODE[view.getUint8(at + 18) << 12] ?? "unknown";
          entries.push({ name, ino: view.getBigUint64(at, true), kind });
        }
        at += size;
      }
      // A block of nothing but the two dots is not the end.
      if (entries.length > 0) return entries;
    }
  }

  mkdirat(dir: number, path: CString, mode: number): number {
    return this.#callNB(SYS.mkdirat, dir, path, mode, 0);
  }

  renameat2(fromDir: number, from: CString, toDir: number, to: CString, flags: number): number {
    return this.#callNBNB(SYS.renameat2, fromDir, from, toDir, to, flags);
  }

  linkat(fromDir: number, from: CString, toDir: number, to: CString, flags: number): number {
    return this.#callNBNB(SYS.linkat, fromDir, from, toDir, to, flags);
  }

  unlinkat(dir: number, path: CString, flags: number): number {
    return this.#callNB(SYS.unlinkat, dir, path, flags, 0);
  }

  symlinkat(target: CString, dir: number, path: CString): number {
    return this.#callBNB(SYS.symlinkat, target, dir, path, 0, 0);
  }

  /** Bytes of a link's target, or an error number. */
  readlinkat(dir: number, path: CString): Uint8Array<ArrayBuffer> | number {
    const buffer = new Uint8Array(4096);
    const length = this.#callNBB(SYS.readlinkat, dir, path, buffer, buffer.length);
    return length < 0 ? length : buffer.slice(0, length);
  }

  /** Times in nanoseconds since the epoch; `null` leaves one as it is. */
  utimensat(dir: number, path: CString, atime: bigint | null, mtime: bigint | null, flags: number): number {
    return this.#callNBB(SYS.utimensat, dir, path, timespecs(atime, mtime), flags);
  }

  /** As {@linkcode utimensat}, of an open descriptor. */
  futimens(fd: number, atime: bigint | null, mtime: bigint | null): number {
    return this.#callNBB(SYS.utimensat, fd, null, timespecs(atime, mtime), 0);
  }

  read(fd: number, buffer: Uint8Array<ArrayBuffer>): number {
    return this.#callNB(SYS.read, fd, buffer, buffer.length, 0);
  }

  write(fd: number, buffer: Uint8Array<ArrayBuffer>): number {
    return this.#callNB(SYS.write, fd, buffer, buffer.length, 0);
  }

  pread(fd: number, buffer: Uint8Array<ArrayBuffer>, offset: number): number {
    return this.#callNBNL(SYS.pread64, fd, buffer, buffer.length, BigInt(offset));
  }

  pwrite(fd: number, buffer: Uint8Array<ArrayBuffer>, offset: number): number {
    return this.#callNBNL(SYS.pwrite64, fd, buffer, buffer.length, BigInt(offset));
  }

  ftruncate(fd: number, size: number): number {
    return this.#callNL(SYS.ftruncate, fd, BigInt(size));
  }

  fchmod(fd: number, mode: number): number {
    return this.#call(SYS.fchmod, fd, mode, 0, 0, 0);
  }

  /**
   * Changes the mode of what a descriptor names that was opened as a path alone. It goes by the kernel's own name of the
   * descriptor, so it meets that very file whatever its name stands for by now.
   */
  chmodPath(fd: number, mode: number): number {
    return this.#callNB(SYS.fchmodat, AT_FDCWD, cString(`/proc/self/fd/${fd}`)!, mode, 0);
  }

  /** Moves to a place, `whence` as {@linkcode SEEK}; the place as an offset from the start. */
  lseek(fd: number, offset: number, whence: number): number {
    return this.#callWide(SYS.lseek, fd, BigInt(offset), whence, 0, 0n, 0);
  }

  /** Lets `to` share the content of `from` (`FICLONE`), where the file system can. */
  cloneFile(from: number, to: number): number {
    const FICLONE = 0x4004_9409;
    return this.#call(SYS.ioctl, to, FICLONE, from, 0, 0);
  }

  /** Copies bytes between two files, each at the place it stands, without their passing through this program. */
  copyFileRange(from: number, to: number, count: number): number {
    return this.#callWide(SYS.copy_file_range, from, 0n, to, 0, BigInt(count), 0);
  }

  /** As {@linkcode copyFileRange}, on another thread; a negative value when it failed, whose error number can't be told. */
  async copyFileRangeElsewhere(from: number, to: number, count: number): Promise<number> {
    return Number(await this.#c.copyFileRangeElsewhere(from, null, to, null, BigInt(count), 0));
  }

  fsync(fd: number): number {
    return this.#call(SYS.fsync, fd, 0, 0, 0, 0);
  }

  fdatasync(fd: number): number {
    return this.#call(SYS.fdatasync, fd, 0, 0, 0, 0);
  }

  /** Use with {@linkcode LOCK}`.NB`: a wait would hold the whole program. */
  flock(fd: number, operation: number): number {
    return this.#call(SYS.flock, fd, operation, 0, 0, 0);
  }

  close(fd: number): number {
    return this.#call(SYS.close, fd, 0, 0, 0, 0);
  }

  /** A close-on-exec pipe as `[read end, write end]`, or an error number. */
  pipe(): [number, number] | number {
    const pair = new Int32Array(2);
    const result = this.#callB(SYS.pipe2, new Uint8Array(pair.buffer), O.CLOEXEC);
    return result < 0 ? result : [pair[0]!, pair[1]!];
  }

  /** Signal 0 only asks whether the process exists; a negative pid names a process group. */
  kill(pid: number, signal: number): number {
    return this.#call(SYS.kill, pid, signal, 0, 0, 0);
  }

  /** A close-on-exec descriptor that stands for a process, whoever bears its pid later; readable once it has ended. */
  pidfdOpen(pid: number): number {
    return this.#call(SYS.pidfd_open, pid, 0, 0, 0, 0);
  }

  /** Reaps a child that has ended: its wait status, `null` while it runs, or a negative error number. */
  reap(pid: number): number | null {
    const WNOHANG = 1;
    const status = new Int32Array(1);
    for (;;) {
      const result = this.#callNB(SYS.wait4, pid, new Uint8Array(status.buffer), WNOHANG, 0);
      if (result === -ERRNO.EINTR) continue;
      return result < 0 ? result : result === 0 ? null : status[0]!;
    }
  }

  fcntl(fd: number, command: number, argument = 0): number {
    return this.#call(SYS.fcntl, fd, command, argument, 0, 0);
  }

  /** Polls one descriptor; the events that came, 0 when the time ran out, or an error number. */
  poll(fd: number, events: number, timeoutMs: number): number {
    const record = new DataView(new ArrayBuffer(8));
    record.setInt32(0, fd, true);
    record.setInt16(4, events, true);
    const time = timeoutMs < 0 ? null : BigInt64Array.of(
      BigInt(Math.floor(timeoutMs / 1_000)),
      BigInt(timeoutMs % 1_000) * 1_000_000n,
    );
    const result = this.#callBNB(
      SYS.ppoll,
      new Uint8Array(record.buffer),
      1,
      time && new Uint8Array(time.buffer),
      0,
      0,
    );
    return result <= 0 ? result : record.getInt16(6, true);
  }

  /** As {@linkcode pollElsewhere}, without waiting. */
  pollAll(records: Uint8Array<ArrayBuffer>): number {
    return this.#c.callBNB(SYS.ppoll, records, records.length / POLL_RECORD_BYTES, new Uint8Array(16), 0, 0);
  }

  /**
   * Waits in another thread until something comes for one of the descriptors, however long. One thread of a small pool is
   * taken meanwhile, so there is one such call at a time (`descriptor_watch.ts`).
   *
   * @param records As `poll` takes them, 8 bytes each; the answer is in them.
   * @returns how many have an event; a negative value, whatever it is, when there is none to tell.
   */
  pollElsewhere(records: Uint8Array<ArrayBuffer>): Promise<number> {
    return this.#c.pollElsewhere(records, BigInt(records.length / POLL_RECORD_BYTES), -1);
  }

  /**
   * Writes in another thread, as long as it takes. At most {@linkcode MAX_VECTORS} parts, which must stay as they are.
   *
   * @returns the bytes written; a negative value when it failed, whose error number can't be told.
   */
  async writeElsewhere(fd: number, parts: readonly Uint8Array[]): Promise<number> {
    const vectors = new BigUint64Array(2 * parts.length);
    for (const [index, part] of parts.entries()) {
      const start = Deno.UnsafePointer.of(part.buffer as ArrayBuffer);
      vectors[2 * index] = Deno.UnsafePointer.value(start) + BigInt(part.byteOffset);
      vectors[2 * index + 1] = BigInt(part.length);
    }
    const count = Number(await this.#c.writevElsewhere(fd, new Uint8Array(vectors.buffer), parts.length));
    // The memory is there as long as someone knows of it.
    return parts.length === 0 ? 0 : count;
  }

  /**
   * Reads in another thread, as long as it takes. The buffer must stay as it is meanwhile, and the descriptor open.
   *
   * @returns the bytes read; a negative value when it failed, whose error number can't be told.
   */
  async preadElsewhere(fd: number, buffer: Uint8Array<ArrayBuffer>, offset: number): Promise<number> {
    return Number(await this.#c.preadElsewhere(fd, buffer, BigInt(buffer.length), BigInt(offset)));
  }

  /** Waits in another thread for the end of a child, which is about to come; its wait status. */
  async waitElsewhere(pid: number): Promise<number> {
    const status = new Int32Array(1);
    // Only a signal that is handled interrupts it.
    while (await this.#c.waitpidElsewhere(pid, new Uint8Array(status.buffer), 0) !== pid);
    return status[0]!;
  }

  /**
   * Starts a program as a child of this process.
   *
   * @param path Absolute.
   * @param args Beside the path itself, which is the first.
   * @param directory Where it stands; as this process where the C library can't tell (glibc before 2.29).
   * @param descriptors Those that become its 0, 1, 2 and on; it gets no other that is close-on-exec. None of those after
   * the third may itself be one of the numbers before its place.
   * @param ownSession Whether it leads a session, and a process group, of its own.
   * @returns its process id, or a negative error number.
   */
  spawn(
    path: CString,
    args: readonly CString[],
    environment: readonly CString[],
    directory: CString,
    descriptors: readonly [number, number, number, ...number[]],
    ownSession = false,
  ): number {
    // Larger than the types of any C library here.
    const actions = new Uint8Array(256);
    const attributes = ownSession ? new Uint8Array(512) : null;
    const pid = new Int32Array(1);
    let failed = this.#c.fileActionsInit(actions);
    if (failed !== 0) return -failed;
    try {
      failed = this.#chdirAction(actions, directory);
      if (attributes !== null) {
        failed ||= this.#c.spawnAttributesInit(attributes) || this.#c.spawnAttributesFlags(attributes, SPAWN_SETSID);
      }
      descriptors.forEach((from, to) => failed ||= this.#c.fileActionsDup2(actions, from, to));
      failed ||= this.#c.posix_spawn(
        new Uint8Array(pid.buffer),
        path,
        actions,
        attributes,
        pointersTo([path, ...args]),
        pointersTo(environment),
      );
    } finally {
      if (attributes !== null) this.#c.spawnAttributesDestroy(attributes);
      this.#c.fileActionsDestroy(actions);
    }
    return failed === 0 ? pid[0]! : -failed;
  }

  /**
   * Replaces this process by a program, with its environment and what it has open without close-on-exec.
   *
   * @param path Absolute.
   * @param args All of them, its name first.
   * @returns a negative error number; never when it went well.
   */
  execute(path: CString, args: readonly CString[]): number {
    const pointers = pointersTo(args);
    const result = this.#c.execv(path, pointers);
    return result < 0 ? -this.#errno[0]! : result;
  }

  #chdirAction(actions: Uint8Array<ArrayBuffer>, directory: CString): number {
    let add: Symbols["fileActionsChdir"];
    try {
      add = this.#c.fileActionsChdir;
    } catch {
      return 0;
    }
    return add(actions, directory);
  }

  /**
   * A TCP socket, close-on-exec, whose calls do not wait.
   *
   * @param family One of {@linkcode ADDRESS_FAMILY}.
   */
  tcpSocket(family: number): number {
    return this.#call(SYS.socket, family, SOCK_STREAM | O.NONBLOCK | O.CLOEXEC, 0, 0, 0);
  }

  /** Lets a socket be bound while closed connections of the one before it linger. */
  reuseAddress(fd: number): number {
    return this.#switchOn(fd, SOL_SOCKET, SO_REUSEADDR);
  }

  /**
   * Has what is written sent at once, though the peer has not acknowledged what was sent before. Connections of a listening
   * socket are as it was.
   */
  sendAtOnce(fd: number): number {
    return this.#switchOn(fd, IPPROTO_TCP, TCP_NODELAY);
  }

  #switchOn(fd: number, level: number, option: number): number {
    const on = new Uint8Array(Int32Array.of(1).buffer);
    return this.#callNNNB(SYS.setsockopt, fd, level, option, on, on.length);
  }

  /** Begins to connect; `EINPROGRESS` says that it goes on. @param address A `sockaddr`. */
  connect(fd: number, address: Uint8Array<ArrayBuffer>): number {
    return this.#callNB(SYS.connect, fd, address, address.length, 0);
  }

  /** The error that has befallen a socket, as an error number, and forgets it; 0 when there is none. */
  socketError(fd: number): number {
    const error = new Int32Array(1);
    const length = new Uint8Array(Int32Array.of(error.byteLength).buffer);
    const room = new Uint8Array(error.buffer);
    const result = this.#callNNNBB(SYS.getsockopt, fd, SOL_SOCKET, SO_ERROR, room, length);
    return result < 0 ? result : error[0]!;
  }

  /** @param address A `sockaddr`. */
  bind(fd: number, address: Uint8Array<ArrayBuffer>): number {
    return this.#callNB(SYS.bind, fd, address, address.length, 0);
  }

  listen(fd: number, backlog: number): number {
    return this.#call(SYS.listen, fd, backlog, 0, 0, 0);
  }

  /** The address a socket is bound to, as a `sockaddr`. */
  getsockname(fd: number, address: Uint8Array<ArrayBuffer>): number {
    const length = new Uint8Array(Int32Array.of(address.length).buffer);
    return this.#callNBB(SYS.getsockname, fd, address, length, 0);
  }

  /** The next connection of a listening socket, close-on-exec, whose calls do not wait. */
  accept(fd: number): number {
    return this.#call(SYS.accept4, fd, 0, 0, O.NONBLOCK | O.CLOEXEC, 0);
  }

  /** No more is written to a socket; its peer reads to the end. */
  shutdownWrite(fd: number): number {
    const SHUT_WR = 1;
    return this.#call(SYS.shutdown, fd, SHUT_WR, 0, 0, 0);
  }

  /** Neither is read from a socket any more; one that listens tells so to whoever waits for it. */
  shutdownBoth(fd: number): number {
    const SHUT_RDWR = 2;
    return this.#call(SYS.shutdown, fd, SHUT_RDWR, 0, 0, 0);
  }

  epollCreate(): number {
    return this.#call(SYS.epoll_create1, O.CLOEXEC, 0, 0, 0, 0);
  }

  /**
   * Has a descriptor watched, or no longer.
   *
   * @param operation One of {@linkcode EPOLL_CTL}.
   * @param events Bits of {@linkcode EPOLL}.
   */
  epollControl(epoll: number, operation: number, fd: number, events: number): number {
    EPOLL_RECORD.setUint32(0, events, true);
    EPOLL_RECORD.setInt32(EPOLL_DATA_AT, fd, true);
    return this.#callNNNB(SYS.epoll_ctl, epoll, operation, fd, EPOLL_RECORD_ROOM, 0);
  }

  /**
   * Waits for events of watched descriptors.
   *
   * @param records Room for the answer: {@linkcode EPOLL_RECORD_BYTES} each, the events at 0, the descriptor at
   * {@linkcode EPOLL_DATA_AT}.
   * @returns how many records were written.
   */
  epollWait(epoll: number, records: Uint8Array<ArrayBuffer>, timeoutMs: number): number {
    const result = this.#c.epollWait(epoll, records, records.length / EPOLL_RECORD_BYTES, timeoutMs);
    return result < 0 ? -this.#errno[0]! : result;
  }

  /** As {@linkcode epollWait}, in another thread; a negative value, whatever it is, when there is none to tell. */
  epollWaitElsewhere(epoll: number, records: Uint8Array<ArrayBuffer>, timeoutMs: number): Promise<number> {
    return this.#c.epollWaitElsewhere(epoll, records, records.length / EPOLL_RECORD_BYTES, timeoutMs);
  }

  /** The system's words for an error number. */
  errorText(errno: number): string {
    const text = this.#c.strerror(errno);
    return text === null ? "error" : new Deno.UnsafePointerView(text).getCString();
  }

  prctl(operation: number, argument: number): number {
    return this.#call(SYS.prctl, operation, argument, 0, 0, 0);
  }

  /** Marks every descriptor from `first` on close-on-exec, so that no child inherits one (spec containment 19.11). */
  closeOnExecFrom(first: number): number {
    const CLOSE_RANGE_CLOEXEC = 4;
    return this.#call(SYS.close_range, first, -1, CLOSE_RANGE_CLOEXEC, 0, 0);
  }

  /** Closes every descriptor from one to another; they may not all be open. */
  closeRange(first: number, last: number): number {
    return this.#call(SYS.close_range, first, last, 0, 0, 0);
  }

  getuid(): number {
    return this.#c.call(SYS.getuid, 0, 0, 0, 0, 0) >>> 0;
  }

  geteuid(): number {
    return this.#c.call(SYS.geteuid, 0, 0, 0, 0, 0) >>> 0;
  }
}

const EMPTY: CString = new Uint8Array(1);

/** Size of what `statx` writes. */
export const STATX_BYTES = 256;

/** Most parts of one {@linkcode Libc.writeElsewhere}. */
export const MAX_VECTORS = 1_024;

const SOCK_STREAM = 1;

/** Of `posix_spawn`: the program leads a session of its own. */
const SPAWN_SETSID = Deno.build.os === "darwin" ? 0x400 : 0x80;
const SOL_SOCKET = 1;
const SO_REUSEADDR = 2;
const SO_ERROR = 4;
const IPPROTO_TCP = 6;
const TCP_NODELAY = 1;

/** Events of `epoll`: those of {@linkcode POLL}, and that each is told once. */
export const EPOLL = { ...POLL, ET: 0x8000_0000 } as const;

/** Operations of `epoll_ctl`. */
export const EPOLL_CTL = { ADD: 1, DEL: 2, MOD: 3 } as const;

/** Size of a record of `epoll`, and where the descriptor stands in it: on x86-64 it is packed. */
export const EPOLL_RECORD_BYTES = ARM ? 16 : 12;
export const EPOLL_DATA_AT = ARM ? 8 : 4;

const EPOLL_RECORD_ROOM = new Uint8Array(EPOLL_RECORD_BYTES);
const EPOLL_RECORD = new DataView(EPOLL_RECORD_ROOM.buffer);

/** Size of what `poll` takes for one descriptor. */
export const POLL_RECORD_BYTES = 8;

/** A list of strings as C wants it, in one piece: pointers to what follows them, the last one null. */
function pointersTo(texts: readonly CString[]): Uint8Array<ArrayBuffer> {
  const heads = 8 * (texts.length + 1);
  const bytes = new Uint8Array(texts.reduce((sum, text) => sum + text.length, heads));
  const view = new DataView(bytes.buffer);
  const base = Deno.UnsafePointer.value(Deno.UnsafePointer.of(bytes));
  let at = heads;
  texts.forEach((text, index) => {
    view.setBigUint64(8 * index, base + BigInt(at), true);
    bytes.set(text, at);
    at += text.length;
  });
  return bytes;
}

function timespecs(atime: bigint | null, mtime: bigint | null): Uint8Array<ArrayBuffer> {
  const UTIME_OMIT = 0x3fff_fffen;
  const times = new BigInt64Array(4);
  for (const [index, time] of [atime, mtime].entries()) {
    if (time === null) {
      times[2 * index + 1] = UTIME_OMIT;
      continue;
    }
    // The nanoseconds count up from the second, also before 1970.
    const rest = ((time % 1_000_000_000n) + 1_000_000_000n) % 1_000_000_000n;
    times[2 * index] = (time - rest) / 1_000_000_000n;
    times[2 * index + 1] = rest;
  }
  return new Uint8Array(times.buffer);
}

/** Names under which the C library is found, in the order they are tried. */
const LIBRARY_NAMES = ["libc.so.6", `libc.musl-${Deno.build.arch}.so.1`, "libc.so"] as const;

let opened: Libc | undefined;

/**
 * The C library of this process, opened on the first call.
 *
 * @throws {MurError} `E-IO-003` where the operating system or the machine is not served.
 */
export function libc(): Libc {
  return opened ??= open();
}

function open(): Libc {
  const { os, arch } = Deno.build;
  if (os !== "linux" || (arch !== "x86_64" && arch !== "aarch64")) {
    throw new MurError("E-IO-003", `contained file access is not available on ${os} ${arch}`, {
      hint: "run on Linux, x86-64 or aarch64",
    });
  }
  const reasons: string[] = [];
  for (const name of LIBRARY_NAMES) {
    try {
      return new Libc(symbolsOf(name));
    } catch (cause) {
      reasons.push(`${name}: ${reasonOf(cause)}`);
    }
  }
  throw new MurError("E-IO-003", `cannot open the C library (${reasons.join("; ")})`);
}
