/**
 * What one attempt at a step came to, taken from what its tool, command or sub-capsule gave (spec components 12.5). Pure.
 *
 * @module
 */
import { reservedMetadata } from "../agent/driver_protocol.ts";
import type { StepCall } from "../agent/tool_dispatch.ts";
import { cutBytes } from "../trace/trace_redaction.ts";
import type { StepResult } from "./plan_schedule.ts";

/** Most UTF-8 bytes of one step's output or error that a plan keeps. */
export const MAX_STEP_TEXT = 1_048_576;

/** Most UTF-8 bytes that all steps of a plan keep together. */
export const MAX_PLAN_TEXT = 16_777_216;

/** How one attempt ended. */
export interface StepEnd extends StepResult {
  /** Another attempt would come to the same. */
  readonly final?: boolean;
  readonly stateEffect?: string;
  readonly resourceId?: string;
  /** Nobody answered the step's question: the attempt at the task ends (spec session 16.1). */
  readonly inputTimedOut?: boolean;
}

/** The end of a tool or shell step. */
export function endOfCall(call: StepCall): StepEnd {
  if (call.kind === "refused") return { passed: false, output: null, error: call.reason, final: true };
  const { run } = call;
  const text = run.passed ? run.text : null;
  const data = run.answer === undefined ? text : run.answer.data ?? run.answer.readData(MAX_STEP_TEXT + 1);
  const error = run.answer?.summary ?? data ?? run.text;
  const stateEffect = reservedMetadata(run.metadata, "state_effect");
  const resourceId = reservedMetadata(run.metadata, "resource_id");
  return {
    passed: run.passed,
    output: data,
    error: run.passed ? null : error,
    ...(stateEffect === null ? {} : { stateEffect }),
    ...(resourceId === null ? {} : { resourceId }),
    ...(run.inputTimedOut === true ? { inputTimedOut: true, final: true } : {}),
  };
}

const encoder = new TextEncoder();

/** Cuts the texts of steps, so that what a plan keeps is bounded whatever its steps write. */
export class TextBudget {
  #left = MAX_PLAN_TEXT;

  /** The text, or what fits of it with a mark behind. */
  take(text: string): string {
    const size = encoder.encode(text).length;
    const room = Math.min(MAX_STEP_TEXT, this.#left);
    if (size <= room) {
      this.#left -= size;
      return text;
    }
    this.#left -= room;
    return `${cutBytes(text, room)} […]\n[cut at ${room} bytes]`;
  }
}
