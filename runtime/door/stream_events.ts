/**
 * Frames of a session as events of a stream: in the A2A envelope, in the types of the A2A library (spec door 12.3), and raw
 * (12.4). Pure.
 *
 * @module
 */
import type { StreamResponse } from "@a2a-js/sdk";
import type { JsonObject } from "../../base/json_value.ts";
import type { Frame, FrameBody } from "../session/frame_log.ts";
import type { TaskView } from "../session/task_registry.ts";
import {
  agentMessage,
  dataPart,
  namedArtifact,
  stateNumber,
  statusMessage,
  taskObject,
  textPart,
  timestamp,
} from "./task_object.ts";

/** Most text of one event, in bytes of UTF-8; the official client refuses events over 4 MiB. */
export const MAX_EVENT_TEXT_BYTES = 1 << 20;

/** Most of it once it is written as JSON, where a control character takes six bytes. */
const MAX_EVENT_JSON_LENGTH = 3 << 20;

/** One event of a stream. */
export interface StreamEvent {
  /** Number of its frame; `null`: a reader cannot resume from here. */
  readonly id: number | null;
  /** Type, as the event's name. */
  readonly type: string;
  readonly response: StreamResponse;
}

/** One event without an envelope. */
export interface RawEvent {
  readonly id: number | null;
  readonly type: string;
  readonly payload: JsonObject;
}

/** Types of frames in the order of the card. */
export const FRAME_TYPES = [
  "status",
  "artifact",
  "text",
  "thinking",
  "tool-call-started",
  "tool-call-progress",
  "gap",
  "lagged",
  "connection-ack",
  "capsule-closed",
  "error",
] as const;

function* textPieces(text: string): Iterable<string> {
  if (text.length * 3 <= MAX_EVENT_TEXT_BYTES) {
    yield text;
    return;
  }
  const bytes = new Uint8Array(MAX_EVENT_TEXT_BYTES);
  const encoder = new TextEncoder();
  for (let at = 0; at < text.length;) {
    let { read } = encoder.encodeInto(text.slice(at), bytes);
    while (JSON.stringify(text.slice(at, at + read)).length > MAX_EVENT_JSON_LENGTH) {
      read >>= 1;
      // The halves of one character stay together.
      const code = text.charCodeAt(at + read - 1);
      if (code >= 0xd800 && code < 0xdc00) read--;
    }
    yield text.slice(at, at + read);
    at += read;
  }
}

interface ArtifactText {
  readonly taskId: string;
  readonly contextId: string;
  readonly artifactId: string;
  readonly name: string;
  readonly text: string;
  readonly metadata: JsonObject | undefined;
  /** Number of the frame, on the last piece. */
  readonly frameId: number | null;
}

function* artifactEvents(artifact: ArtifactText): Iterable<StreamEvent> {
  const { taskId, contextId, artifactId, name, text, metadata, frameId } = artifact;
  let sent = 0;
  for (const piece of textPieces(text)) {
    const last = sent + piece.length === text.length;
    yield {
      id: last ? frameId : null,
      type: "artifact",
      response: {
        payload: {
          $case: "artifactUpdate",
          value: {
            taskId,
            contextId,
            artifact: { ...namedArtifact(artifactId, [textPart(piece)]), name },
            append: sent > 0,
            lastChunk: last,
            metadata,
          },
        },
      },
    };
    sent += piece.length;
  }
}

function murmur(metadata: JsonObject): JsonObject {
  return { murmur: metadata };
}

/** Raw keys of a frame that tells of progress, without the task's id. */
function progressKeys(frame: Exclude<FrameBody, { type: "status" | "artifact" }>): JsonObject {
  switch (frame.type) {
    case "text":
    case "thinking":
      return { text: frame.text, final: frame.final };
    case "tool-call-started":
      return { tool_call_id: frame.toolCallId, tool_name: frame.toolName };
    case "tool-call-progress":
      return { tool_call_id: frame.toolCallId, input_bytes: frame.inputBytes };
  }
}

/** Raw keys of an artifact frame but for its content. */
function artifactKeys(frame: Extract<FrameBody, { type: "artifact" }>): JsonObject {
  return {
    tool_name: frame.toolName,
    fence_source: frame.fenceSource,
    tool_call_id: frame.toolCallId,
    is_error: frame.isError,
    duration_ms: frame.durationMs,
    exit_code: frame.exitCode,
    truncated: frame.truncated,
  };
}

/** Events of a frame, in order. @param contextId Context of its task. */
export function* frameEvents(frame: Frame, contextId: string): Iterable<StreamEvent> {
  const { id, type, taskId, atMs } = frame;
  switch (type) {
    case "status": {
      const { state, message, response = null, reopen = null, final } = frame;
      yield* statusEvents({ taskId, contextId, state, message, response, reopen, final, atMs, id });
      return;
    }
    case "artifact":
      yield* artifactEvents({
        taskId,
        contextId,
        artifactId: `tool-${id}`,
        name: frame.toolName,
        text: frame.content,
        metadata: murmur({ frame: "artifact", ...artifactKeys(frame) }),
        frameId: id,
      });
      return;
    case "text":
    case "thinking":
      yield* chunkEvents(frame, contextId);
      return;
    default:
      yield progressEvent(frame, contextId, id, progressKeys(frame));
  }
}

/** A chunk of text, in several when it is long; the whole of a reply is then its chunks and the end of them. */
function* chunkEvents(frame: Frame & { readonly type: "text" | "thinking" }, contextId: string): Iterable<StreamEvent> {
  const pieces = [...textPieces(frame.text)];
  if (pieces.length > 1 && frame.final) pieces.push("");
  const last = pieces.pop()!;
  for (const piece of pieces) yield progressEvent(frame, contextId, null, { text: piece, final: false });
  yield progressEvent(frame, contextId, frame.id, { text: last, final: frame.final });
}

function progressEvent(
  { type, taskId, atMs }: Frame,
  contextId: string,
  id: number | null,
  keys: JsonObject,
): StreamEvent {
  return {
    id,
    type,
    response: {
      payload: {
        $case: "statusUpdate",
        value: {
          taskId,
          contextId,
          status: { state: stateNumber("working"), message: undefined, timestamp: timestamp(atMs) },
          metadata: murmur({ frame: type, ...keys }),
        },
      },
    },
  };
}

interface StatusStep {
  readonly taskId: string;
  readonly contextId: string;
  readonly state: TaskView["state"];
  readonly message: string;
  /** The answer of a completed task. */
  readonly response: string | null;
  /** Number of the reopen whose attempt begins with it. */
  readonly reopen: number | null;
  readonly final: boolean;
  readonly atMs: number;
  readonly id: number | null;
}

/** A status, behind the answer it brings. */
function* statusEvents(step: StatusStep): Iterable<StreamEvent> {
  const { taskId, contextId, state, message, response, reopen, final, atMs, id } = step;
  if (response !== null) {
    yield* artifactEvents({
      taskId,
      contextId,
      artifactId: "response",
      name: "response",
      text: response,
      metadata: undefined,
      frameId: null,
    });
  }
  yield {
    id,
    type: "status",
    response: {
      payload: {
        $case: "statusUpdate",
        value: {
          taskId,
          contextId,
          status: {
            state: stateNumber(state),
            message: statusMessage({ id: taskId, contextId }, final ? "status" : id ?? "status", message),
            timestamp: timestamp(atMs),
          },
          metadata: murmur({ frame: "status", final, ...(reopen === null ? {} : { reopen }) }),
        },
      },
    },
  };
}

/** The task as it stands, first event of its stream. */
export function snapshotEvent(task: TaskView): StreamEvent {
  return { id: null, type: "task", response: { payload: { $case: "task", value: taskObject(task) } } };
}

/** The final status of an ended task whose frame is lost, or was never written: a refusal for room (spec door 8.4). */
export function endEvents(task: TaskView): Iterable<StreamEvent> {
  const { id: taskId, contextId, state, message, response, changedMs: atMs } = task;
  return statusEvents({
    taskId,
    contextId,
    state,
    message: message ?? "",
    response,
    reopen: null,
    final: true,
    atMs,
    id: null,
  });
}

/** What a queue tells beside frames. */
export type Notice =
  | { readonly type: "gap"; readonly payload: { readonly first_available_id: number } }
  | { readonly type: "lagged"; readonly payload: { readonly missed: number } }
  | {
    readonly type: "connection-ack";
    readonly payload: { readonly role: "observer"; readonly conversation_mode: "stateless" | "threaded" };
  }
  | { readonly type: "capsule-closed"; readonly payload: Readonly<Record<string, never>> };

/** A notice on the stream of a task. */
export function taskNoticeEvent(task: TaskView, { type, payload }: Notice): StreamEvent {
  return {
    id: null,
    type,
    response: {
      payload: {
        $case: "statusUpdate",
        value: {
          taskId: task.id,
          contextId: task.contextId,
          status: { state: stateNumber(task.state), message: undefined, timestamp: timestamp(task.changedMs) },
          metadata: murmur({ frame: type, ...payload }),
        },
      },
    },
  };
}

/** A notice on the stream of a session. @param number Number of the notice on its connection, from 1. */
export function watchNoticeEvent({ type, payload }: Notice, number: number): StreamEvent {
  return {
    id: null,
    type,
    response: {
      payload: {
        $case: "message",
        value: agentMessage({
          messageId: `msg_${type}_${number}`,
          parts: [dataPart(payload)],
          metadata: murmur({ frame: type }),
        }),
      },
    },
  };
}

/** A frame without an envelope. */
export function rawFrameEvent(frame: Frame): RawEvent {
  const { id, type, taskId } = frame;
  switch (type) {
    case "status": {
      const { contextId, state, message, response, reopen, final } = frame;
      return {
        id,
        type,
        payload: {
          id: taskId,
          context_id: contextId,
          status: {
            state,
            message,
            ...(response === undefined ? {} : { response }),
            ...(reopen === undefined ? {} : { reopen }),
          },
          final,
        },
      };
    }
    case "artifact": {
      const { tool_name, ...rest } = artifactKeys(frame);
      return {
        id,
        type,
        payload: { id: taskId, artifact: { tool_name: tool_name!, content: frame.content, ...rest } },
      };
    }
    default:
      return { id, type, payload: { id: taskId, ...progressKeys(frame) } };
  }
}
