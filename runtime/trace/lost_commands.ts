/**
 * Commands that an earlier session left running and never heard of again: found in its trace by the launch that resumes it,
 * and marked there, so that they are reported once (spec trace 3.2, 6.4, session 13.4).
 *
 * @module
 */
import { newId } from "../../base/ids.ts";
import type { RootedDir } from "../../base/rooted_dir.ts";
import { serializeTraceEvent } from "./trace_event.ts";

/** A detached command without an end. */
export interface LostCommand {
  readonly workId: string;
  readonly binary: string;
  readonly command: string;
  /** Unix milliseconds. */
  readonly detachedAtMs: number;
}

const ENDS = new Set(["shell_completed", "shell_abandoned", "shell_lost"]);

function parsedLines(text: string): Record<string, unknown>[] {
  return text.split("\n").flatMap((line) => {
    try {
      const value: unknown = JSON.parse(line);
      return typeof value === "object" && value !== null ? [value as Record<string, unknown>] : [];
    } catch {
      return [];
    }
  });
}

/** The `shell_detached` lines of a trace's text that no later line ends. A torn or unknown line is passed over. */
export function lostCommands(text: string): LostCommand[] {
  const open = new Map<string, LostCommand>();
  for (const line of parsedLines(text)) {
    const { event_type: type, work_id: workId, binary, command, timestamp } = line;
    if (typeof workId !== "string") continue;
    if (type === "shell_detached") {
      open.set(workId, {
        workId,
        binary: typeof binary === "string" ? binary : "",
        command: typeof command === "string" ? command : "",
        detachedAtMs: typeof timestamp === "number" ? timestamp : 0,
      });
    } else if (typeof type === "string" && ENDS.has(type)) open.delete(workId);
  }
  return [...open.values()];
}

/** Who marks the commands. */
export interface Reconciler {
  /** The session whose trace it is. */
  readonly lostSession: string;
  /** The session that resumes it. */
  readonly session: string;
  /** The task that will report them. */
  readonly taskId: string;
  readonly nowMs: number;
}

/**
 * Appends a `shell_lost` line for each command to the older session's trace, after a newline when the file does not end in
 * one. Returns the commands whose line landed: only those may be reported.
 *
 * @param records Records directory of the older session.
 * @param text What its trace held when the commands were found.
 */
export function markLostCommands(
  records: RootedDir,
  text: string,
  commands: readonly LostCommand[],
  by: Reconciler,
): LostCommand[] {
  const start = parsedLines(text).find(({ event_type: type }) => type === "session_start");
  const parent = typeof start?.event_id === "string" ? { parent_id: start.event_id } : {};
  const encoder = new TextEncoder();
  const landed: LostCommand[] = [];
  try {
    using file = records.openFile("trace.jsonl", { append: true, follow: false });
    let prefix = text === "" || text.endsWith("\n") ? "" : "\n";
    for (const command of commands) {
      const line = serializeTraceEvent({
        event_type: "shell_lost",
        event_id: newId("evt"),
        ...parent,
        session_id: by.lostSession,
        timestamp: by.nowMs,
      }, {
        work_id: command.workId,
        binary: command.binary,
        command: command.command,
        detached_at_ms: command.detachedAtMs,
        reconciled_by_session: by.session,
        reconciled_task_id: by.taskId,
      });
      file.append(encoder.encode(`${prefix}${line}\n`));
      prefix = "";
      landed.push(command);
    }
  } catch {
    // What did not land is not reported, and a later resume finds it again.
  }
  return landed;
}
