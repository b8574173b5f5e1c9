/**
 * The parameters of the two message methods, checked on the JSON as it was sent (spec door 7.1, 7.2): the first thing that
 * is wrong answers, before any task is looked up. Pure.
 *
 * @module
 */
import { isJsonObject, type JsonObject, type JsonValue } from "../../base/json_value.ts";
import { type A2aError, contentTypeNotSupported, invalidParams } from "./a2a_error.ts";

/** Most distinct tasks a message may refer to. */
export const MAX_REFERENCES = 16;

/**
 * Longest id of a message, a context or a task, in characters. The session remembers ids for as long as it runs and repeats
 * a context's in every event; clients make them of a few dozen characters.
 */
export const MAX_ID_LENGTH = 1_024;

/** A part the agent reads. */
export type MessagePart =
  | { readonly kind: "text"; readonly text: string }
  | {
    readonly kind: "data";
    readonly data: JsonValue;
    readonly mediaType: string | null;
    readonly filename: string | null;
  };

/** A message in order. */
export interface IncomingMessage {
  readonly messageId: string;
  readonly parts: readonly MessagePart[];
  /** Task it continues; `null`: none. */
  readonly taskId: string | null;
  readonly contextId: string | null;
  /** Distinct, in the order of their first mention. */
  readonly referenceTaskIds: readonly string[];
}

/** When a `SendMessage` is answered (spec door 9.2). */
export type AnswerTime = "at_once" | "settled";

/** What a message method was given. */
export interface MessageParams {
  readonly message: IncomingMessage;
  readonly answer: AnswerTime;
}

const CONTENTS = ["text", "raw", "url", "data"] as const;
type Content = typeof CONTENTS[number];

function refused(what: string): A2aError {
  return invalidParams(`Invalid params: ${what}`);
}

function tooLong(field: "messageId" | "contextId" | "referenceTaskIds"): A2aError {
  return refused(`message.${field} holds an id of more than ${MAX_ID_LENGTH} characters`);
}

/** Which of its contents a part sets; a `data` that is `null` is set. */
function contentsOf(part: JsonObject): readonly Content[] {
  return CONTENTS.filter((key) =>
    Object.hasOwn(part, key) && (key === "data" ? part.data !== undefined : isPresent(part[key]))
  );
}

/** An optional field that is `null` counts as absent. */
function isPresent(value: JsonValue | undefined): value is Exclude<JsonValue, null> {
  return value !== undefined && value !== null;
}

/** Optional text; `""` and `null` count as none. `undefined`: it is something else. */
function optionalText(value: JsonValue | undefined): string | null | undefined {
  if (!isPresent(value)) return null;
  if (typeof value !== "string") return undefined;
  return value === "" ? null : value;
}

function readReferences(value: JsonValue | undefined): readonly string[] | A2aError {
  if (!isPresent(value)) return [];
  if (!Array.isArray(value) || !value.every((id) => typeof id === "string" && id !== "")) {
    return refused("message.referenceTaskIds must be a list of task ids");
  }
  if ((value as readonly string[]).some((id) => id.length > MAX_ID_LENGTH)) return tooLong("referenceTaskIds");
  const distinct = [...new Set(value as readonly string[])];
  return distinct.length > MAX_REFERENCES
    ? refused(`message.referenceTaskIds names more than ${MAX_REFERENCES} tasks`)
    : distinct;
}

/** Reads `params` of `SendMessage` or `SendStreamingMessage`. */
export function readMessageParams(params: JsonObject): MessageParams | A2aError {
  const { message } = params;
  if (!isJsonObject(message)) return refused("message must be an object");
  const { messageId, parts } = message;
  if (typeof messageId !== "string" || messageId === "") return refused("message.messageId must be a non-empty string");
  if (messageId.length > MAX_ID_LENGTH) return tooLong("messageId");
  if (message.role !== "ROLE_USER") return refused("message.role must be ROLE_USER");
  if (!Array.isArray(parts) || parts.length === 0) return refused("message.parts must be a non-empty list");
  const sets: Content[] = [];
  for (const [index, part] of (parts as readonly JsonValue[]).entries()) {
    const contents = isJsonObject(part) ? contentsOf(part) : [];
    if (contents.length !== 1) {
      return refused(`message.parts[${index}] must set exactly one of text, raw, url and data`);
    }
    sets.push(contents[0]!);
  }
  for (const [index, part] of (parts as readonly JsonObject[]).entries()) {
    for (const key of ["text", "raw", "url", "mediaType", "filename"]) {
      if (isPresent(part[key]) && typeof part[key] !== "string") {
        return refused(`message.parts[${index}].${key} must be a string`);
      }
    }
  }
  const taskId = optionalText(message.taskId);
  if (taskId === undefined) return refused("message.taskId must be a string");
  const contextId = optionalText(message.contextId);
  if (contextId === undefined) return refused("message.contextId must be a string");
  if (contextId !== null && contextId.length > MAX_ID_LENGTH) return tooLong("contextId");
  const referenceTaskIds = readReferences(message.referenceTaskIds);
  if ("code" in referenceTaskIds) return referenceTaskIds;
  const read: MessagePart[] = [];
  for (const [index, part] of (parts as readonly JsonObject[]).entries()) {
    const kind = sets[index]!;
    const mediaType = optionalText(part.mediaType) ?? null;
    if (kind === "raw" || kind === "url") return contentTypeNotSupported(index, kind, mediaType);
    read.push(
      kind === "text"
        ? { kind, text: part.text as string }
        : { kind, data: part.data!, mediaType, filename: optionalText(part.filename) ?? null },
    );
  }
  const { configuration } = params;
  return {
    message: { messageId, parts: read, taskId, contextId, referenceTaskIds },
    answer: isJsonObject(configuration) && configuration.returnImmediately !== true ? "settled" : "at_once",
  };
}
