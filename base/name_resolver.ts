/**
 * The one name resolver: hosts file, then the name servers of `/etc/resolv.conf` with its search list and `ndots`; nothing
 * of nsswitch, mDNS or NIS (spec containment 9.4). The HTTP client, the relay of commands and the resolution at launch
 * share it, so that a name means the same to all of them.
 *
 * @module
 */
import { type IpAddress, parseIpAddress } from "./ip_address.ts";
import { DEFAULT_TIME_BOUNDS, type TimeBounds } from "./time_bounds.ts";

/** What a name resolved to. */
export type Resolution =
  | { readonly kind: "found"; readonly addresses: readonly IpAddress[] }
  /** Every server answered, and none knows an address of the name. */
  | { readonly kind: "no-such-name" }
  /** No server answered in time. */
  | { readonly kind: "no-answer"; readonly reason: string };

export interface NameResolver {
  /**
   * Addresses of a name, IPv4 before IPv6, duplicates removed. A literal resolves to itself. Never rejects, but for
   * an abort by `signal`, whose reason it throws.
   */
  resolve(name: string, signal?: AbortSignal): Promise<Resolution>;
}

/** What `/etc/resolv.conf` says, as far as it is honoured. */
export interface ResolverConfig {
  readonly nameservers: readonly string[];
  readonly search: readonly string[];
  readonly ndots: number;
}

/** Servers asked at most, as in the C library. */
const MAX_NAMESERVERS = 3;
/** First question and two retries. */
const ROUNDS = 3;

/** The lower-case name without its trailing dot. */
function normalName(name: string): string {
  return name.toLowerCase().replace(/\.$/, "");
}

/** Parses a hosts file: lower-case names to their addresses, in file order. Lines that do not parse are skipped. */
export function parseHosts(text: string): ReadonlyMap<string, readonly IpAddress[]> {
  const hosts = new Map<string, IpAddress[]>();
  for (const line of text.split("\n")) {
    const [first, ...names] = line.replace(/#.*/, "").trim().split(/\s+/);
    const address = parseIpAddress(first ?? "");
    if (address === null) continue;
    for (const name of names) {
      const known = hosts.get(normalName(name));
      if (known === undefined) hosts.set(normalName(name), [address]);
      else known.push(address);
    }
  }
  return hosts;
}

/** Parses `resolv.conf`; the last `search` or `domain` line counts, as in the C library. */
export function parseResolvConf(text: string): ResolverConfig {
  const nameservers: string[] = [];
  let search: readonly string[] = [];
  let ndots = 1;
  for (const line of text.split("\n")) {
    if (/^\s*[#;]/.test(line)) continue;
    const [keyword, ...values] = line.trim().split(/\s+/);
    if (keyword === "nameserver" && values[0] !== undefined && nameservers.length < MAX_NAMESERVERS) {
      nameservers.push(values[0]);
    } else if (keyword === "search" || keyword === "domain") {
      search = values.map(normalName).filter((domain) => domain !== "");
    } else if (keyword === "options") {
      for (const option of values) {
        const match = /^ndots:([0-9]{1,2})$/.exec(option);
        if (match !== null) ndots = Math.min(15, Number(match[1]));
      }
    }
  }
  return { nameservers, search, ndots };
}

/** Absolute names to ask for, in order, without their trailing dot. */
export function searchedNames(name: string, config: ResolverConfig): readonly string[] {
  const bare = normalName(name);
  if (name.endsWith(".")) return [bare];
  const searched = config.search.map((domain) => `${bare}.${domain}`);
  const dots = bare.split(".").length - 1;
  return dots >= config.ndots ? [bare, ...searched] : [...searched, bare];
}

/** Loopback names never leave the machine (RFC 6761, 6.3). */
function loopbackAddresses(name: string): readonly IpAddress[] | null {
  if (name !== "localhost" && !name.endsWith(".localhost")) return null;
  return [parseIpAddress("127.0.0.1")!, parseIpAddress("::1")!];
}

function ordered(addresses: readonly IpAddress[]): readonly IpAddress[] {
  const seen = new Set<string>();
  const distinct = addresses.filter((address) => {
    const key = address.bytes.join(".");
    return !seen.has(key) && seen.add(key);
  });
  return [...distinct.filter((a) => a.version === 4), ...distinct.filter((a) => a.version === 6)];
}

export interface NameResolverOptions {
  /** Text of the hosts file. */
  readonly hosts: string;
  /** Text of `resolv.conf`; with no `nameserver` line the operating system's own are asked. */
  readonly resolvConf: string;
  readonly bounds?: Pick<TimeBounds, "resolveName" | "nameserverReply">;
  /** Port of every name server; 53. */
  readonly port?: number;
}

/** A resolver over the given configuration. */
export function createNameResolver(options: NameResolverOptions): NameResolver {
  const hosts = parseHosts(options.hosts);
  const config = parseResolvConf(options.resolvConf);
  const bounds = options.bounds ?? DEFAULT_TIME_BOUNDS;
  const servers: readonly (string | null)[] = config.nameservers.length > 0 ? config.nameservers : [null];

  async function query(name: string, type: "A" | "AAAA", server: string | null, signal: AbortSignal) {
    const nameServer = server === null ? {} : { nameServer: { ipAddr: server, port: options.port ?? 53 } };
    try {
      const answers = await Deno.resolveDns(`${name}.`, type, { ...nameServer, signal });
      return answers.map(parseIpAddress).filter((address) => address !== null);
    } catch (error) {
      // The platform reports a name without records, an unknown name and a refusing server alike as `NotFound`.
      if (error instanceof Deno.errors.NotFound) return [];
      throw error;
    }
  }

  /** Both families from one server; `null` when it did not answer. */
  async function ask(name: string, server: string | null, signal: AbortSignal): Promise<readonly IpAddress[] | null> {
    const families = await Promise.allSettled([query(name, "A", server, signal), query(name, "AAAA", server, signal)]);
    const addresses = families.flatMap((family) => family.status === "fulfilled" ? family.value : []);
    if (addresses.length > 0) return addresses;
    return families.some((family) => family.status === "rejected") ? null : [];
  }

  async function lookUp(name: string, signal: AbortSignal): Promise<Resolution> {
    const silent = new Set(servers);
    for (let round = 0; round < ROUNDS && silent.size > 0 && !signal.aborted; round++) {
      for (const server of [...silent]) {
        const attempt = AbortSignal.any([signal, AbortSignal.timeout(bounds.nameserverReply)]);
        const addresses = await ask(name, server, attempt);
        if (addresses === null) continue;
        if (addresses.length > 0) return { kind: "found", addresses: ordered(addresses) };
        silent.delete(server);
      }
    }
    if (silent.size === 0) return { kind: "no-such-name" };
    return { kind: "no-answer", reason: `no name server answered within ${bounds.resolveName} ms` };
  }

  return {
    async resolve(name, signal) {
      signal?.throwIfAborted();
      const literal = parseIpAddress(name);
      if (literal !== null) return { kind: "found", addresses: [literal] };
      const bare = normalName(name);
      const known = hosts.get(bare) ?? loopbackAddresses(bare);
      if (known !== null) return { kind: "found", addresses: ordered(known) };
      const budget = AbortSignal.timeout(bounds.resolveName);
      const bounded = signal === undefined ? budget : AbortSignal.any([signal, budget]);
      let answer: Resolution = { kind: "no-such-name" };
      for (const candidate of searchedNames(name, config)) {
        const found = await lookUp(candidate, bounded);
        signal?.throwIfAborted();
        if (found.kind === "found") return found;
        if (found.kind === "no-answer") answer = found;
      }
      return answer;
    },
  };
}

let shared: NameResolver | undefined;

/** The resolver of this process; its two files are read once. A missing file is an empty one. */
export function systemNameResolver(): NameResolver {
  const read = (path: string) => {
    try {
      return Deno.readTextFileSync(path);
    } catch {
      return "";
    }
  };
  return shared ??= createNameResolver({ hosts: read("/etc/hosts"), resolvConf: read("/etc/resolv.conf") });
}
