/**
 * Parameters of the methods that ask about tasks (spec door 10.1 to 10.3, 12.1), checked on the JSON as it was sent. Pure.
 *
 * @module
 */
import type { JsonObject, JsonValue } from "../../base/json_value.ts";
import type { TaskState } from "../session/frame_log.ts";
import { type A2aError, invalidParams } from "./a2a_error.ts";
import { parseWireState } from "./task_state.ts";

/** Tasks of a page when the request does not say. */
export const DEFAULT_PAGE_SIZE = 50;

const MAX_PAGE_SIZE = 100;

/** Which tasks are listed, and how. */
export interface ListQuery {
  readonly contextId: string | null;
  /** `"none"`: a state no task is ever in. */
  readonly state: TaskState | "none" | null;
  readonly pageSize: number;
  /** `""`: from the start. */
  readonly pageToken: string;
  /** Unix milliseconds; tasks that changed earlier are left out. */
  readonly changedFrom: number | null;
  readonly includeArtifacts: boolean;
}

function isAbsent(value: JsonValue | undefined): value is null | undefined {
  return value === undefined || value === null;
}

/** The id of a task, which may not be empty. */
export function readTaskId(params: JsonObject, method: "GetTask" | "SubscribeToTask"): string | A2aError {
  return typeof params.id === "string" && params.id !== "" ? params.id : invalidParams(`${method} requires an id`);
}

/** The id of `CancelTask`; an empty one names no task, which the lookup says. */
export function readCancelId(params: JsonObject): string | A2aError {
  return typeof params.id === "string" ? params.id : invalidParams("CancelTask requires an id");
}

/** `2026-09-01T10:00:00.000Z` and shorter forms of ISO 8601, a date alone included. */
const ISO_8601 = /^\d{4}-\d{2}-\d{2}(?:T\d{2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?(?:Z|[+-]\d{2}:\d{2})?)?$/;

function readTimestamp(value: JsonValue): number | null {
  if (typeof value !== "string" || !ISO_8601.test(value)) return null;
  const time = Date.parse(value);
  return Number.isNaN(time) ? null : time;
}

/** Parameters of `ListTasks`. */
export function readListQuery(params: JsonObject): ListQuery | A2aError {
  const { contextId, status, pageSize, pageToken, statusTimestampAfter, includeArtifacts, historyLength } = params;
  if (!isAbsent(contextId) && typeof contextId !== "string") return invalidParams("contextId must be a string");
  let state: ListQuery["state"] = null;
  if (!isAbsent(status) && status !== "TASK_STATE_UNSPECIFIED") {
    state = typeof status === "string" ? parseWireState(status) : null;
    if (state === null) return invalidParams("status must be the name of a task state");
  }
  if (
    !isAbsent(pageSize) &&
    !(Number.isInteger(pageSize) && pageSize as number >= 1 && pageSize as number <= MAX_PAGE_SIZE)
  ) {
    return invalidParams(`pageSize must be an integer from 1 to ${MAX_PAGE_SIZE}`);
  }
  if (!isAbsent(pageToken) && typeof pageToken !== "string") return invalidParams("pageToken must be a string");
  const changedFrom = isAbsent(statusTimestampAfter) || statusTimestampAfter === ""
    ? null
    : readTimestamp(statusTimestampAfter);
  if (changedFrom === null && !isAbsent(statusTimestampAfter) && statusTimestampAfter !== "") {
    return invalidParams("statusTimestampAfter must be an ISO 8601 timestamp");
  }
  if (!isAbsent(includeArtifacts) && typeof includeArtifacts !== "boolean") {
    return invalidParams("includeArtifacts must be true or false");
  }
  if (!isAbsent(historyLength) && !(Number.isInteger(historyLength) && historyLength as number >= 0)) {
    return invalidParams("historyLength must be a non-negative integer");
  }
  return {
    contextId: contextId === undefined || contextId === "" ? null : contextId,
    state,
    pageSize: isAbsent(pageSize) ? DEFAULT_PAGE_SIZE : pageSize as number,
    pageToken: pageToken ?? "",
    changedFrom,
    includeArtifacts: includeArtifacts ?? false,
  };
}
