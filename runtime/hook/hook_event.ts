/**
 * What hooks are told, as JSON: the records of `murmur:hook/lifecycle` in lower camel case, `null` for absent
 * (spec components 2.4, 10.3).
 *
 * @module
 */
import type { HookBinding } from "../../artifact/manifest/artifact_manifest.ts";
import type { JsonValue } from "../../base/json_value.ts";

/** A message as hooks see and make it. */
export type HookMessage = {
  readonly role: string;
  readonly content: string;
  readonly id: string | null;
  readonly sourceId: string | null;
  readonly insertedBy: "replace-context" | "seed-context" | null;
};

/** A shell command as it is to be run or was. */
export type ShellCommandFacts = {
  readonly binary: string;
  readonly command: string;
  readonly argv: readonly string[];
  readonly script: string | null;
  readonly recipe: string | null;
};

/** Payload of each event. */
export interface HookEvents {
  "on-stage": { readonly shellAllow: readonly string[] };
  "on-session-start": {
    readonly capsuleName: string;
    readonly capsuleVersion: string;
    readonly sessionId: string;
    readonly model: string;
    readonly capabilities: readonly string[];
  };
  "on-task-start": {
    readonly taskId: string;
    readonly contextId: string;
    readonly source: string;
    readonly inputBytes: number;
    readonly budgetTokens: number;
    readonly contextWindow: number;
    readonly priorTokens: number;
  };
  "on-inference": {
    readonly turn: number;
    readonly inputTokens: number;
    readonly outputTokens: number;
    readonly decision: string;
    readonly toolName: string | null;
    readonly prompt: string | null;
    readonly output: string | null;
    readonly tools: string | null;
  };
  "on-tool-call": {
    readonly turn: number;
    readonly toolName: string;
    readonly inputBytes: number;
    readonly input: string;
    readonly outcome: {
      readonly outputBytes: number;
      readonly durationMs: number;
      readonly status: "ok" | "error";
    } | null;
  };
  "on-shell": ShellCommandFacts & {
    readonly turn: number;
    readonly outcome: {
      readonly exitCode: number;
      readonly stdout: string;
      readonly stderr: string;
      readonly stdoutBytes: number;
      readonly stderrBytes: number;
      readonly durationMs: number;
    } | null;
  };
  "on-compaction": {
    readonly messages: readonly HookMessage[];
    readonly sessionTokens: number;
    readonly threshold: number;
    readonly model: string | null;
    readonly systemPrompt: string | null;
  };
  "on-task-end": { readonly taskId: string; readonly exitStatus: string };
  "on-session-end": {
    readonly totalTurns: number;
    readonly totalInputTokens: number;
    readonly totalOutputTokens: number;
    readonly totalToolCalls: number;
    readonly totalShellCalls: number;
    readonly durationMs: number;
    readonly exitStatus: string;
  };
}

/** Every payload is JSON. */
const _json: HookEvents[HookBinding] extends JsonValue ? true : never = true;

/** Name of an event's function in the component, `onToolCall` for `on-tool-call`. */
export function functionOf(event: HookBinding): string {
  return event.replace(/-([a-z])/g, (_, letter: string) => letter.toUpperCase());
}

/** Functions every hook has to export; `on-task-start` and `on-task-end` may be missing, `on-stage` is looked up when it is due. */
export const REQUIRED_EVENTS: readonly HookBinding[] = [
  "on-session-start",
  "on-inference",
  "on-tool-call",
  "on-shell",
  "on-compaction",
  "on-session-end",
];
