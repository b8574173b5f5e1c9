/**
 * The hooks of one session, as the agent's loop sees them: events of the loop become payloads, answers become seeds,
 * compactions, refusals and reopened tasks (spec components 10, session 10 to 12).
 *
 * @module
 */
import { judgeHookContract } from "../../artifact/manifest/artifact_manifest.ts";
import type { CapsuleManifest } from "../../artifact/manifest/capsule_manifest.ts";
import { isJsonObject } from "../../base/json_value.ts";
import type { RootedDir } from "../../base/rooted_dir.ts";
import { reasonOf } from "../../base/errors.ts";
import type {
  CallDenial,
  CallHooks,
  Compaction,
  HookArtifact,
  ShellCommandLine,
  TaskHooks,
  ToolCallFacts,
  TurnHooks,
} from "../agent/agent_hooks.ts";
import { isContextSegment, readRecord, recordPath } from "../agent/conversation_record.ts";
import { type Message, userMessage } from "../agent/message.ts";
import type { Reopening } from "../agent/reopen_text.ts";
import type { TokenCounter } from "../agent/token_count.ts";
import type { CallContext, ComponentRuntime, ComponentSpec } from "../component/component_runtime.ts";
import type { StagedSession } from "../session/stage_session.ts";
import type { TaskRequest } from "../session/task_registry.ts";
import type { SessionExitStatus, TaskExitStatus, TraceEventBody } from "../trace/trace_event.ts";
import type { TraceWriter } from "../trace/trace_writer.ts";
import type { SpendRefusal } from "../agent/turn_loop.ts";
import type { HookEvents, HookMessage, ShellCommandFacts } from "./hook_event.ts";
import { HookDispatcher } from "./hook_dispatcher.ts";
import { HookFaults } from "./hook_faults.ts";
import { HookInferenceError, type HookInferenceServices, runHookInference } from "./hook_inference.ts";
import { hookImports, type HookImportServices, type TaskTexts } from "./hook_imports.ts";
import { replacedHistory, seedMessages, summaryText, toHookMessage } from "./hook_messages.ts";
import { recipeOf } from "./recipe.ts";
import { firstFitting, judgeSeed, type SeedBudget, seedCeiling } from "./seed.ts";
import { SessionHook, type StagedHook } from "./session_hook.ts";
import { runStageHooks } from "./stage_hooks.ts";

/** Longest `command` shown to a hook, in UTF-16 units (spec components 15). */
const MAX_SHOWN_COMMAND = 200;

/** Longest project file that is read for a recipe, in bytes. */
const MAX_PROJECT_FILE = 1 << 20;

/** The hooks a session declares, ready to be called. */
export function stagedHooks(
  staged: Pick<StagedSession, "artifacts">,
  specs: ReadonlyMap<string, ComponentSpec>,
): readonly StagedHook[] {
  return staged.artifacts.flatMap(({ entry, manifest }): StagedHook[] => {
    const spec = specs.get(entry.bareName);
    if (entry.role !== "hook" || manifest === null || spec === undefined) return [];
    return [{ contract: judgeHookContract(manifest), onOverflow: entry.onOverflow, spec }];
  });
}

/** What hooks need of every session, from its staging on. */
export interface HookSessionOptions {
  readonly components: ComponentRuntime;
  readonly manifest: CapsuleManifest;
  readonly records: RootedDir;
  readonly tokens: TokenCounter;
  readonly redact: (text: string) => string;
  /** A line a hook wrote. */
  readonly output: (hook: string, line: string) => void;
}

/** Runs the hooks bound to `on-stage`. */
export async function stageWithHooks(
  options: HookSessionOptions & { readonly hooks: readonly StagedHook[]; readonly runtimeDir: RootedDir },
): Promise<void> {
  const faults = new HookFaults(options);
  try {
    await runStageHooks({
      components: options.components,
      hooks: options.hooks,
      shellAllow: options.manifest.capabilities.shellAllow,
      runtimeDir: options.runtimeDir,
      faults,
      contextOf: ({ spec }) =>
        callContext(options, spec.name, {
          task: () => null,
          conversation: () => [],
          countTokens: (text) => options.tokens.text(text),
          runInference: () =>
            Promise.reject(new Error("inference.driver.artifact is not available before the session begins")),
        }),
    });
  } finally {
    faults.close();
  }
}

function callContext(
  { manifest, output }: Pick<HookSessionOptions, "manifest" | "output">,
  name: string,
  services: Omit<HookImportServices, "mayReadTask" | "mayReadConversation">,
): CallContext {
  const grant = manifest.artifacts.find(({ bareName }) => bareName === name)?.grant ?? null;
  return {
    output: (_stream, line) => output(name, line),
    hookImport: hookImports({
      ...services,
      mayReadTask: grant?.taskIoRead === true,
      mayReadConversation: grant?.conversationRead === true,
    }),
  };
}

/** What the hooks of a running session need besides. */
export interface SessionHooksOptions extends HookSessionOptions {
  readonly hooks: readonly StagedHook[];
  readonly sessionId: string;
  /** `~/.murmur/conversations`. */
  readonly conversations: string;
  readonly workdir: RootedDir;
  /** `out/` of the records directory. */
  readonly out: RootedDir;
  readonly trace: TraceWriter;
  readonly inference: Omit<HookInferenceServices, "tokens" | "trace" | "redact">;
  /** `inference.compaction.system_prompt`, or the text of its file. */
  readonly compactionPrompt: string | null;
  /** `capabilities` of `session_start`. */
  readonly capabilities: readonly string[];
  /** Milliseconds async hooks have at the session's end. */
  readonly drainBound: number;
  /** A line for the bootstrap log. */
  readonly log: (text: string) => void;
}

/** The task in scope. */
interface TaskInScope {
  readonly task: TaskRequest;
  /** `null` before an attempt enters the loop. */
  texts: TaskTexts | null;
}

/** The hooks of a session. */
export class SessionHooks implements CallHooks, TurnHooks, TaskHooks {
  readonly #options: SessionHooksOptions;
  readonly #faults: HookFaults;
  readonly #dispatcher: HookDispatcher;
  #scope: TaskInScope | null = null;
  #turn = 0;
  /** Set when a ceiling refused an inference since it was last cleared. */
  #refusal: SpendRefusal | null = null;

  private constructor(options: SessionHooksOptions, faults: HookFaults, hooks: readonly SessionHook[]) {
    this.#options = options;
    this.#faults = faults;
    this.#dispatcher = new HookDispatcher(hooks, faults);
  }

  /**
   * Makes the instance of every hook, all at the same time.
   *
   * @throws {MurError} `E-RUN-001`, `E-RUN-002` for the first in manifest order that cannot be made.
   */
  static async open(options: SessionHooksOptions): Promise<SessionHooks> {
    const faults = new HookFaults(options);
    // The instances may ask for what the session holds, which is there only once they are.
    let session: SessionHooks | null = null;
    const contextOf = ({ spec: { name } }: StagedHook) =>
      callContext(options, name, {
        task: () => session === null ? null : session.#texts(),
        conversation: () => session === null ? [] : session.#conversation(),
        countTokens: (text) => options.tokens.text(text),
        runInference: (request, signal) => {
          if (session === null) throw new Error("there is no session yet");
          return session.#infer(name, request, signal);
        },
      });
    // What is bound to nothing but staging was called there, and is over.
    const opened = await Promise.allSettled(
      options.hooks.filter(({ contract }) => contract.binding !== "on-stage")
        .map((hook) => SessionHook.open(options.components, hook, contextOf(hook))),
    );
    const failed = opened.find((result) => result.status === "rejected");
    const hooks = opened.flatMap((result) => result.status === "fulfilled" ? [result.value] : []);
    if (failed !== undefined) {
      for (const hook of hooks) hook.close();
      faults.close();
      throw failed.reason;
    }
    session = new SessionHooks(options, faults, hooks);
    return session;
  }

  /** `on-session-start`, once. */
  async sessionStarted(): Promise<void> {
    const { manifest, sessionId, capabilities } = this.#options;
    await this.#dispatcher.dispatch("on-session-start", {
      capsuleName: manifest.name,
      capsuleVersion: manifest.version,
      sessionId,
      model: manifest.inference?.model ?? "",
      capabilities,
    });
  }

  /** `on-session-end`, once, and the wait for hooks that are told in the background. */
  async sessionEnded(exitStatus: SessionExitStatus): Promise<void> {
    const { trace, drainBound } = this.#options;
    const { turns, inputTokens, outputTokens, toolCalls, shellCalls } = trace.sessionCounts;
    await this.#dispatcher.dispatch("on-session-end", {
      totalTurns: turns,
      totalInputTokens: inputTokens,
      totalOutputTokens: outputTokens,
      totalToolCalls: toolCalls,
      totalShellCalls: shellCalls,
      durationMs: trace.durationMs,
      exitStatus,
    });
    await this.#dispatcher.drain(drainBound);
  }

  /** Writes the faults of the session; right before `session_end`. @throws {MurError} `E-RUN-007`. */
  flushFaults(): void {
    this.#faults.flush(this.#options.trace);
  }

  close(): void {
    this.#dispatcher.close();
    this.#faults.close();
  }

  // Tasks.

  async started(task: TaskRequest, history: readonly Message[]): Promise<readonly Message[]> {
    this.#scope = { task, texts: null };
    this.#turn = 0;
    if (!this.#dispatcher.has("on-task-start")) return [];
    const { manifest, tokens } = this.#options;
    const { answers } = await this.#dispatcher.dispatch("on-task-start", {
      taskId: task.id,
      contextId: task.contextId,
      source: task.source,
      inputBytes: new TextEncoder().encode(task.text).length,
      budgetTokens: seedCeiling(this.#seedBudget()),
      contextWindow: manifest.context.maxTokens ?? 0,
      priorTokens: sum(await tokens.each(history)),
    });
    for (const { hook, output } of answers) {
      if (output.tag === "seed-context") return await this.#seed(task.id, hook, seedMessages(output.val));
    }
    return [];
  }

  attempting(taskText: string): void {
    if (this.#scope === null) return;
    this.#scope.texts = { asGiven: taskText, original: this.#scope.task.text, output: null };
  }

  async ended(taskId: string, status: TaskExitStatus, output: string): Promise<Reopening | null> {
    if (this.#scope?.texts) this.#scope.texts = { ...this.#scope.texts, output };
    if (!this.#dispatcher.has("on-task-end")) return null;
    const { answers } = await this.#dispatcher.dispatch("on-task-end", { taskId, exitStatus: status });
    for (const { hook, output } of answers) {
      if (output.tag === "reopen-task") return { hook, reason: this.#options.redact(output.val) };
    }
    return null;
  }

  done(): void {
    this.#scope = null;
  }

  async compactHistory(messages: readonly Message[]): Promise<readonly Message[]> {
    const { tokens, log } = this.#options;
    const compaction = await this.compact(0, messages, sum(await tokens.each(messages)));
    if (compaction.kind === "replaced") {
      log(`the resumed conversation of ${messages.length} messages was compacted to ${compaction.messages.length}`);
      return compaction.messages;
    }
    const why = compaction.kind === "declined" ? compaction.reason : compaction.message;
    log(`the resumed conversation was not compacted: ${why}`);
    return messages;
  }

  // Turns.

  async answered({ turn, inputTokens, outputTokens, reply, payload }: Parameters<TurnHooks["answered"]>[0]): Promise<
    readonly HookArtifact[]
  > {
    this.#turn = turn;
    if (!this.#dispatcher.has("on-inference")) return [];
    const { answers } = await this.#dispatcher.dispatch("on-inference", {
      turn,
      inputTokens,
      outputTokens,
      decision: reply.stopReason === "tool_call" || reply.stopReason === "end_turn" ? reply.stopReason : "text",
      toolName: reply.calls[0]?.name ?? null,
      prompt: `[${payload.sentJsons.join(",")}]`,
      output: JSON.stringify(reply.content),
      tools: payload.toolsJson,
    });
    return answers.flatMap(({ hook, output }): HookArtifact[] => {
      if (output.tag !== "artifact") return [];
      if (isObjectText(output.val)) return [{ hook, content: this.#options.redact(output.val) }];
      this.#dispatcher.discard(hook, "on-inference", "artifact", "its payload is no JSON object");
      return [];
    });
  }

  async compact(turn: number, messages: readonly Message[], sessionTokens: number): Promise<Compaction> {
    this.#turn = turn;
    this.#refusal = null;
    const { manifest, log, redact } = this.#options;
    const { answers, errors } = await this.#compaction(
      messages.map(toHookMessage),
      sessionTokens,
      sessionTokens / (manifest.context.maxTokens ?? sessionTokens),
    );
    const [error] = errors;
    if (error !== undefined) {
      // The refusal is the reason whatever the hook made of it.
      const refusal = this.#refusal as SpendRefusal | null;
      if (refusal !== null) return { kind: "spend_ceiling_reached", message: refusal.text };
      return { kind: "failed", message: redact(`compaction hook failed: ${error.hook}: ${error.text}`) };
    }
    const [answer] = answers;
    // A history of nothing is none that a model could be asked with.
    if (answer === undefined || answer.messages.length === 0) {
      log(`turn ${turn}: the context is at ${sessionTokens} tokens and no hook replaced it`);
      return { kind: "declined", reason: "no_hook_replacement" };
    }
    const replaced = replacedHistory(answer.messages, messages);
    if (replaced === null || replaced.length === 0) {
      this.#faults.log(
        answer.hook,
        `hook '${answer.hook}' on-compaction: replace-context: its tool calls and their answers do not match, the history is kept`,
      );
      return { kind: "declined", reason: "unresolved_tool_call" };
    }
    return { kind: "replaced", messages: replaced, summary: summaryText(replaced) };
  }

  compacted(done: Parameters<TurnHooks["compacted"]>[0]): void {
    const { manifest, out, log } = this.#options;
    if (!manifest.inference?.compaction.dumpSummaries) return;
    const { turn, tokensBefore, tokensAfter, summary } = done;
    const line = JSON.stringify({ turn, tokens_before: tokensBefore, tokens_after: tokensAfter, summary });
    try {
      using file = out.openFile("compaction-summaries.jsonl", {
        append: true,
        create: true,
        follow: false,
        mode: 0o600,
      });
      file.append(new TextEncoder().encode(`${line}\n`));
    } catch (cause) {
      log(`out/compaction-summaries.jsonl could not be written: ${reasonOf(cause)}`);
    }
  }

  // Calls.

  async decideTool({ turn, toolName, inputJson }: ToolCallFacts): Promise<CallDenial | null> {
    this.#turn = turn;
    return this.#denial(await this.#dispatcher.decide("on-tool-call", toolEvent(turn, toolName, inputJson, null)));
  }

  async decideShell(turn: number, command: ShellCommandLine): Promise<CallDenial | null> {
    this.#turn = turn;
    if (!this.#dispatcher.has("on-shell")) return null;
    return this.#denial(
      await this.#dispatcher.decide("on-shell", { turn, ...this.#shellFacts(command), outcome: null }),
    );
  }

  async toolCalled(
    { turn, toolName, inputJson }: ToolCallFacts,
    outcome: Parameters<CallHooks["toolCalled"]>[1],
  ): Promise<void> {
    this.#turn = turn;
    if (!this.#dispatcher.has("on-tool-call")) return;
    await this.#dispatcher.dispatch("on-tool-call", toolEvent(turn, toolName, inputJson, { ...outcome }));
  }

  async shellRan(
    turn: number,
    command: ShellCommandLine,
    outcome: Parameters<CallHooks["shellRan"]>[2],
  ): Promise<void> {
    if (!this.#dispatcher.has("on-shell")) return;
    await this.#dispatcher.dispatch("on-shell", { turn, ...this.#shellFacts(command), outcome: { ...outcome } });
  }

  #denial(denial: CallDenial | null): CallDenial | null {
    return denial === null ? null : { ...denial, reason: this.#options.redact(denial.reason) };
  }

  #shellFacts(command: ShellCommandLine): ShellCommandFacts {
    const shown = command.command;
    return {
      binary: command.binary,
      command: shown.length > MAX_SHOWN_COMMAND ? shown.slice(0, MAX_SHOWN_COMMAND).toWellFormed() : shown,
      argv: command.argv,
      script: command.script,
      recipe: recipeOf(command, (name) => this.#projectFile(name)),
    };
  }

  #projectFile(name: string): string | null {
    try {
      using file = this.#options.workdir.openFile(name);
      return new TextDecoder().decode(file.readAll(MAX_PROJECT_FILE));
    } catch {
      // A recipe is best effort; a file that cannot be read is no reason for anything.
      return null;
    }
  }

  #compactionEvent(messages: readonly HookMessage[], tokens: number, ratio: number): HookEvents["on-compaction"] {
    const { manifest, compactionPrompt } = this.#options;
    return {
      messages,
      sessionTokens: tokens,
      threshold: ratio,
      model: manifest.inference?.compaction.model ?? null,
      systemPrompt: compactionPrompt,
    };
  }

  async #compaction(messages: readonly HookMessage[], tokens: number, ratio: number) {
    const { answers, errors } = await this.#dispatcher.dispatch(
      "on-compaction",
      this.#compactionEvent(messages, tokens, ratio),
    );
    return {
      errors,
      answers: answers.flatMap(({ hook, output }) =>
        output.tag === "replace-context" ? [{ hook, messages: output.val }] : []
      ),
    };
  }

  #seedBudget(): SeedBudget {
    const { maxTokens, seedBudget, seedOverflowMargin } = this.#options.manifest.context;
    return { window: maxTokens, share: seedBudget, margin: seedOverflowMargin };
  }

  async #seed(taskId: string, hook: string, proposed: readonly Message[]): Promise<readonly Message[]> {
    if (proposed.length === 0) return [];
    const { tokens, trace, log } = this.#options;
    const counts = await tokens.each(proposed);
    const budget = this.#seedBudget();
    const decision = judgeSeed(counts, budget);
    let committed: readonly Message[] = proposed;
    let outcome: TraceEventBody<"context_seed">["outcome"];
    switch (decision.kind) {
      case "rejected":
        outcome = "rejected";
        committed = [];
        this.#dispatcher.discard(hook, "on-task-start", "seed-rejected", decision.reason);
        break;
      case "seeded":
        outcome = "seeded";
        break;
      case "trimmed":
        outcome = "trimmed";
        committed = proposed.slice(decision.from);
        break;
      case "overflows": {
        const compacted = await this.#summarizedSeed(proposed, decision.from, sum(counts), seedCeiling(budget));
        outcome = compacted === null ? "trimmed" : "compacted";
        committed = compacted ?? proposed.slice(decision.from);
      }
    }
    const committedTokens = sum(await tokens.each(committed));
    trace.write("context_seed", {
      task_id: taskId,
      hook_name: hook,
      tokens: committedTokens,
      proposed_tokens: sum(counts),
      budget_tokens: seedCeiling(budget),
      outcome,
      ...(decision.kind === "rejected" ? { reason: decision.reason } : {}),
      message_ids: committed.map(({ id }) => id),
    });
    log(`seed of hook '${hook}': ${outcome}, ${committedTokens} of ${sum(counts)} tokens`);
    return committed;
  }

  /** The seed with its front summarised by the compaction hooks; `null` when none does, or not short enough. */
  async #summarizedSeed(
    proposed: readonly Message[],
    from: number,
    total: number,
    ceiling: number,
  ): Promise<readonly Message[] | null> {
    if (!this.#dispatcher.hasBlocking("on-compaction")) return null;
    const { answers, errors } = await this.#compaction(
      proposed.slice(0, from).map(toHookMessage),
      total,
      total / ceiling,
    );
    const [answer] = answers;
    if (errors.length > 0 || answer === undefined) return null;
    const text = summaryText(seedMessages(answer.messages));
    if (text === "") return null;
    const summary = userMessage(text, { insertedBy: "seed-context" });
    const [summaryTokens] = await this.#options.tokens.each([summary]);
    if (summaryTokens! > ceiling) return null;
    const rest = proposed.slice(from);
    const counts = await this.#options.tokens.each(rest);
    return [summary, ...rest.slice(firstFitting(counts, ceiling - summaryTokens!))];
  }

  #texts(): TaskTexts | null {
    return this.#scope?.texts ?? null;
  }

  #conversation(): readonly Message[] {
    const { manifest, conversations } = this.#options;
    if (this.#scope === null || !manifest.context.record) return [];
    const { contextId } = this.#scope.task;
    if (!isContextSegment(contextId)) throw new Error("this conversation is not recorded");
    const store = manifest.context.recordStore ?? manifest.name;
    return readRecord(recordPath({ conversations, store, contextId })).entries.map(({ message }) => message);
  }

  async #infer(hook: string, request: Parameters<typeof runHookInference>[3], signal: AbortSignal) {
    const { inference, tokens, trace, redact } = this.#options;
    const place = { taskId: this.#scope?.task.id ?? null, turn: this.#turn };
    try {
      return await runHookInference({ ...inference, tokens, trace, redact }, hook, place, request, signal);
    } catch (cause) {
      if (cause instanceof HookInferenceError && cause.refusal !== null) this.#refusal = cause.refusal;
      throw cause;
    }
  }
}

function toolEvent(
  turn: number,
  toolName: string,
  input: string,
  outcome: HookEvents["on-tool-call"]["outcome"],
): HookEvents["on-tool-call"] {
  return { turn, toolName, inputBytes: new TextEncoder().encode(input).length, input, outcome };
}

function isObjectText(text: string): boolean {
  try {
    return isJsonObject(JSON.parse(text));
  } catch {
    return false;
  }
}

function sum(counts: readonly number[]): number {
  return counts.reduce((total, count) => total + count, 0);
}
