/**
 * Reading `inference.driver.config`: typed, with an error that names the key, and no unknown key passed over in silence.
 *
 * @module
 */
import { isObject, type JsonObject, parsed } from "./json_value.ts";

/** A driver's configuration that cannot be used. */
export class ConfigError extends Error {
  override readonly name = "ConfigError";
}

/** One configuration. Every `take…` marks its key as known. */
export class ConfigReader {
  readonly #values: JsonObject;
  readonly #known = new Set<string>();

  /** @param json Value of `MURMUR_INFERENCE_DRIVER_CONFIG`, `undefined` when it is not set. */
  constructor(json: string | undefined) {
    const value = json === undefined || json === "" ? {} : parsed(json);
    if (!isObject(value)) throw new ConfigError("inference.driver.config is not a mapping");
    this.#values = value;
  }

  #take(key: string): unknown {
    this.#known.add(key);
    return this.#values[key] ?? undefined;
  }

  #refuse(key: string, expected: string): never {
    throw new ConfigError(`inference.driver.config.${key} must be ${expected}`);
  }

  boolean(key: string): boolean | undefined {
    const value = this.#take(key);
    return value === undefined || typeof value === "boolean" ? value : this.#refuse(key, "true or false");
  }

  text(key: string): string | undefined {
    const value = this.#take(key);
    if (value === undefined) return undefined;
    return typeof value === "string" && value !== "" ? value : this.#refuse(key, "a text");
  }

  oneOf<const T extends string>(key: string, words: readonly T[]): T | undefined {
    const value = this.#take(key);
    if (value === undefined) return undefined;
    return words.find((word) => word === value) ?? this.#refuse(key, `one of ${words.join(", ")}`);
  }

  number(key: string, least: number, most: number): number | undefined {
    const value = this.#take(key);
    if (value === undefined) return undefined;
    return typeof value === "number" && value >= least && value <= most
      ? value
      : this.#refuse(key, `a number from ${least} to ${most}`);
  }

  integer(key: string, least: number, most: number): number | undefined {
    const value = this.number(key, least, most);
    return value === undefined || Number.isInteger(value) ? value : this.#refuse(key, "a whole number");
  }

  mapping(key: string): JsonObject | undefined {
    const value = this.#take(key);
    return value === undefined || isObject(value) ? value : this.#refuse(key, "a mapping");
  }

  texts(key: string): readonly string[] | undefined {
    const value = this.#take(key);
    if (value === undefined) return undefined;
    return Array.isArray(value) && value.every((item) => typeof item === "string")
      ? value
      : this.#refuse(key, "a list of texts");
  }

  /** Header names to values. */
  headers(key: string): Readonly<Record<string, string>> | undefined {
    const value = this.mapping(key);
    if (value === undefined) return undefined;
    const fields = Object.entries(value).map(([name, text]) => {
      if (typeof text !== "string") this.#refuse(`${key}.${name}`, "a text");
      return [name.toLowerCase(), text] as const;
    });
    return Object.fromEntries(fields);
  }

  /** @throws {ConfigError} when a key was written that nobody read. */
  finish(): void {
    const unknown = Object.keys(this.#values).filter((key) => !this.#known.has(key));
    if (unknown.length === 0) return;
    throw new ConfigError(
      `inference.driver.config has no key ${unknown.map((key) => `'${key}'`).join(", ")}; it knows ` +
        [...this.#known].sort().join(", "),
    );
  }
}

/** Settings both drivers have. */
export interface ExchangeConfig {
  /** Further tries after a failure that may pass. */
  readonly maxRetries: number;
  /** Longest wait before a try, also when the provider asks for more. */
  readonly maxRetryDelayMs: number;
  /** Longest silence of the provider before the try counts as failed. */
  readonly idleTimeoutMs: number;
  /** Sent with every request. */
  readonly headers: Readonly<Record<string, string>>;
  /** Members added to, or put in place of, those of the request. */
  readonly extraBody: JsonObject;
}

/** Reads them. */
export function exchangeConfig(reader: ConfigReader): ExchangeConfig {
  return {
    maxRetries: reader.integer("max_retries", 0, 20) ?? 4,
    maxRetryDelayMs: (reader.number("max_retry_delay_seconds", 0, 600) ?? 60) * 1000,
    idleTimeoutMs: (reader.number("idle_timeout_seconds", 1, 3600) ?? 300) * 1000,
    headers: reader.headers("headers") ?? {},
    extraBody: reader.mapping("extra_body") ?? {},
  };
}
