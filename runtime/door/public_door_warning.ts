/**
 * `W-SEC-032`: a door without authentication that others than this machine can reach (spec cli 12, diagnostics 9). The same
 * bytes from `mur run` and `mur doctor`. Pure.
 *
 * @module
 */
import type { CapsuleManifest } from "../../artifact/manifest/capsule_manifest.ts";
import type { Warning } from "../../base/errors.ts";
import { SERVED_METHODS } from "./agent_card.ts";
import { addressKind, parseIpAddress } from "../../base/ip_address.ts";

/** Whether a `--bind` address is one only this machine reaches: `127.0.0.0/8`, `::1`, `localhost`. */
export function isLoopbackBind(address: string): boolean {
  if (address === "localhost") return true;
  const parsed = parseIpAddress(address) ?? parseIpAddress(`[${address}]`);
  return parsed !== null && addressKind(parsed) === "loopback";
}

/** The warning for a capsule whose door is bound to an address; `null` when there is nothing to warn about. */
export function publicDoorWarning(manifest: CapsuleManifest, bind: string): Warning | null {
  const { inference, network, exports } = manifest;
  if (inference === null || network.authentication !== null || isLoopbackBind(bind)) return null;
  const open = [...SERVED_METHODS, ...(exports.files === null ? [] : ["resources/files"])];
  const calls = open.length === 0 ? "read its agent card" : `call ${open.join(", ")}`;
  return {
    code: "W-SEC-032",
    source: null,
    message:
      `the door is bound to ${bind} and declares no network.authentication: whoever reaches it may ${calls}; the card ` +
      "tells name, version, session id and tools. Declare network.authentication, or bind to loopback",
  };
}
