/**
 * A driver request as a request of the Chat Completions API. Pure.
 *
 * @module
 */
import type { AssistantBlock, DriverRequest } from "murmur/driver";
import { hasText, NO_TEXT, type ToolAnswer, type Turn, turnsOf } from "../driver_support/conversation.ts";
import { defined, isObject, type JsonObject, textAt } from "../driver_support/json_value.ts";
import type { ToolNames } from "../driver_support/tool_names.ts";
import { modelDialect, type OpenAiConfig } from "./openai_config.ts";

/** Type of the block that keeps what a model thought, with the member it came in. */
export const REASONING_BLOCK = "reasoning";

function toolMessage(answer: ToolAnswer): JsonObject {
  const text = hasText(answer.text) ? answer.text : NO_TEXT;
  // The API has no mark for a failed call; the model reads it.
  return { role: "tool", tool_call_id: answer.callId, content: answer.isError ? `Error: ${text}` : text };
}

function toolCall(block: JsonObject, names: ToolNames): JsonObject {
  return {
    // What the provider sent with the call goes back with it, e.g. a signature of its thinking.
    ...(isObject(block.provider) ? block.provider : {}),
    id: block.id,
    type: "function",
    function: {
      name: names.wire(textAt(block, "name")),
      arguments: JSON.stringify(isObject(block.input) ? block.input : {}),
    },
  };
}

function assistantMessage(blocks: readonly AssistantBlock[], names: ToolNames, reasoning: boolean): JsonObject | null {
  const fields = blocks.map((block): JsonObject => ({ ...block }));
  const text = fields.filter((block) => block.type === "text").map((block) => textAt(block, "text")).join("\n");
  const calls = fields.filter((block) => block.type === "tool_call").map((block) => toolCall(block, names));
  if (text === "" && calls.length === 0) return null;
  const thoughts: Record<string, string> = {};
  for (const block of reasoning ? fields : []) {
    if (block.type !== REASONING_BLOCK) continue;
    const member = textAt(block, "member");
    if (member === "reasoning_content" || member === "reasoning") {
      thoughts[member] = (thoughts[member] ?? "") + textAt(block, "text");
    }
  }
  return {
    role: "assistant",
    content: text === "" ? null : text,
    ...thoughts,
    ...(calls.length === 0 ? {} : { tool_calls: calls }),
  };
}

/** Whether a turn's reasoning goes back. */
function replays(turns: readonly Turn[], index: number, rule: OpenAiConfig["replayReasoning"]): boolean {
  if (rule !== "tool-turns") return rule === "always";
  // From the last word of the user on: these turns are one piece of work.
  const lastWord = turns.findLastIndex((turn) => turn.role === "user" && turn.texts.length > 0);
  return index > lastWord;
}

function wireMessages(turns: readonly Turn[], config: OpenAiConfig, names: ToolNames): readonly JsonObject[] {
  return turns.flatMap((turn, index): readonly JsonObject[] => {
    if (turn.role === "assistant") {
      const message = assistantMessage(turn.blocks, names, replays(turns, index, config.replayReasoning));
      return message === null ? [] : [message];
    }
    const answers = turn.answers.map(toolMessage);
    return turn.texts.length === 0 ? answers : [...answers, { role: "user", content: turn.texts.join("\n\n") }];
  });
}

/** Longest `prompt_cache_key`. */
const LONGEST_CACHE_KEY = 64;

/** The body of `POST …/chat/completions`. */
export function chatBody(request: DriverRequest, config: OpenAiConfig, names: ToolNames): JsonObject {
  const dialect = modelDialect(request.model, config);
  const system = request.system ?? "";
  const key = request.prompt_cache_key ?? "";
  const tools = request.tools.map((tool) => ({
    type: "function",
    function: {
      name: names.wire(tool.name),
      ...(tool.description === undefined || tool.description === "" ? {} : { description: tool.description }),
      parameters: { ...tool.parameters, type: "object" },
    },
  }));
  return {
    model: request.model,
    messages: [
      ...(hasText(system) ? [{ role: config.systemRole, content: system }] : []),
      ...wireMessages(turnsOf(request.messages), config, names),
    ],
    ...(tools.length === 0 ? {} : { tools }),
    [dialect.maxTokensField]: request.max_tokens,
    ...defined({
      parallel_tool_calls: tools.length === 0 ? undefined : config.parallelToolCalls,
      temperature: config.temperature,
      top_p: config.topP,
      stop: config.stop,
      seed: config.seed,
      reasoning_effort: config.reasoningEffort,
      verbosity: config.verbosity,
      service_tier: config.serviceTier,
      // The end tells contexts apart, so it is what is kept.
      prompt_cache_key: dialect.promptCacheKey && key !== "" ? key.slice(-LONGEST_CACHE_KEY) : undefined,
    }),
    stream: config.stream,
    ...(config.stream && config.streamUsage ? { stream_options: { include_usage: true } } : {}),
    ...config.extraBody,
  };
}

/** Address of the API below an endpoint, which may carry a version already. */
export function chatUrl(endpoint: string, path: string | undefined): string {
  const base = endpoint.replace(/\/+$/, "");
  if (path !== undefined) return `${base}/${path.replace(/^\/+/, "")}`;
  const versioned = /^https?:\/\/[^/]+\/(.*\/)?v\d[^/]*(\/|$)/.test(base);
  return versioned ? `${base}/chat/completions` : `${base}/v1/chat/completions`;
}
