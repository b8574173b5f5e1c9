/**
 * SHA-256 of whole archives, the hash every store file, lock entry and registry answer carries (spec cli 6.1).
 *
 * @module
 */

/** Lowercase hex of the SHA-256 of `bytes`. */
export async function sha256Hex(bytes: Uint8Array<ArrayBuffer>): Promise<string> {
  return new Uint8Array(await crypto.subtle.digest("SHA-256", bytes)).toHex();
}

/** Whether `text` is a SHA-256 in lowercase hex. */
export function isSha256Hex(text: string): boolean {
  return /^[0-9a-f]{64}$/.test(text);
}
