/**
 * Reading many small files one after another by the kernel's own calls, three each and nothing else.
 *
 * @module
 */
import { AT_FDCWD, ERRNO, type Libc, O } from "./libc.ts";

const FIRST_ROOM = 8_192;
const MAX_PATH = 4_096;

/** Reads files that may have so many bytes. */
export class SmallFileReader {
  readonly #c: Libc;
  readonly #maxBytes: number;
  readonly #path = new Uint8Array(MAX_PATH);
  #room = new Uint8Array(FIRST_ROOM);
  readonly #encoder = new TextEncoder();
  readonly #decoder = new TextDecoder();

  constructor(c: Libc, maxBytes: number) {
    this.#c = c;
    this.#maxBytes = maxBytes;
  }

  /**
   * The text of a file. A link is not followed, and a pipe is not waited for: it is empty.
   *
   * @param path Absolute.
   * @returns A negative error number when it cannot be read, `EFBIG`'s when it is too long.
   */
  read(path: string): string | number {
    const { written } = this.#encoder.encodeInto(path, this.#path);
    if (3 * path.length >= MAX_PATH || path.includes("\0")) return -ERRNO.ENAMETOOLONG;
    this.#path[written] = 0;
    const fd = this.#c.openat(AT_FDCWD, this.#path, O.RDONLY | O.NOFOLLOW | O.NONBLOCK | O.NOCTTY);
    if (fd < 0) return fd;
    try {
      let held = 0;
      for (;;) {
        const count = this.#c.read(fd, held === 0 ? this.#room : this.#room.subarray(held));
        if (count < 0) return count;
        held += count;
        if (held > this.#maxBytes) return -ERRNO.EFBIG;
        // A read that leaves room has come to the end; what makes its content as it is read gives it in one piece.
        if (held < this.#room.length) return this.#decoder.decode(this.#room.subarray(0, held));
        const larger = new Uint8Array(2 * held);
        larger.set(this.#room);
        this.#room = larger;
      }
    } finally {
      this.#c.close(fd);
    }
  }
}
