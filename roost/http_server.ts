/**
 * A small HTTP/1.1 server on loopback that keeps to bounds of its own: how large a head and a body may be, how long a
 * request may take to arrive and an answer to be taken, and how many connections there are (spec roost 2.4).
 *
 * `Deno.serve` has no time-out for a half-sent head and no bound on connections, and `node:http` costs a start-up and half
 * of the speed, so the daemon reads its few short requests itself. It asks the kernel which connections have something to
 * read and reads them on the spot: a promise for each read and write would cost more than the request.
 *
 * @module
 */
import { EPOLL_CTL, EPOLL_DATA_AT, EPOLL_RECORD_BYTES, ERRNO, type Libc, POLL } from "../base/libc.ts";
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
import type { LoopbackListener } from "./loopback_listener.ts";

/** A request that was read whole. */
export interface HttpRequest extends RequestHead {
  /** The body. What it lies in is used again: good until the handler returns, whatever it returns. */
  readonly content: Uint8Array;
  /**
   * Rises from one look at the kernel to the next. Requests that bear the same number had all begun to arrive before any of
   * them was answered: what the handler sees of the world for one of them is no older than the others.
   */
  readonly moment: number;
}

/** An answer: JSON, always. */
export interface HttpAnswer {
  readonly status: number;
  /** The JSON text. */
  readonly body: string;
  /** A further header field, its name and value, both ASCII. */
  readonly field?: readonly [name: string, value: string];
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
  /** What is done once the first request was answered, or so many milliseconds after the start. */
  readonly settled?: { readonly afterMs: number; readonly work: () => void };
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
const CONTINUE: Uint8Array<ArrayBuffer> = encoder.encode("HTTP/1.1 100 Continue\r\n\r\n");
const FIRST_BUFFER = 2_048;
/** Bytes of a refused request that are still taken, so that its sender gets to read the answer. */
const MAX_LINGER_BYTES = 1 << 20;
const LINGER_MS = 1_000;

/** Most that the head of an answer takes up. */
const ANSWER_HEAD = 160;

/** Room for an answer; a longer one gets room of its own. */
const ANSWER = 4_096;

/** Longest head that is kept for the next request of its connection, in bytes. */
const MAX_KEPT_HEAD = 1_024;

/** Events that are taken at once. */
const MAX_EVENTS = 64;

/** How long the kernel is waited for on the spot after something came, in milliseconds. Another thread waits longer. */
const LINGER_HERE_MS = 1;

/** How long requests are answered without a look at timers, signals and the log, in milliseconds. */
const MAX_TURN_MS = 4;

/** How often a server that closes looks whether all was answered, in milliseconds. */
const CLOSING_MS = 5;

/** What `accept` answers when the system has no room for one more connection. */
const NO_ROOM_TO_ACCEPT: ReadonlySet<number> = new Set([ERRNO.EMFILE, ERRNO.ENFILE, ERRNO.ENOBUFS, ERRNO.ENOMEM]);

/** Pause before connections are accepted again when there is no room, in milliseconds. */
const ACCEPT_AGAIN_MS = 10;

/**
 * The bytes of an answer.
 *
 * @param room Where they are put when they fit.
 * @param headOnly To a `HEAD` request the body is only announced.
 */
export function answerBytes(
  { status, body, field }: HttpAnswer,
  keepAlive: boolean,
  headOnly = false,
  room: Uint8Array<ArrayBuffer> = NO_ROOM,
): Uint8Array<ArrayBuffer> {
  const further = field === undefined ? "" : `${field[0]}: ${field[1]}\r\n`;
  const size = ANSWER_HEAD + further.length + 3 * body.length;
  const bytes = size <= room.length ? room : new Uint8Array(size);
  const head = answerHead(status, body.length, keepAlive, further);
  let { written } = encoder.encodeInto(head + body, bytes);
  let headLength = head.length;
  // As good as every answer is ASCII, a byte a character.
  if (written !== headLength + body.length) {
    const content = encoder.encode(body);
    headLength = encoder.encodeInto(answerHead(status, content.length, keepAlive, further), bytes).written;
    bytes.set(content, headLength);
    written = headLength + content.length;
  }
  return bytes.subarray(0, headOnly ? headLength : written);
}

function answerHead(status: number, length: number, keepAlive: boolean, further: string): string {
  return `HTTP/1.1 ${status} ${REASONS[status] ?? "Unknown"}\r\ncontent-type: application/json\r\n` +
    `content-length: ${length}\r\n${further}${keepAlive ? "" : "connection: close\r\n"}\r\n`;
}

const NO_ROOM: Uint8Array<ArrayBuffer> = new Uint8Array(0);

/** Accepts connections on a listening socket, which belongs to the server from now on. */
export function serveHttp(c: Libc, listener: LoopbackListener, options: HttpServerOptions): HttpServer {
  return new Server(c, listener, options);
}

/** What the server does with a connection next. */
type Phase =
  /** Reads a request. */
  | "reading"
  /** The handler is at it; nothing is read meanwhile. */
  | "answering"
  /** The client has not taken all of the answer; nothing is read meanwhile. */
  | "writing"
  /** Takes what a refused client still sends. */
  | "draining"
  | "ended";

/** What the server knows of a connection. */
class Connection {
  readonly fd: number;
  phase: Phase = "reading";
  /** Events it is watched for; `null` while it is not watched. */
  watchedFor: number | null = null;
  /** When it is ended, on the clock of `performance.now()`. */
  deadline: number;
  /** Since when it waits for bytes of its client; `Infinity` while it does not. */
  waitingSince: number;

  /** What came of a request that is not whole, at its start; further room behind it. An idle connection has none. */
  buffer: Uint8Array<ArrayBuffer> | null = null;
  held = 0;
  /** Where the search for the end of the head goes on. */
  searched = 0;
  /** The head, once it is there, its length, and how its body is read. */
  head: RequestHead | null = null;
  headLength = 0;
  chunks: ChunkReader | null = null;

  /** The head of the last request and its bytes, when it is short: most clients send the same one again. */
  lastHead: RequestHead | null = null;
  lastBytes: Uint8Array = NO_CONTENT;

  /** What the client has not taken of an answer, and whether the connection is kept behind it. */
  unsent: Uint8Array<ArrayBuffer> = NO_ROOM;
  keptAfter = false;
  /** Bytes that were taken of a refused client. */
  drained = 0;

  constructor(fd: number, now: number, deadline: number) {
    this.fd = fd;
    this.waitingSince = now;
    this.deadline = deadline;
  }

  get isWaiting(): boolean {
    return this.waitingSince < Infinity;
  }

  /** Forgets a request that was read. */
  next(): void {
    this.searched = 0;
    this.head = null;
    this.chunks = null;
  }
}

class Server implements HttpServer {
  readonly #c: Libc;
  readonly #listener: number;
  readonly #epoll: number;
  readonly #options: HttpServerOptions;
  readonly #connections = new Map<number, Connection>();
  readonly #stopped: Promise<void>;
  readonly #tickMs: number;
  /** Handlers that have not answered yet. */
  #answering = 0;
  /** The time that all requests of one look at the kernel share. */
  #now = performance.now();
  /** The number they share, and the last one that was given. */
  #moment = 0;
  #lastMoment = 0;
  #nextTick = 0;
  /** When connections are accepted again, while there are no descriptors. */
  #acceptAgain = Infinity;
  /** What is to be done once the server has settled, and when that is at the latest. */
  #settle: (() => void) | null;
  #settleBy: number;
  #hasAnswered = false;
  /** When a server that closes ends what is not answered. */
  #closeBy = Infinity;
  #closing = false;

  /** Most requests come whole and are read where they arrive; answers are written where they are made. */
  readonly #arrived = new Uint8Array(MAX_HEAD);
  readonly #room = new Uint8Array(ANSWER);

  constructor(c: Libc, { fd }: LoopbackListener, options: HttpServerOptions) {
    this.#c = c;
    this.#listener = fd;
    this.#options = options;
    this.#settle = options.settled?.work ?? null;
    this.#settleBy = this.#settle === null ? Infinity : this.#now + options.settled!.afterMs;
    this.#tickMs = Math.max(10, Math.min(500, options.requestMs / 10));
    this.#epoll = c.epollCreate();
    c.epollControl(this.#epoll, EPOLL_CTL.ADD, fd, POLL.IN);
    this.#stopped = this.#run();
  }

  async close(graceMs: number): Promise<void> {
    this.#closing = true;
    this.#closeBy = performance.now() + graceMs;
    // Whoever waits elsewhere is told: a socket that listens no more has an event, over and over.
    this.#c.shutdownBoth(this.#listener);
    await this.#stopped;
  }

  async #run(): Promise<void> {
    const records = new Uint8Array(MAX_EVENTS * EPOLL_RECORD_BYTES);
    const view = new DataView(records.buffer);
    while (!this.#isOver()) {
      if (this.#closing) await new Promise((resolve) => setTimeout(resolve, CLOSING_MS));
      let count = await this.#c.epollWaitElsewhere(this.#epoll, records, this.#waitMs());
      const turnEnds = performance.now() + MAX_TURN_MS;
      for (;;) {
        this.#now = performance.now();
        this.#moment = ++this.#lastMoment;
        this.#serve(view, count);
        if (this.#now >= this.#nextTick) this.#tick();
        // Something else may be what an answer waits for.
        if (count <= 0 || this.#answering > 0 || this.#closing || this.#now >= turnEnds) break;
        count = this.#c.epollWait(this.#epoll, records, LINGER_HERE_MS);
      }
      if (this.#hasAnswered || this.#now >= this.#settleBy) this.#hasSettled();
    }
    for (const connection of this.#connections.values()) this.#end(connection);
    this.#c.close(this.#epoll);
    this.#c.close(this.#listener);
  }

  #hasSettled(): void {
    const settle = this.#settle;
    if (settle === null) return;
    this.#settle = null;
    this.#settleBy = Infinity;
    settle();
  }

  /** Whether a server that closes has nothing left to do. */
  #isOver(): boolean {
    if (!this.#closing) return false;
    this.#now = performance.now();
    for (const connection of this.#connections.values()) if (connection.isWaiting) this.#end(connection);
    return this.#connections.size === 0 || this.#now >= this.#closeBy;
  }

  /** How long the kernel may be waited for; a server that has settled and has no connections waits for ever. */
  #waitMs(): number {
    const next = Math.min(this.#connections.size === 0 ? Infinity : this.#nextTick, this.#acceptAgain, this.#settleBy);
    return next === Infinity ? -1 : Math.max(0, Math.ceil(next - performance.now()));
  }

  #serve(view: DataView, count: number): void {
    let isAsked = false;
    for (let at = 0; at < count * EPOLL_RECORD_BYTES; at += EPOLL_RECORD_BYTES) {
      const fd = view.getInt32(at + EPOLL_DATA_AT, true);
      if (fd === this.#listener) {
        isAsked = true;
        continue;
      }
      const connection = this.#connections.get(fd);
      if (connection !== undefined) this.#look(connection);
    }
    // Last: a new connection may bear the number of one that has just ended, whose event would be taken for its own.
    if (isAsked && !this.#closing) this.#accept();
    if (this.#now >= this.#acceptAgain) this.#listen(true);
  }

  #look(connection: Connection): void {
    switch (connection.phase) {
      case "reading":
        return this.#read(connection);
      case "writing":
        return this.#writeOn(connection);
      case "draining":
        return this.#drain(connection);
    }
  }

  /** Accepts those that wait to be, one at least. */
  #accept(): void {
    let hasMadeRoom = false;
    for (let accepted = 0; accepted < MAX_EVENTS;) {
      const fd = this.#c.accept(this.#listener);
      if (fd === -ERRNO.EAGAIN) break;
      if (NO_ROOM_TO_ACCEPT.has(-fd)) {
        // The kernel looks for room before it looks whether anybody is there. It tells again of whoever is.
        if (accepted > 0) break;
        if (hasMadeRoom || !this.#evict()) {
          this.#listen(false);
          break;
        }
        hasMadeRoom = true;
        continue;
      }
      accepted++;
      // Its client has gone again.
      if (fd < 0) continue;
      if (this.#connections.size >= this.#options.maxConnections) this.#evict();
      if (this.#connections.size === 0) this.#nextTick = this.#now + this.#tickMs;
      const connection = new Connection(fd, this.#now, this.#now + this.#options.requestMs);
      this.#connections.set(fd, connection);
      this.#watch(connection, POLL.IN);
    }
  }

  /** Is told of those that wait to be accepted; or is not for a moment, since there is no room for them. */
  #listen(isTold: boolean): void {
    this.#acceptAgain = isTold ? Infinity : this.#now + ACCEPT_AGAIN_MS;
    this.#c.epollControl(this.#epoll, EPOLL_CTL.MOD, this.#listener, isTold ? POLL.IN : 0);
  }

  /** Ends the connection whose client has been waited for longest. @returns Whether there was one. */
  #evict(): boolean {
    let longest: Connection | null = null;
    for (const connection of this.#connections.values()) {
      if (longest === null || connection.waitingSince < longest.waitingSince) longest = connection;
    }
    if (longest === null) return false;
    this.#end(longest);
    return true;
  }

  #tick(): void {
    this.#nextTick = this.#now + this.#tickMs;
    for (const connection of this.#connections.values()) {
      if (connection.deadline > this.#now) continue;
      if (connection.phase === "reading" && connection.held > 0) this.#refuse(connection, TOO_SLOW);
      else this.#end(connection);
    }
  }

  #end(connection: Connection): void {
    if (connection.phase === "ended") return;
    connection.phase = "ended";
    connection.buffer = null;
    this.#connections.delete(connection.fd);
    this.#c.close(connection.fd);
  }

  /** Has a connection watched for these events; for none, not even for its end. */
  #watch(connection: Connection, events: number | null): void {
    if (events === connection.watchedFor) return;
    const operation = events === null ? EPOLL_CTL.DEL : connection.watchedFor === null ? EPOLL_CTL.ADD : EPOLL_CTL.MOD;
    connection.watchedFor = events;
    const result = this.#c.epollControl(this.#epoll, operation, connection.fd, events ?? 0);
    // The kernel has no memory for it.
    if (result < 0) this.#end(connection);
  }

  /** Reads what is there of a connection, once: whoever sends much waits for the others. */
  #read(connection: Connection): void {
    const { buffer, held } = connection;
    if (buffer === null) {
      const count = this.#c.read(connection.fd, this.#arrived);
      if (count > 0) return this.#advance(connection, this.#arrived, count, true);
      if (count !== -ERRNO.EAGAIN) this.#end(connection);
      return;
    }
    const count = this.#c.read(connection.fd, buffer.subarray(held));
    if (count > 0) return this.#advance(connection, buffer, held + count, true);
    if (count !== -ERRNO.EAGAIN) this.#end(connection);
  }

  /**
   * Answers all requests that are whole, and keeps the rest.
   *
   * @param isNews Whether the kernel has just told of these bytes. What came behind them, or meanwhile, may have been sent
   * after others were answered.
   */
  #advance(connection: Connection, bytes: Uint8Array<ArrayBuffer>, held: number, isNews: boolean): void {
    let at = 0;
    while (at < held && connection.phase === "reading") {
      const view = at === 0 && held === bytes.length ? bytes : bytes.subarray(at, held);
      const used = this.#request(connection, view, isNews && at === 0 ? this.#moment : this.#lastMoment + 1);
      if (used === 0) break;
      at += used;
    }
    this.#keep(connection, bytes, at, held);
  }

  /** Keeps what is left of what came, with room for more of it. */
  #keep(connection: Connection, bytes: Uint8Array<ArrayBuffer>, at: number, held: number): void {
    const { phase } = connection;
    if (at === held || phase === "draining" || phase === "ended") {
      connection.held = 0;
      connection.buffer = null;
      return;
    }
    connection.held = held - at;
    const size = roomFor(connection, connection.held);
    if (bytes !== this.#arrived && size <= bytes.length) {
      if (at > 0) bytes.copyWithin(0, at, held);
      connection.buffer = bytes;
      return;
    }
    connection.buffer = new Uint8Array(size);
    connection.buffer.set(bytes.subarray(at, held));
  }

  /**
   * Reads a request and answers it.
   *
   * @param bytes What came, from its first byte.
   * @returns Its length; 0 while it is not whole, or when it was refused.
   */
  #request(connection: Connection, bytes: Uint8Array<ArrayBuffer>, moment: number): number {
    if (connection.head === null) {
      const { lastHead, lastBytes } = connection;
      const isSame = lastHead !== null && startsWith(bytes, lastBytes);
      const end = isSame ? lastBytes.length : headEnd(bytes, connection.searched);
      if (end < 0) {
        if (bytes.length >= MAX_HEAD) this.#refuse(connection, HEAD_TOO_LARGE);
        connection.searched = Math.max(0, bytes.length - 3);
        return 0;
      }
      const head = isSame ? lastHead : parseRequestHead(latin1.decode(bytes.subarray(0, end)));
      if ("status" in head) {
        this.#refuse(connection, head);
        return 0;
      }
      if (!isSame) {
        connection.lastHead = end <= MAX_KEPT_HEAD ? head : null;
        connection.lastBytes = end <= MAX_KEPT_HEAD ? bytes.slice(0, end) : NO_CONTENT;
      }
      connection.head = head;
      connection.headLength = end;
      if (
        head.body !== 0 && bytes.length === end && head.fields.get("expect")?.toLowerCase() === "100-continue" &&
        !this.#continues(connection)
      ) return 0;
    }
    const { head, headLength } = connection;
    let content: Uint8Array = NO_CONTENT;
    let used = headLength;
    if (head.body === "chunked") {
      const chunks = connection.chunks ??= new ChunkReader(headLength);
      const state = chunks.read(bytes);
      if (state === "more") {
        if (bytes.length >= headLength + MAX_BODY + MAX_CHUNK_OVERHEAD) this.#refuse(connection, BODY_TOO_LARGE);
        return 0;
      }
      if (state !== "whole") {
        this.#refuse(connection, state);
        return 0;
      }
      content = chunks.content(bytes);
      used = chunks.end;
    } else if (head.body > 0) {
      used += head.body;
      if (bytes.length < used) return 0;
      content = bytes.subarray(headLength, used);
    }
    connection.next();
    this.#lastMoment = Math.max(this.#lastMoment, moment);
    const { method, target, fields, keepAlive, body } = head;
    const answer = this.#options.handler({ method, target, fields, keepAlive, body, content, moment });
    if (answer instanceof Promise) this.#answerLater(connection, head, answer);
    else this.#answer(connection, head, answer);
    return used;
  }

  /** Tells a client to send its body; an answer that it does not take goes to nobody. */
  #continues(connection: Connection): boolean {
    if (this.#c.write(connection.fd, CONTINUE) === CONTINUE.length) return true;
    this.#end(connection);
    return false;
  }

  /** Not watched meanwhile: a client that goes again and again must not have more than its share of answers made. */
  #answerLater(connection: Connection, head: RequestHead, answer: Promise<HttpAnswer>): void {
    connection.phase = "answering";
    connection.waitingSince = Infinity;
    connection.deadline = Infinity;
    this.#watch(connection, null);
    this.#answering++;
    const answered = (answer: HttpAnswer | null) => {
      this.#answering--;
      if (connection.phase !== "answering") return;
      this.#now = performance.now();
      if (answer === null) return this.#end(connection);
      this.#answer(connection, head, answer);
      this.#goOn(connection);
    };
    answer.then(answered, () => answered(null));
  }

  #answer(connection: Connection, head: RequestHead, answer: HttpAnswer): void {
    this.#hasAnswered = true;
    const isKept = head.keepAlive && !this.#closing;
    const bytes = answerBytes(answer, isKept, head.method === "HEAD", this.#room);
    this.#write(connection, bytes, isKept);
  }

  #write(connection: Connection, bytes: Uint8Array<ArrayBuffer>, isKept: boolean): void {
    const written = this.#c.write(connection.fd, bytes);
    if (written < 0 && written !== -ERRNO.EAGAIN) return this.#end(connection);
    if (written === bytes.length) return this.#written(connection, isKept);
    connection.phase = "writing";
    connection.unsent = bytes.slice(Math.max(written, 0));
    connection.keptAfter = isKept;
    connection.deadline = this.#now + this.#options.requestMs;
    connection.waitingSince = Infinity;
    this.#watch(connection, POLL.OUT);
  }

  #written(connection: Connection, isKept: boolean): void {
    if (!isKept) return this.#end(connection);
    connection.phase = "reading";
    connection.deadline = this.#now + this.#options.requestMs;
    connection.waitingSince = this.#now;
  }

  #writeOn(connection: Connection): void {
    const { unsent, keptAfter } = connection;
    const written = this.#c.write(connection.fd, unsent);
    if (written < 0) {
      if (written !== -ERRNO.EAGAIN) this.#end(connection);
      return;
    }
    connection.unsent = unsent.subarray(written);
    if (connection.unsent.length > 0) return;
    connection.unsent = NO_ROOM;
    this.#written(connection, keptAfter);
    this.#goOn(connection);
  }

  /** Goes on with what came while no request was read. */
  #goOn(connection: Connection): void {
    const { buffer, held } = connection;
    if (connection.phase === "reading" && buffer !== null) this.#advance(connection, buffer, held, false);
    const { phase } = connection;
    if (phase === "reading" || phase === "draining") this.#watch(connection, POLL.IN);
  }

  /**
   * Refuses what was not read to its end. What still comes is taken for a moment: closing with unread bytes would take the
   * answer away from its reader.
   */
  #refuse(connection: Connection, fault: RequestFault): void {
    const bytes = answerBytes(faultAnswer(fault), false, false, this.#room);
    // It fits into the system's buffer or is not worth waiting for.
    if (this.#c.write(connection.fd, bytes) !== bytes.length || this.#c.shutdownWrite(connection.fd) < 0) {
      return this.#end(connection);
    }
    connection.phase = "draining";
    connection.deadline = this.#now + LINGER_MS;
    connection.buffer = null;
    connection.held = 0;
  }

  #drain(connection: Connection): void {
    const count = this.#c.read(connection.fd, this.#arrived);
    if (count === -ERRNO.EAGAIN) return;
    connection.drained += Math.max(count, 0);
    if (count <= 0 || connection.drained >= MAX_LINGER_BYTES) this.#end(connection);
  }
}

function startsWith(bytes: Uint8Array, start: Uint8Array): boolean {
  if (bytes.length < start.length) return false;
  // A difference is mostly near the end, in a length or an id.
  for (let at = start.length - 1; at >= 0; at--) if (bytes[at] !== start[at]) return false;
  return true;
}

/** Room for what came of a request and is to come. */
function roomFor({ head, headLength }: Connection, held: number): number {
  if (head === null) return Math.max(FIRST_BUFFER, Math.min(2 * held, MAX_HEAD), held);
  if (head.body === "chunked") return Math.min(2 * held, headLength + MAX_BODY + MAX_CHUNK_OVERHEAD);
  return headLength + head.body;
}

const NO_CONTENT: Uint8Array = new Uint8Array();

function faultAnswer({ status, message }: RequestFault): HttpAnswer {
  return { status, body: JSON.stringify({ error: message }) };
}
