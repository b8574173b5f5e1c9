/**
 * HTTP model drivers: `export default defineDriver({ infer(request, ctx) { … } })`. One call is one inference (spec
 * components 6).
 *
 * @module
 */
import { host, wellFormed } from "./host.ts";

/** A text block. */
export interface TextBlock {
  readonly type: "text";
  readonly text: string;
}

/** A tool call block. */
export interface ToolCallBlock {
  readonly type: "tool_call";
  readonly id: string;
  readonly name: string;
  readonly input: Readonly<Record<string, unknown>>;
}

/** Any further block a provider needs back verbatim, e.g. signed thinking. */
export interface OtherBlock {
  readonly type: string;
  readonly [key: string]: unknown;
}

/** A block of an assistant message. Tell the two known kinds with {@linkcode isText} and {@linkcode isToolCall}. */
export type AssistantBlock = TextBlock | ToolCallBlock | OtherBlock;

/** One message of the history. */
export type Message =
  | { readonly role: "user"; readonly content: readonly TextBlock[] }
  | { readonly role: "assistant"; readonly content: readonly AssistantBlock[] }
  | {
    readonly role: "tool";
    readonly tool_call_id: string;
    readonly is_error: boolean;
    readonly content: readonly TextBlock[];
  };

/** A tool the model may call. */
export interface ToolDefinition {
  readonly name: string;
  readonly description?: string;
  /** JSON Schema of the input. */
  readonly parameters: Readonly<Record<string, unknown>>;
}

/** What the runtime asks for (spec components 6.1). */
export interface DriverRequest {
  readonly model: string;
  readonly max_tokens: number;
  /** The whole history, or only what is new when `continuation_id` is there. */
  readonly messages: readonly Message[];
  readonly tools: readonly ToolDefinition[];
  readonly params: Readonly<Record<string, unknown>>;
  readonly system?: string;
  /** The same over a whole task: a provider's prompt cache can key on it. */
  readonly prompt_cache_key?: string;
  readonly continuation_id?: string;
}

/** Token counts. Members a provider does not report are left out, never 0. */
export interface Usage {
  readonly input_tokens?: number;
  readonly output_tokens?: number;
  readonly cached_tokens?: number;
  readonly cache_write_tokens?: number;
}

/** What the driver answers (spec components 6.3). */
export interface DriverResponse {
  readonly stop_reason: "end_turn" | "tool_call" | "max_tokens" | "error";
  readonly content: readonly AssistantBlock[];
  readonly usage?: Usage;
  /** With `stop_reason: "error"`: what the task fails with. */
  readonly error?: string;
  /** The runtime sends only new messages next time, with this id (spec components 6.6). */
  readonly continuationId?: string;
}

/** What a driver may do beside HTTP. */
export interface DriverContext {
  /** Streams a piece of the answer. */
  emitChunk(text: string): void;
  /** Streams a piece of the model's thinking. */
  emitThinkingChunk(text: string): void;
}

/** A driver. */
export interface Driver {
  /** Runs one inference. A thrown error fails the task with its message. */
  infer(request: DriverRequest, context: DriverContext): DriverResponse | Promise<DriverResponse>;
}

/** Declares the driver a file is; its default export. */
export function defineDriver(driver: Driver): Driver {
  if (typeof driver?.infer !== "function") throw new TypeError("defineDriver: the driver has no infer function");
  return driver;
}

/** Whether a block is text. */
export function isText(block: AssistantBlock): block is TextBlock {
  return block.type === "text";
}

/** Whether a block calls a tool. */
export function isToolCall(block: AssistantBlock): block is ToolCallBlock {
  return block.type === "tool_call";
}

/** @internal */
export function driverContext(): DriverContext {
  return {
    emitChunk: (text) => host().chunks?.emitChunk(wellFormed(String(text))),
    emitThinkingChunk: (text) => host().chunks?.emitThinkingChunk(wellFormed(String(text))),
  };
}
