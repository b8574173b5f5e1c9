/**
 * Descriptors that are opened one after another and closed together. Their numbers mostly follow one another, and then one
 * call closes all of them.
 *
 * @module
 */
import type { Libc } from "./libc.ts";

/** How many are held: so few that the process's table of descriptors does not grow, which takes milliseconds. */
export const ROW = 16;

/** Up to {@linkcode ROW} descriptors. */
export class DescriptorRow implements Disposable {
  readonly #c: Libc;
  readonly #held: number[] = [];
  /** Whether each is the one after the one before: then there is none between them that is somebody else's. */
  #isRow = true;

  constructor(c: Libc) {
    this.#c = c;
  }

  get size(): number {
    return this.#held.length;
  }

  /** Holds one more; whoever adds the last one there is room for closes them. */
  add(descriptor: number): void {
    const { length } = this.#held;
    if (length > 0 && descriptor !== this.#held[length - 1]! + 1) this.#isRow = false;
    this.#held.push(descriptor);
  }

  /** Closes all of them. */
  close(): void {
    const { length } = this.#held;
    if (length === 0) return;
    // Kernels before 5.9 have no such call.
    if (!this.#isRow || this.#c.closeRange(this.#held[0]!, this.#held[length - 1]!) < 0) {
      for (const descriptor of this.#held) this.#c.close(descriptor);
    }
    this.#held.length = 0;
    this.#isRow = true;
  }

  [Symbol.dispose](): void {
    this.close();
  }
}
