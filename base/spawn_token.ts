/**
 * The two tokens of a delegated spawn (spec roost 5): the credential (`msc1`), which names a running session, and the
 * approval (`msa1`), which names the session that earned it and the one artifact that was judged.
 *
 * Verifying is pure: whether the named session runs and whether an approval was redeemed is the ledger's matter.
 *
 * @module
 */
import type { JsonObject } from "./json_value.ts";
import { mintToken, openToken, type TokenFamily } from "./mac_token.ts";

const CREDENTIAL: TokenFamily = { tag: "msc1", domain: "murmur-spawn-credential-v1" };
const APPROVAL: TokenFamily = { tag: "msa1", domain: "murmur-spawn-approval-v1" };

/** The one payload version that is minted and accepted. */
const PAYLOAD_VERSION = 1;

/** What an approval says. */
export interface SpawnApproval {
  /** The session that earned it. */
  readonly sessionId: string;
  /** Full name of the artifact that was judged. */
  readonly name: string;
  readonly version: string;
  /** Its content hash, 64 lowercase hex digits. */
  readonly sha256: string;
  /** The child's depth budget. */
  readonly depth: number;
  /** Absolute expiry, Unix milliseconds. */
  readonly expiresAtMs: number;
  /** Names this approval: key of its reservation and of its redemption. */
  readonly id: string;
}

const ID_BYTES = 16;

/** Random bytes got at once for many ids; each is given out one time. */
const randomBytes = new Uint8Array(64 * ID_BYTES);
let randomUsed = randomBytes.length;

/** 16 fresh random bytes in lowercase hex. */
export function newTokenId(): string {
  if (randomUsed === randomBytes.length) {
    crypto.getRandomValues(randomBytes);
    randomUsed = 0;
  }
  return randomBytes.subarray(randomUsed, randomUsed += ID_BYTES).toHex();
}

/** Makes a session's credential. */
export function mintCredential(key: Uint8Array, sessionId: string): string {
  return mintToken(CREDENTIAL, key, { v: PAYLOAD_VERSION, sid: sessionId, n: newTokenId() });
}

/** The session a credential names; `null` for any text that was not minted with this key. */
export function openCredential(key: Uint8Array, token: string): string | null {
  const payload = openToken(CREDENTIAL, key, token);
  if (payload === null || payload.v !== PAYLOAD_VERSION || typeof payload.sid !== "string") return null;
  return payload.sid;
}

/** Makes an approval. */
export function mintApproval(key: Uint8Array, approval: SpawnApproval): string {
  const payload: JsonObject = {
    v: PAYLOAD_VERSION,
    sid: approval.sessionId,
    name: approval.name,
    version: approval.version,
    digest: approval.sha256,
    depth: approval.depth,
    exp: approval.expiresAtMs,
    jti: approval.id,
  };
  return mintToken(APPROVAL, key, payload);
}

/** What an approval says; `null` for any text that was not minted with this key. Its expiry is not looked at. */
export function openApproval(key: Uint8Array, token: string): SpawnApproval | null {
  const payload = openToken(APPROVAL, key, token);
  if (payload === null || payload.v !== PAYLOAD_VERSION) return null;
  const { sid, name, version, digest, depth, exp, jti } = payload;
  if (
    typeof sid !== "string" || typeof name !== "string" || typeof version !== "string" || typeof digest !== "string" ||
    typeof jti !== "string" || typeof depth !== "number" || typeof exp !== "number"
  ) return null;
  return { sessionId: sid, name, version, sha256: digest, depth, expiresAtMs: exp, id: jti };
}
