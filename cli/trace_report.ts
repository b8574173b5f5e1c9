/**
 * `mur trace report`: sessions one by one, then what they have in common (spec trace 12.5).
 *
 * @module
 */
import { MurError } from "../base/errors.ts";
import { escapeControls } from "../runtime/agent/terminal_text.ts";
import { findTrace, type RecordedSession, sessionsOf } from "../runtime/trace/session_address.ts";
import { linesOf, parseTrace, readTraceText, type TraceRecord } from "../runtime/trace/trace_reader.ts";
import type { CliContext } from "./context.ts";
import { type EndedTrace, shellLatency, toolLatency, toolSuccess } from "./trace_diff.ts";
import { duration, exitCodes, sectionRule, thousands } from "./trace_format.ts";
import { redundantReads } from "./trace_redundancy.ts";
import { traceWorkdir } from "./trace_show.ts";
import { UsageError } from "./usage_error.ts";

/** Flags of `mur trace report`. */
export interface TraceReportFlags {
  readonly workdir?: string;
  /** How many of the newest. */
  readonly last?: string;
  /** Age of the oldest: `<n>m`, `<n>h`, `<n>d`. */
  readonly since?: string;
}

/** Runs the command. @throws {MurError} `E-TRC-001`, `E-TRC-002`, `E-IO-001`, `E-IO-003`. */
export async function traceReport(
  context: CliContext,
  flags: TraceReportFlags,
  addresses: readonly string[],
  now: number = Date.now(),
): Promise<number> {
  if (addresses.length > 0 && (flags.last !== undefined || flags.since !== undefined)) {
    throw new UsageError("--last and --since choose sessions; leave them out beside named ones");
  }
  const directory = traceWorkdir(context, flags.workdir);
  const search = { home: context.home(), directory };
  const paths: string[] = [];
  for (const address of addresses) paths.push(await findTrace(address, search, context.cwd));
  if (addresses.length === 0) {
    const sessions = chosenSessions(await sessionsOf(search), flags, now, directory);
    for (const session of sessions) paths.push(`${session.directory}/trace.jsonl`);
  }
  const traces: EndedTrace[] = [];
  for (const path of new Set(paths)) {
    const trace = await completeTrace(path, addresses.length > 0);
    if (trace !== null) traces.push(trace);
  }
  const skipped = new Set(paths).size - traces.length;
  if (skipped > 0) context.stderr.line(`note: skipped ${skipped} incomplete session(s)`);
  if (traces.length === 0) throw new MurError("E-TRC-001", "no complete session: none of them has a session_end");
  traces.sort((a, b) => sessionOf(a) < sessionOf(b) ? -1 : 1);
  context.stdout.write(escapeControls(reportText(traces, directory)));
  return 0;
}

const MINUTE = 60_000;
const UNIT: Readonly<Record<string, number>> = { m: MINUTE, h: 60 * MINUTE, d: 24 * 60 * MINUTE };

/** The sessions the flags choose, newest first. @throws {MurError} `E-TRC-002`. */
export function chosenSessions(
  sessions: readonly RecordedSession[],
  { last, since }: Pick<TraceReportFlags, "last" | "since">,
  now: number,
  directory: string,
): readonly RecordedSession[] {
  if (last !== undefined && !/^0*[1-9]\d*$/.test(last)) {
    throw new MurError("E-TRC-002", `--last is '${last}'; it must be a whole number of 1 or more`);
  }
  const age = since === undefined ? null : /^(\d{1,6})([mhd])$/.exec(since);
  if (since !== undefined && age === null) {
    throw new MurError("E-TRC-002", `--since is '${since}'; expected e.g. 30m, 12h or 7d`);
  }
  if (sessions.length === 0) throw new MurError("E-TRC-002", `no sessions found in workdir at ${directory}`);
  let chosen = sessions;
  if (age) {
    const oldest = now - Number(age[1]) * UNIT[age[2]!]!;
    chosen = chosen.filter(({ id }) => (mintedAt(id) ?? -1) >= oldest);
    if (chosen.length === 0) throw new MurError("E-TRC-002", `no session in workdir at ${directory} since ${since}`);
  }
  return last === undefined ? chosen : chosen.slice(0, Number(last));
}

/** When an id was minted, Unix milliseconds (spec trace, conventions); `null` for another name. */
function mintedAt(id: string): number | null {
  const hex = /^ses_([0-9a-f]{12})[0-9a-f]{20}$/.exec(id)?.[1];
  return hex === undefined ? null : parseInt(hex, 16);
}

/** A session that ended in order; `null` for another, unless it was named and has no trace at all. */
async function completeTrace(path: string, named: boolean): Promise<EndedTrace | null> {
  let text: string;
  try {
    text = await readTraceText(path);
  } catch (error) {
    // A script capsule leaves no trace, a launch that failed an empty one.
    if (!named && error instanceof MurError && error.code === "E-IO-001") return null;
    throw error;
  }
  if (text.trim() === "") return null;
  const trace = parseTrace(text, path);
  return trace.end === null ? null : { ...trace, end: trace.end };
}

function sessionOf(trace: EndedTrace): string {
  return trace.start.session_id ?? trace.path;
}

/** One line of the table. */
interface Series {
  readonly name: string;
  readonly values: readonly number[];
}

/** Mean, population standard deviation, least and greatest of some values. */
export function spread(values: readonly number[]): { mean: number; deviation: number; min: number; max: number } {
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
  const variance = values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / values.length;
  return { mean, deviation: Math.sqrt(variance), min: Math.min(...values), max: Math.max(...values) };
}

function one(value: number): string {
  const [whole, fraction] = value.toFixed(1).split(".");
  return `${thousands(Number(whole))}.${fraction}`;
}

function tableRow(cells: readonly string[]): string {
  return cells.map((cell, index) => cell.padEnd(index === 0 ? 22 : 14)).join("").trimEnd();
}

function table(series: readonly Series[]): string[] {
  return [
    tableRow(["Metric", "Mean", "Std dev", "Min", "Max"]),
    "─".repeat(22 + 4 * 14),
    ...series.filter(({ values }) => values.length > 0).map(({ name, values }) => {
      const { mean, deviation, min, max } = spread(values);
      const ends = values.every(Number.isInteger) ? thousands : one;
      return tableRow([name, one(mean), one(deviation), ends(min), ends(max)]);
    }),
  ];
}

function block(trace: EndedTrace): string[] {
  const { end } = trace;
  const calls = linesOf(trace, "tool_call");
  const errors = calls.filter(({ status }) => status !== "ok").length;
  const codes = linesOf(trace, "shell").map((line) => line.exit_code);
  const redundant = redundantReads(trace.lines).length;
  const [tool, shell] = [toolLatency(trace), shellLatency(trace)];
  const latency = [
    ...(tool === null ? [] : [`tool ${duration(tool)}`]),
    ...(shell === null ? [] : [`shell ${duration(shell)}`]),
  ];
  const shellCalls = end.total_shell_calls;
  return [
    `Session ${sessionOf(trace).slice(0, 12)}...  ${duration(end.duration_ms)}  ${thousands(end.total_turns)} turns`,
    "",
    `  Tool calls:    ${thousands(calls.length)}${
      errors === 0 ? "" : `  (${calls.length - errors} ok, ${errors} error)`
    }`,
    ...(shellCalls === 0
      ? []
      : [`  Shell calls:   ${thousands(shellCalls)}${codes.length === 0 ? "" : `  exit codes: ${exitCodes(codes)}`}`]),
    ...(redundant === 0 ? [] : [`  Redundant calls: ${thousands(redundant)}`]),
    ...(latency.length === 0 ? [] : [`  Avg latency:   ${latency.join("  ")}`]),
    "",
  ];
}

/** The whole report over traces, oldest first; it ends with a newline. */
export function reportText(traces: readonly EndedTrace[], directory: string): string {
  const of = (name: string, value: (trace: EndedTrace) => number | null): Series => ({
    name,
    values: traces.flatMap((trace) => value(trace) ?? []),
  });
  const statuses = [...Map.groupBy(traces, ({ end }) => end.exit_status as string)]
    .sort(([a, x], [b, y]) => y.length - x.length || (a < b ? -1 : 1));
  return `${
    [
      ...traces.flatMap(block),
      `Sessions: ${traces.length}  (${directory})`,
      "",
      ...table([
        of("turns", ({ end }) => end.total_turns),
        of("duration (ms)", ({ end }) => end.duration_ms),
        of("input tokens", ({ end }) => end.total_input_tokens),
        of("output tokens", ({ end }) => end.total_output_tokens),
        of("tool calls", ({ end }) => end.total_tool_calls),
        of("tool success (%)", toolSuccess),
        of("shell calls", ({ end }) => end.total_shell_calls),
        of("redundant calls", (trace) => redundantReads(trace.lines).length),
      ]),
      "",
      "Exit status:",
      ...statuses.map(([status, same]) =>
        `  ${status.padEnd(24)} ${same.length}  (${(100 * same.length / traces.length).toFixed(1)}%)`
      ),
      ...taskAverages(traces),
    ].join("\n")
  }\n`;
}

/** Averages over the tasks of sessions that ran several; nothing when none did. */
function taskAverages(traces: readonly EndedTrace[]): string[] {
  const tasks = traces.map((trace) => linesOf(trace, "task_end")).filter((ends) => ends.length > 1).flat();
  if (tasks.length === 0) return [];
  const of = (name: string, value: (task: TraceRecord<"task_end">) => number): Series => ({
    name,
    values: tasks.map(value),
  });
  return [
    "",
    sectionRule("Per-task averages (multi-task sessions only)"),
    ...table([
      of("task turns", (task) => task.turns),
      of("task input tokens", (task) => task.input_tokens),
      of("task output tokens", (task) => task.output_tokens),
      of("task duration (ms)", (task) => task.duration_ms),
    ]),
    "",
    `Tasks: ${tasks.length}`,
  ];
}
