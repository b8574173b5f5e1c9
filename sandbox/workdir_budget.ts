/**
 * The guard of the work folder's size: a walk every ten seconds over what commands may fill; the first breach is latched
 * and from then on no command starts (spec containment 14.3).
 *
 * @module
 */
import { MurError } from "../base/errors.ts";
import { AT_SYMLINK_NOFOLLOW, type CString, ERRNO, type Libc, libc, O } from "../base/libc.ts";
import type { RootedDir } from "../base/rooted_dir.ts";

/** Longest path handed to the kernel at once, with room below its own bound. */
const MAX_PATH_BYTES = 3_500;

/** Milliseconds of walking before other work gets its turn. */
const SLICE_MS = 8;

/**
 * Sum of the sizes of everything but directories below the roots, in bytes. Symbolic links are not followed, what can't be
 * read is passed over. Other work goes on meanwhile.
 *
 * @param stop Ends the walk early; the sum so far is then meaningless.
 */
export async function directorySize(roots: readonly RootedDir[], stop?: AbortSignal): Promise<number> {
  const c = libc();
  const buffer = new Uint8Array(65_536);
  let sum = 0;
  let slice = performance.now();
  for (const root of roots) {
    // Names are bytes: one that is no UTF-8 counts as well. Each is a list of pieces short enough for the kernel.
    const pending: CString[][] = [[Uint8Array.of(0x2e, 0)]];
    for (;;) {
      const path = pending.pop();
      if (path === undefined) break;
      const fd = openBelow(c, root.fd, path);
      if (fd < 0) continue;
      try {
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
              if (!directory) sum += stat.size;
            }
            if (directory) pending.push(extend(path, name));
          }
        }
      } finally {
        c.close(fd);
      }
      if (performance.now() - slice > SLICE_MS) {
        await new Promise((resolve) => setTimeout(resolve, 0));
        if (stop?.aborted || root.fd < 0) return sum;
        slice = performance.now();
      }
    }
  }
  return sum;
}

/** Opens a directory piece by piece, following no link on the way. */
function openBelow(c: Libc, root: number, path: readonly CString[]): number {
  let fd = root;
  for (const piece of path) {
    const NO_SYMLINKS_BENEATH = 0x04 | 0x08;
    let next = c.openat2(fd, piece, O.RDONLY | O.DIRECTORY | O.NONBLOCK, 0, NO_SYMLINKS_BENEATH);
    if (next === -ERRNO.ENOSYS || next === -ERRNO.EPERM) next = openStepwise(c, fd, piece);
    if (fd !== root) c.close(fd);
    if (next < 0) return next;
    fd = next;
  }
  return fd;
}

/** Where the kernel has no call for it: one name after the other. */
function openStepwise(c: Libc, start: number, piece: CString): number {
  let fd = start;
  let from = 0;
  for (let at = 0; at < piece.length; at++) {
    if (piece[at] !== 0x2f && piece[at] !== 0) continue;
    const name = new Uint8Array(at - from + 1);
    name.set(piece.subarray(from, at));
    const next = c.openat(fd, name, O.RDONLY | O.DIRECTORY | O.NOFOLLOW | O.NONBLOCK);
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
  /** The workdir and the records directory's `tmp/` and `home/`. */
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
    const bytes = await directorySize(roots, this.#stop.signal);
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
