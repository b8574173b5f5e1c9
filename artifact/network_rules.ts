/**
 * Network allow rules: one implementation of parsing, matching and covering for component requests, the door, command
 * egress and the spawn envelope (spec manifest 9.1).
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

/** Parses one entry. Implemented with its tests beside it. @throws {MurError} `E-CAP-001`. */
export function parseNetworkRule(entry: string): NetworkRule {
  throw new MurError("E-CAP-001", `invalid network allow entry '${entry}': not parsed yet`);
}
