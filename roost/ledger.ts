/**
 * What the daemon knows of sessions, and every bound that is decided from it (seed roost "Delegation bounds"; spec roost 4,
 * 7): depth, the machine ceiling, concurrency, reservations and their expiry. A state machine without clock, file or token:
 * each event names its moment, so that any order of events can be played.
 *
 * Counts are kept as they change, never recounted. An ended session keeps its id, its status and its depth.
 *
 * @module
 */
import type { RoostBounds } from "../base/roost_bounds.ts";
import type { RoostOutcome } from "../base/roost_client.ts";
import { Fifo } from "./fifo.ts";
import { RecentIds } from "./recent_ids.ts";
import { SlotMap } from "./slot_map.ts";

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
  readonly id: string;
  readonly grants: G;
  readonly depth: number;
  readonly parent: string | null;
  /** Its approvals that hold a slot. */
  reserved: number;
  hasEnded: boolean;
}

/** Entries of reservations that ended early, before they are let go of. */
const MAX_STALE = 256;

/** An approval. It holds a slot until it expires, is redeemed, or the session that earned it ends. */
interface Reservation<G> {
  readonly id: string;
  readonly session: RunningSession<G>;
  readonly deadline: number;
  state: "open" | "spent" | "redeemed";
}

function holdsSlot({ state, session }: Reservation<unknown>): boolean {
  return state !== "redeemed" && !session.hasEnded;
}

/**
 * The ledger. Moments are milliseconds on one clock that never goes back.
 *
 * @typeParam G What is kept of a running session's grants.
 */
export class Ledger<G> {
  /** 0 refuses every delegation, and none means unlimited. */
  readonly bounds: RoostBounds;
  readonly #running = new SlotMap<RunningSession<G>>();
  /** Ended sessions in the order they ended: twice the depth, one more when it failed. */
  readonly #ended = new RecentIds(MAX_SESSIONS);
  /** Running sessions by the session that spawned them, which may have ended. */
  readonly #children = new SlotMap<number>();
  /** Approvals by their id: all that hold a slot, and some whose session has ended. */
  readonly #reservations = new SlotMap<Reservation<G>>();
  /** Approvals in the order they expire, some that hold no slot any more among them. */
  readonly #expiring = new Fifo<Reservation<G>>();
  /** Approvals that hold a slot. */
  #reserved = 0;
  /** Redeemed approvals in the order they were redeemed: when they expire. */
  readonly #redeemed = new RecentIds(MAX_REDEEMED);
  /** Sessions found when the daemon started, that have not registered since. */
  readonly #found = new Set<string>();

  readonly #approvalMs: number;

  /**
   * @param approvalMs How long an approval lives.
   * @param found Ids of the sessions that were found running.
   */
  constructor(bounds: RoostBounds, approvalMs: number, found: Iterable<string> = []) {
    this.bounds = bounds;
    this.#approvalMs = approvalMs;
    for (const id of found) this.#found.add(id);
  }

  /** Capsules live on the host (spec roost 4). */
  census(now: number): number {
    this.#expire(now);
    return this.#running.size + this.#reserved + this.#found.size;
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
    const reservation: Reservation<G> = { id: approval, session, deadline: now + this.#approvalMs, state: "open" };
    this.#reservations.set(approval, reservation);
    this.#expiring.push(reservation);
    session.reserved++;
    this.#reserved++;
    if (this.#expiring.size > MAX_STALE && this.#expiring.size > 4 * this.#reserved) this.#letGo();
    return session.depth - 1;
  }

  /** State of an approval that a running session earned. */
  approvalState(approval: string, now: number): ApprovalState {
    this.#expire(now);
    const reservation = this.#reservations.get(approval);
    if (reservation !== undefined && holdsSlot(reservation)) return reservation.state === "open" ? "open" : "spent";
    // One that expires before another that was redeemed earlier is forgotten with that one.
    return (this.#redeemed.get(approval) ?? 0) > now ? "spent" : "expired";
  }

  /** Marks an open approval spent. Its slot stays taken until it is redeemed or expires. */
  spend(approval: string): void {
    this.#reservations.get(approval)!.state = "spent";
  }

  /** Registers a session that presented no approval. */
  registerRoot(id: string, grants: G): void {
    this.#register(id, { id, grants, depth: this.bounds.maxDepth, parent: null, reserved: 0, hasEnded: false });
  }

  /** Registers the session that presented a spent approval: the reservation becomes a running child. */
  redeem(id: string, approval: string, depth: number, grants: G): void {
    const reservation = this.#reservations.get(approval)!;
    const { session, deadline } = reservation;
    this.#reservations.delete(approval);
    this.#release(reservation);
    reservation.state = "redeemed";
    this.#redeemed.add(approval, deadline);
    const parent = session.id;
    this.#children.set(parent, (this.#children.get(parent) ?? 0) + 1);
    this.#register(id, { id, grants, depth, parent, reserved: 0, hasEnded: false });
  }

  /** A running session ends; its own reservations end with it, its children go on. */
  end(id: string, outcome: RoostOutcome): void {
    const session = this.#session(id);
    const { parent, depth } = session;
    this.#running.delete(id);
    session.hasEnded = true;
    this.#reserved -= session.reserved;
    if (parent !== null) {
      const left = this.#children.get(parent)! - 1;
      if (left === 0) this.#children.delete(parent);
      else this.#children.set(parent, left);
    }
    this.#ended.add(id, 2 * depth + (outcome === "failed" ? 1 : 0));
  }

  /** A session that was found at the start is gone, for good. */
  foundIsGone(id: string): void {
    this.#found.delete(id);
  }

  /** A session's figures; `null` for an id that is not known. */
  figures(id: string, now: number): SessionFigures | null {
    const session = this.#running.get(id);
    const ended = session === undefined ? this.#ended.get(id) : undefined;
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
    return (this.#children.get(id) ?? 0) + (this.#running.get(id)?.reserved ?? 0);
  }

  #register(id: string, session: RunningSession<G>): void {
    this.#found.delete(id);
    if (this.#running.size + this.#ended.size >= MAX_SESSIONS) this.#ended.shift();
    this.#running.set(id, session);
  }

  /** Gives the slot of an approval back, if it holds one. */
  #release(reservation: Reservation<G>): void {
    if (!holdsSlot(reservation)) return;
    reservation.session.reserved--;
    this.#reserved--;
  }

  /** Forgets approvals that hold no slot. */
  #letGo(): void {
    this.#expiring.keep((reservation) => {
      if (holdsSlot(reservation)) return true;
      this.#reservations.delete(reservation.id);
      return false;
    });
  }

  /** All approvals live equally long and the clock never goes back, so the oldest expires first. */
  #expire(now: number): void {
    for (let next = this.#expiring.peek(); next !== undefined && next.deadline <= now; next = this.#expiring.peek()) {
      this.#expiring.shift();
      this.#reservations.delete(next.id);
      this.#release(next);
    }
    const redeemed = this.#redeemed;
    for (let deadline = redeemed.peek(); deadline !== undefined && deadline <= now; deadline = redeemed.peek()) {
      redeemed.shift();
    }
  }
}
