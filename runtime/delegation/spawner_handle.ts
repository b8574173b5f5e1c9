/**
 * The spawner handle: who handed a capsule its work, where the outcome goes and under which delegation it is known (roost
 * seed "The completion path", spec roost 16.1). A parent's runtime puts it into `MURMUR_SPAWNER` of the child's
 * environment as compact JSON.
 *
 * @module
 */
import { MurError } from "../../base/errors.ts";
import { isId } from "../../base/ids.ts";

/** Variable that carries the handle. */
export const SPAWNER_VARIABLE = "MURMUR_SPAWNER";

/** Most bytes of a handle: ids and a loopback URL take a few hundred. */
const MAX_HANDLE_CHARACTERS = 4_096;

/** Where a child reports, and for what. */
export interface SpawnerHandle {
  /** The parent's door, `http://host:port`; `null` for the child of a plan's step, which reports to nobody. */
  readonly url: string | null;
  /** The parent's session. */
  readonly sessionId: string;
  /** Conversation the delegation was made from. */
  readonly contextId: string;
  readonly delegationId: string;
}

/** The variable's value for a child. */
export function formatSpawnerHandle({ url, sessionId, contextId, delegationId }: SpawnerHandle): string {
  return JSON.stringify({
    ...(url === null ? {} : { url }),
    session_id: sessionId,
    context_id: contextId,
    delegation_id: delegationId,
  });
}

/**
 * Reads the variable. Keys that are not known are ignored.
 *
 * @param value `undefined` and blank: nobody delegated this session.
 * @throws {MurError} `E-RUN-020`; its text shows nothing of the value.
 */
export function parseSpawnerHandle(value: string | undefined): SpawnerHandle | null {
  if (value === undefined || value.trim() === "") return null;
  if (value.length > MAX_HANDLE_CHARACTERS) throw unreadable(`it is longer than ${MAX_HANDLE_CHARACTERS} characters`);
  let given: unknown;
  try {
    given = JSON.parse(value);
  } catch {
    throw unreadable("it is no JSON");
  }
  if (typeof given !== "object" || given === null || Array.isArray(given)) throw unreadable("it is no JSON object");
  const { url = null, session_id, context_id, delegation_id } = given as Record<string, unknown>;
  if (url !== null && !isDoorUrl(url)) throw unreadable("'url' is not http://host:port");
  if (typeof session_id !== "string" || !isId("ses", session_id)) throw unreadable("'session_id' is no session id");
  if (typeof delegation_id !== "string" || !isId("dlg", delegation_id)) {
    throw unreadable("'delegation_id' is no delegation id");
  }
  // A context is named by whoever made the conversation; it travels in one line of a file and of a trace.
  // deno-lint-ignore no-control-regex -- exactly the control characters are refused
  if (typeof context_id !== "string" || context_id === "" || /[\u0000-\u001f\u007f]/.test(context_id)) {
    throw unreadable("'context_id' is no context id");
  }
  return { url, sessionId: session_id, contextId: context_id, delegationId: delegation_id };
}

/** A door is addressed by host and port alone: no path, no user, no other scheme. */
function isDoorUrl(value: unknown): value is string {
  return typeof value === "string" && /^http:\/\/(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]+):[0-9]{1,5}$/.test(value);
}

function unreadable(why: string): MurError {
  return new MurError("E-RUN-020", `${SPAWNER_VARIABLE} is not a spawner handle: ${why}`, {
    hint: `unset ${SPAWNER_VARIABLE} to run the capsule on its own; only a parent's runtime sets it`,
  });
}
