/**
 * `mur trace show`: one session's trace, summed up (spec trace 12.3, cli 14.1).
 *
 * @module
 */
import { absolutePath } from "../base/paths.ts";
import { MurError } from "../base/errors.ts";
import { recordsGroup } from "../base/murmur_home.ts";
import { escapeControls } from "../runtime/agent/terminal_text.ts";
import { findTrace } from "../runtime/trace/session_address.ts";
import { parseTrace, parseTraceLines, readTraceText } from "../runtime/trace/trace_reader.ts";
import type { CliContext } from "./context.ts";
import { selectBody, storedBody } from "./trace_body.ts";
import { traceSummary } from "./trace_sections.ts";

export interface TraceShowOptions {
  /** Session address; default `@1`. */
  readonly session?: string;
  /** `--workdir`; default `./workdir`. */
  readonly workdir?: string;
  /** `--body`. */
  readonly body?: string;
  /** `--turn`. */
  readonly turn?: number;
}

/** Absolute path of the work folder a trace command looks at. */
export function traceWorkdir(context: Pick<CliContext, "cwd">, workdir: string | undefined): string {
  return absolutePath(context.cwd, workdir ?? "workdir");
}

/** Runs the command. @throws {MurError} `E-TRC-001`, `E-TRC-002`, `E-IO-001`, `E-IO-003`. */
export async function traceShow(context: CliContext, options: TraceShowOptions): Promise<number> {
  if (options.turn !== undefined && options.body === undefined) {
    throw new MurError("E-TRC-001", "--turn has no meaning without --body");
  }
  const home = context.home();
  const directory = traceWorkdir(context, options.workdir);
  const path = await findTrace(options.session ?? "@1", { home, directory }, context.cwd);
  const text = await readTraceText(path);
  if (options.body !== undefined) {
    const { lines } = parseTraceLines(text, path);
    const named = selectBody(lines, options.body, options.turn ?? null);
    const bytes = storedBody(path.slice(0, path.lastIndexOf("/")), named);
    const body = new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes);
    // A pipe gets the bytes as they are; a terminal must not obey what a model or a tool wrote.
    context.stdout.write(context.stdout.isTerminal ? escapeControls(body) : body);
    return 0;
  }
  const summary = traceSummary(parseTrace(text, path), {
    childTrace: (workdir, session) => `${recordsGroup(home, workdir)}/${session}/trace.jsonl`,
  });
  // Names, inputs and reasons come from models and tools.
  context.stdout.write(escapeControls(summary));
  return 0;
}
