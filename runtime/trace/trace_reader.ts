/**
 * Reads a `trace.jsonl` (spec trace 2, 12.2). What a reader does not know it passes over; what it needs and does not find
 * is an error with file and line.
 *
 * @module
 */
import { ioError, MurError } from "../../base/errors.ts";
import { countLine, NO_COUNTS, type TraceCounts } from "./trace_counters.ts";
import { TRACE_EVENT_KEYS, type TraceEventBodies, type TraceEventType } from "./trace_event.ts";
import { isOfItsKind, kindText, mayBeNull } from "./trace_value.ts";

/** A line of a known event, as far as it may be trusted: the keys in {@linkcode REQUIRED} are there, the rest may be. */
export type TraceRecord<T extends TraceEventType = TraceEventType> = {
  [K in T]:
    & Partial<TraceEventBodies[K]>
    & Pick<TraceEventBodies[K], RequiredKey<K> & keyof TraceEventBodies[K]>
    & {
      readonly event_type: K;
      readonly event_id?: string;
      readonly parent_id?: string | null;
      readonly session_id?: string;
      readonly timestamp?: number;
    };
}[T];

/** Keys without which a line cannot be shown. Traces of older builds lack others. */
const REQUIRED = {
  session_start: ["capsule_name", "capsule_version", "model", "max_turns"],
  session_end: [
    "total_turns",
    "total_input_tokens",
    "total_output_tokens",
    "total_tool_calls",
    "total_shell_calls",
    "duration_ms",
    "exit_status",
  ],
  task_start: ["task_id"],
  task_end: ["task_id", "exit_status", "duration_ms", "turns", "input_tokens", "output_tokens"],
  task_reopened: ["hook_name", "reason", "reopen_number"],
  task_canceled: ["task_id", "phase"],
  task_failed: ["task_id", "cause", "reason"],
  task_rejected: ["task_id", "cause", "source"],
  inference: ["turn", "decision"],
  tool_call: ["turn", "tool_name", "duration_ms", "status"],
  skill_call: ["turn", "skill_name", "duration_ms", "status"],
  shell: ["binary", "exit_code", "duration_ms"],
  shell_detached: ["work_id", "binary"],
  shell_completed: ["work_id", "binary", "exit_code", "duration_ms", "status"],
  shell_abandoned: ["work_id", "binary", "running_ms"],
  shell_lost: ["work_id", "binary"],
  compaction: ["turn", "tokens_before", "tokens_after"],
  compaction_declined: ["turn", "tokens", "reason"],
  context_seed: ["hook_name", "outcome", "tokens"],
  call_denied: ["turn", "event", "target", "hook_name", "reason"],
  protected_path_denied: ["turn", "call", "target", "path", "rule", "signal"],
  tool_input_refused: ["turn", "tool_name", "missing"],
  tools_refreshed: ["turn", "trigger", "added", "removed"],
  artifact_pulled: ["name", "version", "runtime", "origin", "trust"],
  resource_list: ["outcome"],
  resource_read: ["outcome"],
  peer_handle_mint: ["outcome"],
  peer_handle_redeem: ["outcome"],
  peer_file_fetch: ["outcome"],
  delegation_start: ["delegation_id", "capsule", "version"],
  delegation: ["capsule", "version", "outcome"],
  member_call_start: ["call_id", "member"],
  member_call: ["call_id", "member", "status", "duration_ms", "delivered"],
  plan_start: ["plan_id", "steps"],
  plan_step_start: ["plan_id", "step_id", "kind"],
  plan_step: ["plan_id", "step_id", "kind", "status", "duration_ms"],
  plan_end: ["plan_id", "outcome"],
  hook_dispatch_error: ["hook_name", "event", "arm"],
  retention: ["store", "reason", "removed"],
  a2a_send: ["peer_url"],
} as const satisfies { [T in TraceEventType]?: readonly (keyof TraceEventBodies[T])[] };

type RequiredKey<T extends TraceEventType> = T extends keyof typeof REQUIRED ? typeof REQUIRED[T][number] : never;

/** A line as it stands in the file. */
export interface TraceLine {
  readonly event_type: string;
  readonly event_id?: string;
  readonly parent_id?: string | null;
  readonly timestamp?: number;
  readonly [key: string]: unknown;
}

/** A whole trace. */
export interface Trace {
  readonly path: string;
  /** Every whole line, unknown events included. */
  readonly lines: readonly TraceLine[];
  readonly start: TraceRecord<"session_start">;
  /** `null` when the session has not ended in order. */
  readonly end: TraceRecord<"session_end"> | null;
  /** Whether half a line stood at the end: the process died while it wrote. */
  readonly torn: boolean;
  /** Counts taken from the lines. */
  readonly counts: TraceCounts;
}

/** The lines of some events, in file order. */
export function linesOf<T extends TraceEventType>(trace: Pick<Trace, "lines">, ...types: T[]): TraceRecord<T>[] {
  const wanted: ReadonlySet<string> = new Set(types);
  return trace.lines.filter(({ event_type: type }) => wanted.has(type)) as unknown as TraceRecord<T>[];
}

/** Whether a line is of one event. */
export function isEvent<T extends TraceEventType>(line: TraceLine, type: T): line is TraceLine & TraceRecord<T> {
  return line.event_type === type;
}

function bad(path: string, line: number, reason: string): MurError {
  return new MurError("E-TRC-001", `${path}:${line}: ${reason}`);
}

function isKnown(type: string): type is TraceEventType {
  return Object.hasOwn(TRACE_EVENT_KEYS, type);
}

/** Largest time a date can show, in Unix milliseconds. */
const MAX_TIME_MS = 8.64e15;

/** Takes out what has a value that its key never has: to the reader it is a key it does not know. */
function withoutStrange(line: Record<string, unknown>, type: string, keys: readonly string[]): object {
  for (const key of ["event_id", "parent_id", "session_id"]) {
    if (line[key] !== null && typeof line[key] !== "string") delete line[key];
  }
  const { timestamp } = line;
  if (typeof timestamp !== "number" || Math.abs(timestamp) > MAX_TIME_MS) delete line.timestamp;
  for (const key of keys) {
    const isFit = line[key] === null ? mayBeNull(key) : isOfItsKind(type, key, line[key]);
    if (!isFit) delete line[key];
  }
  return line;
}

function parseLine(text: string, path: string, number: number): TraceLine {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw bad(path, number, "not a JSON object");
  }
  if (typeof value !== "object" || value === null || Array.isArray(value)) throw bad(path, number, "not a JSON object");
  const line = value as Record<string, unknown>;
  const { event_type: type } = line;
  if (typeof type !== "string") throw bad(path, number, "missing key 'event_type'");
  if (!isKnown(type)) return withoutStrange(line, type, []) as TraceLine;
  for (const key of (REQUIRED as Record<string, readonly string[]>)[type] ?? []) {
    if (line[key] === undefined) throw bad(path, number, `${type}: missing key '${key}'`);
    if (!isOfItsKind(type, key, line[key])) throw bad(path, number, `${type}: '${key}' is not ${kindText(type, key)}`);
  }
  return withoutStrange(line, type, TRACE_EVENT_KEYS[type]) as TraceLine;
}

/**
 * The whole lines of a trace's text. Half a line at the end, which a killed process leaves, is no line.
 *
 * @throws {MurError} `E-TRC-001` for any other line that is no JSON object or lacks a key.
 */
export function parseTraceLines(text: string, path: string): { lines: TraceLine[]; torn: boolean } {
  const rows = text.split("\n");
  const tail = rows.pop() ?? "";
  const lines = rows.flatMap((row, index) => row.trim() === "" ? [] : [parseLine(row, path, index + 1)]);
  if (tail.trim() === "") return { lines, torn: false };
  try {
    lines.push(parseLine(tail, path, rows.length + 1));
    return { lines, torn: false };
  } catch {
    return { lines, torn: true };
  }
}

/**
 * A trace from its text.
 *
 * @throws {MurError} `E-TRC-001`: a bad line, an empty file, no `session_start`.
 */
export function parseTrace(text: string, path: string): Trace {
  const { lines, torn } = parseTraceLines(text, path);
  const [start] = linesOf({ lines }, "session_start");
  if (start === undefined) {
    throw new MurError("E-TRC-001", `${path}: ${lines.length === 0 ? "the trace is empty" : "no session_start"}`);
  }
  const counts = linesOf({ lines }, "inference", "tool_call", "shell", "shell_detached").reduce(
    (sum, line) => countLine(sum, line.event_type, line as TraceEventBodies[typeof line.event_type]),
    NO_COUNTS,
  );
  return { path, lines, start, end: linesOf({ lines }, "session_end").at(-1) ?? null, torn, counts };
}

/**
 * Reads a trace.
 *
 * @throws {MurError} `E-IO-001` when it is missing, `E-IO-003` when it cannot be read, `E-TRC-001` as {@linkcode parseTrace}.
 */
export async function readTrace(path: string): Promise<Trace> {
  return parseTrace(await readTraceText(path), path);
}

/** Text of a trace file. @throws {MurError} `E-IO-001`, `E-IO-002`, `E-IO-003`. */
export async function readTraceText(path: string): Promise<string> {
  try {
    return await Deno.readTextFile(path);
  } catch (cause) {
    throw ioError(`read ${path}`, cause);
  }
}
