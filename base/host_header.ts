/**
 * What a `Host` header names, for listeners that must not answer to names a web page can point at them (spec door 2.1,
 * roost 2.4). Pure.
 *
 * @module
 */

/** Host part of a `Host` header, lower-cased and without its port; `null` when it is none. */
export function hostOfHeader(header: string): string | null {
  const match = /^(\[[0-9A-Fa-f:.]+\]|[^\s:/?#@\[\]]+)(?::\d{0,5})?$/.exec(header);
  return match === null ? null : match[1]!.toLowerCase();
}

/** Whether a host is this machine by a name or literal that leads nowhere else: `localhost`, `127.0.0.0/8`, `[::1]`. */
export function isLoopbackHost(host: string): boolean {
  if (host === "localhost" || host === "[::1]") return true;
  return host.startsWith("127.") && isIpv4Literal(host);
}

/** Whether a host is an address literal, which no name can be rebound to. */
export function isAddressLiteral(host: string): boolean {
  return host.startsWith("[") || isIpv4Literal(host);
}

function isIpv4Literal(host: string): boolean {
  return /^\d{1,3}(\.\d{1,3}){3}$/.test(host) && host.split(".").every((part) => Number(part) <= 255);
}
