/**
 * Addresses of the allow rules' hosts at launch (spec containment 9.2): what a command may dial that keeps addresses
 * instead of names.
 *
 * @module
 */
import type { NetworkRule } from "../artifact/network_rules.ts";
import type { IpAddress } from "../base/ip_address.ts";
import type { NameResolver } from "../base/name_resolver.ts";
import { egressHost, type HostAddresses } from "./egress_policy.ts";

/** Names that are asked for at once: each takes sockets. */
const AT_ONCE = 32;

/** What the hosts resolved to. */
export interface LaunchAddresses {
  /** A host that did not resolve is not among them. */
  readonly addresses: HostAddresses;
  /** Hosts no name server answered for, and why: one line for the operator each. A name that does not exist is none. */
  readonly unanswered: readonly string[];
}

/**
 * Resolves every host of the rules, each within the resolver's budget for a name. Addresses are not judged here but when
 * they are dialled.
 *
 * @throws The reason of `signal` when it aborts.
 */
export async function resolveLaunchAddresses(
  rules: readonly NetworkRule[],
  resolver: NameResolver,
  signal?: AbortSignal,
): Promise<LaunchAddresses> {
  const hosts = [...new Set(rules.map(({ host }) => egressHost(host)))];
  const addresses = new Map<string, readonly IpAddress[]>();
  const unanswered: string[] = [];
  const rest = hosts.values();
  await Promise.all(Array.from({ length: AT_ONCE }, async () => {
    for (const host of rest) {
      const found = await resolver.resolve(host, signal);
      if (found.kind === "found") addresses.set(host, found.addresses);
      else if (found.kind === "no-answer") unanswered.push(`${host}: ${found.reason}`);
    }
  }));
  return { addresses, unanswered };
}
