/**
 * A map by text for entries that come and go all the time.
 *
 * When a `Map` makes room it leaves its old table behind, which points at the new one. Once a table has grown old, the engine
 * takes each that follows for living, with all that it points at, until it looks through the whole heap: a map of sixteen
 * entries leaves 140 bytes behind for each that came and went. This one keeps its entries in two lists for good.
 *
 * @module
 */

/** Fewest slots; a power of two, as all sizes are. */
const MIN_SLOTS = 16;

/** Nobody outside knows which texts meet in a slot. */
const [SEED, FACTOR] = crypto.getRandomValues(new Int32Array(2)).map((value) => value | 1) as unknown as [
  number,
  number,
];

function hashOf(key: string): number {
  let hash = SEED;
  for (let at = 0; at < key.length; at++) {
    hash = Math.imul(hash ^ key.charCodeAt(at), FACTOR);
    hash ^= hash >>> 15;
  }
  return hash >>> 0;
}

/** Entries by text, in no order. */
export class SlotMap<V> {
  /** The keys, each in the first free slot behind the one its hash names; `null` where there is none. */
  #keys: (string | null)[] = new Array(MIN_SLOTS).fill(null);
  #values: (V | undefined)[] = new Array(MIN_SLOTS).fill(undefined);
  #size = 0;

  get size(): number {
    return this.#size;
  }

  has(key: string): boolean {
    return this.#keys[this.#slotOf(key)] !== null;
  }

  get(key: string): V | undefined {
    return this.#values[this.#slotOf(key)];
  }

  set(key: string, value: V): void {
    let slot = this.#slotOf(key);
    if (this.#keys[slot] === null) {
      if (2 * ++this.#size > this.#keys.length) {
        this.#grow();
        slot = this.#slotOf(key);
      }
      this.#keys[slot] = key;
    }
    this.#values[slot] = value;
  }

  /** @returns Whether it was there. */
  delete(key: string): boolean {
    const keys = this.#keys;
    const values = this.#values;
    const mask = keys.length - 1;
    let free = this.#slotOf(key);
    if (keys[free] === null) return false;
    this.#size--;
    // Those behind it that would be looked for from before it move up.
    for (let slot = (free + 1) & mask; keys[slot] !== null; slot = (slot + 1) & mask) {
      const first = hashOf(keys[slot]!) & mask;
      if (((slot - first) & mask) < ((slot - free) & mask)) continue;
      keys[free] = keys[slot]!;
      values[free] = values[slot];
      free = slot;
    }
    keys[free] = null;
    values[free] = undefined;
    return true;
  }

  /** The entries. Values may be replaced meanwhile, entries neither added nor deleted. */
  *[Symbol.iterator](): Generator<[string, V]> {
    for (const [slot, key] of this.#keys.entries()) if (key !== null) yield [key, this.#values[slot]!];
  }

  /** Where a key is, or would be. */
  #slotOf(key: string): number {
    const keys = this.#keys;
    const mask = keys.length - 1;
    let slot = hashOf(key) & mask;
    for (let held = keys[slot]!; held !== null && held !== key; held = keys[slot]!) slot = (slot + 1) & mask;
    return slot;
  }

  #grow(): void {
    const keys = this.#keys;
    const values = this.#values;
    this.#keys = new Array(2 * keys.length).fill(null);
    this.#values = new Array(2 * keys.length).fill(undefined);
    keys.forEach((key, slot) => {
      if (key === null) return;
      const to = this.#slotOf(key);
      this.#keys[to] = key;
      this.#values[to] = values[slot];
    });
  }
}
