/**
 * The way out of a session's network: answers its commands' name queries and carries the connections they make, as far as
 * the allow rules go (spec containment 9.3, 9.4). One relay a session, behind its keeper.
 *
 * Connections are carried as bytes and nothing is read in them, so that no way of asking for another destination within
 * a connection (a proxy's, say) means anything here: it goes where it was dialled, and that address was judged. Names are
 * resolved for hosts of the rules alone; nothing else a command asks leaves this process.
 *
 * @module
 */
import type { NetworkRule } from "../artifact/network_rules.ts";
import { type IpAddress, parseIpAddress } from "../base/ip_address.ts";
import { type NameResolver, systemNameResolver } from "../base/name_resolver.ts";
import { DEFAULT_TIME_BOUNDS, type TimeBounds } from "../base/time_bounds.ts";
import { DNS_RCODE, dnsFormatError, dnsReply, type DnsResponseCode, parseDnsQuery } from "./dns_message.ts";
import { EgressPolicy, egressPorts, type HostAddresses } from "./egress_policy.ts";
import type { DialledConnection } from "./network_keeper.ts";

/** Connections carried at once (spec containment 9.3). */
export const MAX_RELAYED_CONNECTIONS = 128;

/** Queries that wait for the resolver; one more is lost, as on any network. */
const MAX_WAITING_QUERIES = 256;

/** Bytes read at once: first, and once a connection has filled that. With both directions this bounds a relay's memory. */
const FIRST_BUFFER = 4_096;
const FULL_BUFFER = 65_536;

/** How a relay is set up. */
export interface EgressRelayOptions {
  /** The capsule's `network.allow`. */
  readonly rules: readonly NetworkRule[];
  /** Addresses of the rules' hosts at launch. */
  readonly launch: HostAddresses;
  readonly resolver?: NameResolver;
  readonly bounds?: Pick<TimeBounds, "egressConnect" | "egressStall">;
  /** Milliseconds on a clock that never goes back. */
  readonly now?: () => number;
}

/** What became of a name within the rules. */
interface NameAnswer {
  readonly code: DnsResponseCode;
  readonly addresses: readonly IpAddress[];
}

/** One end of a carried connection. */
type End = Deno.TcpConn | Deno.UnixConn;

/** An end and how long nothing has moved on it. Times are milliseconds of {@linkcode performance.now}. */
class Side {
  readonly end: End;
  #moved = performance.now();
  #writingSince: number | null = null;

  constructor(end: End) {
    this.end = end;
  }

  /** Next bytes; `null` at the end. */
  async read(buffer: Uint8Array): Promise<number | null> {
    const length = await this.end.read(buffer);
    this.#moved = performance.now();
    return length;
  }

  async write(bytes: Uint8Array): Promise<void> {
    for (let rest = bytes; rest.length > 0;) {
      this.#writingSince = performance.now();
      rest = rest.subarray(await this.end.write(rest));
      this.#moved = performance.now();
    }
    this.#writingSince = null;
  }

  /**
   * Since when it has stood still: nothing read and nothing written, or one write that does not get on. A side that only
   * sends, or only takes, is well.
   */
  get stillSince(): number {
    return Math.min(this.#moved, this.#writingSince ?? Infinity);
  }

  close(): void {
    try {
      this.end.close();
    } catch {
      // Closed before.
    }
  }
}

/** Passes on what `from` sends, then its end. Reads no further than `to` has taken. */
async function carry(from: Side, to: Side): Promise<void> {
  let buffer = new Uint8Array(FIRST_BUFFER);
  for (let length = await from.read(buffer); length !== null; length = await from.read(buffer)) {
    await to.write(buffer.subarray(0, length));
    if (length === buffer.length && length < FULL_BUFFER) buffer = new Uint8Array(FULL_BUFFER);
  }
  await to.end.closeWrite();
}

/** Both directions of a connection until both have ended, one failed, or one side stood still for too long. */
async function carryBoth(a: Side, b: Side, stallMs: number): Promise<void> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const close = () => {
    a.close();
    b.close();
  };
  const watch = () => {
    const left = Math.min(a.stillSince, b.stillSince) + stallMs - performance.now();
    if (left <= 0) close();
    else timer = setTimeout(watch, left);
  };
  watch();
  try {
    // What one direction fails of ends the other: both use the same two ends.
    await Promise.all([carry(a, b), carry(b, a)]);
  } catch {
    // Closed by either side, or by the clock: to a command all of that is the end of its connection.
  } finally {
    clearTimeout(timer);
    close();
  }
}

/** A session's way out. */
export class EgressRelay implements AsyncDisposable {
  /** TCP ports the session's network listens on. */
  readonly ports: readonly number[];
  readonly #policy: EgressPolicy;
  readonly #resolver: NameResolver;
  readonly #bounds: Pick<TimeBounds, "egressConnect" | "egressStall">;
  readonly #now: () => number;
  readonly #closing = new AbortController();
  readonly #carried = new Set<Promise<void>>();
  readonly #ends = new Set<Side>();
  readonly #resolving = new Map<string, Promise<NameAnswer>>();
  #waiting = 0;

  constructor(options: EgressRelayOptions) {
    this.ports = egressPorts(options.rules);
    this.#policy = new EgressPolicy(options.rules, options.launch);
    this.#resolver = options.resolver ?? systemNameResolver();
    this.#bounds = options.bounds ?? DEFAULT_TIME_BOUNDS;
    this.#now = options.now ?? (() => performance.now());
  }

  /** Connections in its hands: being connected, or carried. */
  get connections(): number {
    return this.#carried.size;
  }

  /**
   * Answers a command's name query; `null` when there is no answer to give. Never rejects, and answers any number of
   * queries at once.
   */
  async answerQuery(message: Uint8Array): Promise<Uint8Array<ArrayBuffer> | null> {
    const query = parseDnsQuery(message);
    if (query.kind === "fragment") return null;
    if (query.kind === "malformed") return dnsFormatError(message);
    const { name, family, end } = query;
    if (name === null || !this.#policy.resolvable(name)) return dnsReply(message, end, DNS_RCODE.REFUSED);
    if (family === null) return dnsReply(message, end, DNS_RCODE.NOERROR);
    if (this.#waiting >= MAX_WAITING_QUERIES || this.#closing.signal.aborted) return null;
    this.#waiting += 1;
    try {
      const { code, addresses } = await this.#resolve(name);
      return dnsReply(message, end, code, addresses.filter(({ version }) => version === family));
    } catch {
      // The session ends.
      return null;
    } finally {
      this.#waiting -= 1;
    }
  }

  /** Resolves and binds a name; those who ask meanwhile share the answer. */
  #resolve(name: string): Promise<NameAnswer> {
    const known = this.#resolving.get(name);
    if (known !== undefined) return known;
    const asked = this.#resolver.resolve(name, this.#closing.signal).then((found): NameAnswer => {
      if (found.kind === "no-such-name") return { code: DNS_RCODE.NXDOMAIN, addresses: [] };
      if (found.kind === "no-answer") return { code: DNS_RCODE.SERVFAIL, addresses: [] };
      return { code: DNS_RCODE.NOERROR, addresses: this.#policy.bind(name, found.addresses, this.#now()) };
    }).finally(() => this.#resolving.delete(name));
    this.#resolving.set(name, asked);
    return asked;
  }

  /** Carries a command's connection to where it was dialled, or refuses it. Resolves once it has ended; never rejects. */
  async relay(connection: DialledConnection): Promise<void> {
    const address = parseIpAddress(connection.address);
    if (
      address === null || this.#carried.size >= MAX_RELAYED_CONNECTIONS || this.#closing.signal.aborted ||
      !this.#policy.admits(address, connection.port, this.#now())
    ) {
      return connection.refuse();
    }
    const carried = this.#carry(connection);
    this.#carried.add(carried);
    await carried;
    this.#carried.delete(carried);
  }

  async #carry(connection: DialledConnection): Promise<void> {
    let upstream: Deno.TcpConn;
    try {
      upstream = await Deno.connect({
        hostname: connection.address,
        port: connection.port,
        autoSelectFamily: false,
        signal: AbortSignal.any([this.#closing.signal, AbortSignal.timeout(this.#bounds.egressConnect)]),
      });
    } catch {
      return connection.refuse();
    }
    const sides = [new Side(upstream)];
    this.#ends.add(sides[0]!);
    try {
      upstream.setNoDelay(true);
      const command = new Side(await connection.accept());
      sides.push(command);
      this.#ends.add(command);
      if (!this.#closing.signal.aborted) await carryBoth(command, sides[0]!, this.#bounds.egressStall);
    } catch {
      // The command is gone.
    } finally {
      for (const side of sides) {
        side.close();
        this.#ends.delete(side);
      }
    }
  }

  /** Ends everything: queries go unanswered, connections close. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#closing.abort();
    for (const end of this.#ends) end.close();
    await Promise.all(this.#carried);
  }
}
