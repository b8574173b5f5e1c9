/**
 * A session known to the spawn daemon (roost seed "POST /register", spec roost 9). The credential it holds is in memory
 * and nowhere else, and nobody is ever handed it.
 *
 * @module
 */
import { MurError } from "../../base/errors.ts";
import { HttpError } from "../../base/http_error.ts";
import { parseRoostUrl, RoostClient } from "../../base/roost_client.ts";
import type { TimeBounds } from "../../base/time_bounds.ts";

/** Variable that names the daemon. */
export const ROOST_VARIABLE = "MURMUR_ROOST_URL";

/** What the daemon answers when a child is asked for. */
export type SpawnAnswer =
  | {
    readonly granted: true;
    /** For the child's standard input, and nothing else. */
    readonly approval: string;
    readonly name: string;
    readonly version: string;
    /** Hash of the judged artifact, lowercase hex. */
    readonly sha256: string;
  }
  /** The daemon's own sentence. */
  | { readonly granted: false; readonly kind: "refused"; readonly reason: string }
  /** It could not be asked, or answered with no verdict. */
  | { readonly granted: false; readonly kind: "failed"; readonly reason: string };

/** A registered session. */
export interface Registration {
  /** Base URL of the daemon, without a trailing slash. Children register there too. */
  readonly daemon: string;
  /** Asks whether a child may be launched. Never fails. */
  spawn(name: string, version: string, signal: AbortSignal): Promise<SpawnAnswer>;
  /**
   * Tells the daemon that the session ended. Best effort: never fails, and is bounded. Only the first call counts. It
   * comes before the running record is removed, whose absence the daemon takes for a session that died.
   *
   * @returns Whether the daemon counts it no longer; false when nobody can say.
   */
  deregister(outcome: "complete" | "failed"): Promise<boolean>;
}

/** A session to be registered. */
export interface RegistrationRequest {
  /** Value of `MURMUR_ROOST_URL`. */
  readonly daemon: string | undefined;
  readonly sessionId: string;
  /** Full name, as installed. */
  readonly name: string;
  readonly version: string;
  /** What it was launched with; `null` when an operator started it. */
  readonly approval: string | null;
  readonly bounds: Pick<TimeBounds, "roostConnect" | "roostAnswer" | "roostRetire">;
}

/**
 * Announces a session.
 *
 * @throws {MurError} `E-RUN-019`, which shows no token.
 */
export async function register(request: RegistrationRequest): Promise<Registration> {
  const { sessionId, name, version, approval, bounds } = request;
  const given = request.daemon?.trim() ?? "";
  if (given === "") {
    throw refused(`${ROOST_VARIABLE} is not set, and ${name} has to register with mur-roost`, START);
  }
  const address = parseRoostUrl(given);
  if (address === null) {
    throw refused(`${ROOST_VARIABLE} is not the address of a daemon`, `set it to http://host:port`);
  }
  const client = new RoostClient(address, bounds);
  const credential = await announce(client, { session_id: sessionId, name, version }, approval);
  let retired: Promise<boolean> | null = null;
  return {
    daemon: given.replace(/\/+$/, ""),
    spawn: (child, childVersion, signal) => ask(client, credential, { name: child, version: childVersion }, signal),
    deregister(outcome) {
      retired ??= client.deregister(credential, outcome, { signal: AbortSignal.timeout(bounds.roostRetire) })
        // A daemon that is gone, or forgot the session, leaves nothing to be done.
        .then(() => true, neverArrived);
      return retired;
    },
  };
}

/** Whether a request that failed cannot have reached a daemon. */
function neverArrived(cause: unknown): boolean {
  return cause instanceof HttpError && cause.kind === "connection-refused";
}

/** Whether a session may be registered though it could not learn it: a slow daemon reads what was sent all the same. */
export function mayBeRegistered(failure: unknown): boolean {
  return failure instanceof MurError && failure.cause instanceof HttpError && !neverArrived(failure.cause);
}

const START = "start mur-roost and set MURMUR_ROOST_URL to its address, e.g. http://127.0.0.1:7700";

async function announce(
  client: RoostClient,
  session: { readonly session_id: string; readonly name: string; readonly version: string },
  approval: string | null,
): Promise<string> {
  let answer: Awaited<ReturnType<RoostClient["register"]>>;
  try {
    answer = await client.register(session, approval);
  } catch (cause) {
    if (!(cause instanceof HttpError)) throw cause;
    throw refused(`mur-roost cannot be asked: ${cause.message}`, START, cause);
  }
  if (answer.ok) return answer.value.credential;
  const hint = approval === null
    ? `start the daemon with --spawn-allow ${session.name}, and a registry that holds it`
    : "delegate again: an approval covers one launch of one artifact";
  throw refused(`mur-roost at ${client.where} does not register this session: ${answer.message}`, hint);
}

async function ask(
  client: RoostClient,
  credential: string,
  child: { readonly name: string; readonly version: string },
  signal: AbortSignal,
): Promise<SpawnAnswer> {
  const failed = (reason: string): SpawnAnswer => ({ granted: false, kind: "failed", reason });
  try {
    const answer = await client.spawn(credential, child, { signal });
    if (!answer.ok) return { granted: false, kind: "refused", reason: answer.message };
    const { approval, name, version, sha256 } = answer.value;
    // What was judged is what is launched; an answer about something else is no grant.
    if (name !== child.name || version !== child.version) {
      return failed(`mur-roost at ${client.where} judged another capsule`);
    }
    if (!isToken(approval)) return failed(`mur-roost at ${client.where} gave an approval that cannot be handed on`);
    return { granted: true, approval, name, version, sha256 };
  } catch (cause) {
    if (!(cause instanceof HttpError)) throw cause;
    return failed(`mur-roost cannot be asked: ${cause.message}`);
  }
}

/** It travels as one line of standard input and as the value of a header. */
function isToken(text: string): boolean {
  return /^[\x21-\x7e]{1,8192}$/.test(text);
}

function refused(message: string, hint: string, cause?: unknown): MurError {
  return new MurError("E-RUN-019", message, { hint, ...(cause === undefined ? {} : { cause }) });
}
