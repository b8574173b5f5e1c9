/**
 * The first check of every request at the door, before path, method, body or credential are looked at: a web page must
 * not be able to drive a capsule (spec door 2.1). Pure.
 *
 * @module
 */
import { hostOfHeader, isAddressLiteral, isLoopbackHost } from "../../base/host_header.ts";

/** The hosts a door answers for. */
export interface HostRules {
  /** The address the listener is bound to, e.g. `127.0.0.1`, `0.0.0.0`, `::1`. */
  readonly boundAddress: string;
  /** `network.hosts` of the manifest, lower-cased. */
  readonly hosts: readonly string[];
}

/** A refusal of the guard, as the door writes it. */
export interface GuardRefusal {
  readonly error: "host_not_allowed" | "origin_not_allowed";
  readonly message: string;
}

/** Whether a host name is one this door answers to. */
function hostAllowed(host: string, rules: HostRules): boolean {
  if (isLoopbackHost(host)) return true;
  const bound = rules.boundAddress.includes(":") ? `[${rules.boundAddress}]` : rules.boundAddress;
  if (bound === "0.0.0.0" || bound === "[::]") {
    // No name can be rebound to an address literal, so any of them is safe on a wildcard.
    if (isAddressLiteral(host)) return true;
  } else if (host === bound.toLowerCase()) {
    return true;
  }
  return rules.hosts.includes(host);
}

/** Whether a request is for this door, by a host and its port. */
export type IsOwnHost = (authority: string) => boolean;

/** Makes the question; it remembers the last host it said yes to, since nearly every request asks for the same. */
export function ownHost(rules: HostRules): IsOwnHost {
  let own: string | null = null;
  return (authority) => {
    if (authority === own) return true;
    const host = hostOfHeader(authority);
    if (host === null || !hostAllowed(host, rules)) return false;
    own = authority;
    return true;
  };
}

/** What the guard says of a request. */
export type GuardVerdict =
  | { readonly refusal: GuardRefusal }
  /** It may pass; `origin` is the listed one of a web page, `null` without one. */
  | { readonly refusal: null; readonly origin: string | null };

const FROM_NO_PAGE: GuardVerdict = { refusal: null, origin: null };

/**
 * Judges `Host` and `Origin`.
 *
 * @param authority Whom the request's target names. HTTP has one in absolute form go before `Host`, so both have to be the
 * door's.
 * @param origins `network.origins` of the manifest.
 */
export function guardRequest(
  headers: Headers,
  authority: string,
  isOwnHost: IsOwnHost,
  origins: readonly string[],
): GuardVerdict {
  // The first question, since it makes Deno hand over all headers at once; for the value of one it makes a call each time.
  const hasOrigin = headers.has("origin");
  const header = headers.get("host");
  if (header === null || !isOwnHost(header) || (authority !== header && !isOwnHost(authority))) {
    return { refusal: { error: "host_not_allowed", message: "this door does not answer for that host" } };
  }
  if (!hasOrigin) return FROM_NO_PAGE;
  const origin = headers.get("origin")!;
  return origins.includes(origin)
    ? { refusal: null, origin }
    : { refusal: { error: "origin_not_allowed", message: "this door does not answer to that origin" } };
}

/** Whether a `content-type` is a media type itself, in any case and whatever its parameters. */
export function isMediaType(header: string | null, type: string): boolean {
  if (header === null) return false;
  if (header === type) return true;
  const end = header.indexOf(";");
  return (end < 0 ? header : header.slice(0, end)).trim().toLowerCase() === type;
}

/** Request headers of the door that a page of a listed origin may send. */
const PAGE_HEADERS = [
  "a2a-extensions",
  "a2a-version",
  "authorization",
  "content-type",
  "last-event-id",
  "traceparent",
  "x-murmur-forget-session",
  "x-murmur-task-origin",
  "x-murmur-task-trust",
].join(", ");

/** Headers that let a page of a listed origin read an answer. */
export function pageHeaders(origin: string): readonly (readonly [string, string])[] {
  return [["access-control-allow-origin", origin], ["vary", "origin"]];
}

/** Headers of the answer to a page's preflight request. @param methods E.g. `POST`. */
export function preflightHeaders(origin: string, methods: string): readonly (readonly [string, string])[] {
  return [
    ...pageHeaders(origin),
    ["access-control-allow-methods", methods],
    ["access-control-allow-headers", PAGE_HEADERS],
  ];
}
