/**
 * `mur trace rm`: removes sessions' records, those of their delegated children too (spec trace 12.6).
 *
 * @module
 */
import { MurError } from "../base/errors.ts";
import {
  groupSessions,
  isPathAddress,
  type RecordedSession,
  resolveAddress,
} from "../runtime/trace/session_address.ts";
import { foreignSessions, removeSessions, sessionTree } from "../runtime/trace/session_removal.ts";
import { scratchIsHeld } from "../runtime/session/session_directories.ts";
import type { CliContext } from "./context.ts";
import { readRunningSessions } from "./running_session.ts";
import { traceWorkdir } from "./trace_show.ts";

/** Flags of `mur trace rm`. */
export interface TraceRmFlags {
  readonly workdir?: string;
}

/**
 * Runs the command. Nothing is removed when one address or one session is refused.
 *
 * @throws {MurError} `E-TRC-002`, `E-RUN-028`, `E-IO-002`, `E-IO-003`.
 */
export async function traceRm(
  context: CliContext,
  flags: TraceRmFlags,
  addresses: readonly string[],
): Promise<number> {
  const home = context.absoluteHome();
  const directory = traceWorkdir(context, flags.workdir);
  // Sessions of older builds lie in a work folder, which is no record and not ours to remove.
  const sessions = await groupSessions({ home, directory });
  const chosen = new Map<string, RecordedSession>();
  for (const address of addresses) {
    for (const session of await sessionTree(home, addressed(address, sessions, directory))) {
      chosen.set(session.directory, session);
    }
  }
  for (const session of chosen.values()) {
    const [foreign] = (await foreignSessions(session)).filter(({ directory }) => !chosen.has(directory));
    if (foreign === undefined) continue;
    const folder = foreign.directory.slice(home.records.length, -foreign.id.length - 1);
    throw new MurError(
      "E-TRC-002",
      `the records of ${foreign.id}, which worked in ${folder}, lie in those of ${session.id}; nothing was removed`,
      { hint: `mur trace rm --workdir ${folder} ${foreign.id} removes them first` },
    );
  }
  const running = new Set((await readRunningSessions(context)).sessions.map(({ id }) => id));
  for (const { id } of chosen.values()) {
    // A launch that is staging, or could not write its record, has no running record.
    if (!running.has(id) && !scratchIsHeld(home.sessions, id)) continue;
    throw new MurError("E-TRC-002", `${id} is running; nothing was removed`, { hint: `mur stop ${id} ends it` });
  }
  removeSessions(home, [...chosen.values()], ({ id }) => void context.stdout.line(`removed: ${id}`));
  return 0;
}

function addressed(address: string, sessions: readonly RecordedSession[], directory: string): RecordedSession {
  if (isPathAddress(address)) {
    throw new MurError("E-TRC-002", `'${address}' is a path; mur trace rm takes session ids, their ends and ordinals`);
  }
  const result = resolveAddress(address, sessions, directory);
  if (result.kind === "found") return result.session;
  throw new MurError("E-TRC-002", result.text);
}
