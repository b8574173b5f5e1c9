/**
 * What a tool answers, and how it becomes `murmur:tool/run.tool-result` (spec components 2.1, 8.4).
 *
 * @module
 */
import { wellFormed, type WitToolResult } from "./host.ts";

/** A tool's answer. Everything but `status` may be left out. */
export interface ToolOutcome {
  /** `passed` unless said otherwise; `failed`: the tool worked, what it was asked for did not; `error`: it broke. */
  readonly status?: "passed" | "failed" | "error";
  /** One line for people. */
  readonly summary?: string;
  /** What the model reads. A value that is no string is sent as JSON. */
  readonly data?: unknown;
  /** A file under the work folder that holds the whole output. */
  readonly dataPath?: string;
  /** Whether `data` is cut. Say so in `data` too, and name the file. */
  readonly truncated?: boolean;
  /** Facts for the trace, e.g. `state_effect`: `read` or `mutate`, and `resource_id`. */
  readonly metadata?: Readonly<Record<string, string>>;
}

/** A failure the model should read as the tool's answer: `status: failed`, the message as `data`. */
export class ToolFailure extends Error {
  override readonly name = "ToolFailure";
}

/** The result of an answer: text alone is `passed` with that text. */
export function toResult(outcome: string | ToolOutcome | undefined | void): WitToolResult {
  const { status, summary, data, dataPath, truncated, metadata }: ToolOutcome = typeof outcome === "string"
    ? { data: outcome }
    : outcome ?? {};
  const text = (value: string | undefined) => value === undefined || value === null ? null : wellFormed(value);
  return {
    status: status ?? "passed",
    summary: text(summary),
    data: data === undefined || data === null ? null : text(typeof data === "string" ? data : JSON.stringify(data)),
    dataPath: text(dataPath),
    truncated: truncated ?? false,
    metadata: Object.entries(metadata ?? {}).map(([name, value]) => [wellFormed(name), wellFormed(value)]),
  };
}

/** The result of a thrown value. */
export function failureResult(error: unknown): WitToolResult {
  if (error instanceof ToolFailure) return toResult({ status: "failed", data: error.message });
  const text = error instanceof Error
    ? `${error.name === "Error" ? "" : `${error.name}: `}${error.message}`
    : String(error);
  return toResult({ status: "error", data: text });
}
