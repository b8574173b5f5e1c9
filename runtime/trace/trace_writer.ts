/**
 * Writes `trace.jsonl`: one line per event, each line one write, hung into the tree of session, task and turn
 * (spec trace 3). Everything here is synchronous, so the two writers of a file can never interleave inside a line.
 *
 * @module
 */
import { MurError, reasonOf } from "../../base/errors.ts";
import { newId } from "../../base/ids.ts";
import type { RootedDir, RootedFile } from "../../base/rooted_dir.ts";
import { countLine, NO_COUNTS, type TraceCounts } from "./trace_counters.ts";
import {
  parentRule,
  serializeTraceEvent,
  type SessionExitStatus,
  type TaskExitStatus,
  type TraceEventBody,
  type TraceEventType,
} from "./trace_event.ts";
import { redactJson, redactReason } from "./trace_redaction.ts";
import { type Capture, WireCapture } from "./wire_capture.ts";

/** What a trace is opened with. */
export interface TraceOptions {
  /** The session's records directory; it must outlive the writer. */
  readonly records: RootedDir;
  readonly sessionId: string;
  readonly capture: Capture;
  /** Every credential value the session holds now; none of them reaches a line. */
  readonly credentials?: () => readonly string[];
  /** Takes what is tolerated instead of ending the session: one line for `logs/bootstrap.log`. */
  readonly report?: (text: string) => void;
  /** Unix milliseconds. */
  readonly now?: () => number;
}

/** Events whose loss the session survives (spec trace 3.2). */
const TOLERATED: ReadonlySet<TraceEventType> = new Set(["compaction", "compaction_declined", "context_seed"]);

/** An append handle that never leaves two lines joined, nor half a line before another. */
class LineFile {
  readonly #file: RootedFile;
  readonly #encoder = new TextEncoder();
  /** Bytes of whole lines. */
  #size: number;
  /** Half a line stands at the end and could not be taken back; the next one then starts a fresh line. */
  #torn = false;

  constructor(file: RootedFile) {
    this.#file = file;
    this.#size = file.stat().size;
  }

  append(line: string): void {
    const bytes = this.#encoder.encode(this.#torn ? `\n${line}\n` : `${line}\n`);
    try {
      this.#file.append(bytes);
      this.#size += bytes.length;
      this.#torn = false;
    } catch (cause) {
      this.#takeBack();
      throw cause;
    }
  }

  /** A full disk takes a part of a line before it refuses the rest. */
  #takeBack(): void {
    try {
      this.#file.truncate(this.#size);
    } catch {
      this.#torn = true;
    }
  }

  close(): void {
    this.#file.close();
  }
}

/** The handle of the HTTP listener, the peer-file tools, delegation and control: its failures are swallowed. */
export interface SecondTraceWriter {
  /** Writes one line and returns its id, or `null` when the line did not land. */
  write<T extends TraceEventType>(type: T, body: TraceEventBody<T>, options?: TraceWriteOptions): string | null;
}

export interface TraceWriteOptions {
  /** Id of the `plan_start` line that a plan event hangs off. */
  readonly plan?: string;
}

/** The trace of one launch of an agent capsule. */
export class TraceWriter {
  readonly sessionId: string;
  readonly capture: Capture;
  /** Hashes and bodies of driver calls. */
  readonly wire: WireCapture;
  readonly #options: TraceOptions;
  readonly #file: LineFile;
  readonly #now: () => number;
  readonly #openedMs: number;
  readonly #sessionNode = newId("evt");
  #sessionWritten = false;
  #task: { readonly id: string; readonly node: string; readonly startedMs: number } | null = null;
  #turnNode: string | null = null;
  #sessionCounts = NO_COUNTS;
  #taskCounts = NO_COUNTS;

  private constructor(options: TraceOptions, file: LineFile) {
    this.#options = options;
    this.#file = file;
    this.#now = options.now ?? Date.now;
    this.#openedMs = this.#now();
    this.sessionId = options.sessionId;
    this.capture = options.capture;
    this.wire = new WireCapture(options.records, options.capture, (text) => options.report?.(text));
  }

  /**
   * Opens `trace.jsonl` in the records directory, creating it when absent.
   *
   * @throws {MurError} `E-RUN-007` when it cannot be opened.
   */
  static open(options: TraceOptions): TraceWriter {
    try {
      const file = options.records.openFile("trace.jsonl", { append: true, create: true, follow: false, mode: 0o600 });
      return new TraceWriter(options, new LineFile(file));
    } catch (cause) {
      throw new MurError("E-RUN-007", `trace could not be opened in ${options.records.path}: ${reasonOf(cause)}`, {
        cause,
      });
    }
  }

  /** `event_id` that `session_start` has or will have. */
  get sessionNode(): string {
    return this.#sessionNode;
  }

  /** Counts of the launch so far. */
  get sessionCounts(): TraceCounts {
    return this.#sessionCounts;
  }

  /** Milliseconds since the trace was opened. */
  get durationMs(): number {
    return this.#now() - this.#openedMs;
  }

  /** Counts of the running task so far; of the last one between tasks. */
  get taskCounts(): TraceCounts {
    return this.#taskCounts;
  }

  /**
   * Writes one line of the agent loop and returns its `event_id`.
   *
   * A `shell_detached` that cannot be written is followed by `shell_detach_unrecorded`; the loss of `compaction`,
   * `compaction_declined` and `context_seed` is reported and survived.
   *
   * @throws {MurError} `E-RUN-007` when the line could not be written; it ends the session.
   */
  write<T extends TraceEventType>(type: T, body: TraceEventBody<T>, options: TraceWriteOptions = {}): string {
    const eventId = type === "session_start" ? this.#sessionNode : newId("evt");
    try {
      this.#append(type, eventId, body, options);
    } catch (cause) {
      const reason = `trace write failed: ${reasonOf(cause)}`;
      if (type === "shell_detached") {
        this.#options.report?.(`${reason} (${type})`);
        const { turn, task_id, work_id, binary } = body as TraceEventBody<"shell_detached">;
        this.second.write("shell_detach_unrecorded", { turn, task_id, work_id, binary, reason });
      } else if (TOLERATED.has(type)) {
        this.#options.report?.(`${reason} (${type})`);
      } else {
        throw new MurError("E-RUN-007", reason, { cause });
      }
      return eventId;
    }
    this.#advance(type, eventId, body);
    return eventId;
  }

  /** The second writer of the file (spec trace 3.2). */
  readonly second: SecondTraceWriter = {
    write: (type, body, options = {}) => {
      const eventId = newId("evt");
      try {
        this.#append(type, eventId, body, options);
        return eventId;
      } catch (cause) {
        this.#options.report?.(`trace write failed: ${reasonOf(cause)} (${type})`);
        return null;
      }
    },
  };

  /** Writes `task_end` from the counts of the running task. Its duration runs from `task_start`. */
  endTask(end: { readonly exitStatus: TaskExitStatus; readonly reopenCount: number }): string {
    const task = this.#task;
    if (task === null) throw new Error("endTask outside a task");
    const counts = this.#taskCounts;
    return this.write("task_end", {
      task_id: task.id,
      exit_status: end.exitStatus,
      duration_ms: this.#now() - task.startedMs,
      turns: counts.turns,
      input_tokens: counts.inputTokens,
      output_tokens: counts.outputTokens,
      tool_calls: counts.toolCalls,
      shell_calls: counts.shellCalls,
      reopen_count: end.reopenCount,
    });
  }

  /** Writes `session_end` from the counts of the launch. Its duration runs from the opening of the trace. */
  endSession(exitStatus: SessionExitStatus): string {
    const counts = this.#sessionCounts;
    return this.write("session_end", {
      total_turns: counts.turns,
      total_input_tokens: counts.inputTokens,
      total_output_tokens: counts.outputTokens,
      total_tool_calls: counts.toolCalls,
      total_shell_calls: counts.shellCalls,
      duration_ms: this.durationMs,
      exit_status: exitStatus,
    });
  }

  /** Closes the file; a later line of the second writer is swallowed. */
  close(): void {
    this.#file.close();
    this.wire.close();
  }

  #append<T extends TraceEventType>(
    type: T,
    eventId: string,
    body: TraceEventBody<T>,
    options: TraceWriteOptions,
  ): void {
    const envelope = {
      event_type: type,
      event_id: eventId,
      parent_id: this.#parent(type, body, options),
      session_id: this.sessionId,
      timestamp: this.#now(),
    };
    this.#file.append(serializeTraceEvent(envelope, this.#redacted(type, body)));
  }

  #redacted<T extends TraceEventType>(type: T, body: TraceEventBody<T>): TraceEventBody<T> {
    const credentials = this.#options.credentials?.() ?? [];
    const redacted = redactJson(body, credentials) as TraceEventBody<T>;
    if (type === "inference" && "error" in body && body.error !== undefined) {
      return { ...redacted, error: redactReason(body.error, credentials) };
    }
    if (type === "task_failed") {
      return { ...redacted, reason: redactReason((body as TraceEventBody<"task_failed">).reason, credentials) };
    }
    return redacted;
  }

  #parent<T extends TraceEventType>(type: T, body: TraceEventBody<T>, options: TraceWriteOptions): string | null {
    const session = this.#sessionWritten ? this.#sessionNode : null;
    const task = this.#task?.node ?? session;
    switch (parentRule(type, body)) {
      case "none":
        return null;
      case "session":
        return session;
      case "plan":
        return options.plan ?? session;
      case "task":
        // A queued task that was cancelled is not the one in scope.
        if (type === "task_canceled" || type === "task_failed") {
          return (body as { readonly task_id: string }).task_id === this.#task?.id ? task : session;
        }
        return task;
      case "turn":
        return this.#turnNode ?? task;
    }
  }

  #advance<T extends TraceEventType>(type: T, eventId: string, body: TraceEventBody<T>): void {
    if (type === "session_start") this.#sessionWritten = true;
    if (type === "task_start") {
      this.#task = {
        id: (body as TraceEventBody<"task_start">).task_id,
        node: eventId,
        startedMs: this.#now(),
      };
      this.#turnNode = null;
      this.#taskCounts = NO_COUNTS;
    }
    this.#sessionCounts = countLine(this.#sessionCounts, type, body);
    if (this.#task !== null) this.#taskCounts = countLine(this.#taskCounts, type, body);
    if (type === "inference" && (body as TraceEventBody<"inference">).origin === undefined) this.#turnNode = eventId;
    if (type === "task_end") {
      this.#task = null;
      this.#turnNode = null;
    }
  }
}
