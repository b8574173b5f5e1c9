/**
 * Reading many small files of a directory by the kernel's own calls, three each and nothing else.
 *
 * @module
 */
import { DescriptorRow, ROW } from "./descriptor_row.ts";
import { AT_FDCWD, cString, ERRNO, type Libc, O } from "./libc.ts";

const MAX_PATH = 4_096;

/** Bytes that are turned into text in one go: a call for each file takes half as long as reading it. */
const BATCH = 65_536;

/** Room that there is for a file at least, before there is made more. */
const FIRST_ROOM = 8_192;

/** Reads files that may have so many bytes each. */
export class SmallFileReader implements Disposable {
  readonly #c: Libc;
  readonly #maxBytes: number;
  readonly #dir: number;
  readonly #path = new Uint8Array(MAX_PATH);
  #room = new Uint8Array(BATCH + FIRST_ROOM);
  readonly #encoder = new TextEncoder();
  /** What a file begins with is part of it, as for Deno. */
  readonly #decoder = new TextDecoder("utf-8", { ignoreBOM: true });

  /**
   * @param dir Absolute path. It is looked up once: its files are found below it, wherever it is moved. When it cannot be
   * opened, each of them answers why.
   */
  constructor(c: Libc, dir: string, maxBytes: number) {
    this.#c = c;
    this.#maxBytes = maxBytes;
    const path = cString(dir);
    this.#dir = path === null ? -ERRNO.ENOENT : c.openat(AT_FDCWD, path, O.PATH | O.DIRECTORY);
  }

  [Symbol.dispose](): void {
    if (this.#dir >= 0) this.#c.close(this.#dir);
  }

  /**
   * The texts of files. A link is not followed, and a pipe is not waited for: it is empty.
   *
   * @param paths Below the directory.
   * @returns For one that cannot be read a negative error number, `EFBIG`'s for one that is too long.
   */
  readAll(paths: readonly string[]): readonly (string | number)[] {
    using open = new DescriptorRow(this.#c);
    const results: (string | number)[] = [];
    /** Files in the room: which they are, and where each ends. */
    const places: number[] = [];
    const ends: number[] = [];
    let held = 0;
    const settle = () => {
      const text = this.#decoder.decode(this.#room.subarray(0, held));
      // Then each byte is a character of its own: none can be more, so none is less.
      const isSplit = text.length === held;
      let begin = 0;
      for (let index = 0; index < places.length; index++) {
        const end = ends[index]!;
        results[places[index]!] = isSplit
          ? text.slice(begin, end)
          : this.#decoder.decode(this.#room.subarray(begin, end));
        begin = end;
      }
      places.length = ends.length = held = 0;
    };
    for (let place = 0; place < paths.length; place++) {
      if (held > BATCH) settle();
      const length = this.#readBehind(held, paths[place]!, open);
      results.push(length);
      if (length < 0) continue;
      held += length;
      places.push(place);
      ends.push(held);
    }
    settle();
    return results;
  }

  /**
   * Reads a file into the room behind so many bytes of it.
   *
   * @param open Holds its descriptor, and those of files before it.
   * @returns How long it is, or a negative error number.
   */
  #readBehind(held: number, path: string, open: DescriptorRow): number {
    if (this.#dir < 0) return this.#dir;
    const { written } = this.#encoder.encodeInto(path, this.#path);
    if (3 * path.length >= MAX_PATH || path.includes("\0")) return -ERRNO.ENAMETOOLONG;
    this.#path[written] = 0;
    const fd = this.#open(open);
    if (fd < 0) return fd;
    let end = held;
    for (;;) {
      const count = this.#c.read(fd, this.#room.subarray(end));
      if (count < 0) return count;
      end += count;
      if (end - held > this.#maxBytes) return -ERRNO.EFBIG;
      // A read that leaves room has come to the end; what makes its content as it is read gives it in one piece.
      if (end < this.#room.length) return end - held;
      const larger = new Uint8Array(2 * end);
      larger.set(this.#room);
      this.#room = larger;
    }
  }

  /** Opens what the path names. */
  #open(open: DescriptorRow): number {
    const flags = O.RDONLY | O.NOFOLLOW | O.NONBLOCK | O.NOCTTY;
    if (open.size === ROW) open.close();
    let fd = this.#c.openat(this.#dir, this.#path, flags);
    if (fd === -ERRNO.EMFILE && open.size > 0) {
      open.close();
      fd = this.#c.openat(this.#dir, this.#path, flags);
    }
    if (fd >= 0) open.add(fd);
    return fd;
  }
}
