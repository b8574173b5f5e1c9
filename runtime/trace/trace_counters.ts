/**
 * Counts of a launch and of its running task, taken from the lines as they are written (spec trace 5.3, 5.4, 6.1, 8).
 *
 * @module
 */
import type { TraceEventBody, TraceEventType } from "./trace_event.ts";

/** Counts of one task or of the whole launch. */
export interface TraceCounts {
  /** Turns of the agent loop; a hook's inference is none. */
  readonly turns: number;
  readonly inputTokens: number;
  readonly outputTokens: number;
  readonly toolCalls: number;
  /** `shell` and `shell_detached` lines. */
  readonly shellCalls: number;
}

export const NO_COUNTS: TraceCounts = { turns: 0, inputTokens: 0, outputTokens: 0, toolCalls: 0, shellCalls: 0 };

/**
 * Whether an `inference` line is a turn (table of spec trace 6.1): the loop's own, and either successful or failed with
 * the harness's counts, which only a turn that was open has.
 */
export function isTurn(line: {
  readonly origin?: unknown;
  readonly decision?: unknown;
  readonly input_tokens?: unknown;
  readonly output_tokens?: unknown;
}): boolean {
  if (line.origin !== undefined) return false;
  return line.decision !== "error" || line.input_tokens !== undefined || line.output_tokens !== undefined;
}

/** Counts after one more line. */
export function countLine<T extends TraceEventType>(
  counts: TraceCounts,
  type: T,
  body: TraceEventBody<T>,
): TraceCounts {
  switch (type) {
    case "inference": {
      const line = body as TraceEventBody<"inference">;
      return {
        ...counts,
        turns: counts.turns + (isTurn(line) ? 1 : 0),
        inputTokens: counts.inputTokens + (line.input_tokens ?? 0),
        outputTokens: counts.outputTokens + (line.output_tokens ?? 0),
      };
    }
    case "tool_call":
      return { ...counts, toolCalls: counts.toolCalls + 1 };
    case "shell":
    case "shell_detached":
      return { ...counts, shellCalls: counts.shellCalls + 1 };
    default:
      return counts;
  }
}
