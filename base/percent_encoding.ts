/**
 * Percent-encoding of paths, undone once and taken literally. `decodeURIComponent` throws for what is malformed and says
 * nothing about why; here malformed is an answer.
 *
 * @module
 */

const strict = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
const lenient = new TextDecoder("utf-8", { ignoreBOM: true });
const encoder = new TextEncoder();

const PERCENT = 0x25;

function hexDigit(byte: number | undefined): number {
  if (byte === undefined) return -1;
  if (byte >= 0x30 && byte <= 0x39) return byte - 0x30;
  const letter = byte | 0x20;
  return letter >= 0x61 && letter <= 0x66 ? letter - 0x57 : -1;
}

/** The bytes a text stands for; a `%` that two hex digits do not follow stays, and `whole` tells that there is none. */
function decodedBytes(text: string): { readonly bytes: Uint8Array; readonly whole: boolean } {
  const raw = encoder.encode(text);
  const bytes = new Uint8Array(raw.length);
  let length = 0;
  let whole = true;
  for (let at = 0; at < raw.length; at++) {
    const byte = raw[at]!;
    const high = byte === PERCENT ? hexDigit(raw[at + 1]) : -1;
    const low = high < 0 ? -1 : hexDigit(raw[at + 2]);
    if (low >= 0) {
      bytes[length++] = high * 16 + low;
      at += 2;
      continue;
    }
    if (byte === PERCENT) whole = false;
    bytes[length++] = byte;
  }
  return { bytes: bytes.subarray(0, length), whole };
}

/** The text an encoded one stands for; `null` when the encoding is malformed or what it gives is not UTF-8. */
export function percentDecode(text: string): string | null {
  if (!text.includes("%")) return text.isWellFormed() ? text : null;
  if (!text.isWellFormed()) return null;
  const { bytes, whole } = decodedBytes(text);
  if (!whole) return null;
  try {
    return strict.decode(bytes);
  } catch {
    return null;
  }
}

/** As {@linkcode percentDecode} for records: what is malformed stays as it is, what is not UTF-8 becomes U+FFFD. */
export function percentDecodeForRecord(text: string): string {
  return text.includes("%") ? lenient.decode(decodedBytes(text).bytes) : text;
}

/** A path with every byte encoded that could mean something else in a request target; slashes stay. */
export function percentEncodePath(path: string): string {
  let encoded = "";
  for (const byte of encoder.encode(path)) {
    const char = String.fromCharCode(byte);
    encoded += /[A-Za-z0-9\-._~/]/.test(char) ? char : `%${byte.toString(16).toUpperCase().padStart(2, "0")}`;
  }
  return encoded;
}
