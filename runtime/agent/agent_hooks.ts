/**
 * What the agent's loop asks of a session's hooks. Types only: a capsule without hooks loads nothing of them
 * (spec components 10.3).
 *
 * @module
 */
import type { TaskRequest } from "../session/task_registry.ts";
import type { TaskExitStatus } from "../trace/trace_event.ts";
import type { DriverPayload, DriverReply } from "./driver_protocol.ts";
import type { Message } from "./message.ts";
import type { Reopening } from "./reopen_text.ts";

/** A shell command as it would be run, before it is (spec components 10.3 `on-shell`). */
export interface ShellCommandLine {
  /** Canonical path, or the bare name where there is none. */
  readonly binary: string;
  /** The call's `command`, trimmed. */
  readonly command: string;
  /** Program and arguments exactly as they are run. */
  readonly argv: readonly string[];
  /** What an interpreter gets with `-c`; `null` for another program. */
  readonly script: string | null;
}

/** A call that a policy hook refused. */
export interface CallDenial {
  readonly hook: string;
  readonly reason: string;
}

/** A tool call before or after it was made. */
export interface ToolCallFacts {
  readonly turn: number;
  readonly toolName: string;
  /** Exactly what the tool gets. */
  readonly inputJson: string;
}

/** Asked and told by the dispatcher of tool calls. */
export interface CallHooks {
  /** `null`: the call may be made. */
  decideTool(call: ToolCallFacts): Promise<CallDenial | null>;
  /** The same for a shell command. */
  decideShell(turn: number, command: ShellCommandLine): Promise<CallDenial | null>;
  toolCalled(
    call: ToolCallFacts,
    outcome: { readonly outputBytes: number; readonly durationMs: number; readonly status: "ok" | "error" },
  ): Promise<void>;
  shellRan(
    turn: number,
    command: ShellCommandLine,
    outcome: {
      readonly exitCode: number;
      readonly stdout: string;
      readonly stderr: string;
      readonly stdoutBytes: number;
      readonly stderrBytes: number;
      readonly durationMs: number;
    },
  ): Promise<void>;
}

/** A JSON object that a hook adds to what the task's caller is told. */
export interface HookArtifact {
  readonly hook: string;
  readonly content: string;
}

/** How a compaction ended. */
export type Compaction =
  | { readonly kind: "replaced"; readonly messages: readonly Message[]; readonly summary: string }
  | { readonly kind: "declined"; readonly reason: "no_hook_replacement" | "unresolved_tool_call" }
  | { readonly kind: "failed"; readonly message: string }
  /** A hook failed after its own inference was refused by a ceiling. */
  | { readonly kind: "spend_ceiling_reached"; readonly message: string };

/** Asked and told by the turn loop. */
export interface TurnHooks {
  /** An answer was read, before its line is written. @returns what hooks add to it. */
  answered(answer: {
    readonly turn: number;
    readonly inputTokens: number;
    readonly outputTokens: number;
    readonly reply: DriverReply;
    readonly payload: DriverPayload;
  }): Promise<readonly HookArtifact[]>;
  /** @param sessionTokens Of the request and its answer. */
  compact(turn: number, messages: readonly Message[], sessionTokens: number): Promise<Compaction>;
  /** A replacement was committed. */
  compacted(done: {
    readonly turn: number;
    readonly tokensBefore: number;
    readonly tokensAfter: number;
    readonly summary: string;
  }): void;
}

/** Asked and told by whoever runs a task. */
export interface TaskHooks {
  /** A task begins. @returns the seed to put before the history. */
  started(task: TaskRequest, history: readonly Message[]): Promise<readonly Message[]>;
  /** An attempt enters the loop with this text. */
  attempting(taskText: string): void;
  /**
   * An attempt ended.
   *
   * @param output Its result text.
   * @returns why it is not accepted; `null`: it is.
   */
  ended(taskId: string, status: TaskExitStatus, output: string): Promise<Reopening | null>;
  /** The runtime is done with the task. */
  done(): void;
  /** Runs the compaction hooks over a loaded history; what they leave as it is stays. */
  compactHistory(messages: readonly Message[]): Promise<readonly Message[]>;
}
