/**
 * What never reaches a line of the trace: peer-file tokens and credential values (spec trace 4.3).
 *
 * @module
 */
import { sha256 } from "@noble/hashes/sha2.js";

/** Longest `inference.error` and `task_failed.reason`, in UTF-8 bytes. */
export const REASON_BYTES = 2_000;

/**
 * Shortest credential value looked for outside error texts. A shorter one would also strike out ordinary words, while
 * in an error text, which a provider wrote, every value is.
 */
const SHORTEST_ANYWHERE = 8;

/**
 * A peer-file token, or what is left of one that was cut: the version and at least the payload part. Or a payload without
 * its version, known by `{"v":1,"iss":` at its start: who splits or encodes a token does not get it through.
 */
const PEER_TOKEN = /(?:mh1\.[A-Za-z0-9_-]|eyJ2IjoxLCJpc3MiO)[A-Za-z0-9_-]*(?:\.[A-Za-z0-9_-]+)?/g;

/** What every text that {@linkcode PEER_TOKEN} matches holds one of. */
const PEER_TOKEN_STARTS = ["mh1.", "eyJ2IjoxLCJpc3MiO"] as const;

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** Lower-case hex of SHA-256. */
export function sha256Hex(data: Uint8Array | string): string {
  return sha256(typeof data === "string" ? encoder.encode(data) : data).toHex();
}

/** First 16 hex digits of the SHA-256 of a token: how logs and traces name it. */
export function tokenId(token: string): string {
  return sha256Hex(token).slice(0, 16);
}

/** Replaces every peer-file token with `<handle:<handle_id>>`. */
export function redactPeerTokens(text: string): string {
  if (!PEER_TOKEN_STARTS.some((start) => text.includes(start))) return text;
  return text.replace(PEER_TOKEN, (token) => `<handle:${tokenId(token)}>`);
}

/** Replaces every given value with `[redacted]`, longer ones first so that none survives inside another. */
export function redactValues(text: string, values: readonly string[]): string {
  let result = text;
  for (const value of [...values].sort((a, b) => b.length - a.length)) {
    if (value !== "") result = result.replaceAll(value, "[redacted]");
  }
  return result;
}

/** The longest prefix of at most `limit` UTF-8 bytes that splits no character. */
export function cutBytes(text: string, limit: number): string {
  const bytes = encoder.encode(text);
  if (bytes.length <= limit) return text;
  let end = limit;
  // A continuation byte at the cut means that the character before it is not whole.
  while (end > 0 && (bytes[end]! & 0xc0) === 0x80) end--;
  return decoder.decode(bytes.subarray(0, end));
}

/** A failure text for the trace: without credentials and tokens, at most {@linkcode REASON_BYTES} long. */
export function redactReason(text: string, credentials: readonly string[]): string {
  return cutBytes(redactPeerTokens(redactValues(text, credentials)), REASON_BYTES);
}

/** A JSON value with every string in it, keys included, free of tokens and of credential values of 8 characters up. */
export function redactJson(value: unknown, credentials: readonly string[]): unknown {
  const long = credentials.filter((credential) => credential.length >= SHORTEST_ANYWHERE);
  const text = (raw: string) => redactPeerTokens(long.length === 0 ? raw : redactValues(raw, long));
  const walk = (node: unknown): unknown => {
    if (typeof node === "string") return text(node);
    if (Array.isArray(node)) return node.map(walk);
    if (typeof node === "object" && node !== null) {
      return Object.fromEntries(Object.entries(node).map(([key, member]) => [text(key), walk(member)]));
    }
    return node;
  };
  return walk(value);
}
