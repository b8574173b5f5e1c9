/**
 * The manifest that staging puts into `runtime/tools/submit-plan/`: what a model is told of plans (spec components 11.1).
 *
 * @module
 */
import { stringify } from "yaml";
import type { JsonObject } from "../../base/json_value.ts";

/** Name of the tool; reserved, whether or not a capsule has it. */
export const SUBMIT_PLAN = "submit-plan";

const DESCRIPTION = [
  "Runs a plan of several steps in one call and returns one report.",
  "A step has exactly one of 'tool' (a tool of yours, with its 'input' object), 'shell' (a command line whose first word",
  "is an allowed program; quotes group words, there are no pipes or variables) and 'capsule' (a sub-capsule, told its",
  "'input').",
  "A step starts once every step in its 'depends_on' is over; shell and capsule steps that can start run side by side.",
  "A text in 'input' that is just $<id>.output or $<id>.status is replaced by what that step gave.",
  "'if' compares such references and quoted texts with ==, !=, > or <, joined by && and ||; a step whose 'if' is false is",
  "skipped.",
  "'on_error' says what a failed step does: 'fail' (the default) ends the plan, 'skip' and 'continue' let it go on.",
].join(" ");

const STEP = {
  type: "object",
  properties: {
    id: { type: "string", description: "Unique in the plan" },
    tool: { type: "string" },
    shell: { type: "string" },
    capsule: { type: "string" },
    input: { description: 'For a tool its input object; for a capsule its task, as text or {"objective": "…"}' },
    depends_on: { type: "array", items: { type: "string" } },
    if: { type: "string", description: "For example $build.status == 'success'" },
    on_error: { type: "string", enum: ["fail", "skip", "continue"] },
    retries: { type: "integer", minimum: 0, description: "Attempts after the first" },
  },
  required: ["id"],
  additionalProperties: false,
};

/** The tool's input: one plan. */
export const PLAN_SCHEMA: JsonObject = {
  type: "object",
  properties: {
    id: { type: "string", description: "A name for the plan" },
    // Each step is judged when it is dispatched; the plan around it names no destination.
    steps: { type: "array", format: "murmur-opaque", items: STEP },
  },
  required: ["id", "steps"],
  additionalProperties: false,
};

/** The manifest's text. */
export function planManifest(): string {
  return stringify({
    name: SUBMIT_PLAN,
    version: "0.0.0",
    runtime: "tool",
    implementation: "native",
    description: DESCRIPTION,
    input_schema: PLAN_SCHEMA,
  });
}
