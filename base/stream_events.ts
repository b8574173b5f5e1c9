/**
 * The events of a door's stream: from bytes to A2A `StreamResponse`s, and from those to what the commands show (spec door
 * 12.3). Unknown events, members and comments are passed over.
 *
 * @module
 */
import { createParser } from "eventsource-parser";
import { HttpError } from "./http_error.ts";
import { isJsonObject, type JsonObject, type JsonValue } from "./json_value.ts";
import type { PlainResponse } from "./plain_http.ts";
import { type DoorEvent, parseRpcAnswer } from "./door_client.ts";

/** Longest event, in characters: 1 MiB of text with every character escaped, and its envelope (spec door 12.3). */
const MAX_EVENT = 8 << 20;

/**
 * The events of a streaming answer, as they come. Leaving the loop closes the connection. Its end is no error here: the
 * caller knows which event should have come last.
 *
 * @throws {HttpError} When the connection fails or carries something else.
 */
export async function* streamEvents(
  response: Pick<PlainResponse, "pieces">,
  where: string,
): AsyncGenerator<DoorEvent, void> {
  let ready: { readonly data: string; readonly id: string | undefined }[] = [];
  let broken: string | null = null;
  const parser = createParser({
    maxBufferSize: MAX_EVENT,
    onEvent: ({ data, id }) => void ready.push({ data, id }),
    // Fields it does not know are errors to the parser and none to us; an event without end is one.
    onError: (error) => {
      if (error.type === "max-buffer-size-exceeded") broken = error.message;
    },
  });
  const decoder = new TextDecoder();
  for await (const piece of response.pieces()) {
    parser.feed(decoder.decode(piece, { stream: true }));
    if (broken !== null) throw new HttpError("protocol", `${where} sent an endless event`);
    const events = ready;
    ready = [];
    for (const { data, id } of events) {
      const answer = parseRpcAnswer(data);
      if (answer === null) throw new HttpError("protocol", `${where} sent an event that is no JSON-RPC answer`);
      if (!answer.ok) throw new HttpError("protocol", `${where} ended the stream: ${answer.failure.message}`);
      if (!isJsonObject(answer.result)) continue;
      yield { id: id !== undefined && /^\d{1,15}$/.test(id) ? Number(id) : null, response: answer.result };
    }
  }
}

/** State of a task in the words of trace and commands (spec door 8.2). */
export type TaskWord =
  | "submitted"
  | "working"
  | "input-required"
  | "completed"
  | "failed"
  | "canceled"
  | "rejected"
  | "auth-required";

const WORDS: Readonly<Record<string, TaskWord>> = {
  TASK_STATE_SUBMITTED: "submitted",
  TASK_STATE_WORKING: "working",
  TASK_STATE_INPUT_REQUIRED: "input-required",
  TASK_STATE_COMPLETED: "completed",
  TASK_STATE_FAILED: "failed",
  TASK_STATE_CANCELED: "canceled",
  TASK_STATE_REJECTED: "rejected",
  TASK_STATE_AUTH_REQUIRED: "auth-required",
};

const TERMINAL: ReadonlySet<string> = new Set(["completed", "failed", "canceled", "rejected"]);

/** The word of a wire state; `null` for an unknown one. */
export function taskWord(state: unknown): TaskWord | null {
  return typeof state === "string" && Object.hasOwn(WORDS, state) ? WORDS[state]! : null;
}

/** Whether a task in this state has ended. */
export function isTerminal(state: TaskWord): boolean {
  return TERMINAL.has(state);
}

/** A task as the door shows it, as far as it is used here (spec door 8.5). */
export interface TaskView {
  readonly id: string;
  readonly contextId: string;
  readonly state: TaskWord;
  readonly message: string | null;
  /** Text of the `response` artifact. */
  readonly response: string | null;
  /** Text of the `prompt` artifact. */
  readonly prompt: string | null;
  /** Items of the `residue` artifact. */
  readonly residue: readonly JsonObject[];
  /** The task as it came. */
  readonly raw: JsonObject;
}

/** What an event says. */
export type StreamUpdate =
  | { readonly kind: "task"; readonly task: TaskView }
  | {
    readonly kind: "status";
    readonly taskId: string;
    readonly contextId: string;
    readonly state: TaskWord;
    readonly message: string | null;
    readonly final: boolean;
    /** Number of the reopen this attempt belongs to. */
    readonly reopen: number | null;
  }
  | { readonly kind: "text"; readonly taskId: string; readonly text: string; readonly final: boolean }
  | {
    readonly kind: "tool-result";
    readonly taskId: string;
    readonly artifactId: string;
    readonly toolName: string;
    readonly content: string;
    readonly isError: boolean;
    readonly exitCode: number | null;
    readonly durationMs: number | null;
    readonly truncated: boolean;
    readonly append: boolean;
    readonly last: boolean;
  }
  | {
    readonly kind: "response";
    readonly taskId: string;
    readonly text: string;
    readonly append: boolean;
    readonly last: boolean;
  }
  | { readonly kind: "gap"; readonly firstAvailableId: number }
  | { readonly kind: "lagged"; readonly missed: number }
  | { readonly kind: "connection-ack"; readonly threaded: boolean }
  | { readonly kind: "capsule-closed" }
  | { readonly kind: "other" };

const OTHER: StreamUpdate = { kind: "other" };

function object(value: JsonValue | undefined): JsonObject {
  return isJsonObject(value) ? value : {};
}

function string(value: JsonValue | undefined): string {
  return typeof value === "string" ? value : "";
}

function number(value: JsonValue | undefined): number | null {
  return typeof value === "number" && Number.isFinite(value) ? value : null;
}

function list(value: JsonValue | undefined): readonly JsonValue[] {
  return Array.isArray(value) ? value : [];
}

/** Text parts of a message or artifact, joined by newlines; `null` when it has none. */
function textOf(value: JsonValue | undefined): string | null {
  const texts = list(object(value).parts).flatMap((part) => {
    const { text } = object(part);
    return typeof text === "string" ? [text] : [];
  });
  return texts.length === 0 ? null : texts.join("\n");
}

function murmur(value: JsonObject): JsonObject {
  return object(object(value.metadata).murmur);
}

/** An id as doors make them. It is shown as part of a command to be typed, so it holds nothing a shell would obey. */
const TASK_ID = /^[A-Za-z0-9_.:-]{1,200}$/;

/** Reads a task; `null` when it has no id or a state nobody knows. */
export function parseTask(value: JsonValue | undefined): TaskView | null {
  const raw = object(value);
  const status = object(raw.status);
  const state = taskWord(status.state);
  if (state === null || !TASK_ID.test(string(raw.id))) return null;
  const artifact = (id: string) => list(raw.artifacts).find((each) => object(each).artifactId === id);
  return {
    id: string(raw.id),
    contextId: string(raw.contextId),
    state,
    message: textOf(status.message),
    response: textOf(artifact("response")),
    prompt: textOf(artifact("prompt")),
    residue: list(object(artifact("residue")).parts).map((part) => object(object(part).data)),
    raw,
  };
}

function statusUpdate(update: JsonObject): StreamUpdate {
  const taskId = string(update.taskId);
  const said = murmur(update);
  switch (said.frame) {
    case "text":
      return { kind: "text", taskId, text: string(said.text), final: said.final === true };
    case "thinking":
    case "tool-call-started":
    case "tool-call-progress":
      return OTHER;
    case "gap":
    case "lagged":
      return notice(said);
  }
  const status = object(update.status);
  const state = taskWord(status.state);
  if (state === null) return OTHER;
  return {
    kind: "status",
    taskId,
    contextId: string(update.contextId),
    state,
    message: textOf(status.message),
    final: typeof said.final === "boolean" ? said.final : isTerminal(state),
    reopen: number(said.reopen),
  };
}

function artifactUpdate(update: JsonObject): StreamUpdate {
  const taskId = string(update.taskId);
  const artifact = object(update.artifact);
  const text = textOf(artifact) ?? "";
  const [append, last] = [update.append === true, update.lastChunk !== false];
  if (artifact.artifactId === "response") return { kind: "response", taskId, text, append, last };
  const said = murmur(update);
  if (said.frame !== "artifact") return OTHER;
  return {
    kind: "tool-result",
    taskId,
    artifactId: string(artifact.artifactId),
    toolName: string(said.tool_name) || string(artifact.name),
    content: text,
    isError: said.is_error === true,
    exitCode: number(said.exit_code),
    durationMs: number(said.duration_ms),
    truncated: said.truncated === true,
    append,
    last,
  };
}

/** A notice about the stream itself; its keys stand beside `frame` or in a data part. */
function notice(said: JsonObject): StreamUpdate {
  switch (said.frame) {
    case "gap":
      return { kind: "gap", firstAvailableId: number(said.first_available_id) ?? 0 };
    case "lagged":
      return { kind: "lagged", missed: number(said.missed) ?? 1 };
    case "connection-ack":
      return { kind: "connection-ack", threaded: said.conversation_mode === "threaded" };
    case "capsule-closed":
      return { kind: "capsule-closed" };
    default:
      return OTHER;
  }
}

/** What a `StreamResponse` says to a reader of this version. */
export function streamUpdate(response: JsonObject): StreamUpdate {
  if (isJsonObject(response.statusUpdate)) return statusUpdate(response.statusUpdate);
  if (isJsonObject(response.artifactUpdate)) return artifactUpdate(response.artifactUpdate);
  if (isJsonObject(response.message)) {
    const data = list(response.message.parts).map((part) => object(object(part).data))[0] ?? {};
    return notice({ ...data, frame: murmur(response.message).frame ?? "" });
  }
  const task = parseTask(response.task);
  return task === null ? OTHER : { kind: "task", task };
}
