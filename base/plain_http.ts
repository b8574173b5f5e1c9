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
  /** When the exchange has to be over, on the clock of `performance.now()`, however busy the other side is. */
  readonly deadline?: number;
  /** Ends the request at any stage, also while the body is read. */
  readonly signal?: AbortSignal;
}

/** An answer, its head read. The body is read in one of two ways, or not at all. */
export interface PlainResponse {
  readonly status: number;
  /** Lower-cased names; of a repeated field the values joined by `, `. */
  readonly headers: ReadonlyMap<string, string>;
  /** The whole body. @throws {HttpError} When it breaks off or is longer than `maxBytes`. */
  text(maxBytes: number): Promise<string>;
  /** Pieces of the body as they come. Leaving the loop closes the connection. */
  pieces(): AsyncGenerator<Uint8Array, void>;
  /** Closes the connection without reading the body. */
  close(): void;
}

/** Largest head of an answer, in bytes. */
const MAX_HEAD = 65_536;
/** Longest line between two chunks, in bytes. */
const MAX_CHUNK_LINE = 4_096;
/** Bytes read at once: an agent card with its head, later more. */
const FIRST_READ = 4_096;
const READ_SIZE = 32_768;
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

/**
 * The clock of all connections. It is one, since a request costs less than a timer of its own; and it is a signal that
 * times out, since the first `setTimeout` of a program loads 4 ms of code.
 */
class Clock {
  readonly #watched = new Set<Connection>();
  #armed: { readonly signal: AbortSignal; readonly at: number } | null = null;

  /** Looks after a connection, whose deadline may have come nearer. */
  watch(connection: Connection): void {
    this.#watched.add(connection);
    this.#arm(connection.deadline);
  }

  forget(connection: Connection): void {
    this.#watched.delete(connection);
    if (this.#watched.size > 0 || this.#armed === null) return;
    // Without a listener it holds no program open.
    this.#armed.signal.removeEventListener("abort", this.#onTick);
    this.#armed = null;
  }

  #arm(at: number): void {
    if (this.#armed !== null && this.#armed.at <= at) return;
    this.#armed?.signal.removeEventListener("abort", this.#onTick);
    const signal = AbortSignal.timeout(Math.max(0, Math.ceil(at - performance.now())));
    signal.addEventListener("abort", this.#onTick);
    this.#armed = { signal, at };
  }

  readonly #onTick = () => {
    this.#armed = null;
    const now = performance.now();
    for (const connection of [...this.#watched]) if (connection.deadline <= now) connection.expire();
    const next = Math.min(...[...this.#watched].map(({ deadline }) => deadline));
    if (next < Infinity) this.#arm(next);
  };
}

const clock = new Clock();

/** One connection, and what came over it and was not taken yet. */
class Connection {
  readonly #where: string;
  readonly #signal: AbortSignal | undefined;
  readonly #lastDeadline: number;
  #conn: Deno.TcpConn | null = null;
  #held = new Uint8Array(0);
  #readSize = FIRST_READ;
  #ended = false;
  /** Why it was closed before its end. */
  #failure: HttpError | null = null;
  #closed = false;
  #deadline = Infinity;
  #lateText = "";
  #giveUp: (failure: HttpError) => void = () => {};
  readonly #onAbort = () => this.#fail(new HttpError("aborted", `the request to ${this.#where} was given up`));

  constructor(where: string, { signal, deadline = Infinity }: PlainRequest) {
    this.#where = where;
    this.#signal = signal;
    this.#lastDeadline = deadline;
    signal?.addEventListener("abort", this.#onAbort);
  }

  get held(): Uint8Array {
    return this.#held;
  }

  #fail(failure: HttpError): void {
    this.#failure ??= failure;
    this.#giveUp(this.#failure);
    this.close();
  }

  /** When the clock ends it. */
  get deadline(): number {
    return this.#deadline;
  }

  /** Ended by the clock. */
  expire(): void {
    this.#fail(new HttpError("connection-timeout", this.#lateText));
  }

  #allow(ms: number, lateText: string): void {
    const until = performance.now() + ms;
    this.#lateText = until <= this.#lastDeadline ? lateText : `${this.#where} did not answer in time`;
    this.#deadline = Math.min(until, this.#lastDeadline);
    clock.watch(this);
  }

  async #connectTo(hostname: string, port: number): Promise<Deno.TcpConn> {
    const connecting = Deno.connect({ hostname, port });
    // Given up meanwhile: nobody waits for it any more.
    connecting.then((conn) => this.#closed && conn.close(), () => {});
    const givenUp = new Promise<never>((_, reject) => this.#giveUp = reject);
    try {
      return await Promise.race([connecting, givenUp]);
    } catch (error) {
      throw this.#failure ?? failure(error, this.#where, `cannot connect to ${this.#where}`);
    } finally {
      this.#giveUp = () => {};
    }
  }

  /** @throws {HttpError} */
  async open({ host, port, connectMs }: PlainRequest): Promise<void> {
    if (this.#signal?.aborted) this.#onAbort();
    if (this.#failure !== null) throw this.#failure;
    this.#allow(connectMs, `${this.#where} took no connection in ${connectMs} ms`);
    if (host !== "localhost") {
      this.#conn = await this.#connectTo(host, port);
      return;
    }
    try {
      this.#conn = await this.#connectTo("127.0.0.1", port);
    } catch (error) {
      if (!(error instanceof HttpError) || error.kind !== "connection-refused") throw error;
      this.#conn = await this.#connectTo("::1", port).catch(() => {
        // A machine without IPv6 has its own words for the same; the first refusal is the one to tell.
        throw this.#failure ?? error;
      });
    }
  }

  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    clock.forget(this);
    this.#signal?.removeEventListener("abort", this.#onAbort);
    this.#conn?.close();
  }

  /** Writes while the answer is awaited: a refusal may come before all was taken. */
  async write(bytes: Uint8Array): Promise<void> {
    try {
      for (let rest = bytes; rest.length > 0;) rest = rest.subarray(await this.#conn!.write(rest));
    } catch {
      // Reading tells what became of the connection.
    }
  }

  /** Waits for more, `silenceMs` at most. Answers false at the end of the connection. @throws {HttpError} */
  async more(silenceMs: number): Promise<boolean> {
    if (this.#failure !== null) throw this.#failure;
    if (this.#ended) return false;
    this.#allow(silenceMs, `${this.#where} said nothing for ${silenceMs} ms`);
    const buffer = new Uint8Array(this.#readSize);
    this.#readSize = READ_SIZE;
    let count: number | null;
    try {
      count = await this.#conn!.read(buffer);
    } catch (error) {
      throw this.#failure ?? failure(error, this.#where, `cannot read from ${this.#where}`);
    }
    if (this.#failure !== null) throw this.#failure;
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

/** The body of an answer, framed as its head says. */
class Body {
  readonly #connection: Connection;
  readonly #framing: number | "chunked" | "until-end";
  readonly #where: string;
  readonly #silenceMs: number;

  constructor(connection: Connection, framing: number | "chunked" | "until-end", where: string, silenceMs: number) {
    this.#connection = connection;
    this.#framing = framing;
    this.#where = where;
    this.#silenceMs = silenceMs;
  }

  async text(maxBytes: number): Promise<string> {
    const tooLong = () => new HttpError("body-size", `the answer of ${this.#where} is longer than ${maxBytes} bytes`);
    const connection = this.#connection;
    if (typeof this.#framing === "number" && this.#framing > maxBytes) {
      connection.close();
      throw tooLong();
    }
    // Most answers came with their head.
    if (typeof this.#framing === "number" && connection.held.length >= this.#framing) {
      const text = decoder.decode(connection.take(this.#framing));
      connection.close();
      return text;
    }
    const pieces: Uint8Array<ArrayBuffer>[] = [];
    let size = 0;
    for await (const piece of this.pieces()) {
      size += piece.length;
      if (size > maxBytes) throw tooLong();
      pieces.push(new Uint8Array(piece));
    }
    return decoder.decode(await new Blob(pieces).arrayBuffer());
  }

  async *pieces(): AsyncGenerator<Uint8Array, void> {
    const connection = this.#connection;
    try {
      if (typeof this.#framing === "number") return yield* this.#exactly(this.#framing);
      if (this.#framing === "until-end") {
        do {
          if (connection.held.length > 0) yield connection.take(connection.held.length);
        } while (await connection.more(this.#silenceMs));
        return;
      }
      for (;;) {
        const size = /^([0-9a-f]{1,8})[ \t]*(?:;.*)?$/i.exec(await this.#line())?.[1];
        if (size === undefined) throw new HttpError("protocol", `${this.#where} sent a chunk without a size`);
        const count = parseInt(size, 16);
        if (count === 0) break;
        yield* this.#exactly(count);
        if (await this.#line() !== "") throw new HttpError("protocol", `${this.#where} sent a chunk of another size`);
      }
      // Trailers say nothing a door's client asks for.
      while (await this.#line() !== "");
    } finally {
      connection.close();
    }
  }

  /** Yields exactly so many bytes. */
  async *#exactly(count: number): AsyncGenerator<Uint8Array, void> {
    const connection = this.#connection;
    for (let left = count; left > 0;) {
      if (connection.held.length === 0 && !(await connection.more(this.#silenceMs))) throw cutShort(this.#where);
      const piece = connection.take(Math.min(left, connection.held.length));
      left -= piece.length;
      yield piece;
    }
  }

  /** The next line without its ending. @throws {HttpError} */
  async #line(): Promise<string> {
    const connection = this.#connection;
    for (;;) {
      const end = connection.held.indexOf(0x0a);
      if (end >= 0) return decoder.decode(connection.take(end + 1)).replace(/\r?\n$/, "");
      if (connection.held.length > MAX_CHUNK_LINE) {
        throw new HttpError("protocol", `${this.#where} sent an endless line between two chunks`);
      }
      if (!(await connection.more(this.#silenceMs))) throw cutShort(this.#where);
    }
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
  const whole = new Uint8Array(head.length + body.length);
  whole.set(head);
  whole.set(body, head.length);
  const connection = new Connection(where, request);
  try {
    await connection.open(request);
    connection.write(whole);
    for (;;) {
      let end = headEnd(connection.held);
      while (end < 0) {
        if (connection.held.length > MAX_HEAD) {
          throw new HttpError("response-headers-too-large", `the answer of ${where} has an endless head`);
        }
        if (!(await connection.more(request.silenceMs))) {
          if (connection.held.length > 0) throw cutShort(where);
          throw new HttpError("connection-terminated", `${where} closed the connection without an answer`);
        }
        end = headEnd(connection.held);
      }
      const response = parseResponseHead(decoder.decode(connection.take(end)));
      if (response === null) throw new HttpError("protocol", `${where} does not speak HTTP`);
      // An interim answer says that the real one follows.
      if (response.status < 200) continue;
      const content = new Body(connection, framingOf(response, where), where, request.silenceMs);
      return {
        status: response.status,
        headers: response.headers,
        text: (maxBytes) => content.text(maxBytes),
        pieces: () => content.pieces(),
        close: () => connection.close(),
      };
    }
  } catch (error) {
    connection.close();
    throw error;
  }
}
