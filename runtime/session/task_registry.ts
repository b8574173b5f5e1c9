/**
 * The tasks of one session from their acceptance to their end: states, acceptance rules, lanes, cancel, requests for
 * input (spec door 8, 10.3, 10.4, 11; spec session 6, 16.1, 17). A task belongs to the session, never to the connection
 * that brought it. No task is ever forgotten while the process lives; the text it was given is, with its end.
 *
 * Everything that decides is synchronous: a message is routed, accepted and announced without anything in between.
 *
 * @module
 */
import { newId } from "../../base/ids.ts";
import type { TaskStanding } from "../agent/task_origin.ts";
import type { CancelPhase, Lane, TaskSource } from "../trace/trace_event.ts";
import { type FinalTaskState, type FrameLog, isFinalState, type TaskState } from "./frame_log.ts";

/** Status texts of spec door 8.4, 11 and 12.2. */
export const STATUS_TEXT = {
  busy: "task rejected: capsule is busy",
  closing: "task rejected: the session is closing",
  sessionEnded: "task rejected: the session ended before this task started",
  sessionStopped: "task rejected: the session was stopped before this task started",
  canceled: "task canceled",
  canceledQueued: "task canceled before it started",
  resumed: "resumed",
  inputTimeout: "input-timeout",
} as const;

/** A task as others see it; the same object for as long as nothing of it has changed. */
export interface TaskView {
  readonly id: string;
  readonly contextId: string;
  readonly state: TaskState;
  /** Text of the final status. */
  readonly message: string | null;
  /** The answer of a completed task; `null` when it is empty. */
  readonly response: string | null;
  /** The question, while the task waits for input. */
  readonly prompt: string | null;
  /** Unix milliseconds of the last state change. */
  readonly changedMs: number;
  /** Member of a formation that submitted it; `null` for everybody else. */
  readonly submitter: string | null;
}

/** What the door knows of a task that came over it. */
export interface DoorOrigin {
  readonly messageId: string;
  /** `traceparent` header of the request. */
  readonly traceparent: string | null;
  readonly submitter: string | null;
  readonly referenceTaskIds: readonly string[];
  readonly partKinds: readonly ("text" | "data")[];
}

/** A task to run. */
export interface TaskRequest {
  readonly id: string;
  readonly contextId: string;
  readonly loadHistory: boolean;
  readonly text: string;
  readonly source: TaskSource;
  readonly standing: TaskStanding;
  /** `null`: it did not come over the door. */
  readonly door: DoorOrigin | null;
}

/** A message that asks for a new task. */
export interface TaskOffer {
  /** `null`: a fresh one. */
  readonly contextId: string | null;
  readonly text: string;
  readonly standing: TaskStanding;
  readonly door: DoorOrigin;
}

/** Something the session still runs after a task was canceled (spec door 10.3). */
export interface DetachedResidue {
  readonly kind: "detached_shell";
  readonly work_id: string;
  readonly binary: string;
  readonly command: string;
  readonly started_at_ms: number;
}

/** A child that still works for a task (spec door 10.3). */
export interface DelegationResidue {
  readonly kind: "delegation";
  readonly delegation_id: string;
  readonly capsule: string;
  readonly version: string;
  readonly child_session_id: string;
  /** Absolute. */
  readonly child_workdir: string;
}

export type ResidueItem = DetachedResidue | DelegationResidue;

/** Why queued tasks are refused when the session stops taking work. */
export type CloseCause = "session_ended" | "session_stopped";

/** What the registry tells the session of tasks that never run. */
export interface RegistryRecords {
  /** `task_canceled` with phase `queued`. */
  canceledQueued(task: TaskRequest): void;
  /** `task_rejected`. */
  rejected(task: TaskRequest, cause: CloseCause, reason: string): void;
}

export interface TaskRegistryOptions {
  readonly acceptance: "none" | "single" | "queue";
  /** Tasks that may wait beside the running one, under `queue`. */
  readonly queueDepth: number;
  readonly frames: FrameLog;
  readonly records: RegistryRecords;
  /** Context of a task and whether its record is loaded (spec session 13.4). */
  readonly contextOf: (contextId: string | null) => { readonly contextId: string; readonly loadHistory: boolean };
  /** What the session still runs. */
  readonly residue: () => readonly ResidueItem[];
  /** Unix milliseconds. */
  readonly now?: () => number;
}

/** How a task ended. */
export interface TaskEnd {
  readonly state: FinalTaskState;
  readonly message: string;
  readonly response: string | null;
}

/** A person did not answer in time (`lifecycle.input_timeout_secs`). */
export class InputTimeout extends Error {
  override readonly name = "InputTimeout";
  constructor() {
    super(STATUS_TEXT.inputTimeout);
  }
}

/** The task that asked has ended. */
export class InputAborted extends Error {
  override readonly name = "InputAborted";
}

interface Question {
  readonly prompt: string;
  answer(text: string): void;
  abandon(): void;
}

interface Entry {
  /** Without its text once the task has ended: what a caller may ask for later is remembered, what it sent is not. */
  request: TaskRequest;
  state: TaskState;
  message: string | null;
  response: string | null;
  question: Question | null;
  changedMs: number;
  /** Aborted by a cancel or the session's end. */
  readonly stop: AbortController;
  /** What it waits for, when that is no ordinary step of the loop. */
  waitingIn: CancelPhase | null;
  /** What it waited for when it was canceled. */
  canceledIn: CancelPhase | null;
  /** Who waits for the next state in which the caller can do something. */
  readonly settled: Set<() => void>;
  /** What others were shown last. */
  shown: TaskView | null;
}

const LANES: readonly Lane[] = ["user", "peer", "bg"];

/** The tasks of one session. */
export class TaskRegistry {
  readonly #options: TaskRegistryOptions;
  readonly #entries = new Map<string, Entry>();
  readonly #queues: Readonly<Record<Lane, Entry[]>> = { user: [], peer: [], bg: [] };
  #running: Entry | null = null;
  #closed = false;
  /** Whether a task of somebody else, the operator included, was ever started. */
  #started = false;
  #generation = 0;
  #wake: (() => void) | null = null;

  constructor(options: TaskRegistryOptions) {
    this.#options = options;
  }

  /** Tasks of this process that ended (spec session 7). */
  get generation(): number {
    return this.#generation;
  }

  get closed(): boolean {
    return this.#closed;
  }

  /** The task that runs; `null` between tasks. */
  get running(): TaskView | null {
    return this.#running === null ? null : viewOf(this.#running);
  }

  /** Tasks of others that wait; those the runtime made itself take nobody's place. */
  get #pending(): number {
    return LANES.reduce(
      (sum, lane) => sum + this.#queues[lane].filter(({ request }) => request.door !== null).length,
      0,
    );
  }

  /**
   * Takes a task from the door, or refuses it for room. A refused one is a task of its own that nobody can ask for
   * later (spec door 8.4).
   */
  offer({ contextId, text, standing, door }: TaskOffer): { readonly accepted: boolean; readonly task: TaskView } {
    const context = this.#options.contextOf(contextId);
    const request: TaskRequest = { id: newId("tsk"), ...context, text, source: "a2a", standing, door };
    const refusal = this.#closed ? STATUS_TEXT.closing : this.#hasRoom() ? null : STATUS_TEXT.busy;
    const entry = this.#entryOf(request);
    if (refusal !== null) {
      entry.state = "rejected";
      entry.message = refusal;
      return { accepted: false, task: viewOf(entry) };
    }
    this.#enqueue(entry);
    return { accepted: true, task: viewOf(entry) };
  }

  /** Queues a task the runtime made itself; no acceptance rule gates it. Refused once the session is closed. */
  enqueue(request: TaskRequest): void {
    if (this.#closed) {
      this.#options.records.rejected(request, "session_ended", STATUS_TEXT.sessionEnded);
      return;
    }
    this.#enqueue(this.#entryOf(request));
  }

  /** A task by id. @param viewer Member of a formation that asks: it sees its own tasks only. */
  find(id: string, viewer: string | null): TaskView | null {
    const entry = this.#entries.get(id);
    return entry === undefined || !isVisible(entry, viewer) ? null : viewOf(entry);
  }

  /** Every task the viewer may see, in no particular order. */
  list(viewer: string | null): readonly TaskView[] {
    return [...this.#entries.values()].filter((entry) => isVisible(entry, viewer)).map(viewOf);
  }

  /** Answers the question of a task that waits for input; `false` when it does not. */
  reply(id: string, text: string): boolean {
    const question = this.#entries.get(id)?.question ?? null;
    if (question === null) return false;
    question.answer(text);
    return true;
  }

  /**
   * Cancels a live task at once. What the session still runs is read before the task is told to stop (spec door 10.3).
   *
   * @returns `null` when it has ended already or is not known.
   */
  cancel(id: string): { readonly task: TaskView; readonly residue: readonly ResidueItem[] } | null {
    const entry = this.#entries.get(id);
    if (entry === undefined || isFinalState(entry.state)) return null;
    const residue = this.#cancel(entry);
    return { task: viewOf(entry), residue };
  }

  /** Refuses all further work and cancels every live task, queued ones included (spec door 10.4). */
  stop(): { readonly canceled: readonly string[]; readonly residue: readonly ResidueItem[] } {
    this.#closed = true;
    const live = [...this.#entries.values()].filter(({ state }) => !isFinalState(state));
    for (const entry of live) this.#cancel(entry);
    return { canceled: live.map(({ request }) => request.id).sort(), residue: this.#options.residue() };
  }

  /** Settles when the task has ended or waits for input, or the signal is aborted. */
  async settled(id: string, signal: AbortSignal): Promise<TaskView | null> {
    const entry = this.#entries.get(id);
    if (entry === undefined) return null;
    if (!isSettled(entry.state) && !signal.aborted) {
      await new Promise<void>((resolve) => {
        const done = () => {
          entry.settled.delete(done);
          signal.removeEventListener("abort", done);
          resolve();
        };
        entry.settled.add(done);
        signal.addEventListener("abort", done);
      });
    }
    return viewOf(entry);
  }

  /** Enters a task that is run without having been queued (launch task). */
  enter(request: TaskRequest): AbortSignal {
    return this.#start(this.#entryOf(request));
  }

  /**
   * The next task to run: the front of the highest lane that holds one; it becomes the running one. Waits until there
   * is one, at most `timeoutMs`, `null`: without limit.
   *
   * @returns `null` when there is none in time or `signal` is aborted.
   */
  async next(
    timeoutMs: number | null,
    signal: AbortSignal,
  ): Promise<{ readonly request: TaskRequest; readonly signal: AbortSignal } | null> {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const aborted = () => this.#wake?.();
    signal.addEventListener("abort", aborted);
    try {
      for (let expired = false;;) {
        if (signal.aborted) return null;
        const lane = LANES.find((lane) => this.#queues[lane].length > 0);
        if (lane !== undefined) {
          const entry = this.#queues[lane].shift()!;
          return { request: entry.request, signal: this.#start(entry) };
        }
        if (expired) return null;
        const { promise, resolve } = Promise.withResolvers<void>();
        this.#wake = resolve;
        if (timeoutMs !== null && timer === undefined) {
          timer = setTimeout(() => {
            expired = true;
            this.#wake?.();
          }, timeoutMs);
        }
        await promise;
      }
    } finally {
      clearTimeout(timer);
      signal.removeEventListener("abort", aborted);
      this.#wake = null;
    }
  }

  /** What a canceled task was doing, when that is no ordinary step of the loop. */
  cancelPhase(id: string): CancelPhase | null {
    return this.#entries.get(id)?.canceledIn ?? null;
  }

  /**
   * The one way a running task waits for something outside its loop: a cancel meanwhile aborts the signal, and is recorded
   * with this phase.
   */
  async waitIn<T>(id: string, phase: CancelPhase, wait: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const entry = this.#entries.get(id)!;
    const outer = entry.waitingIn;
    entry.waitingIn = phase;
    try {
      return await wait(entry.stop.signal);
    } finally {
      entry.waitingIn = outer;
    }
  }

  /** `traceparent` of the request that brought a task; `null` without one. */
  traceparent(id: string): string | null {
    return this.#entries.get(id)?.request.door?.traceparent ?? null;
  }

  /**
   * Tells of progress: a `working` status.
   *
   * @param reopen Number of the reopen whose attempt begins with it.
   */
  progress(id: string, message: string, reopen: number | null = null): void {
    const entry = this.#entries.get(id);
    if (entry === undefined || isFinalState(entry.state)) return;
    this.#status(entry, "working", message, false, { reopen });
  }

  /** The loop is done with the running task. An accepted cancel stands whatever the loop says (spec door 8.2). */
  finish(id: string, end: TaskEnd): void {
    const entry = this.#entries.get(id);
    if (entry === undefined || entry !== this.#running) return;
    this.#running = null;
    entry.question?.abandon();
    if (entry.state !== "canceled") this.#change(entry, end.state);
    entry.message = entry.state === "canceled" && end.state !== "canceled" ? STATUS_TEXT.canceled : end.message;
    entry.response = entry.state === "completed" && end.response !== "" ? end.response : null;
    this.#generation++;
    forgetText(entry);
    this.#status(entry, entry.state, entry.message, true, { response: entry.response });
  }

  /**
   * Asks the person behind a running task (spec session 16.1). The task waits in `input-required`.
   *
   * @param timeoutMs `null`: without limit.
   * @throws {InputTimeout} when nobody answered in time.
   * @throws {InputAborted} when the task is not running, was canceled meanwhile, or asks already.
   */
  requestInput(id: string, prompt: string, timeoutMs: number | null): Promise<string> {
    const entry = this.#entries.get(id);
    if (entry === undefined || entry !== this.#running || entry.state !== "working" || entry.request.door === null) {
      return Promise.reject(new InputAborted("input can be requested only by a working task that came over the door"));
    }
    return this.waitIn(id, "input", () =>
      new Promise<string>((resolve, reject) => {
        const timer = timeoutMs === null ? undefined : setTimeout(() => {
          end();
          this.#change(entry, "working");
          reject(new InputTimeout());
        }, timeoutMs);
        const end = () => {
          clearTimeout(timer);
          entry.question = null;
          // It holds the question's text, and maybe nobody looks at the task again.
          entry.shown = null;
        };
        entry.question = {
          prompt,
          answer: (text) => {
            end();
            this.#change(entry, "working");
            this.#status(entry, "working", STATUS_TEXT.resumed, false);
            resolve(text);
          },
          abandon: () => {
            end();
            reject(new InputAborted("the task was stopped while it waited for input"));
          },
        };
        this.#change(entry, "input-required");
        this.#status(entry, "input-required", prompt, false);
      }));
  }

  /**
   * The session stops taking work: queued tasks are refused, each with a final frame and its record; a running one is
   * canceled when the session was stopped (spec session 6.5, 17.5). Safe to repeat.
   */
  close(cause: CloseCause): void {
    this.#closed = true;
    if (cause === "session_stopped" && this.#running !== null && !isFinalState(this.#running.state)) {
      this.#cancel(this.#running);
    }
    const reason = cause === "session_stopped" ? STATUS_TEXT.sessionStopped : STATUS_TEXT.sessionEnded;
    for (const lane of LANES) {
      for (const entry of this.#queues[lane].splice(0)) {
        this.#change(entry, "rejected");
        entry.message = reason;
        this.#generation++;
        this.#options.records.rejected(entry.request, cause, reason);
        forgetText(entry);
        this.#status(entry, "rejected", reason, true);
      }
    }
  }

  #hasRoom(): boolean {
    switch (this.#options.acceptance) {
      case "none":
        return false;
      case "single":
        return !this.#started && this.#pending === 0;
      case "queue":
        return this.#pending < this.#options.queueDepth;
    }
  }

  #entryOf(request: TaskRequest): Entry {
    return {
      request,
      state: "submitted",
      message: null,
      response: null,
      question: null,
      changedMs: this.#now(),
      stop: new AbortController(),
      waitingIn: null,
      canceledIn: null,
      settled: new Set(),
      shown: null,
    };
  }

  #enqueue(entry: Entry): void {
    this.#entries.set(entry.request.id, entry);
    this.#queues[entry.request.standing.lane].push(entry);
    this.#wake?.();
  }

  #start(entry: Entry): AbortSignal {
    this.#entries.set(entry.request.id, entry);
    this.#running = entry;
    this.#started ||= entry.request.source === "a2a" || entry.request.source === "task_md";
    this.#change(entry, "working");
    return entry.stop.signal;
  }

  #cancel(entry: Entry): readonly ResidueItem[] {
    const queue = this.#queues[entry.request.standing.lane];
    const waiting = queue.indexOf(entry);
    entry.canceledIn = entry.waitingIn;
    this.#change(entry, "canceled");
    const residue = this.#options.residue();
    if (waiting >= 0) {
      queue.splice(waiting, 1);
      entry.message = STATUS_TEXT.canceledQueued;
      this.#generation++;
      this.#options.records.canceledQueued(entry.request);
      forgetText(entry);
      this.#status(entry, "canceled", entry.message, true);
      return residue;
    }
    // The loop tells the stream when it has stopped; a reader of the task sees the text at once.
    entry.message = STATUS_TEXT.canceled;
    entry.question?.abandon();
    entry.stop.abort();
    return residue;
  }

  #change(entry: Entry, state: TaskState): void {
    entry.state = state;
    entry.changedMs = this.#now();
    if (!isSettled(state)) return;
    for (const done of [...entry.settled]) done();
  }

  #status(
    entry: Entry,
    state: TaskState,
    message: string,
    final: boolean,
    { response = null, reopen = null }: { readonly response?: string | null; readonly reopen?: number | null } = {},
  ): void {
    const { id: taskId, contextId } = entry.request;
    this.#options.frames.publish({
      type: "status",
      taskId,
      contextId,
      state,
      message,
      ...(response === null ? {} : { response }),
      ...(reopen === null ? {} : { reopen }),
      final,
    });
  }

  #now(): number {
    return (this.#options.now ?? Date.now)();
  }
}

function forgetText(entry: Entry): void {
  entry.request = { ...entry.request, text: "" };
}

function isVisible(entry: Entry, viewer: string | null): boolean {
  return viewer === null || entry.request.door?.submitter === viewer;
}

/** Whether a caller that waits has something to act on. */
function isSettled(state: TaskState): boolean {
  return isFinalState(state) || state === "input-required";
}

function viewOf(entry: Entry): TaskView {
  const { request, state, message, response, question, changedMs, shown } = entry;
  const prompt = question?.prompt ?? null;
  if (
    shown !== null && shown.state === state && shown.message === message && shown.response === response &&
    shown.prompt === prompt && shown.changedMs === changedMs
  ) return shown;
  return entry.shown = {
    id: request.id,
    contextId: request.contextId,
    state,
    message,
    response,
    prompt,
    changedMs,
    submitter: request.door?.submitter ?? null,
  };
}
