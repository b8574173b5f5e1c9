/**
 * Configuration of the Anthropic driver, `inference.driver.config`. `docs/drivers.md` describes every key.
 *
 * @module
 */
import { ConfigReader, type ExchangeConfig, exchangeConfig } from "../driver_support/config_reader.ts";
import type { JsonObject } from "../driver_support/json_value.ts";

export interface AnthropicConfig extends ExchangeConfig {
  /** Value of the `anthropic-version` header. */
  readonly apiVersion: string;
  /** Values of the `anthropic-beta` header. */
  readonly beta: readonly string[];
  readonly stream: boolean;
  readonly promptCaching: boolean;
  readonly cacheTtl: "5m" | "1h" | undefined;
  /** Sent as `thinking`, unchanged. */
  readonly thinking: JsonObject | undefined;
  /** Sent as `output_config.effort`. */
  readonly effort: string | undefined;
  readonly temperature: number | undefined;
  readonly topP: number | undefined;
  readonly topK: number | undefined;
  readonly stopSequences: readonly string[] | undefined;
  /** Sent as `tool_choice`, unchanged, when there are tools. */
  readonly toolChoice: JsonObject | undefined;
  readonly serviceTier: string | undefined;
}

/**
 * Reads the configuration.
 *
 * @param json `MURMUR_INFERENCE_DRIVER_CONFIG`.
 * @throws {ConfigError}
 */
export function anthropicConfig(json: string | undefined): AnthropicConfig {
  const reader = new ConfigReader(json);
  const config: AnthropicConfig = {
    ...exchangeConfig(reader),
    // The version every model and every compatible server takes.
    apiVersion: reader.text("api_version") ?? "2023-06-01",
    beta: reader.texts("beta") ?? [],
    stream: reader.boolean("stream") ?? true,
    promptCaching: reader.boolean("prompt_caching") ?? true,
    cacheTtl: reader.oneOf("cache_ttl", ["5m", "1h"]),
    thinking: reader.mapping("thinking"),
    effort: reader.text("effort"),
    temperature: reader.number("temperature", 0, 1),
    topP: reader.number("top_p", 0, 1),
    topK: reader.integer("top_k", 0, 1_000_000),
    stopSequences: reader.texts("stop_sequences"),
    toolChoice: reader.mapping("tool_choice"),
    serviceTier: reader.text("service_tier"),
  };
  reader.finish();
  return config;
}
