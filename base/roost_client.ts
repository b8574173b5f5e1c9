/**
 * Talking to `mur-roost`, the spawn referee, over HTTP on loopback (seed roost "Endpoints"; spec roost 3). What a capsule's
 * runtime uses; the bodies of all five endpoints are declared here once, for daemon and callers.
 *
 * One connection a request, no proxy and no redirect. Tokens travel in headers; no error text holds one.
 *
 * @module
 */
import { HttpError } from "./http_error.ts";
import { isJsonObject, type JsonObject } from "./json_value.ts";
import { hostAndPort, sendPlain } from "./plain_http.ts";
import { BOUNDS_HEADER, parseBounds, type RoostBounds } from "./roost_bounds.ts";
import { DEFAULT_TIME_BOUNDS, type TimeBounds } from "./time_bounds.ts";

/** Request header that carries a session's credential, at `/spawn` and `/deregister`. */
export const CREDENTIAL_HEADER = "x-murmur-spawn-credential";

/** Request header that carries the approval a session was launched with, at `/register`. */
export const APPROVAL_HEADER = "x-murmur-spawn-approval";

/** Response header of `/status` for a session the daemon does not know: the count it would tell for any other. */
export const LIVE_CAPSULES_HEADER = "x-murmur-live-capsules";

/** Where the daemon listens unless it is told otherwise. */
export const DEFAULT_ROOST_URL = "http://127.0.0.1:7700";

/** Body of `POST /spawn`. */
export interface SpawnRequest {
  /** Full name, `<scope>/<name>`. */
  readonly name: string;
  readonly version: string;
}

/** Answer of `POST /spawn`: the artifact that was judged, and the approval that names it. */
export interface SpawnGrant {
  /** Opaque; goes to the child's standard input and nowhere else. */
  readonly approval: string;
  readonly name: string;
  readonly version: string;
  /** Content hash of the judged archive, 64 lowercase hex digits. */
  readonly sha256: string;
  /** Absolute expiry of the approval, Unix milliseconds. */
  readonly expires_at_ms: number;
}

/** Body of `POST /register`. */
export interface RegisterRequest {
  readonly session_id: string;
  /** Full name, `<scope>/<name>`, as installed. */
  readonly name: string;
  readonly version: string;
}

/** Answer of `POST /register`. */
export interface RegisterAnswer {
  /** Opaque; stays in the memory of the session's runtime. */
  readonly credential: string;
}

/** How a session ended. */
export type RoostOutcome = "complete" | "failed";

/** Body of `POST /deregister`. */
export interface DeregisterRequest {
  readonly outcome: RoostOutcome;
}

/** Answer of `GET /status/{session_id}`. */
export interface RoostSessionStatus {
  readonly status: "running" | RoostOutcome;
  /** Levels of delegation still available below this session. */
  readonly depth_remaining: number;
  /** Children it holds, those it was approved to launch and has not launched yet included. */
  readonly live_children: number;
  /** Capsules live on the host, whichever session is asked for. */
  readonly live_capsules: number;
}

/** What the daemon answered: what was asked for, or its refusal in its own words. */
export type RoostAnswer<T> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly status: number; readonly message: string };

/** Where a daemon is. */
export interface RoostAddress {
  /** Name or address, without brackets. */
  readonly host: string;
  readonly port: number;
  /** Path all endpoints lie under, without a `/` at its end; usually empty. */
  readonly path: string;
}

/** Largest answer that is read, in bytes. */
const MAX_ANSWER = 65_536;
/** Most of the daemon's own words that is passed on, in characters: two hashes and two names, with room. */
const MAX_MESSAGE = 2_000;

/**
 * Reads a base URL as `MURMUR_ROOST_URL` holds it: plain `http`, and nothing behind the path.
 *
 * @returns `null` when it is none.
 */
export function parseRoostUrl(text: string): RoostAddress | null {
  let url: URL;
  try {
    url = new URL(text.trim());
  } catch {
    return null;
  }
  if (url.protocol !== "http:" || url.hostname === "" || url.username !== "" || url.password !== "") return null;
  if (url.search !== "" || url.hash !== "") return null;
  return {
    host: url.hostname.replace(/^\[|\]$/g, ""),
    port: url.port === "" ? 80 : Number(url.port),
    path: url.pathname.replace(/\/+$/, ""),
  };
}

/** Options of one call. */
export interface RoostCallOptions {
  /** Ends the call at any stage. */
  readonly signal?: AbortSignal;
}

/** Where the request goes and what it carries. */
interface Call {
  readonly method: "GET" | "POST";
  readonly path: string;
  readonly header?: readonly [name: string, value: string];
  readonly body?: unknown;
}

/**
 * A client of one daemon. It holds no connection between calls.
 *
 * Every method answers the daemon's refusal as a value, and throws {@linkcode HttpError} when there is no answer: the
 * daemon is not reachable, does not answer in time, or what answers is no daemon.
 */
export class RoostClient {
  readonly #address: RoostAddress;
  readonly #bounds: Pick<TimeBounds, "roostConnect" | "roostAnswer">;

  constructor(
    address: RoostAddress,
    bounds: Pick<TimeBounds, "roostConnect" | "roostAnswer"> = DEFAULT_TIME_BOUNDS,
  ) {
    this.#address = address;
    this.#bounds = bounds;
  }

  /** `host:port` of the daemon, for messages. */
  get where(): string {
    return hostAndPort(this.#address.host, this.#address.port);
  }

  /** Whether the daemon listens, and its bounds where it tells them: resolves when it does. @throws {HttpError} */
  async health(options: RoostCallOptions = {}): Promise<RoostAnswer<RoostBounds | null>> {
    return await this.#call(
      { method: "GET", path: "/health" },
      (_, headers) => parseBounds(headers.get(BOUNDS_HEADER)),
      options,
    );
  }

  /** Asks whether the session of a credential may spawn a capsule. @throws {HttpError} */
  async spawn(
    credential: string,
    { name, version }: SpawnRequest,
    options: RoostCallOptions = {},
  ): Promise<RoostAnswer<SpawnGrant>> {
    const call: Call = {
      method: "POST",
      path: "/spawn",
      header: [CREDENTIAL_HEADER, credential],
      body: { name, version },
    };
    return await this.#call(call, readGrant, options);
  }

  /**
   * Announces a session.
   *
   * @param approval The approval it was launched with, `null` for a session an operator started.
   * @throws {HttpError}
   */
  async register(
    { session_id, name, version }: RegisterRequest,
    approval: string | null,
    options: RoostCallOptions = {},
  ): Promise<RoostAnswer<RegisterAnswer>> {
    const call: Call = {
      method: "POST",
      path: "/register",
      ...(approval === null ? {} : { header: [APPROVAL_HEADER, approval] }),
      body: { session_id, name, version },
    };
    return await this.#call(
      call,
      ({ credential }) => typeof credential === "string" ? { credential } : undefined,
      options,
    );
  }

  /**
   * Reports that the session of a credential has ended. Best effort: its callers go on without it.
   *
   * Comes before the session's running record is removed: a record that was seen and is gone tells the daemon that the
   * session died, and then it counts as `failed` (spec roost 4.1, rule 3).
   *
   * @throws {HttpError}
   */
  async deregister(
    credential: string,
    outcome: RoostOutcome,
    options: RoostCallOptions = {},
  ): Promise<RoostAnswer<null>> {
    const call: Call = {
      method: "POST",
      path: "/deregister",
      header: [CREDENTIAL_HEADER, credential],
      body: { outcome },
    };
    return await this.#call(call, () => null, options);
  }

  /** What the daemon knows of a session; refused with 404 for one it does not know. @throws {HttpError} */
  async status(sessionId: string, options: RoostCallOptions = {}): Promise<RoostAnswer<RoostSessionStatus>> {
    return await this.#call({ method: "GET", path: `/status/${encodeURIComponent(sessionId)}` }, readStatus, options);
  }

  /**
   * Capsules live on the host, without a session to ask for; `null` when what answers does not tell.
   *
   * @throws {HttpError}
   */
  async liveCapsules(options: RoostCallOptions = {}): Promise<number | null> {
    // No session has this id.
    const { headers } = await this.#send({ method: "GET", path: "/status/" }, options);
    const told = headers.get(LIVE_CAPSULES_HEADER);
    return told !== undefined && /^\d{1,15}$/.test(told) ? Number(told) : null;
  }

  async #call<T>(
    call: Call,
    read: (answer: JsonObject, headers: ReadonlyMap<string, string>) => T | undefined,
    options: RoostCallOptions,
  ): Promise<RoostAnswer<T>> {
    const { status, headers, answer } = await this.#send(call, options);
    if (status !== 200) {
      const message = answer?.error;
      return {
        ok: false,
        status,
        message: typeof message === "string" ? oneLine(message) : `${this.where} answered ${status}`,
      };
    }
    const value = answer === null ? undefined : read(answer, headers);
    if (value === undefined) throw new HttpError("protocol", `${this.where} does not answer as mur-roost does`);
    return { ok: true, value };
  }

  async #send({ method, path, header, body }: Call, { signal }: RoostCallOptions) {
    const { host, port, path: base } = this.#address;
    const headers: (readonly [string, string])[] = header === undefined ? [] : [header];
    if (body !== undefined) headers.push(["content-type", "application/json"]);
    const response = await sendPlain({
      method,
      host,
      port,
      path: `${base}${path}`,
      headers,
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      connectMs: this.#bounds.roostConnect,
      silenceMs: this.#bounds.roostAnswer,
      deadline: performance.now() + this.#bounds.roostConnect + this.#bounds.roostAnswer,
      ...(signal === undefined ? {} : { signal }),
    });
    return {
      status: response.status,
      headers: response.headers,
      answer: jsonObject(await response.text(MAX_ANSWER)),
    };
  }
}

function jsonObject(text: string): JsonObject | null {
  try {
    const value: unknown = JSON.parse(text);
    return isJsonObject(value) ? value : null;
  } catch {
    return null;
  }
}

/** The daemon's words as they may stand in a tool result or an error: one line, and not without end. */
function oneLine(text: string): string {
  const line = text.slice(0, 2 * MAX_MESSAGE).replaceAll(/\s+/g, " ").trim();
  return line.length > MAX_MESSAGE ? `${line.slice(0, MAX_MESSAGE)}…` : line;
}

function readGrant({ approval, name, version, sha256, expires_at_ms }: JsonObject): SpawnGrant | undefined {
  if (typeof approval !== "string" || typeof name !== "string" || typeof version !== "string") return undefined;
  if (typeof sha256 !== "string" || !/^[0-9a-f]{64}$/.test(sha256)) return undefined;
  if (!isCount(expires_at_ms)) return undefined;
  return { approval, name, version, sha256, expires_at_ms };
}

function readStatus(
  { status, depth_remaining, live_children, live_capsules }: JsonObject,
): RoostSessionStatus | undefined {
  if (status !== "running" && status !== "complete" && status !== "failed") return undefined;
  if (!isCount(depth_remaining) || !isCount(live_children) || !isCount(live_capsules)) return undefined;
  return { status, depth_remaining, live_children, live_capsules };
}

function isCount(value: unknown): value is number {
  return typeof value === "number" && Number.isSafeInteger(value) && value >= 0;
}
