/**
 * An answer of the Messages API, whole or event by event. Pure.
 *
 * @module
 */
import type { AssistantBlock, DriverResponse, Usage } from "murmur/driver";
import { countAt, defined, isObject, type JsonObject, objectAt, parsed, textAt } from "../driver_support/json_value.ts";
import { brokenOff, streamError } from "../driver_support/provider_exchange.ts";
import type { ToolNames } from "../driver_support/tool_names.ts";

/** An answer as the provider gave it. */
export interface Answer {
  /** Content blocks on the wire, each as the provider would take it back. */
  readonly content: readonly JsonObject[];
  readonly stopReason: string;
  /** `stop_details` of a refusal. */
  readonly stopDetails: JsonObject;
  readonly usage: Usage;
}

/** What one event gives to show. */
export interface ShownDelta {
  readonly kind: "text" | "thinking";
  readonly text: string;
}

function usageOf(value: unknown): Usage {
  return defined({
    input_tokens: countAt(value, "input_tokens"),
    output_tokens: countAt(value, "output_tokens"),
    cached_tokens: countAt(value, "cache_read_input_tokens"),
    cache_write_tokens: countAt(value, "cache_creation_input_tokens"),
  });
}

interface OpenBlock {
  block: Record<string, unknown>;
  /** Pieces of a tool call's input. */
  json: string;
  closed: boolean;
}

/** Gathers a streamed answer. */
export class StreamedAnswer {
  readonly #blocks = new Map<number, OpenBlock>();
  #stopReason = "";
  #stopDetails: JsonObject = {};
  #usage: Usage = {};
  #finished = false;

  /** Takes the data of one event. @throws {ProviderError} for an error event or one that fits nothing. */
  take(data: string): ShownDelta | null {
    const event = parsed(data);
    if (!isObject(event)) throw brokenOff("an event is not JSON");
    switch (event.type) {
      case "message_start":
        this.#usage = usageOf(objectAt(event.message, "usage"));
        return null;
      case "content_block_start":
        return this.#start(event);
      case "content_block_delta":
        return this.#delta(event);
      case "content_block_stop": {
        const open = this.#blocks.get(indexOf(event));
        if (open !== undefined) open.closed = true;
        return null;
      }
      case "message_delta": {
        const delta = objectAt(event, "delta");
        if (typeof delta.stop_reason === "string") this.#stopReason = delta.stop_reason;
        if (isObject(delta.stop_details)) this.#stopDetails = delta.stop_details;
        // The counts are the whole answer's so far; a later one replaces an earlier one.
        this.#usage = { ...this.#usage, ...usageOf(event.usage) };
        return null;
      }
      case "message_stop":
        this.#finished = true;
        return null;
      case "error":
        throw streamError(event);
      default:
        // `ping`, and events that did not exist when this was written.
        return null;
    }
  }

  #start(event: JsonObject): ShownDelta | null {
    const block = { ...objectAt(event, "content_block") };
    this.#blocks.set(indexOf(event), { block, json: "", closed: false });
    return block.type === "text" && textAt(block, "text") !== "" ? { kind: "text", text: textAt(block, "text") } : null;
  }

  #delta(event: JsonObject): ShownDelta | null {
    const open = this.#blocks.get(indexOf(event));
    if (open === undefined) throw brokenOff("a piece belongs to no block");
    const { block } = open;
    const delta = objectAt(event, "delta");
    const append = (key: string): string => {
      const piece = textAt(delta, key);
      block[key] = textAt(block, key) + piece;
      return piece;
    };
    switch (delta.type) {
      case "text_delta":
        return { kind: "text", text: append("text") };
      case "thinking_delta":
        return { kind: "thinking", text: append("thinking") };
      case "signature_delta":
        append("signature");
        return null;
      case "input_json_delta":
        open.json += textAt(delta, "partial_json");
        return null;
      case "citations_delta":
        block.citations = [...(Array.isArray(block.citations) ? block.citations : []), delta.citation];
        return null;
      default:
        return null;
    }
  }

  /** The whole answer. @throws {ProviderError} when the stream ended before it did. */
  finish(): Answer {
    if (!this.#finished && this.#stopReason === "") throw brokenOff("the stream ended before the message did");
    const content: JsonObject[] = [];
    for (const [, open] of [...this.#blocks].sort(([a], [b]) => a - b)) {
      const { block, json } = open;
      if (json !== "") {
        const input = parsed(json);
        // A call that was cut with the answer can't be run; what is cut otherwise never ends in a stop reason.
        if (!isObject(input)) {
          if (this.#stopReason === "tool_use") throw brokenOff(`the input of ${textAt(block, "name")} is not JSON`);
          continue;
        }
        block.input = input;
      } else if (!open.closed && block.type === "tool_use") {
        continue;
      }
      content.push(block);
    }
    return { content, stopReason: this.#stopReason, stopDetails: this.#stopDetails, usage: this.#usage };
  }
}

function indexOf(event: JsonObject): number {
  return countAt(event, "index") ?? 0;
}

/** A whole answer from its JSON. @throws {ProviderError} */
export function wholeAnswer(text: string): Answer {
  const body = parsed(text);
  if (!isObject(body)) throw brokenOff("the answer is not JSON");
  if (body.type === "error") throw streamError(body);
  if (!Array.isArray(body.content)) throw brokenOff("the answer has no content");
  return {
    content: body.content.filter(isObject),
    stopReason: textAt(body, "stop_reason"),
    stopDetails: objectAt(body, "stop_details"),
    usage: usageOf(body.usage),
  };
}

/** Blocks as the runtime keeps them: text and calls in its own form, anything else verbatim. */
export function contentBlocks(content: readonly JsonObject[], names: ToolNames): readonly AssistantBlock[] {
  return content.flatMap((block): AssistantBlock[] => {
    switch (block.type) {
      case "text":
        if (textAt(block, "text") === "") return [];
        return [{
          type: "text",
          text: textAt(block, "text"),
          ...(Array.isArray(block.citations) && block.citations.length > 0 ? { citations: block.citations } : {}),
        }];
      case "tool_use":
        return [{
          type: "tool_call",
          id: textAt(block, "id"),
          name: names.own(textAt(block, "name")),
          input: isObject(block.input) ? block.input : {},
        }];
      default:
        return typeof block.type === "string" ? [{ ...block, type: block.type }] : [];
    }
  });
}

/** Sums of the counts of an answer that came in several parts. */
export function summed(parts: readonly Usage[]): Usage {
  const sum = (key: keyof Usage) => {
    const counts = parts.flatMap((part) => part[key] === undefined ? [] : [part[key]]);
    return counts.length === 0 ? undefined : counts.reduce((total, count) => total + count, 0);
  };
  return defined({
    input_tokens: sum("input_tokens"),
    output_tokens: sum("output_tokens"),
    cached_tokens: sum("cached_tokens"),
    cache_write_tokens: sum("cache_write_tokens"),
  });
}

/** An answer as the runtime takes it. */
export function driverResponse(answer: Answer, names: ToolNames): DriverResponse {
  const content = contentBlocks(answer.content, names);
  const { usage } = answer;
  const failed = (error: string): DriverResponse => ({ stop_reason: "error", content, usage, error });
  switch (answer.stopReason) {
    case "tool_use":
      return { stop_reason: "tool_call", content, usage };
    case "end_turn":
    case "stop_sequence":
      return { stop_reason: "end_turn", content, usage };
    case "max_tokens":
    case "model_context_window_exceeded": {
      // A call in a cut answer is not run, so it must not stay in the history without its result either.
      const kept = content.filter((block) => block.type !== "tool_call");
      if (answer.stopReason === "max_tokens" || kept.some((block) => block.type === "text")) {
        return { stop_reason: "max_tokens", content: kept, usage };
      }
      return failed("the conversation no longer fits the model's context window");
    }
    case "refusal": {
      const category = textAt(answer.stopDetails, "category");
      const explanation = textAt(answer.stopDetails, "explanation");
      return failed(
        `the provider refused to answer${category === "" ? "" : ` (${category})`}${
          explanation === "" ? "" : `: ${explanation}`
        }`,
      );
    }
    default:
      return failed(`the provider ended its answer with the unknown stop reason '${answer.stopReason}'`);
  }
}
