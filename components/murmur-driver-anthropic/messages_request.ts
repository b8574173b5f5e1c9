/**
 * A driver request as a request of the Messages API. Pure.
 *
 * @module
 */
import type { AssistantBlock, DriverRequest } from "murmur/driver";
import { hasText, type ToolAnswer, type Turn, turnsOf } from "../driver_support/conversation.ts";
import { defined, isObject, type JsonObject } from "../driver_support/json_value.ts";
import type { ToolNames } from "../driver_support/tool_names.ts";
import type { AnthropicConfig } from "./anthropic_config.ts";

type Block = Record<string, unknown>;

/** A message on the wire. */
export interface WireMessage {
  readonly role: "user" | "assistant";
  readonly content: readonly JsonObject[];
}

/** An id in the form the API takes; other providers' may hold more. */
function wireId(id: unknown): string {
  return String(id).replace(/[^A-Za-z0-9_-]/g, "_") || "_";
}

function toolResult(answer: ToolAnswer): Block {
  return {
    type: "tool_result",
    tool_use_id: wireId(answer.callId),
    // The API refuses texts of blanks; a result may have none at all.
    ...(hasText(answer.text) ? { content: [{ type: "text", text: answer.text }] } : {}),
    ...(answer.isError ? { is_error: true } : {}),
  };
}

/**
 * Kinds of blocks the API takes back besides text and calls. A history may hold those of other providers, after a switch of
 * drivers; one of them would make the API refuse the request.
 */
const OWN_BLOCK = /^(thinking|redacted_thinking|compaction|container_upload|\w+_tool_use|\w+_tool_result)$/;

/** A block of an assistant turn. What the provider wrote besides text and calls goes back as it came, signatures included. */
export function assistantBlock(block: AssistantBlock, names: ToolNames): readonly JsonObject[] {
  const fields: JsonObject = { ...block };
  if (fields.type === "text") {
    const cited = Array.isArray(fields.citations) && fields.citations.length > 0;
    return [{ type: "text", text: fields.text, ...(cited ? { citations: fields.citations } : {}) }];
  }
  if (fields.type === "tool_call") {
    return [{
      type: "tool_use",
      id: wireId(fields.id),
      name: names.wire(String(fields.name)),
      input: isObject(fields.input) ? fields.input : {},
    }];
  }
  return OWN_BLOCK.test(block.type) ? [fields] : [];
}

function wireMessage(turn: Turn, names: ToolNames): WireMessage {
  if (turn.role === "assistant") {
    return { role: "assistant", content: turn.blocks.flatMap((block) => assistantBlock(block, names)) };
  }
  // Results stand before everything else, or the API takes the calls for unanswered.
  return {
    role: "user",
    content: [...turn.answers.map(toolResult), ...turn.texts.map((text) => ({ type: "text", text }))],
  };
}

/** The message with a cache mark on its last block. */
function marked(message: WireMessage, mark: JsonObject): WireMessage {
  const last = message.content.at(-1);
  if (last === undefined) return message;
  return { ...message, content: [...message.content.slice(0, -1), { ...last, cache_control: mark }] };
}

/**
 * Marks the end of this request and the end of the one before. A look-up goes back 20 blocks from a mark at most, so the
 * second mark is what finds the earlier request's prefix after a turn with many calls.
 */
function withCacheMarks(messages: readonly WireMessage[], mark: JsonObject): readonly WireMessage[] {
  const users = messages.flatMap((message, index) => message.role === "user" ? [index] : []).slice(-2);
  return messages.map((message, index) => users.includes(index) ? marked(message, mark) : message);
}

function toolDefinition(tool: DriverRequest["tools"][number], names: ToolNames): JsonObject {
  return {
    name: names.wire(tool.name),
    ...(tool.description === undefined || tool.description === "" ? {} : { description: tool.description }),
    input_schema: { ...tool.parameters, type: "object" },
  };
}

/** The body of `POST /v1/messages`. */
export function messagesBody(request: DriverRequest, config: AnthropicConfig, names: ToolNames): JsonObject {
  const mark = config.promptCaching ? { type: "ephemeral", ...defined({ ttl: config.cacheTtl }) } : null;
  const messages = turnsOf(request.messages).map((turn) => wireMessage(turn, names))
    .filter((message) => message.content.length > 0);
  const tools = request.tools.map((tool) => toolDefinition(tool, names));
  const system = request.system ?? "";
  return {
    model: request.model,
    max_tokens: request.max_tokens,
    ...(hasText(system)
      ? { system: [{ type: "text", text: system, ...(mark === null ? {} : { cache_control: mark }) }] }
      : {}),
    messages: mark === null ? messages : withCacheMarks(messages, mark),
    ...(tools.length === 0 ? {} : { tools }),
    ...(tools.length === 0 || config.toolChoice === undefined ? {} : { tool_choice: config.toolChoice }),
    ...defined({
      thinking: config.thinking,
      output_config: config.effort === undefined ? undefined : { effort: config.effort },
      temperature: config.temperature,
      top_p: config.topP,
      top_k: config.topK,
      stop_sequences: config.stopSequences,
      service_tier: config.serviceTier,
    }),
    stream: config.stream,
    ...config.extraBody,
  };
}

/** The body that goes on where an answer paused: the same, with the answer so far as the last message. */
export function continuedBody(body: JsonObject, answer: readonly JsonObject[]): JsonObject {
  const messages = Array.isArray(body.messages) ? body.messages : [];
  return { ...body, messages: [...messages, { role: "assistant", content: answer }] };
}

/** The request without the thinking of earlier turns; `null` when there is none. */
export function withoutThinking(body: JsonObject): JsonObject | null {
  const messages = Array.isArray(body.messages) ? body.messages.filter(isObject) : [];
  const isThinking = (block: unknown) =>
    isObject(block) && (block.type === "thinking" || block.type === "redacted_thinking");
  let found = false;
  const kept = messages.map((message) => {
    const content = Array.isArray(message.content) ? message.content : [];
    const rest = content.filter((block) => !isThinking(block));
    found ||= rest.length < content.length;
    return { ...message, content: rest };
  }).filter((message) => message.content.length > 0);
  return found ? { ...body, messages: kept } : null;
}

/** Headers besides the key, which the runtime attaches. */
export function messagesHeaders(config: AnthropicConfig): Record<string, string> {
  return {
    "anthropic-version": config.apiVersion,
    ...(config.beta.length === 0 ? {} : { "anthropic-beta": config.beta.join(",") }),
    accept: config.stream ? "text/event-stream" : "application/json",
  };
}

/** Address of the API below an endpoint, which may carry the version already. */
export function messagesUrl(endpoint: string): string {
  const base = endpoint.replace(/\/+$/, "");
  return /\/v\d+$/.test(base) ? `${base}/messages` : `${base}/v1/messages`;
}
