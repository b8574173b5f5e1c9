/**
 * Hooks: `export default defineHook({ onToolCall(event, ctx) { … } })`. A hook is told what happens in a session and may
 * answer (spec components 10). One instance lives as long as the session, so what its variables hold lasts from event
 * to event.
 *
 * @module
 */
import { host, payloadOf, wellFormed } from "./host.ts";

/** Who put a message into the context that no model, tool or person did. */
export type ContextInsertion = "replace-context" | "seed-context";

/** A message of the history as hooks see it. */
export interface HookMessage {
  readonly role: string;
  /**
   * JSON text of the list of blocks. A tool's answer that is handed over for compaction is one JSON object instead, which
   * must come back as it is or not at all.
   */
  readonly content: string;
  readonly id: string | null;
  readonly sourceId: string | null;
  readonly insertedBy: ContextInsertion | null;
}

/** A message a hook makes. Text that is no JSON becomes one text block. */
export interface NewMessage {
  readonly role: string;
  readonly content: string;
  readonly id?: string | null;
  /** Where the message came from, in the hook's own terms; kept in the record. */
  readonly sourceId?: string | null;
  readonly insertedBy?: ContextInsertion | null;
}

/** Description of a shell command, offered to the model instead of the runtime's own. */
export interface ToolManifest {
  /** Name of an allowed command. */
  readonly binaryName: string;
  /** Text of its `murmur.yaml`. */
  readonly content: string;
}

/** Refuses the call that was about to be made. */
export interface Deny {
  readonly tag: "deny";
  readonly val: string;
}

/** Puts these messages in the place of the history. */
export interface ReplaceContext {
  readonly tag: "replace-context";
  readonly val: readonly NewMessage[];
}

/** Puts these messages before the history. */
export interface SeedContext {
  readonly tag: "seed-context";
  readonly val: readonly NewMessage[];
}

/** Sends the task back with what is missing. */
export interface ReopenTask {
  readonly tag: "reopen-task";
  readonly val: string;
}

/** Describes shell commands. */
export interface WriteManifests {
  readonly tag: "write-manifests";
  readonly val: readonly ToolManifest[];
}

/** Adds a JSON object to what the caller of the task is told. */
export interface Artifact {
  readonly tag: "artifact";
  readonly val: string;
}

/** What a hook may answer. Nothing returned means that it has nothing to say. */
export type HookOutput = Deny | ReplaceContext | SeedContext | ReopenTask | WriteManifests | Artifact;

/** Refuses a call; the model reads the reason. Policy hooks (`commit_policy: deny`) only. */
export function deny(reason: string): Deny {
  return { tag: "deny", val: reason };
}

/** Replaces the history. For `onCompaction`. */
export function replaceContext(messages: readonly NewMessage[]): ReplaceContext {
  return { tag: "replace-context", val: messages };
}

/** Puts messages, oldest first, before the history. For `onTaskStart`. */
export function seedContext(messages: readonly NewMessage[]): SeedContext {
  return { tag: "seed-context", val: messages };
}

/** Sends the task back; the model reads the feedback as a new message. For `onTaskEnd`. */
export function reopenTask(feedback: string): ReopenTask {
  return { tag: "reopen-task", val: feedback };
}

/** Describes shell commands. For `onStage`. */
export function writeManifests(manifests: readonly ToolManifest[]): WriteManifests {
  return { tag: "write-manifests", val: manifests };
}

/** Adds a JSON object to what the task's caller is told. For `onInference`. */
export function artifact(value: Readonly<Record<string, unknown>>): Artifact {
  return { tag: "artifact", val: JSON.stringify(value) };
}

/** A message of one text block. */
export function textMessage(role: "user" | "assistant", text: string, sourceId?: string): NewMessage {
  return {
    role,
    content: JSON.stringify([{ type: "text", text }]),
    ...(sourceId === undefined ? {} : { sourceId }),
  };
}

/** The text blocks of a message, joined with newlines; of a tool's answer those of its body. */
export function messageText({ content }: Pick<HookMessage, "content">): string {
  let value: unknown;
  try {
    value = JSON.parse(content);
  } catch {
    return content;
  }
  if (typeof value === "string") return value;
  if (typeof value === "object" && value !== null && "body" in value) value = value.body;
  if (!Array.isArray(value)) return content;
  return value
    .flatMap((block: { readonly type?: unknown; readonly text?: unknown } | null) =>
      block?.type === "text" && typeof block.text === "string" ? [block.text] : []
    )
    .join("\n");
}

/** Staging, before the session begins. */
export interface StageEvent {
  /** The commands that `capabilities.shell.allow` names. */
  readonly shellAllow: readonly string[];
}

/** The session that begins. */
export interface SessionStartEvent {
  readonly capsuleName: string;
  readonly capsuleVersion: string;
  readonly sessionId: string;
  readonly model: string;
  /** Those of `network`, `filesystem`, `shell` that are granted. */
  readonly capabilities: readonly string[];
}

/** A task before it enters the loop. */
export interface TaskStartEvent {
  readonly taskId: string;
  readonly contextId: string;
  /** `task_md`, `a2a`, `detached_shell` or `detached_lost`. */
  readonly source: string;
  readonly inputBytes: number;
  /** Tokens a seed may have; 0: not computed. */
  readonly budgetTokens: number;
  /** `context.max_tokens`; 0 without one. */
  readonly contextWindow: number;
  /** Tokens of the loaded history. */
  readonly priorTokens: number;
}

/** An answer of the model. */
export interface InferenceEvent {
  /** From 0 in every task. */
  readonly turn: number;
  readonly inputTokens: number;
  readonly outputTokens: number;
  /** `tool_call`, `end_turn` or `text`. */
  readonly decision: string;
  /** First tool it asks for. */
  readonly toolName: string | null;
  /** JSON text of the messages that were sent. */
  readonly prompt: string | null;
  /** JSON text of the answer's blocks. */
  readonly output: string | null;
  /** JSON text of the tools that were offered. */
  readonly tools: string | null;
}

/** A tool call: before it is made (`outcome` is `null`), or after. */
export interface ToolEvent {
  readonly turn: number;
  readonly toolName: string;
  readonly inputBytes: number;
  /** The input exactly as the tool gets it, as JSON text. */
  readonly input: string;
  /** `null`: the call waits for the decision of a policy hook. */
  readonly outcome: {
    readonly outputBytes: number;
    readonly durationMs: number;
    /** `ok` or `error`. */
    readonly status: string;
  } | null;
}

/** A shell command: before it is run (`outcome` is `null`), or after. */
export interface ShellEvent {
  readonly turn: number;
  /** Absolute path, or the bare name where it was not found. */
  readonly binary: string;
  /** For display: cut. Decide by `argv` and `script`. */
  readonly command: string;
  /** Exactly what is run, the program first. */
  readonly argv: readonly string[];
  /** What an interpreter is given with `-c`. */
  readonly script: string | null;
  /** What the target of a `make`, `just` or `npm run` does, where it was found. */
  readonly recipe: string | null;
  /** `null`: the command waits for the decision of a policy hook. */
  readonly outcome: {
    readonly exitCode: number;
    readonly stdout: string;
    readonly stderr: string;
    readonly stdoutBytes: number;
    readonly stderrBytes: number;
    readonly durationMs: number;
  } | null;
}

/** The history has reached the threshold. */
export interface CompactionEvent {
  readonly messages: readonly HookMessage[];
  /** Tokens of the request and the answer. */
  readonly sessionTokens: number;
  /** The share of the window that is in use. */
  readonly threshold: number;
  /** `inference.compaction.model`. */
  readonly model: string | null;
  /** `inference.compaction.system_prompt`. */
  readonly systemPrompt: string | null;
}

/** An attempt at a task ended. */
export interface TaskEndEvent {
  readonly taskId: string;
  /** `ok`, `failed`, `max_turns_reached`, `spend_ceiling_reached`, `canceled` or `no_answer`. */
  readonly exitStatus: string;
}

/** The session ends. */
export interface SessionEndEvent {
  readonly totalTurns: number;
  readonly totalInputTokens: number;
  readonly totalOutputTokens: number;
  readonly totalToolCalls: number;
  readonly totalShellCalls: number;
  readonly durationMs: number;
  readonly exitStatus: string;
}

/** A question to the capsule's model. */
export interface InferenceRequest {
  readonly messages: readonly NewMessage[];
  readonly systemPrompt?: string | null;
  /** Default: the capsule's. */
  readonly model?: string | null;
}

/** The model's answer. */
export interface InferenceResponse {
  readonly text: string;
  readonly modelUsed: string;
  readonly inputTokens: number;
  readonly outputTokens: number;
}

/** A page of the recorded conversation, newest message first. */
export interface MessagePage {
  readonly messages: readonly HookMessage[];
  /** For the next, older page; `null` after the oldest. */
  readonly nextCursor: string | null;
  /** Messages of the whole record. */
  readonly total: number;
}

/** The task as it was given, with all feedback so far, or as it first came. */
export type TaskInputForm = "as-given" | "original";

/** A request to the runtime that it did not grant or could not answer. */
export class HookError extends Error {
  override readonly name = "HookError";
  /** E.g. `not-granted`, `no-task`, `no-output`, `out-of-range`, `invalid-cursor`; otherwise the runtime's text. */
  readonly code: string;

  constructor(code: string) {
    super(code);
    this.code = code;
  }
}

/** What a hook may ask of the runtime beside files and HTTP. */
export interface HookContext {
  /**
   * Asks the capsule's model. Its tokens count as the capsule's.
   *
   * @throws {HookError} When there is no answer.
   */
  runInference(request: InferenceRequest): InferenceResponse;
  /** Tokens of a text, by the runtime's count. */
  countTokens(text: string): number;
  /** Text of the running task. Needs `capabilities.task_io.read`. @throws {HookError} */
  readTaskInput(form?: TaskInputForm): string;
  /** Result of the running attempt. Needs `capabilities.task_io.read`. @throws {HookError} `no-output` before there is one. */
  readTaskOutput(): string;
  /**
   * A page of the recorded conversation of the task's context. Needs `capabilities.conversation.read`.
   *
   * @param limit 1 to 100.
   * @throws {HookError}
   */
  readMessages(limit: number, cursor?: string | null): MessagePage;
}

type Answer<Output extends HookOutput> = Output | undefined | void | Promise<Output | undefined | void>;

/** A hook. It is called for those events its manifest binds it to; without `binding:` for all but `onStage`. */
export interface Hook {
  onStage?(event: StageEvent, context: HookContext): Answer<WriteManifests>;
  onSessionStart?(event: SessionStartEvent, context: HookContext): Answer<never>;
  onTaskStart?(event: TaskStartEvent, context: HookContext): Answer<SeedContext>;
  onInference?(event: InferenceEvent, context: HookContext): Answer<Artifact>;
  onToolCall?(event: ToolEvent, context: HookContext): Answer<Deny>;
  onShell?(event: ShellEvent, context: HookContext): Answer<Deny>;
  onCompaction?(event: CompactionEvent, context: HookContext): Answer<ReplaceContext>;
  onTaskEnd?(event: TaskEndEvent, context: HookContext): Answer<ReopenTask>;
  onSessionEnd?(event: SessionEndEvent, context: HookContext): Answer<never>;
}

/** The functions of a hook, in the order of the interface. */
export const HOOK_FUNCTIONS = [
  "onStage",
  "onSessionStart",
  "onTaskStart",
  "onInference",
  "onToolCall",
  "onShell",
  "onCompaction",
  "onTaskEnd",
  "onSessionEnd",
] as const satisfies readonly (keyof Hook)[];

/** Declares the hook a file is; its default export. */
export function defineHook(hook: Hook): Hook {
  if (typeof hook !== "object" || hook === null || !HOOK_FUNCTIONS.some((name) => typeof hook[name] === "function")) {
    throw new TypeError(`defineHook: the hook has none of ${HOOK_FUNCTIONS.join(", ")}`);
  }
  return hook;
}

/** Most bytes asked for at once of a task's text. */
const READ_BYTES = 1 << 19;

function asked<T>(call: () => T): T {
  try {
    return call();
  } catch (error) {
    const payload = payloadOf(error);
    throw typeof payload === "string" ? new HookError(payload) : error;
  }
}

function imports() {
  const { hook } = host();
  if (hook === undefined) throw new Error("only a hook can ask this");
  return hook;
}

/** @internal A message as an import or an answer takes it. */
export function witMessage(message: NewMessage): HookMessage {
  const { role, content, id, sourceId, insertedBy } = message;
  return {
    role: wellFormed(String(role)),
    content: wellFormed(typeof content === "string" ? content : JSON.stringify(content)),
    id: id === undefined || id === null ? null : wellFormed(String(id)),
    sourceId: sourceId === undefined || sourceId === null ? null : wellFormed(String(sourceId)),
    insertedBy: insertedBy ?? null,
  };
}

/** Reads a text in pieces; lengths and offsets are bytes. */
function readWhole(length: number, read: (offset: number, maxBytes: number) => string): string {
  const encoder = new TextEncoder();
  let text = "";
  for (let offset = 0; offset < length;) {
    const piece = read(offset, READ_BYTES);
    if (piece === "") break;
    text += piece;
    offset += encoder.encode(piece).length;
  }
  return text;
}

/** @internal */
export const hookContext: HookContext = {
  runInference({ messages, systemPrompt, model }) {
    return asked(() =>
      imports().inference.runInference({
        messages: messages.map(witMessage),
        systemPrompt: systemPrompt === undefined || systemPrompt === null ? null : wellFormed(systemPrompt),
        model: model === undefined || model === null ? null : wellFormed(model),
      })
    );
  },
  countTokens: (text) => imports().tokens.count(wellFormed(text)),
  readTaskInput(form = "as-given") {
    const { taskIo } = imports();
    return asked(() =>
      readWhole(taskIo.inputLen(form), (offset, maxBytes) => taskIo.readInput(form, offset, maxBytes))
    );
  },
  readTaskOutput() {
    const { taskIo } = imports();
    return asked(() => readWhole(taskIo.outputLen(), (offset, maxBytes) => taskIo.readOutput(offset, maxBytes)));
  },
  readMessages: (limit, cursor = null) => asked(() => imports().conversation.readMessages(cursor, limit)),
};
