/**
 * The guard of the work folder's size: a walk every ten seconds over what commands may fill, and over what they hold
 * without a name; the first breach is latched and from then on no command starts (spec containment 14.3).
 *
 * @module
 */
import { letOthersWork } from "../base/other_work.ts";
import { MurError } from "../base/errors.ts";
import { AT_SYMLINK_NOFOLLOW, type CString, ERRNO, type Libc, libc, O } from "../base/libc.ts";
import type { RootedDir } from "../base/rooted_dir.ts";
import { heldBytes, namelessOfThisProcess } from "./held_files.ts";

/** Longest path handed to the kernel at once, with room below its own bound. */
const MAX_PATH_BYTES = 3_500;

/** Milliseconds of walking before other work gets its turn. */
const SLICE_MS = 8;

/** Bytes of a disk that a block stands for. */
const BLOCK = 512;

/**
 * Bytes of room on the disk that count for nothing: the blocks which a few small files do not fill, and folders. So a low
 * ceiling is one on what is written.
 */
const FREE_ROOM = 1 << 20;

/** What its owner needs of a directory to look into it. */
const LOOKING = 0o500;

/** A directory that was opened to its owner for the walk. */
interface Closed {
  readonly root: RootedDir;
  readonly path: readonly CString[];
  /** As it was. */
  readonly mode: number;
}

/**
 * Sum of the sizes of everything but directories below the roots, in bytes; or what all of it takes on the disk, where that
 * is more: much is had in a million empty files, or behind the end of one. Symbolic links are not followed. A directory of
 * this user's that is closed to the user itself is opened for the walk, or a command could hide in it what it fills; what
 * else can't be read is passed over. Other work goes on meanwhile.
 *
 * @param stop Ends the walk early; the sum so far is then meaningless.
 */
export async function directorySize(roots: readonly RootedDir[], stop?: AbortSignal): Promise<number> {
  const closed: Closed[] = [];
  try {
    return await walk(roots, closed, stop);
  } finally {
    // The deepest first: behind one that is closed again nothing can be reached.
    for (const each of closed.reverse()) closeAgain(libc(), each);
  }
}

async function walk(roots: readonly RootedDir[], closed: Closed[], stop: AbortSignal | undefined): Promise<number> {
  const c = libc();
  const buffer = new Uint8Array(65_536);
  let sizes = 0;
  let room = 0;
  const sum = () => Math.max(sizes, room - FREE_ROOM);
  let slice = performance.now();
  for (const root of roots) {
    // Names are bytes: one that is no UTF-8 counts as well. Each is a list of pieces short enough for the kernel.
    const pending: CString[][] = [[Uint8Array.of(0x2e, 0)]];
    for (;;) {
      const path = pending.pop();
      if (path === undefined) break;
      let fd = openBelow(c, root.fd, path);
      const mode = closedMode(c, root, path, fd);
      if (mode !== null && setMode(c, { root, path }, mode | LOOKING)) {
        closed.push({ root, path, mode });
        if (fd >= 0) c.close(fd);
        fd = openBelow(c, root.fd, path);
      }
      if (fd < 0) continue;
      try {
        const own = c.fstat(fd);
        if (typeof own !== "number") room += own.blocks * BLOCK;
        for (;;) {
          const entries = c.getdents(fd, buffer);
          if (typeof entries === "number" || entries.length === 0) break;
          for (const entry of entries) {
            const name = new Uint8Array(entry.name.length + 1);
            name.set(entry.name);
            let directory = entry.kind === "directory";
            if (!directory) {
              const stat = c.statx(fd, name, AT_SYMLINK_NOFOLLOW);
              if (typeof stat === "number") continue;
              directory = stat.kind === "directory";
              if (!directory) {
                sizes += stat.size;
                room += stat.blocks * BLOCK;
              }
            }
            if (directory) pending.push(extend(path, name));
          }
        }
      } finally {
        c.close(fd);
      }
      if (performance.now() - slice > SLICE_MS) {
        await letOthersWork();
        if (stop?.aborted || root.fd < 0) return sum();
        slice = performance.now();
      }
    }
  }
  return sum();
}

/** The mode of a directory that its owner, this user, has closed to itself; `null` for any other. Root needs no mode. */
function closedMode(c: Libc, root: RootedDir, path: readonly CString[], opened: number): number | null {
  const user = Deno.uid();
  if (user === 0 || (opened < 0 && opened !== -ERRNO.EACCES)) return null;
  const fd = opened < 0 ? openBelow(c, root.fd, path, O.PATH) : opened;
  if (fd < 0) return null;
  const stat = c.fstat(fd);
  if (fd !== opened) c.close(fd);
  if (typeof stat === "number" || stat.uid !== user || (stat.mode & LOOKING) === LOOKING) return null;
  return stat.mode;
}

/** Gives a directory another mode, unless it has changed meanwhile. */
function setMode(c: Libc, { root, path }: Pick<Closed, "root" | "path">, mode: number, from?: number): boolean {
  const fd = root.fd < 0 ? root.fd : openBelow(c, root.fd, path, O.PATH);
  if (fd < 0) return false;
  try {
    const stat = c.fstat(fd);
    if (typeof stat === "number" || (from !== undefined && stat.mode !== from)) return false;
    // The held directory itself, whatever its name leads to by now.
    Deno.chmodSync(`/proc/self/fd/${fd}`, mode);
    return true;
  } catch {
    return false;
  } finally {
    c.close(fd);
  }
}

function closeAgain(c: Libc, closed: Closed): void {
  setMode(c, closed, closed.mode, closed.mode | LOOKING);
}

/** Opens a directory piece by piece, following no link on the way. */
function openBelow(c: Libc, root: number, path: readonly CString[], access: number = O.RDONLY): number {
  let fd = root;
  for (const [index, piece] of path.entries()) {
    const NO_SYMLINKS_BENEATH = 0x04 | 0x08;
    const flags = (index === path.length - 1 ? access : O.PATH) | O.DIRECTORY;
    let next = c.openat2(fd, piece, flags, 0, NO_SYMLINKS_BENEATH);
    if (next === -ERRNO.ENOSYS || next === -ERRNO.EPERM) next = openStepwise(c, fd, piece, flags);
    if (fd !== root) c.close(fd);
    if (next < 0) return next;
    fd = next;
  }
  return fd;
}

/** Where the kernel has no call for it: one name after the other. */
function openStepwise(c: Libc, start: number, piece: CString, flags: number): number {
  let fd = start;
  let from = 0;
  for (let at = 0; at < piece.length; at++) {
    if (piece[at] !== 0x2f && piece[at] !== 0) continue;
    const name = new Uint8Array(at - from + 1);
    name.set(piece.subarray(from, at));
    // The last of it as it is wanted, what is above only for the way.
    const next = c.openat(fd, name, (piece[at] === 0 ? flags : O.PATH | O.DIRECTORY) | O.NOFOLLOW);
    if (fd !== start) c.close(fd);
    if (next < 0) return next;
    fd = next;
    from = at + 1;
  }
  return fd;
}

function extend(path: readonly CString[], name: CString): CString[] {
  const last = path.at(-1)!;
  // A piece ends in NUL, which makes place for the slash.
  if (last.length + name.length > MAX_PATH_BYTES) return [...path, name];
  const joined = new Uint8Array(last.length + name.length);
  joined.set(last);
  joined[last.length - 1] = 0x2f;
  joined.set(name, last.length);
  return [...path.slice(0, -1), joined];
}

/** What is watched. */
export interface WorkdirBudgetOptions {
  /** The workdir and the records directory's `tmp/`, `home/` and `logs/`. */
  readonly roots: readonly RootedDir[];
  /** `capabilities.resources.workdir_max_bytes`. */
  readonly maxBytes: number;
  /** Milliseconds between walks. */
  readonly interval: number;
  /** Called once, at the first breach. */
  readonly onBreach: (breach: WorkdirBreach) => void;
}

/** The folder grew past its ceiling. */
export interface WorkdirBreach {
  readonly bytes: number;
  readonly maxBytes: number;
}

/** Text of a refused call. */
export function breachRefusal(breach: WorkdirBreach): string {
  return `workdir grew to ${breach.bytes} bytes, past the ${breach.maxBytes} byte ceiling ` +
    "(capabilities.resources.workdir_max_bytes)";
}

/** The error that ends the session. */
export function breachError(breach: WorkdirBreach): MurError {
  return new MurError(
    "E-RUN-013",
    `session ${breachRefusal(breach)}`,
    { hint: "remove what is not needed, or raise capabilities.resources.workdir_max_bytes" },
  );
}

/** Watches the size until it is stopped or the ceiling is passed. The first walk comes after one interval. */
export class WorkdirBudget {
  readonly #options: WorkdirBudgetOptions;
  readonly #stop = new AbortController();
  readonly #before = namelessOfThisProcess();
  #timer: ReturnType<typeof setTimeout> | undefined;
  #breach: WorkdirBreach | null = null;

  constructor(options: WorkdirBudgetOptions) {
    this.#options = options;
    this.#schedule();
  }

  /** The latched breach. */
  get breach(): WorkdirBreach | null {
    return this.#breach;
  }

  #schedule(): void {
    this.#timer = setTimeout(() => void this.#check(), this.#options.interval);
    // It keeps no session alive.
    Deno.unrefTimer(this.#timer);
  }

  async #check(): Promise<void> {
    const { roots, maxBytes, onBreach } = this.#options;
    const bytes = await directorySize(roots, this.#stop.signal) +
      await heldBytes(roots, this.#before, this.#stop.signal);
    if (this.#stop.signal.aborted) return;
    if (bytes <= maxBytes) return this.#schedule();
    this.#breach = { bytes, maxBytes };
    onBreach(this.#breach);
  }

  /** Ends the watch. */
  stop(): void {
    this.#stop.abort();
    clearTimeout(this.#timer);
  }
}
