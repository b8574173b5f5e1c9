/**
 * Manifests of the tools that hand files to peers and fetch files from them (spec components 11.1, 11.2).
 *
 * @module
 */
import type { JsonObject } from "../../base/json_value.ts";
import { stringify } from "yaml";

const PEER = { type: "string", description: "The peer's address, host:port or an http(s) URL" };

function manifest(name: string, description: string, properties: JsonObject, required: string[]): string {
  return stringify({
    name,
    version: "0.0.0",
    runtime: "tool",
    implementation: "native",
    description,
    input_schema: { type: "object", properties, required },
  });
}

/** The manifest of `share-file`. @param root `exports.peer_files.root`. */
export function shareFileManifest(root: string): string {
  return manifest(
    "share-file",
    `Makes a handle for one file in '${root}' that one peer can fetch. Send the handle to that peer in a message; it names ` +
      "the file, not a version of it.",
    {
      path: { type: "string", description: `Path of the file, relative to '${root}'; a % in it is written %25` },
      peer: PEER,
      ttl: {
        type: "string",
        description: "How long the handle works, e.g. 90s, 10m, 1h; at most and by default the longest",
      },
    },
    ["path", "peer"],
  );
}

/** The manifest of `fetch-peer-file`. */
export function fetchPeerFileManifest(): string {
  return manifest(
    "fetch-peer-file",
    "Fetches the file behind a handle that a peer sent and stores it in peer-in/ of the work folder. The result tells " +
      "where it lies; read it from there.",
    { peer: PEER, handle: { type: "string", description: "The handle as the peer sent it, mh1.…" } },
    ["peer", "handle"],
  );
}
