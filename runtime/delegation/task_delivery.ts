/**
 * Handing a child its task: one A2A message to its door, as any client sends it (spec roost 10.4).
 *
 * @module
 */
import { DoorClient, DoorRefusal, doorTrouble, parseHostAndPort } from "../../base/door_client.ts";
import { HttpError } from "../../base/http_error.ts";
import { newId } from "../../base/ids.ts";
import { isJsonObject, type JsonObject, type JsonValue } from "../../base/json_value.ts";
import type { TimeBounds } from "../../base/time_bounds.ts";

/** What is delivered where. */
export interface Delivery {
  /** `host:port`. */
  readonly url: string;
  readonly token: string | null;
  readonly task: string;
  readonly traceparent: string | null;
  readonly signal: AbortSignal;
  readonly bounds: Pick<
    TimeBounds,
    "childDelivery" | "childRetry" | "doorConnect" | "doorCard" | "doorAnswer" | "streamSilence"
  >;
}

/** The child's word on it. */
export type DeliveryResult =
  | { readonly accepted: true; readonly taskId: string }
  | { readonly accepted: false; readonly reason: string };

/** Failures before anything was sent. Whether a connection that broke later took the task, nobody can tell. */
const NOT_SENT: ReadonlySet<string> = new Set(["connection-refused", "unreachable"]);

/** States of a task that was not taken. */
const NOT_TAKEN: ReadonlySet<unknown> = new Set([
  "TASK_STATE_FAILED",
  "TASK_STATE_REJECTED",
  "TASK_STATE_CANCELED",
]);

/** Delivers a task, trying again while nobody listens yet. Never fails. */
export async function deliverTask(delivery: Delivery): Promise<DeliveryResult> {
  const { bounds, signal } = delivery;
  const place = parseHostAndPort(delivery.url);
  if (place === null) return { accepted: false, reason: `'${delivery.url}' is no address of a door` };
  const door = new DoorClient({ ...place, token: delivery.token }, bounds);
  const deadline = performance.now() + bounds.childDelivery;
  const message = taskMessage(delivery.task);
  const headers = delivery.traceparent === null ? [] : [["traceparent", delivery.traceparent] as const];
  for (let wait = bounds.childRetry;; wait = Math.min(2 * wait, 8 * bounds.childRetry)) {
    try {
      const silenceMs = Math.max(1, deadline - performance.now());
      const answer = await door.call("SendMessage", message, { silenceMs, deadline, headers, signal });
      return answer.ok
        ? judge(answer.result)
        : { accepted: false, reason: `its door refused: ${answer.failure.message}` };
    } catch (error) {
      if (signal.aborted) return { accepted: false, reason: "the delivery was given up" };
      if (!(error instanceof HttpError) && !(error instanceof DoorRefusal)) throw error;
      const again = error instanceof HttpError && NOT_SENT.has(error.kind);
      if (!again || performance.now() + wait >= deadline) return { accepted: false, reason: doorTrouble(error) };
    }
    await pause(wait, signal);
  }
}

/** One user message with one part, the task as it is; answered at once, not when the task is over. */
function taskMessage(task: string): JsonObject {
  return {
    message: { messageId: newId("msg"), role: "ROLE_USER", parts: [{ text: task }] },
    configuration: { returnImmediately: true },
  };
}

/** What the door's result says. */
function judge(result: JsonValue): DeliveryResult {
  const task = isJsonObject(result) ? isJsonObject(result.task) ? result.task : result : {};
  const status = isJsonObject(task.status) ? task.status : {};
  if (typeof task.id !== "string" || task.id === "" || typeof status.state !== "string") {
    return { accepted: false, reason: "its door answered without a task" };
  }
  if (NOT_TAKEN.has(status.state)) return { accepted: false, reason: `its task is ${status.state}` };
  return { accepted: true, taskId: task.id };
}

/** Waits, or less when the signal comes. */
async function pause(ms: number, signal: AbortSignal): Promise<void> {
  const waited = Promise.withResolvers<void>();
  const go = () => waited.resolve();
  const timer = setTimeout(go, ms);
  signal.addEventListener("abort", go);
  await waited.promise;
  signal.removeEventListener("abort", go);
  clearTimeout(timer);
}
