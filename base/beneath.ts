/**
 * Opening a path so that it can't leave a directory: by the kernel's `openat2`, or where that is missing one component
 * after the other with `O_NOFOLLOW` (spec containment 4.8, session 4.3).
 *
 * @module
 */
import { type CString, cString, ERRNO, type Libc, O, RESOLVE } from "./libc.ts";

/** How symbolic links on the way are taken. */
export type SymlinkPolicy =
  /** Followed as long as they stay inside the root. */
  | "inside"
  /** Any link on the way is refused. */
  | "refuse";

/** One way of opening a path below a directory. A negative result is an error number; leaving the root is `EXDEV`. */
export interface BeneathResolver {
  open(root: number, path: CString, flags: number, mode: number, symlinks: SymlinkPolicy): number;
}

/** Longest chain of symbolic links, as in the kernel. */
const MAX_LINKS = 40;

/** `openat2` answers `EAGAIN` when a rename crossed a `..`; after so many the walk takes over, which can't be disturbed. */
const MAX_RACED = 64;

/** `openat2` with `RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS`. */
export class KernelResolver implements BeneathResolver {
  readonly #c: Libc;
  readonly #walk: WalkResolver;

  constructor(c: Libc) {
    this.#c = c;
    this.#walk = new WalkResolver(c);
  }

  open(root: number, path: CString, flags: number, mode: number, symlinks: SymlinkPolicy): number {
    const resolve = RESOLVE.BENEATH | RESOLVE.NO_MAGICLINKS | (symlinks === "refuse" ? RESOLVE.NO_SYMLINKS : 0);
    for (let raced = 0; raced < MAX_RACED;) {
      const result = this.#c.openat2(root, path, flags, mode, resolve);
      if (result === -ERRNO.EAGAIN) raced++;
      else if (result !== -ERRNO.EINTR) return result;
    }
    return this.#walk.open(root, path, flags, mode, symlinks);
  }
}

const SLASH = 0x2f;
const DOT = 0x2e;
const SELF: CString = Uint8Array.of(DOT, 0);

/** Splits at slashes; every piece ends in NUL. Empty pieces stay, so a trailing slash shows as an empty last piece. */
function split(path: Uint8Array): CString[] {
  const pieces: CString[] = [];
  const end = path[path.length - 1] === 0 ? path.length - 1 : path.length;
  let start = 0;
  for (let at = 0; at <= end; at++) {
    if (at < end && path[at] !== SLASH) continue;
    const piece = new Uint8Array(at - start + 1);
    piece.set(path.subarray(start, at));
    pieces.push(piece);
    start = at + 1;
  }
  return pieces;
}

function isSelf(piece: CString): boolean {
  return piece.length === 1 || (piece.length === 2 && piece[0] === DOT);
}

function isParent(piece: CString): boolean {
  return piece.length === 3 && piece[0] === DOT && piece[1] === DOT;
}

/** Component by component; `..` returns to the directory that was left, by its handle. */
export class WalkResolver implements BeneathResolver {
  readonly #c: Libc;

  constructor(c: Libc) {
    this.#c = c;
  }

  open(root: number, path: CString, flags: number, mode: number, symlinks: SymlinkPolicy): number {
    const c = this.#c;
    if (path[0] === 0) return -ERRNO.ENOENT;
    if (path[0] === SLASH) return -ERRNO.EXDEV;
    const opened: number[] = [];
    const current = () => opened.at(-1) ?? root;
    // The next piece stands last.
    const pending = split(path).reverse();
    let links = 0;

    /** Puts a link's target in the place of its name. Zero, or the error that ends the walk. */
    const expand = (name: CString): number => {
      const target = c.readlinkat(current(), name);
      // Not a link: what was met is no directory.
      if (typeof target === "number") return target === -ERRNO.EINVAL ? -ERRNO.ENOTDIR : target;
      if (symlinks === "refuse" || ++links > MAX_LINKS) return -ERRNO.ELOOP;
      if (target[0] === SLASH) return -ERRNO.EXDEV;
      pending.push(...split(target).reverse());
      return 0;
    };

    try {
      for (;;) {
        const name = pending.pop();
        if (name === undefined) {
          // The path ended in a directory that is already held.
          if (flags & O.CREAT) return flags & O.EXCL ? -ERRNO.EEXIST : -ERRNO.EISDIR;
          return c.openat(current(), SELF, flags & ~O.NOFOLLOW, 0);
        }
        if (isSelf(name)) continue;
        if (isParent(name)) {
          const left = opened.pop();
          if (left === undefined) return -ERRNO.EXDEV;
          c.close(left);
          continue;
        }
        if (pending.length > 0) {
          const directory = c.openat(current(), name, O.PATH | O.DIRECTORY | O.NOFOLLOW);
          if (directory >= 0) {
            opened.push(directory);
            continue;
          }
          if (directory !== -ERRNO.ENOTDIR && directory !== -ERRNO.ELOOP) return directory;
          const failed = expand(name);
          if (failed !== 0) return failed;
          continue;
        }
        const fd = c.openat(current(), name, flags | O.NOFOLLOW, mode);
        if (flags & O.NOFOLLOW) return fd;
        if (fd >= 0) {
          // With O_PATH a link is opened itself.
          const stat = flags & O.PATH ? c.fstat(fd) : 0;
          if (typeof stat === "number" || stat.kind !== "symlink") return fd;
          c.close(fd);
        } else if (fd !== -ERRNO.ELOOP && !(fd === -ERRNO.ENOTDIR && flags & O.DIRECTORY)) {
          return fd;
        }
        const failed = expand(name);
        if (failed !== 0) return failed;
      }
    } finally {
      for (const fd of opened) c.close(fd);
    }
  }
}

/** The kernel's way where it is there, the walk elsewhere: an old kernel, or a filter that does not know the call. */
export function beneathResolver(c: Libc): BeneathResolver {
  const probe = c.openat2(-100, cString(".")!, O.PATH | O.DIRECTORY, 0, RESOLVE.BENEATH);
  if (probe < 0) return new WalkResolver(c);
  c.close(probe);
  return new KernelResolver(c);
}
