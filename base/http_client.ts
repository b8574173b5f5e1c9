/**
 * The runtime's one HTTP client (spec components 3.6): it resolves a name itself, judges the addresses, and connects to a
 * judged address and no other, with TLS still verifying the name. It follows no redirect, obeys no proxy variable of the
 * environment, and passes bodies on as they come, both ways, with backpressure.
 *
 * `fetch` can do none of this, so it is built on `node:http`, which is loaded at the first request (45 ms), never before.
 *
 * @module
 */
import type { ClientRequest, IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import { addressAdmitted, addressRuleFor } from "./address_rule.ts";
import { abortError, codeOf, HttpError, httpError, httpErrorKindOf } from "./http_error.ts";
import { type NameResolver, systemNameResolver } from "./name_resolver.ts";
import { createConnector, type NodeModules, nodeModules, portOf, type Route } from "./pinned_connection.ts";
import { DEFAULT_TIME_BOUNDS, type TimeBounds } from "./time_bounds.ts";

/** Header fields in order, duplicates kept. */
export type HttpHeaders = readonly (readonly [string, string])[];

export interface HttpRequest {
  readonly method: string;
  /** `http` or `https`. User information and fragment are not sent. */
  readonly url: URL;
  /**
   * Fields of the message. Those that frame it or concern the connection (`host`, `connection`, `transfer-encoding`, …)
   * are the client's own and dropped; a `content-length` is kept and must be the body's.
   */
  readonly headers?: HttpHeaders;
  readonly body?: ReadableStream<Uint8Array> | Uint8Array | null;
  /** Ends the request at any stage, also while the response body is read. */
  readonly signal?: AbortSignal;
  /** Called once the whole request is handed to the system; not when it failed before. */
  readonly sent?: () => void;
}

export interface HttpResponse {
  readonly status: number;
  /** Lower-cased names, without the fields of the connection. */
  readonly headers: HttpHeaders;
  /** Bytes as they came: `content-encoding` is not undone. Read it to its end or cancel it. */
  readonly body: ReadableStream<Uint8Array>;
}

/** Sends one request. @throws {HttpError} */
export type HttpSend = (request: HttpRequest) => Promise<HttpResponse>;

export interface HttpClientOptions {
  /** `http.proxy` of the global configuration, `http(s)://host[:port]`; loopback targets never use it. */
  readonly proxy?: URL | null;
  readonly resolver?: NameResolver;
  readonly bounds?: Pick<TimeBounds, "httpConnect" | "httpIdleConnection">;
  /** PEM certificates trusted instead of the built-in roots. */
  readonly caCertificates?: readonly string[];
}

/** A client with its own pool of idle connections. */
export interface HttpClient {
  readonly send: HttpSend;
  /** Closes idle connections and ends those in use. */
  close(): void;
}

/** Loads what the first request of a client needs, ahead of it. */
export async function loadHttpModules(): Promise<void> {
  await nodeModules();
}

/** Largest response header section in bytes. */
const MAX_RESPONSE_HEADERS = 65_536;
/** Response bytes read ahead of the reader. */
const RESPONSE_WINDOW = 65_536;

/** Fields about the connection or the framing of the message; only the client that holds the connection sets them. */
const CONNECTION_FIELDS: ReadonlySet<string> = new Set([
  "connection",
  "expect",
  "host",
  "http2-settings",
  "keep-alive",
  "proxy-authenticate",
  "proxy-authorization",
  "proxy-connection",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
]);

const TOKEN = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;
const FIELD_VALUE = /^[\t\u0020-\u007e\u0080-\u00ff]*$/;
/** Methods that may be sent again when an idle connection turned out to be closed. */
const REPEATABLE: ReadonlySet<string> = new Set(["GET", "HEAD", "OPTIONS", "PUT", "DELETE"]);

interface PreparedRequest {
  readonly method: string;
  readonly url: URL;
  /** Name, value, name, value, …: the form that keeps order and duplicates. */
  readonly headers: string[];
  readonly body: ReadableStream<Uint8Array> | Uint8Array | null;
  /** Exact size of the body, `null` when it is sent in chunks. */
  readonly length: number | null;
  readonly sent: (() => void) | null;
}

/** Judges a request and settles its framing, so that no body can be read as a second request. */
function prepare(request: HttpRequest): PreparedRequest {
  const { url } = request;
  const invalid = (reason: string) => new HttpError("invalid-request", `the request to ${url.host} ${reason}`);
  if (url.protocol !== "http:" && url.protocol !== "https:") throw invalid("is neither http nor https");
  if (url.hostname === "") throw invalid("names no host");
  const method = request.method;
  if (!TOKEN.test(method) || method.toUpperCase() === "CONNECT") throw invalid("has no usable method");
  const body = request.body ?? null;
  const headers: string[] = ["Host", url.host];
  let declared: string | null = null;
  for (const [name, value] of request.headers ?? []) {
    if (!TOKEN.test(name)) throw invalid("has an invalid header name");
    if (!FIELD_VALUE.test(value)) throw invalid(`has an invalid value in its header '${name.toLowerCase()}'`);
    const lower = name.toLowerCase();
    if (CONNECTION_FIELDS.has(lower)) continue;
    if (lower === "content-length") {
      if (!/^[0-9]{1,15}$/.test(value.trim()) || (declared !== null && declared !== value.trim())) {
        throw invalid("has an invalid content-length");
      }
      declared = value.trim();
      continue;
    }
    headers.push(name, value);
  }
  const known = body === null ? 0 : body instanceof Uint8Array ? body.length : null;
  // A HEAD or GET may tell the length of what it does not send; only a body can break that promise.
  if (declared !== null && known !== null && Number(declared) !== known) {
    throw new HttpError("body-size", `the request to ${url.host} declares ${declared} body bytes and has ${known}`);
  }
  const length = known ?? (declared === null ? null : Number(declared));
  if (length === null) headers.push("Transfer-Encoding", "chunked");
  else if (length > 0 || declared !== null || /^(POST|PUT|PATCH)$/.test(method)) {
    headers.push("Content-Length", String(length));
  }
  return { method, url, headers, body, length, sent: request.sent ?? null };
}

/** Streams the body into the request, counting what was declared. Returns when all of it was handed over. */
async function upload(
  request: ClientRequest,
  body: ReadableStream<Uint8Array>,
  length: number | null,
  host: string,
): Promise<void> {
  const reader = body.getReader();
  // Without this the head would wait for the first bytes of the body.
  request.flushHeaders();
  let closed = false;
  let wake = () => {};
  request.on("drain", () => wake());
  request.on("close", () => {
    closed = true;
    // A pending read would wait for a guest that has nobody to send to any more.
    reader.cancel().catch(() => {});
    wake();
  });
  let sent = 0;
  while (!closed) {
    const { done, value } = await reader.read();
    if (closed) return;
    if (done) break;
    sent += value.length;
    if (length !== null && sent > length) break;
    if (value.length > 0 && !request.write(value) && !closed) {
      await new Promise<void>((resolve) => wake = resolve);
    }
  }
  if (closed) return;
  if (length !== null && sent !== length) {
    reader.cancel().catch(() => {});
    throw new HttpError("body-size", `the request to ${host} declares ${length} body bytes and has another number`);
  }
  request.end();
}

/** The response body as a web stream: the socket is paused while nobody reads. */
function download(message: IncomingMessage, host: string, aborted: () => HttpError | null) {
  let settled = false;
  return new ReadableStream<Uint8Array>({
    start(controller) {
      const fail = (error: HttpError) => {
        if (settled) return;
        settled = true;
        controller.error(error);
      };
      message.on("data", (chunk: Uint8Array) => {
        if (settled) return;
        controller.enqueue(new Uint8Array(chunk.buffer, chunk.byteOffset, chunk.byteLength));
        if ((controller.desiredSize ?? 0) <= 0) message.pause();
      });
      message.on("end", () => {
        if (settled) return;
        settled = true;
        controller.close();
      });
      message.on("error", (error) => {
        const kind = httpErrorKindOf(codeOf(error));
        fail(
          aborted() ?? new HttpError(
            kind === "protocol" ? kind : "response-incomplete",
            `${host}: the response broke off: ${error.message}`,
            error,
          ),
        );
      });
      message.on("close", () => {
        fail(aborted() ?? new HttpError("response-incomplete", `${host}: the response broke off`));
      });
      message.pause();
    },
    pull() {
      message.resume();
    },
    cancel() {
      settled = true;
      message.destroy();
    },
  }, new ByteLengthQueuingStrategy({ highWaterMark: RESPONSE_WINDOW }));
}

/** A client that keeps its connections to itself: what one caller sends can't disturb the framing of another's. */
export function createHttpClient(options: HttpClientOptions = {}): HttpClient {
  const bounds = options.bounds ?? DEFAULT_TIME_BOUNDS;
  const proxy = options.proxy ?? null;
  const connect = createConnector({
    resolver: options.resolver ?? systemNameResolver(),
    bounds,
    ...(options.caCertificates === undefined ? {} : { caCertificates: options.caCertificates }),
  });
  let pool: Promise<{ node: NodeModules; plain: Agent; secure: Agent }> | undefined;
  type Agent = import("node:http").Agent;
  /** What our `createConnection` finds in the options of a request. */
  interface Pending {
    readonly murmurRoute: Route;
    readonly murmurSignal: AbortSignal;
  }

  function agents() {
    return pool ??= nodeModules().then((node) => {
      const own = <T extends Agent>(agent: T): T => {
        const members = agent as unknown as {
          getName(options: unknown): string;
          createConnection(options: unknown, done: (error: unknown, socket?: Socket) => void): undefined;
        };
        members.getName = (options) => {
          const { murmurRoute: route } = options as Pending;
          return `${route.secure} ${route.host} ${route.port} ${route.proxy?.href ?? ""}`;
        };
        members.createConnection = (options, done) => {
          const { murmurRoute, murmurSignal } = options as Pending;
          connect(node, murmurRoute, murmurSignal).then((socket) => done(null, socket), (error) => done(error));
          return undefined;
        };
        return agent;
      };
      const settings = { keepAlive: true, timeout: bounds.httpIdleConnection, scheduling: "lifo" } as const;
      return { node, plain: own(new node.http.Agent(settings)), secure: own(new node.https.Agent(settings)) };
    });
  }

  async function exchange(prepared: PreparedRequest, signal: AbortSignal, retry: boolean): Promise<HttpResponse> {
    const { url, method, headers, body, length, sent } = prepared;
    const { node, plain, secure } = await agents();
    if (signal.aborted) throw abortError(signal, url.host);
    const isSecure = url.protocol === "https:";
    const viaProxy = addressRuleFor(url.hostname).kind !== "loopback" && !isLoopbackLiteral(url.hostname)
      ? proxy
      : null;
    const route: Route = { secure: isSecure, host: url.hostname, port: portOf(url), proxy: viaProxy };
    const path = viaProxy !== null && !isSecure
      ? `http://${url.host}${url.pathname}${url.search}`
      : `${url.pathname}${url.search}`;
    return await new Promise<HttpResponse>((resolve, reject) => {
      let responded = false;
      let failure: HttpError | null = null;
      const requestOptions = {
        method,
        path,
        host: url.hostname,
        port: route.port,
        headers,
        setHost: false,
        agent: isSecure ? secure : plain,
        maxHeaderSize: MAX_RESPONSE_HEADERS,
        murmurRoute: route,
        murmurSignal: signal,
      };
      const request = isSecure ? node.https.request(requestOptions) : node.http.request(requestOptions);
      // The size is bounded above; a count on top would drop fields silently.
      request.maxHeadersCount = 0;
      const fail = (error: HttpError) => {
        failure ??= error;
        request.destroy();
        if (!responded) reject(failure);
      };
      const onAbort = () => fail(abortError(signal, url.host));
      signal.addEventListener("abort", onAbort);
      request.on("close", () => {
        signal.removeEventListener("abort", onAbort);
        if (!responded) reject(failure ?? new HttpError("connection-terminated", `${url.host} closed the connection`));
      });
      if (sent !== null) request.once("finish", sent);
      let reused = false;
      request.on("socket", (socket: Socket) => {
        // The agent's time-out is for idle connections; one in use waits as long as its caller does.
        socket.setTimeout(0);
        // The platform would send any request again, a POST among them, which the service may have done already.
        reused = request.reusedSocket;
        request.reusedSocket = false;
      });
      request.on("error", (error) => {
        if (responded) {
          // The parser speaks here and the broken body follows; a refused upload is no concern of the response.
          const late = httpError(error, url.host);
          if (late.kind === "protocol") failure ??= late;
          return;
        }
        const repeatable = retry && reused &&
          httpErrorKindOf(codeOf(error)) === "connection-terminated" &&
          REPEATABLE.has(method) && !(body instanceof ReadableStream);
        if (repeatable && failure === null) {
          responded = true;
          signal.removeEventListener("abort", onAbort);
          exchange(prepared, signal, false).then(resolve, reject);
        } else {
          fail(httpError(error, url.host));
        }
      });
      request.on("upgrade", (_response, socket: Socket) => {
        socket.destroy();
        fail(new HttpError("protocol", `${url.host} switched to a protocol nobody asked for`));
      });
      request.on("response", (message: IncomingMessage) => {
        responded = true;
        const fields: [string, string][] = [];
        for (let at = 0; at + 1 < message.rawHeaders.length; at += 2) {
          const name = message.rawHeaders[at]!.toLowerCase();
          if (!CONNECTION_FIELDS.has(name)) fields.push([name, message.rawHeaders[at + 1]!]);
        }
        resolve({
          status: message.statusCode ?? 0,
          headers: fields,
          body: download(message, url.host, () => failure),
        });
      });
      if (body instanceof ReadableStream) {
        upload(request, body, length, url.host).catch((error) =>
          fail(
            error instanceof HttpError
              ? error
              : new HttpError("aborted", `the body of the request to ${url.host} was ended`, error),
          )
        );
      } else {
        request.end(body ?? undefined);
      }
    });
  }

  return {
    async send(request) {
      const prepared = prepare(request);
      return await exchange(prepared, request.signal ?? NEVER, true);
    },
    close() {
      pool?.then(({ plain, secure }) => {
        plain.destroy();
        secure.destroy();
      });
      pool = undefined;
    },
  };
}

const NEVER = new AbortController().signal;

function isLoopbackLiteral(host: string): boolean {
  const rule = addressRuleFor(host);
  return rule.kind === "literal" && addressAdmitted({ kind: "loopback" }, rule.address);
}
