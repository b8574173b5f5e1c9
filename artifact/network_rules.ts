/**
 * Network allow rules: one implementation of parsing, matching and covering for component requests, the door, command
 * egress, peer fetches and the spawn envelope (spec manifest 9.1, components 3.6).
 *
 * A rule names a host, and at most a scheme and a port besides. There are no wildcards, no suffixes and no paths, so
 * what a rule lets through can be read off it.
 *
 * @module
 */
import { MurError } from "../base/errors.ts";

/** Scheme of a request or rule. */
export type HttpScheme = "http" | "https";

/** One parsed `network.allow` entry. */
export interface NetworkRule {
  /** As written, trimmed. */
  readonly entry: string;
  /** `null`: any scheme. */
  readonly scheme: HttpScheme | null;
  /** Lower-cased WHATWG URL host; IPv6 literals keep their brackets. */
  readonly host: string;
  /** `null`: any port. */
  readonly port: number | null;
}

/** Where a request goes: host in the same normal form as a rule's. */
export interface NetworkTarget {
  readonly scheme: HttpScheme;
  readonly host: string;
  readonly port: number;
}

const DEFAULT_PORT: Readonly<Record<HttpScheme, number>> = { http: 80, https: 443 };

/** Longest entry that is looked at; a DNS name has at most 253 characters. */
const MAX_ENTRY = 2048;

/**
 * Characters an entry may not contain at all. The WHATWG parser would drop tabs and newlines, read `\` as `/` and accept
 * inner blanks in places, so that an entry would mean something other than what it says.
 */
// deno-lint-ignore no-control-regex
const FORBIDDEN = /[\u0000-\u0020\u007f-\u00a0\u1680\u2000-\u200f\u2028-\u202f\u205f-\u2064\u3000\ufeff\\]/;

/** A value as an error shows it: bounded, and without characters a terminal would act on. */
function shown(entry: string): string {
  const cut = entry.length > 120 ? `${entry.slice(0, 120)}…` : entry;
  return cut.replace(/\/\/[^/?#]*@/, "//***@").replace(/^[^/?#]*@/, "***@")
    // deno-lint-ignore no-control-regex
    .replace(/[\u0000-\u001f\u007f-\u009f]/g, (char) => `\\x${char.charCodeAt(0).toString(16).padStart(2, "0")}`);
}

/** The text of a port as a number, `null` when it is no port. */
function portNumber(text: string): number | null {
  if (!/^[0-9]{1,5}$/.test(text)) return null;
  const port = Number(text);
  return port <= 65535 ? port : null;
}

/** The WHATWG form of a host, or `null` when it is none. */
function normalHost(host: string): string | null {
  try {
    const url = new URL(`http://${host}/`);
    // Everything but the host must be what was put there: then nothing in `host` was read as another part.
    if (url.username !== "" || url.password !== "" || url.port !== "" || url.pathname !== "/") return null;
    if (url.search !== "" || url.hash !== "" || url.hostname === "") return null;
    return url.hostname;
  } catch {
    return null;
  }
}

/** What a reader is told beside a refused entry. */
export const NETWORK_RULE_HINT = "write a host, host:port, or http(s)://host[:port], with nothing behind it";

/** Reads one entry of an allow list: the rule, or why it is none. */
export function readNetworkRule(entry: string): NetworkRule | { readonly problem: string } {
  const text = entry.trim();
  const refused = (problem: string) => ({ problem });
  if (text === "") return refused("it is empty");
  if (text.length > MAX_ENTRY) return refused(`it is longer than ${MAX_ENTRY} characters`);
  if (FORBIDDEN.test(text)) return refused("it contains a blank, a control character or a backslash");

  let scheme: HttpScheme | null = null;
  let authority = text;
  const separator = text.indexOf("://");
  if (separator >= 0) {
    const written = text.slice(0, separator).toLowerCase();
    if (written !== "http" && written !== "https") return refused("the scheme must be http or https");
    scheme = written;
    authority = text.slice(separator + 3);
    // One `/` may end a URL; it is not a path.
    if (authority.endsWith("/") && !authority.slice(0, -1).includes("/")) authority = authority.slice(0, -1);
  }
  if (authority.includes("?")) return refused("a query is not allowed");
  if (authority.includes("#")) return refused("a fragment is not allowed");
  if (authority.includes("/")) return refused("a path is not allowed");
  if (authority.includes("@")) return refused("user information is not allowed");
  if (authority.includes("*")) return refused("wildcards are not supported");

  let host = authority;
  let port: number | null = scheme === null ? null : DEFAULT_PORT[scheme];
  const bracket = authority.startsWith("[") ? authority.indexOf("]") : -1;
  const colon = authority.indexOf(":", bracket + 1);
  if (colon >= 0) {
    host = authority.slice(0, colon);
    const number = portNumber(authority.slice(colon + 1));
    if (number === null) return refused("the port is not a number from 0 to 65535");
    port = number;
  }
  if (host === "") return refused("it has no host");
  const normal = normalHost(host);
  if (normal === null) return refused("it is not a valid host name or address");
  return { entry: text, scheme, host: normal, port };
}

/**
 * Parses one entry of `network.allow` or `peer_fetch.allow`.
 *
 * @throws {MurError} `E-CAP-001`, `invalid network allow entry '<entry>': <reason>`.
 */
export function parseNetworkRule(entry: string): NetworkRule {
  const rule = readNetworkRule(entry);
  if (!("problem" in rule)) return rule;
  throw new MurError("E-CAP-001", `invalid network allow entry '${shown(entry.trim())}': ${rule.problem}`, {
    hint: NETWORK_RULE_HINT,
  });
}

/**
 * The target of a request, as rules are matched against it.
 *
 * @throws {MurError} `E-CAP-001` when the URL is neither `http` nor `https` or has no host.
 */
export function targetOf(url: URL): NetworkTarget {
  const scheme = url.protocol.slice(0, -1);
  if ((scheme !== "http" && scheme !== "https") || url.hostname === "") {
    throw new MurError("E-CAP-001", `no network target in a '${scheme}' URL: only http and https name one`);
  }
  return { scheme, host: url.hostname, port: url.port === "" ? DEFAULT_PORT[scheme] : Number(url.port) };
}

/** Whether a request to `target` is one the rule allows: host equal, scheme and port equal where the rule has them. */
export function networkRuleMatches(rule: NetworkRule, target: NetworkTarget): boolean {
  return rule.host === target.host &&
    (rule.scheme === null || rule.scheme === target.scheme) &&
    (rule.port === null || rule.port === target.port);
}

/**
 * Whether everything `narrower` allows is allowed by `ceiling` too: hosts equal, and a scheme or port set on the ceiling
 * equal on the other side. Used for per-artifact clamping and the spawn envelope.
 */
export function networkRuleCovers(ceiling: NetworkRule, narrower: NetworkRule): boolean {
  return ceiling.host === narrower.host &&
    (ceiling.scheme === null || ceiling.scheme === narrower.scheme) &&
    (ceiling.port === null || ceiling.port === narrower.port);
}
