/**
 * Which call a path of A2A's HTTP+JSON binding means (spec door 6.1). Pure.
 *
 * @module
 */
import type { JsonObject } from "../../base/json_value.ts";
import type { DoorMethod } from "./door_methods.ts";

/** A call over HTTP+JSON. */
export interface RestRoute {
  /** Version of A2A whose form the call has. */
  readonly version: "1.0" | "0.3";
  /** `null`: push notifications, which no door offers. */
  readonly method: DoorMethod | null;
  /** Task the path names. */
  readonly taskId: string | null;
  /** Whether the body brings the parameters. */
  readonly hasBody: boolean;
}

function decoded(segment: string): string | null {
  try {
    return decodeURIComponent(segment);
  } catch {
    return null;
  }
}

/** The call of a task's path, what comes behind `/tasks/`. */
function taskCall(method: string, rest: string): Pick<RestRoute, "method" | "taskId"> | null {
  const [segment = "", ...further] = rest.split("/");
  if (segment === "") return null;
  if (further.length > 0) return further[0] === "pushNotificationConfigs" ? { method: null, taskId: null } : null;
  for (
    const [suffix, verbs, meaning] of [
      [":cancel", ["POST"], "CancelTask"],
      [":subscribe", ["GET", "POST"], "SubscribeToTask"],
    ] as const
  ) {
    if (!segment.endsWith(suffix)) continue;
    const taskId = decoded(segment.slice(0, -suffix.length));
    return taskId === null || taskId === "" || !(verbs as readonly string[]).includes(method)
      ? null
      : { method: meaning, taskId };
  }
  const taskId = decoded(segment);
  return taskId === null || method !== "GET" ? null : { method: "GetTask", taskId };
}

/** Reads a method and a raw path; `null`: it is no call of the binding. @param older Whether 0.3 is spoken too. */
export function restRoute(method: string, path: string, older: boolean): RestRoute | null {
  const isOlder = older && path.startsWith("/v1/");
  const at = isOlder ? path.slice("/v1".length) : path;
  const version = isOlder ? "0.3" : "1.0";
  const plain = (meaning: DoorMethod, hasBody = false): RestRoute => ({
    version,
    method: meaning,
    taskId: null,
    hasBody,
  });
  switch (`${method} ${at}`) {
    case "POST /message:send":
      return plain("SendMessage", true);
    case "POST /message:stream":
      return plain("SendStreamingMessage", true);
    case "GET /tasks":
      return isOlder ? null : plain("ListTasks");
    case "GET /extendedAgentCard":
      return isOlder ? null : plain("GetExtendedAgentCard");
    case "GET /card":
      return isOlder ? plain("GetExtendedAgentCard") : null;
  }
  if (!at.startsWith("/tasks/")) return null;
  const call = taskCall(method, at.slice("/tasks/".length));
  return call === null ? null : { version, ...call, hasBody: false };
}

/** Parameters of `ListTasks` as a query writes them; what is no number or truth value stays text and is refused as such. */
export function queryParams(query: string): JsonObject {
  const params: Record<string, string | number | boolean> = {};
  for (const [name, value] of new URLSearchParams(query)) {
    if ((name === "pageSize" || name === "historyLength") && /^-?[0-9]+$/.test(value)) params[name] = Number(value);
    else if (name === "includeArtifacts" && (value === "true" || value === "false")) params[name] = value === "true";
    else params[name] = value;
  }
  return params;
}
