/**
 * What this host offers for containing commands, as one reading that a whole launch uses (spec containment 1.2, 1.5).
 *
 * @module
 */

import type { HostProbe } from "./host_probe.ts";

/** What a launch knows of its host. */
export type HostReading =
  | { readonly kind: "probed"; readonly probe: HostProbe }
  /** Not Linux: nothing of the kernel's is used, and never will be. */
  | { readonly kind: "foreign"; readonly platform: string }
  /** Nothing is enforced here although the kernel might: `reason` says why. */
  | { readonly kind: "unenforced"; readonly reason: string };

/** Why commands are not contained on Linux: the host is not asked. */
const NOT_CONTAINED = "this version of mur does not contain commands by kernel means yet";

/** Reads the host, once for a launch. */
export function readHost(): HostReading {
  const { os } = Deno.build;
  return os === "linux" ? { kind: "unenforced", reason: NOT_CONTAINED } : { kind: "foreign", platform: os };
}
