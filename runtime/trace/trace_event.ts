/**
 * The events of `trace.jsonl`: for each its keys, their types, their order on the line, and what it hangs off
 * (spec trace 2, 3.1, 5 and 6). The table {@linkcode TRACE_EVENT_KEYS} is the one place of order; the compiler holds it
 * against the types.
 *
 * @module
 */
import type { JsonObject, JsonValue } from "../../base/json_value.ts";

/** Where a key comes from, as `session_start.credential_source` and `gateways` say it. */
export type CredentialSource = "config" | "environment" | "manifest" | "keyless" | "none" | "injected";

/** End of a launch. */
export type SessionExitStatus =
  | "ok"
  | "failed"
  | "max_turns_reached"
  | "spend_ceiling_reached"
  | "canceled"
  | "formation_ended";

/** End of a task. */
export type TaskExitStatus =
  | "ok"
  | "failed"
  | "max_turns_reached"
  | "spend_ceiling_reached"
  | "reopen_budget_exhausted"
  | "canceled"
  | "no_answer";

export type TaskSource = "a2a" | "task_md" | "detached_shell" | "detached_lost";
export type TaskOrigin = "user" | "peer" | "schedule" | "event" | "completion" | "system";
export type Trust = "trusted" | "untrusted";
export type Lane = "user" | "peer" | "bg";

/** Where the loop stood when a task was cancelled. */
export type CancelPhase =
  | "queued"
  | "turn"
  | "inference"
  | "input"
  | "delegation"
  | "member_call"
  | "harness"
  | "plan";

/** Why an attempt failed. */
export type TaskFailureCause =
  | "driver_error"
  | "credential_rejected"
  | "malformed_response"
  | "compaction_hook"
  | "input_timeout"
  | "reopen_budget_exhausted"
  | "runtime_error";

/** `inference.error_code`. */
export type InferenceErrorCode =
  | "credential_rejected"
  | "driver_error"
  | "driver_failed"
  | "malformed_response"
  | "harness_auth"
  | "harness_quota"
  | "harness_error"
  | "harness_other"
  | "harness_inactive";

export type InferenceDecision = "tool_call" | "end_turn" | "text" | "error";
export type CallStatus = "ok" | "error";
export type ResourceLimitName =
  | "cpu_seconds"
  | "max_file_size_bytes"
  | "memory_bytes"
  | "cgroup_memory_bytes"
  | "cgroup_pids_max";

interface CopiedFolder {
  readonly source: string;
  readonly files: number;
  readonly directories: number;
  readonly links: number;
  readonly bytes: number;
  readonly skipped: readonly { readonly path: string; readonly reason: string }[];
}

/** Own keys of every event, beside the five common ones. Times in ms, sizes in bytes. `?` means: omitted, never null. */
export interface TraceEventBodies {
  session_start: {
    readonly capsule_name: string;
    readonly capsule_version: string;
    readonly model: string;
    readonly max_turns: number;
    readonly max_session_tokens: number | null;
    readonly machine_tokens_per_day: number | null;
    readonly capabilities: readonly ("network" | "filesystem" | "shell")[];
    readonly tools_declared: readonly string[];
    readonly tool_refresh: "compaction" | "immediate" | null;
    readonly runtime_artifacts: readonly {
      readonly name: string;
      readonly version: string;
      readonly origin: "runtime";
      readonly session: string;
      readonly trust: "untrusted";
    }[];
    readonly containment_declared: string;
    readonly containment_achieved: string;
    readonly userns_grant: string | null;
    readonly workdir_exec: boolean;
    readonly resumed_from: string | null;
    readonly context_id: string | null;
    readonly control?: {
      readonly settings: readonly string[];
      readonly secrets: readonly string[];
      readonly agent_settings?: readonly string[];
    };
    readonly inference_choices?: readonly {
      readonly name: string;
      readonly driver: string;
      readonly model: string;
      readonly credential_source: CredentialSource;
      readonly available: boolean;
    }[];
    readonly spawned_by?: string;
    readonly delegation_id?: string;
    readonly formation_id?: string;
    readonly formation_member?: string;
    readonly formation_callees?: readonly string[];
    readonly system_prompt_source: "manifest" | "cli" | "none";
    readonly credential_source: CredentialSource;
    readonly gateways: readonly {
      readonly artifact: string;
      readonly host: string;
      readonly credential_source: CredentialSource;
      readonly metered: boolean;
    }[];
    readonly system_prompt_sha256: string | null;
    /** What `mur run --explain-scope --json` answers (spec trace 5.2); its keys are the scope report's. */
    readonly effective_grants: JsonObject;
  };
  session_end: {
    readonly total_turns: number;
    readonly total_input_tokens: number;
    readonly total_output_tokens: number;
    readonly total_tool_calls: number;
    readonly total_shell_calls: number;
    readonly duration_ms: number;
    readonly exit_status: SessionExitStatus;
  };
  a2a_task_received: {
    readonly task_id: string;
    readonly context_id: string;
    readonly message_id: string;
    readonly traceparent_from_caller: string | null;
    readonly caller_member?: string;
  };
  task_start: {
    readonly task_id: string;
    readonly context_id: string;
    readonly source: TaskSource;
    readonly origin: TaskOrigin;
    readonly trust: Trust;
    readonly lane: Lane;
    readonly message_parts_bytes: number;
    readonly reference_task_ids?: readonly string[];
    readonly part_kinds?: readonly ("text" | "data")[];
  };
  task_end: {
    readonly task_id: string;
    readonly exit_status: TaskExitStatus;
    readonly duration_ms: number;
    readonly turns: number;
    readonly input_tokens: number;
    readonly output_tokens: number;
    readonly tool_calls: number;
    readonly shell_calls: number;
    readonly reopen_count: number;
  };
  task_reopened: {
    readonly task_id: string;
    readonly hook_name: string;
    readonly reason: string;
    readonly reopen_number: number;
    readonly attempt_context: "continued" | "restarted";
    readonly turns_remaining: number;
  };
  task_continued: {
    readonly task_id: string;
    readonly continuation_number: number;
    readonly member_calls: readonly string[];
    readonly delegations: readonly string[];
    readonly waited_ms: number;
    readonly turns_remaining: number;
  };
  task_canceled: {
    readonly task_id: string;
    readonly turn?: number;
    readonly phase: CancelPhase;
    readonly detached_work_ids: readonly string[];
    readonly delegation_ids: readonly string[];
  };
  task_failed: {
    readonly task_id: string;
    readonly turn?: number;
    readonly cause: TaskFailureCause;
    readonly reason: string;
  };
  task_rejected: {
    readonly task_id: string;
    readonly context_id: string;
    readonly source: "a2a" | "detached_shell" | "detached_lost";
    readonly cause: "session_ended" | "session_stopped";
    readonly reason: string;
  };
  formation_ended: { readonly formation_id: string };
  spawner_ended: { readonly spawned_by?: string; readonly delegation_id?: string };
  inference: {
    readonly turn: number;
    readonly task_id: string | null;
    readonly input_tokens?: number;
    readonly output_tokens?: number;
    readonly decision: InferenceDecision;
    readonly stop_reason?: string;
    readonly tool_name: string | null;
    readonly input_tokens_actual?: number;
    readonly output_tokens_actual?: number;
    readonly cached_tokens?: number;
    readonly cache_write_tokens?: number;
    readonly thinking_tokens?: number;
    readonly origin?: string;
    readonly driver_choice?: string;
    readonly model?: string;
    readonly message_ids?: readonly string[];
    readonly system_sha?: string;
    readonly tools_sha?: string;
    readonly response_sha?: string;
    readonly message_shas?: readonly string[];
    readonly error_code?: InferenceErrorCode;
    readonly error?: string;
    readonly provider_status?: number;
  };
  tool_call: {
    readonly turn: number;
    readonly task_id: string | null;
    readonly tool_name: string;
    readonly tool_call_id: string | null;
    readonly input: JsonObject;
    readonly input_bytes: number;
    readonly output?: string;
    readonly output_bytes: number;
    readonly duration_ms: number;
    readonly status: CallStatus;
    readonly state_effect?: string;
    readonly resource_id?: string;
  };
  skill_call: {
    readonly turn: number;
    readonly task_id: string | null;
    readonly skill_name: string;
    readonly output_bytes: number;
    readonly duration_ms: number;
    readonly status: CallStatus;
    readonly origin: "operator" | "runtime";
    readonly trust: Trust;
  };
  shell: {
    readonly turn: number;
    readonly task_id: string | null;
    readonly binary: string;
    readonly command: string;
    readonly exit_code: number;
    readonly stdout_bytes: number;
    readonly stderr_bytes: number;
    readonly duration_ms: number;
    readonly resource_limit?: ResourceLimitName;
  };
  shell_detached: {
    readonly turn: number;
    readonly task_id: string | null;
    readonly work_id: string;
    readonly binary: string;
    readonly command: string;
    readonly grace_ms: number;
  };
  shell_completed: {
    readonly work_id: string;
    readonly binary: string;
    readonly command: string;
    readonly exit_code: number;
    readonly duration_ms: number;
    readonly output_path: string;
    readonly output_bytes: number;
    readonly resource_limit?: ResourceLimitName;
    readonly status: CallStatus;
    readonly completion_task_id: string;
  };
  shell_abandoned: {
    readonly work_id: string;
    readonly binary: string;
    readonly command: string;
    readonly running_ms: number;
    readonly exit_code?: number;
    readonly output_path?: string;
    readonly output_bytes?: number;
  };
  shell_lost: {
    readonly work_id: string;
    readonly binary: string;
    readonly command: string;
    readonly detached_at_ms: number;
    readonly reconciled_by_session: string;
    readonly reconciled_task_id: string;
  };
  shell_detach_unrecorded: {
    readonly turn: number;
    readonly task_id: string | null;
    readonly work_id: string;
    readonly binary: string;
    readonly reason: string;
  };
  compaction: {
    readonly turn: number;
    readonly task_id: string | null;
    readonly tokens_before: number;
    readonly tokens_after: number;
  };
  compaction_declined: {
    readonly turn: number;
    readonly task_id: string | null;
    readonly tokens: number;
    readonly reason: "no_hook_replacement" | "unresolved_tool_call";
  };
  context_seed: {
    readonly task_id: string;
    readonly hook_name: string;
    readonly tokens: number;
    readonly proposed_tokens: number;
    readonly budget_tokens: number;
    readonly outcome: "seeded" | "trimmed" | "compacted" | "rejected";
    readonly reason?: "message_over_budget" | "overflow_over_limit" | "no_budget" | "unsupported_transport";
    readonly message_ids: readonly string[];
  };
  call_denied: {
    readonly turn: number;
    readonly event: "on-shell" | "on-tool-call";
    readonly hook_name: string;
    readonly target: string;
    readonly reason: string;
  };
  protected_path_denied: {
    readonly turn: number;
    readonly call: "shell" | "tool";
    readonly target: string;
    readonly path: string;
    readonly rule: string;
    readonly signal: string;
    readonly reason: string;
  };
  tool_input_refused: {
    readonly turn: number;
    readonly tool_name: string;
    readonly tool_call_id: string | null;
    readonly missing: readonly string[];
    readonly reason: string;
  };
  spend_ceiling_reached: {
    readonly turn: number;
    readonly task_id: string | null;
    readonly limit: "session" | "machine";
    readonly ceiling: number;
    readonly used: number;
    readonly requested: number;
    readonly origin?: string;
  };
  inference_credential: CredentialChange;
  gateway_credential: { readonly artifact: string } & CredentialChange;
  control_change: {
    readonly principal: "controller" | "agent";
    readonly token_id?: string;
    readonly kind: "setting" | "secret";
    readonly name: string;
    readonly action: "set" | "forget";
    readonly previous?: number | string;
    readonly value?: number | string;
    readonly applies_from?: "next_inference_call";
    readonly replaced?: boolean;
  };
  control_refused: {
    readonly principal: "controller" | "agent";
    readonly status: number;
    readonly reason: string;
    readonly kind?: "setting" | "secret";
    readonly name?: string;
    readonly token_id?: string;
  };
  control_applied: {
    readonly turn: number;
    readonly task_id: string | null;
    readonly name: string;
    readonly value: number | string;
    readonly change_id: string;
  };
  tools_refreshed: {
    readonly turn: number;
    readonly task_id: string | null;
    readonly trigger: "immediate" | "compaction";
    readonly added: readonly string[];
    readonly removed: readonly string[];
    readonly tools: readonly string[];
  };
  artifact_pulled: {
    readonly name: string;
    readonly version: string;
    readonly runtime: "skill" | "tool";
    readonly origin: "runtime" | "operator";
    readonly session: string | null;
    readonly trust: Trust;
  };
  a2a_send: {
    readonly peer_url: string;
    readonly message_id: string;
    readonly task_id: string;
    readonly context_id: string;
    readonly traceparent: string | null;
    readonly trust: Trust;
  };
  resource_list: {
    readonly root: string;
    readonly entry_count: number;
    readonly total_bytes: number;
    readonly generation: number;
    readonly containment_achieved: string;
    readonly outcome: string;
    readonly reason: string | null;
  };
  resource_read: {
    readonly path: string;
    readonly outcome: string;
    readonly bytes: number | null;
    readonly sha256: string | null;
    readonly generation: number;
    readonly containment_achieved: string;
    readonly reason: string | null;
  };
  peer_handle_mint: {
    readonly handle_id: string | null;
    readonly path: string;
    readonly audience: string;
    readonly expires_at_ms: number | null;
    readonly outcome: string;
    readonly reason: string | null;
  };
  peer_handle_redeem: {
    readonly handle_id: string;
    readonly path: string | null;
    readonly generation: number;
    readonly audience_asserted: string | null;
    readonly bytes: number | null;
    readonly sha256: string | null;
    readonly outcome: string;
    readonly reason: string | null;
  };
  peer_file_fetch: {
    readonly peer: string;
    readonly handle_id: string;
    readonly stored_path: string | null;
    readonly bytes: number | null;
    readonly sha256: string | null;
    readonly outcome: string;
    readonly reason: string | null;
  };
  delegation_start: {
    readonly delegation_id: string;
    readonly capsule: string;
    readonly version: string;
    readonly child_session_id: string;
    readonly child_workdir: string;
    readonly workdir_snapshot?: CopiedFolder;
  };
  delegation: {
    readonly capsule: string;
    readonly version: string;
    readonly delegation_id: string | null;
    readonly child_session_id: string | null;
    readonly duration_ms: number;
    readonly outcome: string;
    readonly reason: string | null;
  };
  member_call_busy: {
    readonly task_id: string;
    readonly call_id: string;
    readonly member: string;
    readonly offer: number;
    readonly waited_ms: number;
    readonly message: string;
  };
  member_call_start: {
    readonly task_id: string;
    readonly call_id: string;
    readonly member: string;
    readonly member_task_id: string;
  };
  member_call: {
    readonly task_id: string;
    readonly call_id: string;
    readonly member: string;
    readonly member_task_id?: string;
    readonly status: string;
    readonly duration_ms: number;
    readonly output: string;
    readonly truncated: boolean;
    readonly delivered: boolean;
  };
  plan_start: {
    readonly plan_id: string;
    readonly step_count: number;
    readonly steps: readonly {
      readonly step_id: string;
      readonly kind: PlanStepKind;
      readonly depends_on: readonly string[];
      readonly has_condition: boolean;
    }[];
  };
  plan_step_start: {
    readonly plan_id: string;
    readonly step_id: string;
    readonly kind: PlanStepKind;
    readonly depends_on: readonly string[];
  };
  plan_step: {
    readonly plan_id: string;
    readonly step_id: string;
    readonly kind: PlanStepKind;
    readonly status: "success" | "failed" | "skipped";
    readonly attempts: number;
    readonly duration_ms: number;
    readonly error?: string;
    readonly input?: JsonValue;
    readonly state_effect?: string;
    readonly resource_id?: string;
  };
  plan_end: {
    readonly plan_id: string;
    readonly outcome: "completed" | "failed" | "canceled";
    readonly failed_step?: string;
    readonly steps_total: number;
    readonly steps_succeeded: number;
    readonly steps_failed: number;
    readonly steps_skipped: number;
    readonly duration_ms: number;
    readonly reason?: string;
  };
  harness_start: {
    readonly driver: string;
    readonly driver_version: string;
    readonly harness: string;
    readonly binary: string;
    readonly binary_source: string;
    readonly harness_version: string | null;
    readonly version_tested: boolean;
    readonly harness_session_id: string;
    readonly session_mode: "new" | "resume";
    readonly args_count: number;
    readonly env_names: readonly string[];
    readonly files: number;
    readonly bridge_tools: number;
    readonly stdin_bytes: number;
    readonly keep_stdin_open: boolean;
  };
  harness_session: { readonly harness_session_id: string; readonly auth: string; readonly model: string | null };
  harness_session_forgotten: {
    readonly context_id: string;
    readonly harness_session_id: string;
    readonly requested_by: "cli" | "a2a";
  };
  harness_warning: { readonly code: string; readonly message: string };
  harness_failed: { readonly kind: string; readonly message: string; readonly source: "harness" | "runtime" };
  harness_retry: { readonly attempt: number; readonly reason: string };
  harness_note: { readonly text: string };
  harness_interrupt: { readonly method: string; readonly delivered: boolean; readonly grace_ms: number };
  harness_exit: {
    readonly code: number | null;
    readonly signal: string | null;
    readonly cause: string;
    readonly killed: boolean;
    readonly duration_ms: number;
  };
  hook_dispatch_error: { readonly hook_name: string; readonly event: string; readonly arm: string };
  retention: {
    readonly store: "sessions" | "records";
    readonly reason: "max_sessions" | "max_age" | "max_messages";
    readonly removed: number;
    readonly targets: readonly string[];
    readonly messages_dropped?: number;
  };
}

type PlanStepKind = "tool" | "shell" | "capsule" | "unknown";

interface CredentialChange {
  readonly source: "config" | "environment" | "manifest" | "injected";
  readonly credential?: string;
  readonly change: "rotated" | "rejected" | "unreadable";
  readonly trigger?: "file_changed" | "rejection";
  readonly status?: number;
  readonly retried?: boolean;
  readonly reason?: string;
}

/** Discriminator of a line. */
export type TraceEventType = keyof TraceEventBodies;

/** Own keys of one event. */
export type TraceEventBody<T extends TraceEventType> = TraceEventBodies[T];

/** The five keys every line starts with, in this order (spec trace 2). */
export interface TraceEnvelope<T extends string = string> {
  readonly event_type: T;
  readonly event_id: string;
  readonly parent_id: string | null;
  readonly session_id: string;
  /** Unix milliseconds, taken when the line is written. */
  readonly timestamp: number;
}

/** Key names of each event in line order. */
export const TRACE_EVENT_KEYS = {
  session_start: [
    "capsule_name",
    "capsule_version",
    "model",
    "max_turns",
    "max_session_tokens",
    "machine_tokens_per_day",
    "capabilities",
    "tools_declared",
    "tool_refresh",
    "runtime_artifacts",
    "containment_declared",
    "containment_achieved",
    "userns_grant",
    "workdir_exec",
    "resumed_from",
    "context_id",
    "control",
    "inference_choices",
    "spawned_by",
    "delegation_id",
    "formation_id",
    "formation_member",
    "formation_callees",
    "system_prompt_source",
    "credential_source",
    "gateways",
    "system_prompt_sha256",
    "effective_grants",
  ],
  session_end: [
    "total_turns",
    "total_input_tokens",
    "total_output_tokens",
    "total_tool_calls",
    "total_shell_calls",
    "duration_ms",
    "exit_status",
  ],
  a2a_task_received: ["task_id", "context_id", "message_id", "traceparent_from_caller", "caller_member"],
  task_start: [
    "task_id",
    "context_id",
    "source",
    "origin",
    "trust",
    "lane",
    "message_parts_bytes",
    "reference_task_ids",
    "part_kinds",
  ],
  task_end: [
    "task_id",
    "exit_status",
    "duration_ms",
    "turns",
    "input_tokens",
    "output_tokens",
    "tool_calls",
    "shell_calls",
    "reopen_count",
  ],
  task_reopened: ["task_id", "hook_name", "reason", "reopen_number", "attempt_context", "turns_remaining"],
  task_continued: [
    "task_id",
    "continuation_number",
    "member_calls",
    "delegations",
    "waited_ms",
    "turns_remaining",
  ],
  task_canceled: ["task_id", "turn", "phase", "detached_work_ids", "delegation_ids"],
  task_failed: ["task_id", "turn", "cause", "reason"],
  task_rejected: ["task_id", "context_id", "source", "cause", "reason"],
  formation_ended: ["formation_id"],
  spawner_ended: ["spawned_by", "delegation_id"],
  inference: [
    "turn",
    "task_id",
    "input_tokens",
    "output_tokens",
    "decision",
    "stop_reason",
    "tool_name",
    "input_tokens_actual",
    "output_tokens_actual",
    "cached_tokens",
    "cache_write_tokens",
    "thinking_tokens",
    "origin",
    "driver_choice",
    "model",
    "message_ids",
    "system_sha",
    "tools_sha",
    "response_sha",
    "message_shas",
    "error_code",
    "error",
    "provider_status",
  ],
  tool_call: [
    "turn",
    "task_id",
    "tool_name",
    "tool_call_id",
    "input",
    "input_bytes",
    "output",
    "output_bytes",
    "duration_ms",
    "status",
    "state_effect",
    "resource_id",
  ],
  skill_call: ["turn", "task_id", "skill_name", "output_bytes", "duration_ms", "status", "origin", "trust"],
  shell: [
    "turn",
    "task_id",
    "binary",
    "command",
    "exit_code",
    "stdout_bytes",
    "stderr_bytes",
    "duration_ms",
    "resource_limit",
  ],
  shell_detached: ["turn", "task_id", "work_id", "binary", "command", "grace_ms"],
  shell_completed: [
    "work_id",
    "binary",
    "command",
    "exit_code",
    "duration_ms",
    "output_path",
    "output_bytes",
    "resource_limit",
    "status",
    "completion_task_id",
  ],
  shell_abandoned: ["work_id", "binary", "command", "running_ms", "exit_code", "output_path", "output_bytes"],
  shell_lost: ["work_id", "binary", "command", "detached_at_ms", "reconciled_by_session", "reconciled_task_id"],
  shell_detach_unrecorded: ["turn", "task_id", "work_id", "binary", "reason"],
  compaction: ["turn", "task_id", "tokens_before", "tokens_after"],
  compaction_declined: ["turn", "task_id", "tokens", "reason"],
  context_seed: [
    "task_id",
    "hook_name",
    "tokens",
    "proposed_tokens",
    "budget_tokens",
    "outcome",
    "reason",
    "message_ids",
  ],
  call_denied: ["turn", "event", "hook_name", "target", "reason"],
  protected_path_denied: ["turn", "call", "target", "path", "rule", "signal", "reason"],
  tool_input_refused: ["turn", "tool_name", "tool_call_id", "missing", "reason"],
  spend_ceiling_reached: ["turn", "task_id", "limit", "ceiling", "used", "requested", "origin"],
  inference_credential: ["source", "credential", "change", "trigger", "status", "retried", "reason"],
  gateway_credential: ["artifact", "source", "credential", "change", "trigger", "status", "retried", "reason"],
  control_change: [
    "principal",
    "token_id",
    "kind",
    "name",
    "action",
    "previous",
    "value",
    "applies_from",
    "replaced",
  ],
  control_refused: ["principal", "status", "reason", "kind", "name", "token_id"],
  control_applied: ["turn", "task_id", "name", "value", "change_id"],
  tools_refreshed: ["turn", "task_id", "trigger", "added", "removed", "tools"],
  artifact_pulled: ["name", "version", "runtime", "origin", "session", "trust"],
  a2a_send: ["peer_url", "message_id", "task_id", "context_id", "traceparent", "trust"],
  resource_list: [
    "root",
    "entry_count",
    "total_bytes",
    "generation",
    "containment_achieved",
    "outcome",
    "reason",
  ],
  resource_read: ["path", "outcome", "bytes", "sha256", "generation", "containment_achieved", "reason"],
  peer_handle_mint: ["handle_id", "path", "audience", "expires_at_ms", "outcome", "reason"],
  peer_handle_redeem: [
    "handle_id",
    "path",
    "generation",
    "audience_asserted",
    "bytes",
    "sha256",
    "outcome",
    "reason",
  ],
  peer_file_fetch: ["peer", "handle_id", "stored_path", "bytes", "sha256", "outcome", "reason"],
  delegation_start: [
    "delegation_id",
    "capsule",
    "version",
    "child_session_id",
    "child_workdir",
    "workdir_snapshot",
  ],
  delegation: ["capsule", "version", "delegation_id", "child_session_id", "duration_ms", "outcome", "reason"],
  member_call_busy: ["task_id", "call_id", "member", "offer", "waited_ms", "message"],
  member_call_start: ["task_id", "call_id", "member", "member_task_id"],
  member_call: [
    "task_id",
    "call_id",
    "member",
    "member_task_id",
    "status",
    "duration_ms",
    "output",
    "truncated",
    "delivered",
  ],
  plan_start: ["plan_id", "step_count", "steps"],
  plan_step_start: ["plan_id", "step_id", "kind", "depends_on"],
  plan_step: [
    "plan_id",
    "step_id",
    "kind",
    "status",
    "attempts",
    "duration_ms",
    "error",
    "input",
    "state_effect",
    "resource_id",
  ],
  plan_end: [
    "plan_id",
    "outcome",
    "failed_step",
    "steps_total",
    "steps_succeeded",
    "steps_failed",
    "steps_skipped",
    "duration_ms",
    "reason",
  ],
  harness_start: [
    "driver",
    "driver_version",
    "harness",
    "binary",
    "binary_source",
    "harness_version",
    "version_tested",
    "harness_session_id",
    "session_mode",
    "args_count",
    "env_names",
    "files",
    "bridge_tools",
    "stdin_bytes",
    "keep_stdin_open",
  ],
  harness_session: ["harness_session_id", "auth", "model"],
  harness_session_forgotten: ["context_id", "harness_session_id", "requested_by"],
  harness_warning: ["code", "message"],
  harness_failed: ["kind", "message", "source"],
  harness_retry: ["attempt", "reason"],
  harness_note: ["text"],
  harness_interrupt: ["method", "delivered", "grace_ms"],
  harness_exit: ["code", "signal", "cause", "killed", "duration_ms"],
  hook_dispatch_error: ["hook_name", "event", "arm"],
  retention: ["store", "reason", "removed", "targets", "messages_dropped"],
} as const satisfies { [T in TraceEventType]: readonly (keyof TraceEventBodies[T])[] };

/** Events whose table misses a key of their type; the compiler refuses the assignment below unless there is none. */
type IncompleteTables = {
  [T in TraceEventType]: Exclude<keyof TraceEventBodies[T], typeof TRACE_EVENT_KEYS[T][number]> extends never ? never
    : T;
}[TraceEventType];
const _everyKeyIsInTheTable: [IncompleteTables] extends [never] ? true : IncompleteTables = true;

/** What a line hangs off, before it is known which of those nodes exist (spec trace 3.1). */
export type ParentRule = "none" | "session" | "task" | "turn" | "plan";

/** The nearest node each event may hang off. */
const PARENT_RULES: { readonly [T in TraceEventType]?: ParentRule } = {
  session_start: "none",
  task_start: "session",
  task_end: "task",
  task_reopened: "task",
  task_continued: "task",
  task_canceled: "task",
  task_failed: "task",
  context_seed: "task",
  tool_call: "turn",
  skill_call: "turn",
  shell: "turn",
  shell_detached: "turn",
  shell_detach_unrecorded: "turn",
  compaction: "turn",
  compaction_declined: "turn",
  call_denied: "turn",
  protected_path_denied: "turn",
  tool_input_refused: "turn",
  spend_ceiling_reached: "turn",
  control_applied: "task",
  tools_refreshed: "task",
  plan_step_start: "plan",
  plan_step: "plan",
  plan_end: "plan",
};

/** What an event hangs off. A hook's `inference` (it has an `origin`) hangs off a turn, the loop's own off the task. */
export function parentRule<T extends TraceEventType>(type: T, body: TraceEventBody<T>): ParentRule {
  if (type === "inference") return "origin" in body && body.origin !== undefined ? "turn" : "task";
  if (type.startsWith("harness_")) return "task";
  return PARENT_RULES[type] ?? "session";
}

/**
 * One line without its newline: the five common keys, then the event's own in table order. A member that is `undefined`
 * or not of the event is left out.
 *
 * @param envelope Without `parent_id` only for a `shell_lost` whose session's first line could not be read.
 */
export function serializeTraceEvent<T extends TraceEventType>(
  envelope: Omit<TraceEnvelope<T>, "parent_id"> & { readonly parent_id?: string | null },
  body: TraceEventBody<T>,
): string {
  const line: Record<string, unknown> = {
    event_type: envelope.event_type,
    event_id: envelope.event_id,
    parent_id: envelope.parent_id,
    session_id: envelope.session_id,
    timestamp: envelope.timestamp,
  };
  const members = body as Readonly<Record<string, unknown>>;
  for (const key of TRACE_EVENT_KEYS[envelope.event_type]) line[key] = members[key];
  return JSON.stringify(line);
}
