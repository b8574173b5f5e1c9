/**
 * Reading the body of a request within bounds of size, time and memory (spec door 15).
 *
 * @module
 */

/** Largest body, in bytes. */
export const MAX_BODY_BYTES = 16 << 20;

/** What of a body counts as small: it is read at once and draws on no budget. */
const SMALL_BODY_BYTES = 64 << 10;

/** Bytes of all larger bodies together that are being read. */
const BODY_BUDGET_BYTES = 64 << 20;

/** A body, or why there is none. `gone`: the connection closed before it was whole, so nobody is there to be answered. */
export type ReadBody = Uint8Array | "too_large" | "too_slow" | "no_room" | "gone";

/** Size a request announces; `null` when it announces none. */
export function announcedLength(headers: Headers): number | null {
  const header = headers.get("content-length");
  return header === null || !/^[0-9]+$/.test(header) ? null : Number(header);
}

/** Longest body whose text is tried letter by letter; the letters become arguments of one call. */
const LETTERS = 512;

const UTF_8 = new TextDecoder("utf-8", { fatal: true });

/** The text of a body; one that is no UTF-8 is no JSON either, and an empty text is answered so. */
export function bodyText(body: Uint8Array): string {
  // Most bodies are short and have no other letters. In a loop of its own the decoder is as fast; at a busy door it is not.
  if (body.length <= LETTERS && isAscii(body)) return Reflect.apply(String.fromCharCode, null, body);
  try {
    return UTF_8.decode(body);
  } catch {
    return "";
  }
}

function isAscii(bytes: Uint8Array): boolean {
  for (let at = 0; at < bytes.length; at++) if (bytes[at]! > 0x7f) return false;
  return true;
}

/** A body that is being read. */
interface Reading {
  readonly deadlineMs: number;
  readonly late: () => void;
}

/** Reads bodies; one for all requests of a door. */
export class BodyReader {
  readonly #timeoutMs: number;
  #budget = BODY_BUDGET_BYTES;
  /** In the order of their deadlines. One timer serves them all, since a timer each would be the dearest part of a request. */
  readonly #readings = new Set<Reading>();
  #timer: ReturnType<typeof setTimeout> | null = null;

  constructor(timeoutMs: number) {
    this.#timeoutMs = timeoutMs;
  }

  /** Reads a request's body. @param length What it announces. */
  read(request: Request, length: number | null): Promise<ReadBody> {
    if (length !== null && length > MAX_BODY_BYTES) return Promise.resolve("too_large");
    return length !== null && length <= SMALL_BODY_BYTES ? this.#readAtOnce(request) : this.#readLarge(request);
  }

  async #readLarge(request: Request): Promise<ReadBody> {
    const { promise: late, resolve } = Promise.withResolvers<"too_slow">();
    const reading = this.#reading(() => resolve("too_slow"));
    try {
      return await this.#readInPieces(request, late);
    } finally {
      this.#readings.delete(reading);
    }
  }

  /** The body of most requests; one promise and no race, since this is a good part of what a request costs. */
  #readAtOnce(request: Request): Promise<ReadBody> {
    return new Promise((resolve) => {
      const reading = this.#reading(() => resolve("too_slow"));
      const done = (body: ReadBody) => {
        this.#readings.delete(reading);
        resolve(body);
      };
      request.bytes().then(done, () => done("gone"));
    });
  }

  /** Notes a body that is being read from now on. */
  #reading(late: () => void): Reading {
    const reading: Reading = { deadlineMs: performance.now() + this.#timeoutMs, late };
    this.#readings.add(reading);
    this.#timer ??= this.#timerFor(this.#timeoutMs);
    return reading;
  }

  #timerFor(ms: number): ReturnType<typeof setTimeout> {
    const timer = setTimeout(() => {
      this.#timer = null;
      const now = performance.now();
      for (const { deadlineMs, late } of this.#readings) {
        if (deadlineMs > now) {
          this.#timer = this.#timerFor(deadlineMs - now);
          return;
        }
        late();
      }
    }, ms);
    Deno.unrefTimer(timer);
    return timer;
  }

  async #readInPieces(request: Request, late: Promise<"too_slow">): Promise<ReadBody> {
    if (request.body === null) return new Uint8Array();
    const reader = request.body.getReader();
    const pieces: Uint8Array[] = [];
    let size = 0;
    let drawn = 0;
    try {
      for (;;) {
        const next = await Promise.race([reader.read().catch(() => "gone" as const), late]);
        if (typeof next === "string") return next;
        if (next.done) return joined(pieces, size);
        size += next.value.length;
        if (size > MAX_BODY_BYTES) return "too_large";
        const draw = Math.max(0, size - SMALL_BODY_BYTES - drawn);
        if (draw > this.#budget) return "no_room";
        this.#budget -= draw;
        drawn += draw;
        pieces.push(next.value);
      }
    } finally {
      this.#budget += drawn;
      reader.releaseLock();
    }
  }
}

function joined(pieces: readonly Uint8Array[], size: number): Uint8Array {
  const whole = new Uint8Array(size);
  let at = 0;
  for (const piece of pieces) {
    whole.set(piece, at);
    at += piece.length;
  }
  return whole;
}
