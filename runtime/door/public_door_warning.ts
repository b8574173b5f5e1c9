/**
 * `W-SEC-032`: a door without authentication that others than this machine can reach (spec cli 12, diagnostics 9). The same
 * bytes from `mur run` and `mur doctor`. Pure.
 *
 * @module
 */
import type { CapsuleManifest } from "../../artifact/manifest/capsule_manifest.ts";
import type { Warning } from "../../base/errors.ts";
import { addressKind, parseIpAddress } from "../../base/ip_address.ts";
import { servedMethods } from "./door_methods.ts";

/** Whether a `--bind` address is one only this machine reaches: `127.0.0.0/8`, `::1`, `localhost`. */
export function isLoopbackBind(address: string): boolean {
  if (address === "localhost") return true;
  const parsed = parseIpAddress(address) ?? parseIpAddress(`[${address}]`);
  return parsed !== null && addressKind(parsed) === "loopback";
}

/**
 * The warning for a capsule whose door is bound to an address; `null` when there is nothing to warn about.
 *
 * @param acceptance What the door takes, flags counted in.
 */
export function publicDoorWarning(
  manifest: CapsuleManifest,
  bind: string,
  acceptance = manifest.lifecycle.taskAcceptance,
): Warning | null {
  const { inference, network, exports } = manifest;
  if (inference === null || network.authentication !== null || isLoopbackBind(bind)) return null;
  const methods = servedMethods({ takesTasks: acceptance !== "none", authenticated: false });
  const open = [...methods, ...(exports.files === null ? [] : ["resources/files"])];
  return {
    code: "W-SEC-032",
    source: null,
    message: `the door is bound to ${bind} and declares no network.authentication: whoever reaches it may call ` +
      `${
        open.join(", ")
      }; the card tells name, version, session id, tools, and whether the capsule has a shell, network ` +
      "and planes. Declare network.authentication, or bind to loopback",
  };
}
