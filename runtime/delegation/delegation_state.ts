/**
 * The life of one delegation as its session sees it: what a completion, an ending and the child's exit do to it, and the
 * one outcome that comes of them (roost seed "The completion path", spec roost 14.5, 16). Pure.
 *
 * A child is judged when its process is gone, never before: until then it may still write what it reports.
 *
 * @module
 */
import type { ExitStatus } from "../../base/piped_process.ts";
import type { TaskExitStatus } from "../trace/trace_event.ts";
import type { ReadRecord } from "./completion_record.ts";

/** How a delegation ended, in the words of the outcome block and the trace. */
export type OutcomeStatus = "ok" | "error" | "crashed" | "terminated" | "unknown";

/** Why the session ends a child. */
export type EndCause =
  /** The task that made it was cancelled, or the session winds down. */
  | { readonly kind: "canceled" }
  /** The task has no turn left that could read the outcome. */
  | { readonly kind: "no-turn" }
  /** The task ended otherwise. */
  | { readonly kind: "task-ended"; readonly exitStatus: TaskExitStatus }
  /** No outcome arrived for so long. */
  | { readonly kind: "backstop"; readonly seconds: number }
  /** It ran for as long as it may. */
  | { readonly kind: "watch"; readonly seconds: number }
  /** It reported its outcome and did not exit. */
  | { readonly kind: "lingering" }
  /** The plan's step that started it has its answer, or waits no longer. */
  | { readonly kind: "step-over" };

/** How far a delegation is. */
export interface DelegationState {
  /**
   * `starting`: the child reported itself ready and does not hold its task yet. `running`: it holds it. `ending`: the
   * session ends it. `ended`: its outcome is settled.
   */
  readonly phase: "starting" | "running" | "ending" | "ended";
  /** A completion that names it was answered with a result. */
  readonly received: boolean;
  /** Why it is ended; set under `ending`. */
  readonly cause: EndCause | null;
}

/** A child that reported itself ready. */
export const STARTING: DelegationState = { phase: "starting", received: false, cause: null };

/** What the door answers to a completion (spec door 13, rows 4 to 6). */
export type Receipt = "received" | "being-ended" | "not-awaited";

/** The child holds its task. */
export function hold(state: DelegationState): DelegationState {
  return state.phase === "starting" ? { ...state, phase: "running" } : state;
}

/** A completion that names the delegation. The first that is received counts; repeating it changes nothing. */
export function receive(state: DelegationState): { readonly state: DelegationState; readonly receipt: Receipt } {
  if (state.received) return { state, receipt: "received" };
  switch (state.phase) {
    case "starting":
    case "running":
      return { state: { ...state, received: true }, receipt: "received" };
    case "ending":
      return { state, receipt: "being-ended" };
    case "ended":
      return { state, receipt: "not-awaited" };
  }
}

/** Whether an ending leaves it to the child what its outcome is. */
function leavesOutcome(cause: EndCause | null): boolean {
  return cause === null || cause.kind === "lingering" || cause.kind === "step-over";
}

/**
 * The session ends the child. The first cause stands, but for a child that had reported and did not exit: a task that ends
 * meanwhile names its own.
 *
 * @returns The same state when nothing is to be ended.
 */
export function end(state: DelegationState, cause: EndCause): DelegationState {
  if (state.phase === "ended") return state;
  // What the child reported in time is its outcome, however long it takes to go.
  const given = state.received && (cause.kind === "watch" || cause.kind === "backstop")
    ? { kind: "lingering" } as const
    : cause;
  if (state.phase === "ending" && (!leavesOutcome(state.cause) || leavesOutcome(given))) return state;
  return { ...state, phase: "ending", cause: given };
}

/** The child is gone and its outcome known; what its launcher delivers in its place counts as received. */
export function settle(state: DelegationState, { report }: Outcome): DelegationState {
  const delivered = report.kind === "deliver" || (report.kind === "launcher" && report.delivered);
  return { ...state, phase: "ended", received: state.received || delivered };
}

/** What is known of a child once its process is gone. */
export interface ExitEvidence {
  readonly exit: ExitStatus;
  /** The last lines it wrote to stderr. */
  readonly stderrTail: readonly string[];
  /** What its `completion.json` holds. */
  readonly record: ReadRecord;
  /** How long it ran, in milliseconds, on the parent's clock. */
  readonly ranMs: number;
}

/** How a delegation ended, and what is still to be written down. */
export interface Outcome {
  readonly status: OutcomeStatus;
  /** Of the `delegation` line; `null` on `ok` and `error`. */
  readonly reason: string | null;
  /** For the outcome block; `null` on `ok`, `error` and `unknown`. */
  readonly detail: string | null;
  readonly durationMs: number;
  /** Who writes `completion.json` now, if anyone. */
  readonly report:
    /** Nothing is to be done: the child's own record stands as it is. */
    | { readonly kind: "none" }
    /** The child's record stands; the launcher delivers what the child could not. */
    | { readonly kind: "deliver" }
    /** The launcher writes the record in place of whatever is there. */
    | {
      readonly kind: "launcher";
      readonly status: "crashed" | "terminated";
      readonly detail: string;
      /** Whether it is delivered to the task as well; what the task ended itself it need not be told. */
      readonly delivered: boolean;
    };
}

/** `detail` of a record about a child that its task ended. */
const PARENT_ENDED = "the parent ended this delegation";

/** The outcome of a delegation whose child is gone. */
export function outcomeAtExit(state: DelegationState, evidence: ExitEvidence): Outcome {
  const { cause } = state;
  const { record, ranMs } = evidence;
  const isRecorded = record.kind === "record";
  if (cause !== null && (!leavesOutcome(cause) || (cause.kind === "step-over" && !isRecorded))) {
    return endedByParent(cause, evidence);
  }
  if (record.kind === "record") {
    const { status, detail = null, duration_ms, delivered } = record.record;
    const plain = status === "ok" || status === "error";
    return {
      status,
      reason: plain ? null : detail,
      detail: plain ? null : detail,
      durationMs: duration_ms,
      // A plan's step told its child nowhere to report to.
      report: delivered || cause?.kind === "step-over" ? { kind: "none" } : { kind: "deliver" },
    };
  }
  if (state.received) {
    const why = record.kind === "missing" ? "it is not there" : record.reason;
    return {
      status: "unknown",
      reason: `the sub-capsule reported its end, and its completion.json could not be read: ${why}`,
      detail: null,
      durationMs: ranMs,
      report: { kind: "none" },
    };
  }
  const detail = withLastLines(`the sub-capsule's process ${howEnded(evidence.exit)} without a report`, evidence);
  return {
    status: "crashed",
    reason: detail,
    detail,
    durationMs: ranMs,
    report: { kind: "launcher", status: "crashed", detail, delivered: true },
  };
}

function endedByParent(cause: EndCause, evidence: ExitEvidence): Outcome {
  const reason = reasonOf(cause);
  const isWatch = cause.kind === "watch";
  const detail = isWatch ? withLastLines(`${reason}; its process ${howEnded(evidence.exit)}`, evidence) : PARENT_ENDED;
  return {
    status: "terminated",
    reason: isWatch ? detail : reason,
    // The record is the child's; the block tells the task what it waited for.
    detail: cause.kind === "backstop" ? reason : detail,
    durationMs: evidence.ranMs,
    report: { kind: "launcher", status: "terminated", detail, delivered: isWatch },
  };
}

/** Why a child was ended, one sentence (spec roost 14.5). */
function reasonOf(cause: EndCause): string {
  switch (cause.kind) {
    case "canceled":
      return "the delegating task was cancelled";
    case "no-turn":
      return "the delegating task had no inference turn left to read this outcome";
    case "task-ended":
      return `the delegating task ended ${cause.exitStatus} before this sub-capsule finished`;
    case "backstop":
      return `no outcome reached the delegating task within ${cause.seconds}s of this sub-capsule starting`;
    case "watch":
      return `the sub-capsule was still running ${cause.seconds}s after it was ready, and its parent ended it`;
    case "lingering":
      return "the sub-capsule reported its end and did not exit";
    case "step-over":
      return "the step that started this sub-capsule is over";
  }
}

/** How a process ended, completing "its process …". */
export function howEnded({ code, signal }: ExitStatus): string {
  return signal === null ? `ended with exit status ${code}` : `was ended by ${signal}`;
}

function withLastLines(sentence: string, { stderrTail }: ExitEvidence): string {
  return stderrTail.length === 0 ? sentence : `${sentence}; its last lines on stderr:\n${stderrTail.join("\n")}`;
}
