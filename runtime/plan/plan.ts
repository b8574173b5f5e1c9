/**
 * A plan as the model submits it: its shape, read and bounded (spec components 12.1). Whether it can be run is judged by
 * `plan_validation.ts`. Pure.
 *
 * @module
 */
import { shownValue } from "../../artifact/manifest/shown_value.ts";
import { isJsonObject, type JsonObject, type JsonValue } from "../../base/json_value.ts";

/** Most steps of one plan. */
export const MAX_STEPS = 256;

/** Most extra attempts of one step. */
export const MAX_RETRIES = 100;

/** Most UTF-16 units of a plan's JSON. */
export const MAX_PLAN_LENGTH = 1_048_576;

/** Longest id of a plan or a step, in UTF-16 units. */
const MAX_NAME = 128;

/** One step as it was written: any number of kinds, any `on_error`. */
export interface PlanStep {
  readonly id: string;
  readonly tool: string | null;
  readonly shell: string | null;
  readonly capsule: string | null;
  readonly input: JsonObject | string | null;
  readonly dependsOn: readonly string[];
  /** Blank: none. */
  readonly condition: string;
  readonly onError: string;
  /** Attempts after the first. */
  readonly retries: number;
}

/** A plan whose shape is right. */
export interface Plan {
  readonly id: string;
  readonly steps: readonly PlanStep[];
}

/** What a step names as its work. */
export type StepKind = "tool" | "shell" | "capsule";

/** The kinds a step names. */
export function kindsOf(step: PlanStep): readonly StepKind[] {
  return (["tool", "shell", "capsule"] as const).filter((kind) => step[kind] !== null);
}

/** A plan, or why there is none. */
export type PlanReading = { readonly plan: Plan } | { readonly problem: string };

/** The shape is wrong; caught by {@linkcode readPlan}. */
class ShapeProblem extends Error {}

/** Reads the input of `submit-plan`. Keys it does not know are refused: a misspelt `depends_on` must not run at once. */
export function readPlan(input: JsonObject): PlanReading {
  try {
    refuseUnknownKeys(input, PLAN_KEYS, "the plan");
    const id = name(input["id"], "id");
    const written = input["steps"];
    if (!Array.isArray(written)) throw new ShapeProblem("steps must be a list");
    if (written.length > MAX_STEPS) {
      throw new ShapeProblem(`steps has ${written.length} entries; a plan has at most ${MAX_STEPS}`);
    }
    return { plan: { id, steps: written.map((step, index) => readStep(step, `steps[${index}]`)) } };
  } catch (cause) {
    if (!(cause instanceof ShapeProblem)) throw cause;
    return { problem: `the plan cannot be read: ${cause.message}` };
  }
}

const PLAN_KEYS = ["id", "steps"];
const STEP_KEYS = ["id", "tool", "shell", "capsule", "input", "depends_on", "if", "on_error", "retries"];

function readStep(value: JsonValue, path: string): PlanStep {
  if (!isJsonObject(value)) throw new ShapeProblem(`${path} must be an object`);
  refuseUnknownKeys(value, STEP_KEYS, path);
  const text = (key: string) => optionalText(value[key], `${path}.${key}`);
  return {
    id: name(value["id"], `${path}.id`),
    tool: text("tool"),
    shell: text("shell"),
    capsule: text("capsule"),
    input: stepInput(value["input"], `${path}.input`),
    dependsOn: names(value["depends_on"], `${path}.depends_on`),
    condition: text("if") ?? "",
    onError: text("on_error") ?? "fail",
    retries: retries(value["retries"], `${path}.retries`),
  };
}

function refuseUnknownKeys(value: JsonObject, known: readonly string[], path: string): void {
  for (const key of Object.keys(value)) {
    if (known.includes(key)) continue;
    throw new ShapeProblem(`${path} has the unknown key '${shownValue(key)}'; there are ${known.join(", ")}`);
  }
}

/**
 * Ids reach reports, traces and terminals, and other steps refer to them: printable characters only.
 */
function name(value: JsonValue | undefined, path: string): string {
  if (typeof value !== "string") throw new ShapeProblem(`${path} must be text`);
  if (value.trim() === "") throw new ShapeProblem(`${path} is blank`);
  if (value.length > MAX_NAME) throw new ShapeProblem(`${path} is longer than ${MAX_NAME} characters`);
  if (/[\p{C}\p{Zl}\p{Zp}]/u.test(value)) throw new ShapeProblem(`${path} holds a character that is not printable`);
  return value;
}

function names(value: JsonValue | undefined, path: string): string[] {
  if (value === undefined || value === null) return [];
  if (!Array.isArray(value)) throw new ShapeProblem(`${path} must be a list`);
  return [...new Set(value.map((item, index) => name(item, `${path}[${index}]`)))];
}

function optionalText(value: JsonValue | undefined, path: string): string | null {
  if (value === undefined || value === null) return null;
  if (typeof value !== "string") throw new ShapeProblem(`${path} must be text`);
  return value;
}

function stepInput(value: JsonValue | undefined, path: string): JsonObject | string | null {
  if (value === undefined || value === null) return null;
  if (typeof value === "string" || isJsonObject(value)) return value;
  throw new ShapeProblem(`${path} must be an object or text`);
}

function retries(value: JsonValue | undefined, path: string): number {
  if (value === undefined || value === null) return 0;
  if (typeof value !== "number" || !Number.isInteger(value) || value < 0) {
    throw new ShapeProblem(`${path} must be a whole number of at least 0`);
  }
  if (value > MAX_RETRIES) {
    throw new ShapeProblem(`${path} is ${value}; a step is retried at most ${MAX_RETRIES} times`);
  }
  return value;
}
