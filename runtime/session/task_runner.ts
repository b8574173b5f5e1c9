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
import type { TaskHooks } from "../agent/agent_hooks.ts";
import { feedbackMessage, reopenedTask, type Reopening } from "../agent/reopen_text.ts";
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
import type { FinalTaskState, FrameLog } from "./frame_log.ts";
import type { AttemptEndCause, HandedOffWork } from "./handed_off_work.ts";
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
  readonly frames: Pick<FrameLog, "publish">;
  readonly threaded: boolean;
  readonly maxTurns: number;
  /** `lifecycle.max_task_reopens`. */
  readonly maxReopens: number;
  /** `null`: the session has no hooks. */
  readonly hooks: TaskHooks | null;
  /** Whether the loaded history of this context is to be compacted first; true once (`--resume-mode compact`). */
  compactOnce(contextId: string): boolean;
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
  writeTaskFile(services, task.text);
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
  let history: readonly Message[] = task.loadHistory ? mendToolPairs(record?.messages ?? []) : [];
  const seed = await services.hooks?.started(task, history) ?? [];
  if (history.length > 0 && services.hooks !== null && services.compactOnce(task.contextId)) {
    history = await services.hooks.compactHistory(history);
  }
  const before = [...seed, ...history];
  // A driver that keeps the conversation has none of the seed.
  if (seed.length > 0) services.continuation.current = null;
  const loop = services.loopFor(task, (entered) => record?.append(entered));
  const attempts = await runUntilAccepted(services, task, { before, record, loop, signal });
  // From here on nothing is waited for, so no cancel is accepted that this does not tell.
  const { attempt, outcome, reopenings, exhausted } = signal.aborted ? canceledIn(services, task, attempts) : attempts;
  services.handedOff?.leaveTask(task.id);
  if (exhausted !== null) {
    trace.write("task_failed", { task_id: task.id, cause: "reopen_budget_exhausted", reason: exhausted });
  } else if (attempt.end.kind === "failed") {
    const { turn, cause } = attempt.end;
    trace.write("task_failed", { task_id: task.id, turn, cause, reason: outcome.text });
  } else if (attempt.end.kind === "fatal") {
    trace.write("task_failed", { task_id: task.id, cause: "runtime_error", reason: outcome.text });
  }
  if (outcome.status === "ok" && services.threaded) {
    services.continuation.current = afterThreadedTask(
      services.continuation.current,
      task.contextId,
      attempt.messages.length,
    );
  }
  // Of the task's own end: an attempt that was sent back, or canceled meanwhile, leaves none.
  if (outcome.status === "ok" && door !== null && services.threaded) {
    writeOut(services, `result_${task.id}.txt`, resultText(outcome));
  }
  trace.endTask({ exitStatus: outcome.status, reopenCount: reopenings });
  if (outcome.status === "ok" && door !== null) publishArtifacts(services, task, attempt);
  services.hooks?.done();
  services.registry.finish(task.id, {
    state: STATES[outcome.status],
    message: exhausted ?? statusText(attempt.end, services.maxTurns),
    response: outcome.status === "ok" ? outcome.text : null,
  });
  return outcome;
}

/** How often a task went on with what came back, over all its attempts, and where that is kept. */
interface Continued {
  times: number;
  enter(messages: readonly Message[]): void;
}

/** One attempt at a task, going on each time with what the work it handed off came to (spec session 16.2). */
async function runContinued(
  services: TaskServices,
  loop: TurnLoopServices,
  input: AttemptInput,
  continued: Continued,
): Promise<AttemptResult> {
  const { handedOff, registry, trace } = services;
  const { taskId, maxTurns } = input;
  let attempt = await runAttempt(loop, input);
  while (handedOff?.has(taskId)) {
    const { end, messages, turnsUsed } = attempt;
    if (end.kind !== "ok" || turnsUsed >= maxTurns) break;
    const round = await registry.waitIn(taskId, "delegation", (signal) => handedOff.round(taskId, signal));
    if (round === null) return { ...attempt, end: { kind: "canceled", phase: "delegation", turn: turnsUsed - 1 } };
    trace.write("task_continued", {
      task_id: taskId,
      continuation_number: ++continued.times,
      member_calls: [],
      delegations: round.delegations,
      waited_ms: round.waitedMs,
      turns_remaining: maxTurns - turnsUsed,
    });
    const outcomes = userMessage(round.text, { fence: round.fence });
    continued.enter([outcomes]);
    attempt = await runAttempt(loop, { ...input, messages: [...messages, outcomes], turnsUsed });
  }
  return attempt;
}

/** Why an attempt that ended so ends what still runs for its task (spec roost 14.5). */
function endCause({ kind }: AttemptEnd, exitStatus: TaskExitStatus): AttemptEndCause {
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

/** What the attempts at a task work with. */
interface AttemptPlan {
  /** What stands before the task: a seed and the history. */
  readonly before: readonly Message[];
  readonly record: ConversationRecord | null;
  readonly loop: TurnLoopServices;
  readonly signal: AbortSignal;
}

/** What the attempts came to. */
interface Attempts {
  /** The last one. */
  readonly attempt: AttemptResult;
  readonly outcome: TaskOutcome;
  readonly reopenings: number;
  /** Why a hook's last wish for another attempt was not met; `null` when there was none. */
  readonly exhausted: string | null;
}

/**
 * What the attempts at a task came to that was canceled meanwhile. A cancel may have been accepted when the last one had ended
 * already, while hooks were told of it: it stands whatever that one came to (spec door 8.2, 10.3).
 */
function canceledIn(services: TaskServices, task: TaskRequest, attempts: Attempts): Attempts {
  const { attempt, outcome } = attempts;
  if (outcome.status === "canceled" || outcome.fatal !== null) return attempts;
  const end = { kind: "canceled", phase: "turn", turn: Math.max(0, attempt.turnsUsed - 1) } as const;
  const canceled = outcomeOf(end);
  writeResult(services, canceled);
  traceCanceled(services, task, end);
  return { ...attempts, attempt: { ...attempt, end }, outcome: canceled, exhausted: null };
}

function traceCanceled(
  { trace, registry, detachedWork, handedOff }: TaskServices,
  task: TaskRequest,
  { turn, phase }: Extract<AttemptEnd, { kind: "canceled" }>,
): void {
  trace.write("task_canceled", {
    task_id: task.id,
    turn,
    phase: registry.cancelPhase(task.id) ?? phase,
    detached_work_ids: detachedWork(),
    delegation_ids: handedOff?.inFlight(task.id) ?? [],
  });
}

/** Attempts at a task until one stands (spec session 11). Turns count over all of them. */
async function runUntilAccepted(
  services: TaskServices,
  task: TaskRequest,
  { before, record, loop, signal }: AttemptPlan,
): Promise<Attempts> {
  const { trace, hooks, maxTurns, maxReopens } = services;
  const reopenings: Reopening[] = [];
  let messages: readonly Message[] = [...before, taskMessage(task, task.text)];
  let text = task.text;
  let turnsUsed = 0;
  const continued: Continued = { times: 0, enter: (entered) => record?.append(entered) };
  for (;;) {
    record?.append(messages);
    hooks?.attempting(text);
    const attempt = await runContinued(services, loop, {
      taskId: task.id,
      contextId: task.contextId,
      overDoor: task.door !== null,
      trust: task.standing.trust,
      messages,
      turnsUsed,
      turnsBefore: turnsUsed,
      reopen: reopenings.length,
      maxTurns,
      continuation: services.continuation,
      signal,
    }, continued);
    turnsUsed = attempt.turnsUsed;
    const outcome = outcomeOf(attempt.end);
    writeResult(services, outcome);
    if (attempt.end.kind === "canceled") traceCanceled(services, task, attempt.end);
    await services.handedOff?.endRunning(task.id, endCause(attempt.end, outcome.status));
    const wish = await hooks?.ended(task.id, outcome.status, resultText(outcome)) ?? null;
    // Nobody goes on with what a person stopped, nor in a session that cannot.
    if (wish === null || attempt.end.kind === "canceled" || attempt.end.kind === "fatal" || signal.aborted) {
      return { attempt, outcome, reopenings: reopenings.length, exhausted: null };
    }
    const used = reopenings.length;
    if (used >= maxReopens || turnsUsed >= maxTurns) {
      const limit = used >= maxReopens
        ? `task reopen budget exhausted: lifecycle.max_task_reopens is ${maxReopens}`
        : `task turn budget exhausted: inference.max_turns is ${maxTurns}`;
      const exhausted =
        `${limit}, the task was reopened ${used} times and hook '${wish.hook}' asks for another attempt`;
      return {
        attempt,
        outcome: { status: "reopen_budget_exhausted", text: exhausted, fatal: null },
        reopenings: used,
        exhausted,
      };
    }
    reopenings.push(wish);
    const goesOn = attempt.messages.length > messages.length;
    trace.write("task_reopened", {
      task_id: task.id,
      hook_name: wish.hook,
      reason: wish.reason,
      reopen_number: reopenings.length,
      attempt_context: goesOn ? "continued" : "restarted",
      turns_remaining: maxTurns - turnsUsed,
    });
    text = reopenedTask(task.text, reopenings);
    writeTaskFile(services, text);
    if (goesOn) {
      messages = [...attempt.messages, taskMessage(task, feedbackMessage(wish, reopenings.length))];
    } else {
      services.continuation.current = null;
      messages = [...before, taskMessage(task, text)];
    }
  }
}

/** What hooks added to the turn that ended a task (spec door 12.2). */
function publishArtifacts(services: TaskServices, task: TaskRequest, { artifacts }: AttemptResult): void {
  for (const { hook, content } of artifacts) {
    services.frames.publish({
      type: "artifact",
      taskId: task.id,
      toolName: hook,
      toolCallId: null,
      content,
      fenceSource: null,
      isError: false,
      durationMs: null,
      exitCode: null,
      truncated: false,
    });
  }
}

function writeTaskFile(services: TaskServices, text: string): void {
  try {
    writeAtomicallyIn(services.runtimeDir, "task.md", text, { mode: 0o600, durable: false });
  } catch (cause) {
    services.report(`task.md could not be written: ${reasonOf(cause)}`);
  }
}

/** A text of the task's own, or feedback on it, as the model is given it. */
function taskMessage(task: TaskRequest, text: string): Message {
  if (task.standing.trust === "trusted") return userMessage(text);
  const source = fenceSource("task", task.standing.origin);
  return userMessage(fence(source, text), { fence: source });
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

/** Files what a task came to, as often as an attempt ends; the last one stands. */
function writeResult(services: TaskServices, outcome: TaskOutcome): void {
  writeOut(services, "result.txt", resultText(outcome));
}

function writeOut(services: TaskServices, name: string, text: string): void {
  try {
    writeAtomicallyIn(services.out, name, text, { mode: 0o600 });
  } catch (cause) {
    services.report(`out/${name} could not be written: ${reasonOf(cause)}`);
  }
}
