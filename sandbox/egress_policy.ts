/**
 * Who a command of a session may connect to (spec containment 9.2 to 9.4). Pure: addresses, names and times come in,
 * decisions go out.
 *
 * A connection arrives as an IPv4 address and a port. It is let through when a name that leads there is one the allow
 * rules name for that port. Names lead to an address in three ways: this session's resolver just said so, the rule's host
 * resolved to it at launch, or the rule's host is that address itself. Whatever the name, the address is judged as
 * everywhere else: a name opens public addresses only, `localhost` the loopback ones, an address literal itself.
 *
 * @module
 */
import type { NetworkRule } from "../artifact/network_rules.ts";
import { addressAdmitted, type AddressRule, addressRuleFor } from "../base/address_rule.ts";
import { formatIpAddress, type IpAddress } from "../base/ip_address.ts";
import { MAX_EGRESS_PORTS } from "./network_keeper.ts";

/** Milliseconds a name leads to the address it resolved to (spec containment 9.3). */
export const NAME_BINDING_MS = 300_000;

/**
 * Bindings kept at once; the oldest goes first. The rules bound the names, but who runs an allowed name's zone answers with
 * as many addresses as it likes.
 */
export const MAX_NAME_BINDINGS = 4_096;

/** Ports of a rule without one. */
const WEB_PORTS: readonly number[] = [80, 443];

/** Addresses of the rules' hosts, by host. */
export type HostAddresses = ReadonlyMap<string, readonly IpAddress[]>;

/** Each rule's port, or 80 and 443 where it has none; ascending, each once. Port 0 is none. */
function portsOf(rules: readonly NetworkRule[]): number[] {
  const ports = new Set(rules.flatMap(({ port }) => port === null ? WEB_PORTS : [port]));
  ports.delete(0);
  return [...ports].sort((a, b) => a - b);
}

/** TCP ports the relay listens on: the first 16 that the rules name. */
export function egressPorts(rules: readonly NetworkRule[]): readonly number[] {
  return portsOf(rules).slice(0, MAX_EGRESS_PORTS);
}

/** Ports that the rules name and the relay does not listen on: commands cannot reach them. */
export function unservedPorts(rules: readonly NetworkRule[]): readonly number[] {
  return portsOf(rules).slice(MAX_EGRESS_PORTS);
}

/** A rule's host or a name as it is asked for: lower case, without the dot that may end it. */
export function egressHost(name: string): string {
  return name.toLowerCase().replace(/\.$/, "");
}

/** One host of the rules. */
interface EgressHost {
  readonly opens: AddressRule;
  /** `null` among them: any port. The scheme of a rule has become its port, and nothing more is known of a connection. */
  readonly ports: ReadonlySet<number | null>;
}

function hostsOf(rules: readonly NetworkRule[]): ReadonlyMap<string, EgressHost> {
  const hosts = new Map<string, { opens: AddressRule; ports: Set<number | null> }>();
  for (const rule of rules) {
    const host = egressHost(rule.host);
    const known = hosts.get(host);
    if (known === undefined) hosts.set(host, { opens: addressRuleFor(host), ports: new Set([rule.port]) });
    else known.ports.add(rule.port);
  }
  return hosts;
}

/** What one session's commands may reach. Every time is milliseconds of one clock that never goes back. */
export class EgressPolicy {
  readonly #hosts: ReadonlyMap<string, EgressHost>;
  /** Hosts that lead to an address for as long as the session lasts, by address. */
  readonly #fixed = new Map<string, string[]>();
  /** Names resolved for this session's commands and the end of each, by address; the address bound last is last. */
  readonly #bound = new Map<string, Map<string, number>>();
  #bindings = 0;

  /** @param launch Addresses of the rules' hosts at launch; a host that did not resolve is left out. */
  constructor(rules: readonly NetworkRule[], launch: HostAddresses) {
    this.#hosts = hostsOf(rules);
    const fix = (host: string, address: IpAddress) => {
      const key = formatIpAddress(address);
      this.#fixed.set(key, [...this.#fixed.get(key) ?? [], host]);
    };
    for (const [host, addresses] of launch) for (const address of addresses) fix(egressHost(host), address);
    for (const [host, { opens }] of this.#hosts) if (opens.kind === "literal") fix(host, opens.address);
  }

  /** Whether a name may be resolved at all: it is a rule's host, and no address. */
  resolvable(name: string): boolean {
    const host = this.#hosts.get(egressHost(name));
    return host !== undefined && host.opens.kind !== "literal";
  }

  /**
   * Lets a resolved name lead to its addresses for {@linkcode NAME_BINDING_MS}.
   *
   * @returns Those the name may open; the others are not bound, and nobody should be told of them.
   */
  bind(name: string, addresses: readonly IpAddress[], now: number): readonly IpAddress[] {
    const host = this.#hosts.get(egressHost(name));
    if (host === undefined || host.opens.kind === "literal") return [];
    const admitted = addresses.filter((address) => addressAdmitted(host.opens, address));
    for (const address of admitted) {
      // Nothing but IPv4 can be dialled.
      if (address.version === 4) this.#bindOne(egressHost(name), formatIpAddress(address), now);
    }
    return admitted;
  }

  #bindOne(name: string, address: string, now: number): void {
    const names = this.#bound.get(address) ?? new Map<string, number>();
    for (const [known, end] of names) if (end <= now && names.delete(known)) this.#bindings--;
    if (!names.has(name)) this.#bindings++;
    names.set(name, now + NAME_BINDING_MS);
    this.#bound.delete(address);
    this.#bound.set(address, names);
    for (const [oldest, dropped] of this.#bound) {
      const expired = [...dropped.values()].every((end) => end <= now);
      if (!expired && this.#bindings <= MAX_NAME_BINDINGS) break;
      this.#bound.delete(oldest);
      this.#bindings -= dropped.size;
    }
  }

  /** How many bindings are kept, expired ones that nothing has swept yet among them. */
  get bindings(): number {
    return this.#bindings;
  }

  /** Whether a connection to the address and port is let through. Only IPv4 ever is. */
  admits(address: IpAddress, port: number, now: number): boolean {
    if (address.version !== 4) return false;
    const key = formatIpAddress(address);
    const opens = (name: string) => {
      const host = this.#hosts.get(name);
      return host !== undefined && (host.ports.has(port) || host.ports.has(null)) &&
        addressAdmitted(host.opens, address);
    };
    for (const [name, end] of this.#bound.get(key) ?? []) if (now < end && opens(name)) return true;
    return (this.#fixed.get(key) ?? []).some(opens);
  }
}
