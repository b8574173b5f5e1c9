/**
 * Messages as the runtime holds them, and the two forms they are written in: what a driver is sent and what the
 * conversation record keeps (spec session 9.2, 13.1, components 6.2).
 *
 * Messages are immutable; a changed one is a new object with, where its content changed, a new id.
 *
 * @module
 */
import { isJsonObject, type JsonObject, type JsonValue } from "../../base/json_value.ts";
import { newId } from "../../base/ids.ts";

/** One content block: `text`, `tool_call`, or anything a driver returned, which is kept as it is. */
export type ContentBlock = JsonObject;

interface Envelope {
  readonly id: string;
  /** On a hook-made message whose hook gave one. */
  readonly source_id?: string;
  /** On a message a hook put in. */
  readonly inserted_by?: "seed-context" | "replace-context";
  /** Source name of the fence around the content; absent when it is not fenced. */
  readonly fence?: string;
}

export interface UserMessage extends Envelope {
  readonly role: "user";
  readonly content: readonly ContentBlock[];
}

export interface AssistantMessage extends Envelope {
  readonly role: "assistant";
  readonly content: readonly ContentBlock[];
}

export interface ToolMessage extends Envelope {
  readonly role: "tool";
  readonly tool_call_id: string;
  readonly is_error: boolean;
  readonly content: readonly ContentBlock[];
}

export type Message = UserMessage | AssistantMessage | ToolMessage;

/** What a message may be given beside its content. */
export interface MessageOptions {
  /** Default: a fresh `msg_` id. */
  readonly id?: string;
  readonly sourceId?: string;
  readonly insertedBy?: "seed-context" | "replace-context";
  readonly fence?: string;
}

/** A tool call the model asked for. */
export interface ToolCall {
  /** The provider's id, verbatim; `null` when the driver gave none. */
  readonly id: string | null;
  readonly name: string;
  readonly input: JsonObject;
  /** Why `input` cannot be used, when the block's own was no object; then `input` is empty. */
  readonly inputProblem: string | null;
}

function envelope(options: MessageOptions): Envelope {
  return {
    id: options.id ?? newId("msg"),
    ...(options.sourceId === undefined ? {} : { source_id: options.sourceId }),
    ...(options.insertedBy === undefined ? {} : { inserted_by: options.insertedBy }),
    ...(options.fence === undefined ? {} : { fence: options.fence }),
  };
}

/** A block of plain text. */
export function textBlock(text: string): ContentBlock {
  return { type: "text", text };
}

/** A user message of one text block. */
export function userMessage(text: string, options: MessageOptions = {}): UserMessage {
  return { role: "user", content: [textBlock(text)], ...envelope(options) };
}

/** An assistant message with the blocks exactly as the driver returned them. */
export function assistantMessage(content: readonly ContentBlock[], options: MessageOptions = {}): AssistantMessage {
  return { role: "assistant", content, ...envelope(options) };
}

/** The answer to one tool call. */
export function toolMessage(
  result: { readonly callId: string | null; readonly isError: boolean; readonly text: string },
  options: MessageOptions = {},
): ToolMessage {
  return {
    role: "tool",
    tool_call_id: result.callId ?? "",
    is_error: result.isError,
    content: [textBlock(result.text)],
    ...envelope(options),
  };
}

const wireForms = new WeakMap<Message, string>();

/**
 * A message as a driver is sent it: compact JSON without the envelope keys `id`, `source_id`, `inserted_by` and
 * `fence`. These are the bytes of `message_shas` (spec trace 4.1). Kept with the message, so a history costs its new
 * messages only.
 */
export function wireJson(message: Message): string {
  let json = wireForms.get(message);
  if (json === undefined) {
    json = JSON.stringify(
      message.role === "tool"
        ? {
          role: message.role,
          tool_call_id: message.tool_call_id,
          is_error: message.is_error,
          content: message.content,
        }
        : { role: message.role, content: message.content },
    );
    wireForms.set(message, json);
  }
  return json;
}

/** A message as one line of the conversation record, without the newline. */
export function recordJson(message: Message): string {
  const marks = {
    id: message.id,
    source_id: message.source_id,
    inserted_by: message.inserted_by,
    fence: message.fence,
  };
  return JSON.stringify(
    message.role === "tool"
      ? {
        role: message.role,
        tool_call_id: message.tool_call_id,
        is_error: message.is_error,
        content: message.content,
        ...marks,
      }
      : { role: message.role, content: message.content, ...marks },
  );
}

/** Content from outside as blocks: a list keeps its objects, a bare string becomes one text block. */
function contentBlocks(value: JsonValue | undefined): readonly ContentBlock[] | null {
  if (typeof value === "string") return [textBlock(value)];
  if (value === undefined || value === null) return [];
  if (!Array.isArray(value)) return null;
  return value.every(isJsonObject) ? value : null;
}

/**
 * Reads a message from a JSON value, for instance a line of the conversation record. Keys it does not know are dropped.
 *
 * @param fallbackId Id of a message that has none.
 * @returns `null` when the value is no message this runtime could send: no object, no known role, content that is no
 * list of blocks, or a tool message without the id of its call.
 */
export function parseMessage(value: unknown, fallbackId: string): Message | null {
  if (!isJsonObject(value)) return null;
  const content = contentBlocks(value.content);
  if (content === null) return null;
  const insertedBy = value.inserted_by;
  const marks = envelope({
    id: typeof value.id === "string" && value.id !== "" ? value.id : fallbackId,
    ...(typeof value.source_id === "string" ? { sourceId: value.source_id } : {}),
    ...(insertedBy === "seed-context" || insertedBy === "replace-context" ? { insertedBy } : {}),
    ...(typeof value.fence === "string" ? { fence: value.fence } : {}),
  });
  switch (value.role) {
    case "user":
    case "assistant":
      return { role: value.role, content, ...marks };
    case "tool":
      if (typeof value.tool_call_id !== "string") return null;
      return { role: "tool", tool_call_id: value.tool_call_id, is_error: value.is_error === true, content, ...marks };
    default:
      return null;
  }
}

/** All text blocks joined with a newline: the final answer of a turn (spec components 6.3). */
export function textOf(content: readonly ContentBlock[]): string {
  return content.flatMap((block) => block.type === "text" && typeof block.text === "string" ? [block.text] : [])
    .join("\n");
}

/** The tool calls among the blocks, in block order. An absent input counts as `{}`. */
export function toolCallsOf(content: readonly ContentBlock[]): readonly ToolCall[] {
  return content.flatMap((block): ToolCall[] => {
    if (block.type !== "tool_call") return [];
    const id = typeof block.id === "string" ? block.id : null;
    const name = typeof block.name === "string" ? block.name : "";
    const input = block.input ?? {};
    return isJsonObject(input)
      ? [{ id, name, input, inputProblem: null }]
      : [{ id, name, input: {}, inputProblem: "the input of a tool call must be a JSON object" }];
  });
}
