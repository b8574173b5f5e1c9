/**
 * Every sentence the daemon refuses with (seed roost "Refusals", "Delegation bounds", "Spawn envelope"). Pure.
 *
 * @module
 */
import { shownValue } from "../artifact/manifest/shown_value.ts";
import type { EnvelopeExcess } from "./envelope.ts";
import type { BoundRefusal } from "./ledger.ts";

/** The one answer to every failure of identity, on every endpoint, whether or not the named session exists. */
export const NOT_AUTHORISED =
  "not authorised: this daemon answers only a credential it minted for a running session, and an approval it minted for " +
  "that same session";

export const APPROVAL_EXPIRED =
  "this spawn approval has passed its expiry; an approval is valid for 60 seconds from the POST /spawn that granted it";

export const APPROVAL_REDEEMED =
  "this spawn approval has already been redeemed; an approval covers one launch, so ask POST /spawn for another";

export const NOT_FOUND = "not found";

export const SESSION_NOT_FOUND = "session not found";

/** Name and version as the daemon's sentences have them. */
export interface Coordinates {
  readonly name: string;
  readonly version: string;
}

const coordinates = ({ name, version }: Coordinates) => `'${name}@${version}'`;

export function otherCoordinates(approved: Coordinates, presented: Coordinates): string {
  return `this spawn approval was granted for ${coordinates(approved)}, not ${coordinates(presented)}`;
}

export function otherBytes(artifact: Coordinates, approved: string, resolved: string): string {
  return `${
    coordinates(artifact)
  } now resolves to a different artifact than the one this spawn approval was granted for ` +
    `(approved sha256 ${approved}, resolved sha256 ${resolved})`;
}

export function notInParentsList(name: string): string {
  return `capsule '${name}' is not in parent's spawn_allow`;
}

export function notInOperatorsList(name: string): string {
  return `capsule '${name}' is not in --spawn-allow`;
}

/** What a bound says: which flag to raise, and past what. */
export function boundReached(refusal: BoundRefusal): string {
  const { limit } = refusal;
  switch (refusal.bound) {
    case "depth":
      return `delegation depth bound reached: this daemon allows ${limit} levels of delegation below a top-level capsule ` +
        `(--max-depth ${limit}), and this session has none left to spend — a capsule whose capabilities.spawn.allow names ` +
        "itself terminates here rather than recursing";
    case "ceiling":
      return `machine capsule ceiling reached: this daemon allows ${limit} live capsules on this host across every ` +
        `formation (--max-live-capsules ${limit}), and it is already holding ${refusal.live} — this is the host's ceiling ` +
        "rather than this capsule's own --max-concurrent, so narrowing the formation does not help; the same request may " +
        "be granted once other capsules finish";
    case "concurrency":
      return `delegation concurrency bound reached: this daemon allows a capsule ${limit} live children at a time ` +
        `(--max-concurrent ${limit}), and this session already holds ${refusal.live} — wait for one to finish, or raise ` +
        "--max-concurrent";
  }
}

export function outsideEnvelope({ key, entry }: EnvelopeExcess): string {
  return `${key}: the child declares '${
    shownValue(entry, 2_048)
  }', which its parent does not hold — a spawned capsule can ` +
    "never hold more capability than the capsule that spawned it";
}

/** @param reason The registry's own words. */
export function notResolved({ name, version }: Coordinates, reason: string): string {
  return `capsule '${name}@${shownValue(version)}' could not be resolved from the registry: ${
    shownValue(reason, 1_024)
  }`;
}

/** Every record is of a running session, so none can make room. */
export function noRoom(limit: number): string {
  return `this daemon keeps ${limit} sessions and all of them are running`;
}
