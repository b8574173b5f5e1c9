/**
 * What the daemon knows of sessions, and every bound that is decided from it (seed roost "Delegation bounds"; spec roost 4,
 * 7): depth, the machine ceiling, concurrency, reservations and their expiry. A state machine without clock, file or token:
 * each event names its moment, so that any order of events can be played.
 *
 * Counts are kept as they change, never recounted. An ended session keeps its id, its status and its depth.
 *
 * @module
 */
import type { RoostOutcome } from "../base/roost_client.ts";

/** The operator's three bounds; 0 refuses every delegation, and none means unlimited. */
export interface DelegationBounds {
  /** Levels of delegation below a session that registered without an approval. */
  readonly maxDepth: number;
  /** Children one session holds live at once. */
  readonly maxConcurrent: number;
  /** Capsules live on the host at once. */
  readonly maxLiveCapsules: number;
}

/** How long an approval lives, in milliseconds. */
export const APPROVAL_MS = 60_000;

/** Sessions that are kept, running ones included. */
export const MAX_SESSIONS = 65_536;

/** Redeemed approvals that are remembered until they expire. One that is not remembered reads as expired. */
export const MAX_REDEEMED = 65_536;

/** Which bound refuses, with the figures its refusal names. */
export type BoundRefusal =
  | { readonly bound: "depth"; readonly limit: number }
  | { readonly bound: "ceiling"; readonly limit: number; readonly live: number }
  | { readonly bound: "concurrency"; readonly limit: number; readonly live: number };

/** What `GET /status` tells. */
export interface SessionFigures {
  readonly status: "running" | RoostOutcome;
  readonly depthRemaining: number;
  readonly liveChildren: number;
  readonly liveCapsules: number;
}

/** What became of an approval that was presented. */
export type ApprovalState = "open" | "spent" | "expired";

interface RunningSession<G> {
  readonly grants: G;
  readonly depth: number;
  readonly parent: string | null;
  /** Its approvals that nobody redeemed. */
  readonly reservations: Set<string>;
}

/** An approval that holds a slot. */
interface Reservation {
  readonly parent: string;
  readonly deadline: number;
  /** Presented for another artifact: it cannot be redeemed any more. */
  spent: boolean;
}

/**
 * The ledger. Moments are milliseconds on one clock that never goes back.
 *
 * @typeParam G What is kept of a running session's grants.
 */
export class Ledger<G> {
  readonly bounds: DelegationBounds;
  readonly #running = new Map<string, RunningSession<G>>();
  /** Ended sessions, oldest ending first: twice the depth, one more when it failed. */
  readonly #ended = new Map<string, number>();
  /** Running sessions by the session that spawned them, which may have ended. */
  readonly #children = new Map<string, number>();
  /** Approvals that hold a slot, by their id, oldest first. */
  readonly #reservations = new Map<string, Reservation>();
  /** When redeemed approvals expire, oldest first. */
  readonly #redeemed = new Map<string, number>();
  /** Sessions found when the daemon started, that have not registered since. */
  readonly #found = new Set<string>();

  /** @param found Ids of the sessions that were found running. */
  constructor(bounds: DelegationBounds, found: Iterable<string> = []) {
    this.bounds = bounds;
    for (const id of found) this.#found.add(id);
  }

  /** Capsules live on the host (spec roost 4). */
  census(now: number): number {
    this.#expire(now);
    return this.#running.size + this.#reservations.size + this.#found.size;
  }

  /** A running session's grants; `null` for any other. */
  grantsOf(id: string): G | null {
    return this.#running.get(id)?.grants ?? null;
  }

  /** Whether an id was registered and is still known. */
  knows(id: string): boolean {
    return this.#running.has(id) || this.#ended.has(id);
  }

  /** Whether there is room for one more session; only running ones cannot make room. */
  hasRoom(): boolean {
    return this.#running.size < MAX_SESSIONS;
  }

  /**
   * Whether a running session may be granted one more child, the bounds asked in their order (spec roost 7).
   *
   * @returns The refusal; `null` when it may.
   */
  judgeSpawn(id: string, now: number): BoundRefusal | null {
    const session = this.#session(id);
    const { maxDepth, maxLiveCapsules, maxConcurrent } = this.bounds;
    if (session.depth === 0) return { bound: "depth", limit: maxDepth };
    const census = this.census(now);
    if (census >= maxLiveCapsules) return { bound: "ceiling", limit: maxLiveCapsules, live: census };
    const children = this.#liveChildren(id);
    if (children >= maxConcurrent) return { bound: "concurrency", limit: maxConcurrent, live: children };
    return null;
  }

  /**
   * Grants a spawn that {@linkcode judgeSpawn} admits: the slot is taken until the approval expires or is redeemed.
   *
   * @param approval Id of the approval.
   * @returns The child's depth.
   */
  reserve(id: string, approval: string, now: number): number {
    const session = this.#session(id);
    this.#reservations.set(approval, { parent: id, deadline: now + APPROVAL_MS, spent: false });
    session.reservations.add(approval);
    return session.depth - 1;
  }

  /** State of an approval that a running session earned. */
  approvalState(approval: string, now: number): ApprovalState {
    this.#expire(now);
    const reservation = this.#reservations.get(approval);
    if (reservation !== undefined) return reservation.spent ? "spent" : "open";
    return this.#redeemed.has(approval) ? "spent" : "expired";
  }

  /** Marks an open approval spent. Its slot stays taken until it is redeemed or expires. */
  spend(approval: string): void {
    this.#reservations.get(approval)!.spent = true;
  }

  /** Registers a session that presented no approval. */
  registerRoot(id: string, grants: G): void {
    this.#register(id, { grants, depth: this.bounds.maxDepth, parent: null, reservations: new Set() });
  }

  /** Registers the session that presented a spent approval: the reservation becomes a running child. */
  redeem(id: string, approval: string, depth: number, grants: G): void {
    const { parent, deadline } = this.#reservations.get(approval)!;
    this.#reservations.delete(approval);
    this.#session(parent).reservations.delete(approval);
    if (this.#redeemed.size >= MAX_REDEEMED) this.#redeemed.delete(firstKey(this.#redeemed)!);
    this.#redeemed.set(approval, deadline);
    this.#children.set(parent, (this.#children.get(parent) ?? 0) + 1);
    this.#register(id, { grants, depth, parent, reservations: new Set() });
  }

  /** A running session ends; its own reservations end with it, its children go on. */
  end(id: string, outcome: RoostOutcome): void {
    const { parent, depth, reservations } = this.#session(id);
    this.#running.delete(id);
    for (const approval of reservations) this.#reservations.delete(approval);
    if (parent !== null) {
      const left = this.#children.get(parent)! - 1;
      if (left === 0) this.#children.delete(parent);
      else this.#children.set(parent, left);
    }
    this.#ended.set(id, 2 * depth + (outcome === "failed" ? 1 : 0));
  }

  /** A session that was found at the start is gone, for good. */
  foundIsGone(id: string): void {
    this.#found.delete(id);
  }

  /** A session's figures; `null` for an id that is not known. */
  figures(id: string, now: number): SessionFigures | null {
    const session = this.#running.get(id);
    const ended = this.#ended.get(id);
    if (session === undefined && ended === undefined) return null;
    const liveCapsules = this.census(now);
    return {
      status: session !== undefined ? "running" : ended! % 2 === 1 ? "failed" : "complete",
      depthRemaining: session?.depth ?? Math.floor(ended! / 2),
      liveChildren: this.#liveChildren(id),
      liveCapsules,
    };
  }

  #session(id: string): RunningSession<G> {
    const session = this.#running.get(id);
    if (session === undefined) throw new TypeError("the session is not running");
    return session;
  }

  /** Children of a session, running or approved. Expiry is the caller's to evaluate first. */
  #liveChildren(id: string): number {
    return (this.#children.get(id) ?? 0) + (this.#running.get(id)?.reservations.size ?? 0);
  }

  #register(id: string, session: RunningSession<G>): void {
    this.#found.delete(id);
    if (this.#running.size + this.#ended.size >= MAX_SESSIONS) {
      const oldest = firstKey(this.#ended);
      if (oldest !== undefined) this.#ended.delete(oldest);
    }
    this.#running.set(id, session);
  }

  /** All approvals live equally long and the clock never goes back, so the oldest expires first. */
  #expire(now: number): void {
    for (const [id, { parent, deadline }] of this.#reservations) {
      if (deadline > now) break;
      this.#reservations.delete(id);
      this.#running.get(parent)!.reservations.delete(id);
    }
    // Redeemed in another order than granted; what is kept a little longer still reads as spent or, then, as expired.
    for (const [id, deadline] of this.#redeemed) {
      if (deadline > now) break;
      this.#redeemed.delete(id);
    }
  }
}

function firstKey<K>(map: ReadonlyMap<K, unknown>): K | undefined {
  for (const key of map.keys()) return key;
  return undefined;
}
