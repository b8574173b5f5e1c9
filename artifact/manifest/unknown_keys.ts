/**
 * Findings about keys no field claims, `W-SEC-019` (spec manifest 4).
 *
 * @module
 */
import type { Warning } from "../../base/errors.ts";
import type { UnknownKey } from "./manifest_reader.ts";
import { shownValue } from "./shown_value.ts";

/**
 * Optimal-string-alignment distance: insertions, deletions, substitutions and swaps of neighbours, each 1, in
 * characters. Never above `limit + 1`, which stands for anything further apart.
 */
export function alignmentDistance(a: string, b: string, limit: number): number {
  const left = [...a];
  const right = [...b];
  if (Math.abs(left.length - right.length) > limit) return limit + 1;
  let before: number[] = [];
  let previous = right.map((_, index) => index + 1);
  previous.unshift(0);
  for (let i = 1; i <= left.length; i++) {
    const row = [i];
    for (let j = 1; j <= right.length; j++) {
      const same = left[i - 1] === right[j - 1];
      let best = Math.min(previous[j]! + 1, row[j - 1]! + 1, previous[j - 1]! + (same ? 0 : 1));
      if (i > 1 && j > 1 && left[i - 1] === right[j - 2] && left[i - 2] === right[j - 1]) {
        best = Math.min(best, before[j - 2]! + 1);
      }
      row.push(best);
    }
    before = previous;
    previous = row;
  }
  return Math.min(previous[right.length]!, limit + 1);
}

/** The known key a written one is close to: the nearest, the first in table order among equals; `null` when none is. */
export function nearestKey(key: string, known: readonly string[]): string | null {
  let nearest: string | null = null;
  let best = Infinity;
  const length = [...key].length;
  for (const candidate of known) {
    const limit = Math.max(1, Math.floor(Math.max(length, [...candidate].length) / 3));
    const distance = alignmentDistance(key, candidate, limit);
    if (distance <= limit && distance < best) {
      best = distance;
      nearest = candidate;
    }
  }
  return nearest;
}

/** `[major, minor, patch]` of a plain version, `null` for any other text. */
function plainVersion(text: string): readonly bigint[] | null {
  const match = /^(\d{1,20})\.(\d{1,20})\.(\d{1,20})$/.exec(text);
  return match === null ? null : match.slice(1).map(BigInt);
}

/** Whether `pin` is a plain version numerically above `running`. */
export function isNewerVersion(pin: string, running: string): boolean {
  const [a, b] = [plainVersion(pin), plainVersion(running)];
  if (a === null || b === null) return false;
  const differing = a.findIndex((part, index) => part !== b[index]);
  return differing >= 0 && a[differing]! > b[differing]!;
}

/** Most keys that get a line each; a file of nothing but unknown keys is not a manifest with typing errors. */
const MAX_LINES = 100;

/** One warning a key, then one about the pinned version when it is newer than the running one. */
export function unknownKeyWarnings(
  unknown: readonly UnknownKey[],
  pin: string | null,
  running: string,
): Warning[] {
  const warnings = unknown.slice(0, MAX_LINES).map(({ key, path, known }): Warning => {
    const where = path === "" ? "at the top level" : `in ${shownValue(path)}`;
    const nearest = nearestKey(key, known);
    const advice = nearest === null
      ? "it has no effect; it may come from a newer mur"
      : `did you mean '${nearest}'? as it is spelled it has no effect`;
    return {
      code: "W-SEC-019",
      source: "murmur-artifact",
      message: `unrecognized key '${shownValue(key)}' ${where}: ${advice}`,
    };
  });
  const line = (message: string) => warnings.push({ code: "W-SEC-019", source: "murmur-artifact", message });
  if (unknown.length > MAX_LINES) line(`${unknown.length - MAX_LINES} more unrecognized keys`);
  if (unknown.length > 0 && pin !== null && isNewerVersion(pin, running)) {
    const keys = unknown.length === 1 ? "1 key in it is" : `${unknown.length} keys in it are`;
    line(`this manifest pins mur ${pin}, you are running ${running}; ${keys} not recognized by this build`);
  }
  return warnings;
}
