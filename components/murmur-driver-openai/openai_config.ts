/**
 * Configuration of the OpenAI driver, `inference.driver.config`. `docs/drivers.md` describes every key.
 *
 * @module
 */
import { ConfigReader, type ExchangeConfig, exchangeConfig } from "../driver_support/config_reader.ts";
import type { JsonObject } from "../driver_support/json_value.ts";

/** Names of the member that bounds the answer. */
export type MaxTokensField = "max_completion_tokens" | "max_tokens";

export interface OpenAiConfig extends ExchangeConfig {
  /** Path below the endpoint, with its query; `undefined`: `chat/completions` below the version. */
  readonly path: string | undefined;
  readonly stream: boolean;
  /** Whether a streamed answer is asked to end with its usage. */
  readonly streamUsage: boolean;
  /** `undefined`: by the model's name. */
  readonly maxTokensField: MaxTokensField | undefined;
  /** `undefined`: by the model's name. */
  readonly promptCacheKey: boolean | undefined;
  readonly systemRole: "system" | "developer";
  /** Which turns' `reasoning_content` goes back to the provider. */
  readonly replayReasoning: "never" | "tool-turns" | "always";
  readonly temperature: number | undefined;
  readonly topP: number | undefined;
  readonly stop: readonly string[] | undefined;
  readonly seed: number | undefined;
  readonly reasoningEffort: string | undefined;
  readonly verbosity: string | undefined;
  readonly parallelToolCalls: boolean | undefined;
  readonly serviceTier: string | undefined;
}

/**
 * Reads the configuration.
 *
 * @param json `MURMUR_INFERENCE_DRIVER_CONFIG`.
 * @throws {ConfigError}
 */
export function openAiConfig(json: string | undefined): OpenAiConfig {
  const reader = new ConfigReader(json);
  const config: OpenAiConfig = {
    ...exchangeConfig(reader),
    path: reader.text("path"),
    stream: reader.boolean("stream") ?? true,
    streamUsage: reader.boolean("stream_usage") ?? true,
    maxTokensField: reader.oneOf("max_tokens_field", ["max_completion_tokens", "max_tokens"]),
    promptCacheKey: reader.boolean("prompt_cache_key"),
    systemRole: reader.oneOf("system_role", ["system", "developer"]) ?? "system",
    replayReasoning: reader.oneOf("replay_reasoning", ["never", "tool-turns", "always"]) ?? "tool-turns",
    temperature: reader.number("temperature", 0, 2),
    topP: reader.number("top_p", 0, 1),
    stop: reader.texts("stop"),
    seed: reader.integer("seed", -Number.MAX_SAFE_INTEGER, Number.MAX_SAFE_INTEGER),
    reasoningEffort: reader.text("reasoning_effort"),
    verbosity: reader.text("verbosity"),
    parallelToolCalls: reader.boolean("parallel_tool_calls"),
    serviceTier: reader.text("service_tier"),
  };
  reader.finish();
  return config;
}

/** What the request is built with once the model is known. */
export interface ModelDialect {
  readonly maxTokensField: MaxTokensField;
  readonly promptCacheKey: boolean;
}

/**
 * What to write for a model when the configuration does not say. Models of OpenAI refuse `max_tokens`, other servers may
 * pass over `max_completion_tokens` in silence, and the answer would have no bound.
 */
export function modelDialect(
  model: string,
  config: Pick<OpenAiConfig, "maxTokensField" | "promptCacheKey">,
): ModelDialect {
  const name = model.replace(/^.*\//, "");
  const openAi = /^(gpt-(?!oss)|chatgpt-|o\d)/i.test(name);
  return {
    maxTokensField: config.maxTokensField ?? (openAi ? "max_completion_tokens" : "max_tokens"),
    promptCacheKey: config.promptCacheKey ?? openAi,
  };
}

/** Members of a request that the driver adds of itself and can do without. */
export type OptionalMember = "stream_options" | "prompt_cache_key";

/**
 * A request without, or with another spelling of, a member the server does not know; `null` when its refusal names none.
 *
 * @param message The provider's words.
 * @param tried Members revised already; each is revised once.
 */
export function revisedBody(message: string, body: JsonObject, tried: Set<string>): JsonObject | null {
  if (
    !/unsupported|not supported|unknown|unrecogni[sz]ed|unexpected|extra|not permitted|forbidden|additional/i
      .test(message)
  ) {
    return null;
  }
  const members = ["stream_options", "prompt_cache_key", "max_completion_tokens", "max_tokens"];
  const named = members.find((member) =>
    member in body && !tried.has(member) && new RegExp(`(^|[^A-Za-z_])${member}([^A-Za-z_]|$)`).test(message)
  );
  if (named === undefined) return null;
  tried.add(named);
  const { [named]: value, ...rest } = body;
  switch (named) {
    case "max_completion_tokens":
      if (tried.has("max_tokens")) return null;
      return { ...rest, max_tokens: value };
    case "max_tokens":
      if (tried.has("max_completion_tokens")) return null;
      return { ...rest, max_completion_tokens: value };
    default:
      return rest;
  }
}
