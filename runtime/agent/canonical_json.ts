/**
 * Compact JSON with sorted keys: the same text for the same value, whatever order its members came in.
 *
 * @module
 */

/** Serialises a JSON value. Members that are `undefined` are left out, as `JSON.stringify` does. */
export function canonicalJson(value: unknown): string {
  return JSON.stringify(value, (_key, node: unknown) => {
    if (typeof node !== "object" || node === null || Array.isArray(node)) return node;
    return Object.fromEntries(Object.entries(node).sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0)));
  });
}
