/**
 * The completion of a delegation: the record both sides keep of how a child ended, `completion.json` of the child's
 * records directory, and the message that tells it (roost seed "What the completion carries", spec roost 16.2). Pure.
 *
 * @module
 */
import { isJsonObject } from "../../base/json_value.ts";

/** How a child ended, as a reporter says it. */
export type CompletionStatus = "ok" | "error" | "crashed" | "terminated";

/** What a completion says; never what the child answered. Keys as in the file and the message. */
export interface Completion {
  readonly delegation_id: string;
  /** Bare name. */
  readonly capsule_name: string;
  readonly capsule_version: string;
  /** The child's own session. */
  readonly session_id: string;
  readonly status: CompletionStatus;
  /** Absolute; absent when the child left no result. */
  readonly result_path?: string;
  /** Absolute. */
  readonly workdir: string;
  readonly duration_ms: number;
  readonly detail?: string;
}

/** `completion.json`. */
export interface CompletionRecord extends Completion {
  readonly reported_by: "child" | "launcher";
  /** Whether the parent's door has taken the completion. */
  readonly delivered: boolean;
  /** Why it did not, once it was tried. */
  readonly delivery_error?: string;
}

/** What a file that should be a record holds. */
export type ReadRecord =
  | { readonly kind: "record"; readonly record: CompletionRecord }
  | { readonly kind: "missing" }
  | { readonly kind: "unreadable"; readonly reason: string };

/** Most bytes of a record; the last lines of a child's stderr are the longest part of one. */
export const MAX_RECORD_BYTES = 1 << 20;

/** The file's text. */
export function formatRecord(record: CompletionRecord): string {
  return `${JSON.stringify(record, null, 2)}\n`;
}

/** The completion of a record, without the facts of its delivery. */
export function completionOf(record: CompletionRecord): Completion {
  const { reported_by: _reporter, delivered: _delivered, delivery_error: _error, ...completion } = record;
  return completion;
}

/** Text of the message, one `<field>: <value>` a line (spec door 13). Nobody reads it; a person may. */
export function completionText(completion: Completion): string {
  return Object.entries(completion).map(([key, value]) => `${key}: ${value}`).join("\n");
}

type Check = (value: unknown) => boolean;
const isText: Check = (value) => typeof value === "string";

const REQUIRED: Readonly<Record<string, Check>> = {
  delegation_id: isText,
  capsule_name: isText,
  capsule_version: isText,
  session_id: isText,
  status: (value) => ["ok", "error", "crashed", "terminated"].includes(value as string),
  workdir: isText,
  duration_ms: (value) => Number.isSafeInteger(value) && (value as number) >= 0,
  reported_by: (value) => value === "child" || value === "launcher",
  delivered: (value) => typeof value === "boolean",
};
const OPTIONAL: Readonly<Record<string, Check>> = { result_path: isText, detail: isText, delivery_error: isText };

/**
 * Reads the file's text. Unknown keys are ignored.
 *
 * @param expected The delegation and the session it has to be of: a record of another is none.
 */
export function parseRecord(
  text: string,
  expected: { readonly delegationId: string; readonly sessionId: string },
): ReadRecord {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return { kind: "unreadable", reason: "it is no JSON" };
  }
  if (!isJsonObject(value)) return { kind: "unreadable", reason: "it is no JSON object" };
  const known: Record<string, unknown> = {};
  for (const [key, check] of Object.entries(REQUIRED)) {
    if (!check(value[key])) return { kind: "unreadable", reason: `its '${key}' is not as it has to be` };
    known[key] = value[key];
  }
  for (const [key, check] of Object.entries(OPTIONAL)) {
    if (value[key] === undefined) continue;
    if (!check(value[key])) return { kind: "unreadable", reason: `its '${key}' is not as it has to be` };
    known[key] = value[key];
  }
  const record = known as unknown as CompletionRecord;
  if (record.delegation_id !== expected.delegationId || record.session_id !== expected.sessionId) {
    return { kind: "unreadable", reason: "it is of another delegation" };
  }
  return { kind: "record", record };
}
