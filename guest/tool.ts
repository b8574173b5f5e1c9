/**
 * Tools: `export default defineTool({ run(input, ctx) { … } })`.
 *
 * @module
 */
import { host, wellFormed } from "./host.ts";
import type { ToolOutcome } from "./result.ts";

export { ToolFailure, type ToolOutcome } from "./result.ts";

/** What one call may do beside files and HTTP. */
export interface ToolContext {
  /** Shows text to the reader while the call is still running. */
  emitChunk(text: string): void;
  /** The same for text that is the tool's reasoning, not its answer. */
  emitThinkingChunk(text: string): void;
  /**
   * Asks the person behind the task and waits for the reply. Works only inside a task that came over A2A; elsewhere the
   * call ends there (spec components 8.11).
   */
  requestInput(prompt: string): string;
  /** A file the runtime keeps for the tool's log, `null` mostly. */
  readonly logPath: string | null;
}

/** A tool. `Input` is the shape its manifest's `input_schema` describes. */
export interface Tool<Input> {
  /**
   * Answers one call. Text is the answer itself; a thrown error becomes a result with status `error`, a thrown
   * `ToolFailure` one with `failed`.
   */
  run(input: Input, context: ToolContext): string | ToolOutcome | void | Promise<string | ToolOutcome | void>;
}

/** Declares the tool a file is; its default export. */
export function defineTool<Input = Record<string, unknown>>(tool: Tool<Input>): Tool<Input> {
  if (typeof tool?.run !== "function") throw new TypeError("defineTool: the tool has no run function");
  return tool;
}

/** @internal The context of one call. */
export function toolContext(logPath: string | null): ToolContext {
  return {
    emitChunk: (text) => host().chunks?.emitChunk(wellFormed(String(text))),
    emitThinkingChunk: (text) => host().chunks?.emitThinkingChunk(wellFormed(String(text))),
    requestInput(prompt) {
      const task = host().task;
      if (task === undefined) throw new Error("input can only be requested by a tool");
      return task.requestInput(wellFormed(String(prompt)));
    },
    logPath,
  };
}
