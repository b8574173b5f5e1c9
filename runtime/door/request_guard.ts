/**
 * The first check of every request at the door, before path, method, body or credential are looked at: a web page must
 * not be able to drive a capsule (spec door 2.1). Pure.
 *
 * @module
 */

/** What the door answers to. */
export interface GuardRules {
  /** The address the listener is bound to, e.g. `127.0.0.1`, `0.0.0.0`, `::1`. */
  readonly boundAddress: string;
  /** `network.hosts` of the manifest, lower-cased. */
  readonly hosts: readonly string[];
  /** `network.origins` of the manifest. */
  readonly origins: readonly string[];
}

/** A refusal of the guard, as the door writes it. */
export interface GuardRefusal {
  readonly error: "host_not_allowed" | "origin_not_allowed";
  readonly message: string;
}

/** Host part of a `Host` header, lower-cased and without its port; `null` when it is none. */
export function hostOfHeader(header: string): string | null {
  const match = /^(\[[0-9A-Fa-f:.]+\]|[^\s:/?#@\[\]]+)(?::\d{0,5})?$/.exec(header);
  return match === null ? null : match[1]!.toLowerCase();
}

function isLoopbackLiteral(host: string): boolean {
  if (host === "[::1]") return true;
  return /^127\.\d{1,3}\.\d{1,3}\.\d{1,3}$/.test(host) && host.split(".").every((part) => Number(part) <= 255);
}

function isAddressLiteral(host: string): boolean {
  if (host.startsWith("[")) return true;
  return /^\d{1,3}(\.\d{1,3}){3}$/.test(host) && host.split(".").every((part) => Number(part) <= 255);
}

/** Whether a host name is one this door answers to. */
export function hostAllowed(host: string, rules: GuardRules): boolean {
  if (host === "localhost" || isLoopbackLiteral(host)) return true;
  const bound = rules.boundAddress.includes(":") ? `[${rules.boundAddress}]` : rules.boundAddress;
  if (bound === "0.0.0.0" || bound === "[::]") {
    // No name can be rebound to an address literal, so any of them is safe on a wildcard.
    if (isAddressLiteral(host)) return true;
  } else if (host === bound.toLowerCase()) {
    return true;
  }
  return rules.hosts.includes(host);
}

/** Judges `Host` and `Origin`; `null` lets the request through. */
export function guardRequest(headers: Headers, rules: GuardRules): GuardRefusal | null {
  const header = headers.get("host");
  const host = header === null ? null : hostOfHeader(header);
  if (host === null || !hostAllowed(host, rules)) {
    return { error: "host_not_allowed", message: "this door does not answer for that host" };
  }
  const origin = headers.get("origin");
  if (origin !== null && !rules.origins.includes(origin)) {
    return { error: "origin_not_allowed", message: "this door does not answer to that origin" };
  }
  return null;
}
