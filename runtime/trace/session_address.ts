/**
 * How a recorded session is named on the command line: `@N`, a full id, the end of an id, a path (spec cli 3, trace 12.1).
 *
 * @module
 */
import { ioError, MurError } from "../../base/errors.ts";
import { isId } from "../../base/ids.ts";
import { type MurmurHome, recordsGroup } from "../../base/murmur_home.ts";

/** A recorded session. */
export interface RecordedSession {
  readonly id: string;
  /** Its records directory. */
  readonly directory: string;
}

/** Shortest end of an id that names a session. */
const SHORTEST_SUFFIX = 4;

/** Whether an address is a path: the record file itself, or the directory that holds it. */
export function isPathAddress(address: string): boolean {
  return address.includes("/") || address.endsWith(".jsonl");
}

async function sessionsIn(directory: string): Promise<RecordedSession[]> {
  const sessions: RecordedSession[] = [];
  try {
    for await (const entry of Deno.readDir(directory)) {
      if (entry.isDirectory && entry.name.startsWith("ses_")) {
        sessions.push({ id: entry.name, directory: `${directory}/${entry.name}` });
      }
    }
  } catch (cause) {
    if (!(cause instanceof Deno.errors.NotFound) && !(cause instanceof Deno.errors.NotADirectory)) {
      throw ioError(`list the sessions in ${directory}`, cause);
    }
  }
  return sessions.sort((a, b) => (a.id < b.id ? 1 : -1));
}

/** Where an address leads among some sessions. */
export type AddressMatch<S> =
  | { readonly kind: "found"; readonly session: S }
  | { readonly kind: "bad-ordinal" }
  | { readonly kind: "ordinal-zero" }
  | { readonly kind: "no-sessions" }
  | { readonly kind: "out-of-range"; readonly ordinal: number; readonly count: number }
  | { readonly kind: "no-such-id" }
  | { readonly kind: "no-such-suffix" }
  | { readonly kind: "ambiguous"; readonly ids: readonly string[] };

/**
 * Looks an address up that is no path.
 *
 * @param sessions Newest first.
 */
export function matchAddress<S extends { readonly id: string }>(
  address: string,
  sessions: readonly S[],
): AddressMatch<S> {
  const ordinal = address.startsWith("@") ? address.slice(1) : null;
  if (ordinal !== null && !/^\d+$/.test(ordinal)) return { kind: "bad-ordinal" };
  if (ordinal !== null && Number(ordinal) === 0) return { kind: "ordinal-zero" };
  if (sessions.length === 0) return { kind: "no-sessions" };
  if (ordinal !== null) {
    const session = sessions[Number(ordinal) - 1];
    if (session !== undefined) return { kind: "found", session };
    return { kind: "out-of-range", ordinal: Number(ordinal), count: sessions.length };
  }
  if (isId("ses", address)) {
    const session = sessions.find(({ id }) => id === address);
    return session === undefined ? { kind: "no-such-id" } : { kind: "found", session };
  }
  const suffix = address.toLowerCase();
  const matches = suffix.length < SHORTEST_SUFFIX ? [] : sessions.filter(({ id }) => id.toLowerCase().endsWith(suffix));
  if (matches.length > 1) return { kind: "ambiguous", ids: matches.map(({ id }) => id) };
  const [session] = matches;
  return session === undefined ? { kind: "no-such-suffix" } : { kind: "found", session };
}

/** Text of an ordinal that is none. */
export function ordinalText(address: string, kind: "bad-ordinal" | "ordinal-zero"): string {
  return kind === "ordinal-zero"
    ? "ordinal must be @1 or higher"
    : `invalid ordinal '${address}' — expected @1, @2, ...`;
}

/** Text of an address with several sessions, one per line. */
export function ambiguousText(address: string, ids: readonly string[]): string {
  const list = ids.map((id) => `\n  ${id}`).join("");
  return `ambiguous: '${address}' matches ${ids.length} sessions — provide more characters${list}`;
}

/** What {@linkcode resolveAddress} found. */
export type AddressResult =
  | { readonly kind: "found"; readonly session: RecordedSession }
  /** No session of that name; a place of an older build may have it. */
  | { readonly kind: "absent"; readonly text: string }
  | { readonly kind: "refused"; readonly text: string };

/**
 * Resolves an address that is no path among the sessions of a work folder.
 *
 * @param sessions Newest first.
 * @param directory The work folder, for the message.
 */
export function resolveAddress(
  address: string,
  sessions: readonly RecordedSession[],
  directory: string,
): AddressResult {
  const absent = (text: string): AddressResult => ({ kind: "absent", text });
  const refused = (text: string): AddressResult => ({ kind: "refused", text });
  const match = matchAddress(address, sessions);
  switch (match.kind) {
    case "found":
      return match;
    case "bad-ordinal":
    case "ordinal-zero":
      return refused(ordinalText(address, match.kind));
    case "no-sessions":
      return absent(`no sessions found in workdir at ${directory}`);
    case "out-of-range":
      return refused(`@${match.ordinal} is out of range — workdir has ${match.count} session(s)`);
    case "no-such-id":
      return absent(`session ${address} not found in ${directory}`);
    case "no-such-suffix":
      return absent(`no session found matching suffix '${address}' in ${directory}`);
    case "ambiguous":
      return refused(ambiguousText(address, match.ids));
  }
}

/** Where sessions of one work folder are looked for. */
export interface SessionSearch {
  readonly home: MurmurHome;
  /** Absolute path of the work folder. */
  readonly directory: string;
  /** `E-EVAL-002` under `mur eval`. */
  readonly code?: "E-TRC-002" | "E-EVAL-002";
}

/** Every session of a work folder's group, newest first; none of older builds. */
export function groupSessions({ home, directory }: Pick<SessionSearch, "home" | "directory">) {
  return sessionsIn(recordsGroup(home, directory));
}

/** Every session of a work folder's group, newest first; those of older builds when the group has none. */
export async function sessionsOf(search: SessionSearch): Promise<RecordedSession[]> {
  const grouped = await groupSessions(search);
  return grouped.length > 0 ? grouped : await olderSessions(search.directory);
}

/** Sessions of older builds, known by their trace: a bare `ses_` folder there is a work folder of this build. */
async function olderSessions(directory: string): Promise<RecordedSession[]> {
  const found: RecordedSession[] = [];
  for (const session of [...await sessionsIn(directory), ...await sessionsIn(`${directory}/.murmur`)]) {
    try {
      if ((await Deno.stat(`${session.directory}/trace.jsonl`)).isFile) found.push(session);
    } catch (cause) {
      if (!(cause instanceof Deno.errors.NotFound)) throw ioError(`look for a trace in ${session.directory}`, cause);
    }
  }
  return found.sort((a, b) => (a.id < b.id ? 1 : -1));
}

/**
 * The session an address names. A path is taken as it is: a file's session is the directory that holds it.
 *
 * @throws {MurError} `E-TRC-002` (or the given code) when it names none or several; `E-IO-002`, `E-IO-003` when the
 * records cannot be listed.
 */
export async function findSession(address: string, search: SessionSearch): Promise<RecordedSession> {
  const code = search.code ?? "E-TRC-002";
  const grouped = await groupSessions(search);
  let result = resolveAddress(address, grouped, search.directory);
  if (result.kind === "absent") {
    const older = resolveAddress(address, await olderSessions(search.directory), search.directory);
    // The group's own answer says more when it has sessions at all.
    if (older.kind === "found" || grouped.length === 0) result = older;
  }
  if (result.kind === "found") return result.session;
  throw new MurError(code, result.text);
}

/**
 * Path of the trace an address names, path form included: a `.jsonl` file, or a directory that holds `trace.jsonl`.
 *
 * @param cwd Against which a relative path is taken.
 */
export async function findTrace(address: string, search: SessionSearch, cwd: string): Promise<string> {
  if (!isPathAddress(address)) return `${(await findSession(address, search)).directory}/trace.jsonl`;
  const path = address.startsWith("/") ? address : `${cwd}/${address}`;
  return path.endsWith(".jsonl") ? path : `${path.replace(/\/+$/, "")}/trace.jsonl`;
}
