/**
 * `share-file`: a handle for one file and one peer (seed resource-plane, The agent's two tools; spec components 11.7).
 *
 * @module
 */
import { parseDuration } from "../../artifact/duration.ts";
import { type NetworkRule, networkRuleMatches, targetOf } from "../../artifact/network_rules.ts";
import type { HttpClient } from "../../base/http_client.ts";
import { HttpError } from "../../base/http_error.ts";
import type { JsonObject } from "../../base/json_value.ts";
import { audienceFromCard } from "../../planes/audience.ts";
import { mintHandle, type PeerPlane, resolveShared } from "../../planes/peer_plane.ts";
import type { FileError } from "../../planes/plane_refusal.ts";
import { isRefusal } from "../../planes/plane_refusal.ts";
import { DispatchRefusal, type ToolRun } from "../agent/tool_dispatch.ts";
import type { TraceEventBody } from "../trace/trace_event.ts";
import { peerUrl, shownPeer } from "./peer_address.ts";
import { getFromPeer, type PeerPatience, textOfPeer } from "./peer_request.ts";

/** What the tool works with. */
export interface ShareFileOptions {
  readonly plane: PeerPlane;
  /** `capabilities.network.allow`: minting reaches nothing that the capsule does not reach anyway. */
  readonly network: readonly NetworkRule[];
  readonly client: HttpClient;
  readonly patience: PeerPatience;
  readonly record: (body: TraceEventBody<"peer_handle_mint">) => void;
}

const CARD_PATH = "/.well-known/agent-card.json";
const MAX_CARD_BYTES = 1 << 20;

/** Runs one call. */
export async function shareFile(options: ShareFileOptions, input: JsonObject, signal: AbortSignal): Promise<ToolRun> {
  const { plane, record } = options;
  const { path, peer, ttl } = input;
  if (typeof path !== "string" || typeof peer !== "string") {
    throw new DispatchRefusal("share-file needs 'path' and 'peer', both texts");
  }
  const ttlSeconds = ttl === undefined || ttl === null ? null : durationOf(ttl);
  const refused = (error: FileError | "peer_unreachable", message: string, audience = ""): ToolRun => {
    record({ handle_id: null, path, audience, expires_at_ms: null, outcome: error, reason: message });
    return { passed: false, text: `${error}: ${message}`, metadata: [] };
  };
  const resolved = resolveShared(plane.root, path);
  if (isRefusal(resolved)) return refused(resolved.error, resolved.message);
  const audience = await audienceOf(options, peer, signal);
  if ("problem" in audience) return refused("peer_unreachable", audience.problem);
  const minted = mintHandle(plane, resolved.path, audience.audience, ttlSeconds);
  record({
    handle_id: minted.handle_id,
    path: resolved.path,
    audience: minted.audience,
    expires_at_ms: minted.expires_at_ms,
    outcome: "ok",
    reason: null,
  });
  return { passed: true, text: JSON.stringify(minted), metadata: [] };
}

/** A `ttl` in seconds. @throws {DispatchRefusal} */
function durationOf(ttl: unknown): number {
  const seconds = typeof ttl === "string" ? parseDuration(ttl) : Number.isInteger(ttl) ? ttl as number : null;
  if (seconds !== null && seconds > 0) return seconds;
  throw new DispatchRefusal("share-file: 'ttl' must be a duration above 0: seconds, or a number with s, m, h or d");
}

/** The audience of a peer, as its own agent card gives it. */
async function audienceOf(
  { network, client, patience }: ShareFileOptions,
  peer: string,
  signal: AbortSignal,
): Promise<{ readonly audience: string } | { readonly problem: string }> {
  const url = peerUrl(peer);
  if (url === null) return { problem: "'peer' is neither host:port nor an http(s) URL" };
  const shown = shownPeer(url);
  const target = targetOf(url);
  if (!network.some((rule) => networkRuleMatches(rule, target))) {
    return { problem: `${shown} is not in capabilities.network.allow, under which its agent card is fetched` };
  }
  try {
    const response = await getFromPeer(new URL(CARD_PATH, url), { client, patience, signal });
    if (response.status !== 200) {
      await response.close();
      return { problem: `${shown} answered ${response.status} instead of its agent card` };
    }
    const text = await textOfPeer(response, MAX_CARD_BYTES);
    const audience = audienceFromCard(text === null ? null : jsonOf(text));
    return audience === null ? { problem: `the agent card of ${shown} has no usable name and address` } : { audience };
  } catch (error) {
    if (error instanceof HttpError) return { problem: error.message };
    throw error;
  }
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
