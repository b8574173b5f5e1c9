/**
 * States of a task as they stand on the wire (spec door 8.2). Pure.
 *
 * @module
 */
import type { TaskState } from "../session/frame_log.ts";

const WIRE_STATES = {
  submitted: "TASK_STATE_SUBMITTED",
  working: "TASK_STATE_WORKING",
  "input-required": "TASK_STATE_INPUT_REQUIRED",
  completed: "TASK_STATE_COMPLETED",
  failed: "TASK_STATE_FAILED",
  canceled: "TASK_STATE_CANCELED",
  rejected: "TASK_STATE_REJECTED",
} as const satisfies Readonly<Record<TaskState, string>>;

/** Name of a state on the wire. */
export type WireState = typeof WIRE_STATES[TaskState];

/** Names the standard knows and no task of a door is ever in. */
const NEVER_PRODUCED = "TASK_STATE_AUTH_REQUIRED";

/** A state's name on the wire. */
export function wireState(state: TaskState): WireState {
  return WIRE_STATES[state];
}

/** The state a wire name stands for; `"none"` for one of the standard's that no task is in; `null` for anything else. */
export function parseWireState(name: string): TaskState | "none" | null {
  if (name === NEVER_PRODUCED) return "none";
  for (const [state, wire] of Object.entries(WIRE_STATES)) if (wire === name) return state as TaskState;
  return null;
}
