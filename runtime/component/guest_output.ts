/**
 * What a guest writes to its standard output and error, cut into lines for whoever shows it; of a tool or driver at most
 * 1 MiB a call, the rest counted and dropped (spec components 3.5).
 *
 * @module
 */

/** Bytes of output passed on per call of a tool or driver. */
export const MAX_STDIO_BYTES = 1 << 20;

/** A line longer than this is passed on in pieces. */
const MAX_LINE_BYTES = 64 << 10;

type StreamName = "stdout" | "stderr";

/** Takes bytes, gives lines. */
export class GuestOutput {
  readonly #sink: ((stream: StreamName, line: string) => void) | undefined;
  #left: number;
  #dropped = 0;
  readonly #held: Record<StreamName, { bytes: Uint8Array; length: number }> = {
    stdout: { bytes: new Uint8Array(0), length: 0 },
    stderr: { bytes: new Uint8Array(0), length: 0 },
  };

  /** @param bounded Whether the bound for tools and drivers holds. */
  constructor(sink: ((stream: StreamName, line: string) => void) | undefined, bounded: boolean) {
    this.#sink = sink;
    this.#left = bounded ? MAX_STDIO_BYTES : Infinity;
  }

  write(stream: StreamName, bytes: Uint8Array): void {
    const passed = bytes.subarray(0, this.#left);
    this.#left -= passed.length;
    this.#dropped += bytes.length - passed.length;
    let from = 0;
    for (let at = passed.indexOf(10); at !== -1; at = passed.indexOf(10, from)) {
      this.#hold(stream, passed.subarray(from, at));
      this.#emit(stream);
      from = at + 1;
    }
    this.#hold(stream, passed.subarray(from));
  }

  /** The host dropped bytes itself. */
  dropped(bytes: number): void {
    this.#dropped += bytes;
  }

  /** Passes on lines without an end, and says how much was dropped. */
  finish(): void {
    for (const stream of ["stdout", "stderr"] as const) {
      if (this.#held[stream].length > 0) this.#emit(stream);
    }
    if (this.#dropped > 0) {
      this.#sink?.("stderr", `(${this.#dropped} bytes of output beyond ${MAX_STDIO_BYTES} were dropped)`);
      this.#dropped = 0;
    }
  }

  #hold(stream: StreamName, bytes: Uint8Array): void {
    const held = this.#held[stream];
    for (let at = 0; at < bytes.length;) {
      const part = bytes.subarray(at, at + MAX_LINE_BYTES - held.length);
      at += part.length;
      if (held.length + part.length > held.bytes.length) {
        const grown = new Uint8Array(Math.min(MAX_LINE_BYTES, Math.max(256, 2 * (held.length + part.length))));
        grown.set(held.bytes.subarray(0, held.length));
        held.bytes = grown;
      }
      held.bytes.set(part, held.length);
      held.length += part.length;
      if (held.length === MAX_LINE_BYTES) this.#emit(stream);
    }
  }

  #emit(stream: StreamName): void {
    const held = this.#held[stream];
    const line = new TextDecoder().decode(held.bytes.subarray(0, held.length));
    held.length = 0;
    this.#sink?.(stream, line.endsWith("\r") ? line.slice(0, -1) : line);
  }
}
