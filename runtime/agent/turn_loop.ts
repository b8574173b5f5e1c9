/**
 * One attempt at a task under `transport: http`: turns of asking the driver and running the tools it asks for, until an
 * answer, a failure, a limit or a cancel (spec session 9, components 6.5).
 *
 * The loop owns the message list of the attempt and nothing else; what outlives an attempt is handed in.
 *
 * @module
 */
import { MurError, reasonOf, type WarningSink } from "../../base/errors.ts";
import { ComponentFailure, type ToolResult } from "../component/component_runtime.ts";
import type { FrameLog } from "../session/frame_log.ts";
import type { TaskFailureCause, Trust } from "../trace/trace_event.ts";
import type { TraceWriter } from "../trace/trace_writer.ts";
import type { Compaction, HookArtifact, TurnHooks } from "./agent_hooks.ts";
import { afterAnswer, type Continuation, continuationUse } from "./driver_continuation.ts";
import {
  actionOf,
  buildDriverPayload,
  decisionOf,
  dispatchFailure,
  type DriverFailure,
  type DriverPayload,
  type DriverReply,
  readDriverResult,
  type ToolDescription,
  usageKeys,
} from "./driver_protocol.ts";
import { assistantMessage, type Message, toolMessage } from "./message.ts";
import type { CallScope, DispatchResult, ToolDispatcher } from "./tool_dispatch.ts";

/** Chunks a driver streams while it is asked. */
export interface DriverChunks {
  readonly text: (chunk: string) => void;
  readonly thinking: (chunk: string) => void;
}

/** Whether a driver call may be sent, and what becomes of its cost (spec session 9.8). */
export interface SpendGate {
  /** Whether there is a ceiling at all; without one nothing waits for a count. */
  readonly limited: boolean;
  /**
   * Admits a call or answers why not. An admitted one must be settled exactly once.
   *
   * @param inputTokens Of the whole request.
   * @param mostOutputTokens What the call may produce at most.
   */
  admit(inputTokens: number, mostOutputTokens: number): Promise<SpendAdmission | SpendRefusal>;
}

export interface SpendAdmission {
  readonly admitted: true;
  /** Charges the call; a failed or cancelled one is charged its input only. */
  settle(inputTokens: number, outputTokens: number): Promise<void>;
}

export interface SpendRefusal {
  readonly admitted: false;
  readonly limit: "session" | "machine";
  readonly ceiling: number;
  readonly used: number;
  readonly requested: number;
  /** For the result file, `stopped: spend ceiling reached: …`. */
  readonly text: string;
}

/** Counts tokens off the event loop (spec session 9.3 step 4). */
export interface RequestTokens {
  request(payload: DriverPayload, messages: readonly Message[], system: string): Promise<number>;
  text(text: string): Promise<number>;
}

/** A credential its provider rejected during the last call, with what the task is told. */
export interface CredentialRejection {
  readonly error: MurError;
}

/** What one session's loop works with. */
export interface TurnLoopServices {
  readonly model: string;
  readonly maxTokens: number;
  readonly system: string;
  readonly tools: readonly ToolDescription[];
  readonly promptCacheKey: string;
  /** @throws {ComponentFailure} when the driver gave no result. */
  callDriver(requestJson: string, chunks: DriverChunks, signal: AbortSignal): Promise<ToolResult>;
  /** The provider's HTTP status of the last driver call that failed there, if the gateway saw one. */
  providerStatus(): number | null;
  /** Takes credential values and handles out of a text that comes from outside. */
  redact(text: string): string;
  /** Tells the operator of an error at once; the task's own end follows. */
  reportError(error: MurError): void;
  /** Set when the last driver call ended in a standing 401 (`E-RUN-027`). */
  credentialRejection(): CredentialRejection | null;
  readonly dispatcher: ToolDispatcher;
  /** `null`: the session has no hooks. */
  readonly hooks: TurnHooks | null;
  /** When the history is too long; `null` without `context.max_tokens`. */
  readonly compaction: { readonly window: number; readonly threshold: number } | null;
  readonly tokens: RequestTokens;
  readonly spend: SpendGate;
  readonly trace: TraceWriter;
  readonly frames: FrameLog;
  /**
   * Tells that a task that still runs went a step further.
   *
   * @param reopen Number of the reopen whose attempt begins with it; `null`: none does.
   */
  progress(taskId: string, message: string, reopen: number | null): void;
  readonly warn: WarningSink;
  /** The latched breach of the workdir size, if there is one (`E-RUN-013`). */
  workdirBreach(): MurError | null;
  /** Appends to the conversation record what entered the context. */
  record(messages: readonly Message[]): void;
}

/** The continuation a session holds between turns and tasks; one owner. */
export interface ContinuationSlot {
  current: Continuation | null;
}

/** What one attempt starts from. */
export interface AttemptInput {
  readonly taskId: string;
  readonly contextId: string;
  readonly overDoor: boolean;
  readonly trust: Trust;
  /** Whole list the attempt begins with; its messages are already recorded. */
  readonly messages: readonly Message[];
  /** Turns this task has used; numbers the next turn. */
  readonly turnsUsed: number;
  /** Those its earlier attempts have used: status texts count the turns of an attempt (spec door 12.2). */
  readonly turnsBefore: number;
  /** Number of the reopen that made this attempt; 0 for a task's first. */
  readonly reopen: number;
  /** `inference.max_turns`. */
  readonly maxTurns: number;
  readonly continuation: ContinuationSlot;
  readonly signal: AbortSignal;
}

/** How an attempt ended. */
export type AttemptEnd =
  | { readonly kind: "ok"; readonly text: string }
  | {
    readonly kind: "failed";
    readonly cause: TaskFailureCause;
    readonly message: string;
    /** What the task's final status says (spec door 12.2). */
    readonly statusText: string;
    readonly turn: number;
  }
  | { readonly kind: "max_turns_reached"; readonly message: string }
  | { readonly kind: "spend_ceiling_reached"; readonly message: string }
  | { readonly kind: "canceled"; readonly phase: "turn" | "inference" | "delegation"; readonly turn: number }
  /** Ends the session too (`E-RUN-013`, `E-RUN-014`). */
  | { readonly kind: "fatal"; readonly error: MurError };

export interface AttemptResult {
  readonly end: AttemptEnd;
  /** The whole list, the final answer included. */
  readonly messages: readonly Message[];
  readonly turnsUsed: number;
  /** What hooks added to the last turn. */
  readonly artifacts: readonly HookArtifact[];
}

/** Runs one attempt. @throws {MurError} `E-RUN-007` when the trace cannot be written. */
export async function runAttempt(services: TurnLoopServices, input: AttemptInput): Promise<AttemptResult> {
  const attempt = new Attempt(services, input);
  const end = await attempt.run();
  return { end, messages: attempt.messages, turnsUsed: attempt.turn, artifacts: attempt.artifacts };
}

/** Final status of a task that ended by itself, well or not (spec door 12.2). */
export const SESSION_ENDED = "session ended";

/** What a driver call came to. */
type DriverCall =
  | { readonly kind: "reply"; readonly reply: DriverReply; readonly streamed: boolean }
  | { readonly kind: "end"; readonly end: AttemptEnd };

class Attempt {
  readonly #services: TurnLoopServices;
  readonly #input: AttemptInput;
  messages: readonly Message[];
  turn: number;
  /** What hooks added to the newest turn. */
  artifacts: readonly HookArtifact[] = [];

  constructor(services: TurnLoopServices, input: AttemptInput) {
    this.#services = services;
    this.#input = input;
    this.messages = input.messages;
    this.turn = input.turnsUsed;
  }

  async run(): Promise<AttemptEnd> {
    const { maxTurns, signal } = this.#input;
    for (;;) {
      const breach = this.#services.workdirBreach();
      if (breach !== null) return { kind: "fatal", error: breach };
      if (signal.aborted) return { kind: "canceled", phase: "turn", turn: this.turn };
      if (this.turn >= maxTurns) {
        return { kind: "max_turns_reached", message: `inference loop exceeded ${maxTurns} turns` };
      }
      const end = await this.#oneTurn();
      if (end !== null) return end;
    }
  }

  async #oneTurn(): Promise<AttemptEnd | null> {
    const call = await this.#askDriver();
    if (call.kind === "end") return call.end;
    const { reply, streamed } = call;
    const turn = this.turn++;
    const action = actionOf(reply);
    switch (action.kind) {
      case "fail":
        return this.#failed(action.failure, turn);
      case "finish": {
        const answer = assistantMessage(reply.content);
        this.#enter([answer]);
        if (action.cut) this.#warnCut(turn);
        if (!streamed && action.text !== "") this.#text(action.text, true);
        return { kind: "ok", text: action.text };
      }
      case "run-tools":
        return await this.#runTools(reply, turn);
    }
  }

  /** Steps 3 to 12 of spec session 9.3. */
  async #askDriver(): Promise<DriverCall> {
    const services = this.#services;
    const { contextId, continuation, reopen, signal, taskId, turnsBefore } = this.#input;
    const turn = this.turn;
    const use = continuationUse(continuation.current, contextId, this.messages.length);
    const payload = this.#payload(use.continuationId, use.from);
    // The count is of the request as it is now, whenever it is known: only a ceiling has to wait for it.
    const counted = services.tokens.request(payload, this.messages, services.system);
    const admission = await services.spend.admit(services.spend.limited ? await counted : 0, services.maxTokens);
    if (!admission.admitted) {
      services.trace.write("spend_ceiling_reached", {
        turn,
        task_id: taskId,
        limit: admission.limit,
        ceiling: admission.ceiling,
        used: admission.used,
        requested: admission.requested,
      });
      return { kind: "end", end: { kind: "spend_ceiling_reached", message: admission.text } };
    }
    const turnOfAttempt = turn - turnsBefore + 1;
    services.progress(taskId, `inference turn ${turnOfAttempt}`, reopen > 0 && turnOfAttempt === 1 ? reopen : null);
    const hashes = services.trace.wire.request({
      system: services.system,
      toolsJson: payload.toolsJson,
      messageJsons: payload.sentJsons,
    });
    let streamed = false;
    let result: ToolResult | null = null;
    let failure: DriverFailure | null = null;
    try {
      result = await services.callDriver(payload.json, {
        text: (chunk) => {
          streamed = true;
          this.#text(chunk, false);
        },
        thinking: (chunk) => services.frames.tell({ type: "thinking", taskId, text: chunk, final: false }, this.#input),
      }, signal);
    } catch (cause) {
      // Whatever else was thrown is a defect of this program and must not pass for a failed driver.
      if (!(cause instanceof ComponentFailure)) throw cause;
      failure = dispatchFailure(reasonOf(cause));
    }
    if (streamed) this.#text("", true);
    const inputTokens = await counted;
    if (signal.aborted) {
      await admission.settle(inputTokens, 0);
      return { kind: "end", end: { kind: "canceled", phase: "inference", turn } };
    }
    const rejection = services.credentialRejection();
    const outcome = result === null ? null : readDriverResult(result);
    if (outcome?.kind === "failure") failure = outcome.failure;
    if (outcome?.kind === "reply" && outcome.reply.error !== null) {
      failure = { message: outcome.reply.error, cause: "driver_error", errorCode: "driver_error" };
    }
    if (failure !== null || outcome?.kind !== "reply") {
      failure ??= dispatchFailure("no result");
      // An upstream may quote what it was sent, and the driver pass that on.
      failure = { ...failure, message: services.redact(failure.message) };
      let statusText = failure.errorCode === "driver_failed" ? failure.message : SESSION_ENDED;
      if (rejection !== null) {
        services.reportError(rejection.error);
        failure = {
          message: rejection.error.message,
          cause: "credential_rejected",
          errorCode: "credential_rejected",
        };
        statusText = `error[${rejection.error.code}]: ${rejection.error.message}`;
      }
      await admission.settle(inputTokens, 0);
      if (outcome?.kind === "reply" && services.hooks !== null) {
        const outputTokens = await services.tokens.text(outcome.reply.body);
        await services.hooks.answered({ turn, inputTokens, outputTokens, reply: outcome.reply, payload });
      }
      const status = services.providerStatus();
      services.trace.write("inference", {
        turn,
        task_id: taskId,
        decision: "error",
        stop_reason: "error",
        tool_name: null,
        ...(payload.sent.length === 0 ? {} : { message_ids: payload.sent.map(({ id }) => id) }),
        error_code: failure.errorCode,
        error: failure.message,
        ...(status === null ? {} : { provider_status: status }),
      });
      return { kind: "end", end: this.#failed(failure, turn, statusText) };
    }
    const { reply } = outcome;
    const outputTokens = await services.tokens.text(reply.body);
    await admission.settle(inputTokens, outputTokens);
    this.artifacts = await services.hooks?.answered({ turn, inputTokens, outputTokens, reply, payload }) ?? [];
    services.trace.write("inference", {
      turn,
      task_id: taskId,
      input_tokens: inputTokens,
      output_tokens: outputTokens,
      decision: decisionOf(reply),
      stop_reason: reply.stopReason,
      tool_name: reply.calls[0]?.name ?? null,
      ...usageKeys(reply.usage),
      ...(payload.sent.length === 0 ? {} : { message_ids: payload.sent.map(({ id }) => id) }),
      ...services.trace.wire.response(hashes, reply.body),
    });
    continuation.current = afterAnswer(reply.continuationId, contextId, this.messages.length);
    const end = await this.#compactIfFull(turn, inputTokens, inputTokens + outputTokens);
    if (end === null) return { kind: "reply", reply, streamed };
    // The turn was taken, though nothing comes of its answer.
    this.turn++;
    return { kind: "end", end };
  }

  /**
   * Has the history shortened when it fills its window (spec session 10). The answer just received is not in it yet.
   *
   * @returns how the attempt ends when a hook failed at it.
   */
  async #compactIfFull(turn: number, inputTokens: number, sessionTokens: number): Promise<AttemptEnd | null> {
    const { compaction: limit, hooks, trace, tokens, record } = this.#services;
    const { continuation, taskId } = this.#input;
    if (limit === null || sessionTokens / limit.window < limit.threshold) return null;
    const result: Compaction = await hooks?.compact(turn, this.messages, sessionTokens) ??
      { kind: "declined", reason: "no_hook_replacement" };
    switch (result.kind) {
      case "declined":
        trace.write("compaction_declined", { turn, task_id: taskId, tokens: sessionTokens, reason: result.reason });
        return null;
      case "failed":
        return {
          kind: "failed",
          cause: "compaction_hook",
          message: this.#services.redact(result.message),
          statusText: SESSION_ENDED,
          turn,
        };
      case "spend_ceiling_reached":
        return { kind: "spend_ceiling_reached", message: result.message };
      case "replaced": {
        this.messages = result.messages;
        continuation.current = null;
        const tokensAfter = await tokens.request(this.#payload(null, 0), this.messages, this.#services.system);
        trace.write("compaction", {
          turn,
          task_id: taskId,
          tokens_before: inputTokens,
          tokens_after: tokensAfter,
        });
        record(this.messages);
        hooks?.compacted({ turn, tokensBefore: inputTokens, tokensAfter, summary: result.summary });
        return null;
      }
    }
  }

  #payload(continuationId: string | null, sendFrom: number): DriverPayload {
    const { model, maxTokens, tools, system, promptCacheKey } = this.#services;
    return buildDriverPayload({
      model,
      maxTokens,
      messages: this.messages,
      tools,
      system,
      promptCacheKey,
      continuationId,
      sendFrom,
    });
  }

  async #runTools(reply: DriverReply, turn: number): Promise<AttemptEnd | null> {
    const { taskId, contextId, overDoor, trust, signal } = this.#input;
    const scope: CallScope = { taskId, contextId, turn, overDoor, trust, signal };
    const answers: Message[] = [];
    let fatal: MurError | null = null;
    let timedOut = false;
    for (const call of reply.calls) {
      if (signal.aborted) break;
      const result: DispatchResult = await this.#services.dispatcher.dispatch(call, scope);
      answers.push(toolMessage(
        { callId: call.id, isError: result.isError, text: result.text },
        result.fence === null ? {} : { fence: result.fence },
      ));
      fatal = result.fatal;
      timedOut = result.inputTimedOut;
      if (fatal !== null || timedOut) break;
    }
    // What ran has happened, also when the rest of the turn does not.
    this.#enter([assistantMessage(reply.content), ...answers]);
    if (fatal !== null) return { kind: "fatal", error: fatal };
    if (timedOut && !signal.aborted) {
      const text = "input-timeout";
      return { kind: "failed", cause: "input_timeout", message: text, statusText: text, turn };
    }
    return signal.aborted ? { kind: "canceled", phase: "turn", turn } : null;
  }

  #enter(messages: readonly Message[]): void {
    this.messages = [...this.messages, ...messages];
    this.#services.record(messages);
  }

  #failed(failure: DriverFailure, turn: number, statusText: string = SESSION_ENDED): AttemptEnd {
    // Words of a driver, which may quote what it was asked.
    const message = this.#services.redact(failure.message);
    return { kind: "failed", cause: failure.cause, message, statusText, turn };
  }

  #text(text: string, final: boolean): void {
    this.#services.frames.tell({ type: "text", taskId: this.#input.taskId, text, final }, this.#input);
  }

  #warnCut(turn: number): void {
    this.#services.warn({
      code: "W-RUN-001",
      source: "capsule-runtime",
      message: `turn ${turn + 1} was cut at inference.max_tokens (${this.#services.maxTokens}); ` +
        "the answer may be incomplete",
    });
  }
}
