/**
 * Work that a task handed to others and waits for before it ends (spec session 16.2): what running a task asks of those
 * who carry it out.
 *
 * @module
 */
import type { TaskExitStatus } from "../trace/trace_event.ts";

/** What came back of one round, as the conversation goes on with it. */
export interface Round {
  /** All of it, fenced, for one user message. */
  readonly text: string;
  /** Source names of its fences. */
  readonly fence: string;
  /** Delegations delivered, in id order. */
  readonly delegations: readonly string[];
  /** How long the task waited, in milliseconds. */
  readonly waitedMs: number;
}

/** Why what still runs for a task is ended with an attempt at it. */
export type AttemptEndCause =
  | { readonly kind: "canceled" }
  /** The task has no inference turn left that could read what comes back. */
  | { readonly kind: "no-turn" }
  | { readonly kind: "task-ended"; readonly exitStatus: TaskExitStatus };

/** The work of one session's tasks. */
export interface HandedOffWork {
  /** Whether the task has work out, or results that it has not been given. */
  has(taskId: string): boolean;
  /** Delegations that run; of a canceled task those that ran when it was. */
  inFlight(taskId: string): readonly string[];
  /**
   * Waits until nothing of the task is out, telling its stream.
   *
   * @returns `null` when the signal was aborted first.
   */
  round(taskId: string, signal: AbortSignal): Promise<Round | null>;
  /**
   * Ends all that runs for the task: an attempt at it is over. Settles when it is gone. Results that the task was not given
   * are kept, for an attempt that may follow.
   */
  endRunning(taskId: string, cause: AttemptEndCause): Promise<void>;
  /** The task is over, and all that ran for it: nobody asks for results of it any more. */
  leaveTask(taskId: string): void;
}
