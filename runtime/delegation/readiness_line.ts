/**
 * The first line of a child's standard output, by which it reports itself ready (spec roost 10.3, cli 12.2). Pure.
 *
 * @module
 */
import { isId } from "../../base/ids.ts";
import { isJsonObject } from "../../base/json_value.ts";

/** Longest readiness line, in bytes: paths and tokens, with room. */
export const MAX_READINESS_BYTES = 65_536;

/** What the parent reads of it. */
export interface Readiness {
  readonly sessionId: string;
  /** `host:port` of the door, on this machine. */
  readonly url: string;
  /** The operator's token of an authenticated door, where it was told. */
  readonly doorToken: string | null;
}

/** Reads the line; a text says what is wrong with it, and shows nothing of what it holds. */
export function parseReadiness(line: string): Readiness | string {
  let value: unknown;
  try {
    value = JSON.parse(line);
  } catch {
    return "its first line of output is no JSON";
  }
  if (!isJsonObject(value)) return "its first line of output is no readiness line";
  const { session_id, url, tokens } = value;
  if (typeof session_id !== "string" || !isId("ses", session_id)) return "its readiness line names no session";
  if (url === undefined || url === null || url === "") return "it opened no door, so it cannot be given a task";
  // The task goes to this machine and nowhere else, whatever the line says.
  if (typeof url !== "string" || !/^(?:localhost|127\.0\.0\.1|\[::1\]):[0-9]{1,5}$/.test(url)) {
    return "its readiness line names no door on this machine";
  }
  const token = isJsonObject(tokens) ? tokens.operator : undefined;
  return { sessionId: session_id, url, doorToken: typeof token === "string" && token !== "" ? token : null };
}
