/**
 * The report of a delegated child to its parent's door (roost seed "How it travels", spec door 13). Pure.
 *
 * It names a delegation and nothing more: how the child ended is read from the child's own record.
 *
 * @module
 */
import type { Receipt } from "../delegation/delegation_state.ts";
import {
  type A2aError,
  completionBeingEnded,
  completionMisaddressed,
  completionNotAwaited,
  METHOD_NOT_FOUND,
} from "./a2a_error.ts";

/** A completion as its headers name it. */
export interface Completion {
  readonly method: string;
  /** `x-murmur-completion-session`. */
  readonly session: string | null;
  /** `x-murmur-delegation-id`. */
  readonly delegationId: string | null;
}

/** What a door answers when it took a completion: these two keys and nothing else. */
export interface CompletionTaken {
  readonly delegation_id: string;
  readonly received: true;
}

/**
 * Answers a completion.
 *
 * @param receive Hands it to the session's delegations; `null`: the session makes none.
 */
export function answerCompletion(
  { method, session, delegationId }: Completion,
  sessionId: string,
  receive: ((delegationId: string) => Receipt) | null,
): CompletionTaken | A2aError {
  if (session !== sessionId) return completionMisaddressed(session ?? "");
  if (method !== "SendMessage") return METHOD_NOT_FOUND;
  if (delegationId === null || delegationId === "") return completionNotAwaited(null);
  switch (receive?.(delegationId) ?? "not-awaited") {
    case "received":
      return { delegation_id: delegationId, received: true };
    case "being-ended":
      return completionBeingEnded(delegationId);
    case "not-awaited":
      return completionNotAwaited(delegationId);
  }
}
