/**
 * Byte sizes as manifests write them: digits, or digits with `Ki`, `Mi` or `Gi` (spec manifest 3.3).
 *
 * @module
 */

const UNITS: Readonly<Record<string, bigint>> = { "": 1n, Ki: 1024n, Mi: 1024n ** 2n, Gi: 1024n ** 3n };
const MAX_U64 = (1n << 64n) - 1n;

/**
 * The number of bytes, or `null` when the text is no size or does not fit 64 bits. A size above
 * `Number.MAX_SAFE_INTEGER` is that number: no file is that large.
 */
export function parseByteSize(text: string): number | null {
  const match = /^([0-9]{1,40})(Ki|Mi|Gi)?$/.exec(text.trim());
  if (match === null) return null;
  const bytes = BigInt(match[1]!) * UNITS[match[2] ?? ""]!;
  return bytes > MAX_U64 ? null : Math.min(Number(bytes), Number.MAX_SAFE_INTEGER);
}
