/**
 * The `err` of a WASI result. The glue code takes what a host function throws: a value with a `payload` of its own is the
 * `err` of the declared result, anything else a trap.
 *
 * @module
 */

/** Thrown by a host function whose result is `err(payload)`. Deliberately no `Error`: no stack is needed. */
export class Refusal {
  readonly payload: unknown;

  constructor(payload?: unknown) {
    this.payload = payload;
  }
}
