/**
 * The capsules that run on this machine: what their records say, who of them is alive, and which one an address names
 * (spec cli 3, 4).
 *
 * @module
 */
import {
  DoorClient,
  doorTrouble,
  doorWords,
  EXTENDED_CARD,
  MAX_CARD,
  parseHostAndPort,
  type RpcAnswer,
} from "../base/door_client.ts";
import { MurError } from "../base/errors.ts";
import type { JsonValue } from "../base/json_value.ts";
import { isJsonObject } from "../base/json_value.ts";
import type { KernelRecords } from "../base/kernel_records.ts";
import { type ExchangeOutcome, exchangeOutcome, type PlainRequest } from "../base/plain_http.ts";
import {
  openRunningDirectory,
  readRecordProcess,
  removeRunningRecord,
  type RunningListing,
  type RunningRecord,
  takeRecords,
} from "../base/running_record.ts";
import { CARD_EXTENSION } from "../runtime/door/card_extension.ts";
import { ambiguousText, matchAddress, ordinalText } from "../runtime/trace/session_address.ts";
import type { CliContext } from "./context.ts";
import { rpcError } from "./door_error.ts";

/** A record whose process may be alive. */
export interface RunningSession {
  readonly id: string;
  readonly record: RunningRecord;
  /** Why layer 2 could not tell; `null` when the process is the one that wrote the record. */
  readonly unverified: string | null;
}

/** A record whose process is gone; it was removed. */
export interface PrunedSession {
  readonly id: string;
  readonly reason: string;
}

/** What layers 1 and 2 say of every record (spec cli 4.3). */
export interface RunningSessions {
  /** Newest first. */
  readonly sessions: readonly RunningSession[];
  readonly pruned: readonly PrunedSession[];
}

/**
 * From so many on records are read, and doors asked, by the kernel's own calls: with fewer all is done before those are
 * loaded. Other systems than Linux have other calls.
 */
const MANY = Deno.build.os === "linux" ? 32 : Infinity;

/**
 * Reads the records, removes those whose process is gone.
 *
 * @param pruneOlder Remove dead records of older builds too, as `mur ps` alone does (spec cli 4.2).
 * @throws {MurError} `E-RUN-028`.
 */
export async function readRunningSessions(
  context: Pick<CliContext, "absoluteHome">,
  { pruneOlder = false }: { readonly pruneOlder?: boolean } = {},
): Promise<RunningSessions> {
  const listing = openRunningDirectory(context.absoluteHome().running);
  if (listing.names.length <= MANY) return sessionsOf(listing, pruneOlder);
  const [{ libc }, { KernelRecords }] = await Promise.all([
    import("../base/libc.ts"),
    import("../base/kernel_records.ts"),
  ]);
  using kernel = new KernelRecords(libc(), listing.dir);
  return sessionsOf(listing, pruneOlder, kernel);
}

/** Ids begin with the time. */
function newestFirst({ id: a }: { readonly id: string }, { id: b }: { readonly id: string }): number {
  return a < b ? 1 : a > b ? -1 : 0;
}

function sessionsOf(listing: RunningListing, pruneOlder: boolean, kernel?: KernelRecords): RunningSessions {
  const sessions: RunningSession[] = [];
  const pruned: PrunedSession[] = [];
  const found = takeRecords(listing, kernel?.readTexts);
  const stats = kernel?.readStats(found.map(({ record }) => record.pid));
  for (const [index, { kind, record }] of found.entries()) {
    if (kind === "older" && !pruneOlder) continue;
    const id = record.session_id;
    const reading = readRecordProcess(record, stats === undefined ? undefined : () => stats[index]!);
    if (reading.state === "gone") {
      removeRunningRecord(listing.dir, id, { controlToken: listing.controlTokens.has(id) });
      pruned.push({ id, reason: reading.reason });
    } else if (kind === "record") {
      sessions.push({ id, record, unverified: reading.state === "unverified" ? reading.reason : null });
    }
  }
  return { sessions: sessions.sort(newestFirst), pruned: pruned.sort(newestFirst) };
}

/**
 * The running session an address names.
 *
 * Pure. Ordinals count what passes layers 1 and 2; an id or its end may also name a session whose process could not be
 * verified.
 *
 * @throws {MurError} `E-RUN-022`.
 */
export function resolveRunningSession(address: string, { sessions, pruned }: RunningSessions): RunningSession {
  const refused = (text: string) =>
    new MurError("E-RUN-022", text, { hint: "mur ps lists the capsules that run on this machine" });
  if (address.includes("/") || address.includes(":") || address.endsWith(".jsonl")) {
    throw refused(`'${address}' is not a session address`);
  }
  const candidates = address.startsWith("@") ? sessions.filter(({ unverified }) => unverified === null) : sessions;
  const match = matchAddress(address, candidates);
  if (match.kind === "found") return match.session;
  const dead = matchAddress(address, address.startsWith("@") ? [] : pruned);
  if (dead.kind === "found") throw refused(`${dead.session.id} is not running: ${dead.session.reason}`);
  switch (match.kind) {
    case "bad-ordinal":
    case "ordinal-zero":
      throw refused(ordinalText(address, match.kind));
    case "no-sessions":
      throw refused("no capsule is running on this machine");
    case "out-of-range":
      throw refused(`@${match.ordinal} is out of range — ${match.count} capsule(s) run on this machine`);
    case "ambiguous":
      throw refused(ambiguousText(address, match.ids));
    case "no-such-id":
      throw refused(`${address} is not running on this machine`);
    case "no-such-suffix":
      if (address.length < 4) throw refused(`'${address}' is not a session address`);
      throw refused(`no running session matches suffix '${address}'`);
  }
}

/** Reads the records and resolves an address among them. @throws {MurError} `E-RUN-022`, `E-RUN-028`. */
export async function findRunningSession(
  address: string,
  context: Pick<CliContext, "absoluteHome">,
): Promise<RunningSession> {
  return resolveRunningSession(address, await readRunningSessions(context));
}

/** A client of the door a record names, holding its token; `null` for a script capsule or an address nobody can read. */
export function doorOf(record: RunningRecord, context: Pick<CliContext, "bounds">): DoorClient | null {
  const place = record.url === null ? null : parseHostAndPort(record.url);
  if (place === null) return null;
  const host = record.bound_address ?? place.host;
  return new DoorClient({ host, port: place.port, token: record.door_token ?? null }, context.bounds);
}

/** The session an agent card names (spec door 4.4); `null` when it names none. */
export function sessionOfCard(card: JsonValue): string | null {
  // A card without interfaces is an old runtime's.
  if (!isJsonObject(card) || !Array.isArray(card.supportedInterfaces) || card.supportedInterfaces.length === 0) {
    return null;
  }
  const { capabilities } = card;
  if (!isJsonObject(capabilities) || !Array.isArray(capabilities.extensions)) return null;
  const capsule = capabilities.extensions.find((each) => isJsonObject(each) && each.uri === CARD_EXTENSION.capsule);
  if (!isJsonObject(capsule) || !isJsonObject(capsule.params)) return null;
  const { sessionId } = capsule.params;
  return typeof sessionId === "string" && sessionId !== "" ? doorWords(sessionId) : null;
}

/**
 * Layer 3: whether the door answers for that session. An authenticated door is asked for its extended card.
 *
 * @returns Why it does not, or `null` when it does.
 */
export async function doorProblem(sessionId: string, door: DoorClient): Promise<string | null> {
  return cardProblem(sessionId, door, await exchangeOutcome(door.cardRequest(), MAX_CARD));
}

/** A session and its door. */
export interface SessionDoor {
  readonly id: string;
  readonly door: DoorClient;
}

/**
 * {@linkcode doorProblem} of several at once, in their order.
 *
 * @param deadline When it has to be over, on the clock of `performance.now()`.
 */
export async function doorProblems(
  doors: readonly SessionDoor[],
  deadline: number,
): Promise<readonly (string | null)[]> {
  const outcomes = await exchangeAll(doors.map(({ door }) => door.cardRequest(deadline)));
  return doors.map(({ id, door }, index) => cardProblem(id, door, outcomes[index]!));
}

async function exchangeAll(requests: readonly PlainRequest[]): Promise<readonly ExchangeOutcome[]> {
  if (requests.length <= MANY) return await Promise.all(requests.map((each) => exchangeOutcome(each, MAX_CARD)));
  const [{ libc }, { exchangeConcurrently }] = await Promise.all([
    import("../base/libc.ts"),
    import("../base/concurrent_exchanges.ts"),
  ]);
  return await exchangeConcurrently(libc(), requests, MAX_CARD);
}

/** What a door says of itself, as far as it does not answer for that session. */
function cardProblem(sessionId: string, door: DoorClient, outcome: ExchangeOutcome): string | null {
  let answer: RpcAnswer;
  try {
    answer = door.readCard(outcome);
  } catch (error) {
    return doorTrouble(error);
  }
  if (!answer.ok) return rpcError(answer.failure, `${EXTENDED_CARD} at ${door.shown}`).message;
  const named = sessionOfCard(answer.result);
  if (named === null) return `the agent card from ${door.shown} names no session`;
  return named === sessionId ? null : `the capsule at ${door.shown} answers for session ${named}`;
}

/** A running session whose door has answered for it. */
export interface ServingSession {
  readonly id: string;
  readonly record: RunningRecord;
  readonly door: DoorClient;
}

/**
 * Resolves an address and verifies it through layer 3.
 *
 * @throws {MurError} `E-RUN-022`, `E-RUN-023`, `E-RUN-028`.
 */
export async function findServingSession(
  address: string,
  context: Pick<CliContext, "absoluteHome" | "bounds">,
): Promise<ServingSession> {
  const { id, record, unverified } = await findRunningSession(address, context);
  const refused = (reason: string) =>
    new MurError(
      "E-RUN-023",
      `${id} is running but its capsule did not answer at ${record.url ?? "-"}: ${reason}`,
      { hint: `try again; mur stop ${id} still works` },
    );
  if (unverified !== null) throw refused(unverified);
  const door = doorOf(record, context);
  if (door === null) {
    throw refused(record.url === null ? "a script capsule has no door" : "its record names no address of a door");
  }
  const problem = await doorProblem(id, door);
  if (problem !== null) throw refused(problem);
  return { id, record, door };
}
