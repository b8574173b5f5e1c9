/**
 * The `murmur:` imports on the host's side: each call is a frame (spec components 2, 3.1, 8.11, 9.1).
 *
 * @module
 */
import { MessageType } from "../frames.ts";
import type { Pipe } from "./pipe.ts";
import { Refusal } from "./refusal.ts";

/** A tool's input as the glue code passes it. */
export interface WitToolInput {
  readonly data: string | undefined;
  readonly logPath: string | undefined;
}

/** A tool's result as the glue code passes it. */
export interface WitToolResult {
  readonly status: string;
  readonly summary: string | undefined;
  readonly data: string | undefined;
  readonly dataPath: string | undefined;
  readonly truncated: boolean;
  readonly metadata: readonly (readonly [string, string])[];
}

const encoder = new TextEncoder();
const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** A text too long for a JSON header goes as body. */
export function encodeText(value: unknown): Uint8Array {
  return encoder.encode(JSON.stringify(value));
}

/** Inverse of {@linkcode encodeText}. */
export function decodeText(body: Uint8Array): unknown {
  return JSON.parse(decoder.decode(body));
}

/** A result with `undefined` for absent members, from one with `null`. */
export function toWitResult(value: unknown): WitToolResult {
  const result = value as { [Name in keyof WitToolResult]: WitToolResult[Name] | null };
  return {
    status: result.status!,
    summary: result.summary ?? undefined,
    data: result.data ?? undefined,
    dataPath: result.dataPath ?? undefined,
    truncated: result.truncated!,
    metadata: result.metadata!,
  };
}

/** The interfaces. Whether a component may import one is judged before it is loaded. */
export function murmurInterfaces(pipe: Pipe) {
  const chunk = (kind: "text" | "thinking") => (text: string) =>
    pipe.send(MessageType.chunk, 0, { kind }, encoder.encode(text));
  return {
    "murmur:text/chunks": { emitChunk: chunk("text"), emitThinkingChunk: chunk("thinking") },
    "murmur:task/task": {
      requestInput(prompt: string): string {
        const { header, body } = pipe.request("request-input", {}, encoder.encode(prompt));
        if (typeof header.error === "string") throw new Error(header.error);
        return decoder.decode(body);
      },
    },
    "murmur:tool/run": {
      run(): never {
        throw new Error("murmur:tool/run is imported for its types; a tool is called by murmur:tool-registry/invoke");
      },
    },
    "murmur:tool-registry/invoke": {
      invoke(name: string, input: WitToolInput): WitToolResult {
        const value = { name, data: input.data ?? null, logPath: input.logPath ?? null };
        const { header, body } = pipe.request("invoke", {}, encodeText(value));
        if (typeof header.error === "string") throw new Refusal(header.error);
        return toWitResult(decodeText(body));
      },
    },
  };
}
