/**
 * The HTTP requests of one component call, on the runtime's side: frames in, a call of the artifact's `OutgoingHttp`,
 * frames out. Bodies flow under credit both ways (spec components 3.6, 3.9).
 *
 * @module
 */
import { RESERVED_HEADERS } from "../../base/reserved_headers.ts";
import { type GuestRequest, type GuestResponse, type OutgoingHttp, OutgoingHttpError } from "./component_runtime.ts";
import { type Header, type Message, MessageType } from "./frames.ts";
import {
  countField,
  flagField,
  optionalCountField,
  optionalTextField,
  pairsField,
  ProtocolViolation,
  textField,
} from "./host_messages.ts";

/** Most requests of one instance that are not over (spec components 15). */
export const MAX_REQUESTS_IN_FLIGHT = 64;

/** Bytes of a response sent ahead of the guest. */
const RESPONSE_WINDOW_BYTES = 512 << 10;

/** Bytes of a request body the guest may send ahead of the upstream. */
const REQUEST_WINDOW_BYTES = 256 << 10;

/** Most body bytes in one frame. */
const DATA_BYTES = 64 << 10;

const MAX_FIELDS = 1_024;
const MAX_FIELD_LENGTH = 256 << 10;
const MAX_TIMER_MS = 2 ** 31 - 1;

/** Sends a frame to the host. */
export type FrameSender = (type: number, id: number, header?: Header, body?: Uint8Array) => void;

/** The target of a request, `null` when none can be built: then it is denied. */
export function requestUrl(scheme: string | null, authority: string | null, path: string | null): URL | null {
  // Without a scheme the interface means TLS.
  const protocol = scheme ?? "https";
  if (protocol !== "http" && protocol !== "https") return null;
  // What would move the border between authority and path, or carry credentials.
  // deno-lint-ignore no-control-regex -- control characters are what is refused here
  if (authority === null || authority === "" || /[\x00-\x20\x7f/?#@\\]/.test(authority)) return null;
  // deno-lint-ignore no-control-regex -- control characters are what is refused here
  if (path !== null && /[\x00-\x20\x7f#]/.test(path)) return null;
  const rest = path === null || path === ""
    ? "/"
    : path.startsWith("/")
    ? path
    : path.startsWith("?")
    ? `/${path}`
    : null;
  if (rest === null) return null;
  try {
    return new URL(`${protocol}://${authority}${rest}`);
  } catch {
    return null;
  }
}

interface Exchange {
  /** Adds bytes of the request body; `null` when there is no body that may come. */
  readonly body: RequestBody | null;
  readonly abort: AbortController;
  /** Bytes of the response that may still be sent. */
  window: number;
  /** Wakes the response when the window opens. */
  opened: (() => void) | null;
}

/** The requests of one call. */
export class ComponentHttp implements Disposable {
  readonly #send: FrameSender;
  readonly #http: OutgoingHttp;
  readonly #exchanges = new Map<number, Exchange>();

  constructor(send: FrameSender, http: OutgoingHttp) {
    this.#send = send;
    this.#http = http;
  }

  /** @throws {ProtocolViolation} when no honest host would send it. */
  take(message: Message): void {
    const { id, header } = message;
    if (message.type === MessageType.httpStart) return this.#start(id, header);
    const exchange = this.#exchanges.get(id);
    if (exchange === undefined) throw new ProtocolViolation("a frame of a request that is not open");
    switch (message.type) {
      case MessageType.httpBody:
        if (exchange.body === null) throw new ProtocolViolation("body bytes of a request without a body");
        exchange.body.push(message.body);
        break;
      case MessageType.httpBodyEnd: {
        if (exchange.body === null) throw new ProtocolViolation("the end of a body of a request without one");
        const abort = flagField(header, "abort");
        const trailers = header.trailers === null ? null : pairsField(header, "trailers", MAX_FIELDS, MAX_FIELD_LENGTH);
        exchange.body.end(abort, trailers);
        break;
      }
      case MessageType.httpCredit:
        exchange.window += countField(header, "bytes", RESPONSE_WINDOW_BYTES);
        if (exchange.window > RESPONSE_WINDOW_BYTES) throw new ProtocolViolation("more credit than the window holds");
        exchange.opened?.();
        break;
      case MessageType.httpClose:
        this.#end(id, exchange);
        break;
    }
  }

  /** Ends every request, e.g. when the host's process ended. */
  [Symbol.dispose](): void {
    for (const [id, exchange] of this.#exchanges) this.#end(id, exchange);
  }

  #end(id: number, exchange: Exchange): void {
    this.#exchanges.delete(id);
    exchange.abort.abort(new DOMException("The component ended the request", "AbortError"));
    exchange.body?.abandon();
    exchange.opened?.();
  }

  #start(id: number, header: Header): void {
    if (this.#exchanges.size >= MAX_REQUESTS_IN_FLIGHT) throw new ProtocolViolation("too many requests in flight");
    const abort = new AbortController();
    const hasBody = flagField(header, "hasBody");
    const body = hasBody
      ? new RequestBody((bytes) => {
        if (this.#exchanges.has(id)) this.#send(MessageType.httpBodyCredit, id, { bytes });
      })
      : null;
    const method = textField(header, "method", 64);
    if (!/^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/.test(method)) throw new ProtocolViolation("a method that is no token");
    const scheme = optionalTextField(header, "scheme", 64);
    const authority = optionalTextField(header, "authority", 4_096);
    const path = optionalTextField(header, "path");
    const headers = pairsField(header, "headers", MAX_FIELDS, MAX_FIELD_LENGTH)
      .map(([name, value]) => [name.toLowerCase(), value] as const)
      .filter(([name]) => !RESERVED_HEADERS.has(name));
    const connectTimeoutMs = optionalCountField(header, "connectTimeoutMs", MAX_TIMER_MS);
    const firstByteTimeoutMs = optionalCountField(header, "firstByteTimeoutMs", MAX_TIMER_MS);
    const betweenBytesTimeoutMs = optionalCountField(header, "betweenBytesTimeoutMs", MAX_TIMER_MS);
    const exchange: Exchange = { body, abort, window: RESPONSE_WINDOW_BYTES, opened: null };
    this.#exchanges.set(id, exchange);
    const url = requestUrl(scheme, authority, path);
    const request: GuestRequest | null = url === null ? null : {
      method,
      url,
      headers,
      body: body?.stream ?? null,
      signal: abort.signal,
      ...(body === null ? {} : { trailers: body.trailers }),
      ...(connectTimeoutMs === null ? {} : { connectTimeoutMs }),
    };
    this.#run(id, exchange, request, firstByteTimeoutMs, betweenBytesTimeoutMs).catch((error: unknown) => {
      if (!this.#exchanges.has(id)) return;
      abort.abort(error);
      body?.abandon();
      const known = error instanceof OutgoingHttpError
        ? error
        : new OutgoingHttpError("internal-error", "request failed");
      this.#send(MessageType.httpError, id, { code: known.wasiCode, message: known.message.slice(0, 1_000) });
    });
  }

  async #run(
    id: number,
    exchange: Exchange,
    request: GuestRequest | null,
    firstByteTimeoutMs: number | null,
    betweenBytesTimeoutMs: number | null,
  ): Promise<void> {
    if (request === null) throw new OutgoingHttpError("HTTP-request-denied", "the request names no host");
    const timer = new StepLimit(exchange.abort);
    let response: GuestResponse;
    let reader: ReadableStreamDefaultReader<Uint8Array>;
    try {
      response = await timer.guard(firstByteTimeoutMs, "HTTP-response-timeout", this.#http(request));
      reader = response.body.getReader();
    } finally {
      timer.clear();
    }
    const cancel = () => {
      reader.cancel(exchange.abort.signal.reason).catch(() => {});
    };
    if (exchange.abort.signal.aborted) return cancel();
    exchange.abort.signal.addEventListener("abort", cancel, { once: true });
    this.#send(MessageType.httpHead, id, { status: response.status, headers: response.headers });
    for (;;) {
      while (exchange.window <= 0) {
        await new Promise<void>((resolve) => exchange.opened = resolve);
        exchange.opened = null;
        if (!this.#exchanges.has(id)) return;
      }
      let part: ReadableStreamReadResult<Uint8Array>;
      try {
        part = await timer.guard(betweenBytesTimeoutMs, "connection-read-timeout", reader.read());
      } finally {
        timer.clear();
      }
      if (!this.#exchanges.has(id)) return;
      if (part.done) break;
      // A chunk may be larger than the window; what is sent of it then waits for credit.
      for (let at = 0; at < part.value.length;) {
        while (exchange.window <= 0) {
          await new Promise<void>((resolve) => exchange.opened = resolve);
          exchange.opened = null;
          if (!this.#exchanges.has(id)) return;
        }
        const bytes = part.value.subarray(at, at + Math.min(DATA_BYTES, exchange.window));
        exchange.window -= bytes.length;
        at += bytes.length;
        this.#send(MessageType.httpData, id, undefined, bytes);
      }
    }
    const trailers = response.trailers === undefined ? null : await response.trailers;
    if (!this.#exchanges.has(id)) return;
    this.#send(MessageType.httpEnd, id, { trailers });
  }
}

/** A time limit for one step after the other; its end also ends the request. */
class StepLimit {
  readonly #abort: AbortController;
  #id: ReturnType<typeof setTimeout> | undefined;

  constructor(abort: AbortController) {
    this.#abort = abort;
  }

  guard<T>(ms: number | null, wasiCode: string, step: Promise<T>): Promise<T> {
    if (ms === null) return step;
    // The step goes on until the abort reaches it; nobody listens to how it ends.
    step.catch(() => {});
    return new Promise<T>((resolve, reject) => {
      this.#id = setTimeout(() => {
        const error = new OutgoingHttpError(wasiCode, `nothing came for ${ms} ms`);
        reject(error);
        this.#abort.abort(error);
      }, ms);
      step.then(resolve, reject);
    });
  }

  clear(): void {
    clearTimeout(this.#id);
  }
}

/** A request body: frames in, a stream out; the host gets credit for what the stream's reader took. */
class RequestBody {
  readonly stream: ReadableStream<Uint8Array>;
  readonly trailers: Promise<readonly (readonly [string, string])[] | null>;
  readonly #credit: (bytes: number) => void;
  #queue: Uint8Array[] = [];
  #held = 0;
  #ended = false;
  #abandoned = false;
  #pull: (() => void) | null = null;
  #controller!: ReadableStreamDefaultController<Uint8Array>;
  #resolveTrailers!: (trailers: readonly (readonly [string, string])[] | null) => void;

  constructor(credit: (bytes: number) => void) {
    this.#credit = credit;
    this.trailers = new Promise((resolve) => this.#resolveTrailers = resolve);
    this.stream = new ReadableStream<Uint8Array>({
      start: (controller) => {
        this.#controller = controller;
      },
      pull: () => this.#onPull(),
      cancel: () => this.abandon(),
    }, { highWaterMark: 0 });
  }

  push(bytes: Uint8Array): void {
    if (this.#ended) throw new ProtocolViolation("body bytes after the end of the body");
    this.#held += bytes.length;
    if (this.#held > REQUEST_WINDOW_BYTES) throw new ProtocolViolation("more body bytes than the window holds");
    if (this.#abandoned) {
      // Nobody reads on. The guest may write to its end: an upstream is free to answer without reading all.
      this.#give(bytes.length);
      return;
    }
    if (bytes.length === 0) return;
    this.#queue.push(bytes);
    this.#wake();
  }

  end(abort: boolean, trailers: readonly (readonly [string, string])[] | null): void {
    if (this.#ended) throw new ProtocolViolation("a second end of a body");
    this.#ended = true;
    this.#resolveTrailers(trailers);
    if (this.#abandoned) return;
    if (abort) this.#fail("the component dropped the request body before its end");
    else this.#wake();
  }

  /** Nothing more is read from the stream or comes from the guest. */
  abandon(): void {
    if (this.#abandoned) return;
    this.#abandoned = true;
    this.#queue = [];
    try {
      this.#controller.error(new DOMException("The request was ended", "AbortError"));
    } catch {
      // It was read to its end, or its reader canceled it.
    }
    this.#pull?.();
    this.#resolveTrailers(null);
    this.#give(this.#held);
  }

  #fail(message: string): void {
    this.#abandoned = true;
    this.#queue = [];
    this.#controller.error(new OutgoingHttpError("connection-terminated", message));
    this.#pull?.();
  }

  #give(bytes: number): void {
    this.#held -= bytes;
    if (bytes > 0) this.#credit(bytes);
  }

  #wake(): void {
    const pull = this.#pull;
    this.#pull = null;
    pull?.();
  }

  async #onPull(): Promise<void> {
    while (this.#queue.length === 0) {
      if (this.#abandoned) return;
      if (this.#ended) {
        this.#controller.close();
        return;
      }
      await new Promise<void>((resolve) => this.#pull = resolve);
    }
    const bytes = this.#queue.shift()!;
    this.#controller.enqueue(bytes);
    this.#give(bytes.length);
  }
}
