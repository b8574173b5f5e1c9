/**
 * An answer of the Chat Completions API, whole or chunk by chunk, from OpenAI or a server that speaks its format more or
 * less. Pure.
 *
 * @module
 */
import type { AssistantBlock, DriverResponse, Usage } from "murmur/driver";
import { countAt, defined, isObject, type JsonObject, objectAt, parsed, textAt } from "../driver_support/json_value.ts";
import { brokenOff, ProviderError, streamError } from "../driver_support/provider_exchange.ts";
import type { ToolNames } from "../driver_support/tool_names.ts";
import { REASONING_BLOCK } from "./chat_request.ts";

/** What a chunk gives to show. */
export interface ShownDelta {
  readonly kind: "text" | "thinking";
  readonly text: string;
}

interface OpenCall {
  id: string;
  name: string;
  arguments: string;
  /** Further members of the call, which go back with it. */
  provider: Record<string, unknown>;
}

function usageOf(value: unknown): Usage | null {
  if (!isObject(value)) return null;
  const details = objectAt(value, "prompt_tokens_details");
  const cached = countAt(details, "cached_tokens") ?? countAt(value, "prompt_cache_hit_tokens");
  const written = countAt(details, "cache_write_tokens");
  const prompt = countAt(value, "prompt_tokens");
  return defined({
    // The API counts cached tokens inside the prompt; here they stand beside it.
    input_tokens: prompt === undefined ? undefined : Math.max(0, prompt - (cached ?? 0) - (written ?? 0)),
    output_tokens: countAt(value, "completion_tokens"),
    cached_tokens: cached,
    cache_write_tokens: written,
  });
}

/** Text of a `content`, which some servers send as a list of parts, thinking among them. */
function contentDeltas(content: unknown): readonly ShownDelta[] {
  if (typeof content === "string") return [{ kind: "text", text: content }];
  if (!Array.isArray(content)) return [];
  return content.flatMap((part): readonly ShownDelta[] => {
    if (textAt(part, "type") === "thinking") {
      const thoughts = isObject(part) ? part.thinking : undefined;
      const texts = Array.isArray(thoughts)
        ? thoughts.map((thought) => textAt(thought, "text"))
        : [textAt(part, "thinking")];
      return [{ kind: "thinking", text: texts.join("") }];
    }
    return [{ kind: "text", text: textAt(part, "text") }];
  });
}

/** An id in the form every server takes, also those that demand nine letters and digits. */
export function madeCallId(random: () => number): string {
  const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
  return Array.from({ length: 9 }, () => letters[Math.floor(random() * letters.length)]).join("");
}

/** Gathers an answer. */
export class ChatAnswer {
  readonly #random: () => number;
  #text = "";
  #thoughts = "";
  #thoughtMember = "reasoning_content";
  readonly #calls: OpenCall[] = [];
  /** Calls by the index of their chunks. */
  readonly #byIndex = new Map<number, OpenCall>();
  #finishReason: string | null = null;
  #usage: Usage = {};
  #done = false;

  constructor(random: () => number) {
    this.#random = random;
  }

  /** Takes the data of one event. @throws {ProviderError} */
  take(data: string): readonly ShownDelta[] {
    if (data.trim() === "[DONE]") {
      this.#done = true;
      return [];
    }
    const chunk = parsed(data);
    if (!isObject(chunk)) throw brokenOff("a chunk is not JSON");
    if (chunk.error !== undefined && chunk.error !== null) throw streamError(chunk);
    this.#usage = usageOf(chunk.usage) ?? this.#usage;
    const choice = Array.isArray(chunk.choices) ? chunk.choices.find(isFirstChoice) : undefined;
    if (choice === undefined) return [];
    if (choice.error !== undefined && choice.error !== null) throw streamError(choice);
    if (typeof choice.finish_reason === "string") this.#finishReason = choice.finish_reason;
    return this.#add(objectAt(choice, "delta"));
  }

  /** Takes a whole answer. @throws {ProviderError} */
  takeWhole(text: string): readonly ShownDelta[] {
    const body = parsed(text);
    if (!isObject(body)) throw brokenOff("the answer is not JSON");
    if (body.error !== undefined && body.error !== null) throw streamError(body);
    const choice = Array.isArray(body.choices) ? body.choices.find(isFirstChoice) : undefined;
    if (choice === undefined) throw brokenOff("the answer has no choice");
    this.#usage = usageOf(body.usage) ?? this.#usage;
    this.#finishReason = textAt(choice, "finish_reason");
    this.#done = true;
    return this.#add(objectAt(choice, "message"));
  }

  #add(delta: JsonObject): readonly ShownDelta[] {
    const shown: ShownDelta[] = [];
    for (const member of ["reasoning_content", "reasoning"]) {
      const thought = textAt(delta, member);
      if (thought === "") continue;
      if (this.#thoughts === "") this.#thoughtMember = member;
      // A server that sends both members says the same in them.
      if (member !== this.#thoughtMember) continue;
      this.#thoughts += thought;
      shown.push({ kind: "thinking", text: thought });
    }
    for (const piece of [...contentDeltas(delta.content), ...contentDeltas(delta.refusal)]) {
      if (piece.kind === "text") this.#text += piece.text;
      shown.push(piece);
    }
    const calls = Array.isArray(delta.tool_calls) ? delta.tool_calls.filter(isObject) : [];
    for (const [position, call] of calls.entries()) this.#addCall(call, countAt(call, "index") ?? position);
    return shown;
  }

  #addCall(delta: JsonObject, index: number): void {
    const { index: _, id: _id, type: _type, function: _function, ...provider } = delta;
    const id = textAt(delta, "id");
    const piece = objectAt(delta, "function");
    const name = textAt(piece, "name");
    let call = this.#byIndex.get(index);
    // Servers that number every call 0 tell a new one by its id.
    if (call === undefined || (id !== "" && call.id !== "" && id !== call.id)) {
      call = { id, name: "", arguments: "", provider: {} };
      this.#byIndex.set(index, call);
      this.#calls.push(call);
    }
    if (call.id === "") call.id = id;
    // The name comes whole; some servers repeat it with every piece.
    if (call.name === "") call.name = name;
    const pieces = piece.arguments;
    if (typeof pieces === "string") call.arguments += pieces;
    else if (isObject(pieces)) call.arguments = JSON.stringify(pieces);
    Object.assign(call.provider, provider);
  }

  /** The answer as the runtime takes it. @throws {ProviderError} when it ended too early or a call can't be read. */
  finish(names: ToolNames): DriverResponse {
    if (this.#finishReason === null && !this.#done) throw brokenOff("the stream ended before the message did");
    const usage = this.#usage;
    const content: AssistantBlock[] = [];
    if (this.#thoughts !== "") {
      content.push({ type: REASONING_BLOCK, member: this.#thoughtMember, text: this.#thoughts });
    }
    if (this.#text !== "") content.push({ type: "text", text: this.#text });
    const failed = (error: string): DriverResponse => ({ stop_reason: "error", content, usage, error });
    switch (this.#finishReason) {
      case "length":
        // A call in a cut answer is not run, so it must not stay in the history without its result either.
        return { stop_reason: "max_tokens", content, usage };
      case "content_filter":
        return failed("the provider withheld its answer (content_filter)");
      case "error":
      case "insufficient_system_resource":
        throw new ProviderError(`the provider broke off its answer: ${this.#finishReason}`, null, "server_error", {
          kind: "stream-error",
          errorType: "server_error",
        });
    }
    // What decides is whether there are calls: servers end with `stop`, `tool_calls` or nothing at all.
    if (this.#calls.length > 0) {
      return { stop_reason: "tool_call", content: [...content, ...this.#callBlocks(names)], usage };
    }
    if (this.#text === "" && (this.#finishReason === "tool_calls" || this.#finishReason === "function_call")) {
      throw brokenOff("it ends in a tool call and holds none");
    }
    return { stop_reason: "end_turn", content, usage };
  }

  #callBlocks(names: ToolNames): readonly AssistantBlock[] {
    const ids = new Set<string>();
    return this.#calls.map((call): AssistantBlock => {
      const text = call.arguments.trim();
      const input = text === "" ? {} : parsed(text);
      if (call.name === "") throw brokenOff("a tool call has no name");
      if (!isObject(input)) throw brokenOff(`the arguments of ${call.name} are not a JSON object`);
      let id = call.id;
      while (id === "" || ids.has(id)) id = madeCallId(this.#random);
      ids.add(id);
      return {
        type: "tool_call",
        id,
        name: names.own(call.name),
        input,
        ...(Object.keys(call.provider).length === 0 ? {} : { provider: call.provider }),
      };
    });
  }
}

function isFirstChoice(choice: unknown): choice is JsonObject {
  return isObject(choice) && (countAt(choice, "index") ?? 0) === 0;
}
