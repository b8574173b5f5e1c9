/**
 * `fetch-peer-file`: redeems a handle and lands the bytes as a file, never as text (seed resource-plane, The agent's two
 * tools; spec components 11.7).
 *
 * @module
 */
import { type NetworkRule, networkRuleMatches, targetOf } from "../../artifact/network_rules.ts";
import { StagedFile } from "../../base/atomic_file.ts";
import type { HttpClient } from "../../base/http_client.ts";
import { HttpError } from "../../base/http_error.ts";
import { isJsonObject, type JsonObject } from "../../base/json_value.ts";
import type { RootedDir } from "../../base/rooted_dir.ts";
import { isRootedError } from "../../base/rooted_error.ts";
import { loadHashing } from "../../planes/file_reader.ts";
import { decodePayloadUnverified, handleId, parseHandle } from "../../planes/handle.ts";
import { AUDIENCE_HEADER, PEER_PATH_PREFIX } from "../../planes/peer_plane.ts";
import { PLANE_STATUS, type PlaneError } from "../../planes/plane_refusal.ts";
import { PEER_INBOX_DIR, storedPathFor } from "../../planes/stored_path.ts";
import { DispatchRefusal, type ToolRun } from "../agent/tool_dispatch.ts";
import type { TraceEventBody } from "../trace/trace_event.ts";
import { peerUrl, shownPeer } from "./peer_address.ts";
import { getFromPeer, type PeerPatience, type PeerResponse, singleField, textOfPeer } from "./peer_request.ts";

/** What the tool works with. */
export interface FetchPeerFileOptions {
  /** `capabilities.peer_fetch.allow`. */
  readonly allow: readonly NetworkRule[];
  /** The accessible workdir, held. */
  readonly workdir: RootedDir;
  /** Whether `capabilities.filesystem.read_only` covers the inbox. */
  readonly inboxReadOnly: boolean;
  /** Largest file that is taken, in bytes. */
  readonly maxBytes: number;
  /** This capsule's own audience. */
  readonly audience: () => string | null;
  readonly client: HttpClient;
  readonly patience: PeerPatience;
  readonly record: (body: TraceEventBody<"peer_file_fetch">) => void;
}

/** Largest file that is taken from a peer, whatever the work folder may hold. */
export const MAX_FETCHED_BYTES = 1 << 30;

/** Largest refusal of a peer that is read. */
const MAX_REFUSAL_BYTES = 64 << 10;

/** Why nothing was stored. */
interface Failure {
  readonly error: PlaneError | "peer_not_allowed" | "peer_unreachable" | "etag_mismatch";
  readonly message: string;
}

interface Stored {
  readonly path: string;
  readonly bytes: number;
  readonly sha256: string;
  readonly generation: number;
}

/** Runs one call. */
export async function fetchPeerFile(
  options: FetchPeerFileOptions,
  input: JsonObject,
  signal: AbortSignal,
): Promise<ToolRun> {
  const { peer, handle } = input;
  if (typeof peer !== "string" || typeof handle !== "string") {
    throw new DispatchRefusal("fetch-peer-file needs 'peer' and 'handle', both texts");
  }
  const token = handle.trim();
  const id = handleId(token);
  const url = peerUrl(peer);
  const shown = url === null ? peer : shownPeer(url);
  const result = await redeem(options, url, shown, token, id, signal);
  if ("error" in result) {
    const { error, message } = result;
    options.record({
      peer: shown,
      handle_id: id,
      stored_path: null,
      bytes: null,
      sha256: null,
      outcome: error,
      reason: message,
    });
    return { passed: false, text: `${error}: ${message} (handle ${id})`, metadata: [] };
  }
  const { path, bytes, sha256, generation } = result;
  options.record({ peer: shown, handle_id: id, stored_path: path, bytes, sha256, outcome: "ok", reason: null });
  return { passed: true, text: JSON.stringify({ path, bytes, sha256, generation, peer: shown }), metadata: [] };
}

async function redeem(
  options: FetchPeerFileOptions,
  url: URL | null,
  shown: string,
  token: string,
  id: string,
  signal: AbortSignal,
): Promise<Stored | Failure> {
  const { allow, client, patience } = options;
  const target = url === null ? null : targetOf(url);
  if (url === null || target === null || !allow.some((rule) => networkRuleMatches(rule, target))) {
    return { error: "peer_not_allowed", message: `${shown} is not in capabilities.peer_fetch.allow` };
  }
  // Only what has the form of a handle goes into the path of a request.
  const payload = decodePayloadUnverified(token);
  if (payload === null || "error" in parseHandle(token)) {
    return { error: "malformed_handle", message: "'handle' is not of the form mh1.<payload>.<code>" };
  }
  if (options.inboxReadOnly) {
    return { error: "io_error", message: `capabilities.filesystem.read_only covers ${PEER_INBOX_DIR}` };
  }
  const audience = options.audience();
  if (audience === null) {
    return { error: "io_error", message: "this capsule's own agent card makes no audience" };
  }
  try {
    const response = await getFromPeer(new URL(PEER_PATH_PREFIX + token, url), {
      client,
      patience,
      signal,
      headers: [[AUDIENCE_HEADER, audience]],
    });
    try {
      if (response.status !== 200) return await refusalOf(response, shown);
      return await store(options, response, shown, storedPathFor(id, payload.p));
    } finally {
      // Also when there was no place for it.
      await response.close();
    }
  } catch (error) {
    if (error instanceof HttpError) return { error: "peer_unreachable", message: error.message };
    if (isRootedError(error)) return { error: "io_error", message: error.message };
    throw error;
  }
}

/** What a peer's refusal says: a code of the planes, in our own words. Its text is nobody's to believe. */
async function refusalOf(response: PeerResponse, shown: string): Promise<Failure> {
  const text = await textOfPeer(response, MAX_REFUSAL_BYTES);
  let code: unknown = null;
  try {
    const value: unknown = JSON.parse(text ?? "");
    if (isJsonObject(value)) code = value.error;
  } catch {
    // Somebody else's body.
  }
  const isOwn = typeof code === "string" && Object.hasOwn(PLANE_STATUS, code) &&
    PLANE_STATUS[code as PlaneError] === response.status;
  return isOwn
    ? { error: code as PlaneError, message: `${shown} refused the handle` }
    : { error: "peer_unreachable", message: `${shown} answered ${response.status}, and not as a peer plane does` };
}

/** Stores the body while it comes, and keeps it when its hash is the one it came with. */
async function store(
  { workdir, maxBytes }: FetchPeerFileOptions,
  response: PeerResponse,
  shown: string,
  path: string,
): Promise<Stored | Failure> {
  const expected = /^"sha256:([0-9a-f]{64})"$/.exec(singleField(response.headers, "etag") ?? "")?.[1] ?? null;
  const generation = /^\d{1,15}$/.exec(singleField(response.headers, "x-murmur-generation") ?? "")?.[0] ?? null;
  if (expected === null || generation === null) {
    return expected === null
      ? { error: "etag_mismatch", message: `${shown} sent no etag to compare the file with` }
      : { error: "peer_unreachable", message: `${shown} answered without the headers of a peer plane` };
  }
  const { createHash } = await loadHashing();
  const hash = createHash("sha256");
  // A link in the place of the inbox is refused, one in the place of the file is replaced; neither is followed.
  using inbox = workdir.openDir(PEER_INBOX_DIR, { create: true, follow: false });
  using file = StagedFile.create(inbox, path.slice(PEER_INBOX_DIR.length + 1));
  for await (const piece of response.pieces()) {
    if (file.length + piece.length > maxBytes) {
      return { error: "io_error", message: `the file is larger than the ${maxBytes} bytes that are taken` };
    }
    hash.update(piece);
    file.write(piece);
  }
  const sha256 = hash.digest("hex");
  if (sha256 !== expected) {
    return {
      error: "etag_mismatch",
      message: `the bytes from ${shown} are not those its etag names; nothing is stored`,
    };
  }
  file.publish();
  return { path, bytes: file.length, sha256, generation: Number(generation) };
}
