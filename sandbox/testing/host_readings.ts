/**
 * Readings of hosts for tests of what is decided from them.
 *
 * @module
 */
import type { HostReading } from "../host_containment.ts";
import type { HostProbe } from "../host_probe.ts";

/** A host whose kernel has everything. */
export const PROBE: HostProbe = {
  landlockAbi: 7,
  landlock: true,
  network: "ok",
  sealed: "ok",
  privateMounts: "ok",
  pidNamespace: true,
  ownProc: true,
  sampling: true,
  usernsGrant: "apparmor_absent",
};

/** That host, but for what is given. */
export function probed(more: Partial<HostProbe> = {}): HostReading {
  return { kind: "probed", probe: { ...PROBE, ...more } };
}
