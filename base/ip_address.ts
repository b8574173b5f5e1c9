/**
 * IP addresses: parsing, canonical text, and whether one belongs to the public Internet. Pure.
 *
 * The judgement is an allow-list: an address is public only when it lies in globally reachable unicast space of the IANA
 * special-purpose registries, so space that is reserved today or named by nobody is not reachable by a name
 * (spec components 3.6, containment 9.3).
 *
 * @module
 */

/** A parsed address: 4 bytes for IPv4, 16 for IPv6. */
export interface IpAddress {
  readonly version: 4 | 6;
  readonly bytes: Uint8Array;
}

/** What an address is for, as far as the rules for outgoing connections care. */
export type AddressKind =
  | "public"
  | "loopback"
  | "private"
  | "link-local"
  | "unspecified"
  | "multicast"
  | "metadata"
  | "transition"
  | "reserved";

function parseIpv4(text: string): Uint8Array | null {
  const parts = text.split(".");
  if (parts.length !== 4) return null;
  const bytes = new Uint8Array(4);
  for (const [index, part] of parts.entries()) {
    // A leading zero reads as octal in some resolvers: two readings of one text are refused.
    if (!/^(0|[1-9][0-9]{0,2})$/.test(part)) return null;
    const value = Number(part);
    if (value > 255) return null;
    bytes[index] = value;
  }
  return bytes;
}

function parseGroups(text: string): number[] | null {
  if (text === "") return [];
  const groups: number[] = [];
  for (const part of text.split(":")) {
    if (!/^[0-9a-fA-F]{1,4}$/.test(part)) return null;
    groups.push(Number.parseInt(part, 16));
  }
  return groups;
}

function parseIpv6(text: string): Uint8Array | null {
  let source = text;
  const lastColon = source.lastIndexOf(":");
  if (source.includes(".")) {
    const tail = parseIpv4(source.slice(lastColon + 1));
    if (lastColon < 0 || tail === null) return null;
    const hex = (at: number) => ((tail[at]! << 8) | tail[at + 1]!).toString(16);
    source = `${source.slice(0, lastColon + 1)}${hex(0)}:${hex(2)}`;
  }
  const halves = source.split("::");
  if (halves.length > 2) return null;
  const head = parseGroups(halves[0]!);
  const tail = halves.length === 2 ? parseGroups(halves[1]!) : [];
  if (head === null || tail === null) return null;
  const missing = 8 - head.length - tail.length;
  // `::` stands for at least one group.
  if (halves.length === 2 ? missing < 1 : missing !== 0) return null;
  const groups = [...head, ...new Array<number>(missing).fill(0), ...tail];
  const bytes = new Uint8Array(16);
  for (const [index, group] of groups.entries()) {
    bytes[index * 2] = group >> 8;
    bytes[index * 2 + 1] = group & 0xff;
  }
  return bytes;
}

/**
 * Parses dotted decimal IPv4 or RFC 4291 IPv6 text, the latter with or without the brackets of a URL host. Zone ids,
 * octal, hexadecimal and short IPv4 forms are no addresses here; a URL host never holds one, for the URL parser has
 * rewritten it already.
 */
export function parseIpAddress(text: string): IpAddress | null {
  const bare = text.startsWith("[") && text.endsWith("]") ? text.slice(1, -1) : text;
  if (bare.includes(":")) {
    const bytes = parseIpv6(bare);
    return bytes === null ? null : { version: 6, bytes };
  }
  if (bare !== text) return null;
  const bytes = parseIpv4(text);
  return bytes === null ? null : { version: 4, bytes };
}

/** Canonical text: dotted decimal, or RFC 5952 without brackets and without an embedded dotted part. */
export function formatIpAddress(address: IpAddress): string {
  if (address.version === 4) return address.bytes.join(".");
  const groups: number[] = [];
  for (let at = 0; at < 16; at += 2) groups.push((address.bytes[at]! << 8) | address.bytes[at + 1]!);
  let best = { start: -1, length: 1 };
  for (let at = 0; at < 8;) {
    if (groups[at] !== 0) {
      at += 1;
      continue;
    }
    let end = at;
    while (end < 8 && groups[end] === 0) end += 1;
    if (end - at > best.length) best = { start: at, length: end - at };
    at = end;
  }
  const hex = (from: number, to: number) => groups.slice(from, to).map((group) => group.toString(16)).join(":");
  if (best.start < 0) return hex(0, 8);
  return `${hex(0, best.start)}::${hex(best.start + best.length, 8)}`;
}

/** Whether two addresses are the same bytes of the same version. */
export function sameIpAddress(a: IpAddress, b: IpAddress): boolean {
  return a.version === b.version && a.bytes.every((byte, index) => byte === b.bytes[index]);
}

function inPrefix(bytes: Uint8Array, prefix: readonly number[], bits: number): boolean {
  for (let bit = 0; bit < bits; bit += 8) {
    const mask = bits - bit >= 8 ? 0xff : (0xff << (8 - (bits - bit))) & 0xff;
    if ((bytes[bit / 8]! & mask) !== ((prefix[bit / 8] ?? 0) & mask)) return false;
  }
  return true;
}

/** First match decides; whatever is left is public. */
const IPV4_BLOCKS: readonly (readonly [readonly number[], number, AddressKind])[] = [
  [[0, 0, 0, 0], 32, "unspecified"],
  [[0], 8, "reserved"],
  [[10], 8, "private"],
  [[100, 64], 10, "private"],
  [[127], 8, "loopback"],
  // 169.254.169.254 and its neighbours, where clouds serve credentials, are link-local.
  [[169, 254], 16, "link-local"],
  [[172, 16], 12, "private"],
  [[192, 0, 0], 24, "reserved"],
  [[192, 0, 2], 24, "reserved"],
  [[192, 88, 99], 24, "transition"],
  [[192, 168], 16, "private"],
  [[198, 18], 15, "private"],
  [[198, 51, 100], 24, "reserved"],
  [[203, 0, 113], 24, "reserved"],
  // Lies in public space, yet every Azure machine has its host agent there.
  [[168, 63, 129, 16], 32, "metadata"],
  [[224], 4, "multicast"],
  [[240], 4, "reserved"],
];

/** First match decides; whatever is left is reserved, for only 2000::/3 is given out. */
const IPV6_BLOCKS: readonly (readonly [readonly number[], number, AddressKind])[] = [
  [[], 128, "unspecified"],
  [[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1], 128, "loopback"],
  [[0, 0x64, 0xff, 0x9b, 0, 1], 48, "transition"],
  [[0xfc], 7, "private"],
  [[0xfe, 0x80], 10, "link-local"],
  [[0xfe, 0xc0], 10, "private"],
  [[0xff], 8, "multicast"],
  // 2001::/23 holds Teredo, benchmarking, ORCHID and protocol assignments; none of it is a service on the Internet.
  [[0x20, 0x01, 0x00, 0x00], 32, "transition"],
  [[0x20, 0x01], 23, "reserved"],
  [[0x20, 0x01, 0x0d, 0xb8], 32, "reserved"],
  [[0x20, 0x02], 16, "transition"],
  [[0x3f, 0xff], 20, "reserved"],
  [[0x20], 3, "public"],
];

const IPV4_MAPPED = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff] as const;
const NAT64_WELL_KNOWN = [0, 0x64, 0xff, 0x9b] as const;

/**
 * The kind of an address. An IPv4-mapped address, and one of the well-known NAT64 prefix `64:ff9b::/96`, is what the IPv4
 * address in it is: the packet ends there, and networks with IPv6 alone reach the IPv4 Internet by that prefix. The other
 * forms that carry an IPv4 address (6to4, Teredo, local NAT64, IPv4-compatible) are never public: where a packet to one
 * ends is decided by a relay.
 */
export function addressKind(address: IpAddress): AddressKind {
  const { bytes } = address;
  if (address.version === 4) {
    return IPV4_BLOCKS.find(([prefix, bits]) => inPrefix(bytes, prefix, bits))?.[2] ?? "public";
  }
  if (inPrefix(bytes, IPV4_MAPPED, 96) || inPrefix(bytes, NAT64_WELL_KNOWN, 96)) {
    return addressKind({ version: 4, bytes: bytes.slice(12) });
  }
  return IPV6_BLOCKS.find(([prefix, bits]) => inPrefix(bytes, prefix, bits))?.[2] ?? "reserved";
}
