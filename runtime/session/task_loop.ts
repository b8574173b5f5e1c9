/**
 * The task loop of a session: its launch task, then tasks as they come, until the lifecycle or a stop ends it (spec
 * session 6.4, 6.5, 18).
 *
 * @module
 */
import { MurError, reasonOf } from "../../base/errors.ts";
import { letOthersWork } from "../../base/other_work.ts";
import type { Lifecycle } from "./stage_session.ts";
import type { TaskRegistry, TaskRequest } from "./task_registry.ts";
import type { TaskOutcome } from "./task_runner.ts";

/** What the loop works with. */
export interface TaskLoopOptions {
  readonly registry: TaskRegistry;
  readonly lifecycle: Pick<Lifecycle, "taskAcceptance" | "afterTask">;
  /** `null`: none was given. */
  readonly launchTask: TaskRequest | null;
  /** Longest wait for a first task, in milliseconds; a session that sleeps waits without limit. */
  readonly idleMs: number;
  /** Aborted: the session winds down. */
  readonly stop: AbortSignal;
  /** Runs one task to its end; it fails only when the session cannot go on, never for what the task does. */
  readonly run: (task: TaskRequest, signal: AbortSignal) => Promise<TaskOutcome>;
  /** A task the runtime makes once the launch task is over (spec session 13.4); `null` without one. */
  readonly afterLaunch: () => Promise<TaskRequest | null>;
  /** The session goes on to its next task. */
  readonly goOn: () => void;
}

/** Whether the session stays up after a task. */
export function sleeps({ taskAcceptance, afterTask }: Pick<Lifecycle, "taskAcceptance" | "afterTask">): boolean {
  return taskAcceptance === "queue" && afterTask === "sleep";
}

/**
 * Runs tasks until the session is over; every task still queued then is refused.
 *
 * @returns the outcome that decides the session's status; `null` when no task decided it.
 */
export async function runTaskLoop(options: TaskLoopOptions): Promise<TaskOutcome | null> {
  const { registry, lifecycle, launchTask, idleMs, stop, run, afterLaunch, goOn } = options;
  const staysUp = sleeps(lifecycle);
  let decided: TaskOutcome | null = null;
  // The first deciding task that did not complete sets the status for good.
  const decide = (outcome: TaskOutcome) => {
    if (decided === null || decided.status === "ok") decided = outcome;
  };
  const runOne = async (task: TaskRequest, signal: AbortSignal) => {
    try {
      return await run(task, signal);
    } catch (error) {
      // The session cannot go on. Whoever follows the task learns that it has ended (spec door 12.2).
      const { code, message } = error instanceof MurError ? error : new MurError("E-RUN-007", reasonOf(error));
      registry.finish(task.id, { state: "failed", message: `error[${code}]: ${message}`, response: null });
      throw error;
    }
  };
  const close = () => registry.close("session_stopped");
  stop.addEventListener("abort", close);
  try {
    if (stop.aborted) return decided;
    let over = launchTask === null ? lifecycle.taskAcceptance === "none" : !staysUp;
    if (launchTask !== null) {
      const outcome = await runOne(launchTask, registry.enter(launchTask));
      decide(outcome);
      over ||= outcome.status !== "ok";
    }
    const made = stop.aborted ? null : await afterLaunch();
    if (made !== null) await runOne(made, registry.enter(made));
    if (over) return decided;
    if (launchTask !== null) goOn();
    for (;;) {
      const next = await registry.next(staysUp ? null : idleMs, stop);
      if (next === null) return decided;
      // Its sender is answered first: what a door answers goes out once this thread waits, and work begins with a lot of its own.
      if (next.request.door !== null) await letOthersWork();
      const outcome = await runOne(next.request, next.signal);
      const last = !staysUp || stop.aborted || outcome.fatal !== null;
      // A session that takes no more work is closing out, though only a signal ends it (spec session 17.2, 18).
      if (last || registry.closed) decide(outcome);
      if (last) return decided;
      goOn();
    }
  } finally {
    stop.removeEventListener("abort", close);
    registry.close(stop.aborted ? "session_stopped" : "session_ended");
  }
}
