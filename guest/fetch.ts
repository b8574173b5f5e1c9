/**
 * `fetch` over `wasi:http/outgoing-handler` (WHATWG Fetch 5.3, 5.4, 5.6). The runtime judges every request by the capsule's
 * `network.allow`; redirects are followed here, so that each hop is judged like the first (spec components 3.6).
 *
 * @module
 */
import { AbortSignal } from "./abort.ts";
import { Body, type BodyInit, prepareBody, type PreparedBody } from "./body.ts";
import { onReady } from "./event_loop.ts";
import { Headers, type HeadersInit } from "./headers.ts";
import {
  dispose,
  type Fields,
  host,
  type IncomingBody,
  type IncomingResponse,
  type InputStream,
  type OutgoingBody,
  type OutputStream,
  payloadOf,
  type Pollable,
  type Variant,
} from "./host.ts";
import { ReadableStream } from "./readable_stream.ts";

const READ_BYTES = 65_536;
const MAX_REDIRECTS = 20;
const PLAIN_METHODS: ReadonlySet<string> = new Set([
  "get",
  "head",
  "post",
  "put",
  "delete",
  "connect",
  "options",
  "trace",
  "patch",
]);

/** Options of a request. */
export interface RequestInit {
  readonly method?: string;
  readonly headers?: HeadersInit;
  readonly body?: BodyInit | null;
  readonly redirect?: "follow" | "manual" | "error";
  readonly signal?: AbortSignal | null;
}

/** Options of a response made by hand. */
export interface ResponseInit {
  readonly status?: number;
  readonly statusText?: string;
  readonly headers?: HeadersInit;
}

/** The global `Request`. */
export class Request extends Body {
  readonly url: string;
  readonly method: string;
  readonly headers: Headers;
  readonly redirect: "follow" | "manual" | "error";
  readonly signal: AbortSignal | null;

  constructor(input: string | URL | Request, init: RequestInit = {}) {
    const base = input instanceof Request ? input : null;
    const url = new URL(base === null ? String(input) : base.url);
    if (url.protocol !== "http:" && url.protocol !== "https:") {
      throw new TypeError(`fetch speaks http and https, not ${url.protocol}`);
    }
    if (url.username !== "" || url.password !== "") {
      throw new TypeError("a request URL must not carry a user name or password; use a header");
    }
    const method = normalMethod(init.method ?? base?.method ?? "GET");
    const body = init.body === undefined || init.body === null ? base?.takeBody() ?? null : prepareBody(init.body);
    if (body !== null && (method === "GET" || method === "HEAD")) {
      throw new TypeError(`a ${method} request has no body`);
    }
    super(body);
    this.url = url.href;
    this.method = method;
    this.headers = new Headers(init.headers ?? base?.headers);
    setDefaultType(this.headers, body);
    this.redirect = init.redirect ?? base?.redirect ?? "follow";
    this.signal = init.signal === undefined ? base?.signal ?? null : init.signal;
  }
}

/** The global `Response`. */
export class Response extends Body {
  readonly status: number;
  readonly statusText: string;
  readonly headers: Headers;
  #url = "";
  #redirected = false;

  constructor(body?: BodyInit | null, init: ResponseInit = {}) {
    const prepared = body === undefined || body === null ? null : prepareBody(body);
    super(prepared);
    this.status = init.status ?? 200;
    if (!Number.isInteger(this.status) || this.status < 200 || this.status > 599) {
      throw new RangeError(`not a response status: ${this.status}`);
    }
    this.statusText = init.statusText ?? "";
    this.headers = new Headers(init.headers);
    setDefaultType(this.headers, prepared);
  }

  static json(value: unknown, init: ResponseInit = {}): Response {
    const response = new Response(JSON.stringify(value), init);
    response.headers.set("content-type", "application/json");
    return response;
  }

  get ok(): boolean {
    return this.status >= 200 && this.status <= 299;
  }

  get url(): string {
    return this.#url;
  }

  get redirected(): boolean {
    return this.#redirected;
  }

  /** @internal */
  static received(
    url: string,
    redirected: boolean,
    status: number,
    headers: Headers,
    body: ReadableStream<Uint8Array>,
  ): Response {
    const response = new Response(body, { status, headers });
    response.#url = url;
    response.#redirected = redirected;
    return response;
  }
}

/** Why a request got no response; the `code` is the `wasi:http` error code, e.g. `connection-refused`. */
export class FetchError extends TypeError {
  override readonly name = "FetchError";
  readonly code: string;
  constructor(code: string, message: string) {
    super(message);
    this.code = code;
  }
}

function setDefaultType(headers: Headers, body: PreparedBody | null): void {
  const type = body?.contentType ?? null;
  if (type !== null && !headers.has("content-type")) headers.set("content-type", type);
}

function normalMethod(method: string): string {
  const upper = method.toUpperCase();
  if (!/^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/.test(method)) throw new TypeError(`not a request method: ${method}`);
  return PLAIN_METHODS.has(upper.toLowerCase()) ? upper : method;
}

function fetchError(url: string, code: Variant | undefined, fallback: string): FetchError {
  const where = new URL(url).origin;
  const tag = code?.tag ?? "internal-error";
  if (tag === "HTTP-request-denied") {
    return new FetchError(tag, `the request to ${where} was refused: no network.allow covers it`);
  }
  const detail = typeof code?.val === "string" && code.val !== "" ? `: ${code.val}` : "";
  return new FetchError(tag, `the request to ${where} failed: ${code === undefined ? fallback : tag}${detail}`);
}

function variantOf(error: unknown): Variant | undefined {
  const payload = payloadOf(error);
  return typeof payload === "object" && payload !== null && "tag" in payload ? payload as Variant : undefined;
}

/** Waits for the pollable, or fails with the signal's reason; the pollable is given back either way. */
function ready(pollable: Pollable, signal: AbortSignal | null): Promise<void> {
  return new Promise<void>((resolve, reject) => {
    const onAbort = () => {
      stop();
      dispose(pollable);
      reject(signal?.reason);
    };
    const stop = onReady(pollable, () => {
      signal?.removeEventListener("abort", onAbort);
      dispose(pollable);
      resolve();
    });
    signal?.addEventListener("abort", onAbort);
  });
}

function latin1(text: string): Uint8Array {
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  return bytes;
}

function headersFrom(fields: Fields): Headers {
  const headers = new Headers();
  for (const [name, value] of fields.entries()) headers.append(name, String.fromCharCode(...value));
  return headers;
}

function outgoingFields(request: Request, body: PreparedBody | null): Fields {
  const fields = new (host().httpTypes.Fields)();
  try {
    for (const [name, value] of request.headers.rawEntries()) fields.append(name, latin1(value));
    // A body comes as the server wrote it and nothing here unpacks it, so no packing is asked for.
    if (!request.headers.has("accept-encoding")) fields.append("accept-encoding", latin1("identity"));
    if (!request.headers.has("content-length")) {
      const length = body?.bytes?.length ?? (body === null && /^(POST|PUT|PATCH)$/.test(request.method) ? 0 : null);
      if (length !== null) fields.append("content-length", latin1(String(length)));
    }
  } catch (error) {
    dispose(fields);
    const tag = variantOf(error)?.tag;
    throw tag === undefined ? error : new TypeError(`a request header was refused: ${tag}`);
  }
  return fields;
}

async function writeAll(stream: OutputStream, bytes: Uint8Array, signal: AbortSignal | null): Promise<void> {
  let offset = 0;
  while (offset < bytes.length) {
    const allowed = stream.checkWrite();
    if (allowed === 0) {
      await ready(stream.subscribe(), signal);
      continue;
    }
    const end = Math.min(bytes.length, offset + allowed);
    stream.write(bytes.subarray(offset, end));
    offset = end;
  }
}

async function sendBody(outgoing: OutgoingBody, body: PreparedBody | null, signal: AbortSignal | null) {
  const stream = outgoing.write();
  let complete = false;
  try {
    const bytes = body?.bytes ?? null;
    const source = body?.stream ?? null;
    if (bytes !== null) await writeAll(stream, bytes, signal);
    else if (source !== null) { for await (const chunk of source) await writeAll(stream, chunk, signal); }
    stream.flush();
    complete = true;
  } finally {
    dispose(stream);
    // An outgoing body that is dropped unfinished tells the other side that it was cut off.
    if (!complete) dispose(outgoing);
  }
  host().httpTypes.OutgoingBody.finish(outgoing, null);
}

function bodyStream(
  url: string,
  response: IncomingResponse,
  signal: AbortSignal | null,
): ReadableStream<Uint8Array> {
  const body: IncomingBody = response.consume();
  const stream: InputStream = body.stream();
  let open = true;
  const close = () => {
    if (!open) return;
    open = false;
    dispose(stream);
    dispose(body);
    dispose(response);
  };
  return new ReadableStream<Uint8Array>({
    async pull(controller) {
      try {
        for (;;) {
          signal?.throwIfAborted();
          let chunk: Uint8Array;
          try {
            chunk = stream.read(READ_BYTES);
          } catch (error) {
            const failure = variantOf(error);
            if (failure?.tag !== "closed") {
              throw failure === undefined
                ? error
                : new FetchError("connection-terminated", `the response from ${new URL(url).origin} broke off`);
            }
            close();
            controller.close();
            return;
          }
          if (chunk.length > 0) {
            controller.enqueue(chunk);
            return;
          }
          await ready(stream.subscribe(), signal);
        }
      } catch (error) {
        close();
        throw error;
      }
    },
    cancel: close,
  });
}

async function sendOnce(
  request: Request,
  url: URL,
  body: PreparedBody | null,
  redirected: boolean,
): Promise<Response> {
  const { httpTypes, outgoingHandler } = host();
  const { signal } = request;
  const streamed = (body?.stream ?? null) !== null;
  signal?.throwIfAborted();
  const outgoing = new httpTypes.OutgoingRequest(outgoingFields(request, body));
  const lower = request.method.toLowerCase();
  outgoing.setMethod(PLAIN_METHODS.has(lower) ? { tag: lower } : { tag: "other", val: request.method });
  outgoing.setScheme({ tag: url.protocol === "https:" ? "HTTPS" : "HTTP" });
  outgoing.setAuthority(url.host);
  outgoing.setPathWithQuery(url.pathname + url.search);
  const outgoingBody = outgoing.body();
  let future;
  try {
    future = outgoingHandler.handle(outgoing, null);
  } catch (error) {
    dispose(outgoingBody);
    const code = variantOf(error);
    if (code === undefined) throw error;
    throw fetchError(url.href, code, "not sent");
  }
  // A server may answer before it has read the body; then the rest of the body is no one's loss.
  const sending = sendBody(outgoingBody, body, signal).then(() => null, (error: unknown) => ({ error }));
  try {
    for (;;) {
      const answer = future.get();
      if (answer === null) {
        await ready(future.subscribe(), signal);
        continue;
      }
      const result = answer.val;
      if (answer.tag === "err" || result === undefined) throw fetchError(url.href, undefined, "no response");
      if (result.tag === "err") {
        // The reason a body could not be made outranks the broken request it caused.
        const failed = streamed ? await sending : null;
        if (failed !== null && variantOf(failed.error) === undefined) throw failed.error;
        throw fetchError(url.href, result.val, "no response");
      }
      const incoming = result.val;
      const fields = incoming.headers();
      const headers = headersFrom(fields);
      dispose(fields);
      return Response.received(
        url.href,
        redirected,
        incoming.status(),
        headers,
        bodyStream(url.href, incoming, signal),
      );
    }
  } finally {
    dispose(future);
  }
}

/** What the next request of a redirect looks like, or `null` when the status is none (WHATWG Fetch 4.4). */
export function redirectTarget(status: number, method: string): "same" | "get" | null {
  if (status === 303) return method === "GET" || method === "HEAD" ? "same" : "get";
  if (status === 301 || status === 302) return method === "POST" ? "get" : "same";
  return status === 307 || status === 308 ? "same" : null;
}

/** The global `fetch`. */
export async function fetch(input: string | URL | Request, init?: RequestInit): Promise<Response> {
  let request = new Request(input, init);
  let body = request.takeBody();
  let url = new URL(request.url);
  for (let hops = 0;; hops++) {
    const response = await sendOnce(request, url, body, hops > 0);
    const kind = redirectTarget(response.status, request.method);
    const location = response.headers.get("location");
    if (kind === null || location === null || request.redirect === "manual") return response;
    await response.body?.cancel();
    if (request.redirect === "error") throw new TypeError(`${url.origin} answered with a redirect`);
    if (hops === MAX_REDIRECTS) throw new TypeError(`more than ${MAX_REDIRECTS} redirects`);
    if (kind === "same" && (body?.stream ?? null) !== null) {
      throw new TypeError("a streamed body cannot follow a redirect");
    }
    const next = new URL(location, url);
    const headers = new Headers(request.headers);
    if (kind === "get") {
      for (const name of ["content-type", "content-length", "content-encoding"]) headers.delete(name);
    }
    // Credentials meant for one origin are not shown to another.
    if (next.origin !== url.origin) { for (const name of ["authorization", "cookie"]) headers.delete(name); }
    if (kind === "get") body = null;
    request = new Request(next.href, {
      method: kind === "get" ? "GET" : request.method,
      headers,
      redirect: request.redirect,
      signal: request.signal,
    });
    url = next;
  }
}
