/**
 * A queue whose oldest entry is at hand at once, however many have left. A `Map` keeps holes at its front, which every look
 * at its first entry would step over.
 *
 * @module
 */

/** Fewest entries that have left before the rest is moved up. */
const MOVE_UP = 1_024;

/** First in, first out. */
export class Fifo<T> {
  #entries: T[] = [];
  #left = 0;

  get size(): number {
    return this.#entries.length - this.#left;
  }

  push(entry: T): void {
    this.#entries.push(entry);
  }

  /** The oldest entry. */
  peek(): T | undefined {
    return this.#entries[this.#left];
  }

  /** Takes the oldest entry. */
  shift(): T | undefined {
    if (this.size === 0) return undefined;
    const entry = this.#entries[this.#left++];
    if (this.#left >= MOVE_UP && 2 * this.#left >= this.#entries.length) this.#moveUp(() => true);
    return entry;
  }

  /** Lets go of all entries but those that are wanted. */
  keep(wanted: (entry: T) => boolean): void {
    this.#moveUp(wanted);
  }

  #moveUp(wanted: (entry: T) => boolean): void {
    this.#entries = this.#entries.slice(this.#left).filter(wanted);
    this.#left = 0;
  }
}
