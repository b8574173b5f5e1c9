/**
 * The report of a delegated session at its end: `completion.json`, the message to the parent's door, and the record again
 * with what became of the message (roost seed "Who reports, and what happens when nobody can", spec roost 16.2, 16.3).
 *
 * @module
 */
import { writeAtomicallyIn } from "../../base/atomic_file.ts";
import { DoorClient, doorTrouble, parseHostAndPort } from "../../base/door_client.ts";
import { reasonOf } from "../../base/errors.ts";
import { newId } from "../../base/ids.ts";
import { isJsonObject } from "../../base/json_value.ts";
import type { RootedDir } from "../../base/rooted_dir.ts";
import type { TimeBounds } from "../../base/time_bounds.ts";
import { type Completion, type CompletionRecord, completionText, formatRecord } from "./completion_record.ts";
import type { SpawnerHandle } from "./spawner_handle.ts";

/** What a session reports with. */
export interface CompletionReport {
  readonly handle: SpawnerHandle;
  readonly completion: Completion;
  /** The session's own records directory. */
  readonly records: RootedDir;
  readonly bounds: Pick<TimeBounds, "doorConnect" | "doorCard" | "doorAnswer" | "streamSilence" | "completionPost">;
  /** A line for stderr. */
  readonly report: (text: string) => void;
}

/** Reports the end of a session. Never fails: the record and one line are what is left of a report that did not get through. */
export async function reportCompletion(
  { handle, completion, records, bounds, report }: CompletionReport,
): Promise<void> {
  const write = (delivery: Pick<CompletionRecord, "delivered" | "delivery_error">) => {
    const record: CompletionRecord = { ...completion, reported_by: "child", ...delivery };
    try {
      writeAtomicallyIn(records, "completion.json", formatRecord(record), { mode: 0o600 });
    } catch (cause) {
      report(`completion.json could not be written: ${reasonOf(cause)}`);
    }
  };
  if (handle.url === null) return write({ delivered: false, delivery_error: "no parent door" });
  // The parent reads the record, not the message: it is there before anybody is told.
  write({ delivered: false });
  const refusal = await post(handle, handle.url, completion, bounds);
  write(refusal === null ? { delivered: true } : { delivered: false, delivery_error: refusal });
  if (refusal !== null) report(`the completion of delegation ${handle.delegationId} was not delivered: ${refusal}`);
}

/** Posts a completion. @returns why the parent's door did not take it; `null` when it did. */
async function post(
  { sessionId, delegationId }: SpawnerHandle,
  url: string,
  completion: Completion,
  bounds: CompletionReport["bounds"],
): Promise<string | null> {
  const door = parseHostAndPort(url.slice("http://".length));
  if (door === null) return `${url} is no address of a door`;
  const client = new DoorClient({ ...door, token: null }, bounds);
  try {
    const answer = await client.call("SendMessage", {
      message: {
        messageId: newId("msg"),
        role: "ROLE_USER",
        parts: [{ text: completionText(completion), mediaType: "text/plain" }],
      },
    }, {
      silenceMs: bounds.completionPost,
      deadline: performance.now() + bounds.completionPost,
      headers: [
        ["x-murmur-task-origin", "completion"],
        ["x-murmur-delegation-id", delegationId],
        ["x-murmur-completion-session", sessionId],
      ],
    });
    if (!answer.ok) return answer.failure.message;
    const { result } = answer;
    // Another program may listen there by now, and answer anything.
    return isJsonObject(result) && result.delegation_id === delegationId && result.received === true
      ? null
      : "the parent's door answered something else than a receipt";
  } catch (cause) {
    return doorTrouble(cause);
  }
}
