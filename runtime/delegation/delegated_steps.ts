/**
 * A plan's `capsule` steps (roost seed "What a capsule meant to be delegated to declares", spec roost 15): a child is
 * started, its task at its door is looked at until it has ended, and the child is ended.
 *
 * @module
 */
import { bareHalf } from "../../artifact/artifact_name.ts";
import { shownValue } from "../../artifact/manifest/shown_value.ts";
import type { ArtifactStore } from "../../artifact/store.ts";
import { type DoorBounds, DoorClient, doorTrouble, parseHostAndPort } from "../../base/door_client.ts";
import { isTerminal, parseTask } from "../../base/stream_events.ts";
import type { TimeBounds } from "../../base/time_bounds.ts";
import type { CallScope } from "../agent/tool_dispatch.ts";
import type { CapsuleSteps } from "../plan/capsule_steps.ts";
import type { StepResult } from "../plan/plan_schedule.ts";
import type { StepEnd } from "../plan/step_end.ts";
import { howEnded } from "./delegation_state.ts";
import type { SessionDelegations, StepDelegation } from "./session_delegations.ts";

/** What the steps of a session work with. */
export interface DelegatedStepsOptions {
  readonly delegations: Pick<SessionDelegations, "startStep">;
  /** `capabilities.spawn.allow`, full names. */
  readonly allow: readonly string[];
  /** Where installed capsules are looked up; the first that holds the name decides. */
  readonly stores: readonly Pick<ArtifactStore, "versions">[];
  /** How long a step waits for an answer once its child is ready, in seconds. */
  readonly deadlineSeconds: number;
  readonly bounds: DoorBounds & Pick<TimeBounds, "stepPoll">;
}

/** How a step's wait ended; `null`: its task was canceled. */
type Waited = { readonly outcome: "completed" | "failed" | "timed_out"; readonly result: StepResult } | null;

function failed(error: string): StepResult {
  return { passed: false, output: null, error };
}

/** Nothing was started, and another attempt would be told the same. */
function refused(error: string): StepEnd {
  return { ...failed(error), final: true };
}

const CANCELED = failed("the task was canceled");

/** Runs a plan's `capsule` steps through the session's delegations. */
export function delegatedSteps(options: DelegatedStepsOptions): CapsuleSteps {
  return {
    async run(capsule, objective, scope) {
      const entry = options.allow.find((name) => name === capsule || bareHalf(name) === capsule);
      if (entry === undefined) return refused(`capsule '${shownValue(capsule)}' is not in capabilities.spawn.allow`);
      const version = await theVersion(entry, options.stores);
      if ("problem" in version) return refused(version.problem);
      const started = options.delegations.startStep({ capsule: entry, task: objective, ...version }, scope);
      // A cancel does not wait until the launch is given up; the task does, at its end.
      const step = await orAborted(started, scope.signal);
      if (step === null) return CANCELED;
      if (!("child" in step)) return step.refused ? refused(step.reason) : failed(step.reason);
      const waited = await waitForAnswer(step, options, scope);
      if (waited === null) return CANCELED;
      await step.finish(waited.outcome, waited.result.error);
      return waited.result;
    },
  };
}

/** The one installed version of a capsule: a plan names none (spec roost 18, 25). */
async function theVersion(
  capsule: string,
  stores: DelegatedStepsOptions["stores"],
): Promise<{ readonly version: string } | { readonly problem: string }> {
  for (const store of stores) {
    const versions = await store.versions(bareHalf(capsule));
    if (versions.length === 1) return { version: versions[0]! };
    if (versions.length > 1) {
      return {
        problem: `capsule '${capsule}' is installed in ${versions.length} versions (${
          versions.join(", ")
        }), and a step names none: leave one`,
      };
    }
  }
  return { problem: `capsule '${capsule}' is not installed` };
}

async function waitForAnswer(
  { child, taskId }: StepDelegation,
  { bounds, deadlineSeconds }: DelegatedStepsOptions,
  { signal }: CallScope,
): Promise<Waited> {
  const door = parseHostAndPort(child.url);
  if (door === null) {
    return { outcome: "failed", result: failed(`the sub-capsule's door '${child.url}' is no address`) };
  }
  const client = new DoorClient({ ...door, token: child.doorToken }, bounds);
  const deadline = child.readyAt + deadlineSeconds * 1_000;
  const gone = child.exited.then((exit) => `the sub-capsule's process ${howEnded(exit)} before its task did`);
  let trouble: string | null = null;
  while (!signal.aborted) {
    const left = deadline - performance.now();
    if (left <= 0) {
      const why = trouble === null ? "" : `; its door: ${trouble}`;
      return { outcome: "timed_out", result: failed(`no answer came within ${deadlineSeconds}s${why}`) };
    }
    const pause = Promise.withResolvers<null>();
    const timer = setTimeout(() => pause.resolve(null), Math.min(bounds.stepPoll, left));
    const exit = await orAborted(Promise.race([gone, pause.promise]), signal);
    clearTimeout(timer);
    if (signal.aborted) break;
    if (exit !== null) return { outcome: "failed", result: failed(exit) };
    try {
      const answer = await client.call("GetTask", { id: taskId }, { signal });
      if (!answer.ok) return { outcome: "failed", result: failed(answer.failure.message) };
      const task = parseTask(answer.result);
      if (task === null) return { outcome: "failed", result: failed("the sub-capsule's door answered no task") };
      if (!isTerminal(task.state)) continue;
      return task.state === "completed"
        ? { outcome: "completed", result: { passed: true, output: task.response ?? "", error: null } }
        : { outcome: "failed", result: failed(task.message ?? `the sub-capsule's task ended ${task.state}`) };
    } catch (cause) {
      // A door that is busy answers later; one whose process is gone is seen above.
      trouble = signal.aborted ? null : doorTrouble(cause);
    }
  }
  return null;
}

/** What a promise gives; `null` once the signal is aborted, whatever becomes of it. */
async function orAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T | null> {
  if (signal.aborted) return null;
  const aborted = Promise.withResolvers<null>();
  const abort = () => aborted.resolve(null);
  signal.addEventListener("abort", abort);
  try {
    return await Promise.race([promise, aborted.promise]);
  } finally {
    signal.removeEventListener("abort", abort);
    // Given up on: its failure is nobody's.
    promise.catch(() => {});
  }
}
