/**
 * The HTTP listener of an agent capsule (spec door 1, 2, 15): bound before the agent works, it takes every request through
 * the checks in their order and refuses everything a web page could send.
 *
 * The card, refusals and planes need no library; the rest of the door is loaded for the first call.
 *
 * @module
 */
import { MurError, reasonOf } from "../../base/errors.ts";
import type { TimeBounds } from "../../base/time_bounds.ts";
import {
  authenticate,
  type HttpRefusal,
  PEER_NOT_ACCEPTED,
  PUBLIC_CALLER,
  refuseScope,
  requestClass,
} from "./door_access.ts";
import type { DoorSession, PlaneRequest } from "./door_session.ts";
import type { DoorTokens } from "./door_token.ts";
import { type EventSource, openEventStream } from "./event_stream.ts";
import type { DoorAnswer, JsonRpcEndpoint, RpcCall } from "./json_rpc_endpoint.ts";
import { LastingServer } from "./lasting_server.ts";
import { LargeAnswers, SMALL_ANSWER_BYTES } from "./large_answer.ts";
import type { RestEndpoint } from "./rest_endpoint.ts";
import { type RestRoute, restRoute } from "./rest_route.ts";
import { announcedLength, BodyReader, bodyText, MAX_BODY_BYTES } from "./request_body.ts";
import { guardRequest, isMediaType, type IsOwnHost, ownHost, pageHeaders, preflightHeaders } from "./request_guard.ts";
import { DoorLoad, TOO_MANY_ANSWERS, TOO_MANY_REQUESTS } from "./request_place.ts";
import { planeOf, refusePlane, undeclaredRecord } from "./undeclared_planes.ts";

const CARD_PATH = "/.well-known/agent-card.json";

/** Where to listen, and for what. */
export interface ListenerOptions {
  /** Address to bind, without brackets. */
  readonly hostname: string;
  /** `network.internal_port`, or `null` for one the system chooses. */
  readonly port: number | null;
  readonly hosts: readonly string[];
  readonly origins: readonly string[];
  readonly session: DoorSession;
  /** `null`: the door is public. */
  readonly tokens: DoorTokens | null;
  readonly bounds: Pick<TimeBounds, "doorBody" | "doorHeartbeat">;
  /** Takes what the operator should know. */
  readonly report: (text: string) => void;
}

/** A bound listener. */
export interface Listener {
  readonly port: number;
  /** The session is ready: tasks are taken. Until then requests wait; the card is answered from the start. */
  serve(): void;
  /** A request is on its way: what answers it is loaded ahead. */
  expectRequest(): void;
  /** Stops accepting, answers what is held, lets open answers finish for `drainMs`, then cuts them. */
  close(drainMs: number): Promise<void>;
}

type HeaderList = [string, string][];

/** Who a request is from. */
type Sender = Pick<RpcCall, "origin" | "caller">;

const JSON_HEADERS: HeaderList = [["content-type", "application/json"], ["connection", "close"]];
const NOT_FOUND: ResponseInit = { status: 404, headers: [["content-length", "0"], ["connection", "close"]] };
const STREAM: ResponseInit = {
  headers: [["content-type", "text/event-stream"], ["cache-control", "no-cache"], ["connection", "keep-alive"]],
};

const BODY_TOO_LARGE: HttpRefusal = {
  status: 413,
  error: "body_too_large",
  message: `a request's body may hold ${MAX_BODY_BYTES} bytes`,
};

const BODY_TOO_SLOW: HttpRefusal = {
  status: 408,
  error: "body_too_slow",
  message: "the body of the request did not arrive in time",
};

function refused({ status, error, message, headers = [] }: HttpRefusal): Response {
  return new Response(JSON.stringify({ error, message }), {
    status,
    headers: [...JSON_HEADERS, ...headers.map(([name, value]): [string, string] => [name, value])],
  });
}

/**
 * An answer with a JSON text. A response made with the media type alone and given its other header afterwards costs Deno half
 * of what one made with both does.
 */
function jsonResponse(body: BodyInit, status = 200, contentType = "application/json"): Response {
  const response = new Response(body, { status, headers: { "content-type": contentType } });
  response.headers.set("connection", "close");
  return response;
}

/** A request's URL as it was sent; `new URL` would normalise it. */
interface SentUrl {
  /** Whom the request says it is for: the `Host` header again, unless its target came in absolute form. */
  readonly authority: string;
  /** Path and query. A target in absolute form may do without a path, and what its query says is none. */
  readonly target: string;
}

function sentUrl(url: string): SentUrl {
  const start = url.indexOf("://") + 3;
  const length = url.slice(start).search(/[/?#]/);
  const end = length < 0 ? url.length : start + length;
  return {
    authority: url.slice(start, end),
    target: url[end] === "/" ? url.slice(end) : `/${url.slice(end)}`,
  };
}

/** Path of a request as it was sent. */
function rawPath(target: string): string {
  const end = target.indexOf("?");
  return end < 0 ? target : target.slice(0, end);
}

/**
 * Binds the listener.
 *
 * @throws {MurError} `E-RUN-010` when the pinned port is taken, `E-IO-003` when the address cannot be bound.
 */
export function openListener(options: ListenerOptions): Listener {
  const { hostname, port } = options;
  const door = new Door(options);
  let server: LastingServer;
  try {
    server = new LastingServer({
      hostname,
      port: port ?? 0,
      answer: (request) => door.answer(request),
      lost: (reason) => options.report(`the door takes no more connections for now: ${reason}`),
    });
  } catch (cause) {
    if (cause instanceof Deno.errors.AddrInUse && port !== null) {
      throw new MurError("E-RUN-010", `port ${port} is already in use (network.internal_port)`, {
        hint: "choose another network.internal_port, or leave it out to take a free one",
        cause,
      });
    }
    throw new MurError("E-IO-003", `cannot listen on ${hostname}: ${reasonOf(cause)}`, {
      hint: "choose another address with --bind",
      cause,
    });
  }
  return {
    port: server.port,
    serve: () => door.serve(),
    expectRequest: () => door.expectRequest(),
    async close(drainMs) {
      door.shut();
      const drained = server.shutdown();
      let timer: ReturnType<typeof setTimeout> | undefined;
      const late = new Promise<void>((resolve) => timer = setTimeout(resolve, drainMs));
      await Promise.race([drained, late]);
      clearTimeout(timer);
      door.cut();
    },
  };
}

/** Takes requests through the checks (spec door 2). */
class Door {
  readonly #options: ListenerOptions;
  readonly #isOwnHost: IsOwnHost;
  readonly #bodies: BodyReader;
  readonly #largeAnswers: LargeAnswers;
  readonly #shutting = new AbortController();
  readonly #ready = Promise.withResolvers<void>();
  /** Loaded for the first call, so that a capsule nobody calls does without the library's memory. */
  #endpoints: Promise<Endpoints> | null = null;
  /** What they are once they are loaded and tasks are taken. */
  #loaded: Endpoints | null = null;
  readonly #load = new DoorLoad();

  constructor(options: ListenerOptions) {
    this.#options = options;
    this.#isOwnHost = ownHost({ boundAddress: options.hostname, hosts: options.hosts });
    this.#bodies = new BodyReader(options.bounds.doorBody);
    this.#largeAnswers = new LargeAnswers(options.bounds.doorBody);
  }

  serve(): void {
    this.#ready.resolve();
  }

  #loadEndpoints(): Promise<Endpoints> {
    return this.#endpoints ??= loadEndpoints(this.#options.session, this.#shutting.signal);
  }

  async #whenReady(): Promise<Endpoints> {
    await this.#ready.promise;
    return this.#loaded = await this.#loadEndpoints();
  }

  expectRequest(): void {
    // What keeps it from being loaded is told by the request itself.
    this.#loadEndpoints().catch(() => {});
  }

  /** Answers what is held, with the states reached. */
  shut(): void {
    this.#shutting.abort();
  }

  /** Breaks off streams and answers whose readers do not take their ends. */
  cut(): void {
    this.#largeAnswers.cut();
    this.#options.session.planes?.cut();
    for (const stream of [...this.#load.streams]) stream.cut();
  }

  answer(request: Request): Response | Promise<Response> {
    const { authority, target } = sentUrl(request.url);
    const verdict = guardRequest(request.headers, authority, this.#isOwnHost, this.#options.origins);
    if (verdict.refusal !== null) return refused({ status: 403, ...verdict.refusal });
    if (verdict.origin === null) return this.#admit(request, target);
    return this.#answerPage(request, target, verdict.origin);
  }

  /** The same for a page of a listed origin, which needs leave to read the answer. The planes give none. */
  async #answerPage(request: Request, target: string, origin: string): Promise<Response> {
    const methods = request.method === "OPTIONS" ? this.#methodsOf(target) : [];
    if (methods.length > 0) {
      return new Response(null, {
        status: 204,
        headers: preflightHeaders(origin, methods.join(", ")).map(([name, value]): [string, string] => [name, value]),
      });
    }
    const response = await this.#admit(request, target);
    const plane = planeOf(rawPath(target));
    if (plane !== "peer_plane" && plane !== "operator_plane") {
      for (const [name, value] of pageHeaders(origin)) response.headers.set(name, value);
    }
    return response;
  }

  /** Methods of a target that a page may call. */
  #methodsOf(target: string): readonly string[] {
    if (target === "/") return ["POST"];
    return ["GET", "POST"].filter((method) => this.#restRoute(method, rawPath(target)) !== null);
  }

  #admit(request: Request, target: string): Response | Promise<Response> {
    const { headers, method } = request;
    const { session, tokens } = this.#options;
    const isRpc = method === "POST" && target === "/";
    if (isRpc && !isMediaType(headers.get("content-type"), "application/json")) return new Response(null, NOT_FOUND);
    const path = rawPath(target);
    const plane = isRpc ? null : planeOf(path);
    if (plane === "peer_plane") return this.#plane(plane, request, path);
    if (plane === "control") return new Response(null, NOT_FOUND);
    if (method === "GET" && path === CARD_PATH) {
      return jsonResponse(JSON.stringify(session.publicCard()));
    }
    let caller = PUBLIC_CALLER;
    if (tokens !== null) {
      const access = authenticate(headers.get("authorization"), session.capsule, (token) => tokens.holderOf(token));
      if ("refusal" in access) return refused(access.refusal);
      caller = access.caller;
    }
    const origin = headers.get("x-murmur-task-origin");
    if (!session.acceptsPeers && requestClass(origin) === "peer") {
      return refused(PEER_NOT_ACCEPTED);
    }
    if (plane === "operator_plane") {
      const refusal = refuseScope(caller, "resources/files", session.capsule);
      return refusal === null ? this.#plane(plane, request, path) : refused(refusal);
    }
    if (isRpc) return this.#work(request, { origin, caller }, true, ({ rpc }, call) => rpc.answer(call));
    const route = this.#restRoute(method, path);
    if (route === null) return new Response(null, NOT_FOUND);
    return this.#rest(request, { origin, caller }, route, target.slice(path.length + 1));
  }

  /** A request to one of the planes, declared or not. Each leaves its line in the trace, which is open once tasks are taken. */
  async #plane(
    plane: "peer_plane" | "operator_plane",
    { method, headers }: Request,
    rawPath: string,
  ): Promise<Response> {
    await this.#ready.promise;
    const { session } = this.#options;
    const { planes } = session;
    const audience = headers.get("x-murmur-audience");
    const request: PlaneRequest = { method, rawPath, audience };
    if (plane === "peer_plane" && planes?.peer) return planes.answerPeer(request);
    if (plane === "operator_plane" && planes?.operator) return planes.answerOperator(request);
    const refusal = refusePlane(plane, method);
    const { tasks: { generation }, containment } = session;
    session.recordPlane(undeclaredRecord(plane, request, { generation, containment }, refusal));
    return refused(refusal);
  }

  #restRoute(method: string, path: string): RestRoute | null {
    const { a2aCompat } = this.#options.session;
    return a2aCompat.includes("rest") ? restRoute(method, path, a2aCompat.includes("v0.3")) : null;
  }

  #rest(request: Request, sender: Sender, route: RestRoute, query: string): Response | Promise<Response> {
    const type = request.headers.get("content-type");
    // What a page may send without asking first is no call: only these two media types make a browser ask.
    if (
      request.method === "POST" && (route.hasBody || type !== null) && !REST_TYPES.some((own) => isMediaType(type, own))
    ) {
      return new Response(null, NOT_FOUND);
    }
    return this.#work(request, sender, route.hasBody, ({ rest }, call) => rest!.answer({ ...call, route, query }));
  }

  /** Reads a request's body within the door's limits and has it answered. */
  async #work(
    request: Request,
    sender: Sender,
    needsBody: boolean,
    answer: (endpoints: Endpoints, call: RpcCall) => DoorAnswer | Promise<DoorAnswer>,
  ): Promise<Response> {
    const { headers } = request;
    const length = announcedLength(headers);
    const isEmpty = length === 0 || (length === null && !headers.has("transfer-encoding"));
    if (needsBody && isEmpty) return new Response(null, NOT_FOUND);
    if (length !== null && length > MAX_BODY_BYTES) return refused(BODY_TOO_LARGE);
    const place = this.#load.take();
    if (place === null) return refused(TOO_MANY_REQUESTS);
    try {
      // Nothing is read before it can be answered: bodies that were read and wait would add up.
      const endpoints = this.#loaded ?? await this.#whenReady();
      const body = isEmpty ? NO_BODY : await this.#bodies.read(request, length);
      switch (body) {
        case "too_large":
          return refused(BODY_TOO_LARGE);
        case "too_slow":
          return refused(BODY_TOO_SLOW);
        case "no_room":
          return refused(TOO_MANY_REQUESTS);
        case "gone":
          return new Response(null, { status: 400 });
      }
      if (needsBody && body.length === 0) return new Response(null, NOT_FOUND);
      const answered = answer(endpoints, { text: bodyText(body), headers, ...sender, place });
      return this.#respond("kind" in answered ? answered : await answered);
    } finally {
      place.leave();
    }
  }

  #respond(answer: DoorAnswer): Response {
    switch (answer.kind) {
      case "json": {
        const { body, status, contentType } = answer;
        return body.length <= SMALL_ANSWER_BYTES
          ? jsonResponse(body, status, contentType)
          : this.#large(body, status, contentType);
      }
      case "refused":
        return refused(answer.refusal);
      case "stream":
        return this.#stream(answer.source);
    }
  }

  #large(body: string, status: number | undefined, contentType: string | undefined): Response {
    const bytes = new TextEncoder().encode(body);
    const stream = this.#largeAnswers.open(bytes);
    if (stream === null) return refused(TOO_MANY_ANSWERS);
    const response = jsonResponse(stream, status, contentType);
    response.headers.set("content-length", String(bytes.length));
    return response;
  }

  #stream(source: EventSource): Response {
    const stream = openEventStream(source, this.#options.bounds.doorHeartbeat, () => this.#load.streams.delete(stream));
    this.#load.streams.add(stream);
    return new Response(stream.body, STREAM);
  }
}

/** What answers requests that were read. */
interface Endpoints {
  readonly rpc: JsonRpcEndpoint;
  /** `null` without `network.a2a_compat: [rest]`. */
  readonly rest: RestEndpoint | null;
}

async function loadEndpoints(session: DoorSession, shutting: AbortSignal): Promise<Endpoints> {
  const [{ DoorRequestHandler }, { JsonRpcEndpoint }, older, rest] = await Promise.all([
    import("./a2a_request_handler.ts"),
    import("./json_rpc_endpoint.ts"),
    session.a2aCompat.includes("v0.3") ? import("./older_json_rpc.ts") : null,
    session.a2aCompat.includes("rest") ? import("./rest_endpoint.ts") : null,
  ]);
  const handler = new DoorRequestHandler(session, shutting);
  return {
    rpc: new JsonRpcEndpoint(session, handler, older === null ? null : new older.OlderJsonRpc(handler)),
    rest: rest === null ? null : new rest.RestEndpoint(session, handler),
  };
}

const NO_BODY = new Uint8Array();

/** Media types of a body over HTTP+JSON. */
const REST_TYPES = ["application/json", "application/a2a+json"] as const;
