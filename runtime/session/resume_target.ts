/**
 * Which session `--resume` continues (spec session 13.4).
 *
 * @module
 */
import { resumeContext, type ResumeQuestion } from "../agent/context_resolution.ts";
import { findTrace, type SessionSearch } from "../trace/session_address.ts";
import { ioError } from "../../base/errors.ts";

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
  readonly sessions: SessionSearch;
  readonly cwd: string;
}

/** @throws {MurError} `E-TRC-002`, `E-RUN-016`, `E-RUN-017`, `E-IO-003`. */
export async function resumeTarget(search: ResumeSearch): Promise<ResumedSession> {
  const tracePath = await findTrace(search.address === "" ? "@1" : search.address, search.sessions, search.cwd);
  let text: string;
  try {
    text = await Deno.readTextFile(tracePath);
  } catch (cause) {
    throw ioError(`read ${tracePath}`, cause);
  }
  const sessionId = tracePath.split("/").at(-2) ?? "";
  return { sessionId, tracePath, contextId: resumeContext({ ...search, sessionId, trace: text.split("\n") }) };
}
