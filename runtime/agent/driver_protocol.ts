/**
 * The JSON an HTTP driver is handed and the JSON it answers with (spec components 6.1, 6.3, 6.4, session 9.3). Pure: who
 * runs the driver and what follows from an answer is the turn loop's business.
 *
 * @module
 */
import { isJsonObject, type JsonObject } from "../../base/json_value.ts";
import type { ToolResult } from "../component/component_runtime.ts";
import type { InferenceDecision, InferenceErrorCode, TaskFailureCause } from "../trace/trace_event.ts";
import { type ContentBlock, type Message, textOf, type ToolCall, toolCallsOf, wireJson } from "./message.ts";

/** `inference.max_tokens` when the manifest names none, and what a hook's inference always asks for. */
export const DEFAULT_MAX_TOKENS = 8_192;

/** Deepest nesting of a driver's answer. Real ones have a few levels; what walks them recurses. */
export const ANSWER_DEPTH = 256;

/** One tool as the model is offered it. */
export interface ToolDescription {
  readonly name: string;
  readonly parameters: JsonObject;
  readonly description?: string;
}

/** A request before it is JSON. */
export interface DriverRequest {
  readonly model: string;
  readonly maxTokens: number;
  /** The whole history. */
  readonly messages: readonly Message[];
  readonly tools: readonly ToolDescription[];
  readonly system: string;
  readonly promptCacheKey: string;
  /** From `continuationUse`. */
  readonly continuationId: string | null;
  /** First message to send; the driver has those before it. */
  readonly sendFrom: number;
}

/** A request as it goes to the driver, with the parts that are hashed and counted on their own. */
export interface DriverPayload {
  /** `data` of the tool input. */
  readonly json: string;
  readonly sent: readonly Message[];
  readonly sentJsons: readonly string[];
  readonly toolsJson: string;
  /** The request without messages, tools and system: what else is counted. */
  readonly rest: JsonObject;
}

/** `<capsule>:<version>:<context id>`, without a context `<capsule>:<version>`; constant over a task. */
export function promptCacheKey(capsule: string, version: string, contextId: string | null): string {
  return contextId === null ? `${capsule}:${version}` : `${capsule}:${version}:${contextId}`;
}

/** Builds the request JSON, in the key order of spec components 6.1. */
export function buildDriverPayload(request: DriverRequest): DriverPayload {
  const sent = request.messages.slice(request.sendFrom);
  const sentJsons = sent.map(wireJson);
  const toolsJson = JSON.stringify(request.tools);
  const members = [
    `"model":${JSON.stringify(request.model)}`,
    `"max_tokens":${request.maxTokens}`,
    `"messages":[${sentJsons.join(",")}]`,
    `"tools":${toolsJson}`,
    `"params":{}`,
    `"system":${JSON.stringify(request.system)}`,
    `"prompt_cache_key":${JSON.stringify(request.promptCacheKey)}`,
  ];
  if (request.continuationId !== null) members.push(`"continuation_id":${JSON.stringify(request.continuationId)}`);
  return {
    json: `{${members.join(",")}}`,
    sent,
    sentJsons,
    toolsJson,
    rest: {
      model: request.model,
      max_tokens: request.maxTokens,
      params: {},
      prompt_cache_key: request.promptCacheKey,
      ...(request.continuationId === null ? {} : { continuation_id: request.continuationId }),
    },
  };
}

/** Provider's counts; a member nobody gave is absent, never 0. */
export interface DriverUsage {
  readonly inputTokens?: number;
  readonly outputTokens?: number;
  readonly cachedTokens?: number;
  readonly cacheWriteTokens?: number;
}

/** A failed driver call. */
export interface DriverFailure {
  /** Without the `error: ` that the result file puts before it. */
  readonly message: string;
  readonly cause: TaskFailureCause;
  readonly errorCode: InferenceErrorCode;
}

/** A usable answer; its `stopReason` may still mean that the task fails. */
export interface DriverReply {
  /** The raw body: what is hashed and whose tokens are counted. */
  readonly body: string;
  readonly stopReason: string;
  readonly content: readonly ContentBlock[];
  readonly calls: readonly ToolCall[];
  readonly usage: DriverUsage;
  /** The driver's `error` text when `stopReason` is `error`. */
  readonly error: string | null;
  /** `continuation_id` of the result's metadata; `null` when absent or empty. */
  readonly continuationId: string | null;
}

export type DriverOutcome =
  | { readonly kind: "reply"; readonly reply: DriverReply }
  | { readonly kind: "failure"; readonly failure: DriverFailure };

/** First value of a reserved metadata key; an empty one counts as absent (spec components 8.4). */
export function reservedMetadata(metadata: ToolResult["metadata"], key: string): string | null {
  const found = metadata.find(([name]) => name === key);
  return found === undefined || found[1] === "" ? null : found[1];
}

function failed(message: string, cause: TaskFailureCause, errorCode: InferenceErrorCode): DriverOutcome {
  return { kind: "failure", failure: { message, cause, errorCode } };
}

function unparsable(why: string): DriverOutcome {
  return failed(`failed to parse driver response: ${why}`, "malformed_response", "malformed_response");
}

/** The failure of a call that gave no result: the component could not run, trapped or was stopped. */
export function dispatchFailure(reason: string): DriverFailure {
  return {
    message: `driver invocation failed: ${reason}`,
    cause: "driver_error",
    errorCode: "driver_failed",
  };
}

/** Whether brackets outside strings nest deeper than `limit`. */
export function nestsDeeper(json: string, limit: number): boolean {
  let depth = 0;
  let inString = false;
  for (let i = 0; i < json.length; i++) {
    const code = json.charCodeAt(i);
    if (inString) {
      if (code === 0x5c) i++;
      else if (code === 0x22) inString = false;
    } else if (code === 0x22) inString = true;
    else if (code === 0x7b || code === 0x5b) {
      if (++depth > limit) return true;
    } else if (code === 0x7d || code === 0x5d) depth--;
  }
  return false;
}

/** Reads the result of a driver call. */
export function readDriverResult(result: ToolResult): DriverOutcome {
  const body = result.data ?? result.summary;
  if (result.status !== "passed") {
    return failed(body ?? "driver returned error", "driver_error", "driver_error");
  }
  if (body === null) return failed("driver returned no data", "malformed_response", "malformed_response");
  if (nestsDeeper(body, ANSWER_DEPTH)) return unparsable(`nested deeper than ${ANSWER_DEPTH} levels`);
  let response: unknown;
  try {
    response = JSON.parse(body);
  } catch (cause) {
    return unparsable(cause instanceof Error ? cause.message : String(cause));
  }
  if (!isJsonObject(response)) return unparsable("not a JSON object");
  const stopReason = response.stop_reason ?? "";
  if (typeof stopReason !== "string") return unparsable("'stop_reason' is not a string");
  const content = response.content ?? [];
  if (!Array.isArray(content) || !content.every(isJsonObject)) return unparsable("'content' is not a list of blocks");
  const calls = toolCallsOf(content);
  if (calls.some((call) => call.name === "")) return unparsable("a tool_call block has no name");
  return {
    kind: "reply",
    reply: {
      body,
      stopReason,
      content,
      calls,
      usage: parseUsage(response.usage),
      error: stopReason !== "error"
        ? null
        : typeof response.error === "string"
        ? response.error
        : "driver returned error",
      continuationId: reservedMetadata(result.metadata, "continuation_id"),
    },
  };
}

/** Reads `usage`: a non-object, a bad member or an unknown one is dropped, good siblings are kept. */
export function parseUsage(value: unknown): DriverUsage {
  if (!isJsonObject(value)) return {};
  const count = (key: string): number | undefined => {
    const member = value[key];
    return typeof member === "number" && Number.isSafeInteger(member) && member >= 0 ? member : undefined;
  };
  const members = {
    inputTokens: count("input_tokens"),
    outputTokens: count("output_tokens"),
    cachedTokens: count("cached_tokens"),
    cacheWriteTokens: count("cache_write_tokens"),
  };
  return Object.fromEntries(Object.entries(members).filter(([, member]) => member !== undefined));
}

/** The keys an `inference` line takes from `usage` (spec trace 6.1). */
export function usageKeys(usage: DriverUsage): {
  input_tokens_actual?: number;
  output_tokens_actual?: number;
  cached_tokens?: number;
  cache_write_tokens?: number;
} {
  return {
    ...(usage.inputTokens === undefined ? {} : { input_tokens_actual: usage.inputTokens }),
    ...(usage.outputTokens === undefined ? {} : { output_tokens_actual: usage.outputTokens }),
    ...(usage.cachedTokens === undefined ? {} : { cached_tokens: usage.cachedTokens }),
    ...(usage.cacheWriteTokens === undefined ? {} : { cache_write_tokens: usage.cacheWriteTokens }),
  };
}

/** `decision` of the turn's `inference` line. */
export function decisionOf(reply: DriverReply): InferenceDecision {
  switch (reply.stopReason) {
    case "tool_call":
    case "end_turn":
    case "error":
      return reply.stopReason;
    default:
      return "text";
  }
}

/** What the turn loop does with an answer. */
export type ReplyAction =
  | { readonly kind: "run-tools"; readonly calls: readonly ToolCall[] }
  /** `cut`: the answer ended at `inference.max_tokens` (`W-RUN-001`). */
  | { readonly kind: "finish"; readonly text: string; readonly cut: boolean }
  | { readonly kind: "fail"; readonly failure: DriverFailure };

/** Decides by `stop_reason` (spec components 6.3). */
export function actionOf(reply: DriverReply): ReplyAction {
  switch (reply.stopReason) {
    case "tool_call":
      if (reply.calls.length > 0) return { kind: "run-tools", calls: reply.calls };
      return {
        kind: "fail",
        failure: {
          message: "driver returned stop_reason 'tool_call' without a tool_call block",
          cause: "malformed_response",
          errorCode: "malformed_response",
        },
      };
    case "end_turn":
      return { kind: "finish", text: textOf(reply.content), cut: false };
    case "max_tokens":
      return { kind: "finish", text: textOf(reply.content), cut: true };
    case "error":
      return {
        kind: "fail",
        failure: {
          message: reply.error ?? "driver returned error",
          cause: "driver_error",
          errorCode: "driver_error",
        },
      };
    default:
      return {
        kind: "fail",
        failure: {
          message: `unsupported stop_reason '${reply.stopReason}'`,
          cause: "malformed_response",
          errorCode: "malformed_response",
        },
      };
  }
}
