/**
 * Comparing bytes.
 *
 * @module
 */

/** Whether two arrays hold the same bytes. Takes as long as they agree: not for secrets. */
export function sameBytes(a: Uint8Array, b: Uint8Array): boolean {
  return a.length === b.length && a.every((byte, index) => byte === b[index]);
}
