/**
 * Session ids a shell may complete (spec cli 3). Nothing is verified and nothing removed: pressing a key must be quick and
 * harmless.
 *
 * @module
 */
import { peekRunningDirectory } from "../base/running_record.ts";
import { sessionsOf } from "../runtime/trace/session_address.ts";
import type { CliContext } from "./context.ts";
import { traceWorkdir } from "./trace_show.ts";

/** Ids of the running records, newest first. */
export function runningProposals(context: CliContext, partial: string): string[] {
  return peekRunningDirectory(context.absoluteHome().running).records.map((record) => record.session_id)
    .filter((id) => id.startsWith(partial));
}

/** Ids of the sessions of `./workdir`, newest first. */
export async function recordedProposals(context: CliContext, partial: string): Promise<string[]> {
  const sessions = await sessionsOf({ home: context.home(), directory: traceWorkdir(context, undefined) });
  // The name of a folder is whatever somebody gave it; what stands on a command line must be nothing a shell obeys.
  return sessions.map(({ id }) => id).filter((id) => /^[A-Za-z0-9_]+$/.test(id) && id.startsWith(partial));
}
