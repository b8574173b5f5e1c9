/**
 * `mur trace diff`: two sessions side by side, and where what they sent to the model parts (spec trace 12.5).
 *
 * @module
 */
import { MurError } from "../base/errors.ts";
import { escapeControls } from "../runtime/agent/terminal_text.ts";
import { findTrace } from "../runtime/trace/session_address.ts";
import { isTurn } from "../runtime/trace/trace_counters.ts";
import { linesOf, readTrace, type Trace, type TraceRecord } from "../runtime/trace/trace_reader.ts";
import type { CliContext } from "./context.ts";
import { duration, sectionRule, short, thousands } from "./trace_format.ts";
import { traceWorkdir } from "./trace_show.ts";

/** Flags of `mur trace diff`. */
export interface TraceDiffFlags {
  readonly workdir?: string;
}

/** Runs the command. @throws {MurError} `E-TRC-001`, `E-TRC-002`, `E-IO-001`, `E-IO-003`. */
export async function traceDiff(
  context: CliContext,
  flags: TraceDiffFlags,
  addresses: readonly string[],
): Promise<number> {
  if (addresses.length !== 0 && addresses.length !== 2) {
    throw new MurError("E-TRC-002", `mur trace diff expects 0 or 2 arguments, got ${addresses.length}`, {
      hint: "name both sessions, before and after, or none for the two newest",
    });
  }
  const [before, after] = addresses.length === 2 ? addresses as [string, string] : ["@2", "@1"] as const;
  const search = { home: context.home(), directory: traceWorkdir(context, flags.workdir) };
  const found = await Promise.allSettled([
    findTrace(before, search, context.cwd),
    findTrace(after, search, context.cwd),
  ]);
  const failures = found.flatMap((each, index) =>
    each.status === "rejected" ? [[index === 0 ? "before" : "after", each.reason] as const] : []
  );
  for (const [, reason] of failures) if (!(reason instanceof MurError)) throw reason;
  if (failures.length > 0) {
    const text = failures.map(([which, reason]) => `${which}: ${reason.message}`).join("\n");
    throw new MurError((failures[0]![1] as MurError).code, text);
  }
  const [a, b] = found.map((each) => (each as PromiseFulfilledResult<string>).value) as [string, string];
  context.stdout.write(escapeControls(traceDiffText(endedTrace(await readTrace(a)), endedTrace(await readTrace(b)))));
  return 0;
}

/** A trace whose session ended in order. */
export type EndedTrace = Trace & { readonly end: TraceRecord<"session_end"> };

/** @throws {MurError} `E-TRC-001` when it has no `session_end`. */
function endedTrace(trace: Trace): EndedTrace {
  const { end } = trace;
  if (end !== null) return { ...trace, end };
  throw new MurError("E-TRC-001", `${trace.path}: no session_end: the session still runs, or ended without one`);
}

/** One row of the table: the value in a run, `null` when it has none. */
interface Metric {
  readonly name: string;
  value(trace: EndedTrace): number | null;
  show(value: number): string;
  readonly higherIsBetter?: boolean;
}

const mean = (values: readonly number[]): number | null =>
  values.length === 0 ? null : values.reduce((sum, value) => sum + value, 0) / values.length;
const perTurn = (total: number, { end }: EndedTrace) => end.total_turns === 0 ? null : total / end.total_turns;
const whole = (value: number) => thousands(Math.round(value));
const percent = (value: number) => `${value.toFixed(1)}%`;

/** Share of tool calls that went well, in percent; `null` without calls. */
export function toolSuccess(trace: Trace): number | null {
  const calls = linesOf(trace, "tool_call");
  return mean(calls.map(({ status }) => status === "ok" ? 100 : 0));
}

/** Mean duration of tool calls in milliseconds; `null` without calls. */
export function toolLatency(trace: Trace): number | null {
  return mean(linesOf(trace, "tool_call").map((line) => line.duration_ms));
}

/** Mean duration of finished shell commands in milliseconds; `null` without them. */
export function shellLatency(trace: Trace): number | null {
  return mean(linesOf(trace, "shell").map((line) => line.duration_ms));
}

const METRICS: readonly Metric[] = [
  { name: "turns", value: ({ end }) => end.total_turns, show: whole },
  { name: "duration", value: ({ end }) => end.duration_ms, show: duration },
  { name: "input tokens", value: ({ end }) => end.total_input_tokens, show: whole },
  { name: "output tokens", value: ({ end }) => end.total_output_tokens, show: whole },
  { name: "input/turn (avg)", value: (trace) => perTurn(trace.end.total_input_tokens, trace), show: whole },
  { name: "output/turn (avg)", value: (trace) => perTurn(trace.end.total_output_tokens, trace), show: whole },
  { name: "tool calls", value: ({ end }) => end.total_tool_calls, show: whole },
  { name: "tool success rate", value: toolSuccess, show: percent, higherIsBetter: true },
  { name: "avg tool latency", value: toolLatency, show: duration },
  { name: "skill calls", value: (trace) => linesOf(trace, "skill_call").length, show: whole },
  { name: "shell calls", value: ({ end }) => end.total_shell_calls, show: whole },
  { name: "avg shell latency", value: shellLatency, show: duration },
];

const NONE = "—";

function tableRow(name: string, a: string, b: string, delta: string): string {
  // What is wider than its column still stands apart from the next.
  return `${name.padEnd(22)}${a.padEnd(15)} ${b.padEnd(15)} ${delta}`.trimEnd();
}

function deltaOf({ show, higherIsBetter = false }: Metric, a: number | null, b: number | null): string {
  if (a === null || b === null) return NONE;
  // What looks the same is the same.
  if (show(a) === show(b)) return "=";
  const better = (b > a) === higherIsBetter ? "B" : "A";
  return `${b > a ? "+" : "-"}${show(Math.abs(b - a))} (${better} better)`;
}

function compactionOf(trace: Trace): string {
  const [first] = linesOf(trace, "compaction");
  return first === undefined ? "none" : `turn ${first.turn}`;
}

/** The whole comparison, ending with a newline. */
export function traceDiffText(a: EndedTrace, b: EndedTrace): string {
  const rows = METRICS.map((metric) => {
    const [left, right] = [metric.value(a), metric.value(b)];
    const shown = (value: number | null) => value === null ? NONE : metric.show(value);
    return tableRow(metric.name, shown(left), shown(right), deltaOf(metric, left, right));
  });
  return `${
    [
      tableRow("Metric", "Run A", "Run B", "Delta"),
      "─".repeat(22 + 16 + 16 + 26),
      ...rows,
      tableRow("compaction", compactionOf(a), compactionOf(b), NONE),
      tableRow("exit status", a.end.exit_status, b.end.exit_status, NONE),
      "",
      sectionRule("Prefix divergence"),
      ...divergenceRows(a, b),
    ].join("\n")
  }\n`;
}

/** Turns of the agent loop that recorded what was sent. */
function hashedTurns(trace: Trace): TraceRecord<"inference">[] {
  return linesOf(trace, "inference").filter((line) => isTurn(line) && line.system_sha !== undefined);
}

function divergenceRows(a: Trace, b: Trace): string[] {
  const [left, right] = [hashedTurns(a), hashedTurns(b)];
  const bare = ([["A", left], ["B", right]] as const).filter(([, turns]) => turns.length === 0)
    .map(([run]) => `run ${run} recorded no hashes: it ran under trace.capture: none`);
  if (bare.length > 0) return bare;
  const rows = [
    `system prompt: ${compared(left[0]!.system_sha, right[0]!.system_sha)}`,
    `tool schemas:  ${compared(left[0]!.tools_sha, right[0]!.tools_sha)}`,
  ];
  for (let index = 0; index < Math.max(left.length, right.length); index++) {
    const [inA, inB] = [left[index], right[index]];
    const head = `turn ${(inA ?? inB)!.turn}:  `;
    if (inA === undefined || inB === undefined) rows.push(`${head}only in run ${inA === undefined ? "B" : "A"}`);
    else rows.push(`${head}${messagesCompared(inA.message_shas ?? [], inB.message_shas ?? [])}`);
  }
  return rows;
}

function compared(a: string | undefined, b: string | undefined): string {
  if (a === b) return "identical";
  return `differs  A ${a === undefined ? NONE : short(a)} B ${b === undefined ? NONE : short(b)}`;
}

function messagesCompared(a: readonly string[], b: readonly string[]): string {
  const shorter = Math.min(a.length, b.length);
  for (let index = 0; index < shorter; index++) {
    if (a[index] !== b[index]) return `diverges at message ${index}  A ${short(a[index]!)} B ${short(b[index]!)}`;
  }
  if (a.length === b.length) return `identical  (${a.length} messages)`;
  return `diverges at message ${shorter}  A ${a.length} messages  B ${b.length} messages`;
}
