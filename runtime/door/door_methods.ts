/**
 * The JSON-RPC methods of a door, which of them it serves, and what scope each needs (spec door 3.2, 6). Pure.
 *
 * @module
 */
import type { DoorScope } from "../../artifact/manifest/door_scopes.ts";

/** Methods by the part of the door that serves them. */
export type DoorMethod =
  | "SendMessage"
  | "SendStreamingMessage"
  | "SubscribeToTask"
  | "GetTask"
  | "ListTasks"
  | "CancelTask"
  | "GetExtendedAgentCard"
  | "murmur.WatchStream"
  | "murmur.StopSession";

/** Murmur's own method that streams every frame of a session. */
export const WATCH_STREAM = "murmur.WatchStream";

/** Murmur's own method that stops a session. */
export const STOP_SESSION = "murmur.StopSession";

/** Older name of {@linkcode WATCH_STREAM}; under it frames are written without the A2A envelope. */
export const RAW_WATCH_STREAM = "stream/watch";

/** In the order of the card. */
const METHODS: readonly DoorMethod[] = [
  "SendMessage",
  "SendStreamingMessage",
  "SubscribeToTask",
  WATCH_STREAM,
  "GetTask",
  "ListTasks",
  "CancelTask",
  STOP_SESSION,
  "GetExtendedAgentCard",
];

/** Methods of the standard for push notifications, which no door offers. */
const PUSH_NOTIFICATION_METHODS: ReadonlySet<string> = new Set([
  "CreateTaskPushNotificationConfig",
  "GetTaskPushNotificationConfig",
  "ListTaskPushNotificationConfigs",
  "DeleteTaskPushNotificationConfig",
]);

/** What a door is, as far as it decides on its methods. */
export interface DoorShape {
  /** Whether it takes tasks: `lifecycle.task_acceptance` is not `none`. */
  readonly takesTasks: boolean;
  /** Whether it declares `network.authentication`. */
  readonly authenticated: boolean;
}

/** Served methods in the order of the card. */
export function servedMethods({ takesTasks, authenticated }: DoorShape): readonly DoorMethod[] {
  return METHODS.filter((method) => {
    if (method === "SendMessage" || method === "SendStreamingMessage") return takesTasks;
    return method !== "GetExtendedAgentCard" || authenticated;
  });
}

/** What a method name of a request means at a door. */
export type MethodMeaning =
  | { readonly kind: "served"; readonly method: DoorMethod }
  | { readonly kind: "unsupported" }
  | { readonly kind: "push_notification" }
  | { readonly kind: "unknown" };

/** Reads a method name, exactly as written. */
export function methodMeaning(name: string, door: DoorShape): MethodMeaning {
  if (name === RAW_WATCH_STREAM) return { kind: "served", method: WATCH_STREAM };
  if (name === "session/stop") return { kind: "served", method: STOP_SESSION };
  const method = METHODS.find((method) => method === name);
  if (method === undefined) {
    return PUSH_NOTIFICATION_METHODS.has(name) ? { kind: "push_notification" } : { kind: "unknown" };
  }
  switch (method) {
    case "SendMessage":
    case "SendStreamingMessage":
      return door.takesTasks ? { kind: "served", method } : { kind: "unknown" };
    case "GetExtendedAgentCard":
      return door.authenticated ? { kind: "served", method } : { kind: "unsupported" };
    default:
      return { kind: "served", method };
  }
}

/** The scope a method needs beyond a valid token; `null`: none. */
export function scopeOf(method: DoorMethod): DoorScope | null {
  return method === "GetExtendedAgentCard" ? null : method;
}

/** Whether a method answers with a stream. */
export function isStreaming(method: DoorMethod): boolean {
  return method === "SendStreamingMessage" || method === "SubscribeToTask" || method === WATCH_STREAM;
}
