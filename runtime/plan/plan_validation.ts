/**
 * Whether a plan can be run, judged before anything of it does (spec components 12.4). Pure.
 *
 * @module
 */
import { shownValue } from "../../artifact/manifest/shown_value.ts";
import { isJsonObject, type JsonObject } from "../../base/json_value.ts";
import { splitWords } from "../../sandbox/command_words.ts";
import { kindsOf, type Plan, type PlanStep } from "./plan.ts";
import { readCondition } from "./plan_condition.ts";
import { wrongReference } from "./plan_reference.ts";

/** What becomes of a plan when a step fails. */
export type OnError = "fail" | "skip" | "continue";

/** What a step does. */
export type StepWork =
  | { readonly kind: "tool"; readonly tool: string; readonly input: JsonObject | string | null }
  /** Words of the command line, the binary first. */
  | { readonly kind: "shell"; readonly words: readonly [string, ...string[]]; readonly line: string }
  /** `objective` may be a reference. */
  | { readonly kind: "capsule"; readonly capsule: string; readonly objective: string };

/** A step that can be run. */
export interface ValidStep {
  readonly id: string;
  readonly work: StepWork;
  readonly dependsOn: readonly string[];
  /** Blank: none. Its form is judged when its turn comes. */
  readonly condition: string;
  readonly onError: OnError;
  readonly retries: number;
}

/** A plan that can be run. */
export interface ValidPlan {
  readonly id: string;
  readonly steps: readonly ValidStep[];
}

/** What the capsule has that steps may use. */
export interface PlanFacts {
  /** Names of the tools the model is offered. */
  readonly tools: ReadonlySet<string>;
  readonly shellAllow: ReadonlySet<string>;
}

/** A plan that can be run, or its first problem. */
export type PlanVerdict = { readonly plan: ValidPlan } | { readonly step: PlanStep; readonly problem: string };

/** Runtime-provided tools that a step may not call: they speak for the task, or have a step of their own. */
const NOT_IN_PLANS = ["submit-plan", "switch-driver", "delegate-task", "call-member", "end-without-answer"];

const ON_ERROR: readonly OnError[] = ["fail", "skip", "continue"];

/** A step cannot be run; caught by {@linkcode validatePlan}. */
class StepProblem extends Error {}

/** Judges the steps in their order; the first problem is the plan's. */
export function validatePlan(plan: Plan, facts: PlanFacts): PlanVerdict {
  const declared = new Set(plan.steps.map(({ id }) => id));
  const before = new Set<string>();
  const steps: ValidStep[] = [];
  for (const step of plan.steps) {
    try {
      if (before.has(step.id)) throw new StepProblem(`the id '${step.id}' is used by an earlier step`);
      steps.push(validStep(step, declared, facts));
    } catch (cause) {
      if (!(cause instanceof StepProblem)) throw cause;
      return { step, problem: cause.message };
    }
    before.add(step.id);
  }
  return { plan: { id: plan.id, steps } };
}

function validStep(step: PlanStep, declared: ReadonlySet<string>, facts: PlanFacts): ValidStep {
  const { id, dependsOn, condition, retries } = step;
  const work = workOf(step, facts);
  const onError = ON_ERROR.find((known) => known === step.onError);
  if (onError === undefined) {
    throw new StepProblem(`on_error '${shownValue(step.onError)}' is not known; there are ${ON_ERROR.join(", ")}`);
  }
  const missing = dependsOn.find((name) => !declared.has(name));
  if (missing !== undefined) throw new StepProblem(`depends_on names '${missing}', a step the plan does not have`);
  const input = work.kind === "tool" ? work.input : work.kind === "capsule" ? work.objective : null;
  const wrong = wrongReference(input, declared);
  if (wrong !== null) throw new StepProblem(wrong);
  const reading = readCondition(condition, declared);
  if ("problem" in reading && reading.kind === "reference") throw new StepProblem(reading.problem);
  return { id, work, dependsOn, condition, onError, retries };
}

function workOf(step: PlanStep, { tools, shellAllow }: PlanFacts): StepWork {
  const kinds = kindsOf(step);
  if (kinds.length !== 1) {
    throw new StepProblem(
      `a step has exactly one of tool, shell and capsule; this one has ${
        kinds.length === 0 ? "none" : kinds.join(", ")
      }`,
    );
  }
  if (step.tool !== null) {
    const { tool, input } = step;
    if (!tools.has(tool)) throw new StepProblem(`tool '${shownValue(tool)}' is not in the inventory`);
    if (NOT_IN_PLANS.includes(tool)) throw new StepProblem(`tool '${tool}' cannot be called from a plan`);
    return { kind: "tool", tool, input };
  }
  if (step.shell !== null) {
    const [binary, ...args] = splitWords(step.shell);
    if (binary === undefined) throw new StepProblem("the shell command is empty");
    if (!shellAllow.has(binary)) {
      throw new StepProblem(`binary '${shownValue(binary)}' is not in capabilities.shell.allow`);
    }
    return { kind: "shell", words: [binary, ...args], line: step.shell.trim() };
  }
  return { kind: "capsule", capsule: step.capsule!, objective: objectiveOf(step.input) };
}

/** What a sub-capsule is told: the text itself, or `{"objective": "…"}`. */
function objectiveOf(input: JsonObject | string | null): string {
  if (typeof input === "string") return input;
  if (isJsonObject(input) && Object.keys(input).join() === "objective" && typeof input["objective"] === "string") {
    return input["objective"];
  }
  throw new StepProblem('the input of a capsule step must be text or {"objective": "…"}');
}
