/**
 * The script a capsule's `driver.config` holds: its shape, checked, with errors that name the member.
 *
 * @module
 */
import type { Usage } from "murmur/driver";

/** A tool call of a turn. */
export interface ScriptedCall {
  readonly name: string;
  readonly input: unknown;
  readonly id: string | null;
}

/** One answer of the driver. */
export interface ScriptedTurn {
  readonly text: string | null;
  readonly thinking: readonly string[];
  /** `null`: the text in one piece. */
  readonly chunks: readonly string[] | null;
  readonly toolCalls: readonly ScriptedCall[];
  readonly usage: Usage | null;
  readonly stopReason: "end_turn" | "tool_call" | "max_tokens" | "error" | null;
  readonly error: string | null;
  readonly delayMs: number;
  readonly chunkDelayMs: number;
  readonly continuationId: string | null;
}

/** Turns for user messages that contain `when`; `null` fits every message. */
export interface Script {
  readonly when: string | null;
  readonly turns: readonly ScriptedTurn[];
}

type Members = Readonly<Record<string, unknown>>;

/** A script that cannot be played. */
export class ScriptError extends Error {
  override readonly name = "ScriptError";
}

function members(value: unknown, path: string, known: readonly string[]): Members {
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw new ScriptError(`${path} must be a mapping`);
  }
  for (const key of Object.keys(value)) {
    if (!known.includes(key)) throw new ScriptError(`${path}.${key} is not known; there are ${known.join(", ")}`);
  }
  return value as Members;
}

function text(value: unknown, path: string): string {
  if (typeof value !== "string") throw new ScriptError(`${path} must be text`);
  return value;
}

function list(value: unknown, path: string): readonly unknown[] {
  if (!Array.isArray(value)) throw new ScriptError(`${path} must be a list`);
  return value;
}

function texts(value: unknown, path: string): string[] {
  return list(value, path).map((item, index) => text(item, `${path}[${index}]`));
}

function count(value: unknown, path: string): number {
  if (typeof value !== "number" || !Number.isFinite(value) || value < 0) {
    throw new ScriptError(`${path} must be a number of at least 0`);
  }
  return value;
}

function optional<T>(value: unknown, path: string, read: (value: unknown, path: string) => T): T | null {
  return value === undefined || value === null ? null : read(value, path);
}

const TURN_KEYS = [
  "text",
  "thinking",
  "chunks",
  "tool_calls",
  "usage",
  "stop_reason",
  "error",
  "delay_ms",
  "chunk_delay_ms",
  "continuation_id",
];
const USAGE_KEYS = ["input_tokens", "output_tokens", "cached_tokens", "cache_write_tokens"];
const STOP_REASONS = ["end_turn", "tool_call", "max_tokens", "error"] as const;

function call(value: unknown, path: string): ScriptedCall {
  const at = members(value, path, ["name", "input", "id"]);
  return {
    name: text(at["name"], `${path}.name`),
    input: at["input"] ?? {},
    id: optional(at["id"], `${path}.id`, text),
  };
}

function usage(value: unknown, path: string): Usage {
  const at = members(value, path, USAGE_KEYS);
  return Object.fromEntries(Object.entries(at).map(([key, item]) => [key, count(item, `${path}.${key}`)]));
}

function stopReason(value: unknown, path: string): typeof STOP_REASONS[number] {
  const found = STOP_REASONS.find((reason) => reason === value);
  if (found === undefined) throw new ScriptError(`${path} must be one of ${STOP_REASONS.join(", ")}`);
  return found;
}

function turn(value: unknown, path: string): ScriptedTurn {
  const at = members(value, path, TURN_KEYS);
  return {
    text: optional(at["text"], `${path}.text`, text),
    thinking: optional(at["thinking"], `${path}.thinking`, texts) ?? [],
    chunks: optional(at["chunks"], `${path}.chunks`, texts),
    toolCalls: (optional(at["tool_calls"], `${path}.tool_calls`, list) ?? [])
      .map((item, index) => call(item, `${path}.tool_calls[${index}]`)),
    usage: optional(at["usage"], `${path}.usage`, usage),
    stopReason: optional(at["stop_reason"], `${path}.stop_reason`, stopReason),
    error: optional(at["error"], `${path}.error`, text),
    delayMs: optional(at["delay_ms"], `${path}.delay_ms`, count) ?? 0,
    chunkDelayMs: optional(at["chunk_delay_ms"], `${path}.chunk_delay_ms`, count) ?? 0,
    continuationId: optional(at["continuation_id"], `${path}.continuation_id`, text),
  };
}

function turns(value: unknown, path: string): ScriptedTurn[] {
  const found = list(value, path).map((item, index) => turn(item, `${path}[${index}]`));
  if (found.length === 0) throw new ScriptError(`${path} is empty`);
  return found;
}

/**
 * Reads a configuration: `turns`, or `scripts`.
 *
 * @throws {ScriptError} Naming the member that is wrong.
 */
export function readScripts(config: unknown): Script[] {
  const at = members(config ?? {}, "config", ["turns", "scripts"]);
  if ((at["turns"] === undefined) === (at["scripts"] === undefined)) {
    throw new ScriptError("config needs either turns or scripts");
  }
  if (at["turns"] !== undefined) return [{ when: null, turns: turns(at["turns"], "config.turns") }];
  return list(at["scripts"], "config.scripts").map((item, index) => {
    const path = `config.scripts[${index}]`;
    const script = members(item, path, ["when", "turns"]);
    return { when: optional(script["when"], `${path}.when`, text), turns: turns(script["turns"], `${path}.turns`) };
  });
}
