/**
 * A small HTTP/1.1 server on loopback that keeps to bounds of its own: how large a head and a body may be, how long a
 * request may take to arrive and an answer to be taken, and how many connections there are (spec roost 2.4).
 *
 * `Deno.serve` has no time-out for a half-sent head and no bound on connections, and `node:http` costs a start-up and half
 * of the speed, so the daemon reads its few short requests itself.
 *
 * @module
 */
import {
  BODY_TOO_LARGE,
  ChunkReader,
  HEAD_TOO_LARGE,
  headEnd,
  MAX_BODY,
  MAX_CHUNK_OVERHEAD,
  MAX_HEAD,
  parseRequestHead,
  type RequestFault,
  type RequestHead,
  TOO_SLOW,
} from "./http_request.ts";

/** A request that was read whole. */
export interface HttpRequest extends RequestHead {
  readonly content: Uint8Array;
}

/** An answer: JSON, always. */
export interface HttpAnswer {
  readonly status: number;
  /** The JSON text. */
  readonly body: string;
}

/** Answers a request; at once wherever it can. */
export type HttpHandler = (request: HttpRequest) => HttpAnswer | Promise<HttpAnswer>;

/** How a server is bounded. */
export interface HttpServerOptions {
  readonly handler: HttpHandler;
  /** Milliseconds a request may take, from the connection or the answer before it to its last byte; an answer likewise. */
  readonly requestMs: number;
  /** Connections that are open at once; one more ends the one that has kept waiting longest. */
  readonly maxConnections: number;
}

/** Connections of a server. A request, its head and body, takes up 80 KiB at most. */
export const MAX_CONNECTIONS = 512;

/** A server that accepts. */
export interface HttpServer {
  /** Accepts no more; answers what was read, for `graceMs` at most, then ends all connections. */
  close(graceMs: number): Promise<void>;
}

const REASONS: Readonly<Record<number, string>> = {
  200: "OK",
  400: "Bad Request",
  403: "Forbidden",
  404: "Not Found",
  408: "Request Timeout",
  413: "Content Too Large",
  431: "Request Header Fields Too Large",
  500: "Internal Server Error",
  501: "Not Implemented",
  503: "Service Unavailable",
  505: "HTTP Version Not Supported",
};

const encoder = new TextEncoder();
/** A byte a character: what of a head is looked at is ASCII. */
const latin1 = new TextDecoder("latin1");
const CONTINUE = encoder.encode("HTTP/1.1 100 Continue\r\n\r\n");
const FIRST_BUFFER = 2_048;
/** Bytes of a refused request that are still taken, so that its sender gets to read the answer. */
const MAX_LINGER_BYTES = 1 << 20;
const LINGER_MS = 1_000;

/** Room for the head of an answer. */
const ANSWER_HEAD = 160;

/** Room for an answer; a longer one gets room of its own. */
const ANSWER = 4_096;

/**
 * The bytes of an answer.
 *
 * @param room Where they are put when they fit.
 * @param headOnly To a `HEAD` request the body is only announced.
 */
export function answerBytes(
  { status, body }: HttpAnswer,
  keepAlive: boolean,
  headOnly = false,
  room: Uint8Array = NO_ROOM,
): Uint8Array {
  const bytes = ANSWER_HEAD + 3 * body.length <= room.length ? room : new Uint8Array(ANSWER_HEAD + 3 * body.length);
  const { written } = encoder.encodeInto(body, bytes.subarray(ANSWER_HEAD));
  const head =
    `HTTP/1.1 ${status} ${REASONS[status] ?? "Unknown"}\r\ncontent-type: application/json\r\ncontent-length: ` +
    `${written}\r\n${keepAlive ? "" : "connection: close\r\n"}\r\n`;
  // It ends where the body begins.
  const start = ANSWER_HEAD - head.length;
  encoder.encodeInto(head, bytes.subarray(start, ANSWER_HEAD));
  return bytes.subarray(start, headOnly ? ANSWER_HEAD : ANSWER_HEAD + written);
}

const NO_ROOM: Uint8Array = new Uint8Array(0);

/** Accepts connections on a listener. The listener belongs to the server from now on. */
export function serveHttp(listener: Deno.TcpListener, options: HttpServerOptions): HttpServer {
  return new Server(listener, options);
}

/** What the server knows of a connection. */
class Connection {
  readonly conn: Deno.TcpConn;
  /** When it is ended, on the clock of `performance.now()`. */
  deadline: number;
  /** Since when it waits for bytes of its client; `Infinity` while it does not. */
  waitingSince: number;
  /** Whether bytes of a request that is not whole are there. */
  halfRead = false;
  #ended = false;

  constructor(conn: Deno.TcpConn, now: number, deadline: number) {
    this.conn = conn;
    this.waitingSince = now;
    this.deadline = deadline;
  }

  get ended(): boolean {
    return this.#ended;
  }

  end(): void {
    if (this.#ended) return;
    this.#ended = true;
    this.conn.close();
  }

  async write(bytes: Uint8Array): Promise<void> {
    for (let rest = bytes; rest.length > 0;) rest = rest.subarray(await this.conn.write(rest));
  }
}

class Server implements HttpServer {
  readonly #listener: Deno.TcpListener;
  readonly #options: HttpServerOptions;
  readonly #connections = new Set<Connection>();
  readonly #served: Promise<void>[] = [];
  #ticking: ReturnType<typeof setInterval> | null = null;
  #closing = false;
  #idle: (() => void) | null = null;

  constructor(listener: Deno.TcpListener, options: HttpServerOptions) {
    this.#listener = listener;
    this.#options = options;
    this.#served.push(this.#accept());
  }

  async close(graceMs: number): Promise<void> {
    this.#closing = true;
    this.#listener.close();
    for (const connection of this.#connections) if (connection.waitingSince < Infinity) connection.end();
    if (this.#connections.size > 0) {
      let timer: ReturnType<typeof setTimeout> | undefined;
      await new Promise<void>((resolve) => {
        this.#idle = resolve;
        timer = setTimeout(resolve, graceMs);
      });
      clearTimeout(timer);
    }
    for (const connection of this.#connections) connection.end();
    if (this.#ticking !== null) clearInterval(this.#ticking);
    await Promise.all(this.#served);
  }

  async #accept(): Promise<void> {
    while (!this.#closing) {
      let conn: Deno.TcpConn;
      try {
        conn = await this.#listener.accept();
      } catch {
        if (this.#closing) return;
        // Out of descriptors, or the client has gone again. Room is made, and the next one may come.
        this.#evict();
        await new Promise((resolve) => setTimeout(resolve, 10));
        continue;
      }
      if (this.#connections.size >= this.#options.maxConnections) this.#evict();
      const now = performance.now();
      const connection = new Connection(conn, now, now + this.#options.requestMs);
      this.#connections.add(connection);
      this.#ticking ??= setInterval(() => this.#tick(), Math.max(10, Math.min(500, this.#options.requestMs / 10)));
      this.#serve(connection);
    }
  }

  /** Ends the connection whose client has been waited for longest. */
  #evict(): void {
    let longest: Connection | null = null;
    for (const connection of this.#connections) {
      if (longest === null || connection.waitingSince < longest.waitingSince) longest = connection;
    }
    if (longest === null) return;
    longest.end();
    this.#connections.delete(longest);
  }

  #tick(): void {
    const now = performance.now();
    for (const connection of this.#connections) {
      if (connection.deadline > now) continue;
      if (connection.halfRead && connection.waitingSince < Infinity) this.#refuseSlow(connection);
      else connection.end();
    }
    if (this.#connections.size === 0 && this.#ticking !== null) {
      clearInterval(this.#ticking);
      this.#ticking = null;
    }
  }

  /** A small answer fits into the system's buffer or is not worth waiting for. */
  async #refuseSlow(connection: Connection): Promise<void> {
    connection.deadline = Infinity;
    connection.waitingSince = Infinity;
    const late = setTimeout(() => connection.end(), LINGER_MS);
    try {
      await connection.conn.write(answerBytes(faultAnswer(TOO_SLOW), false));
    } catch {
      // Its client is gone.
    } finally {
      clearTimeout(late);
      connection.end();
    }
  }

  async #serve(connection: Connection): Promise<void> {
    try {
      await this.#exchange(connection);
    } catch {
      // The connection broke, or was ended at its deadline.
    } finally {
      connection.end();
      this.#connections.delete(connection);
      if (this.#connections.size === 0) this.#idle?.();
    }
  }

  async #exchange(connection: Connection): Promise<void> {
    const { conn } = connection;
    const { handler, requestMs } = this.#options;
    let buffer = new Uint8Array(FIRST_BUFFER);
    // Most connections bring one request.
    let room = NO_ROOM;
    let held = 0;
    for (;;) {
      // The head.
      let end = held > 0 ? headEnd(buffer.subarray(0, held), 0) : -1;
      while (end < 0) {
        if (held >= MAX_HEAD) return await this.#refuse(connection, HEAD_TOO_LARGE);
        if (held === buffer.length) buffer = grown(buffer, held, Math.min(2 * held, MAX_HEAD));
        const count = await conn.read(buffer.subarray(held));
        if (count === null) return;
        const from = Math.max(0, held - 3);
        held += count;
        connection.halfRead = true;
        end = headEnd(buffer.subarray(0, held), from);
      }
      const head = parseRequestHead(latin1.decode(buffer.subarray(0, end)));
      if ("status" in head) return await this.#refuse(connection, head);

      // The body.
      let content = NO_CONTENT;
      let used = end;
      if (head.body !== 0) {
        if (head.fields.get("expect")?.toLowerCase() === "100-continue" && held === end) {
          await connection.write(CONTINUE);
        }
        if (head.body === "chunked") {
          const chunks = new ChunkReader(end);
          let state = chunks.read(buffer.subarray(0, held));
          while (state === "more") {
            if (held >= end + MAX_BODY + MAX_CHUNK_OVERHEAD) return await this.#refuse(connection, BODY_TOO_LARGE);
            if (held === buffer.length) buffer = grown(buffer, held, 2 * held);
            const count = await conn.read(buffer.subarray(held));
            if (count === null) return;
            held += count;
            state = chunks.read(buffer.subarray(0, held));
          }
          if (state !== "whole") return await this.#refuse(connection, state);
          content = chunks.content(buffer);
          used = chunks.end;
        } else {
          used = end + head.body;
          if (used > buffer.length) buffer = grown(buffer, held, used);
          while (held < used) {
            const count = await conn.read(buffer.subarray(held));
            if (count === null) return;
            held += count;
          }
          content = buffer.subarray(end, used);
        }
      }

      // The answer.
      connection.halfRead = false;
      connection.waitingSince = Infinity;
      connection.deadline = Infinity;
      const answering = handler({ ...head, content });
      const answer = answering instanceof Promise ? await answering : answering;
      const keepAlive = head.keepAlive && !this.#closing;
      connection.deadline = performance.now() + requestMs;
      await connection.write(answerBytes(answer, keepAlive, head.method === "HEAD", room));
      if (!keepAlive) return;
      if (room.length === 0) room = new Uint8Array(ANSWER);
      connection.deadline = performance.now() + requestMs;
      connection.waitingSince = performance.now();
      if (held > used) {
        buffer.copyWithin(0, used, held);
        held -= used;
        connection.halfRead = true;
      } else {
        held = 0;
        if (buffer.length > MAX_HEAD) buffer = new Uint8Array(FIRST_BUFFER);
      }
    }
  }

  /**
   * Refuses what was not read to its end. What still comes is taken for a moment: closing with unread bytes would take the
   * answer away from its reader.
   */
  async #refuse(connection: Connection, fault: RequestFault): Promise<void> {
    const { conn } = connection;
    connection.deadline = performance.now() + LINGER_MS;
    connection.halfRead = false;
    await connection.write(answerBytes(faultAnswer(fault), false));
    await conn.closeWrite();
    const sink = new Uint8Array(MAX_HEAD);
    for (let taken = 0; taken < MAX_LINGER_BYTES;) {
      const count = await conn.read(sink);
      if (count === null) return;
      taken += count;
    }
  }
}

const NO_CONTENT: Uint8Array = new Uint8Array();

function faultAnswer({ status, message }: RequestFault): HttpAnswer {
  return { status, body: JSON.stringify({ error: message }) };
}

function grown(buffer: Uint8Array, held: number, length: number): Uint8Array<ArrayBuffer> {
  const larger = new Uint8Array(length);
  larger.set(buffer.subarray(0, held));
  return larger;
}
