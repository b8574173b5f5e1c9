/**
 * A task as the door shows it, in the types of the A2A library (spec door 8.5). Pure.
 *
 * @module
 */
import type { Artifact, Message, Part, Task, TaskStatus } from "@a2a-js/sdk";
import type { JsonValue } from "../../base/json_value.ts";
import { isFinalState, type TaskState } from "../session/frame_log.ts";
import type { ResidueItem, TaskView } from "../session/task_registry.ts";

/** Numbers of the library's `TaskState`. */
const STATE_NUMBERS: Readonly<Record<TaskState, number>> = {
  submitted: 1,
  working: 2,
  completed: 3,
  failed: 4,
  canceled: 5,
  "input-required": 6,
  rejected: 7,
};

/** `ROLE_AGENT` in the library's numbers. */
const AGENT_ROLE = 2;

/** A state in the library's numbers. */
export function stateNumber(state: TaskState): TaskStatus["state"] {
  return STATE_NUMBERS[state];
}

/** `YYYY-MM-DDTHH:mm:ss.sssZ` of Unix milliseconds. */
export function timestamp(ms: number): string {
  return new Date(ms).toISOString();
}

/** A text part. */
export function textPart(text: string): Part {
  return { content: { $case: "text", value: text }, metadata: undefined, filename: "", mediaType: "text/plain" };
}

/** A data part. */
export function dataPart(data: JsonValue): Part {
  return { content: { $case: "data", value: data }, metadata: undefined, filename: "", mediaType: "application/json" };
}

/** A message of the door. */
export function agentMessage(
  message: Pick<Message, "messageId" | "parts"> & Partial<Pick<Message, "contextId" | "taskId" | "metadata">>,
): Message {
  return {
    contextId: "",
    taskId: "",
    metadata: undefined,
    ...message,
    role: AGENT_ROLE,
    extensions: [],
    referenceTaskIds: [],
  };
}

/** An artifact whose name is its id. */
export function namedArtifact(name: string, parts: Part[]): Artifact {
  return { artifactId: name, name, description: "", parts, metadata: undefined, extensions: [] };
}

/** The message of a task's status. @param suffix `status` for a final one, else the frame's id. */
export function statusMessage(
  { id, contextId }: Pick<TaskView, "id" | "contextId">,
  suffix: string | number,
  text: string,
): Message {
  // Joined, since a template's text lies in pieces, and one such text doubles what V8 takes to write the task as JSON.
  return agentMessage({ messageId: ["msg", id, suffix].join("_"), contextId, taskId: id, parts: [textPart(text)] });
}

function artifactsOf({ state, response, prompt }: TaskView): Artifact[] {
  if (state === "completed" && response !== null) return [namedArtifact("response", [textPart(response)])];
  if (state === "input-required" && prompt !== null) return [namedArtifact("prompt", [textPart(prompt)])];
  return [];
}

/** What is shown beside the task itself. */
export interface TaskDetail {
  /** Whether the time of the last state change is told. */
  readonly timestamp?: boolean;
  readonly artifacts?: boolean;
  /** What still runs after a cancel. */
  readonly residue?: readonly ResidueItem[];
}

/** The task. */
export function taskObject(
  view: TaskView,
  { timestamp: timed, artifacts = true, residue = [] }: TaskDetail = {},
): Task {
  const ended = isFinalState(view.state);
  return {
    id: view.id,
    contextId: view.contextId,
    status: {
      state: stateNumber(view.state),
      message: ended && view.message !== null && view.message !== ""
        ? statusMessage(view, "status", view.message)
        : undefined,
      timestamp: timed === true ? timestamp(view.changedMs) : undefined,
    },
    artifacts: residue.length > 0
      ? [namedArtifact("residue", residue.map((item) => dataPart({ ...item })))]
      : artifacts
      ? artifactsOf(view)
      : [],
    history: [],
    metadata: undefined,
  };
}
