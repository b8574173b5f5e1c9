/**
 * Talking to the door of a running capsule over HTTP and nothing else (spec door 17): its agent card, JSON-RPC calls and
 * event streams.
 *
 * @module
 */
import { HttpError } from "./http_error.ts";
import { isJsonObject, type JsonObject, type JsonValue } from "./json_value.ts";
import {
  type ExchangeOutcome,
  exchangeOutcome,
  hostAndPort,
  type PlainRequest,
  type PlainResponse,
  sendPlain,
} from "./plain_http.ts";
import type { TimeBounds } from "./time_bounds.ts";

/** Where a door is and what opens it. */
export interface DoorAddress {
  /** Without brackets. */
  readonly host: string;
  readonly port: number;
  /** Bearer token; `null` at a public door. */
  readonly token: string | null;
}

/** Bounds a client keeps to. */
export type DoorBounds = Pick<TimeBounds, "doorConnect" | "doorCard" | "doorAnswer" | "streamSilence">;

/** A failed JSON-RPC call, as the door answered it (spec door 5). */
export interface RpcFailure {
  readonly code: number;
  readonly message: string;
  /** `metadata` of its ErrorInfo; empty when it has none. */
  readonly metadata: Readonly<Record<string, string>>;
}

/** What a call answered. */
export type RpcAnswer =
  | { readonly ok: true; readonly result: JsonValue }
  | { readonly ok: false; readonly failure: RpcFailure };

/** One event of a stream. */
export interface DoorEvent {
  /** Number of its frame; `null` for events that are not numbered. */
  readonly id: number | null;
  /** The A2A `StreamResponse`. */
  readonly response: JsonObject;
}

/** What a streaming method answered: a stream, or one JSON body with its refusal. */
export type StreamAnswer =
  | { readonly ok: true; readonly events: AsyncGenerator<DoorEvent, void> }
  | { readonly ok: false; readonly failure: RpcFailure };

/** A door that refuses the caller with an HTTP status. */
export class DoorRefusal extends Error {
  override readonly name = "DoorRefusal";
  readonly status: number;
  /** Whether another token could be let through: a path that a plane refuses stays refused. */
  readonly byToken: boolean;

  constructor(status: number, message: string, byToken = status === 401) {
    super(message);
    this.status = status;
    this.byToken = byToken;
  }
}

/** Error codes of the door that its callers tell apart (spec door 5). */
export const RPC_CODE = { methodNotFound: -32601, taskNotFound: -32001, notCancelable: -32002, unsupported: -32004 };

/** Largest answer that is read, in bytes: a response of 64 MiB, escaped. */
const MAX_ANSWER = 256 << 20;
/** Largest agent card that is read, in bytes, the extended one too. */
export const MAX_CARD = 1 << 20;
/** Most of a door's own words that is shown, in characters. */
const MAX_SHOWN = 300;
const CARD_PATH = "/.well-known/agent-card.json";
/** The method that answers with the extended agent card (spec door 4). */
export const EXTENDED_CARD = "GetExtendedAgentCard";

/** Words of a door inside a line of ours: on one line, and not without end. */
export function doorWords(text: string): string {
  const line = text.slice(0, 2 * MAX_SHOWN).replaceAll(/\s+/g, " ").trim();
  return line.length > MAX_SHOWN || text.length > 2 * MAX_SHOWN ? `${line.slice(0, MAX_SHOWN)}…` : line;
}

/** Takes `host:port` apart, an address in brackets; `null` when it is none. */
export function parseHostAndPort(text: string): { readonly host: string; readonly port: number } | null {
  const match = /^(?:\[([0-9A-Fa-f:.]+)\]|([^\s:/?#@[\]\\]+)):(\d{1,5})$/.exec(text);
  const port = Number(match?.[3]);
  if (match === null || port < 1 || port > 65_535) return null;
  return { host: (match[1] ?? match[2]!).toLowerCase(), port };
}

/** Whether a text can be sent as a bearer token. */
export function isTokenText(text: string): boolean {
  return /^[\x21-\x7e]+$/.test(text);
}

function errorInfoMetadata(data: unknown): Record<string, string> {
  if (!Array.isArray(data)) return {};
  for (const info of data) {
    if (!isJsonObject(info) || !isJsonObject(info.metadata)) continue;
    return Object.fromEntries(
      Object.entries(info.metadata).filter((entry): entry is [string, string] => typeof entry[1] === "string"),
    );
  }
  return {};
}

/** Reads a JSON-RPC answer strictly: either `result` or `error`; `null` when it is none. */
export function parseRpcAnswer(text: string): RpcAnswer | null {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return null;
  }
  if (!isJsonObject(value) || value.jsonrpc !== "2.0" || ("result" in value) === ("error" in value)) return null;
  if (value.result !== undefined) return { ok: true, result: value.result };
  const error = value.error;
  if (!isJsonObject(error) || !Number.isInteger(error.code) || typeof error.message !== "string") return null;
  return {
    ok: false,
    failure: { code: error.code as number, message: doorWords(error.message), metadata: errorInfoMetadata(error.data) },
  };
}

/** A client of one door. It holds no connection between calls. */
export class DoorClient {
  readonly address: DoorAddress;
  readonly #bounds: DoorBounds;

  constructor(address: DoorAddress, bounds: DoorBounds) {
    this.address = address;
    this.#bounds = bounds;
  }

  /** `host:port`, for messages. */
  get shown(): string {
    return hostAndPort(this.address.host, this.address.port);
  }

  /**
   * The agent card: the public one, and of a door with authentication the extended one.
   *
   * @param deadline On the clock of `performance.now()`. However slowly a door drips, it is not waited for longer than for a
   * silent one.
   * @throws {HttpError} @throws {DoorRefusal}
   */
  async card(deadline?: number): Promise<RpcAnswer> {
    return this.readCard(await exchangeOutcome(this.cardRequest(deadline), MAX_CARD));
  }

  /** What asks for that card. */
  cardRequest(
    deadline: number = performance.now() + this.#bounds.doorConnect + this.#bounds.doorCard,
  ): PlainRequest {
    const { host, port, token } = this.address;
    if (token !== null) {
      return this.#callRequest(EXTENDED_CARD, {}, [], { silenceMs: this.#bounds.doorCard, deadline });
    }
    return {
      method: "GET",
      host,
      port,
      path: CARD_PATH,
      connectMs: this.#bounds.doorConnect,
      silenceMs: this.#bounds.doorCard,
      deadline,
    };
  }

  /** The card, from what became of that request. @throws {HttpError} @throws {DoorRefusal} */
  readCard(outcome: ExchangeOutcome): RpcAnswer {
    if (outcome instanceof HttpError) throw outcome;
    const { status, text } = outcome;
    if (status !== 200) throw refusalOf(status, text);
    if (this.address.token !== null) return this.#answer(text);
    try {
      return { ok: true, result: JSON.parse(text) as JsonValue };
    } catch {
      throw new HttpError("protocol", `the agent card from ${this.shown} is not JSON`);
    }
  }

  /**
   * One JSON-RPC call.
   *
   * @param silenceMs Default `doorAnswer`.
   * @param headers Beside those every request has.
   * @param deadline On the clock of `performance.now()`; by default the whole answer may take as long as silence may.
   * @throws {HttpError} When there is no answer. @throws {DoorRefusal} For another status than 200.
   */
  async call(
    method: string,
    params: JsonObject,
    {
      silenceMs = this.#bounds.doorAnswer,
      deadline = performance.now() + this.#bounds.doorConnect + silenceMs,
      headers = [],
      signal,
    }: {
      silenceMs?: number;
      deadline?: number;
      headers?: readonly (readonly [string, string])[];
      signal?: AbortSignal;
    } = {},
  ): Promise<RpcAnswer> {
    const limits = { silenceMs, deadline, ...(signal === undefined ? {} : { signal }) };
    const response = await sendPlain(this.#callRequest(method, params, headers, limits));
    return this.#answer(await this.#read(response, MAX_ANSWER));
  }

  /**
   * Opens a stream.
   *
   * @param lastEventId Sent as `Last-Event-ID`.
   * @throws {HttpError} @throws {DoorRefusal} As {@linkcode call}; a stream that breaks off throws while it is read.
   */
  async stream(
    method: string,
    params: JsonObject,
    { lastEventId, signal }: { lastEventId?: number; signal?: AbortSignal } = {},
  ): Promise<StreamAnswer> {
    const headers: [string, string][] = [["accept", "text/event-stream, application/json"]];
    if (lastEventId !== undefined) headers.push(["last-event-id", String(lastEventId)]);
    const limits = { silenceMs: this.#bounds.streamSilence, ...(signal === undefined ? {} : { signal }) };
    const response = await sendPlain(this.#callRequest(method, params, headers, limits));
    const type = response.headers.get("content-type") ?? "";
    if (response.status === 200 && /^text\/event-stream\s*(;|$)/i.test(type)) {
      const { streamEvents } = await import("./stream_events.ts");
      return { ok: true, events: streamEvents(response, this.shown) };
    }
    const answer = this.#answer(await this.#read(response, MAX_ANSWER));
    if (!answer.ok) return answer;
    throw new HttpError("protocol", `${this.shown} answered ${method} without a stream`);
  }

  /**
   * Something behind the door that is read with `GET`.
   *
   * @param path As it is sent.
   * @throws {HttpError} @throws {DoorRefusal} For another status than 200.
   */
  async get(path: string): Promise<PlainResponse> {
    const { host, port, token } = this.address;
    const response = await sendPlain({
      method: "GET",
      host,
      port,
      path,
      headers: token === null ? [] : [["authorization", `Bearer ${token}`]],
      connectMs: this.#bounds.doorConnect,
      silenceMs: this.#bounds.doorAnswer,
    });
    if (response.status !== 200) await this.#read(response, MAX_CARD);
    return response;
  }

  #callRequest(
    method: string,
    params: JsonObject,
    headers: readonly (readonly [string, string])[],
    limits: Pick<PlainRequest, "silenceMs" | "deadline" | "signal">,
  ): PlainRequest {
    const { host, port, token } = this.address;
    return {
      method: "POST",
      host,
      port,
      path: "/",
      headers: [
        ["content-type", "application/json"],
        ["a2a-version", "1.0"],
        ...headers,
        ...(token === null ? [] : [["authorization", `Bearer ${token}`] as const]),
      ],
      body: JSON.stringify({ jsonrpc: "2.0", id: 1, method, params }),
      connectMs: this.#bounds.doorConnect,
      ...limits,
    };
  }

  async #read(response: PlainResponse, maxBytes: number): Promise<string> {
    const text = await response.text(maxBytes);
    if (response.status !== 200) throw refusalOf(response.status, text);
    return text;
  }

  #answer(text: string): RpcAnswer {
    const answer = parseRpcAnswer(text);
    if (answer !== null) return answer;
    throw new HttpError("protocol", `${this.shown} answered with what is no JSON-RPC: ${doorWords(text)}`);
  }
}

/** A refusal as its body tells it: `{"error", "message"}` (spec door 3.3), or nothing. */
function refusalOf(status: number, body: string): DoorRefusal {
  try {
    const value: unknown = JSON.parse(body);
    if (isJsonObject(value) && typeof value.error === "string") {
      const { error, message } = value;
      const words = doorWords(`${status} ${error}${typeof message === "string" ? `: ${message}` : ""}`);
      return new DoorRefusal(status, words, status === 401 || error === "insufficient_scope");
    }
  } catch {
    // A body of somebody else's making says nothing to us.
  }
  return new DoorRefusal(status, String(status));
}

/** Why a door could not be talked to, in a few words. */
export function doorTrouble(error: unknown): string {
  if (error instanceof DoorRefusal) return `it answered ${error.message}`;
  if (error instanceof HttpError) return error.message;
  throw error;
}
