/**
 * Inflating small pieces of data (RFC 1951) in one go. The platform's own decompression is a stream; loading streams costs
 * a launch more than reading all its packed manifests this way.
 *
 * @module
 */

/** Symbols by length of their code and place among the codes of that length, as RFC 1951, 3.2.2 numbers them. */
interface Codes {
  /** How many codes there are of each length. */
  readonly counts: Uint16Array;
  readonly symbols: Uint16Array;
}

const MAX_BITS = 15;
const END_OF_BLOCK = 256;

const LENGTH_BASE = [3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 15, 17, 19, 23, 27, 31, 35, 43, 51, 59, 67, 83, 99, 115, 131]
  .concat([163, 195, 227, 258]);
const LENGTH_EXTRA = [0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0];
const DISTANCE_BASE = [1, 2, 3, 4, 5, 7, 9, 13, 17, 25, 33, 49, 65, 97, 129, 193, 257, 385, 513, 769, 1025, 1537, 2049]
  .concat([3073, 4097, 6145, 8193, 12289, 16385, 24577]);
const DISTANCE_EXTRA = [
  0,
  0,
  0,
  0,
  1,
  1,
  2,
  2,
  3,
  3,
  4,
  4,
  5,
  5,
  6,
  6,
  7,
  7,
  8,
  8,
  9,
  9,
  10,
  10,
  11,
  11,
  12,
  12,
  13,
  13,
];
/** Order in which the lengths of the code of lengths are written. */
const LENGTH_ORDER = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];

/** The data is no deflate stream, or not the whole of one. */
class DamagedData extends Error {
  override readonly name = "DamagedData";
}

/** Codes from their lengths. Over-subscribed sets are refused; incomplete ones only when a missing code is met. */
function codesOf(lengths: ArrayLike<number>): Codes {
  const counts = new Uint16Array(MAX_BITS + 1);
  for (let symbol = 0; symbol < lengths.length; symbol++) counts[lengths[symbol]!]!++;
  counts[0] = 0;
  const offsets = new Uint16Array(MAX_BITS + 2);
  let left = 1;
  for (let length = 1; length <= MAX_BITS; length++) {
    left = left * 2 - counts[length]!;
    if (left < 0) throw new DamagedData("more codes than there can be");
    offsets[length + 1] = offsets[length]! + counts[length]!;
  }
  const symbols = new Uint16Array(lengths.length);
  for (let symbol = 0; symbol < lengths.length; symbol++) {
    if (lengths[symbol] !== 0) symbols[offsets[lengths[symbol]!]!++] = symbol;
  }
  return { counts, symbols };
}

class Inflater {
  readonly #packed: Uint8Array;
  readonly #content: Uint8Array<ArrayBuffer>;
  #at = 0;
  #held = 0;
  #heldBits = 0;
  #made = 0;

  constructor(packed: Uint8Array, size: number) {
    this.#packed = packed;
    this.#content = new Uint8Array(size);
  }

  /** The content; `null` when there would be more than the size. */
  run(): Uint8Array<ArrayBuffer> | null {
    for (let last = false; !last;) {
      last = this.#bits(1) === 1;
      const form = this.#bits(2);
      if (form === 3) throw new DamagedData("a block of no known form");
      const fits = form === 0 ? this.#stored() : form === 1 ? this.#block(FIXED) : this.#block(this.#codes());
      if (!fits) return null;
    }
    if (this.#at !== this.#packed.length) throw new DamagedData("bytes behind the end");
    return this.#content.subarray(0, this.#made);
  }

  #bits(count: number): number {
    while (this.#heldBits < count) {
      if (this.#at === this.#packed.length) throw new DamagedData("it ends too early");
      this.#held |= this.#packed[this.#at++]! << this.#heldBits;
      this.#heldBits += 8;
    }
    const value = this.#held & ((1 << count) - 1);
    this.#held >>>= count;
    this.#heldBits -= count;
    return value;
  }

  #symbol({ counts, symbols }: Codes): number {
    let code = 0;
    let first = 0;
    let index = 0;
    for (let length = 1; length <= MAX_BITS; length++) {
      code |= this.#bits(1);
      const count = counts[length]!;
      if (code - first < count) return symbols[index + code - first]!;
      index += count;
      first = (first + count) << 1;
      code <<= 1;
    }
    throw new DamagedData("a code that stands for nothing");
  }

  #stored(): boolean {
    this.#held = this.#heldBits = 0;
    const length = this.#bits(16);
    if (this.#bits(16) !== (length ^ 0xffff)) throw new DamagedData("a length that contradicts itself");
    if (this.#at + length > this.#packed.length) throw new DamagedData("it ends too early");
    if (this.#made + length > this.#content.length) return false;
    this.#content.set(this.#packed.subarray(this.#at, this.#at + length), this.#made);
    this.#at += length;
    this.#made += length;
    return true;
  }

  #codes(): readonly [Codes, Codes] {
    const literals = this.#bits(5) + 257;
    const distances = this.#bits(5) + 1;
    const given = this.#bits(4) + 4;
    if (literals > 286 || distances > 30) throw new DamagedData("more symbols than there are");
    const own = new Uint8Array(LENGTH_ORDER.length);
    for (let index = 0; index < given; index++) own[LENGTH_ORDER[index]!] = this.#bits(3);
    const code = codesOf(own);
    const lengths = new Uint8Array(literals + distances);
    for (let index = 0; index < lengths.length;) {
      const symbol = this.#symbol(code);
      if (symbol < 16) {
        lengths[index++] = symbol;
        continue;
      }
      if (symbol === 16 && index === 0) throw new DamagedData("nothing to repeat");
      const repeated = symbol === 16 ? lengths[index - 1]! : 0;
      const times = symbol === 16 ? 3 + this.#bits(2) : symbol === 17 ? 3 + this.#bits(3) : 11 + this.#bits(7);
      if (index + times > lengths.length) throw new DamagedData("more lengths than symbols");
      lengths.fill(repeated, index, index += times);
    }
    if (lengths[END_OF_BLOCK] === 0) throw new DamagedData("a block without an end");
    return [codesOf(lengths.subarray(0, literals)), codesOf(lengths.subarray(literals))];
  }

  #block([literals, distances]: readonly [Codes, Codes]): boolean {
    for (;;) {
      const symbol = this.#symbol(literals);
      if (symbol === END_OF_BLOCK) return true;
      if (symbol < END_OF_BLOCK) {
        if (this.#made === this.#content.length) return false;
        this.#content[this.#made++] = symbol;
        continue;
      }
      const which = symbol - END_OF_BLOCK - 1;
      if (which >= LENGTH_BASE.length) throw new DamagedData("a length there is not");
      const length = LENGTH_BASE[which]! + this.#bits(LENGTH_EXTRA[which]!);
      const far = this.#symbol(distances);
      if (far >= DISTANCE_BASE.length) throw new DamagedData("a distance there is not");
      const distance = DISTANCE_BASE[far]! + this.#bits(DISTANCE_EXTRA[far]!);
      if (distance > this.#made) throw new DamagedData("it refers to what is before its beginning");
      if (this.#made + length > this.#content.length) return false;
      const end = this.#made + length;
      for (; this.#made < end; this.#made++) {
        this.#content[this.#made] = this.#content[this.#made - distance]!;
      }
    }
  }
}

/** The codes of RFC 1951, 3.2.6. */
const FIXED: readonly [Codes, Codes] = [
  codesOf(Uint8Array.from({ length: 288 }, (_, symbol) => symbol < 144 ? 8 : symbol < 256 ? 9 : symbol < 280 ? 7 : 8)),
  codesOf(new Uint8Array(30).fill(5)),
];

/** What came of inflating: the content, or why there is none. */
export type Inflated = Uint8Array<ArrayBuffer> | "damaged" | "larger";

/**
 * Inflates a whole deflate stream and nothing but it.
 *
 * @param size Most bytes it may inflate to; never more memory is used.
 */
export function inflate(packed: Uint8Array, size: number): Inflated {
  try {
    return new Inflater(packed, size).run() ?? "larger";
  } catch (error) {
    if (error instanceof DamagedData) return "damaged";
    throw error;
  }
}
