/**
 * The peer plane (seed resource-plane, `GET /resources/peer/<handle>`): one file to whoever holds a handle for it and is the
 * capsule the handle was minted for. No listing, no paths, no state: a handle redeems as often as its holder likes until it
 * expires or the minting session ends.
 *
 * @module
 */
import type { ExportRoot } from "./export_root.ts";
import { type Admit, openJudged, readExported } from "./file_reader.ts";
import {
  expired,
  handleId,
  type HandlePayload,
  mint,
  type MintedHandle,
  newNonce,
  parseHandle,
  type PeerMintKey,
  verifyHandle,
} from "./handle.ts";
import { READ_WITH_GET, validatorHeaders } from "./operator_plane.ts";
import {
  type FileError,
  isRefusal,
  type PeerError,
  type PlaneAnswer,
  type PlaneRefusal,
  refusal,
  refusalAnswer,
} from "./plane_refusal.ts";
import { judgePath, requestedPath } from "./request_path.ts";

/** Request header carrying the audience the caller asserts it is. Required on every redeem. */
export const AUDIENCE_HEADER = "x-murmur-audience";

/** Response header naming the handle a served body was redeemed with. */
export const HANDLE_ID_HEADER = "x-murmur-handle-id";

/** Path prefix the peer plane answers under. */
export const PEER_PATH_PREFIX = "/resources/peer/";

/** Everything a mint or a redeem needs, and nothing a running task leaves behind. */
export interface PeerPlane {
  /** Id of this session, the issuer of its handles. */
  readonly sessionId: string;
  readonly key: PeerMintKey;
  readonly root: ExportRoot;
  /** Longest life of a handle, in seconds. */
  readonly maxTtlSeconds: number;
  /** The class this session achieved. */
  readonly containment: string;
  /** Tasks of this process that have ended. */
  readonly generation: () => number;
  /** Unix milliseconds. */
  readonly now: () => number;
}

/** One request to the plane. */
export interface PeerRequest {
  readonly method: string;
  /** As it was sent, without a query. */
  readonly rawPath: string;
  /** Value of {@linkcode AUDIENCE_HEADER}; `null` without one. */
  readonly audience: string | null;
}

/** The line a redeem leaves in the trace (spec trace 6.8). */
export interface RedeemRecord {
  readonly type: "peer_handle_redeem";
  readonly body: {
    readonly handle_id: string;
    /** `null` until the code was verified. */
    readonly path: string | null;
    readonly generation: number;
    readonly audience_asserted: string | null;
    readonly bytes: number | null;
    readonly sha256: string | null;
    readonly outcome: "ok" | PeerError;
    readonly reason: string | null;
  };
}

/** Whether a raw path addresses the peer plane rather than the operator plane. */
export function isPeerPath(rawPath: string): boolean {
  return rawPath === "/resources/peer" || rawPath.startsWith(PEER_PATH_PREFIX);
}

/** Takes any size: the caller bounds what it reads at once itself. */
const ADMIT_ALL: Admit = () => true;

/**
 * Answers one peer-plane request: a method, a raw request path, an asserted audience, and nothing else.
 *
 * @param admit Bounds the memory of large files; without it every read is admitted.
 */
export async function handlePeerRequest(
  plane: PeerPlane,
  request: PeerRequest,
  admit: Admit = ADMIT_ALL,
): Promise<PlaneAnswer<RedeemRecord>> {
  const { containment } = plane;
  let generation = plane.generation();
  const token = request.rawPath.slice(PEER_PATH_PREFIX.length);
  const id = handleId(token);
  let path: string | null = null;
  const record = (
    outcome: "ok" | PeerError,
    reason: string | null,
    read: { readonly bytes: number | null; readonly sha256: string | null } = { bytes: null, sha256: null },
  ): RedeemRecord => ({
    type: "peer_handle_redeem",
    body: {
      handle_id: id,
      path,
      generation,
      audience_asserted: request.audience,
      bytes: read.bytes,
      sha256: read.sha256,
      outcome,
      reason,
    },
  });
  const refused = (why: PlaneRefusal<PeerError>) => refusalAnswer(why, record(why.error, why.message));
  if (request.method !== "GET") return refused(refusal("method_not_allowed", READ_WITH_GET));
  if (token === "") return refused(refusal("not_found", "handles are redeemed one by one, and never listed"));
  const shape = parseHandle(token);
  if (isRefusal(shape)) return refused(shape);
  const { audience } = request;
  if (audience === null || audience === "") {
    return refused(refusal("missing_audience", `a redeem says who it is for in ${AUDIENCE_HEADER}`));
  }
  const verified = verifyHandle(plane.key, shape, audience, plane.now());
  if (isRefusal(verified)) return refused(verified);
  path = verified.payload.p;
  if (verified.expired) return refused(expired());
  const outside = judgePath(path);
  if (outside !== null) return refused(outside);
  const file = await readExported(plane.root, path, admit, () => generation = plane.generation());
  if (isRefusal(file)) return refused(file);
  const { bytes, mtimeMs, sha256 } = file;
  return {
    status: 200,
    headers: [
      ...validatorHeaders({ mtimeMs, sha256, generation, containment }),
      [HANDLE_ID_HEADER, id],
      ["connection", "close"],
    ],
    body: bytes,
    record: record("ok", null, { bytes: bytes.length, sha256 }),
  };
}

/**
 * Resolves what `share-file` is asked to hand out, by the rules of a read: the canonical path that a handle names.
 *
 * @param path As the agent gave it; percent-encoding is undone once, as in a request.
 */
export function resolveShared(
  root: ExportRoot,
  path: string,
): { readonly path: string } | PlaneRefusal<FileError> {
  const requested = requestedPath(path);
  if (isRefusal(requested)) return requested;
  const found = root.open();
  if (found === null) return refusal("not_found", "the exported folder does not exist");
  if (isRefusal(found)) return found;
  using folder = found.folder;
  const judged = openJudged(folder, requested.path, root.options.maxBytes);
  if (isRefusal(judged)) return judged;
  using file = judged.file;
  const canonical = folder.canonicalPath(file);
  return canonical === null
    ? refusal("outside_root", "the path leads out of the exported folder")
    : { path: canonical };
}

/**
 * Mints a handle for a path that was resolved.
 *
 * @param ttlSeconds Narrows the plane's longest life and never widens it; `null`: as long as that.
 */
export function mintHandle(plane: PeerPlane, path: string, audience: string, ttlSeconds: number | null): MintedHandle {
  const seconds = Math.min(ttlSeconds ?? plane.maxTtlSeconds, plane.maxTtlSeconds);
  const exp = Math.min(plane.now() + seconds * 1_000, Number.MAX_SAFE_INTEGER);
  const payload: HandlePayload = { v: 1, iss: plane.sessionId, p: path, exp, n: newNonce() };
  const handle = mint(plane.key, payload, audience);
  return { handle, handle_id: handleId(handle), expires_at_ms: exp, audience };
}
