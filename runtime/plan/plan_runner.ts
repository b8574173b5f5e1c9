/**
 * Carries a plan out: the rounds of `plan_schedule.ts`, their steps side by side, retried, recorded, and ended with the
 * task (spec components 12.5, 12.6, trace 6.11).
 *
 * @module
 */
import type { TraceEventBody } from "../trace/trace_event.ts";
import { cutBytes, REASON_BYTES } from "../trace/trace_redaction.ts";
import { nextRound, type ReadyStep, type SettledStep, settleStep } from "./plan_schedule.ts";
import type { ValidPlan } from "./plan_validation.ts";
import { type StepEnd, TextBudget } from "./step_end.ts";

/** Most shell and capsule steps that run at the same time; the others of a round follow. */
export const STEPS_AT_ONCE = 16;

/** What a plan is run with. */
export interface PlanExecution {
  /** One attempt at a step. It ends soon after the signal is aborted. Never throws for what the step does. */
  readonly attempt: (ready: ReadyStep, signal: AbortSignal) => Promise<StepEnd>;
  readonly started: (body: Omit<TraceEventBody<"plan_step_start">, "plan_id">) => void;
  readonly settled: (body: Omit<TraceEventBody<"plan_step">, "plan_id">) => void;
  /** The task's. */
  readonly signal: AbortSignal;
}

/** How a plan ended. */
export interface PlanEnd {
  readonly outcome: "completed" | "failed" | "canceled";
  /** The step that stopped it. */
  readonly failedStep: string | null;
  /** In settling order. */
  readonly steps: readonly SettledStep[];
  readonly inputTimedOut: boolean;
}

/** Why a running plan ends early. */
export const PLAN_CANCELED = "the task running this plan was cancelled";

/** Runs a plan to its end. @throws What writing a record throws; then nothing of the plan runs any more. */
export async function runPlan(plan: ValidPlan, execution: PlanExecution): Promise<PlanEnd> {
  return await new PlanRunner(plan, execution).run();
}

class PlanRunner {
  readonly #plan: ValidPlan;
  readonly #execution: PlanExecution;
  readonly #settled = new Map<string, SettledStep>();
  readonly #texts = new TextBudget();
  /** Ends what runs: the task's cancel, or a record that cannot be written. */
  readonly #stop = new AbortController();
  /** Nothing more is dispatched. */
  #stopping = false;
  #failedStep: string | null = null;
  #inputTimedOut = false;

  constructor(plan: ValidPlan, execution: PlanExecution) {
    this.#plan = plan;
    this.#execution = execution;
  }

  async run(): Promise<PlanEnd> {
    const { signal } = this.#execution;
    const cancel = () => this.#stop.abort(signal.reason);
    signal.addEventListener("abort", cancel);
    if (signal.aborted) cancel();
    try {
      for (;;) {
        if (signal.aborted) return this.#end("canceled");
        const round = nextRound(this.#plan, this.#settled);
        for (const settled of round.settled) this.#settle(settled, 0);
        if (round.ends === "completed") return this.#end("completed");
        if (round.ends === "stopped") {
          this.#failedStep = round.settled.at(-1)!.step.id;
          return this.#end("failed");
        }
        await this.#dispatch(round.ready);
        if (signal.aborted) return this.#end("canceled");
        if (this.#stopping) return this.#end("failed");
      }
    } finally {
      signal.removeEventListener("abort", cancel);
    }
  }

  #end(outcome: PlanEnd["outcome"]): PlanEnd {
    return {
      outcome,
      failedStep: outcome === "failed" ? this.#failedStep : null,
      steps: [...this.#settled.values()],
      inputTimedOut: this.#inputTimedOut,
    };
  }

  /** Tool steps one after the other, beside them the others, so many at a time. Waits for all that were started. */
  async #dispatch(ready: readonly ReadyStep[]): Promise<void> {
    const tools = ready.filter(({ work }) => work.kind === "tool");
    const others = ready.filter(({ work }) => work.kind !== "tool");
    const queue = others.values();
    const lanes = Array.from({ length: Math.min(STEPS_AT_ONCE, others.length) }, () => this.#inTurn(queue));
    const ends = await Promise.allSettled([this.#inTurn(tools.values()), ...lanes]);
    const broken = ends.find((end) => end.status === "rejected");
    if (broken !== undefined) throw broken.reason;
  }

  async #inTurn(steps: Iterator<ReadyStep>): Promise<void> {
    while (!this.#stopping && !this.#stop.signal.aborted) {
      const next = steps.next();
      if (next.done === true) return;
      try {
        await this.#runStep(next.value);
      } catch (cause) {
        this.#stopping = true;
        this.#stop.abort(cause);
        throw cause;
      }
    }
  }

  async #runStep(ready: ReadyStep): Promise<void> {
    const { step, work } = ready;
    this.#execution.started({ step_id: step.id, kind: work.kind, depends_on: step.dependsOn });
    const begun = performance.now();
    const { signal } = this.#stop;
    let end: StepEnd;
    let attempts = 0;
    do {
      attempts++;
      end = await this.#execution.attempt(ready, signal);
      // A step that was cut off did not do what was asked, whatever it still answers.
      if (signal.aborted) end = { ...end, passed: false, error: PLAN_CANCELED };
    } while (!end.passed && end.final !== true && attempts <= step.retries && !this.#stopping && !signal.aborted);
    const result = {
      passed: end.passed,
      output: end.output === null ? null : this.#texts.take(end.output),
      error: end.error === null ? null : this.#texts.take(end.error),
    };
    const { settled, stops } = settleStep(step, result, attempts);
    if (end.inputTimedOut === true) this.#inputTimedOut = true;
    if ((stops || this.#inputTimedOut) && !this.#stopping) {
      this.#stopping = true;
      this.#failedStep = step.id;
    }
    this.#settle(settled, performance.now() - begun, { ready, end });
  }

  #settle(settled: SettledStep, ms: number, ran?: { readonly ready: ReadyStep; readonly end: StepEnd }): void {
    const { step, status, attempts, error } = settled;
    this.#settled.set(step.id, settled);
    const work = ran?.ready.work ?? step.work;
    this.#execution.settled({
      step_id: step.id,
      kind: work.kind,
      status,
      attempts,
      duration_ms: Math.round(ms),
      ...(error === null ? {} : { error: cutBytes(error, REASON_BYTES) }),
      ...(work.kind === "tool" ? { input: work.input } : {}),
      ...(ran?.end.stateEffect === undefined ? {} : { state_effect: ran.end.stateEffect }),
      ...(ran?.end.resourceId === undefined ? {} : { resource_id: ran.end.resourceId }),
    });
  }
}
