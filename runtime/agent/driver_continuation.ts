/**
 * Continuing a conversation that the driver keeps: which messages it has already (spec session 9.5, components 6.6).
 *
 * @module
 */

/** What is held between turns; `null` holds nothing. */
export interface Continuation {
  /** As the driver returned it. */
  readonly id: string;
  /** Context of the task it belongs to. */
  readonly contextId: string;
  /** Leading messages of the list that the driver has. */
  readonly acked: number;
}

/** What the next request carries. */
export interface ContinuationUse {
  /** `null`: no `continuation_id` key. */
  readonly continuationId: string | null;
  /** Index of the first message to send. */
  readonly from: number;
}

/** What to send of a list of `messageCount` messages. */
export function continuationUse(held: Continuation | null, contextId: string, messageCount: number): ContinuationUse {
  if (held === null || held.contextId !== contextId || held.acked > messageCount) {
    return { continuationId: null, from: 0 };
  }
  return { continuationId: held.id, from: held.acked };
}

/**
 * What is held after a usable answer.
 *
 * @param returnedId The driver's `continuation_id`; `null` or empty drops what is held.
 * @param messageCount Length of the whole list the request stood for.
 */
export function afterAnswer(returnedId: string | null, contextId: string, messageCount: number): Continuation | null {
  return returnedId === null || returnedId === "" ? null : { id: returnedId, contextId, acked: messageCount };
}

/** What is held after a task ended `ok` under `conversation: threaded`, whose list now ends in the final answer. */
export function afterThreadedTask(
  held: Continuation | null,
  contextId: string,
  messageCount: number,
): Continuation | null {
  return held !== null && held.contextId === contextId ? { ...held, acked: messageCount } : held;
}
