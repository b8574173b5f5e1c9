/**
 * Pages of the conversation record, newest message first (spec components 10.12 `conversation`). Pure.
 *
 * @module
 */
import type { Message } from "../agent/message.ts";
import { toRecordedMessage } from "./hook_messages.ts";
import type { HookMessage } from "./hook_event.ts";

/** `message-page`. */
export type MessagePage = {
  readonly messages: readonly HookMessage[];
  readonly nextCursor: string | null;
  readonly total: number;
};

/** Most messages of a page. */
export const MAX_PAGE = 100;

/**
 * One page. A cursor counts the messages older than the page before it, so it stays good while the record grows.
 *
 * @param limit Clamped to 1…100.
 * @returns `null` for a cursor that this record never gave.
 */
export function messagePage(record: readonly Message[], cursor: string | null, limit: number): MessagePage | null {
  let end = record.length;
  if (cursor !== null) {
    if (!/^[1-9][0-9]{0,14}$/.test(cursor)) return null;
    end = Number(cursor);
    if (end > record.length) return null;
  }
  const start = Math.max(0, end - Math.min(MAX_PAGE, Math.max(1, limit)));
  return {
    messages: record.slice(start, end).reverse().map(toRecordedMessage),
    nextCursor: start === 0 ? null : String(start),
    total: record.length,
  };
}
