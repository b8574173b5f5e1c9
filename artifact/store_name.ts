/**
 * Names of state stores, record stores and contexts: each becomes one directory below `~/.murmur` (spec manifest 3.1).
 *
 * @module
 */

/** Longest name: a directory entry holds 255 bytes. */
const MAX_BYTES = 255;

/** Why `name` cannot name a directory of its own, or `null` when it can. */
export function storeNameProblem(name: string): string | null {
  if (name === "") return "it is empty";
  if (name.includes("/")) return "it is not a single path segment";
  if (name.startsWith(".")) return "it starts with '.'";
  // deno-lint-ignore no-control-regex
  if (/[\u0000-\u001f\u007f]/.test(name)) return "it has a control character";
  if (new TextEncoder().encode(name).byteLength > MAX_BYTES) return `it is longer than ${MAX_BYTES} bytes`;
  return null;
}
