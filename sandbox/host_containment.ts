/**
 * What this host offers for containing commands, as one reading that a whole launch uses (spec containment 1.2, 1.5).
 *
 * @module
 */
import { confineHelper } from "./confine_helper.ts";
import { type HostProbe, probeHost } from "./host_probe.ts";

/** What a launch knows of its host. */
export type HostReading =
  | { readonly kind: "probed"; readonly probe: HostProbe }
  /** Not Linux: nothing of the kernel's is used, and never will be. */
  | { readonly kind: "foreign"; readonly platform: string };

/**
 * Reads the host, once for a launch.
 *
 * @throws {MurError} `E-IO-003` when the helper can't be found or asked.
 */
export async function readHost(): Promise<HostReading> {
  const { os } = Deno.build;
  return os === "linux"
    ? { kind: "probed", probe: await probeHost(await confineHelper()) }
    : { kind: "foreign", platform: os };
}
