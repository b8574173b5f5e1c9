/**
 * What a model provider refuses: the rules of the Messages and the Chat Completions API, as far as a client can break
 * them. Pure; {@linkcode startProviderServer} of `provider_server.ts` answers with what is found here.
 *
 * @module
 */
import { isJsonObject } from "../../base/json_value.ts";

/** A JSON object of which nothing is known. */
export type JsonObject = Readonly<Record<string, unknown>>;

/** A request as it arrived. */
export interface ProviderRequest {
  readonly method: string;
  readonly path: string;
  /** Lower-cased names. */
  readonly headers: Readonly<Record<string, string>>;
  /** Header names as often as they came, lower-cased. */
  readonly headerNames: readonly string[];
  readonly body: JsonObject;
}

const isCount = (value: unknown, least: number): boolean => Number.isSafeInteger(value) && (value as number) >= least;
const isText = (value: unknown): value is string => typeof value === "string";
const isFilled = (value: unknown): value is string => isText(value) && value.trim() !== "";

const TOOL_NAME = /^[A-Za-z0-9_-]{1,64}$/;
const CALL_ID = /^[A-Za-z0-9_-]+$/;

/** Gathers what is wrong. */
class Findings {
  readonly list: string[] = [];
  check(holds: boolean, text: string): boolean {
    if (!holds) this.list.push(text);
    return holds;
  }
  keys(value: JsonObject, known: readonly string[], where: string): void {
    for (const key of Object.keys(value)) {
      this.check(known.includes(key), `${where}.${key}: Extra inputs are not permitted`);
    }
  }
}

function checkHeaders(found: Findings, request: ProviderRequest): void {
  const { headers, headerNames } = request;
  found.check(request.method === "POST", `method ${request.method}`);
  found.check(/^application\/json\b/.test(headers["content-type"] ?? ""), "content-type is not application/json");
  for (const name of headerNames) {
    found.check(!name.startsWith("x-murmur-"), `header ${name} must not leave the machine`);
  }
  for (const name of new Set(headerNames)) {
    found.check(headerNames.filter((other) => other === name).length === 1, `header ${name} came more than once`);
  }
  found.check(!/gzip|br|deflate/.test(headers["accept-encoding"] ?? ""), "a coding was asked for that nobody undoes");
}

/** What the Messages API knows of the conversation. */
export interface AnthropicMemory {
  /** Thinking by its signature, as it was sent. */
  readonly thinking: ReadonlyMap<string, string>;
  /** Whether the last answer paused, so that the request may end with it. */
  readonly paused: boolean;
}

const CACHE_KEYS = ["type", "ttl"];

function cacheMark(found: Findings, block: JsonObject, where: string): number {
  const mark = block.cache_control;
  if (mark === undefined) return 0;
  if (!found.check(isJsonObject(mark) && mark.type === "ephemeral", `${where}.cache_control: not a mark`)) return 0;
  found.keys(mark as JsonObject, CACHE_KEYS, `${where}.cache_control`);
  found.check(block.type !== "thinking" && block.type !== "redacted_thinking", `${where}: thinking can't be marked`);
  return 1;
}

function anthropicTextBlock(found: Findings, block: JsonObject, where: string): void {
  found.keys(block, ["type", "text", "cache_control", "citations"], where);
  found.check(isFilled(block.text), `${where}: text content blocks must contain non-whitespace text`);
}

function anthropicAssistantBlock(found: Findings, block: JsonObject, where: string, memory: AnthropicMemory): void {
  switch (block.type) {
    case "text":
      return anthropicTextBlock(found, block, where);
    case "tool_use":
      found.keys(block, ["type", "id", "name", "input", "cache_control"], where);
      found.check(isText(block.id) && CALL_ID.test(block.id), `${where}.id: should match '${CALL_ID.source}'`);
      found.check(
        isText(block.name) && TOOL_NAME.test(block.name),
        `${where}.name: should match '${TOOL_NAME.source}'`,
      );
      found.check(isJsonObject(block.input), `${where}.input: should be an object`);
      return;
    case "thinking":
      found.keys(block, ["type", "thinking", "signature"], where);
      found.check(
        isText(block.signature) && memory.thinking.get(block.signature) === block.thinking,
        `${where}: Invalid \`signature\` in \`thinking\` block`,
      );
      return;
    case "redacted_thinking":
      found.keys(block, ["type", "data"], where);
      return;
    case "server_tool_use":
    case "web_search_tool_result":
      return;
    default:
      found.check(false, `${where}: unknown block type '${block.type}'`);
  }
}

function anthropicUserBlock(found: Findings, block: JsonObject, where: string): void {
  if (block.type === "text") return anthropicTextBlock(found, block, where);
  if (!found.check(block.type === "tool_result", `${where}: unknown block type '${block.type}'`)) return;
  found.keys(block, ["type", "tool_use_id", "content", "is_error", "cache_control"], where);
  found.check(block.is_error === undefined || typeof block.is_error === "boolean", `${where}.is_error: not a boolean`);
  const content = block.content;
  if (content === undefined || isText(content)) return;
  if (!found.check(Array.isArray(content), `${where}.content: not a list`)) return;
  for (const [index, part] of (content as unknown[]).entries()) {
    if (found.check(isJsonObject(part), `${where}.content.${index}: not a block`)) {
      anthropicTextBlock(found, part as JsonObject, `${where}.content.${index}`);
    }
  }
}

const ids = (blocks: readonly JsonObject[], type: string, key: string): readonly unknown[] =>
  blocks.filter((block) => block.type === type).map((block) => block[key]);

function anthropicMessages(found: Findings, messages: readonly unknown[], memory: AnthropicMemory): number {
  let marks = 0;
  let open: readonly unknown[] = [];
  for (const [index, message] of messages.entries()) {
    const where = `messages.${index}`;
    if (!found.check(isJsonObject(message), `${where}: not an object`)) return marks;
    const { role, content } = message as JsonObject;
    found.keys(message as JsonObject, ["role", "content"], where);
    found.check(
      role === (index % 2 === 0 ? "user" : "assistant"),
      `${where}: roles must alternate, beginning with user`,
    );
    if (!found.check(Array.isArray(content) && content.length > 0, `${where}.content: must be a non-empty list`)) {
      continue;
    }
    const blocks = (content as unknown[]).filter(isJsonObject);
    for (const [at, block] of blocks.entries()) {
      marks += cacheMark(found, block, `${where}.content.${at}`);
      if (role === "assistant") anthropicAssistantBlock(found, block, `${where}.content.${at}`, memory);
      else anthropicUserBlock(found, block, `${where}.content.${at}`);
    }
    if (role === "assistant") {
      open = ids(blocks, "tool_use", "id");
      continue;
    }
    const answered = ids(blocks, "tool_result", "tool_use_id");
    for (const id of open) {
      found.check(
        answered.filter((answer) => answer === id).length === 1,
        `${where}: \`tool_use\` ids were found without \`tool_result\` blocks immediately after: ${id}`,
      );
    }
    for (const id of answered) found.check(open.includes(id), `${where}: unexpected \`tool_use_id\`: ${id}`);
    const firstOther = blocks.findIndex((block) => block.type !== "tool_result");
    found.check(
      firstOther < 0 || blocks.slice(firstOther).every((block) => block.type !== "tool_result"),
      `${where}: tool_result blocks must come first`,
    );
    open = [];
  }
  const last = messages.at(-1);
  found.check(
    (isJsonObject(last) && last.role === "user") || memory.paused,
    "This model does not support assistant message prefill. The conversation must end with a user message.",
  );
  return marks;
}

function anthropicTools(found: Findings, tools: unknown): number {
  if (tools === undefined) return 0;
  if (!found.check(Array.isArray(tools) && tools.length > 0, "tools: must be a non-empty list")) return 0;
  let marks = 0;
  const names = new Set<unknown>();
  for (const [index, tool] of (tools as unknown[]).entries()) {
    const where = `tools.${index}`;
    if (!found.check(isJsonObject(tool), `${where}: not an object`)) continue;
    const fields = tool as JsonObject;
    found.keys(fields, ["name", "description", "input_schema", "cache_control"], where);
    found.check(
      isText(fields.name) && TOOL_NAME.test(fields.name),
      `${where}.name: should match '${TOOL_NAME.source}'`,
    );
    found.check(!names.has(fields.name), `${where}.name: Tool names must be unique`);
    names.add(fields.name);
    found.check(fields.description === undefined || isText(fields.description), `${where}.description: not a text`);
    found.check(
      isJsonObject(fields.input_schema) && fields.input_schema.type === "object",
      `${where}.input_schema.type: Field required`,
    );
    marks += cacheMark(found, fields, where);
  }
  return marks;
}

/** What the Messages API would say of a request; empty when it would take it. */
export function anthropicProblems(request: ProviderRequest, memory: AnthropicMemory): readonly string[] {
  const found = new Findings();
  const { body, headers } = request;
  checkHeaders(found, request);
  found.check(request.path === "/v1/messages", `path ${request.path}`);
  const version = headers["anthropic-version"] ?? "";
  found.check(["2023-06-01", "2026-10-21"].includes(version), "anthropic-version: header is required");
  const known = [
    "model",
    "max_tokens",
    "messages",
    "system",
    "tools",
    "tool_choice",
    "thinking",
    "output_config",
    "temperature",
    "top_p",
    "top_k",
    "stop_sequences",
    "service_tier",
    "metadata",
    "stream",
  ];
  found.keys(body, known, "body");
  found.check(isFilled(body.model), "model: Field required");
  found.check(isCount(body.max_tokens, 1), "max_tokens: Field required");
  found.check(body.stream === undefined || typeof body.stream === "boolean", "stream: not a boolean");
  let marks = 0;
  if (body.system !== undefined && !isText(body.system)) {
    if (found.check(Array.isArray(body.system) && body.system.length > 0, "system: must be a non-empty list")) {
      for (const [index, block] of (body.system as unknown[]).entries()) {
        if (!found.check(isJsonObject(block) && block.type === "text", `system.${index}: not a text block`)) continue;
        anthropicTextBlock(found, block as JsonObject, `system.${index}`);
        marks += cacheMark(found, block as JsonObject, `system.${index}`);
      }
    }
  }
  if (
    found.check(Array.isArray(body.messages) && body.messages.length > 0, "messages: at least one message is required")
  ) {
    marks += anthropicMessages(found, body.messages as unknown[], memory);
  }
  marks += anthropicTools(found, body.tools);
  found.check(marks <= 4, `A maximum of 4 blocks with cache_control may be provided. Found ${marks}.`);
  found.check(body.tool_choice === undefined || body.tools !== undefined, "tool_choice without tools");
  if (isJsonObject(body.thinking) && body.thinking.type === "enabled") {
    found.check(
      isCount(body.thinking.budget_tokens, 1024) &&
        (body.thinking.budget_tokens as number) < (body.max_tokens as number),
      "`max_tokens` must be greater than `thinking.budget_tokens`",
    );
    found.check(body.temperature === undefined, "`temperature` may only be set to 1 when thinking is enabled");
  }
  if (version === "2026-10-21") {
    for (const key of ["temperature", "top_p", "top_k"]) found.check(body[key] === undefined, `${key}: was removed`);
  }
  return found.list;
}

/** How strictly an OpenAI-speaking server reads. */
export interface OpenAiRules {
  /** `openai`: OpenAI itself. `compatible`: a server that knows more (`reasoning_content`) and less (`unknown`). */
  readonly dialect: "openai" | "compatible";
  /** Members this server does not know. */
  readonly unknown: readonly string[];
  readonly path: string;
}

function openAiCalls(found: Findings, calls: unknown, where: string): readonly unknown[] {
  if (calls === undefined) return [];
  if (!found.check(Array.isArray(calls) && calls.length > 0, `${where}.tool_calls: must be a non-empty list`)) {
    return [];
  }
  return (calls as unknown[]).map((call, index) => {
    const at = `${where}.tool_calls.${index}`;
    if (!found.check(isJsonObject(call), `${at}: not an object`)) return null;
    const fields = call as JsonObject;
    found.keys(fields, ["id", "type", "function", "extra_content"], at);
    found.check(isText(fields.id) && fields.id !== "" && fields.id.length <= 40, `${at}.id: 1 to 40 characters`);
    found.check(fields.type === "function", `${at}.type: must be 'function'`);
    const target = isJsonObject(fields.function) ? fields.function : {};
    found.keys(target, ["name", "arguments"], `${at}.function`);
    found.check(isText(target.name) && TOOL_NAME.test(target.name), `${at}.function.name: invalid`);
    let parsed: unknown;
    try {
      parsed = JSON.parse(String(target.arguments));
    } catch {
      parsed = undefined;
    }
    found.check(isText(target.arguments) && isJsonObject(parsed), `${at}.function.arguments: not a JSON object`);
    return fields.id;
  });
}

function openAiMessages(found: Findings, messages: readonly unknown[], rules: OpenAiRules): void {
  let open: unknown[] = [];
  for (const [index, message] of messages.entries()) {
    const where = `messages.${index}`;
    if (!found.check(isJsonObject(message), `${where}: not an object`)) return;
    const fields = message as JsonObject;
    if (fields.role !== "tool") {
      found.check(
        open.length === 0,
        `${where}: an assistant message with 'tool_calls' must be followed by tool messages responding to each ` +
          `'tool_call_id'. Missing: ${open.join(", ")}`,
      );
      open = [];
    }
    switch (fields.role) {
      case "system":
      case "developer":
        found.keys(fields, ["role", "content"], where);
        found.check(index === 0, `${where}: ${fields.role} must come first`);
        found.check(isFilled(fields.content), `${where}.content: empty`);
        break;
      case "user":
        found.keys(fields, ["role", "content"], where);
        found.check(isFilled(fields.content), `${where}.content: empty`);
        break;
      case "assistant": {
        const more = rules.dialect === "compatible" ? ["reasoning_content", "reasoning"] : [];
        found.keys(fields, ["role", "content", "tool_calls", ...more], where);
        open = [...openAiCalls(found, fields.tool_calls, where)];
        found.check(new Set(open).size === open.length, `${where}: two calls share an id`);
        found.check(
          isText(fields.content) || (fields.content === null && open.length > 0),
          `${where}.content: null without tool_calls`,
        );
        break;
      }
      case "tool": {
        found.keys(fields, ["role", "content", "tool_call_id"], where);
        found.check(isText(fields.content), `${where}.content: not a text`);
        const at = open.indexOf(fields.tool_call_id);
        found.check(at >= 0, `${where}: 'tool' must be a response to a preceding message with 'tool_calls'`);
        if (at >= 0) open.splice(at, 1);
        break;
      }
      default:
        found.check(false, `${where}.role: '${fields.role}'`);
    }
  }
  found.check(open.length === 0, `the last 'tool_calls' are not answered: ${open.join(", ")}`);
}

/** What the Chat Completions API would say of a request; empty when it would take it. */
export function openAiProblems(request: ProviderRequest, rules: OpenAiRules): readonly string[] {
  const found = new Findings();
  const { body } = request;
  checkHeaders(found, request);
  found.check(request.path === rules.path, `path ${request.path}`);
  const known = [
    "model",
    "messages",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "max_tokens",
    "max_completion_tokens",
    "temperature",
    "top_p",
    "stop",
    "seed",
    "reasoning_effort",
    "verbosity",
    "service_tier",
    "prompt_cache_key",
    "response_format",
    "stream",
    "stream_options",
  ];
  found.keys(body, known.filter((key) => !rules.unknown.includes(key)), "body");
  found.check(isFilled(body.model), "you must provide a model parameter");
  const bounds = ["max_tokens", "max_completion_tokens"].filter((key) => body[key] !== undefined);
  found.check(bounds.length < 2, "Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported.");
  for (const key of bounds) found.check(isCount(body[key], 1), `${key}: not a count`);
  if (rules.dialect === "openai") {
    found.check(
      body.max_tokens === undefined,
      "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
    );
  }
  found.check(
    body.prompt_cache_key === undefined || (isText(body.prompt_cache_key) && body.prompt_cache_key.length <= 64),
    "prompt_cache_key: at most 64 characters",
  );
  found.check(
    body.stream_options === undefined || body.stream === true,
    "The 'stream_options' parameter is only allowed when 'stream' is enabled.",
  );
  if (found.check(Array.isArray(body.messages) && body.messages.length > 0, "messages: empty")) {
    openAiMessages(found, body.messages as unknown[], rules);
  }
  if (body.tools !== undefined) {
    if (found.check(Array.isArray(body.tools) && body.tools.length > 0, "tools: empty")) {
      const names = new Set<unknown>();
      for (const [index, tool] of (body.tools as unknown[]).entries()) {
        const fields = isJsonObject(tool) ? tool : {};
        const target = isJsonObject(fields.function) ? fields.function : {};
        found.keys(fields, ["type", "function"], `tools.${index}`);
        found.keys(target, ["name", "description", "parameters"], `tools.${index}.function`);
        found.check(fields.type === "function", `tools.${index}.type: must be 'function'`);
        found.check(isText(target.name) && TOOL_NAME.test(target.name), `tools.${index}.function.name: invalid`);
        found.check(!names.has(target.name), `tools.${index}.function.name: used twice`);
        names.add(target.name);
        found.check(
          isJsonObject(target.parameters) && target.parameters.type === "object",
          `tools.${index}.function.parameters: schema must be of type 'object'`,
        );
      }
    }
  }
  found.check(body.parallel_tool_calls === undefined || body.tools !== undefined, "parallel_tool_calls without tools");
  return found.list;
}
