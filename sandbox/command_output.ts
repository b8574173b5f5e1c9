/**
 * One output stream of a command: its first bytes in memory, all of it in a spool file once it is longer (spec
 * containment 13.3). Memory is bounded whatever a command writes.
 *
 * @module
 */
import type { RootedDir, RootedFile } from "../base/rooted_dir.ts";

/** Bytes of each stream that the model sees. */
export const SHELL_OUTPUT_LIMIT = 16_384;

/** Most bytes of one stream that are kept on disk; what is beyond is counted and dropped. */
export const SPOOL_LIMIT = 4_294_967_296;

/** Collects one stream. */
export class CommandOutput {
  readonly #keep: number;
  readonly #spoolDir: RootedDir | null;
  readonly #spoolLimit: number;
  #head = new Uint8Array(1_024);
  #kept = 0;
  #total = 0;
  #spool: RootedFile | null = null;
  #spooled = 0;
  #spoolFailed = false;

  /**
   * @param keep Bytes held in memory.
   * @param spoolDir Where the rest may go; without it, it is counted and dropped.
   */
  constructor(keep: number, spoolDir: RootedDir | null, spoolLimit: number = SPOOL_LIMIT) {
    this.#keep = keep;
    this.#spoolDir = spoolDir;
    this.#spoolLimit = spoolLimit;
  }

  /** Takes the next bytes. Never throws: a disk that is full loses the spool, not the command. */
  write(chunk: Uint8Array<ArrayBuffer>): void {
    const before = this.#total;
    this.#total += chunk.length;
    if (this.#kept < this.#keep) {
      const part = chunk.subarray(0, this.#keep - this.#kept);
      while (this.#head.length < this.#kept + part.length) {
        const grown = new Uint8Array(Math.min(this.#keep, this.#head.length * 4));
        grown.set(this.#head.subarray(0, this.#kept));
        this.#head = grown;
      }
      this.#head.set(part, this.#kept);
      this.#kept += part.length;
    }
    if (this.#total <= this.#keep || this.#spoolDir === null || this.#spoolFailed) return;
    try {
      if (this.#spool === null) {
        this.#spool = openUnnamed(this.#spoolDir);
        this.#append(this.head);
        // The head may hold the first part of this chunk already.
        chunk = chunk.subarray(this.#kept - before);
      }
      this.#append(chunk);
    } catch {
      this.#spoolFailed = true;
    }
  }

  #append(bytes: Uint8Array<ArrayBuffer>): void {
    const part = bytes.subarray(0, Math.max(0, this.#spoolLimit - this.#spooled));
    this.#spool!.write(this.#spooled, part);
    this.#spooled += part.length;
  }

  /** The first bytes. */
  get head(): Uint8Array<ArrayBuffer> {
    return this.#head.subarray(0, this.#kept);
  }

  /** All bytes that came. */
  get total(): number {
    return this.#total;
  }

  /** Whether more came than is held in memory. */
  get overflowed(): boolean {
    return this.#total > this.#keep;
  }

  /** The first bytes as text; what is no UTF-8 is replaced. */
  text(): string {
    return decoder.decode(this.head);
  }

  /**
   * Writes all of it into a file at `offset`; the offset behind it.
   *
   * @throws {RootedError} When it can't be read or written.
   */
  copyTo(file: RootedFile, offset: number): number {
    if (this.#spool === null || this.#spoolFailed) {
      file.write(offset, this.head);
      offset += this.#kept;
    } else {
      const buffer = new Uint8Array(65_536);
      for (let at = 0; at < this.#spooled;) {
        const count = this.#spool.read(at, buffer);
        if (count === 0) break;
        file.write(offset, buffer.subarray(0, count));
        at += count;
        offset += count;
      }
    }
    const lost = this.#total - (this.#spool === null || this.#spoolFailed ? this.#kept : this.#spooled);
    if (lost === 0) return offset;
    const note = encoder.encode(`\n[${lost} more bytes could not be kept]`);
    file.write(offset, note);
    return offset + note.length;
  }

  /** Lets go of the spool. */
  close(): void {
    this.#spool?.close();
    this.#spool = null;
  }
}

const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
const encoder = new TextEncoder();

/** A file that has no name any more, so that no crash leaves it behind. */
function openUnnamed(dir: RootedDir): RootedFile {
  const name = `.spool-${crypto.randomUUID()}`;
  const file = dir.openFile(name, { read: true, write: true, createNew: true, mode: 0o600 });
  try {
    dir.unlink(name);
  } catch (error) {
    file.close();
    throw error;
  }
  return file;
}
