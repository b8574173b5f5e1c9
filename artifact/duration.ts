/**
 * Durations as manifests write them: digits for seconds, or digits with one of `s`, `m`, `h`, `d` (spec manifest 3.4).
 *
 * @module
 */

const UNITS: Readonly<Record<string, bigint>> = { "": 1n, s: 1n, m: 60n, h: 3_600n, d: 86_400n };
const MAX_U64 = (1n << 64n) - 1n;

/**
 * The number of seconds, or `null` when the text is no duration or does not fit 64 bits. A duration above
 * `Number.MAX_SAFE_INTEGER` is that number.
 */
export function parseDuration(text: string): number | null {
  const match = /^([0-9]{1,40})([smhd])?$/.exec(text.trim());
  if (match === null) return null;
  const seconds = BigInt(match[1]!) * UNITS[match[2] ?? ""]!;
  return seconds > MAX_U64 ? null : Math.min(Number(seconds), Number.MAX_SAFE_INTEGER);
}
