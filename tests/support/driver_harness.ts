/**
 * Runs a driver's inference against a {@linkcode startProviderServer} in this process: what the gateway does to a request
 * (drop the driver's own credential, attach the key) is done here, waits are noted instead of slept.
 *
 * @module
 */
import type { DriverContext, DriverRequest, DriverResponse, Message, ToolDefinition } from "../../guest/driver.ts";
import type { World } from "../../components/driver_support/provider_exchange.ts";

/** What a driver showed, in order. */
export interface ShownChunks {
  readonly chunks: { readonly kind: "text" | "thinking"; readonly text: string }[];
  /** All text chunks joined. */
  text(): string;
  thinking(): string;
  readonly context: DriverContext;
}

/** A context that keeps what is shown. */
export function shownChunks(): ShownChunks {
  const chunks: ShownChunks["chunks"] = [];
  const joined = (kind: "text" | "thinking") =>
    chunks.filter((chunk) => chunk.kind === kind).map((chunk) => chunk.text).join("");
  return {
    chunks,
    text: () => joined("text"),
    thinking: () => joined("thinking"),
    context: {
      emitChunk: (text) => void chunks.push({ kind: "text", text }),
      emitThinkingChunk: (text) => void chunks.push({ kind: "thinking", text }),
    },
  };
}

/** A world whose waits take no time. */
export interface NotedWorld extends World {
  readonly waits: number[];
  readonly lines: string[];
}

/**
 * The world as a driver behind a gateway has it.
 *
 * @param key Header and value the gateway attaches, `null`: keyless.
 * @param random Dice; the middle of every wait when not given.
 */
export function notedWorld(key: readonly [string, string] | null, random: () => number = () => 0.5): NotedWorld {
  const waits: number[] = [];
  const lines: string[] = [];
  return {
    waits,
    lines,
    fetch(url, init) {
      const headers = new Headers(init.headers);
      if (key !== null) headers.set(key[0], key[1]);
      headers.set("accept-encoding", "identity");
      return fetch(url, { ...init, headers });
    },
    sleep(milliseconds) {
      waits.push(milliseconds);
      return Promise.resolve();
    },
    now: () => Date.now(),
    random,
    log: (line) => void lines.push(line),
  };
}

/** A request with one user message, and whatever is given. */
export function driverRequest(more: Partial<DriverRequest> = {}): DriverRequest {
  return {
    model: "model-1",
    max_tokens: 1000,
    messages: [userSays("Count the files")],
    tools: [],
    params: {},
    system: "[Capsule]\nName: demo",
    prompt_cache_key: "demo:0.1.0:ctx_01",
    ...more,
  };
}

/** A user message. */
export function userSays(text: string): Message {
  return { role: "user", content: [{ type: "text", text }] };
}

/** A tool message. */
export function toolSays(callId: string, text: string, isError = false): Message {
  return { role: "tool", tool_call_id: callId, is_error: isError, content: [{ type: "text", text }] };
}

/** A tool with one required text argument. */
export function toolNamed(name: string): ToolDefinition {
  return {
    name,
    description: `Does ${name}`,
    parameters: { type: "object", properties: { path: { type: "string" } }, required: ["path"] },
  };
}

/** The tool calls of an answer, with every member they have. */
export function callsOf(response: DriverResponse): readonly Readonly<Record<string, unknown>>[] {
  return response.content.filter((block) => block.type === "tool_call").map((block) => ({ ...block }));
}

/** The history after an answer and the results of its calls. */
export function answeredHistory(
  messages: readonly Message[],
  response: DriverResponse,
  results: readonly string[] = [],
): Message[] {
  const ids = callsOf(response).map((call) => String(call.id));
  return [
    ...messages,
    { role: "assistant", content: response.content },
    ...ids.map((id, index) => toolSays(id, results[index] ?? "", false)),
  ];
}
