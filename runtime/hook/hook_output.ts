/**
 * What a hook answered, judged (spec components 2.4, 10.4). The host's process is not trusted: what no honest one would
 * send is no answer.
 *
 * @module
 */
import type { HookBinding } from "../../artifact/manifest/artifact_manifest.ts";
import { isJsonObject } from "../../base/json_value.ts";
import type { HookMessage } from "./hook_event.ts";

/** `hook-output`. */
export type HookOutput =
  | { readonly tag: "none" }
  | { readonly tag: "replace-context" | "seed-context"; readonly val: readonly HookMessage[] }
  | { readonly tag: "write-manifests"; readonly val: readonly ToolManifest[] }
  | { readonly tag: "artifact" | "reopen-task" | "deny"; readonly val: string };

/** Name of an output's case. */
export type HookArm = HookOutput["tag"];

/** `tool-manifest`. */
export interface ToolManifest {
  readonly binaryName: string;
  readonly content: string;
}

/** The result of one function. */
export type HookAnswer =
  | { readonly kind: "output"; readonly output: HookOutput }
  | { readonly kind: "error"; readonly text: string };

/** The arm an event honours besides `none` (spec components 10.4, rule 2); decisions are asked for apart. */
const HONOURED: Readonly<Partial<Record<HookBinding, HookArm>>> = {
  "on-stage": "write-manifests",
  "on-task-start": "seed-context",
  "on-inference": "artifact",
  "on-compaction": "replace-context",
  "on-task-end": "reopen-task",
};

/** The arm an event honours, `null` for one that honours none. */
export function honouredArm(event: HookBinding): HookArm | null {
  return HONOURED[event] ?? null;
}

/** Reads `{"ok": …}` or `{"err": …}`; `null` when it is neither. */
export function readHookAnswer(value: unknown): HookAnswer | null {
  if (!isJsonObject(value)) return null;
  if (typeof value.err === "string") return { kind: "error", text: value.err };
  const output = readOutput(value.ok);
  return output === null ? null : { kind: "output", output };
}

function readOutput(value: unknown): HookOutput | null {
  if (!isJsonObject(value)) return null;
  const { tag, val } = value;
  switch (tag) {
    case "none":
      return { tag };
    case "artifact":
    case "reopen-task":
    case "deny":
      return typeof val === "string" ? { tag, val } : null;
    case "replace-context":
    case "seed-context": {
      const messages = listOf(val, readHookMessage);
      return messages === null ? null : { tag, val: messages };
    }
    case "write-manifests": {
      const manifests = listOf(
        val,
        (item) =>
          isJsonObject(item) && typeof item.binaryName === "string" && typeof item.content === "string"
            ? { binaryName: item.binaryName, content: item.content }
            : null,
      );
      return manifests === null ? null : { tag, val: manifests };
    }
    default:
      return null;
  }
}

function listOf<T>(value: unknown, read: (item: unknown) => T | null): readonly T[] | null {
  if (!Array.isArray(value)) return null;
  const items = value.map(read);
  return items.every((item) => item !== null) ? items : null;
}

/** Reads a `message`; `null` when it is none. */
export function readHookMessage(value: unknown): HookMessage | null {
  if (!isJsonObject(value)) return null;
  const { role, content, id = null, sourceId = null, insertedBy = null } = value;
  if (typeof role !== "string" || typeof content !== "string") return null;
  if (id !== null && typeof id !== "string") return null;
  if (sourceId !== null && typeof sourceId !== "string") return null;
  if (insertedBy !== null && insertedBy !== "replace-context" && insertedBy !== "seed-context") return null;
  return { role, content, id, sourceId, insertedBy };
}
