/**
 * The `submit-plan` tool: files a plan, runs it, and answers with its report (spec components 11.2, 12.1, 12.6).
 *
 * @module
 */
import { writeAtomicallyIn } from "../../base/atomic_file.ts";
import { isJsonObject, type JsonObject } from "../../base/json_value.ts";
import { reasonOf } from "../../base/errors.ts";
import type { RootedDir } from "../../base/rooted_dir.ts";
import { ANSWER_DEPTH, nestsDeeper } from "../agent/driver_protocol.ts";
import {
  type CallScope,
  failsTheCallAlone,
  type ResolvedTool,
  type ToolDispatcher,
  type ToolRun,
} from "../agent/tool_dispatch.ts";
import { cutBytes, REASON_BYTES } from "../trace/trace_redaction.ts";
import type { TraceWriter } from "../trace/trace_writer.ts";
import type { CapsuleSteps } from "./capsule_steps.ts";
import { kindsOf, MAX_PLAN_LENGTH, type Plan, type PlanStep, readPlan, type StepKind } from "./plan.ts";
import { PLAN_SCHEMA } from "./plan_manifest.ts";
import { PLAN_CANCELED, type PlanEnd, runPlan } from "./plan_runner.ts";
import type { ReadyStep } from "./plan_schedule.ts";
import { type PlanFacts, validatePlan } from "./plan_validation.ts";
import { endOfCall, type StepEnd } from "./step_end.ts";

/** What plans need of their session. */
export interface PlanServices {
  readonly facts: () => PlanFacts;
  /** The runtime directory: plans are filed in its `plans/`. */
  readonly runtimeDir: RootedDir;
  readonly trace: TraceWriter;
  readonly dispatcher: Pick<ToolDispatcher, "dispatchStep" | "decideStep">;
  /** A command line, the binary first, as something to dispatch. */
  readonly command: (words: readonly [string, ...string[]], line: string) => ResolvedTool;
  readonly capsules: CapsuleSteps;
  /** Runs something the task waits in as in a plan. */
  readonly waiting: (taskId: string, wait: () => Promise<PlanEnd>) => Promise<PlanEnd>;
  /** Takes text for stderr and the bootstrap log. */
  readonly report: (text: string) => void;
}

/** One step of a report, in its order of settling. */
interface ReportedStep {
  readonly step_id: string;
  readonly status: "success" | "failed" | "skipped";
  readonly output: string | null;
  readonly error: string | null;
}

/** The call that a `capsule` step is to the policy hooks: what they keep the model from delegating, no plan delegates. */
const DELEGATE_TASK = "delegate-task";

/** Name that a report gives what failed before any step did. */
const THE_PLAN = "plan";

/** Runs the plans of one session. */
export class PlanTool {
  readonly #services: PlanServices;
  #filed = 0;

  constructor(services: PlanServices) {
    this.#services = services;
  }

  /** The tool as a call of its name finds it. */
  tool(): ResolvedTool {
    return { kind: "runtime", inputSchema: PLAN_SCHEMA, run: (input, scope) => this.#run(input, scope) };
  }

  /** Runs one submitted plan. @throws {MurError} `E-RUN-007` when the trace cannot be written. */
  async #run(input: JsonObject, scope: CallScope): Promise<ToolRun> {
    const { trace } = this.#services;
    const begun = performance.now();
    const text = JSON.stringify(input);
    const reading = text.length > MAX_PLAN_LENGTH
      ? { problem: `the plan has ${text.length} characters of JSON; there may be ${MAX_PLAN_LENGTH}` }
      : readPlan(input);
    if ("problem" in reading) {
      trace.write("plan_end", {
        plan_id: "",
        outcome: "failed",
        failed_step: THE_PLAN,
        steps_total: 0,
        steps_succeeded: 0,
        steps_failed: 0,
        steps_skipped: 0,
        duration_ms: Math.round(performance.now() - begun),
        reason: cutBytes(reading.problem, REASON_BYTES),
      });
      const failed = { step_id: THE_PLAN, status: "failed", output: null, error: reading.problem } as const;
      return toolRun("", { outcome: "failed", failedStep: THE_PLAN, steps: [failed], inputTimedOut: false });
    }
    this.#file(text);
    const { plan } = reading;
    const node = trace.write("plan_start", { plan_id: plan.id, step_count: plan.steps.length, steps: traced(plan) });
    const end = await this.#runValid(plan, node, scope);
    const count = (status: ReportedStep["status"]) => end.steps.filter((step) => step.status === status).length;
    trace.write("plan_end", {
      plan_id: plan.id,
      outcome: end.outcome,
      ...(end.failedStep === null ? {} : { failed_step: end.failedStep }),
      steps_total: plan.steps.length,
      steps_succeeded: count("success"),
      steps_failed: count("failed"),
      steps_skipped: count("skipped"),
      duration_ms: Math.round(performance.now() - begun),
      ...(end.outcome === "canceled" ? { reason: PLAN_CANCELED } : {}),
    }, { plan: node });
    return toolRun(plan.id, end);
  }

  async #runValid(plan: Plan, node: string, scope: CallScope): Promise<Ended> {
    const { trace, facts, waiting } = this.#services;
    const verdict = validatePlan(plan, facts());
    if ("problem" in verdict) {
      const { step, problem } = verdict;
      trace.write("plan_step", {
        plan_id: plan.id,
        step_id: step.id,
        kind: tracedKind(step),
        status: "failed",
        attempts: 0,
        duration_ms: 0,
        error: cutBytes(problem, REASON_BYTES),
      }, { plan: node });
      const failed = { step_id: step.id, status: "failed", output: null, error: problem } as const;
      return { outcome: "failed", failedStep: step.id, steps: [failed], inputTimedOut: false };
    }
    const end = await waiting(scope.taskId, () =>
      runPlan(verdict.plan, {
        attempt: (ready, signal) => this.#attempt(ready, { ...scope, signal }),
        started: (body) => void trace.write("plan_step_start", { plan_id: plan.id, ...body }, { plan: node }),
        settled: (body) => void trace.write("plan_step", { plan_id: plan.id, ...body }, { plan: node }),
        signal: scope.signal,
      }));
    return {
      ...end,
      steps: end.steps.map(({ step, status, output, error }) => ({ step_id: step.id, status, output, error })),
    };
  }

  async #attempt({ work }: ReadyStep, scope: CallScope): Promise<StepEnd> {
    const { dispatcher, command, capsules } = this.#services;
    switch (work.kind) {
      case "tool": {
        const input = toolInput(work.input);
        if (input === null) {
          return { passed: false, output: null, error: "the input of a tool step must be a JSON object", final: true };
        }
        return endOfCall(await dispatcher.dispatchStep({ name: work.tool, input }, scope));
      }
      case "shell": {
        const [binary] = work.words;
        const step = { name: binary, input: { command: work.line }, tool: command(work.words, work.line) };
        return endOfCall(await dispatcher.dispatchStep(step, scope));
      }
      case "capsule":
        try {
          // Without this a plan would hand over what a policy keeps the model from handing over.
          const input = { capsule: work.capsule, task: work.objective };
          const refused = await dispatcher.decideStep(DELEGATE_TASK, input, scope);
          if (refused !== null) return endOfCall(refused);
          return await capsules.run(work.capsule, work.objective, scope);
        } catch (cause) {
          if (!failsTheCallAlone(cause)) throw cause;
          return { passed: false, output: null, error: reasonOf(cause) };
        }
    }
  }

  /** Keeps the plan where the capsule's tools and commands can read it; a full disk costs the copy only. */
  #file(text: string): void {
    const { runtimeDir, report } = this.#services;
    const name = `plans/plan-${++this.#filed}.json`;
    try {
      if (!runtimeDir.exists("plans")) runtimeDir.mkdir("plans", { mode: 0o700 });
      writeAtomicallyIn(runtimeDir, name, text, { mode: 0o600, durable: false });
    } catch (cause) {
      report(`${name} could not be written: ${reasonOf(cause)}`);
    }
  }
}

type Ended = Omit<PlanEnd, "steps"> & { readonly steps: readonly ReportedStep[] };

/** The report as the tool's result. */
function toolRun(planId: string, end: Ended): ToolRun {
  const completed = end.outcome === "completed";
  const report = { plan_id: planId, completed, failed_step: end.failedStep, steps: end.steps };
  return {
    passed: completed,
    text: JSON.stringify(report),
    metadata: [],
    ...(end.inputTimedOut ? { inputTimedOut: true } : {}),
  };
}

/** Input of a tool step as the tool gets it: none is empty, a text is JSON; `null` when that is no object. */
function toolInput(input: JsonObject | string | null): JsonObject | null {
  if (input === null) return {};
  if (typeof input !== "string") return input;
  if (nestsDeeper(input, ANSWER_DEPTH)) return null;
  try {
    const parsed: unknown = JSON.parse(input);
    return isJsonObject(parsed) ? parsed : null;
  } catch {
    return null;
  }
}

function tracedKind(step: PlanStep): StepKind | "unknown" {
  const kinds = kindsOf(step);
  return kinds.length === 1 ? kinds[0]! : "unknown";
}

function traced(plan: Plan) {
  return plan.steps.map((step) => ({
    step_id: step.id,
    kind: tracedKind(step),
    depends_on: step.dependsOn,
    has_condition: step.condition.trim() !== "",
  }));
}
