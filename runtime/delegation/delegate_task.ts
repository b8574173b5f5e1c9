/**
 * The `delegate-task` tool as the model sees it: its manifest, its arguments and its results (roost seed "The delegation
 * tool", spec roost 14.1, 14.2). Pure.
 *
 * @module
 */
import { stringify } from "yaml";
import { bareHalf, versionProblem } from "../../artifact/artifact_name.ts";
import type { JsonObject } from "../../base/json_value.ts";

/** Name of the tool; reserved, whether or not a capsule has it. */
export const DELEGATE_TASK = "delegate-task";

/** What the tool is made from. */
export interface DelegateTaskGrant {
  /** `capabilities.spawn.allow`, full names; never empty. */
  readonly allow: readonly string[];
  /** `capabilities.spawn.workdir_snapshot`, full names. */
  readonly snapshots: readonly string[];
}

/** Bare names in the order of the grant; a manifest that grants one twice is refused. */
function bareNames(fullNames: readonly string[]): string[] {
  return fullNames.map(bareHalf);
}

/** The tool's input schema: the granted capsules are the only ones a model can name. */
export function delegateTaskSchema({ allow }: DelegateTaskGrant): JsonObject {
  return {
    type: "object",
    properties: {
      capsule: { type: "string", enum: bareNames(allow), description: "The sub-capsule that is to do the task." },
      version: { type: "string", description: "Its exact version, such as 1.0.0; there is no 'latest'." },
      task: {
        type: "string",
        description: "All that the sub-capsule is told. It sees nothing of this conversation.",
      },
    },
    required: ["capsule", "version", "task"],
    additionalProperties: false,
  };
}

/** The manifest that stands for the tool in `runtime/tools/`. */
export function delegateTaskManifest(grant: DelegateTaskGrant): string {
  const description = [
    "Hands one task to one sub-capsule, which runs on its own while you go on. The call returns when the sub-capsule has",
    "its task. Its outcome is brought to you once you end your turn: you need not and cannot ask for it. Delegate all",
    "that may run at the same time before you end your turn.",
    ...bareNames(grant.snapshots).map((name) =>
      `${name} starts with a copy of this capsule's work folder as it is when the call is made, and nothing it changes ` +
      "reaches this capsule's work folder."
    ),
  ].join(" ");
  return stringify({
    name: DELEGATE_TASK,
    version: "0.0.0",
    runtime: "tool",
    implementation: "native",
    description,
    input_schema: delegateTaskSchema(grant),
  });
}

/** The arguments of a call, with the capsule's full name. */
export interface DelegateTaskCall {
  /** Full name, an entry of the grant. */
  readonly capsule: string;
  readonly version: string;
  readonly task: string;
}

/** Reads the arguments of a call, or says in one sentence why they cannot be used. */
export function readDelegateTaskCall(input: JsonObject, { allow }: DelegateTaskGrant): DelegateTaskCall | string {
  const { capsule, version, task } = input;
  if (typeof capsule !== "string") return "capsule: must be the name of a sub-capsule";
  if (typeof version !== "string") return "version: must be an exact version";
  // What is none is refused here: the trace of every call that goes further has a line with it.
  const problem = versionProblem(version);
  if (problem !== null) return `version: must be an exact version; ${problem}`;
  if (typeof task !== "string" || task.trim() === "") return "task: must be the text the sub-capsule is told";
  const entry = allow.find((name) => bareHalf(name) === capsule);
  return entry === undefined
    ? `capabilities.spawn.allow: it does not hold '${capsule}'; it holds ${bareNames(allow).join(", ")}`
    : { capsule: entry, version, task };
}

/** How far a call got. */
export interface DelegateTaskResult {
  /** `null`: no child was launched. */
  readonly delegationId: string | null;
  /** `null`: no child ran. */
  readonly sessionId: string | null;
  /** Full name. */
  readonly capsule: string;
  readonly version: string;
  readonly end:
    | { readonly status: "started"; readonly workdir: string }
    | { readonly status: "failed"; readonly reason: string };
}

/** The tool's result as text. */
export function formatDelegateTaskResult(
  { delegationId, sessionId, capsule, version, end }: DelegateTaskResult,
): string {
  return JSON.stringify({
    delegation_id: delegationId ?? "",
    session_id: sessionId ?? "",
    capsule: bareHalf(capsule),
    version,
    status: end.status,
    ...(end.status === "started" ? { child_workdir: end.workdir } : { output: end.reason }),
  });
}
