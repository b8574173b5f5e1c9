/**
 * Errors as a door words them: JSON-RPC's own codes, those of A2A with their `ErrorInfo`, and murmur's two (spec door 5.3
 * to 5.5). Pure.
 *
 * @module
 */
import type { TaskState } from "../session/frame_log.ts";
import { wireState } from "./task_state.ts";

/** Detail of an A2A error, `google.rpc.ErrorInfo`. */
export interface ErrorInfo {
  readonly "@type": "type.googleapis.com/google.rpc.ErrorInfo";
  readonly reason: string;
  readonly domain: "a2a-protocol.org" | "murmur.nexus";
  readonly metadata: Readonly<Record<string, string>>;
}

/** An error as it stands in an answer. */
export interface A2aError {
  readonly code: number;
  readonly message: string;
  readonly data?: readonly ErrorInfo[];
}

function withInfo(
  code: number,
  reason: string,
  message: string,
  metadata: Readonly<Record<string, string>>,
  domain: ErrorInfo["domain"] = "a2a-protocol.org",
): A2aError {
  return {
    code,
    message,
    data: [{ "@type": "type.googleapis.com/google.rpc.ErrorInfo", reason, domain, metadata }],
  };
}

/** The body is not JSON, or deeper than a door reads. */
export const INVALID_JSON: A2aError = { code: -32700, message: "Invalid JSON payload" };

/** The body is not one JSON-RPC 2.0 request. */
export const INVALID_REQUEST: A2aError = { code: -32600, message: "Request payload validation error" };

export const METHOD_NOT_FOUND: A2aError = { code: -32601, message: "Method not found" };

/** A parameter is not what its method takes; the message names it. */
export function invalidParams(message: string): A2aError {
  return { code: -32602, message };
}

/** The id names no task of this session, or none the caller may see. */
export function taskNotFound(taskId: string): A2aError {
  return withInfo(-32001, "TASK_NOT_FOUND", "Task not found", { taskId });
}

/** `CancelTask` on a task that has ended. */
export function taskNotCancelable(taskId: string, state: TaskState): A2aError {
  const word = wireState(state);
  return withInfo(-32002, "TASK_NOT_CANCELABLE", `Task cannot be canceled: it is already ${word}`, {
    taskId,
    state: word,
  });
}

/** The four push-notification methods. */
export const PUSH_NOTIFICATIONS_NOT_SUPPORTED: A2aError = withInfo(
  -32003,
  "PUSH_NOTIFICATION_NOT_SUPPORTED",
  "Push Notification is not supported",
  {},
);

/** `GetExtendedAgentCard` on a public door. */
export const NO_EXTENDED_CARD: A2aError = withInfo(
  -32004,
  "UNSUPPORTED_OPERATION",
  "This operation is not supported: a public door has no extended card",
  {},
);

/** A message over HTTP+JSON under `task_acceptance: none`; over JSON-RPC the method is not found. */
export const NO_TASKS_TAKEN: A2aError = withInfo(
  -32004,
  "UNSUPPORTED_OPERATION",
  "This operation is not supported: this capsule takes no tasks",
  {},
);

/** A message for a task that does not wait for one. */
export function notWaitingForInput(taskId: string, state: TaskState, ended: boolean): A2aError {
  const word = wireState(state);
  const advice = ended ? "it has ended; send a message without taskId in the same contextId" : "it waits for no input";
  return withInfo(-32004, "UNSUPPORTED_OPERATION", `task ${taskId} takes no message in ${word}: ${advice}`, {
    taskId,
    state: word,
  });
}

/** `SubscribeToTask` on a task that has ended. */
export function taskEnded(taskId: string, state: TaskState): A2aError {
  const word = wireState(state);
  return withInfo(-32004, "UNSUPPORTED_OPERATION", `task ${taskId} has ended in ${word}: there is nothing to stream`, {
    taskId,
    state: word,
  });
}

/** A message brings a file. @param index Number of its part, from 0. */
export function contentTypeNotSupported(index: number, kind: "raw" | "url", mediaType: string | null): A2aError {
  return withInfo(
    -32005,
    "CONTENT_TYPE_NOT_SUPPORTED",
    `message.parts[${index}] is a ${kind} part; this agent reads text and data parts only`,
    { partIndex: String(index), ...(mediaType === null ? {} : { mediaType }) },
  );
}

/** The request asks for another version of the protocol. @param requested The header's value, `""` without one. */
export function versionNotSupported(requested: string): A2aError {
  return withInfo(
    -32009,
    "VERSION_NOT_SUPPORTED",
    `A2A version '${requested}' is not supported; this agent speaks 1.0`,
    { requestedVersion: requested, supportedVersions: "1.0" },
  );
}

/** A completion for another session. @param addressed The session it names; `""` when it names none. */
export function completionMisaddressed(addressed: string): A2aError {
  const shown = addressed === "" ? "<unaddressed>" : addressed;
  return withInfo(
    -31001,
    "COMPLETION_MISADDRESSED",
    `completion is addressed to session ${shown}, which is not the session running here`,
    { addressedSession: addressed },
    "murmur.nexus",
  );
}

/** A completion nobody waits for. @param delegationId `null`: it names none. */
export function completionNotAwaited(delegationId: string | null): A2aError {
  return withInfo(
    -31002,
    "COMPLETION_NOT_AWAITED",
    delegationId === null
      ? "completion names no delegation in x-murmur-delegation-id, so no task in this session is waiting for it"
      : `no task in this session is waiting for delegation ${delegationId}`,
    delegationId === null ? {} : { delegationId },
    "murmur.nexus",
  );
}

/** A completion of a child that its session is ending. */
export function completionBeingEnded(delegationId: string): A2aError {
  return withInfo(
    -31002,
    "COMPLETION_NOT_AWAITED",
    `delegation ${delegationId} is being ended by this session; its launcher records the outcome`,
    { delegationId },
    "murmur.nexus",
  );
}
