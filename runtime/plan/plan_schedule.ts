/**
 * What a plan does next, decided from what has settled so far (spec components 12.5). Pure: `plan_runner.ts` does it.
 *
 * @module
 */
import { holds, readCondition } from "./plan_condition.ts";
import { fillReferences, ReferenceFailure, type ReferenceScope, type StepStatus } from "./plan_reference.ts";
import type { StepWork, ValidPlan, ValidStep } from "./plan_validation.ts";

/** A step that is over. */
export interface SettledStep {
  readonly step: ValidStep;
  readonly status: StepStatus;
  readonly output: string | null;
  readonly error: string | null;
  /** 0: it was never dispatched. */
  readonly attempts: number;
}

/** A step to dispatch, the references of its input filled in. */
export interface ReadyStep {
  readonly step: ValidStep;
  readonly work: StepWork;
}

/** What comes next. */
export interface Round {
  /** Steps that settle without being dispatched, in file order. */
  readonly settled: readonly SettledStep[];
  /** Steps to dispatch; empty when {@linkcode ends}. */
  readonly ready: readonly ReadyStep[];
  /** The plan is over: every step has settled, or the last of {@linkcode settled} stops it. */
  readonly ends: "completed" | "stopped" | null;
}

/** Settled steps by id, in settling order. */
export type Settled = ReadonlyMap<string, SettledStep>;

/** The next round of a plan. */
export function nextRound(plan: ValidPlan, settled: Settled): Round {
  const open = plan.steps.filter(({ id }) => !settled.has(id));
  if (open.length === 0) return { settled: [], ready: [], ends: "completed" };
  const candidates = open.filter(({ dependsOn }) => dependsOn.every((id) => settled.has(id)));
  if (candidates.length === 0) {
    const [first] = open;
    const waits = first!.dependsOn.filter((id) => !settled.has(id)).map((id) => `'${id}'`).join(", ");
    const error = `the step can never run: it waits for ${waits}, and no step that is left can run before it (a cycle)`;
    return stopped([], { step: first!, status: "failed", output: null, error, attempts: 0 });
  }
  const scope: ReferenceScope = { declared: new Set(plan.steps.map(({ id }) => id)), settled };
  const settling: SettledStep[] = [];
  const ready: ReadyStep[] = [];
  for (const step of candidates) {
    const undispatched = { step, output: null, attempts: 0 };
    const condition = evaluate(step, scope);
    if ("error" in condition) {
      return stopped(settling, { ...undispatched, status: "failed", error: condition.error });
    }
    if (!condition.holds) {
      settling.push({ ...undispatched, status: "skipped", error: null });
      continue;
    }
    const work = fillWork(step.work, scope);
    if (!("error" in work)) {
      ready.push({ step, work });
      continue;
    }
    const { settled: failed, stops } = settleStep(step, { passed: false, output: null, error: work.error }, 0);
    if (stops) return stopped(settling, failed);
    settling.push(failed);
  }
  return { settled: settling, ready, ends: null };
}

function stopped(settling: readonly SettledStep[], last: SettledStep): Round {
  return { settled: [...settling, last], ready: [], ends: "stopped" };
}

function evaluate(step: ValidStep, scope: ReferenceScope): { readonly holds: boolean } | { readonly error: string } {
  const reading = readCondition(step.condition, scope.declared);
  if ("problem" in reading) return { error: `if: ${reading.problem}` };
  return orFailure("if: ", () => ({ holds: holds(reading.condition, scope.settled) }));
}

function fillWork(work: StepWork, scope: ReferenceScope): StepWork | { readonly error: string } {
  switch (work.kind) {
    case "shell":
      return work;
    case "tool":
      return orFailure("input: ", () => ({ ...work, input: fillReferences(work.input, scope) }));
    case "capsule":
      return orFailure("input: ", () => ({ ...work, objective: fillReferences(work.objective, scope) }));
  }
}

function orFailure<T>(place: string, read: () => T): T | { readonly error: string } {
  try {
    return read();
  } catch (cause) {
    if (!(cause instanceof ReferenceFailure)) throw cause;
    return { error: `${place}${cause.message}` };
  }
}

/** What the attempts at a step came to. */
export interface StepResult {
  readonly passed: boolean;
  readonly output: string | null;
  readonly error: string | null;
}

/** Applies `on_error` to a step's last attempt; `stops`: the plan ends with it. */
export function settleStep(
  step: ValidStep,
  { passed, output, error }: StepResult,
  attempts: number,
): { readonly settled: SettledStep; readonly stops: boolean } {
  const status = passed ? "success" : step.onError === "skip" ? "skipped" : "failed";
  return {
    settled: { step, status, output, error: passed ? null : error, attempts },
    stops: !passed && step.onError === "fail",
  };
}
