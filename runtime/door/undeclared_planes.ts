/**
 * What a door answers below `/resources` and `/control` when its manifest declares neither plane nor surface (spec door 1,
 * 2; spec resource plane). The raw path decides, never a normalised one. Pure.
 *
 * @module
 */
import type { HttpRefusal } from "./door_access.ts";

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
