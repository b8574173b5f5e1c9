/**
 * Peer handles (seed resource-plane, The handle, The audience, The minting key):
 *
 * ```
 * mh1.<base64url(payload JSON)>.<base64url(HMAC-SHA256)>
 * HMAC-SHA256(instance key, "murmur-peer-handle-v1" ‖ 0x1f ‖ <payload base64url> ‖ 0x1f ‖ <audience>)
 * ```
 *
 * Pure but for the randomness of keys and nonces. The payload is in the clear and no secret; the audience is covered and not
 * carried.
 *
 * ```ts
 * using key = PeerMintKey.generate();
 * const payload = { v: 1, iss: "ses_…", p: "report.md", exp: Date.now() + 60_000, n: newNonce() } as const;
 * const token = mint(key, payload, "reporter@localhost:41234");
 * verify(key, token, "reporter@localhost:41234", Date.now()); // { payload }
 * ```
 *
 * @module
 */
import { hmac } from "@noble/hashes/hmac.js";
import { sha256 } from "@noble/hashes/sha2.js";
import { isJsonObject, type JsonObject } from "../base/json_value.ts";
import { newTokenKey, sameText } from "../base/mac_token.ts";
import { type HandleError, type PlaneRefusal, refusal } from "./plane_refusal.ts";

/** A handle's payload, carried in the clear in the token's middle segment. */
export interface HandlePayload {
  /** Version; only 1 is minted or accepted. */
  readonly v: 1;
  /** Id of the minting session: the capsule instance, not the capsule. */
  readonly iss: string;
  /** Path from `exports.peer_files.root`, canonical at mint time. */
  readonly p: string;
  /** Expiry, Unix milliseconds. */
  readonly exp: number;
  /** 16 random bytes in lower-case hex, so that two handles for one file and audience differ. */
  readonly n: string;
}

/** One minted handle, as `share-file` returns it. */
export interface MintedHandle {
  readonly handle: string;
  readonly handle_id: string;
  /** Unix milliseconds. */
  readonly expires_at_ms: number;
  readonly audience: string;
}

const DOMAIN = "murmur-peer-handle-v1";
const BASE64URL = { alphabet: "base64url", omitPadding: true } as const;
/** Longest token that is looked at, in characters: the longest path, escaped, fits in. */
const MAX_TOKEN_LENGTH = 40_000;

const encoder = new TextEncoder();
const strict = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/**
 * The key one capsule instance mints and verifies handles with: 32 bytes in memory and nowhere else. Its bytes have no
 * accessor, and no way of printing the object shows them.
 */
export class PeerMintKey implements Disposable {
  readonly #bytes: Uint8Array;

  private constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
  }

  /** A fresh random key. */
  static generate(): PeerMintKey {
    return new PeerMintKey(newTokenKey());
  }

  /** A key of the caller's, for programs that mint elsewhere. Takes the bytes over. @throws {RangeError} unless they are 32. */
  static of(bytes: Uint8Array): PeerMintKey {
    if (bytes.length !== 32) throw new RangeError("a mint key has 32 bytes");
    return new PeerMintKey(bytes);
  }

  /** The code of a payload segment for an audience, in base64url. */
  code(segment: string, audience: string): string {
    return hmac(sha256, this.#bytes, encoder.encode(`${DOMAIN}\x1f${segment}\x1f${audience}`)).toBase64(BASE64URL);
  }

  /**
   * Overwrites the key: every handle minted with it is worthless from now on. What is put in its place is random, since
   * codes of a key that everybody can guess could be made by anybody.
   */
  destroy(): void {
    this.#bytes.fill(0);
    crypto.getRandomValues(this.#bytes);
  }

  [Symbol.dispose](): void {
    this.destroy();
  }
}

/** 16 random bytes in hex: the `n` of a payload. */
export function newNonce(): string {
  return crypto.getRandomValues(new Uint8Array(16)).toHex();
}

/** Mints one token. */
export function mint(key: PeerMintKey, payload: HandlePayload, audience: string): string {
  const { v, iss, p, exp, n } = payload;
  const segment = encoder.encode(JSON.stringify({ v, iss, p, exp, n })).toBase64(BASE64URL);
  return `mh1.${segment}.${key.code(segment, audience)}`;
}

/** The stable identifier a mint, a redeem and a fetch are correlated by: 16 hex digits of the token's SHA-256. */
export function handleId(token: string): string {
  return sha256(encoder.encode(token)).subarray(0, 8).toHex();
}

/** A token of the right shape, its code not looked at. */
export interface HandleShape {
  readonly segment: string;
  readonly code: string;
  readonly payload: JsonObject;
}

const MALFORMED = refusal(
  "malformed_handle",
  "that is no handle: it has not the form mh1.<payload>.<code> of version 1",
);
const NOT_VALID = refusal("handle_not_valid", "the handle is not valid here");
const EXPIRED = refusal("handle_expired", "the handle has expired");

function fromBase64url(text: string): Uint8Array | null {
  if (!/^[A-Za-z0-9_-]+$/.test(text)) return null;
  try {
    return Uint8Array.fromBase64(text, { alphabet: "base64url" });
  } catch {
    return null;
  }
}

/** Step 1 of a redeem: the token's shape. */
export function parseHandle(token: string): HandleShape | PlaneRefusal<"malformed_handle"> {
  if (token.length > MAX_TOKEN_LENGTH) return MALFORMED;
  const [tag, segment, code, ...rest] = token.split(".");
  if (tag !== "mh1" || segment === undefined || code === undefined || rest.length > 0) return MALFORMED;
  const bytes = fromBase64url(segment);
  if (bytes === null || fromBase64url(code) === null) return MALFORMED;
  try {
    const payload: unknown = JSON.parse(strict.decode(bytes));
    return isJsonObject(payload) && payload.v === 1 ? { segment, code, payload } : MALFORMED;
  } catch {
    return MALFORMED;
  }
}

/** The payload with its members checked; `null` when one is missing or of another type. */
function payloadOf(payload: JsonObject): HandlePayload | null {
  const { iss, p, exp, n } = payload;
  if (typeof iss !== "string" || typeof p !== "string" || typeof n !== "string" || !Number.isSafeInteger(exp)) {
    return null;
  }
  return { v: 1, iss, p, exp: exp as number, n };
}

/**
 * Steps 3 and 4 of a redeem: the code, in constant time, then the expiry. Nothing of the payload is believed before.
 *
 * Whatever is wrong with a code, be it the payload, the key or the audience, is one refusal, found in the same way.
 *
 * @param nowMs Unix milliseconds.
 */
export function verifyHandle(
  key: PeerMintKey,
  shape: HandleShape,
  audience: string,
  nowMs: number,
): { readonly payload: HandlePayload; readonly expired: boolean } | PlaneRefusal<"handle_not_valid"> {
  // The codes are compared as text: several texts decode to the same bytes, and only one of them was minted.
  if (!sameText(shape.code, key.code(shape.segment, audience))) return NOT_VALID;
  const payload = payloadOf(shape.payload);
  return payload === null ? NOT_VALID : { payload, expired: nowMs >= payload.exp };
}

/**
 * Verifies one token against this instance's key and the audience the caller asserted.
 *
 * @param nowMs Unix milliseconds.
 * @returns Its payload, or why it is not accepted.
 */
export function verify(
  key: PeerMintKey,
  token: string,
  audience: string,
  nowMs: number,
): { readonly payload: HandlePayload } | PlaneRefusal<HandleError> {
  const shape = parseHandle(token);
  if ("error" in shape) return shape;
  const verified = verifyHandle(key, shape, audience, nowMs);
  if ("error" in verified) return verified;
  return verified.expired ? EXPIRED : { payload: verified.payload };
}

/** The refusal of a handle whose time is over. */
export function expired(): PlaneRefusal<"handle_expired"> {
  return EXPIRED;
}

/** The payload of a token this runtime did not mint and cannot verify; `null` for a text of another shape. */
export function decodePayloadUnverified(token: string): HandlePayload | null {
  const shape = parseHandle(token);
  return "error" in shape ? null : payloadOf(shape.payload);
}
