/**
 * `wasi:http` 0.2 (types and outgoing handler) on the host's side: requests and bodies are frames; the runtime decides
 * whether a request goes out and sends it (spec components 3.6). Bodies flow both ways under credit.
 *
 * @module
 */
import { type Message, MessageType } from "../frames.ts";
import type { Pipe } from "./pipe.ts";
import { Refusal } from "./refusal.ts";
import { closed, failed, InputStream, type IoError, OutputStream, Pollable, type Readiness } from "./streams.ts";

/** Most requests of one instance that are not over yet (spec components 15). */
export const MAX_REQUESTS_IN_FLIGHT = 64;

/** Bytes of a response body the runtime may send ahead of the guest. */
export const RESPONSE_WINDOW_BYTES = 512 << 10;

/** Bytes of a request body the guest may write ahead of the runtime. */
export const REQUEST_WINDOW_BYTES = 256 << 10;

/** Most body bytes in one frame, so that streams of several requests take turns. */
const DATA_BYTES = 64 << 10;

type Method = { readonly tag: string; readonly val?: string };
type Scheme = { readonly tag: "HTTP" | "HTTPS" | "other"; readonly val?: string };
type Header = readonly [string, Uint8Array];
type Result<T> = { readonly tag: "ok"; readonly val: T } | { readonly tag: "err"; readonly val?: unknown };

/** `wasi:http/types.error-code`. */
export interface HttpErrorCode {
  readonly tag: string;
  readonly val?: unknown;
}

const NO_PAYLOAD_CODES = new Set([
  "DNS-timeout",
  "destination-not-found",
  "destination-unavailable",
  "destination-IP-prohibited",
  "destination-IP-unroutable",
  "connection-refused",
  "connection-terminated",
  "connection-timeout",
  "connection-read-timeout",
  "connection-write-timeout",
  "connection-limit-reached",
  "TLS-protocol-error",
  "TLS-certificate-error",
  "HTTP-request-denied",
  "HTTP-request-length-required",
  "HTTP-request-method-invalid",
  "HTTP-request-URI-invalid",
  "HTTP-request-URI-too-long",
  "HTTP-response-incomplete",
  "HTTP-response-timeout",
  "HTTP-upgrade-failed",
  "HTTP-protocol-error",
  "loop-detected",
  "configuration-error",
]);
const OPTIONAL_PAYLOAD_CODES = new Set([
  "HTTP-request-body-size",
  "HTTP-request-header-section-size",
  "HTTP-request-header-size",
  "HTTP-request-trailer-section-size",
  "HTTP-response-header-section-size",
  "HTTP-response-body-size",
  "HTTP-response-trailer-section-size",
  "HTTP-response-transfer-coding",
  "HTTP-response-content-coding",
]);

/** An error code from the case name and message the runtime sent. Unknown names become `internal-error`. */
export function httpErrorCodeOf(tag: string, message: string): HttpErrorCode {
  if (NO_PAYLOAD_CODES.has(tag)) return { tag };
  if (OPTIONAL_PAYLOAD_CODES.has(tag)) return { tag, val: undefined };
  if (FIELD_PAYLOAD_CODES.has(tag)) return { tag, val: { fieldName: undefined, fieldSize: undefined } };
  if (tag === "DNS-error") return { tag, val: { rcode: message, infoCode: undefined } };
  if (tag === "TLS-alert-received") return { tag, val: { alertId: undefined, alertMessage: message } };
  return { tag: "internal-error", val: message };
}

const FIELD_PAYLOAD_CODES = new Set([
  "HTTP-request-trailer-size",
  "HTTP-response-header-size",
  "HTTP-response-trailer-size",
]);

const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
const NAME_SYNTAX = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;
const HOP_HEADERS = new Set([
  "connection",
  "host",
  "http2-settings",
  "keep-alive",
  "proxy-authenticate",
  "proxy-authorization",
  "proxy-connection",
  "te",
  "transfer-encoding",
  "upgrade",
]);

/** Field values are bytes; on the wire to the runtime each byte is one character. */
function latin1(bytes: Uint8Array): string {
  let text = "";
  for (const byte of bytes) text += String.fromCharCode(byte);
  return text;
}

function bytesOf(text: string): Uint8Array {
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  return bytes;
}

let pipe: Pipe;
let inFlight = 0;

/** Binds the interface to the process's pipe. Called once, before any guest. */
export function bindHttp(to: Pipe): void {
  pipe = to;
}

/** Forgets the requests of the instance that ended; the runtime has ended them too. */
export function resetHttp(): void {
  inFlight = 0;
}

/** `wasi:http/types.fields`. */
export class Fields {
  #entries: [string, Uint8Array][] = [];
  #immutable = false;

  static fromList(entries: readonly Header[]): Fields {
    const fields = new Fields();
    for (const [name, value] of entries) fields.append(name, value);
    return fields;
  }

  /** What the other side sent: not checked again, not to be changed. */
  static received(entries: readonly (readonly [string, string])[]): Fields {
    const fields = new Fields();
    fields.#entries = entries.map(([name, value]) => [name, bytesOf(value)]);
    fields.#immutable = true;
    return fields;
  }

  /** The same fields, which the owner of a request may no longer change. */
  frozen(): Fields {
    const copy = this.clone();
    copy.#immutable = true;
    return copy;
  }

  get(name: string): Uint8Array[] {
    const key = name.toLowerCase();
    return this.#entries.filter(([other]) => other === key).map(([, value]) => value);
  }

  has(name: string): boolean {
    const key = name.toLowerCase();
    return this.#entries.some(([other]) => other === key);
  }

  set(name: string, values: readonly Uint8Array[]): void {
    const key = this.#writable(name);
    values.forEach(checkValue);
    this.#entries = this.#entries.filter(([other]) => other !== key);
    for (const value of values) this.#entries.push([key, value.slice()]);
  }

  delete(name: string): void {
    const key = this.#writable(name);
    this.#entries = this.#entries.filter(([other]) => other !== key);
  }

  append(name: string, value: Uint8Array): void {
    const key = this.#writable(name);
    checkValue(value);
    this.#entries.push([key, value.slice()]);
  }

  entries(): [string, Uint8Array][] {
    return this.#entries.map(([name, value]) => [name, value]);
  }

  clone(): Fields {
    const copy = new Fields();
    copy.#entries = this.entries();
    return copy;
  }

  /** For a frame. */
  toJson(): [string, string][] {
    return this.#entries.map(([name, value]) => [name, latin1(value)]);
  }

  #writable(name: string): string {
    if (this.#immutable) throw new Refusal({ tag: "immutable" });
    if (!NAME_SYNTAX.test(name)) throw new Refusal({ tag: "invalid-syntax" });
    const key = name.toLowerCase();
    if (HOP_HEADERS.has(key)) throw new Refusal({ tag: "forbidden" });
    return key;
  }

  [Symbol.dispose](): void {}
}

function checkValue(value: Uint8Array): void {
  for (const byte of value) {
    if (byte === 0 || byte === 10 || byte === 13) throw new Refusal({ tag: "invalid-syntax" });
  }
}

/** The body a guest writes: buffered until the request starts, then sent as the runtime allows. */
class RequestBody implements Readiness {
  readonly until = Infinity;
  readonly contentLength: number | null;
  #id: number | null = null;
  #held: Uint8Array[] = [];
  #heldBytes = 0;
  #written = 0;
  #window = REQUEST_WINDOW_BYTES;
  #end: { abort: boolean; trailers: [string, string][] | null } | null = null;
  #broken: HttpErrorCode | null = null;
  /** Starts the request as soon as it is known whether there is a body at all. */
  onKnown: (() => void) | null = null;

  constructor(contentLength: number | null) {
    this.contentLength = contentLength;
  }

  get started(): boolean {
    return this.#id !== null;
  }

  /** Whether nothing was written and nothing will be. */
  get empty(): boolean {
    return this.#written === 0 && this.#end !== null && !this.#end.abort;
  }

  start(id: number): void {
    this.#id = id;
    for (const bytes of this.#held) this.#send(bytes);
    this.#held = [];
    this.#heldBytes = 0;
    if (this.#end !== null) this.#sendEnd();
  }

  room(): number {
    if (this.#broken !== null) throw failed("the request failed", { http: this.#broken });
    if (this.#end !== null) throw closed();
    return this.#id === null ? Math.max(0, DATA_BYTES - this.#heldBytes) : this.#window;
  }

  ready(): boolean {
    if (this.#broken !== null || this.#end !== null) return true;
    if (this.#id === null) {
      if (this.#heldBytes < DATA_BYTES) return true;
      // The guest waits for room before it handed the request over: it would wait for ever.
      return this.onKnown === null;
    }
    return this.#window > 0;
  }

  write(bytes: Uint8Array): void {
    if (bytes.length === 0) return;
    this.#written += bytes.length;
    if (this.contentLength !== null && this.#written > this.contentLength) {
      this.finish(true, null);
      throw failed("more body than content-length says", {
        http: { tag: "HTTP-request-body-size", val: BigInt(this.#written) },
      });
    }
    if (this.#id === null) {
      this.#held.push(bytes.slice());
      this.#heldBytes += bytes.length;
      this.onKnown?.();
    } else this.#send(bytes);
  }

  finish(abort: boolean, trailers: [string, string][] | null): void {
    if (this.#end !== null) return;
    this.#end = { abort, trailers };
    if (this.#id === null) this.onKnown?.();
    else this.#sendEnd();
  }

  /** Written bytes fall short of `content-length`. */
  get short(): boolean {
    return this.contentLength !== null && this.#written < this.contentLength;
  }

  get written(): number {
    return this.#written;
  }

  credit(bytes: number): void {
    this.#window += bytes;
  }

  break(code: HttpErrorCode): void {
    this.#broken ??= code;
    this.#held = [];
  }

  #send(bytes: Uint8Array): void {
    this.#window -= bytes.length;
    if (this.#broken !== null) return;
    for (let at = 0; at < bytes.length; at += DATA_BYTES) {
      pipe.send(MessageType.httpBody, this.#id!, undefined, bytes.subarray(at, at + DATA_BYTES));
    }
  }

  #sendEnd(): void {
    if (this.#broken !== null) return;
    pipe.send(MessageType.httpBodyEnd, this.#id!, { ...this.#end });
  }
}

/** One request and its response as the resources of the guest share it. */
class Exchange {
  readonly #start: () => void;
  #id: number | null = null;
  #users = 1;
  #closed = false;
  head: { status: number; headers: Fields } | null = null;
  error: HttpErrorCode | null = null;
  ended = false;
  trailers: [string, string][] | null = null;
  #chunks: Uint8Array[] = [];
  #at = 0;
  #discard = false;

  constructor(start: (exchange: Exchange) => void) {
    this.#start = () => start(this);
  }

  begin(id: number): void {
    this.#id = id;
  }

  /** The guest looks for the response: a request still held back for its body goes out now. */
  need(): void {
    if (this.#id === null && this.error === null) this.#start();
  }

  take(message: Message, body: RequestBody | null): void {
    switch (message.type) {
      case MessageType.httpHead:
        this.head = {
          status: message.header.status as number,
          headers: Fields.received(message.header.headers as [string, string][]),
        };
        break;
      case MessageType.httpData:
        if (this.#discard) this.#credit(message.body.length);
        else this.#chunks.push(message.body);
        break;
      case MessageType.httpEnd:
        this.ended = true;
        this.trailers = message.header.trailers as [string, string][] | null;
        break;
      case MessageType.httpError: {
        const code = httpErrorCodeOf(message.header.code as string, message.header.message as string);
        this.error = code;
        body?.break(code);
        break;
      }
      case MessageType.httpBodyCredit:
        body?.credit(message.header.bytes as number);
        break;
    }
  }

  share(): this {
    this.#users++;
    return this;
  }

  release(): void {
    if (--this.#users > 0 || this.#closed) return;
    this.#closed = true;
    this.#chunks = [];
    inFlight--;
    if (this.#id !== null) {
      pipe.handle(this.#id, undefined);
      pipe.send(MessageType.httpClose, this.#id);
    }
  }

  get bodyReady(): boolean {
    return this.#chunks.length > 0 || this.ended || this.error !== null;
  }

  /** @throws {Refusal} with a stream error */
  readBody(max: number): Uint8Array {
    const chunk = this.#chunks[0];
    if (chunk === undefined) {
      if (this.error !== null) throw failed("the response body failed", { http: this.error });
      if (this.ended) throw closed();
      return new Uint8Array(0);
    }
    const bytes = chunk.subarray(this.#at, this.#at + max);
    this.#at += bytes.length;
    if (this.#at === chunk.length) {
      this.#chunks.shift();
      this.#at = 0;
    }
    this.#credit(bytes.length);
    return bytes;
  }

  /** The rest of the body is of no interest; only its end is. */
  discardBody(): void {
    if (this.#discard) return;
    this.#discard = true;
    const left = this.#chunks.reduce((sum, chunk) => sum + chunk.length, 0) - this.#at;
    this.#chunks = [];
    this.#at = 0;
    this.#credit(left);
  }

  #credit(bytes: number): void {
    if (bytes > 0 && !this.ended && this.error === null && this.#id !== null) {
      pipe.send(MessageType.httpCredit, this.#id, { bytes });
    }
  }
}

/** `wasi:http/types.outgoing-body`. */
export class OutgoingBody {
  readonly #body: RequestBody;
  #streamTaken = false;
  #finished = false;

  constructor(body: RequestBody) {
    this.#body = body;
  }

  write(): OutputStream {
    if (this.#streamTaken) throw new Refusal();
    this.#streamTaken = true;
    const body = this.#body;
    return new OutputStream({
      until: Infinity,
      ready: () => body.ready(),
      room: () => body.room(),
      write: (bytes) => body.write(bytes),
    });
  }

  static finish(body: OutgoingBody, trailers: Fields | undefined): void {
    body.#finished = true;
    if (body.#body.short) {
      body.#body.finish(true, null);
      throw new Refusal({ tag: "HTTP-request-body-size", val: BigInt(body.#body.written) });
    }
    body.#body.finish(false, trailers === undefined ? null : trailers.toJson());
  }

  [Symbol.dispose](): void {
    if (!this.#finished) this.#body.finish(true, null);
  }
}

/** `wasi:http/types.request-options`. Times in nanoseconds. */
export class RequestOptions {
  #connect: bigint | undefined;
  #firstByte: bigint | undefined;
  #betweenBytes: bigint | undefined;

  connectTimeout(): bigint | undefined {
    return this.#connect;
  }
  setConnectTimeout(duration: bigint | undefined): void {
    this.#connect = duration;
  }
  firstByteTimeout(): bigint | undefined {
    return this.#firstByte;
  }
  setFirstByteTimeout(duration: bigint | undefined): void {
    this.#firstByte = duration;
  }
  betweenBytesTimeout(): bigint | undefined {
    return this.#betweenBytes;
  }
  setBetweenBytesTimeout(duration: bigint | undefined): void {
    this.#betweenBytes = duration;
  }
  [Symbol.dispose](): void {}
}

function milliseconds(duration: bigint | undefined): number | null {
  // A timer longer than 24 days fires at once; such a limit means none.
  if (duration === undefined || duration >= 2n ** 31n * 1_000_000n) return null;
  return Number((duration + 999_999n) / 1_000_000n);
}

/** `wasi:http/types.outgoing-request`. */
export class OutgoingRequest {
  readonly #headers: Fields;
  #method: Method = { tag: "get" };
  #path: string | undefined;
  #scheme: Scheme | undefined;
  #authority: string | undefined;
  #body: RequestBody | null = null;
  #bodyTaken = false;

  constructor(headers: Fields) {
    this.#headers = headers.frozen();
  }

  body(): OutgoingBody {
    if (this.#bodyTaken) throw new Refusal();
    this.#bodyTaken = true;
    const [declared] = this.#headers.get("content-length");
    const length = declared === undefined ? Number.NaN : Number(decoder.decode(declared));
    this.#body = new RequestBody(Number.isSafeInteger(length) && length >= 0 ? length : null);
    return new OutgoingBody(this.#body);
  }

  method(): Method {
    return this.#method;
  }
  setMethod(method: Method): void {
    if (method.tag === "other" && !NAME_SYNTAX.test(method.val ?? "")) throw new Refusal();
    this.#method = method;
  }
  pathWithQuery(): string | undefined {
    return this.#path;
  }
  setPathWithQuery(path: string | undefined): void {
    // deno-lint-ignore no-control-regex -- control characters are what is refused here
    if (path !== undefined && /[\x00-\x20\x7f#]/.test(path)) throw new Refusal();
    this.#path = path;
  }
  scheme(): Scheme | undefined {
    return this.#scheme;
  }
  setScheme(scheme: Scheme | undefined): void {
    this.#scheme = scheme;
  }
  authority(): string | undefined {
    return this.#authority;
  }
  setAuthority(authority: string | undefined): void {
    // deno-lint-ignore no-control-regex -- control characters are what is refused here
    if (authority !== undefined && /[\x00-\x20\x7f/?#@\\]/.test(authority)) throw new Refusal();
    this.#authority = authority;
  }
  headers(): Fields {
    return this.#headers.frozen();
  }

  /** Hands the request to the runtime, as soon as it is known whether it has a body. */
  handle(options: RequestOptions | undefined): FutureIncomingResponse {
    if (inFlight >= MAX_REQUESTS_IN_FLIGHT) throw new Refusal({ tag: "connection-limit-reached" });
    inFlight++;
    const body = this.#body;
    const header = {
      method: this.#method.tag === "other" ? this.#method.val! : this.#method.tag.toUpperCase(),
      scheme: this.#scheme === undefined
        ? null
        : this.#scheme.tag === "other"
        ? this.#scheme.val!
        : this.#scheme.tag.toLowerCase(),
      authority: this.#authority ?? null,
      path: this.#path ?? null,
      headers: this.#headers.toJson(),
      connectTimeoutMs: milliseconds(options?.connectTimeout()),
      firstByteTimeoutMs: milliseconds(options?.firstByteTimeout()),
      betweenBytesTimeoutMs: milliseconds(options?.betweenBytesTimeout()),
    };
    const exchange = new Exchange((exchange) => {
      const id = pipe.takeId();
      if (body !== null) body.onKnown = null;
      exchange.begin(id);
      pipe.handle(id, (message) => exchange.take(message, body));
      const hasBody = body !== null && !body.empty;
      pipe.send(MessageType.httpStart, id, { ...header, hasBody });
      if (hasBody) body.start(id);
    });
    if (body === null || body.empty) exchange.need();
    else {
      body.onKnown = () => exchange.need();
      // Bytes written before the request was handed over.
      if (body.written > 0) exchange.need();
    }
    return new FutureIncomingResponse(exchange);
  }

  [Symbol.dispose](): void {}
}

/** `wasi:http/types.future-incoming-response`. */
export class FutureIncomingResponse {
  readonly #exchange: Exchange;
  #taken = false;

  constructor(exchange: Exchange) {
    this.#exchange = exchange;
  }

  subscribe(): Pollable {
    const exchange = this.#exchange;
    exchange.need();
    return new Pollable({ until: Infinity, ready: () => exchange.head !== null || exchange.error !== null });
  }

  get(): Result<Result<IncomingResponse>> | undefined {
    if (this.#taken) return { tag: "err" };
    this.#exchange.need();
    if (this.#exchange.head !== null) {
      this.#taken = true;
      return { tag: "ok", val: { tag: "ok", val: new IncomingResponse(this.#exchange.share()) } };
    }
    if (this.#exchange.error === null) return undefined;
    this.#taken = true;
    return { tag: "ok", val: { tag: "err", val: this.#exchange.error } };
  }

  [Symbol.dispose](): void {
    this.#exchange.release();
  }
}

/** `wasi:http/types.incoming-response`. */
export class IncomingResponse {
  readonly #exchange: Exchange;
  #consumed = false;

  constructor(exchange: Exchange) {
    this.#exchange = exchange;
  }

  status(): number {
    return this.#exchange.head!.status;
  }

  headers(): Fields {
    return this.#exchange.head!.headers.frozen();
  }

  consume(): IncomingBody {
    if (this.#consumed) throw new Refusal();
    this.#consumed = true;
    return new IncomingBody(this.#exchange.share());
  }

  [Symbol.dispose](): void {
    this.#exchange.release();
  }
}

/** `wasi:http/types.incoming-body`. */
export class IncomingBody {
  readonly #exchange: Exchange;
  #streamTaken = false;

  constructor(exchange: Exchange) {
    this.#exchange = exchange;
  }

  stream(): InputStream {
    if (this.#streamTaken) throw new Refusal();
    this.#streamTaken = true;
    const exchange = this.#exchange;
    return new InputStream({
      until: Infinity,
      ready: () => exchange.bodyReady,
      read: (max) => exchange.readBody(max),
    });
  }

  static finish(body: IncomingBody): FutureTrailers {
    return new FutureTrailers(body.#exchange.share());
  }

  [Symbol.dispose](): void {
    this.#exchange.release();
  }
}

/** `wasi:http/types.future-trailers`. */
export class FutureTrailers {
  readonly #exchange: Exchange;
  #taken = false;

  constructor(exchange: Exchange) {
    this.#exchange = exchange;
  }

  subscribe(): Pollable {
    const exchange = this.#exchange;
    exchange.discardBody();
    return new Pollable({ until: Infinity, ready: () => exchange.ended || exchange.error !== null });
  }

  get(): Result<Result<Fields | undefined>> | undefined {
    if (this.#taken) return { tag: "err" };
    const exchange = this.#exchange;
    exchange.discardBody();
    if (exchange.error !== null) {
      this.#taken = true;
      return { tag: "ok", val: { tag: "err", val: exchange.error } };
    }
    if (!exchange.ended) return undefined;
    this.#taken = true;
    const trailers = exchange.trailers === null ? undefined : Fields.received(exchange.trailers);
    return { tag: "ok", val: { tag: "ok", val: trailers } };
  }

  [Symbol.dispose](): void {
    this.#exchange.release();
  }
}

/** Resources of incoming requests: part of the interface's types, never made here. */
export class IncomingRequest {
  [Symbol.dispose](): void {}
}

/** See {@linkcode IncomingRequest}. */
export class OutgoingResponse {
  constructor() {
    throw new TypeError("incoming HTTP requests are not served");
  }
  [Symbol.dispose](): void {}
}

/** See {@linkcode IncomingRequest}. */
export class ResponseOutparam {
  static set(): void {
    throw new TypeError("incoming HTTP requests are not served");
  }
  [Symbol.dispose](): void {}
}

/** `wasi:http/types.http-error-code`. */
export function httpErrorCode(error: IoError): HttpErrorCode | undefined {
  return error.payload.http;
}

/** `wasi:http/outgoing-handler.handle`. */
export function handle(request: OutgoingRequest, options: RequestOptions | undefined): FutureIncomingResponse {
  return request.handle(options);
}
