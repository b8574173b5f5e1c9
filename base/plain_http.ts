/**
 * HTTP/1.1 over plain TCP, for the doors of running capsules (spec door 17): one connection a request, no redirect, no
 * proxy, no name but the one given.
 *
 * {@linkcode createHttpClient} of `http_client.ts` is for everything else. It costs 45 ms at its first request, more than
 * all of `mur ps` may take; this one costs nothing.
 *
 * @module
 */
import { HttpError } from "./http_error.ts";

/** A request to a door. */
export interface PlainRequest {
  readonly method: "GET" | "POST";
  /** Name or address, without brackets. `localhost` is 127.0.0.1, then ::1. */
  readonly host: string;
  readonly port: number;
  /** Sent as it is. */
  readonly path: string;
  readonly headers?: readonly (readonly [name: string, value: string])[];
  readonly body?: string;
  /** Longest time to connect, in milliseconds. */
  readonly connectMs: number;
  /** Longest silence of the other side, in milliseconds: until its answer begins, and between any two pieces of it. */
  readonly silenceMs: number;
  /** Ends the request at any stage, also while the body is read. */
  readonly signal?: AbortSignal;
}

/** An answer, its head read. */
export interface PlainResponse {
  readonly status: number;
  /** Lower-cased names; of a repeated field the values joined by `, `. */
  readonly headers: ReadonlyMap<string, string>;
  /** Pieces of the body as they come. Leaving the loop closes the connection. */
  readonly body: AsyncGenerator<Uint8Array, void>;
  /** Closes the connection without reading the body. */
  close(): void;
}

/** Largest head of an answer, in bytes. */
const MAX_HEAD = 65_536;
/** Longest line between two chunks, in bytes. */
const MAX_CHUNK_LINE = 4_096;
const READ_SIZE = 16_384;
const FIELD_NAME = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;
/** What a field of a request may hold: nothing that ends its line. */
const FIELD_VALUE = /^[\t\x20-\x7e]*$/;

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** `host:port` as it stands in a URL and a `Host` field. */
export function hostAndPort(host: string, port: number): string {
  return `${host.includes(":") ? `[${host}]` : host}:${port}`;
}

function failure(error: unknown, where: string, what: string): HttpError {
  if (error instanceof HttpError) return error;
  if (error instanceof Deno.errors.ConnectionRefused) {
    return new HttpError("connection-refused", `${where} refused the connection`, error);
  }
  const broken = error instanceof Deno.errors.ConnectionReset || error instanceof Deno.errors.BrokenPipe ||
    error instanceof Deno.errors.ConnectionAborted;
  if (broken) return new HttpError("connection-terminated", `${where} closed the connection`, error);
  return new HttpError("unreachable", `${what}: ${error instanceof Error ? error.message : error}`, error);
}

async function connectOne(hostname: string, where: string, request: PlainRequest): Promise<Deno.TcpConn> {
  const given = new AbortController();
  let late = false;
  const timer = setTimeout(() => {
    late = true;
    given.abort();
  }, request.connectMs);
  const onAbort = () => given.abort();
  request.signal?.addEventListener("abort", onAbort);
  try {
    return await Deno.connect({ hostname, port: request.port, signal: given.signal });
  } catch (error) {
    if (late) throw new HttpError("connection-timeout", `${where} took no connection in ${request.connectMs} ms`);
    if (request.signal?.aborted) throw new HttpError("aborted", `the request to ${where} was given up`);
    throw failure(error, where, `cannot connect to ${where}`);
  } finally {
    clearTimeout(timer);
    request.signal?.removeEventListener("abort", onAbort);
  }
}

async function connect(request: PlainRequest, where: string): Promise<Deno.TcpConn> {
  if (request.signal?.aborted) throw new HttpError("aborted", `the request to ${where} was given up`);
  if (request.host !== "localhost") return await connectOne(request.host, where, request);
  try {
    return await connectOne("127.0.0.1", where, request);
  } catch (error) {
    if (!(error instanceof HttpError) || error.kind !== "connection-refused") throw error;
    return await connectOne("::1", where, request).catch(() => {
      // A machine without IPv6 has its own words for the same; the first refusal is the one to tell.
      throw error;
    });
  }
}

/** What came over a connection and was not taken yet. */
class Incoming {
  readonly #conn: Deno.TcpConn;
  readonly #where: string;
  readonly #silenceMs: number;
  readonly #signal: AbortSignal | undefined;
  #held = new Uint8Array(0);
  #ended = false;
  #closed = false;
  readonly #onAbort = () => this.close();

  constructor(conn: Deno.TcpConn, where: string, { silenceMs, signal }: PlainRequest) {
    this.#conn = conn;
    this.#where = where;
    this.#silenceMs = silenceMs;
    this.#signal = signal;
    signal?.addEventListener("abort", this.#onAbort);
    if (signal?.aborted) this.close();
  }

  get held(): Uint8Array {
    return this.#held;
  }

  get ended(): boolean {
    return this.#ended;
  }

  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#signal?.removeEventListener("abort", this.#onAbort);
    this.#conn.close();
  }

  /** Waits for more. Answers false at the end of the connection. @throws {HttpError} */
  async more(): Promise<boolean> {
    if (this.#ended) return false;
    let late = false;
    const timer = setTimeout(() => {
      late = true;
      this.close();
    }, this.#silenceMs);
    const buffer = new Uint8Array(READ_SIZE);
    let count: number | null;
    try {
      count = this.#closed ? null : await this.#conn.read(buffer);
      if (this.#closed) throw new Deno.errors.Interrupted();
    } catch (error) {
      if (late) throw new HttpError("connection-timeout", `${this.#where} said nothing for ${this.#silenceMs} ms`);
      if (this.#signal?.aborted) throw new HttpError("aborted", `the request to ${this.#where} was given up`);
      throw failure(error, this.#where, `cannot read from ${this.#where}`);
    } finally {
      clearTimeout(timer);
    }
    if (count === null) {
      this.#ended = true;
      return false;
    }
    const piece = buffer.subarray(0, count);
    if (this.#held.length === 0) this.#held = piece;
    else {
      const joined = new Uint8Array(this.#held.length + count);
      joined.set(this.#held);
      joined.set(piece, this.#held.length);
      this.#held = joined;
    }
    return true;
  }

  take(count: number): Uint8Array {
    const taken = this.#held.subarray(0, count);
    this.#held = this.#held.subarray(count);
    return taken;
  }

  /** The next line without its ending. @throws {HttpError} */
  async line(): Promise<string> {
    for (;;) {
      const end = this.#held.indexOf(0x0a);
      if (end >= 0) return decoder.decode(this.take(end + 1)).replace(/\r?\n$/, "");
      if (this.#held.length > MAX_CHUNK_LINE) throw new HttpError("protocol", `${this.#where} sent an endless line`);
      if (!(await this.more())) throw cutShort(this.#where);
    }
  }
}

function cutShort(where: string): HttpError {
  return new HttpError("response-incomplete", `the answer of ${where} broke off`);
}

/** Where the head ends, behind its empty line; -1 while it has none. */
function headEnd(bytes: Uint8Array): number {
  for (let at = bytes.indexOf(0x0a); at >= 0; at = bytes.indexOf(0x0a, at + 1)) {
    if (bytes[at + 1] === 0x0a) return at + 2;
    if (bytes[at + 1] === 0x0d && bytes[at + 2] === 0x0a) return at + 3;
  }
  return -1;
}

/** The head of an answer. */
export interface ResponseHead {
  readonly status: number;
  readonly headers: ReadonlyMap<string, string>;
}

/** Reads a head; `null` when it is none of HTTP/1. */
export function parseResponseHead(text: string): ResponseHead | null {
  const [first, ...lines] = text.replace(/(?:\r?\n){1,2}$/, "").split(/\r?\n/);
  const status = /^HTTP\/1\.[01] ([1-5]\d\d)(?: .*)?$/.exec(first!)?.[1];
  if (status === undefined) return null;
  const headers = new Map<string, string>();
  for (const line of lines) {
    const colon = line.indexOf(":");
    const name = line.slice(0, Math.max(colon, 0));
    if (!FIELD_NAME.test(name)) return null;
    const key = name.toLowerCase();
    const value = line.slice(colon + 1).trim();
    const before = headers.get(key);
    headers.set(key, before === undefined ? value : `${before}, ${value}`);
  }
  return { status: Number(status), headers };
}

/** How long the body is: a length in bytes, chunks, or all until the connection ends. */
function framingOf({ status, headers }: ResponseHead, where: string): number | "chunked" | "until-end" {
  if (status === 204 || status === 304) return 0;
  const coding = headers.get("transfer-encoding");
  if (coding !== undefined) {
    if (coding.toLowerCase() === "chunked") return "chunked";
    throw new HttpError("protocol", `${where} answered with transfer-encoding '${coding}'`);
  }
  const length = headers.get("content-length");
  if (length === undefined) return "until-end";
  if (!/^\d{1,15}$/.test(length)) throw new HttpError("protocol", `${where} answered with content-length '${length}'`);
  return Number(length);
}

async function* bodyOf(
  incoming: Incoming,
  framing: number | "chunked" | "until-end",
  where: string,
): AsyncGenerator<Uint8Array, void> {
  /** Yields exactly so many bytes. */
  async function* exactly(count: number): AsyncGenerator<Uint8Array, void> {
    for (let left = count; left > 0;) {
      if (incoming.held.length === 0 && !(await incoming.more())) throw cutShort(where);
      const piece = incoming.take(Math.min(left, incoming.held.length));
      left -= piece.length;
      yield piece;
    }
  }
  try {
    if (typeof framing === "number") return yield* exactly(framing);
    if (framing === "until-end") {
      do {
        if (incoming.held.length > 0) yield incoming.take(incoming.held.length);
      } while (await incoming.more());
      return;
    }
    for (;;) {
      const size = /^([0-9a-f]{1,8})[ \t]*(?:;.*)?$/i.exec(await incoming.line())?.[1];
      if (size === undefined) throw new HttpError("protocol", `${where} sent a chunk without a size`);
      const count = parseInt(size, 16);
      if (count === 0) break;
      yield* exactly(count);
      if (await incoming.line() !== "") throw new HttpError("protocol", `${where} sent a chunk of another size`);
    }
    // Trailers say nothing a door's client asks for.
    while (await incoming.line() !== "");
  } finally {
    incoming.close();
  }
}

function requestText(request: PlainRequest, bodyLength: number): string {
  const lines = [
    `${request.method} ${request.path} HTTP/1.1`,
    `host: ${hostAndPort(request.host, request.port)}`,
    "connection: close",
  ];
  for (const [name, value] of request.headers ?? []) {
    if (!FIELD_NAME.test(name) || !FIELD_VALUE.test(value)) {
      throw new HttpError("invalid-request", `the header field '${name}' cannot be sent`);
    }
    lines.push(`${name}: ${value}`);
  }
  if (request.body !== undefined) lines.push(`content-length: ${bodyLength}`);
  return `${lines.join("\r\n")}\r\n\r\n`;
}

/**
 * Sends a request and reads the head of its answer.
 *
 * @throws {HttpError} When there is no answer. Its text names host and port, never a header.
 */
export async function sendPlain(request: PlainRequest): Promise<PlainResponse> {
  const where = hostAndPort(request.host, request.port);
  const body = encoder.encode(request.body ?? "");
  const head = encoder.encode(requestText(request, body.length));
  const conn = await connect(request, where);
  const incoming = new Incoming(conn, where, request);
  try {
    const whole = new Uint8Array(head.length + body.length);
    whole.set(head);
    whole.set(body, head.length);
    // Written while the answer is awaited: a refusal may come before the body was read.
    const written = (async () => {
      for (let rest = whole; rest.length > 0;) rest = rest.subarray(await conn.write(rest));
    })();
    written.catch(() => {});
    for (;;) {
      let end = headEnd(incoming.held);
      while (end < 0) {
        if (incoming.held.length > MAX_HEAD) {
          throw new HttpError("response-headers-too-large", `the answer of ${where} has an endless head`);
        }
        if (!(await incoming.more())) {
          if (incoming.held.length > 0) throw cutShort(where);
          throw new HttpError("connection-terminated", `${where} closed the connection without an answer`);
        }
        end = headEnd(incoming.held);
      }
      const response = parseResponseHead(decoder.decode(incoming.take(end)));
      if (response === null) throw new HttpError("protocol", `${where} does not speak HTTP`);
      // An interim answer says that the real one follows.
      if (response.status < 200) continue;
      const framing = framingOf(response, where);
      return { ...response, body: bodyOf(incoming, framing, where), close: () => incoming.close() };
    }
  } catch (error) {
    incoming.close();
    throw error;
  }
}

/** The whole body as text. @throws {HttpError} When it breaks off or is longer than `maxBytes`. */
export async function bodyText(response: PlainResponse, maxBytes: number): Promise<string> {
  let first: Uint8Array | null = null;
  const more: Uint8Array[] = [];
  let size = 0;
  for await (const piece of response.body) {
    size += piece.length;
    if (size > maxBytes) throw new HttpError("body-size", `the answer is longer than ${maxBytes} bytes`);
    if (first === null) first = piece;
    else more.push(piece);
  }
  if (first === null) return "";
  if (more.length === 0) return decoder.decode(first);
  const whole = new Uint8Array(size);
  let at = 0;
  for (const piece of [first, ...more]) {
    whole.set(piece, at);
    at += piece.length;
  }
  return decoder.decode(whole);
}
