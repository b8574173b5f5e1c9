/**
 * Which context a task runs in, whether its record is loaded, and what `--resume` continues (spec session 13.4).
 *
 * @module
 */
import { MurError } from "../../base/errors.ts";
import { newId } from "../../base/ids.ts";

/** What the launch settled. */
export interface LaunchContext {
  readonly conversation: "stateless" | "threaded";
  /** `--context`. */
  readonly given: string | null;
  /** Context of the session that `--resume` continues. */
  readonly resumed: string | null;
}

/** A task's context. */
export interface TaskContext {
  readonly contextId: string;
  readonly loadHistory: boolean;
}

/** Context of a launch task. */
export function launchTaskContext(launch: LaunchContext): TaskContext {
  const contextId = launch.given ?? launch.resumed;
  if (contextId === null) return { contextId: newId("ctx"), loadHistory: false };
  return { contextId, loadHistory: launch.conversation === "threaded" || launch.resumed !== null };
}

/** Context of an A2A task. The resumed record is loaded for this launch whatever `lifecycle.conversation` says. */
export function a2aTaskContext(launch: LaunchContext, contextId: string | null): TaskContext {
  if (contextId === null) return { contextId: newId("ctx"), loadHistory: false };
  return { contextId, loadHistory: launch.conversation === "threaded" || contextId === launch.resumed };
}

/**
 * The context a session's trace names: that of its `session_start`, else of its first `task_start`. Reads no further than
 * it needs, so a torn trace works; a line that is no JSON is passed over.
 */
export function tracedContext(lines: Iterable<string>): string | null {
  for (const line of lines) {
    let event: unknown;
    try {
      event = JSON.parse(line);
    } catch {
      continue;
    }
    if (typeof event !== "object" || event === null) continue;
    const { event_type: type, context_id: contextId } = event as Record<string, unknown>;
    if (type !== "session_start" && type !== "task_start") continue;
    if (typeof contextId === "string" && contextId !== "") return contextId;
    if (type === "task_start") return null;
  }
  return null;
}

/** What `--resume` is judged by. */
export interface ResumeQuestion {
  readonly sessionId: string;
  /** Lines of the session's trace. */
  readonly trace: Iterable<string>;
  /** `null`: the manifest has no `inference:` block. */
  readonly transport: "http" | "process" | null;
  /** `context.record` is not `off`. */
  readonly recording: boolean;
  /** Whether the context kept anything: a non-empty record, or under `process` a harness session. */
  readonly kept: (contextId: string) => boolean;
}

/**
 * The context that `--resume` continues.
 *
 * @throws {MurError} `E-RUN-016` when the trace names none, `E-RUN-017` when the context kept nothing.
 */
export function resumeContext(question: ResumeQuestion): string {
  const contextId = tracedContext(question.trace);
  if (contextId === null) {
    throw new MurError("E-RUN-016", `session ${question.sessionId} cannot be resumed: its trace names no context`, {
      hint: "resume another session, or start a new one with --context",
    });
  }
  const nothing = (why: string) =>
    new MurError("E-RUN-017", `session ${question.sessionId} cannot be resumed: ${why}`, {
      hint: "launch without --resume",
    });
  if (question.transport === null) throw nothing("the manifest has no inference: block, so nothing is recorded");
  if (question.transport === "http" && !question.recording) throw nothing("the manifest says context.record: off");
  if (!question.kept(contextId)) {
    const missing = question.transport === "http" ? "conversation.jsonl" : "harness-session.json";
    throw nothing(`context ${contextId} has no ${missing}`);
  }
  return contextId;
}
