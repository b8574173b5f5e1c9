/**
 * Keys that an upstream sends back. A provider that quotes the request in an error, an echo or a redirect would hand the
 * key to the component, and through it to results, records and logs; the gateway blots it out of what comes back (spec
 * components 5, 5.3). A key is replaced by as many asterisks, so lengths and framing stay what the upstream said.
 *
 * @module
 */
import type { HttpHeaders } from "../../base/http_client.ts";

/** Shortest key looked for: a shorter one is a placeholder of a local server and would blot out ordinary words. */
export const SHORTEST_ECHO = 12;

const ASTERISK = 0x2a;
const encoder = new TextEncoder();

/** The ways in which a text may quote a key: as it is, in a URL, in JSON. */
function spellings(keys: readonly string[]): readonly string[] {
  const all = keys.filter((key) => key.length >= SHORTEST_ECHO).flatMap((key) => [
    key,
    encodeURIComponent(key),
    JSON.stringify(key).slice(1, -1),
    key.replaceAll("/", "\\/"),
  ]);
  return [...new Set(all)].toSorted((a, b) => b.length - a.length);
}

/** Headers without the keys. */
export function withoutEchoedKeys(headers: HttpHeaders, keys: readonly string[]): HttpHeaders {
  const patterns = spellings(keys);
  if (patterns.length === 0) return headers;
  const blotted = (text: string) =>
    patterns.reduce((rest, pattern) => rest.replaceAll(pattern, "*".repeat(pattern.length)), text);
  return headers.map(([name, value]) => [name, blotted(value)] as const);
}

/** Where `pattern` begins in `bytes` at or after `from`; -1 when nowhere. */
function indexOf(bytes: Uint8Array, pattern: Uint8Array, from: number): number {
  for (let at = bytes.indexOf(pattern[0]!, from); at !== -1; at = bytes.indexOf(pattern[0]!, at + 1)) {
    if (at + pattern.length > bytes.length) return -1;
    let same = 1;
    while (same < pattern.length && bytes[at + same] === pattern[same]) same++;
    if (same === pattern.length) return at;
  }
  return -1;
}

/** How many bytes at the end of `bytes` may be the beginning of a pattern. */
function unsettled(bytes: Uint8Array, patterns: readonly Uint8Array[]): number {
  let most = 0;
  for (const pattern of patterns) {
    for (let length = Math.min(pattern.length - 1, bytes.length); length > most; length--) {
      const start = bytes.length - length;
      let same = 0;
      while (same < length && bytes[start + same] === pattern[same]) same++;
      if (same === length) most = length;
    }
  }
  return most;
}

/**
 * A body without the keys. Bytes are passed on as they come; only an end that may be the beginning of a key waits for
 * what follows it.
 */
export function bodyWithoutEchoedKeys(
  body: ReadableStream<Uint8Array>,
  keys: readonly string[],
): ReadableStream<Uint8Array> {
  const patterns = spellings(keys).map((text) => encoder.encode(text));
  if (patterns.length === 0) return body;
  const reader = body.getReader();
  let held: Uint8Array = new Uint8Array(0);
  return new ReadableStream<Uint8Array>({
    async pull(controller) {
      for (;;) {
        const { done, value } = await reader.read();
        if (done) {
          if (held.length > 0) controller.enqueue(held);
          controller.close();
          return;
        }
        const bytes = new Uint8Array(held.length + value.length);
        bytes.set(held);
        bytes.set(value, held.length);
        for (const pattern of patterns) {
          for (let at = indexOf(bytes, pattern, 0); at !== -1; at = indexOf(bytes, pattern, at + pattern.length)) {
            bytes.fill(ASTERISK, at, at + pattern.length);
          }
        }
        const ready = bytes.length - unsettled(bytes, patterns);
        held = bytes.subarray(ready);
        if (ready === 0) continue;
        controller.enqueue(bytes.subarray(0, ready));
        return;
      }
    },
    cancel: (reason) => reader.cancel(reason),
  }, { highWaterMark: 0 });
}
