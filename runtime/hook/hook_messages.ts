/**
 * The history as hooks are handed it, and what they give back made history again (spec components 10.7, session 10). Pure.
 *
 * @module
 */
import { isJsonObject } from "../../base/json_value.ts";
import {
  assistantMessage,
  type ContentBlock,
  type Message,
  textBlock,
  textOf,
  toolCallsOf,
  userMessage,
} from "../agent/message.ts";
import type { HookMessage } from "./hook_event.ts";

/** Key that marks the one JSON object a tool message is folded into, so that it can come back intact. */
const TOOL_MARKER = "__murmur_tool_msg__";

function contentText(message: Message): string {
  return JSON.stringify(
    message.role === "tool"
      ? {
        [TOOL_MARKER]: true,
        tool_call_id: message.tool_call_id,
        is_error: message.is_error,
        body: message.content,
      }
      : message.content,
  );
}

/** A message for `on-compaction`. */
export function toHookMessage(message: Message): HookMessage {
  return {
    role: message.role,
    content: contentText(message),
    id: message.id,
    sourceId: message.source_id ?? null,
    insertedBy: message.inserted_by ?? null,
  };
}

/** A message for `conversation.read-messages`: the content is that of the blocks alone, for every role. */
export function toRecordedMessage(message: Message): HookMessage {
  return { ...toHookMessage(message), content: JSON.stringify(message.content) };
}

/** Content from a hook as blocks: a list of them as it is, a text as one block, anything else as its text in one. */
function blocksOf(content: string): readonly ContentBlock[] {
  let value: unknown;
  try {
    value = JSON.parse(content);
  } catch {
    return [textBlock(content)];
  }
  if (Array.isArray(value) && value.every(isJsonObject)) return value;
  return [textBlock(typeof value === "string" ? value : content)];
}

/** A tool message folded by {@linkcode toHookMessage}; `null` when it did not come back whole. */
function unfoldedTool(
  content: string,
): Pick<Message & { role: "tool" }, "tool_call_id" | "is_error" | "content"> | null {
  let value: unknown;
  try {
    value = JSON.parse(content);
  } catch {
    return null;
  }
  if (!isJsonObject(value) || value[TOOL_MARKER] !== true) return null;
  const { tool_call_id: callId, is_error: isError, body } = value;
  if (typeof callId !== "string" || callId === "") return null;
  if (!Array.isArray(body) || !body.every(isJsonObject)) return null;
  return { tool_call_id: callId, is_error: isError === true, content: body };
}

/** Ids of the calls in assistant messages, and of those that tool messages answer. */
function callIds(messages: readonly Message[]): { readonly asked: Set<string>; readonly answered: Set<string> } {
  const asked = new Set<string>();
  const answered = new Set<string>();
  for (const message of messages) {
    if (message.role === "tool") answered.add(message.tool_call_id);
    else if (message.role === "assistant") { for (const { id } of toolCallsOf(message.content)) asked.add(id ?? ""); }
  }
  return { asked, answered };
}

/**
 * What `replace-context` puts in the place of the history.
 *
 * Roles but `assistant` and `tool` become `user`: no provider knows another one.
 *
 * @param history The messages that were handed over; one that came back verbatim stays the message it was.
 * @returns `null` when calls and answers do not belong together any more.
 */
export function replacedHistory(
  proposed: readonly HookMessage[],
  history: readonly Message[],
): readonly Message[] | null {
  const known = new Map(history.map((message) => [message.id, message]));
  const replaced = proposed.flatMap((message): Message[] => {
    const own = message.id === null ? undefined : known.get(message.id);
    if (own !== undefined && own.role === message.role && contentText(own) === message.content) {
      // Only once: two messages with one id are no history.
      known.delete(own.id);
      return [own];
    }
    const made = madeMessage(message, "replace-context");
    return made === null ? [] : [made];
  });
  const { asked, answered } = callIds(replaced);
  return asked.size === answered.size && asked.isSubsetOf(answered) ? replaced : null;
}

function madeMessage(message: HookMessage, insertedBy: "replace-context" | "seed-context"): Message | null {
  const options = { insertedBy, ...(message.sourceId === null ? {} : { sourceId: message.sourceId }) };
  if (message.role === "tool") {
    const unfolded = unfoldedTool(message.content);
    return unfolded === null ? null : { role: "tool", ...unfolded, ...envelopeOf(options) };
  }
  const blocks = blocksOf(message.content);
  if (message.role === "assistant") return assistantMessage(blocks, options);
  return { ...userMessage("", options), content: blocks };
}

function envelopeOf(options: Parameters<typeof userMessage>[1]): Pick<Message, "id" | "source_id" | "inserted_by"> {
  const { role: _role, content: _content, ...envelope } = userMessage("", options);
  return envelope;
}

/**
 * The messages of a seed. It stands at the front, where no call of it can be answered: calls and answers are left out,
 * and messages that hold nothing else.
 */
export function seedMessages(proposed: readonly HookMessage[]): readonly Message[] {
  return proposed.flatMap((message): Message[] => {
    if (message.role === "tool") return [];
    const made = madeMessage(message, "seed-context")!;
    const content = made.content.filter(({ type }) => type !== "tool_call");
    return content.length === 0 ? [] : [{ ...made, content } as Message];
  });
}

/** Text of messages without tool answers, joined with newlines: the summary of a compaction. */
export function summaryText(messages: readonly Message[]): string {
  return messages.flatMap((message) => {
    const text = message.role === "tool" ? "" : textOf(message.content);
    return text === "" ? [] : [text];
  }).join("\n");
}
