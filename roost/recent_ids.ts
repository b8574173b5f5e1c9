/**
 * Ids that are remembered with a number each, up to so many: the oldest go first. Made to hold tens of thousands for little,
 * and to leave nothing to collect: an id is kept as sixteen bytes that stand for it, whatever it is.
 *
 * @module
 */
import { sha256 } from "@noble/hashes/sha2.js";

/** Words of 32 bits that stand for an id. Nobody outside can make two ids of the same. */
const WORDS = 4;

/** Fewest entries there is room for; a power of two, as all sizes are. */
const MIN_ROOM = 64;

const SEED_BYTES = 32;
/** The seed, and behind it the id that is asked for. */
const input = new Uint8Array(SEED_BYTES + 4 * 1_024);
crypto.getRandomValues(input.subarray(0, SEED_BYTES));
const encoder = new TextEncoder();
const hasher = sha256.create();
const work = hasher.clone();
const digest = new Uint8Array(32);
/** What stands for the id that is asked for. */
const asked = new Uint32Array(digest.buffer, 0, WORDS);

function ask(id: string): void {
  const room = input.subarray(SEED_BYTES);
  const fits = 3 * id.length <= room.length;
  const bytes = fits
    ? input.subarray(0, SEED_BYTES + encoder.encodeInto(id, room).written)
    : input.slice(0, SEED_BYTES);
  hasher._cloneInto(work).update(bytes);
  if (!fits) work.update(encoder.encode(id));
  work.digestInto(digest);
}

/** Ids and their numbers, first in, first out. */
export class RecentIds {
  readonly #max: number;
  /** Entries, around a ring: what stands for the id, and its number. */
  #ids = new Uint32Array(WORDS * MIN_ROOM);
  #numbers = new Float64Array(MIN_ROOM);
  /** Places of entries, plus one, each in the first free slot behind the one its first word names; 0 where there is none. */
  #slots = new Uint32Array(2 * MIN_ROOM);
  #oldest = 0;
  #size = 0;

  /** @param max Entries that are remembered. */
  constructor(max: number) {
    this.#max = max;
  }

  get size(): number {
    return this.#size;
  }

  /** The number of an id. */
  get(id: string): number | undefined {
    ask(id);
    const place = this.#slots[this.#slotOf(asked, 0)]!;
    return place === 0 ? undefined : this.#numbers[place - 1];
  }

  has(id: string): boolean {
    return this.get(id) !== undefined;
  }

  /** Adds an id that is not there. When there are as many as are remembered, the oldest goes. */
  add(id: string, number: number): void {
    if (this.#size === this.#max) this.shift();
    if (this.#size === this.#numbers.length) this.#grow();
    ask(id);
    this.#put(asked, 0, number);
  }

  /** The number of the oldest. */
  peek(): number | undefined {
    return this.#size === 0 ? undefined : this.#numbers[this.#oldest];
  }

  /** Forgets the oldest. */
  shift(): void {
    if (this.#size === 0) return;
    const slots = this.#slots;
    const mask = slots.length - 1;
    let free = this.#slotOf(this.#ids, WORDS * this.#oldest);
    // Those behind it that would be looked for from before it move up.
    for (let slot = (free + 1) & mask; slots[slot] !== 0; slot = (slot + 1) & mask) {
      const first = this.#ids[WORDS * (slots[slot]! - 1)]! & mask;
      if (((slot - first) & mask) < ((slot - free) & mask)) continue;
      slots[free] = slots[slot]!;
      free = slot;
    }
    slots[free] = 0;
    this.#oldest = (this.#oldest + 1) & (this.#numbers.length - 1);
    this.#size--;
  }

  /** Where an id is, or would be. */
  #slotOf(words: Uint32Array, at: number): number {
    const slots = this.#slots;
    const ids = this.#ids;
    const mask = slots.length - 1;
    let slot = words[at]! & mask;
    for (let place = slots[slot]!; place !== 0; place = slots[slot]!) {
      const held = WORDS * (place - 1);
      if (
        ids[held] === words[at] && ids[held + 1] === words[at + 1] && ids[held + 2] === words[at + 2] &&
        ids[held + 3] === words[at + 3]
      ) break;
      slot = (slot + 1) & mask;
    }
    return slot;
  }

  #put(words: Uint32Array, at: number, number: number): void {
    const place = (this.#oldest + this.#size) & (this.#numbers.length - 1);
    this.#slots[this.#slotOf(words, at)] = place + 1;
    this.#ids.set(words.subarray(at, at + WORDS), WORDS * place);
    this.#numbers[place] = number;
    this.#size++;
  }

  #grow(): void {
    const ids = this.#ids;
    const numbers = this.#numbers;
    const [oldest, size] = [this.#oldest, this.#size];
    this.#ids = new Uint32Array(2 * ids.length);
    this.#numbers = new Float64Array(2 * numbers.length);
    this.#slots = new Uint32Array(2 * this.#slots.length);
    this.#oldest = this.#size = 0;
    for (let count = 0; count < size; count++) {
      const place = (oldest + count) & (numbers.length - 1);
      this.#put(ids, WORDS * place, numbers[place]!);
    }
  }
}
