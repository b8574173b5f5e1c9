/**
 * Of which kind the values of a trace's keys are. A trace may come from another build, or from anywhere, so whoever reads one
 * asks before it counts with a value or cuts it short. The compiler holds the lists against the types of the events.
 *
 * @module
 */
import type { TraceEventBodies, TraceEventType } from "./trace_event.ts";

/** A number that can be counted with, a text, a list of texts, or a list of objects with texts in them. */
type ValueKind = "number" | "text" | "texts" | "records";

type Key = { [T in TraceEventType]: keyof TraceEventBodies[T] }[TraceEventType];
/** What stands under a key, in whatever event has it. */
type ValueOf<K> = {
  [T in TraceEventType]: K extends keyof TraceEventBodies[T] ? NonNullable<TraceEventBodies[T][K]> : never;
}[TraceEventType];
/** Keys under which only such values stand. */
type KeyOf<V> = { [K in Key]: [ValueOf<K>] extends [V] ? K : never }[Key];

const NUMBERS = [
  "args_count",
  "attempt",
  "attempts",
  "bridge_tools",
  "budget_tokens",
  "bytes",
  "cache_write_tokens",
  "cached_tokens",
  "ceiling",
  "continuation_number",
  "detached_at_ms",
  "duration_ms",
  "entry_count",
  "exit_code",
  "expires_at_ms",
  "files",
  "generation",
  "grace_ms",
  "input_bytes",
  "input_tokens",
  "input_tokens_actual",
  "machine_tokens_per_day",
  "max_session_tokens",
  "max_turns",
  "message_parts_bytes",
  "messages_dropped",
  "offer",
  "output_bytes",
  "output_tokens",
  "output_tokens_actual",
  "proposed_tokens",
  "provider_status",
  "reopen_count",
  "reopen_number",
  "requested",
  "running_ms",
  "shell_calls",
  "stderr_bytes",
  "stdin_bytes",
  "stdout_bytes",
  "step_count",
  "steps_failed",
  "steps_skipped",
  "steps_succeeded",
  "steps_total",
  "thinking_tokens",
  "tokens",
  "tokens_after",
  "tokens_before",
  "tool_calls",
  "total_bytes",
  "total_input_tokens",
  "total_output_tokens",
  "total_shell_calls",
  "total_tool_calls",
  "total_turns",
  "turn",
  "turns",
  "turns_remaining",
  "used",
  "waited_ms",
] as const satisfies readonly KeyOf<number>[];

const TEXT_LISTS = [
  "added",
  "capabilities",
  "delegation_ids",
  "delegations",
  "depends_on",
  "detached_work_ids",
  "env_names",
  "formation_callees",
  "member_calls",
  "message_ids",
  "message_shas",
  "missing",
  "part_kinds",
  "reference_task_ids",
  "targets",
  "tools",
  "tools_declared",
] as const satisfies readonly KeyOf<readonly string[]>[];

const RECORD_LISTS = ["gateways", "inference_choices", "runtime_artifacts", "steps"] as const satisfies readonly KeyOf<
  readonly object[]
>[];

type NullableKey = {
  [K in Key]: null extends
    { [T in TraceEventType]: K extends keyof TraceEventBodies[T] ? TraceEventBodies[T][K] : never }[TraceEventType] ? K
    : never;
}[Key];

/** Keys whose value an event may have nothing for. */
const NULLABLE = [
  "audience_asserted",
  "bytes",
  "child_session_id",
  "code",
  "context_id",
  "delegation_id",
  "expires_at_ms",
  "handle_id",
  "harness_version",
  "machine_tokens_per_day",
  "max_session_tokens",
  "model",
  "path",
  "reason",
  "resumed_from",
  "session",
  "sha256",
  "signal",
  "stored_path",
  "system_prompt_sha256",
  "task_id",
  "tool_call_id",
  "tool_name",
  "tool_refresh",
  "traceparent",
  "traceparent_from_caller",
  "userns_grant",
] as const satisfies readonly NullableKey[];
const _everyNullableKeyIsListed: [Exclude<NullableKey, typeof NULLABLE[number] | typeof ANY[number]>] extends [never]
  ? true
  : Exclude<NullableKey, typeof NULLABLE[number]> = true;

const nullable: ReadonlySet<string> = new Set(NULLABLE);

/** Whether a key may stand with nothing in some event. */
export function mayBeNull(key: string): boolean {
  return nullable.has(key);
}

/** Keys whose values are looked at for what they are, or not at all. */
const ANY = [
  "control",
  "delivered",
  "effective_grants",
  "input",
  "keep_stdin_open",
  "killed",
  "previous",
  "replaced",
  "retried",
  "truncated",
  "value",
  "version_tested",
  "workdir_exec",
  "workdir_snapshot",
] as const satisfies readonly Key[];

/** Keys whose values are of one kind in one event and of another in another. */
const BY_EVENT = {
  removed: { retention: "number", tools_refreshed: "texts" },
  status: {
    tool_call: "text",
    skill_call: "text",
    shell_completed: "text",
    member_call: "text",
    plan_step: "text",
    inference_credential: "number",
    gateway_credential: "number",
    control_refused: "number",
  },
  code: { harness_warning: "text", harness_exit: "number" },
} as const satisfies {
  [K in "removed" | "status" | "code"]: {
    [T in TraceEventType as K extends keyof TraceEventBodies[T] ? T : never]: KindOf<ValueIn<T, K>>;
  };
};

type ValueIn<T extends TraceEventType, K> = K extends keyof TraceEventBodies[T] ? NonNullable<TraceEventBodies[T][K]>
  : never;
type KindOf<V> = [V] extends [number] ? "number" : [V] extends [string] ? "text" : "texts";

/** Keys that are in no list above and do not hold texts alone: the compiler refuses any. */
type Misplaced = Exclude<
  Key,
  | typeof NUMBERS[number]
  | typeof TEXT_LISTS[number]
  | typeof RECORD_LISTS[number]
  | typeof ANY[number]
  | keyof typeof BY_EVENT
  | KeyOf<string>
>;
const _everyOtherKeyIsOfTexts: [Misplaced] extends [never] ? true : Misplaced = true;

const KINDS: ReadonlyMap<string, ValueKind | null> = new Map<string, ValueKind | null>([
  ...NUMBERS.map((key) => [key, "number"] as const),
  ...TEXT_LISTS.map((key) => [key, "texts"] as const),
  ...RECORD_LISTS.map((key) => [key, "records"] as const),
  ...ANY.map((key) => [key, null] as const),
]);

/** The kind of a key's values in an event; `null`: any. The key has to be one of the event. */
function valueKind(event: string, key: string): ValueKind | null {
  if (Object.hasOwn(BY_EVENT, key)) {
    const byEvent: Readonly<Record<string, ValueKind>> = BY_EVENT[key as keyof typeof BY_EVENT];
    return Object.hasOwn(byEvent, event) ? byEvent[event]! : null;
  }
  const kind = KINDS.get(key);
  return kind === undefined ? "text" : kind;
}

/** Texts that every object of such a list is shown with. */
const SHOWN_OF_RECORDS: Readonly<Record<string, readonly string[]>> = {
  runtime_artifacts: ["name", "version", "session"],
  steps: ["step_id", "kind"],
};

/** Whether the value of a key is of the key's kind. */
export function isOfItsKind(event: string, key: string, value: unknown): boolean {
  const kind = valueKind(event, key);
  switch (kind) {
    case null:
      return true;
    case "number":
      return typeof value === "number" && Math.abs(value) <= Number.MAX_SAFE_INTEGER;
    case "text":
      return typeof value === "string";
    case "texts":
      return Array.isArray(value) && value.every((each) => typeof each === "string");
    case "records": {
      const shown = SHOWN_OF_RECORDS[key] ?? [];
      return Array.isArray(value) && value.every((each) => shown.every((name) => typeof each?.[name] === "string"));
    }
  }
}

/** A kind in words. */
export function kindText(event: string, key: string): string {
  switch (valueKind(event, key)) {
    case "number":
      return "a number";
    case "texts":
      return "a list of texts";
    case "records":
      return `a list of objects with ${SHOWN_OF_RECORDS[key]?.join(", ") ?? "their keys"}`;
    case "text":
    case null:
      return "a text";
  }
}
