/**
 * Whether a file or directory is still in the state it was in before, asked again and again: identity, size and the times
 * of its last changes. Links are not followed. Where the kernel can be asked directly, an answer takes about a microsecond.
 *
 * @module
 */
import { AT_SYMLINK_NOFOLLOW, cString, ERRNO, type Libc, libc, STATX_BYTES } from "./libc.ts";

/** What is found at a path. `unreadable` tells nothing. */
export type FileState = "there" | "absent" | "unreadable";

/**
 * How long after a change, in milliseconds, another may leave the same times: on file systems that keep parts of seconds,
 * and on those that keep none.
 */
const RACY_MS = { fine: 100, coarse: 2_500 };

/** Words of 32 bits in what `statx` writes: mode, inode, size, device, then seconds and nanoseconds of both changes. */
const STATX_WORDS: readonly number[] = [7, 8, 9, 10, 11, 34, 35, 24, 26, 28, 30];
const CHANGED = 7;
const MODIFIED = 9;

/** What the kernel writes into; taken over at once. */
const BYTES = new Uint8Array(STATX_BYTES);
const WORDS = new Uint32Array(BYTES.buffer);

/** The state of one path. */
export class FileStamp {
  readonly #path: string;
  readonly #libc: Libc | null;
  readonly #name: Uint8Array<ArrayBuffer>;
  readonly #found = new Float64Array(STATX_WORDS.length);
  readonly #kept = new Float64Array(STATX_WORDS.length);
  #isKept = false;

  /** @param askKernel False asks as any system allows. */
  constructor(path: string, askKernel = Deno.build.os === "linux") {
    const name = cString(path);
    this.#path = path;
    this.#libc = askKernel && name !== null ? openLibc() : null;
    this.#name = name ?? new Uint8Array(1);
  }

  /** Looks at the path. */
  look(): FileState {
    return this.#libc === null ? this.#lookThroughDeno() : this.#lookThroughKernel(this.#libc);
  }

  /** Looks at the path: whether its state is the kept one. */
  isUnchanged(): boolean {
    if (!this.#isKept || this.look() !== "there") return false;
    for (let index = 0; index < this.#kept.length; index++) {
      if (this.#kept[index] !== this.#found[index]) return false;
    }
    return true;
  }

  /**
   * Keeps what the last look found, so that every later change shows. When the last change is so late that another could
   * leave the same times, nothing is kept.
   *
   * @param lookedAt `Date.now()` of before that look.
   * @returns Whether it was kept.
   */
  keep(lookedAt: number): boolean {
    const found = this.#found;
    const isCoarse = found[CHANGED + 1] === 0 && found[MODIFIED + 1] === 0;
    const time = (at: number) => found[at]! * 1_000 + found[at + 1]! / 1e6;
    const latest = Math.max(time(CHANGED), time(MODIFIED));
    this.#isKept = latest + (isCoarse ? RACY_MS.coarse : RACY_MS.fine) < lookedAt;
    if (this.#isKept) this.#kept.set(found);
    return this.#isKept;
  }

  #lookThroughKernel(c: Libc): FileState {
    const result = c.statxInto(this.#name, AT_SYMLINK_NOFOLLOW, BYTES);
    if (result < 0) return result === -ERRNO.ENOENT ? "absent" : "unreadable";
    for (let index = 0; index < STATX_WORDS.length; index++) this.#found[index] = WORDS[STATX_WORDS[index]!]!;
    return "there";
  }

  #lookThroughDeno(): FileState {
    let info: Deno.FileInfo;
    try {
      info = Deno.lstatSync(this.#path);
    } catch (error) {
      return error instanceof Deno.errors.NotFound ? "absent" : "unreadable";
    }
    const { mode, ino, size, dev, ctime, mtime } = info;
    const time = (date: Date | null) => {
      const ms = date?.getTime() ?? 0;
      return [Math.floor(ms / 1_000), (ms % 1_000) * 1e6];
    };
    this.#found.set([mode ?? 0, ino ?? 0, 0, size, 0, dev, 0, ...time(ctime ?? mtime), ...time(mtime)]);
    return "there";
  }
}

function openLibc(): Libc | null {
  try {
    return libc();
  } catch {
    return null;
  }
}
