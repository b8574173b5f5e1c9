/**
 * `mur trace steps`: the tree of one session, task by task and turn by turn (spec trace 12.4).
 *
 * @module
 */
import { escapeControls } from "../runtime/agent/terminal_text.ts";
import { findTrace } from "../runtime/trace/session_address.ts";
import {
  isEvent,
  linesOf,
  parseTrace,
  readTraceText,
  type Trace,
  type TraceLine,
} from "../runtime/trace/trace_reader.ts";
import type { CliContext } from "./context.ts";
import { cut, duration, mark, short, thousands } from "./trace_format.ts";
import { traceWorkdir } from "./trace_show.ts";

export interface TraceStepsOptions {
  /** Session address; default `@1`. */
  readonly session?: string;
  /** `--verbose`: the first text of each tool's input too. */
  readonly verbose?: boolean;
  /** `--workdir`; default `./workdir`. */
  readonly workdir?: string;
}

/** Runs the command. @throws {MurError} `E-TRC-001`, `E-TRC-002`, `E-IO-001`, `E-IO-003`. */
export async function traceSteps(context: CliContext, options: TraceStepsOptions): Promise<number> {
  const search = { home: context.home(), directory: traceWorkdir(context, options.workdir) };
  const path = await findTrace(options.session ?? "@1", search, context.cwd);
  const trace = parseTrace(await readTraceText(path), path);
  context.stdout.write(escapeControls(stepTree(trace, options.verbose ?? false)));
  return 0;
}

/** The whole listing, ending with a newline. */
export function stepTree(trace: Trace, verbose: boolean): string {
  const tasks = linesOf(trace, "task_start").length;
  const turns = linesOf(trace, "inference").filter((line) => line.origin === undefined).length;
  const header = `Session ${trace.start.session_id ?? "—"}  (${tasks} task(s), ${turns} turn(s))`;
  const rows = trace.lines.some((line) => line.event_id !== undefined) ? treeRows(trace, verbose) : flatRows(trace);
  return `${[header, ...rows].join("\n")}\n`;
}

function treeRows(trace: Trace, verbose: boolean): string[] {
  const childrenOf = childIndexes(trace.lines);
  const rows: string[] = [];
  // Children are pushed last to first, so that they come off in file order.
  const pending = (childrenOf.get(null) ?? []).toReversed().map((index) => ({ index, depth: 0 }));
  for (let next = pending.pop(); next !== undefined; next = pending.pop()) {
    const { index, depth } = next;
    const line = trace.lines[index]!;
    const text = stepRow(line, verbose);
    if (text !== null) {
      if (line.event_type === "task_start") rows.push("");
      rows.push(`${"  ".repeat(depth)}${text}`);
    }
    for (const child of (childrenOf.get(index) ?? []).toReversed()) {
      pending.push({ index: child, depth: text === null ? depth : depth + 1 });
    }
  }
  return rows;
}

/** Positions of each line's children. A parent stands earlier in the file; whoever names no such line hangs off its task. */
function childIndexes(lines: readonly TraceLine[]): Map<number | null, number[]> {
  const byId = new Map<string, number>();
  const byTask = new Map<string, number>();
  const children = new Map<number | null, number[]>();
  lines.forEach((line, index) => {
    const parent = (typeof line.parent_id === "string" ? byId.get(line.parent_id) : undefined) ??
      (line.event_type !== "task_start" && typeof line.task_id === "string" ? byTask.get(line.task_id) : undefined) ??
      null;
    const siblings = children.get(parent);
    if (siblings === undefined) children.set(parent, [index]);
    else siblings.push(index);
    if (typeof line.event_id === "string") byId.set(line.event_id, index);
    if (isEvent(line, "task_start")) byTask.set(line.task_id, index);
  });
  return children;
}

function flatRows(trace: Trace): string[] {
  return linesOf(trace, "inference").map((line) => {
    const took = (line as { readonly duration_ms?: unknown }).duration_ms;
    return `  ${String(line.turn).padEnd(3)}${line.decision.padEnd(13)}${(line.tool_name ?? "").padEnd(12)}${
      typeof took === "number" ? duration(took) : "—"
    }`;
  });
}

function firstText(input: unknown): string | null {
  if (typeof input !== "object" || input === null) return null;
  return Object.values(input).find((value): value is string => typeof value === "string") ?? null;
}

/** One row without its indentation; `null` for a line that is not shown. */
function stepRow(line: TraceLine, verbose: boolean): string | null {
  if (isEvent(line, "task_start")) {
    return `task ${short(line.task_id)}  ${short(line.context_id ?? "—")}  (${line.source ?? "—"}, ${
      line.origin ?? "—"
    }/${line.trust ?? "—"}, lane ${line.lane ?? "—"})`;
  }
  if (isEvent(line, "inference") && line.origin === undefined) {
    const tool = line.tool_name ?? null;
    return `turn ${line.turn}  ${line.decision}${tool === null ? "" : `  ${tool}`}`;
  }
  const text = rowText(line, verbose);
  if (text === null) return null;
  const name = line.event_type;
  return `${name.length < 11 ? name.padEnd(11) : `${name} `}${text}`;
}

function rowText(line: TraceLine, verbose: boolean): string | null {
  if (isEvent(line, "inference")) return `${line.origin ?? ""}  ${line.decision}`;
  if (isEvent(line, "tool_call")) {
    const text = verbose ? firstText(line.input) : null;
    const input = text === null ? "" : `  "${cut(text, 60).replaceAll("\n", " ")}"`;
    return `${line.tool_name}  ${duration(line.duration_ms)}  ${mark(line.status)}${input}`;
  }
  if (isEvent(line, "shell")) return `${line.binary}  exit ${line.exit_code}  ${duration(line.duration_ms)}`;
  if (isEvent(line, "skill_call")) {
    const untrusted = line.trust === "untrusted" ? " (runtime/untrusted)" : "";
    return `${line.skill_name}  ${duration(line.duration_ms)}  ${mark(line.status)}${untrusted}`;
  }
  if (isEvent(line, "shell_detached")) {
    return `${line.binary}  ${short(line.work_id)}  detached after ${duration(line.grace_ms ?? 0)}`;
  }
  if (isEvent(line, "shell_completed")) {
    return `${line.binary}  ${short(line.work_id)}  exit ${line.exit_code} ${mark(line.status)}  ${
      duration(line.duration_ms)
    }  ${line.output_path ?? "—"}`;
  }
  if (isEvent(line, "shell_abandoned")) {
    return `${line.binary}  ${short(line.work_id)}  still running after ${duration(line.running_ms)}  result lost`;
  }
  if (isEvent(line, "shell_lost")) {
    return `${line.binary}  ${short(line.work_id)}  detached at ${line.detached_at_ms ?? "—"}  no result, reported by ${
      short(line.reconciled_by_session ?? "—")
    }`;
  }
  if (isEvent(line, "compaction")) {
    return `${thousands(line.tokens_before)} → ${thousands(line.tokens_after)} tokens`;
  }
  if (isEvent(line, "compaction_declined")) return `${thousands(line.tokens)} tokens  ${line.reason}`;
  if (isEvent(line, "context_seed")) return `${line.hook_name}  ${line.outcome}  ${thousands(line.tokens)} tokens`;
  if (isEvent(line, "task_reopened")) return `${line.hook_name}  reopen ${line.reopen_number}`;
  if (isEvent(line, "call_denied")) return `${line.event}  ${line.target}  denied by ${line.hook_name}`;
  if (isEvent(line, "protected_path_denied")) return `${line.call}  ${line.path}  rule ${line.rule}`;
  if (isEvent(line, "tool_input_refused")) return `${line.tool_name}  missing ${line.missing.join(", ")}`;
  if (isEvent(line, "task_failed")) return `${line.cause}  ${cut(line.reason, 120).replaceAll("\n", " ")}`;
  if (isEvent(line, "task_rejected")) return `${line.cause}  ${short(line.task_id)}`;
  if (isEvent(line, "artifact_pulled")) return `${line.name}@${line.version} (${line.origin}/${line.trust})`;
  if (isEvent(line, "plan_start")) return `${line.plan_id}  ${line.steps.length} steps`;
  if (isEvent(line, "plan_step_start")) {
    const after = line.depends_on ?? [];
    return `${line.step_id}  ${line.kind}${after.length === 0 ? "" : `  after ${after.join(", ")}`}`;
  }
  if (isEvent(line, "plan_step")) {
    return `${line.step_id}  ${line.kind}  ${line.status}  ${duration(line.duration_ms)}`;
  }
  if (isEvent(line, "plan_end")) {
    return `${line.outcome}${line.failed_step === undefined ? "" : `  failed at ${line.failed_step}`}`;
  }
  return null;
}
