/**
 * Bearer tokens with a message authentication code: `<tag>.<base64url(payload JSON)>.<base64url(HMAC-SHA256)>`, the code
 * taken over the family's domain string, the byte 0x1f and the payload segment (spec door 3.2, 14.3; spec roost 7).
 *
 * Families differ in tag, domain and key, so that a token of one never verifies as one of another.
 *
 * @module
 */
import { hmac } from "@noble/hashes/hmac.js";
import { sha256 } from "@noble/hashes/sha2.js";
import { isJsonObject, type JsonObject } from "./json_value.ts";

/** What sets the tokens of one kind apart. */
export interface TokenFamily {
  /** First segment, e.g. `mdt1`. */
  readonly tag: string;
  /** Domain string of the code, e.g. `murmur-door-token-v1`. */
  readonly domain: string;
}

/** Longest token that is looked at, in characters; no family mints one near it. */
const MAX_TOKEN_LENGTH = 8_192;

const BASE64URL = { alphabet: "base64url", omitPadding: true } as const;

/** A fresh key of 32 random bytes. */
export function newTokenKey(): Uint8Array {
  return crypto.getRandomValues(new Uint8Array(32));
}

const encoder = new TextEncoder();

/** Where texts are encoded, taken over at once; a longer one gets a place made. */
const INPUT = new Uint8Array(4_096);
const CODE = new Uint8Array(32);

/** The code's state behind a key and a domain, half of what a code costs, and one to work on. */
interface KeyedCode {
  readonly domain: string;
  readonly keyed: ReturnType<typeof hmac.create>;
  readonly work: ReturnType<typeof hmac.create>;
}

const codes = new WeakMap<Uint8Array, KeyedCode>();

function keyedCode(domain: string, key: Uint8Array): KeyedCode {
  let code = codes.get(key);
  if (code?.domain !== domain) {
    const keyed = hmac.create(sha256, key).update(encoder.encode(`${domain}\x1f`));
    codes.set(key, code = { domain, keyed, work: keyed.clone() });
  }
  return code;
}

/** Bytes of a text, good until the next call. */
function utf8Of(text: string): Uint8Array {
  if (3 * text.length > INPUT.length) return encoder.encode(text);
  return INPUT.subarray(0, encoder.encodeInto(text, INPUT).written);
}

/** Keys are never changed once they were used. */
function codeOf({ domain }: TokenFamily, key: Uint8Array, segment: string): string {
  const { keyed, work } = keyedCode(domain, key);
  keyed._cloneInto(work).update(utf8Of(segment)).digestInto(CODE);
  return CODE.toBase64(BASE64URL);
}

/** Whether two ASCII texts are the same, in a time that depends on their lengths alone. */
export function sameText(a: string, b: string): boolean {
  if (a.length !== b.length) return false;
  let difference = 0;
  for (let i = 0; i < a.length; i++) difference |= a.charCodeAt(i) ^ b.charCodeAt(i);
  return difference === 0;
}

/** Makes a token. */
export function mintToken(family: TokenFamily, key: Uint8Array, payload: JsonObject): string {
  const segment = utf8Of(JSON.stringify(payload)).toBase64(BASE64URL);
  return `${family.tag}.${segment}.${codeOf(family, key, segment)}`;
}

/**
 * The payload of a token that was minted with this key for this family; `null` for any other text. The code is compared as
 * text, since several texts decode to the same bytes and only one of them was minted.
 */
export function openToken(family: TokenFamily, key: Uint8Array, token: string): JsonObject | null {
  if (token.length > MAX_TOKEN_LENGTH) return null;
  const [tag, segment, code, ...rest] = token.split(".");
  if (tag !== family.tag || segment === undefined || code === undefined || rest.length > 0) return null;
  if (!sameText(code, codeOf(family, key, segment))) return null;
  try {
    const payload: unknown = JSON.parse(
      new TextDecoder("utf-8", { fatal: true }).decode(Uint8Array.fromBase64(segment, BASE64URL)),
    );
    return isJsonObject(payload) ? payload : null;
  } catch {
    return null;
  }
}
