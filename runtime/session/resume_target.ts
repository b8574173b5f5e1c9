/**
 * Which session `--resume` continues (spec session 13.4).
 *
 * @module
 */
import { resumeContext, type ResumeQuestion } from "../agent/context_resolution.ts";
import { resolveSessionAddress } from "../trace/session_address.ts";

/** A session that this launch continues. */
export interface ResumedSession {
  readonly sessionId: string;
  readonly contextId: string;
  /** Its `trace.jsonl`. */
  readonly tracePath: string;
}

/** What resolving needs. */
export interface ResumeSearch extends Pick<ResumeQuestion, "transport" | "recording" | "kept"> {
  /** As given; empty for the newest. */
  readonly address: string;
  /** Records group of this launch's workdir root. */
  readonly group: string;
}

/** @throws {MurError} `E-TRC-002`, `E-RUN-016`, `E-RUN-017`. */
export function resumeTarget(search: ResumeSearch): ResumedSession {
  const { sessionId, tracePath } = resolveSessionAddress(search.address === "" ? "@1" : search.address, search.group);
  const trace = Deno.readTextFileSync(tracePath).split("\n");
  return { sessionId, tracePath, contextId: resumeContext({ ...search, sessionId, trace }) };
}
