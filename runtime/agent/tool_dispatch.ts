/**
 * The one dispatcher of tool calls: resolve, capability, required input, read-only paths, run, fence, record, frame
 * (spec components 8.2, 8.3, 8.10, session 9.4). The loop, the tool bridge, plans and `invoke` all go through it.
 *
 * @module
 */
import type { JsonObject } from "../../base/json_value.ts";
import { MurError, reasonOf, type WarningSink } from "../../base/errors.ts";
import { ComponentFailure } from "../component/component_runtime.ts";
import type { CallDenial, CallHooks, ShellCommandLine, ToolCallFacts } from "./agent_hooks.ts";
import type { ArtifactFrame, FrameLog } from "../session/frame_log.ts";
import type { TraceWriter } from "../trace/trace_writer.ts";
import type { ResourceLimitName, Trust } from "../trace/trace_event.ts";
import { reservedMetadata } from "./driver_protocol.ts";
import type { ToolCall } from "./message.ts";
import { checkRequiredInput, uncheckedInputWarning } from "./required_input.ts";
import { fence as fenceText, fenceSource } from "./untrusted_fence.ts";

/** What kind of thing answers a name. */
export type ToolKind = "runtime" | "native" | "shell" | "skill" | "wasm";

/** Where a call stands: which task and turn, and who may stop it. */
export interface CallScope {
  readonly taskId: string;
  readonly contextId: string;
  readonly turn: number;
  /** Whether the task's caller may be told frames; tasks that came over no door have none. */
  readonly overDoor: boolean;
  /** Class of the task. */
  readonly trust: Trust;
  readonly signal: AbortSignal;
  /** The call is a step of a plan: its commands get no variables of the session and are never moved to the background. */
  readonly inPlan?: boolean;
}

/** A shell command as its trace line tells it. */
export interface ShellReport {
  readonly binary: string;
  readonly command: string;
  readonly exitCode: number;
  /** Texts as they were cut for the model. */
  readonly stdout: string;
  readonly stderr: string;
  readonly stdoutBytes: number;
  readonly stderrBytes: number;
  readonly durationMs: number;
  readonly resourceLimit?: ResourceLimitName;
}

/** A shell command that outran its grace. */
export interface DetachedReport {
  readonly workId: string;
  readonly binary: string;
  readonly command: string;
  readonly graceMs: number;
}

/** The members of a result that {@linkcode ToolRun.text} is made of, apart: a plan's step needs them. */
export interface ToolAnswer {
  readonly data: string | null;
  readonly summary: string | null;
  /** Reads the file that holds the data instead, at most so many bytes; `null` when none is named or can be read. */
  readData(maxBytes: number): string | null;
}

/** What running a tool gave. */
export interface ToolRun {
  readonly passed: boolean;
  readonly text: string;
  /** Absent: the text is all there is. */
  readonly answer?: ToolAnswer;
  readonly metadata: readonly (readonly [string, string])[];
  /** The tool says that its result is cut. */
  readonly truncated?: boolean;
  /** Set for a shell command that ended in its grace. */
  readonly shell?: ShellReport;
  /** Set for one that was moved to the background. */
  readonly detached?: DetachedReport;
  /** The call went wrong in a way that ends the session (`E-RUN-014`). */
  readonly fatal?: MurError;
  /** Nobody answered the tool's question in time: the attempt ends (spec session 16.1). */
  readonly inputTimedOut?: boolean;
}

/** A name resolved to what answers it. */
export interface ResolvedTool {
  readonly kind: ToolKind;
  /** JSON Schema of the input; `null` for skills. */
  readonly inputSchema: JsonObject | null;
  /** Skills only: who put it there. */
  readonly skillOrigin?: "operator" | "runtime";
  /** A command line of a plan: its words behind the binary, which no interpreter reads. */
  readonly args?: readonly string[];
  /** Shell commands only: what would be run, for those who decide; `null` when the input holds no command. */
  describe?(input: JsonObject): ShellCommandLine | null;
  /** @throws {DispatchRefusal} when nothing ran. */
  run(input: JsonObject, scope: CallScope): Promise<ToolRun>;
}

/** The call was refused or nothing could run; the text goes to the model, unfenced. */
export class DispatchRefusal extends Error {
  override readonly name = "DispatchRefusal";
}

/** A write to a protected path (spec manifest 9.3). */
export interface ProtectedPathRefusal {
  readonly path: string;
  readonly rule: string;
  readonly signal: string;
  readonly reason: string;
}

/** What the dispatcher asks of the session. */
export interface DispatchServices {
  /** @throws {DispatchRefusal} when no such tool may be called. */
  resolve(name: string): ResolvedTool;
  readonly warn: WarningSink;
  /** `null`: the call writes to no protected path. */
  protectedPath(tool: ResolvedTool, name: string, input: JsonObject): ProtectedPathRefusal | null;
  /** `null`: the session has no hooks. */
  readonly hooks: CallHooks | null;
  readonly trace: TraceWriter;
  readonly frames: FrameLog;
}

/** What goes back into the conversation. */
export interface DispatchResult {
  /** With its fence, when it has one. */
  readonly text: string;
  readonly isError: boolean;
  readonly fence: string | null;
  readonly fatal: MurError | null;
  readonly inputTimedOut: boolean;
}

/** What a step of a plan gave. */
export type StepCall =
  /** A gate refused it, or nothing could be run. */
  | { readonly kind: "refused"; readonly reason: string }
  | { readonly kind: "ran"; readonly run: ToolRun };

/** Why a gate refused a call. */
type GateRefusal =
  | { readonly gate: "input"; readonly missing: readonly string[]; readonly reason: string }
  | { readonly gate: "protected-path"; readonly reason: string; readonly refused: ProtectedPathRefusal };
/** A call that a policy hook refused. */
interface PolicyDenial extends CallDenial {
  readonly event: "on-tool-call" | "on-shell";
  /** What the model is told. */
  readonly text: string;
}

/** Answer of a call whose task was stopped while it waited for its decision. */
const STOPPED = "the task was stopped before the call was made";

const encoder = new TextEncoder();

/** Dispatches the tool calls of one session. */
export class ToolDispatcher {
  readonly #services: DispatchServices;
  /** Tools already warned about (`W-RUN-004`). */
  readonly #unchecked = new Set<string>();

  constructor(services: DispatchServices) {
    this.#services = services;
  }

  /** Runs one call of the model and leaves its records. Never throws for what a tool does; a failed trace does. */
  async dispatch(call: ToolCall, scope: CallScope): Promise<DispatchResult> {
    const started = performance.now();
    const inputJson = JSON.stringify(call.input);
    let tool: ResolvedTool | null = null;
    let run: ToolRun | null = null;
    let command: ShellCommandLine | null = null;
    let refusal = "";
    try {
      tool = this.#services.resolve(call.name);
      if (call.inputProblem !== null) throw new DispatchRefusal(call.inputProblem);
      const refused = this.#gate(tool, call.name, call.input);
      if (refused?.gate === "protected-path") return this.#protected(tool, call, scope, refused.refused);
      if (refused?.gate === "input") {
        this.#services.trace.write("tool_input_refused", {
          turn: scope.turn,
          tool_name: call.name,
          tool_call_id: call.id,
          missing: refused.missing,
          reason: refused.reason,
        });
        throw new DispatchRefusal(refused.reason);
      }
      command = tool.describe?.(call.input) ?? null;
      const denial = await this.#denial(call.name, inputJson, command, scope.turn);
      if (denial !== null) return this.#denied(call, scope, denial);
      // A hook may take its time; what was stopped meanwhile is not begun.
      if (this.#services.hooks !== null && scope.signal.aborted) throw new DispatchRefusal(STOPPED);
      run = await tool.run(call.input, scope);
    } catch (cause) {
      if (!failsTheCallAlone(cause)) throw cause;
      refusal = reasonOf(cause);
    }
    const durationMs = Math.round(performance.now() - started);
    const isError = run === null || !run.passed;
    // The runtime's own words and what the operator declared are not fenced (spec components 8.9).
    const fence = run === null || (tool?.kind === "skill" && tool.skillOrigin !== "runtime")
      ? null
      : fenceSource("tool", call.name);
    const text = run === null ? refusal : fence === null ? run.text : fenceText(fence, run.text);
    await this.#record(call, scope, { tool, run, text, isError, durationMs, inputJson, command });
    this.#frame(call, scope, {
      content: text,
      fenceSource: fence,
      isError,
      durationMs,
      exitCode: run?.shell?.exitCode ?? null,
      truncated: run?.truncated ?? false,
    });
    return {
      text,
      isError,
      fence,
      fatal: run?.fatal ?? null,
      inputTimedOut: run?.inputTimedOut ?? false,
    };
  }

  /**
   * Runs one attempt at a step of a plan: resolved, gated and run as a call of the model is, and told by the plan's own
   * records instead of a call's (spec components 12.5, trace 6.6). Never throws for what a tool does.
   *
   * @param tool What answers; by default what the name resolves to.
   * @param scope Of the call that submitted the plan, with the plan's signal.
   */
  async dispatchStep(
    { name, input, tool }: { readonly name: string; readonly input: JsonObject; readonly tool?: ResolvedTool },
    scope: CallScope,
  ): Promise<StepCall> {
    try {
      const resolved = tool ?? this.#services.resolve(name);
      const refused = this.#gate(resolved, name, input);
      if (refused !== null) return { kind: "refused", reason: refused.reason };
      const command = resolved.describe?.(input) ?? null;
      const denied = await this.decideStep(name, input, scope, command);
      if (denied !== null) return denied;
      return { kind: "ran", run: await resolved.run(input, { ...scope, inPlan: true }) };
    } catch (cause) {
      if (!failsTheCallAlone(cause)) throw cause;
      const reason = reasonOf(cause);
      if (cause instanceof DispatchRefusal) return { kind: "refused", reason };
      return { kind: "ran", run: { passed: false, text: reason, metadata: [] } };
    }
  }

  /**
   * Gate 3 for one attempt at a step of a plan. A step that is no call of its own is judged as the call that does the same.
   *
   * @returns `null`: it may be made.
   */
  async decideStep(
    name: string,
    input: JsonObject,
    scope: CallScope,
    command: ShellCommandLine | null = null,
  ): Promise<Extract<StepCall, { kind: "refused" }> | null> {
    const denial = await this.#denial(name, JSON.stringify(input), command, scope.turn);
    if (denial !== null) {
      this.#recordDenial(name, scope, denial);
      return { kind: "refused", reason: denial.text };
    }
    // A hook may take its time; what was stopped meanwhile is not begun.
    const stopped = this.#services.hooks !== null && scope.signal.aborted;
    return stopped ? { kind: "refused", reason: STOPPED } : null;
  }

  /** The gates before every run (spec components 8.3), for calls of the model and steps of plans alike. */
  #gate(tool: ResolvedTool, name: string, input: JsonObject): GateRefusal | null {
    const missing = this.#missingInput(tool, name, input);
    if (missing !== null) return missing;
    const refused = this.#services.protectedPath(tool, name, input);
    return refused === null ? null : { gate: "protected-path", reason: refused.reason, refused };
  }

  /** Gate 0 (spec components 8.3). */
  #missingInput(tool: ResolvedTool, name: string, input: JsonObject): GateRefusal | null {
    if (tool.inputSchema === null) return null;
    const finding = checkRequiredInput(name, tool.inputSchema, input);
    if (finding.kind === "complete") return null;
    if (finding.kind === "unusable") {
      if (!this.#unchecked.has(name)) this.#services.warn(uncheckedInputWarning(name, finding.why));
      this.#unchecked.add(name);
      return null;
    }
    return { gate: "input", missing: finding.missing, reason: finding.reason };
  }

  #protected(tool: ResolvedTool, call: ToolCall, scope: CallScope, refused: ProtectedPathRefusal): DispatchResult {
    this.#services.trace.write("protected_path_denied", {
      turn: scope.turn,
      call: tool.kind === "shell" ? "shell" : "tool",
      target: call.name,
      path: refused.path,
      rule: refused.rule,
      signal: refused.signal,
      reason: refused.reason,
    });
    this.#frame(call, scope, {
      content: refused.reason,
      fenceSource: null,
      isError: true,
      durationMs: 0,
      exitCode: null,
      truncated: false,
    });
    return { text: refused.reason, isError: true, fence: null, fatal: null, inputTimedOut: false };
  }

  /**
   * Gate 3: the policy hooks of the call and, for a shell command, of that (spec components 10.5).
   *
   * @returns The refusal with what the model is told; `null`: the call may be made.
   */
  async #denial(
    name: string,
    inputJson: string,
    command: ShellCommandLine | null,
    turn: number,
  ): Promise<PolicyDenial | null> {
    const { hooks } = this.#services;
    if (hooks === null) return null;
    let event: PolicyDenial["event"] = "on-tool-call";
    let denial = await hooks.decideTool({ turn, toolName: name, inputJson });
    if (denial === null && command !== null) {
      event = "on-shell";
      denial = await hooks.decideShell(turn, command);
    }
    if (denial === null) return null;
    const text = `the call of '${name}' was refused by hook '${denial.hook}': ${denial.reason}\n` +
      "It was not made. The same call is refused again unless it is changed.";
    return { event, ...denial, text };
  }

  #recordDenial(target: string, { turn }: CallScope, { event, hook, reason }: PolicyDenial): void {
    this.#services.trace.write("call_denied", { turn, event, hook_name: hook, target, reason });
  }

  #denied(call: ToolCall, scope: CallScope, denial: PolicyDenial): DispatchResult {
    const { text } = denial;
    this.#recordDenial(call.name, scope, denial);
    this.#frame(call, scope, {
      content: text,
      fenceSource: null,
      isError: true,
      durationMs: 0,
      exitCode: null,
      truncated: false,
    });
    return { text, isError: true, fence: null, fatal: null, inputTimedOut: false };
  }

  async #record(
    call: ToolCall,
    scope: CallScope,
    done: {
      readonly tool: ResolvedTool | null;
      readonly run: ToolRun | null;
      readonly text: string;
      readonly isError: boolean;
      readonly durationMs: number;
      readonly inputJson: string;
      readonly command: ShellCommandLine | null;
    },
  ): Promise<void> {
    const { trace, hooks } = this.#services;
    const status = done.isError ? "error" : "ok";
    const outputBytes = encoder.encode(done.text).length;
    const facts: ToolCallFacts = { turn: scope.turn, toolName: call.name, inputJson: done.inputJson };
    await hooks?.toolCalled(facts, { outputBytes, durationMs: done.durationMs, status });
    if (done.tool?.kind === "skill") {
      const origin = done.tool.skillOrigin ?? "operator";
      trace.write("skill_call", {
        turn: scope.turn,
        task_id: scope.taskId,
        skill_name: call.name,
        output_bytes: outputBytes,
        duration_ms: done.durationMs,
        status,
        origin,
        trust: origin === "operator" ? "trusted" : "untrusted",
      });
      return;
    }
    const metadata = done.run?.metadata ?? [];
    const stateEffect = reservedMetadata(metadata, "state_effect");
    const resourceId = reservedMetadata(metadata, "resource_id");
    trace.write("tool_call", {
      turn: scope.turn,
      task_id: scope.taskId,
      tool_name: call.name,
      tool_call_id: call.id,
      input: call.input,
      input_bytes: encoder.encode(done.inputJson).length,
      ...(trace.capture === "content" ? { output: done.text } : {}),
      output_bytes: outputBytes,
      duration_ms: done.durationMs,
      status,
      ...(stateEffect === null ? {} : { state_effect: stateEffect }),
      ...(resourceId === null ? {} : { resource_id: resourceId }),
    });
    const shell = done.run?.shell;
    if (shell !== undefined) {
      if (done.command !== null) {
        const { exitCode, stdout, stderr, stdoutBytes, stderrBytes } = shell;
        const durationMs = Math.round(shell.durationMs);
        await hooks?.shellRan(scope.turn, done.command, {
          exitCode,
          stdout,
          stderr,
          stdoutBytes,
          stderrBytes,
          durationMs,
        });
      }
      trace.write("shell", {
        turn: scope.turn,
        task_id: scope.taskId,
        binary: shell.binary,
        command: shell.command,
        exit_code: shell.exitCode,
        stdout_bytes: shell.stdoutBytes,
        stderr_bytes: shell.stderrBytes,
        duration_ms: Math.round(shell.durationMs),
        ...(shell.resourceLimit === undefined ? {} : { resource_limit: shell.resourceLimit }),
      });
    }
    const detached = done.run?.detached;
    if (detached !== undefined) {
      trace.write("shell_detached", {
        turn: scope.turn,
        task_id: scope.taskId,
        work_id: detached.workId,
        binary: detached.binary,
        command: detached.command,
        grace_ms: detached.graceMs,
      });
    }
  }

  /** A task that did not come over the door has nobody to tell (spec door 12.2). */
  #frame(
    call: ToolCall,
    scope: CallScope,
    outcome: Omit<ArtifactFrame, "type" | "taskId" | "toolName" | "toolCallId">,
  ): void {
    if (!scope.overDoor) return;
    this.#services.frames.publish({
      type: "artifact",
      taskId: scope.taskId,
      toolName: call.name,
      toolCallId: call.id === "" ? null : call.id,
      ...outcome,
    });
  }
}

/**
 * Whether what a tool threw is a refusal or a failed dispatch, and the session goes on. Anything else is a defect, or a
 * trace that cannot be written.
 */
export function failsTheCallAlone(cause: unknown): boolean {
  return cause instanceof DispatchRefusal || cause instanceof ComponentFailure ||
    (cause instanceof MurError && cause.code !== "E-RUN-007");
}
