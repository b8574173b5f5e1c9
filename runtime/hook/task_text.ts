/**
 * Reading a task's texts in pieces (spec components 10.12 `task-io`). Pure.
 *
 * @module
 */

/** `io-error`. */
export type TaskIoError = "not-granted" | "no-task" | "no-output" | "out-of-range";

/** UTF-8 bytes of a text. */
export function textLength(text: string): number {
  return new TextEncoder().encode(text).length;
}

/** Whether a character begins at this byte. */
function isBoundary(bytes: Uint8Array, at: number): boolean {
  return at === bytes.length || (bytes[at]! & 0xc0) !== 0x80;
}

/**
 * The longest piece from `offset` that has at most `maxBytes` and ends between two characters; empty at the end.
 *
 * @returns `null` when `offset` lies beyond the end or inside a character.
 */
export function textPiece(text: string, offset: number, maxBytes: number): string | null {
  const bytes = new TextEncoder().encode(text);
  if (offset > bytes.length || !isBoundary(bytes, offset)) return null;
  let end = Math.min(bytes.length, offset + maxBytes);
  while (!isBoundary(bytes, end)) end--;
  return new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes.subarray(offset, end));
}
