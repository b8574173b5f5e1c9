/**
 * Answers too large to be handed to the HTTP server whole (spec door 15): it would keep all of each for a reader that takes
 * nothing, on as many connections as there are. They are written piece by piece as they are read, and share a bound.
 *
 * @module
 */
import { piecewiseBody } from "./piecewise_body.ts";

/** Up to so many bytes an answer is handed over whole: about what a socket takes by itself. */
export const SMALL_ANSWER_BYTES = 64 << 10;

/** Bytes of all large answers together that are being written. One alone may be larger. */
const ANSWER_BUDGET_BYTES = 64 << 20;

/** Writes the large answers of one door. */
export class LargeAnswers {
  readonly #stallMs: number;
  #held = 0;
  readonly #cuts = new Set<() => void>();

  /** @param stallMs An answer of which nothing was taken for so long is broken off. */
  constructor(stallMs: number) {
    this.#stallMs = stallMs;
  }

  /** The body of an answer; `null` when there is no room for it beside those that are being written. */
  open(bytes: Uint8Array<ArrayBuffer>): ReadableStream<Uint8Array<ArrayBuffer>> | null {
    if (this.#held > 0 && this.#held + bytes.length > ANSWER_BUDGET_BYTES) return null;
    this.#held += bytes.length;
    const { stream, cut } = piecewiseBody(bytes, {
      pieceBytes: SMALL_ANSWER_BYTES,
      stallMs: this.#stallMs,
      ended: () => {
        this.#held -= bytes.length;
        this.#cuts.delete(cut);
      },
    });
    this.#cuts.add(cut);
    return stream;
  }

  /** Breaks off what is being written. */
  cut(): void {
    for (const cut of [...this.#cuts]) cut();
  }
}
