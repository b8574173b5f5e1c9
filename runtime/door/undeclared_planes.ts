/**
 * What a door answers below `/resources` and `/control` when its manifest declares neither plane nor surface (spec door 1,
 * 2; spec resource plane). The raw path decides, never a normalised one. Pure.
 *
 * @module
 */
import { percentDecodeForRecord } from "../../base/percent_encoding.ts";
import { tokenId } from "../trace/trace_redaction.ts";
import type { HttpRefusal } from "./door_access.ts";
import type { PlaneRecord } from "./door_session.ts";

function isAtOrBelow(path: string, root: string): boolean {
  return path === root || path.startsWith(`${root}/`);
}

/** Whose answer a path is; `null`: not one of theirs. */
export function planeOf(path: string): "peer_plane" | "operator_plane" | "control" | null {
  if (isAtOrBelow(path, "/resources/peer")) return "peer_plane";
  if (isAtOrBelow(path, "/resources")) return "operator_plane";
  return isAtOrBelow(path, "/control") ? "control" : null;
}

/** The refusal of a plane that is not declared. */
export function refusePlane(plane: "peer_plane" | "operator_plane", method: string): HttpRefusal {
  if (method !== "GET") {
    return {
      status: 405,
      error: "method_not_allowed",
      message: "the planes are read with GET",
      headers: [["allow", "GET"]],
    };
  }
  return plane === "peer_plane"
    ? { status: 404, error: "no_peer_plane", message: "this capsule declares no exports.peer_files" }
    : { status: 404, error: "no_resource_plane", message: "this capsule declares no exports.files" };
}

/** The line that a refused request to an undeclared plane leaves in the trace (spec trace 6.8). */
export function undeclaredRecord(
  plane: "peer_plane" | "operator_plane",
  request: { readonly rawPath: string; readonly audience: string | null },
  session: { readonly generation: number; readonly containment: string },
  { error, message }: HttpRefusal,
): PlaneRecord {
  const { rawPath, audience } = request;
  const { generation, containment } = session;
  const common = { generation, outcome: error, reason: message };
  if (plane === "peer_plane") {
    const handle = rawPath.slice("/resources/peer/".length);
    return {
      type: "peer_handle_redeem",
      body: {
        handle_id: tokenId(handle),
        path: null,
        audience_asserted: audience,
        bytes: null,
        sha256: null,
        ...common,
      },
    };
  }
  if (rawPath === "/resources/files") {
    return {
      type: "resource_list",
      body: { root: "", entry_count: 0, total_bytes: 0, containment_achieved: containment, ...common },
    };
  }
  const below = rawPath.startsWith("/resources/files/") ? rawPath.slice("/resources/files/".length) : rawPath;
  return {
    type: "resource_read",
    body: {
      path: percentDecodeForRecord(below),
      bytes: null,
      sha256: null,
      containment_achieved: containment,
      ...common,
    },
  };
}
