/**
 * Randomness from the host. The engine's own generator is seeded when the component is built and would give every
 * instance the same numbers, so `Math.random` is replaced by one that each instance seeds anew (spec components 3.5).
 *
 * @module
 */
import { host } from "./host.ts";

const QUOTA = 65_536;

type IntegerArray =
  | Int8Array
  | Uint8Array
  | Uint8ClampedArray
  | Int16Array
  | Uint16Array
  | Int32Array
  | Uint32Array
  | BigInt64Array
  | BigUint64Array;

/** The global `crypto`. */
export const crypto = {
  /** Fills an integer array with random values; at most 65 536 bytes. */
  getRandomValues<T extends IntegerArray>(array: T): T {
    if (!ArrayBuffer.isView(array) || array instanceof DataView || /^Float/.test(array.constructor.name)) {
      throw new TypeError("getRandomValues takes an integer array");
    }
    if (array.byteLength > QUOTA) throw new DOMException(`more than ${QUOTA} bytes at once`, "QuotaExceededError");
    const bytes = host().random.getRandomBytes(array.byteLength);
    new Uint8Array(array.buffer, array.byteOffset, array.byteLength).set(bytes);
    return array;
  },

  /** A version 4 UUID. */
  randomUUID(): `${string}-${string}-${string}-${string}-${string}` {
    const bytes = crypto.getRandomValues(new Uint8Array(16));
    bytes[6] = ((bytes[6] ?? 0) & 0x0f) | 0x40;
    bytes[8] = ((bytes[8] ?? 0) & 0x3f) | 0x80;
    const hex = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
    return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;
  },
} as const;

let state: Uint32Array | null = null;

/** `Math.random`: xoshiro128**, 53 bits a number, seeded from the host at its first use in an instance. */
export function random(): number {
  state ??= crypto.getRandomValues(new Uint32Array(4));
  return ((next(state) >>> 5) * 67_108_864 + (next(state) >>> 6)) / 9_007_199_254_740_992;
}

function rotl(value: number, by: number): number {
  return (value << by) | (value >>> (32 - by));
}

function next(s: Uint32Array): number {
  const [s0 = 0, s1 = 0, s2 = 0, s3 = 0] = s;
  const result = Math.imul(rotl(Math.imul(s1, 5), 7), 9);
  const c = s2 ^ s0;
  const d = s3 ^ s1;
  s[0] = s0 ^ d;
  s[1] = s1 ^ c;
  s[2] = c ^ (s1 << 9);
  s[3] = rotl(d, 11);
  return result;
}
