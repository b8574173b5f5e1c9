/**
 * HTTP/1.1 over plain TCP, for the doors of running capsules (spec door 17): one connection a request, no redirect, no
 * proxy, no name but the one given.
 *
 * {@linkcode createHttpClient} of `http_client.ts` is for everything else. It costs 45 ms at its first request, more than
 * all of `mur ps` may take; this one costs nothing.
 *
 * @module
 */
import { type ExchangeBounds, ExchangePatience } from "./exchange_patience.ts";
import { HttpError } from "./http_error.ts";
import { FIELD_NAME, type ResponseHead, ResponseReader } from "./http_response.ts";

/** A request to a door. */
export interface PlainRequest extends ExchangeBounds {
  readonly method: "GET" | "POST";
  /** Name or address, without brackets. `localhost` is 127.0.0.1, then ::1. */
  readonly host: string;
  readonly port: number;
  /** Sent as it is. */
  readonly path: string;
  readonly headers?: readonly (readonly [name: string, value: string])[];
  readonly body?: string;
  /** Ends the request at any stage, also while the body is read. */
  readonly signal?: AbortSignal;
}

/** An answer, its head read. The body is read in one of two ways, or not at all. */
export interface PlainResponse extends ResponseHead {
  /** The whole body. @throws {HttpError} When it breaks off or is longer than `maxBytes`. */
  text(maxBytes: number): Promise<string>;
  /** Pieces of the body as they come. Leaving the loop closes the connection. */
  pieces(): AsyncGenerator<Uint8Array, void>;
  /** Closes the connection without reading the body. */
  close(): void;
}

/** Bytes read at once: an agent card with its head, later more. */
const FIRST_READ = 4_096;
const READ_SIZE = 32_768;
/** What a field of a request may hold: nothing that ends its line. */
const FIELD_VALUE = /^[\t\x20-\x7e]*$/;

const encoder = new TextEncoder();

/** `host:port` as it stands in a URL and a `Host` field. */
export function hostAndPort(host: string, port: number): string {
  return `${host.includes(":") ? `[${host}]` : host}:${port}`;
}

/** Where a host is looked for, in this order. */
export function connectedHosts(host: string): readonly [first: string, ...others: string[]] {
  return host === "localhost" ? ["127.0.0.1", "::1"] : [host];
}

/** Why there is no connection. */
export function connectFailure(error: unknown, where: string): HttpError {
  return failure(error, where, `cannot connect to ${where}`);
}

/** Why nothing more can be read. */
export function readFailure(error: unknown, where: string): HttpError {
  return failure(error, where, `cannot read from ${where}`);
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

/** One connection. */
class Connection {
  readonly #where: string;
  readonly #signal: AbortSignal | undefined;
  readonly #patience: ExchangePatience;
  #conn: Deno.TcpConn | null = null;
  #readSize = FIRST_READ;
  /** Why it was closed before its end. */
  #failure: HttpError | null = null;
  #closed = false;
  #giveUp: (failure: HttpError) => void = () => {};
  readonly #onAbort = () => this.#fail(new HttpError("aborted", `the request to ${this.#where} was given up`));

  constructor(where: string, { signal, deadline }: PlainRequest) {
    this.#where = where;
    this.#signal = signal;
    this.#patience = new ExchangePatience(where, deadline);
    signal?.addEventListener("abort", this.#onAbort);
  }

  #fail(failure: HttpError): void {
    this.#failure ??= failure;
    this.#giveUp(this.#failure);
    this.close();
  }

  /** When the clock ends it. */
  get deadline(): number {
    return this.#patience.until;
  }

  /** Ended by the clock. */
  expire(): void {
    this.#fail(this.#patience.late());
  }

  async #connectTo(hostname: string, port: number): Promise<Deno.TcpConn> {
    const connecting = Deno.connect({ hostname, port });
    // Given up meanwhile: nobody waits for it any more.
    connecting.then((conn) => this.#closed && conn.close(), () => {});
    const givenUp = new Promise<never>((_, reject) => this.#giveUp = reject);
    try {
      return await Promise.race([connecting, givenUp]);
    } catch (error) {
      throw this.#failure ?? connectFailure(error, this.#where);
    } finally {
      this.#giveUp = () => {};
    }
  }

  /** @throws {HttpError} */
  async open({ host, port, connectMs }: PlainRequest): Promise<void> {
    if (this.#signal?.aborted) this.#onAbort();
    if (this.#failure !== null) throw this.#failure;
    this.#patience.awaitConnection(connectMs);
    clock.watch(this);
    const [first, ...others] = connectedHosts(host);
    try {
      this.#conn = await this.#connectTo(first, port);
    } catch (error) {
      const [second] = others;
      if (second === undefined || !(error instanceof HttpError) || error.kind !== "connection-refused") throw error;
      this.#conn = await this.#connectTo(second, port).catch(() => {
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

  /** Has a reader take what comes next, which is waited for `silenceMs` at most. @throws {HttpError} */
  async readInto(reader: ResponseReader, silenceMs: number): Promise<void> {
    if (this.#failure !== null) throw this.#failure;
    this.#patience.awaitBytes(silenceMs);
    clock.watch(this);
    const buffer = new Uint8Array(this.#readSize);
    this.#readSize = READ_SIZE;
    let count: number | null;
    try {
      count = await this.#conn!.read(buffer);
    } catch (error) {
      throw this.#failure ?? readFailure(error, this.#where);
    }
    if (this.#failure !== null) throw this.#failure;
    if (count === null) reader.end();
    // A reader may keep it for long: few bytes are not to hold much room.
    else reader.push(2 * count > buffer.length ? buffer.subarray(0, count) : buffer.slice(0, count));
  }
}

/** The bytes of a request. @throws {HttpError} `invalid-request` when a header field cannot be sent. */
export function requestBytes(request: PlainRequest): Uint8Array<ArrayBuffer> {
  const { method, path, host, port, headers, body } = request;
  let text = `${method} ${path} HTTP/1.1\r\nhost: ${hostAndPort(host, port)}\r\nconnection: close\r\n`;
  for (const [name, value] of headers ?? []) {
    if (!FIELD_NAME.test(name) || !FIELD_VALUE.test(value)) {
      throw new HttpError("invalid-request", `the header field '${name}' cannot be sent`);
    }
    text += `${name}: ${value}\r\n`;
  }
  if (body === undefined) return encoder.encode(`${text}\r\n`);
  const content = encoder.encode(body);
  const head = encoder.encode(`${text}content-length: ${content.length}\r\n\r\n`);
  const whole = new Uint8Array(head.length + content.length);
  whole.set(head);
  whole.set(content, head.length);
  return whole;
}

/**
 * Sends a request and reads the head of its answer.
 *
 * @throws {HttpError} When there is no answer. Its text names host and port, never a header.
 */
export async function sendPlain(request: PlainRequest): Promise<PlainResponse> {
  const where = hostAndPort(request.host, request.port);
  const bytes = requestBytes(request);
  const connection = new Connection(where, request);
  const reader = new ResponseReader(where);
  const more = () => connection.readInto(reader, request.silenceMs);
  try {
    await connection.open(request);
    connection.write(bytes);
    let head: ResponseHead | null;
    while ((head = reader.head()) === null) await more();
    return {
      ...head,
      async text(maxBytes) {
        try {
          let text: string | null;
          while ((text = reader.text(maxBytes)) === null) await more();
          return text;
        } finally {
          connection.close();
        }
      },
      async *pieces() {
        try {
          for (;;) {
            for (let piece: Uint8Array | null; (piece = reader.take()) !== null;) yield piece;
            if (reader.isWhole) return;
            await more();
          }
        } finally {
          connection.close();
        }
      },
      close: () => connection.close(),
    };
  } catch (error) {
    connection.close();
    throw error;
  }
}

/** An answer that was read whole. */
export interface PlainAnswer extends ResponseHead {
  readonly text: string;
}

/** What became of an exchange. */
export type ExchangeOutcome = PlainAnswer | HttpError;

/**
 * Sends a request and reads all of its answer.
 *
 * @param maxBytes How long its body may be.
 */
export async function exchangeOutcome(request: PlainRequest, maxBytes: number): Promise<ExchangeOutcome> {
  try {
    const { status, headers, text } = await sendPlain(request);
    return { status, headers, text: await text(maxBytes) };
  } catch (error) {
    if (error instanceof HttpError) return error;
    throw error;
  }
}
