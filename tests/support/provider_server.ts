/**
 * A model provider for tests: a local server over the real wire formats of Anthropic and of OpenAI. It refuses what the
 * real one refuses, checks the key, and plays the answers of a script, streamed in pieces, slowly, or broken off.
 *
 * ```ts
 * await using provider = await startProviderServer({ format: "anthropic", key: "sk-test" });
 * provider.script.push({ text: "Hello" }, { toolCalls: [{ name: "ls", input: {} }] });
 * // gateway: { endpoint: provider.endpoint, api_key: "sk-test" }
 * assert.deepEqual(provider.problems, []);
 * ```
 *
 * @module
 */
import { Buffer } from "node:buffer";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { anthropicProblems, type JsonObject, openAiProblems, type ProviderRequest } from "./provider_check.ts";

/** One scripted tool call. */
export interface ScriptedCall {
  /** Made when absent; `null` leaves it out (OpenAI format). */
  readonly id?: string | null;
  readonly name: string;
  readonly input: JsonObject;
  /** Sent in place of the input's JSON, to play a model that writes none. */
  readonly rawArguments?: string;
}

/** How a reply travels. */
export interface Delivery {
  /** Answers whole although a stream was asked for. */
  readonly whole?: boolean;
  /** Writes of this many bytes, whatever they cut; otherwise one write an event. */
  readonly pieceBytes?: number;
  /** Wait before the head. */
  readonly delayMs?: number;
  /** Wait between writes. */
  readonly pieceDelayMs?: number;
  /** Breaks the connection after this many events. */
  readonly disconnectAfter?: number;
  /** Sends an error event after this many events, then ends. */
  readonly errorAfter?: { readonly events: number; readonly type: string; readonly message: string };
  /** Ends the stream properly after this many events, as if it were the end. */
  readonly truncateAfter?: number;
  /** Sends nothing more after this many events and keeps the connection open. */
  readonly silentAfter?: number;
}

/** An answer of the model. */
export interface ScriptedAnswer extends Delivery {
  readonly thinking?: string;
  /** Anthropic: sent as `redacted_thinking`. */
  readonly redactedThinking?: string;
  readonly text?: string;
  readonly toolCalls?: readonly ScriptedCall[];
  /** The provider's own word; made from the content when absent. */
  readonly stopReason?: string | null;
  readonly stopDetails?: JsonObject;
  /** Anthropic: blocks sent as they are, before the text. */
  readonly blocks?: readonly JsonObject[];
  readonly usage?: {
    readonly input?: number;
    readonly output?: number;
    readonly cached?: number;
    readonly cacheWrite?: number;
  };
}

/** Something other than an answer. */
export type ScriptedReply =
  | ScriptedAnswer
  /** An error as the provider words it, or any body. */
  | {
    readonly status: number;
    readonly type?: string;
    readonly message?: string;
    readonly body?: string;
    readonly headers?: Readonly<Record<string, string>>;
    readonly delayMs?: number;
  }
  /** Closes the connection without an answer. */
  | { readonly disconnect: true };

/** A request as it arrived, with what was wrong about it. */
export interface RecordedRequest extends ProviderRequest {
  readonly problems: readonly string[];
}

export interface ProviderServerOptions {
  readonly format: "anthropic" | "openai";
  /** What the key must be; `null`: none may come. */
  readonly key: string | null;
  /** Path before the API's own, e.g. `/proxy`. */
  readonly basePath?: string;
  /** OpenAI format: whose server this is. */
  readonly dialect?: "openai" | "compatible";
  /** OpenAI format: members of the request this server does not know. */
  readonly unknown?: readonly string[];
  /** OpenAI format: when a stream tells its usage. */
  readonly usage?: "asked" | "always" | "never";
  /** OpenAI format: whether a stream ends with `[DONE]`. */
  readonly done?: boolean;
  /** OpenAI format: member that carries thinking. */
  readonly reasoningMember?: "reasoning_content" | "reasoning";
}

/** A running server. */
export interface ProviderServer extends AsyncDisposable {
  /** For `gateway.endpoint`. */
  readonly endpoint: string;
  readonly port: number;
  /** What is answered next; a function sees the request. Taken from the front. */
  readonly script: (ScriptedReply | ((request: RecordedRequest) => ScriptedReply))[];
  readonly requests: readonly RecordedRequest[];
  /** Everything that was wrong, over all requests. */
  readonly problems: readonly string[];
  /** The key that is right from now on. */
  key: string | null;
  /** Connections the clients closed before their answer was written. */
  readonly abandoned: number;
}

let nextId = 1;
const madeId = (prefix: string) => `${prefix}${String(nextId++).padStart(6, "0")}`;
const wait = (milliseconds: number) => new Promise<void>((resolve) => setTimeout(resolve, milliseconds));
const inPieces = (text: string, size: number): readonly string[] =>
  text.match(new RegExp(`[^]{1,${size}}`, "gu")) ?? [];

/** Starts a provider on a free port of 127.0.0.1. */
export async function startProviderServer(options: ProviderServerOptions): Promise<ProviderServer> {
  const requests: RecordedRequest[] = [];
  const problems: string[] = [];
  const script: ProviderServer["script"] = [];
  const thinking = new Map<string, string>();
  let paused = false;
  let key = options.key;
  let abandoned = 0;
  const basePath = options.basePath ?? "";

  function authProblem(headers: ProviderRequest["headers"]): string | null {
    const sent = options.format === "anthropic" ? headers["x-api-key"] : headers.authorization;
    const other = options.format === "anthropic" ? headers.authorization : headers["x-api-key"];
    if (other !== undefined) return "a second credential came";
    const expected = key === null ? undefined : options.format === "anthropic" ? key : `Bearer ${key}`;
    return sent === expected ? null : "invalid x-api-key";
  }

  function judged(request: ProviderRequest): readonly string[] {
    const path = request.path.startsWith(`${basePath}/`) ? request.path.slice(basePath.length) : request.path;
    const seen = { ...request, path };
    if (options.format === "anthropic") return anthropicProblems(seen, { thinking, paused });
    return openAiProblems(seen, {
      dialect: options.dialect ?? "openai",
      unknown: options.unknown ?? [],
      path: "/v1/chat/completions",
    });
  }

  function errorBody(type: string, message: string): string {
    return JSON.stringify(
      options.format === "anthropic"
        ? { type: "error", error: { type, message }, request_id: "req_test" }
        : { error: { message, type, param: null, code: null } },
    );
  }

  async function answer(request: RecordedRequest, response: ServerResponse): Promise<void> {
    const fail = (status: number, type: string, message: string, headers: Readonly<Record<string, string>> = {}) => {
      response.writeHead(status, { "content-type": "application/json", "request-id": "req_test", ...headers });
      response.end(errorBody(type, message));
    };
    if (authProblem(request.headers) !== null) return fail(401, "authentication_error", "invalid x-api-key");
    if (request.problems.length > 0) return fail(400, "invalid_request_error", request.problems.join("; "));
    const next = script.shift();
    if (next === undefined) {
      problems.push("a request came and the script was at its end");
      return fail(400, "invalid_request_error", "the script of the test is at its end");
    }
    const reply = typeof next === "function" ? next(request) : next;
    if ("disconnect" in reply) return void response.socket?.destroy();
    if (reply.delayMs !== undefined) await wait(reply.delayMs);
    if ("status" in reply) {
      if (reply.body === undefined) {
        return fail(reply.status, reply.type ?? "error", reply.message ?? "", reply.headers);
      }
      response.writeHead(reply.status, { "content-type": "text/plain", ...reply.headers });
      response.end(reply.body);
      return;
    }
    if (options.format === "anthropic") await answerAnthropic(request, reply, response);
    else await answerOpenAi(request, reply, response);
  }

  async function answerAnthropic(request: RecordedRequest, reply: ScriptedAnswer, response: ServerResponse) {
    const blocks: JsonObject[] = [];
    if (reply.thinking !== undefined) {
      const signature = madeId("sig");
      thinking.set(signature, reply.thinking);
      blocks.push({ type: "thinking", thinking: reply.thinking, signature });
    }
    if (reply.redactedThinking !== undefined) blocks.push({ type: "redacted_thinking", data: reply.redactedThinking });
    blocks.push(...reply.blocks ?? []);
    if (reply.text !== undefined) blocks.push({ type: "text", text: reply.text });
    for (const call of reply.toolCalls ?? []) {
      const id = call.id ?? madeId("toolu_");
      blocks.push({ type: "tool_use", id, name: call.name, input: call.input, raw: call.rawArguments });
    }
    const stopReason = reply.stopReason ?? ((reply.toolCalls ?? []).length > 0 ? "tool_use" : "end_turn");
    paused = stopReason === "pause_turn";
    const usage = {
      input_tokens: reply.usage?.input ?? 10,
      cache_creation_input_tokens: reply.usage?.cacheWrite ?? null,
      cache_read_input_tokens: reply.usage?.cached ?? null,
      output_tokens: reply.usage?.output ?? 5,
    };
    const message = { id: madeId("msg_"), type: "message", role: "assistant", model: request.body.model };
    if (request.body.stream !== true || reply.whole === true) {
      response.writeHead(200, { "content-type": "application/json", "request-id": "req_test" });
      const content = blocks.map(({ raw: _, ...block }) => block);
      const stop = { stop_reason: stopReason, stop_sequence: null, stop_details: reply.stopDetails ?? null };
      response.end(JSON.stringify({ ...message, content, ...stop, usage }));
      return;
    }
    const events: string[] = [];
    const event = (type: string, fields: JsonObject) =>
      events.push(`event: ${type}\ndata: ${JSON.stringify({ type, ...fields })}\n\n`);
    event("message_start", {
      message: {
        ...message,
        content: [],
        stop_reason: null,
        stop_sequence: null,
        usage: { ...usage, output_tokens: 1 },
      },
    });
    event("ping", {});
    for (const [index, block] of blocks.entries()) {
      const delta = (fields: JsonObject) => event("content_block_delta", { index, delta: fields });
      const start = (fields: JsonObject) => event("content_block_start", { index, content_block: fields });
      switch (block.type) {
        case "text":
          start({ type: "text", text: "" });
          for (const text of inPieces(String(block.text), 7)) delta({ type: "text_delta", text });
          break;
        case "thinking":
          start({ type: "thinking", thinking: "", signature: "" });
          for (const text of inPieces(String(block.thinking), 7)) delta({ type: "thinking_delta", thinking: text });
          delta({ type: "signature_delta", signature: block.signature });
          break;
        case "tool_use": {
          start({ type: "tool_use", id: block.id, name: block.name, input: {} });
          const json = typeof block.raw === "string" ? block.raw : JSON.stringify(block.input);
          delta({ type: "input_json_delta", partial_json: "" });
          if (json !== "{}") {
            for (const piece of inPieces(json, 5)) delta({ type: "input_json_delta", partial_json: piece });
          }
          break;
        }
        default:
          start(block);
      }
      event("content_block_stop", { index });
    }
    event("message_delta", {
      delta: { stop_reason: stopReason, stop_sequence: null, stop_details: reply.stopDetails ?? null },
      usage,
    });
    event("message_stop", {});
    const failure = (type: string, message: string) => `event: error\ndata: ${errorBody(type, message)}\n\n`;
    await stream(response, events, reply, failure);
  }

  async function answerOpenAi(request: RecordedRequest, reply: ScriptedAnswer, response: ServerResponse) {
    const member = options.reasoningMember ?? "reasoning_content";
    const calls = (reply.toolCalls ?? []).map((call) => ({
      ...(call.id === null ? {} : { id: call.id ?? madeId("call_") }),
      type: "function",
      function: { name: call.name, arguments: call.rawArguments ?? JSON.stringify(call.input) },
    }));
    const finish = reply.stopReason === undefined ? (calls.length > 0 ? "tool_calls" : "stop") : reply.stopReason;
    const { input = 10, output = 5, cached, cacheWrite } = reply.usage ?? {};
    const usage = {
      prompt_tokens: input,
      completion_tokens: output,
      total_tokens: input + output,
      ...(cached === undefined && cacheWrite === undefined ? {} : {
        prompt_tokens_details: {
          ...(cached === undefined ? {} : { cached_tokens: cached }),
          ...(cacheWrite === undefined ? {} : { cache_write_tokens: cacheWrite }),
        },
      }),
    };
    const common = { id: madeId("chatcmpl-"), created: 1_700_000_000, model: request.body.model };
    if (request.body.stream !== true || reply.whole === true) {
      response.writeHead(200, { "content-type": "application/json" });
      const message = {
        role: "assistant",
        content: reply.text ?? null,
        ...(reply.thinking === undefined ? {} : { [member]: reply.thinking }),
        ...(calls.length === 0 ? {} : { tool_calls: calls }),
      };
      response.end(JSON.stringify({
        ...common,
        object: "chat.completion",
        choices: [{ index: 0, message, finish_reason: finish, logprobs: null }],
        usage,
      }));
      return;
    }
    const events: string[] = [];
    const chunk = (delta: JsonObject, finishReason: string | null = null) =>
      events.push(`data: ${
        JSON.stringify({
          ...common,
          object: "chat.completion.chunk",
          choices: [{ index: 0, delta, finish_reason: finishReason }],
        })
      }\n\n`);
    chunk({ role: "assistant", content: "" });
    for (const piece of inPieces(reply.thinking ?? "", 7)) chunk({ [member]: piece });
    for (const piece of inPieces(reply.text ?? "", 7)) chunk({ content: piece });
    for (const [index, call] of calls.entries()) {
      chunk({ tool_calls: [{ index, ...call, function: { name: call.function.name, arguments: "" } }] });
      for (const piece of inPieces(call.function.arguments, 5)) {
        chunk({ tool_calls: [{ index, function: { arguments: piece } }] });
      }
    }
    if (finish !== null) chunk({}, finish);
    const streamOptions = request.body.stream_options as JsonObject | undefined;
    const told = options.usage ?? "asked";
    if (told === "always" || (told === "asked" && streamOptions?.include_usage === true)) {
      events.push(`data: ${JSON.stringify({ ...common, object: "chat.completion.chunk", choices: [], usage })}\n\n`);
    }
    if (options.done !== false) events.push("data: [DONE]\n\n");
    await stream(response, events, reply, (type, message) => `data: ${errorBody(type, message)}\n\n`);
  }

  async function stream(
    response: ServerResponse,
    events: readonly string[],
    delivery: Delivery,
    failure: (type: string, message: string) => string,
  ): Promise<void> {
    response.writeHead(200, { "content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache" });
    response.flushHeaders();
    const end = Math.min(
      delivery.disconnectAfter ?? Infinity,
      delivery.errorAfter?.events ?? Infinity,
      delivery.truncateAfter ?? Infinity,
      delivery.silentAfter ?? Infinity,
    );
    const cut = events.slice(0, end);
    if (delivery.errorAfter !== undefined) cut.push(failure(delivery.errorAfter.type, delivery.errorAfter.message));
    const bytes = Buffer.from(cut.join(""));
    const writes = delivery.pieceBytes === undefined ? cut : Array.from(
      { length: Math.ceil(bytes.length / delivery.pieceBytes) },
      (_, index) => bytes.subarray(index * delivery.pieceBytes!, (index + 1) * delivery.pieceBytes!),
    );
    for (const write of writes) {
      if (response.destroyed) return;
      if (!response.write(write)) {
        await new Promise<void>((resolve) => void response.once("drain", resolve).once("close", resolve));
      }
      if (delivery.pieceDelayMs !== undefined) await wait(delivery.pieceDelayMs);
    }
    if (delivery.silentAfter !== undefined) return;
    // What was written shall arrive before the connection breaks.
    if (delivery.disconnectAfter !== undefined) {
      await wait(20);
      response.socket?.destroy();
    } else response.end();
  }

  async function receive(message: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Uint8Array[] = [];
    for await (const chunk of message) chunks.push(chunk as Uint8Array);
    let body: unknown;
    try {
      body = JSON.parse(Buffer.concat(chunks).toString());
    } catch {
      body = undefined;
    }
    const headers: Record<string, string> = {};
    const headerNames: string[] = [];
    for (let at = 0; at < message.rawHeaders.length; at += 2) {
      const name = message.rawHeaders[at]!.toLowerCase();
      headerNames.push(name);
      headers[name] = message.rawHeaders[at + 1]!;
    }
    const usable = typeof body === "object" && body !== null && !Array.isArray(body);
    const request: ProviderRequest = {
      method: message.method ?? "",
      path: message.url ?? "",
      headers,
      headerNames,
      body: usable ? body as JsonObject : {},
    };
    const recorded = { ...request, problems: usable ? judged(request) : ["the body is not a JSON object"] };
    requests.push(recorded);
    problems.push(...recorded.problems);
    response.on("close", () => {
      if (!response.writableFinished) abandoned += 1;
    });
    await answer(recorded, response);
  }

  const server = createServer((message, response) => {
    receive(message, response).catch(() => response.socket?.destroy());
  });
  server.keepAliveTimeout = 5_000;
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return {
    endpoint: `http://127.0.0.1:${port}${basePath}`,
    port,
    script,
    requests,
    problems,
    get key() {
      return key;
    },
    set key(value) {
      key = value;
    },
    get abandoned() {
      return abandoned;
    },
    async [Symbol.asyncDispose]() {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      server.closeAllConnections();
      await closed;
    },
  };
}
