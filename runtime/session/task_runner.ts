/**
 * One task from its start to its end: text written down, traced, attempted, its result filed and told
 * (spec session 7).
 *
 * @module
 */
import { reasonOf } from "../../base/errors.ts";
import type { RootedDir } from "../../base/rooted_dir.ts";
import { writeAtomicallyIn } from "../../base/atomic_file.ts";
import { afterThreadedTask } from "../agent/driver_continuation.ts";
import { type Message, userMessage } from "../agent/message.ts";
import type { ConversationRecord } from "../agent/conversation_record.ts";
import { mendToolPairs } from "../agent/tool_pairs.ts";
import {
  type AttemptEnd,
  type AttemptInput,
  type AttemptResult,
  type ContinuationSlot,
  runAttempt,
  SESSION_ENDED,
  type TurnLoopServices,
} from "../agent/turn_loop.ts";
import { fence, fenceSource } from "../agent/untrusted_fence.ts";
import type { MurError } from "../../base/errors.ts";
import type { TaskExitStatus } from "../trace/trace_event.ts";
import type { TraceWriter } from "../trace/trace_writer.ts";
import type { FinalTaskState } from "./frame_log.ts";
import type { HandedOffWork, TaskEndCause } from "./handed_off_work.ts";
import { STATUS_TEXT, type TaskRegistry, type TaskRequest } from "./task_registry.ts";

/** How a task ended. */
export interface TaskOutcome {
  readonly status: TaskExitStatus;
  /** The answer of a task that ended `ok`, else why it did not. */
  readonly text: string;
  /** The session cannot go on. */
  readonly fatal: MurError | null;
}

/** What running a task needs of its session. */
export interface TaskServices {
  readonly trace: TraceWriter;
  readonly registry: Pick<TaskRegistry, "finish" | "cancelPhase" | "waitIn">;
  readonly runtimeDir: RootedDir;
  /** `out/` of the records directory. */
  readonly out: RootedDir;
  readonly threaded: boolean;
  readonly maxTurns: number;
  readonly continuation: ContinuationSlot;
  /** Work ids of commands that were moved to the background and still run. */
  detachedWork(): readonly string[];
  /** What tasks hand to others; `null`: this capsule may not. */
  readonly handedOff: HandedOffWork | null;
  /** Loop services for one task; the tool list is read when the task starts (spec session 8.2). */
  loopFor(task: TaskRequest, record: (messages: readonly Message[]) => void): TurnLoopServices;
  openRecord(contextId: string): Promise<ConversationRecord | null>;
  report(text: string): void;
}

const STATES: Readonly<Record<TaskExitStatus, FinalTaskState>> = {
  ok: "completed",
  failed: "failed",
  max_turns_reached: "failed",
  spend_ceiling_reached: "failed",
  reopen_budget_exhausted: "failed",
  canceled: "canceled",
  no_answer: "failed",
};

/** Answer of a canceled task in the result file. */
const CANCELED_TEXT = "the task was canceled";

/** What a task's final status says (spec door 12.2). */
function statusText(end: AttemptEnd, maxTurns: number): string {
  switch (end.kind) {
    case "ok":
      return SESSION_ENDED;
    case "failed":
      return end.statusText;
    case "max_turns_reached":
      return `max_turns exceeded: the task used all ${maxTurns} inference turns`;
    case "spend_ceiling_reached":
      return end.message;
    case "fatal":
      return `error[${end.error.code}]: ${end.error.message}`;
    case "canceled":
      return STATUS_TEXT.canceled;
  }
}

/** Runs one task to its end. @throws {MurError} `E-RUN-007` when the trace cannot be written. */
export async function runTask(services: TaskServices, task: TaskRequest, signal: AbortSignal): Promise<TaskOutcome> {
  const { trace } = services;
  const { door } = task;
  try {
    writeAtomicallyIn(services.runtimeDir, "task.md", task.text, { mode: 0o600, durable: false });
  } catch (cause) {
    services.report(`task.md could not be written: ${reasonOf(cause)}`);
  }
  if (door !== null) {
    trace.write("a2a_task_received", {
      task_id: task.id,
      context_id: task.contextId,
      message_id: door.messageId,
      traceparent_from_caller: door.traceparent,
      ...(door.submitter === null ? {} : { caller_member: door.submitter }),
    });
  }
  trace.write("task_start", {
    task_id: task.id,
    context_id: task.contextId,
    source: task.source,
    origin: task.standing.origin,
    trust: task.standing.trust,
    lane: task.standing.lane,
    message_parts_bytes: new TextEncoder().encode(task.text).length,
    ...(door === null || door.referenceTaskIds.length === 0 ? {} : { reference_task_ids: door.referenceTaskIds }),
    ...(door === null ? {} : { part_kinds: door.partKinds }),
  });
  const record = await services.openRecord(task.contextId);
  record?.beginAttempt();
  const history = task.loadHistory ? mendToolPairs(record?.messages ?? []) : [];
  const messages = [...history, taskMessage(task)];
  record?.append(messages);
  const loop = services.loopFor(task, (entered) => record?.append(entered));
  const attempt = await runAttempts(services, loop, {
    taskId: task.id,
    contextId: task.contextId,
    overDoor: door !== null,
    trust: task.standing.trust,
    messages,
    turnsUsed: 0,
    maxTurns: services.maxTurns,
    continuation: services.continuation,
    signal,
  }, (entered) => record?.append(entered));
  const outcome = outcomeOf(attempt.end);
  writeResult(services, task, outcome);
  if (attempt.end.kind === "failed") {
    const { turn, cause } = attempt.end;
    trace.write("task_failed", { task_id: task.id, turn, cause, reason: outcome.text });
  } else if (attempt.end.kind === "fatal") {
    trace.write("task_failed", { task_id: task.id, cause: "runtime_error", reason: outcome.text });
  } else if (attempt.end.kind === "canceled") {
    trace.write("task_canceled", {
      task_id: task.id,
      turn: attempt.end.turn,
      phase: services.registry.cancelPhase(task.id) ?? attempt.end.phase,
      detached_work_ids: services.detachedWork(),
      delegation_ids: services.handedOff?.inFlight(task.id) ?? [],
    });
  }
  await services.handedOff?.endTask(task.id, endCause(attempt.end, outcome.status));
  if (outcome.status === "ok" && services.threaded) {
    services.continuation.current = afterThreadedTask(
      services.continuation.current,
      task.contextId,
      attempt.messages.length,
    );
  }
  trace.endTask({ exitStatus: outcome.status, reopenCount: 0 });
  services.registry.finish(task.id, {
    state: STATES[outcome.status],
    message: statusText(attempt.end, services.maxTurns),
    response: outcome.status === "ok" ? outcome.text : null,
  });
  return outcome;
}

/** Attempts at a task, each after the first with what the work it handed off came to (spec session 16.2). */
async function runAttempts(
  services: TaskServices,
  loop: TurnLoopServices,
  input: AttemptInput,
  enter: (messages: readonly Message[]) => void,
): Promise<AttemptResult> {
  const { handedOff, registry, trace } = services;
  const { taskId, maxTurns } = input;
  let attempt = await runAttempt(loop, input);
  for (let continuation = 1; handedOff?.has(taskId); continuation++) {
    const { end, messages, turnsUsed } = attempt;
    if (end.kind !== "ok" || turnsUsed >= maxTurns) break;
    const round = await registry.waitIn(taskId, "delegation", (signal) => handedOff.round(taskId, signal));
    if (round === null) return { ...attempt, end: { kind: "canceled", phase: "delegation", turn: turnsUsed - 1 } };
    trace.write("task_continued", {
      task_id: taskId,
      continuation_number: continuation,
      member_calls: [],
      delegations: round.delegations,
      waited_ms: round.waitedMs,
      turns_remaining: maxTurns - turnsUsed,
    });
    const outcomes = userMessage(round.text, { fence: round.fence });
    enter([outcomes]);
    attempt = await runAttempt(loop, { ...input, messages: [...messages, outcomes], turnsUsed });
  }
  return attempt;
}

/** Why a task that ended so ends what still runs for it (spec roost 14.5). */
function endCause({ kind }: AttemptEnd, exitStatus: TaskExitStatus): TaskEndCause {
  switch (kind) {
    case "canceled":
      return { kind: "canceled" };
    case "ok":
    case "max_turns_reached":
      return { kind: "no-turn" };
    default:
      return { kind: "task-ended", exitStatus };
  }
}

function taskMessage(task: TaskRequest): Message {
  if (task.standing.trust === "trusted") return userMessage(task.text);
  const source = fenceSource("task", task.standing.origin);
  return userMessage(fence(source, task.text), { fence: source });
}

function outcomeOf(end: AttemptEnd): TaskOutcome {
  switch (end.kind) {
    case "ok":
      return { status: "ok", text: end.text, fatal: null };
    case "failed":
      return { status: "failed", text: end.message, fatal: null };
    case "fatal":
      return { status: "failed", text: end.error.message, fatal: end.error };
    case "max_turns_reached":
    case "spend_ceiling_reached":
      return { status: end.kind, text: end.message, fatal: null };
    case "canceled":
      return { status: "canceled", text: CANCELED_TEXT, fatal: null };
  }
}

/** What `out/result.txt` holds (spec session 7). */
export function resultText(outcome: TaskOutcome): string {
  switch (outcome.status) {
    case "failed":
    case "max_turns_reached":
      return `error: ${outcome.text}`;
    default:
      return outcome.text;
  }
}

function writeResult(services: TaskServices, task: TaskRequest, outcome: TaskOutcome): void {
  const text = resultText(outcome);
  const names = ["result.txt"];
  if (task.door !== null && services.threaded && outcome.status === "ok") names.push(`result_${task.id}.txt`);
  for (const name of names) {
    try {
      writeAtomicallyIn(services.out, name, text, { mode: 0o600 });
    } catch (cause) {
      services.report(`out/${name} could not be written: ${reasonOf(cause)}`);
    }
  }
}
