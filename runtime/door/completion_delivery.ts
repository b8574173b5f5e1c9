/**
 * The report of a delegated child to its parent's door (spec door 13). Pure.
 *
 * No session of this version delegates, so none waits for a completion: every one is answered as unknown.
 *
 * @module
 */
import { type A2aError, completionMisaddressed, completionNotAwaited, METHOD_NOT_FOUND } from "./a2a_error.ts";

/** A completion as its headers name it. */
export interface Completion {
  readonly method: string;
  /** `x-murmur-completion-session`. */
  readonly session: string | null;
  /** `x-murmur-delegation-id`. */
  readonly delegationId: string | null;
}

/** Why a completion is refused. */
export function refuseCompletion({ method, session, delegationId }: Completion, sessionId: string): A2aError {
  if (session !== sessionId) return completionMisaddressed(session ?? "");
  if (method !== "SendMessage") return METHOD_NOT_FOUND;
  return completionNotAwaited(delegationId === "" ? null : delegationId);
}
