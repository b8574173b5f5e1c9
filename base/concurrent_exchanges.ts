/**
 * Many requests to doors at once, by the kernel's own calls: `mur ps` asks every door on the machine, and a few promises for
 * each connection take longer than the doors do.
 *
 * What is sent, how answers are read, how long they are waited for and how failures are told is that of `plain_http.ts`.
 *
 * @module
 */
import { descriptorLimit } from "./descriptor_limit.ts";
import { ExchangePatience } from "./exchange_patience.ts";
import { HttpError } from "./http_error.ts";
import { ResponseReader } from "./http_response.ts";
import { type IpAddress, parseIpAddress } from "./ip_address.ts";
import { EPOLL, EPOLL_CTL, EPOLL_DATA_AT, EPOLL_RECORD_BYTES, ERRNO, type Libc } from "./libc.ts";
import {
  connectedHosts,
  connectFailure,
  type ExchangeOutcome,
  exchangeOutcome,
  hostAndPort,
  type PlainRequest,
  readFailure,
  requestBytes,
} from "./plain_http.ts";
import { ADDRESS_FAMILY, socketAddress } from "./socket_address.ts";

/** A request that nobody gives up. */
export type ExchangeRequest = Omit<PlainRequest, "signal">;

/** Bytes read at once. */
const READ_SIZE = 65_536;

/** Reads of one connection before another one is looked at. */
const MAX_READS = 4;

/** How long all are looked at without a look at anything else of this program, in milliseconds. */
const MAX_TURN_MS = 4;

/** Descriptors that are left to Deno and to whatever else is under way; of the others half is taken. */
const SPARE_DESCRIPTORS = 40;

/** Events that are taken at once. */
const MAX_EVENTS = 256;

/** What the kernel answers while there is no room for one more connection. */
const NO_ROOM: ReadonlySet<number> = new Set([ERRNO.EMFILE, ERRNO.ENFILE, ERRNO.ENOBUFS, ERRNO.ENOMEM]);

/** One request, and the connection it goes over. */
interface Exchange {
  readonly place: number;
  readonly request: ExchangeRequest;
  readonly where: string;
  readonly patience: ExchangePatience;
  /** Where the host is still looked for. */
  readonly addresses: IpAddress[];
  /** Why the first address was none. */
  refusal: HttpError | null;
  fd: number;
  /** What `connect` answered. */
  connecting: number;
  isConnected: boolean;
  /** Why nothing more can be sent, as an error number; 0 while there is no reason. */
  broken: number;
  /** What is still to be sent. */
  rest: Uint8Array<ArrayBuffer>;
  reader: ResponseReader | null;
}

/** What the kernel answered, as Deno would throw it. */
function systemError(c: Libc, errno: number): Error {
  const message = `${c.errorText(errno)} (os error ${errno})`;
  switch (errno) {
    case ERRNO.ECONNREFUSED:
      return new Deno.errors.ConnectionRefused(message);
    case ERRNO.ECONNRESET:
      return new Deno.errors.ConnectionReset(message);
    case ERRNO.ECONNABORTED:
      return new Deno.errors.ConnectionAborted(message);
    case ERRNO.EPIPE:
      return new Deno.errors.BrokenPipe(message);
    default:
      return new Error(message);
  }
}

/** Exchanges that are under way together. */
class Exchanges implements Disposable {
  readonly #c: Libc;
  readonly #epoll: number;
  readonly #maxBytes: number;
  /** What became of each, by its place. */
  readonly outcomes: (ExchangeOutcome | Promise<ExchangeOutcome>)[] = [];
  /** Those that have no connection yet, the next one last. */
  #waiting: Exchange[] = [];
  /** Those with a connection, by its descriptor. */
  readonly #open = new Map<number, Exchange>();
  readonly #mostOpen = Math.max(1, Math.floor((descriptorLimit() - SPARE_DESCRIPTORS) / 2));
  /** None of them is over earlier than that, on the clock of `performance.now()`. */
  #nearest = Infinity;
  readonly #room = new Uint8Array(READ_SIZE);
  readonly #events = new Uint8Array(MAX_EVENTS * EPOLL_RECORD_BYTES);
  readonly #view = new DataView(this.#events.buffer);

  constructor(c: Libc, epoll: number, maxBytes: number) {
    this.#c = c;
    this.#epoll = epoll;
    this.#maxBytes = maxBytes;
  }

  [Symbol.dispose](): void {
    for (const fd of this.#open.keys()) this.#c.close(fd);
    this.#c.close(this.#epoll);
  }

  async run(requests: readonly ExchangeRequest[]): Promise<void> {
    const addresses = new Map<string, readonly IpAddress[] | null>();
    for (let place = requests.length - 1; place >= 0; place--) {
      const request = requests[place]!;
      let found = addresses.get(request.host);
      if (found === undefined) addresses.set(request.host, found = addressesOf(request.host));
      // A name is looked up by Deno.
      if (found === null) this.outcomes[place] = exchangeOutcome(request, this.#maxBytes);
      else this.#add(place, request, found);
    }
    let turnEnds = performance.now() + MAX_TURN_MS;
    for (;;) {
      this.#connect();
      if (this.#open.size === 0) return;
      // What follows closely on what came needs no other thread, as long as nothing else is kept waiting for it.
      let count = performance.now() < turnEnds ? this.#c.epollWait(this.#epoll, this.#events, 0) : 0;
      if (count === 0) {
        const patience = Math.max(0, Math.ceil(this.#nearest - performance.now()));
        count = await this.#c.epollWaitElsewhere(this.#epoll, this.#events, patience);
        turnEnds = performance.now() + MAX_TURN_MS;
      }
      for (let index = 0; index < count; index++) this.#tell(index * EPOLL_RECORD_BYTES);
      this.#expire();
    }
  }

  #add(place: number, request: ExchangeRequest, addresses: readonly IpAddress[]): void {
    const where = hostAndPort(request.host, request.port);
    let rest: Uint8Array<ArrayBuffer>;
    try {
      rest = requestBytes(request);
    } catch (error) {
      this.outcomes[place] = httpError(error);
      return;
    }
    this.#waiting.push({
      place,
      request,
      where,
      patience: new ExchangePatience(where, request.deadline),
      addresses: [...addresses],
      refusal: null,
      fd: -1,
      connecting: 0,
      isConnected: false,
      broken: 0,
      rest,
      reader: null,
    });
  }

  /** Connects as many as there is room for. */
  #connect(): void {
    while (this.#waiting.length > 0 && this.#open.size < this.#mostOpen) {
      const exchange = this.#waiting.at(-1)!;
      const address = exchange.addresses[0]!;
      const fd = this.#c.tcpSocket(ADDRESS_FAMILY[address.version]);
      // One that ends makes room; when there is none, it is told.
      if (NO_ROOM.has(-fd) && this.#open.size > 0) return;
      this.#waiting.pop();
      // A second address gets what is left of the time.
      if (exchange.refusal === null) exchange.patience.awaitConnection(exchange.request.connectMs);
      exchange.addresses.shift();
      if (fd < 0) {
        this.#unconnected(exchange, -fd);
        continue;
      }
      exchange.fd = fd;
      this.#open.set(fd, exchange);
      exchange.connecting = this.#c.connect(fd, socketAddress(address, exchange.request.port));
      this.#nearest = Math.min(this.#nearest, exchange.patience.until);
      this.#watch(exchange, EPOLL_CTL.ADD);
    }
  }

  /** Tells an exchange what a record says of its connection. */
  #tell(at: number): void {
    const exchange = this.#open.get(this.#view.getInt32(at + EPOLL_DATA_AT, true));
    if (exchange === undefined) return;
    const events = this.#view.getUint32(at, true);
    if (!exchange.isConnected) {
      if ((events & (EPOLL.ERR | EPOLL.HUP)) !== 0) {
        const errno = this.#c.socketError(exchange.fd);
        // One that was never under way is hung up without an error.
        return this.#unconnected(exchange, errno > 0 ? errno : -exchange.connecting);
      }
      exchange.isConnected = true;
      this.#awaitBytes(exchange);
    }
    if (exchange.rest.length > 0 && (events & EPOLL.OUT) !== 0) this.#send(exchange);
    if ((events & ~EPOLL.OUT) !== 0) this.#receive(exchange);
  }

  /** Sends what the kernel takes. A refusal may come before all was taken, and is read then. */
  #send(exchange: Exchange): void {
    const count = this.#c.write(exchange.fd, exchange.rest);
    if (count > 0) exchange.rest = exchange.rest.subarray(count);
    // The kernel tells an error once, to whoever asks first, and from then on that nothing more is taken.
    else if (count !== -ERRNO.EAGAIN && count !== -ERRNO.EPIPE) exchange.broken = -count;
  }

  #receive(exchange: Exchange): void {
    const reader = exchange.reader ??= new ResponseReader(exchange.where);
    const { deadline = Infinity } = exchange.request;
    // The kernel tells again of what comes later, and of nothing that is here now, an end included.
    for (let reads = 0; reads < MAX_READS && performance.now() < deadline; reads++) {
      const count = this.#c.read(exchange.fd, this.#room);
      if (count === -ERRNO.EAGAIN) return this.#awaitBytes(exchange);
      const errno = count < 0 ? -count : count === 0 ? exchange.broken : 0;
      if (errno > 0) return this.#settle(exchange, readFailure(systemError(this.#c, errno), exchange.where));
      // The room is used again.
      if (count > 0) reader.push(this.#room.slice(0, count));
      else reader.end();
      try {
        const head = reader.head();
        const text = head === null ? null : reader.text(this.#maxBytes);
        if (text !== null) return this.#settle(exchange, { ...head!, text });
      } catch (error) {
        return this.#settle(exchange, httpError(error));
      }
    }
    this.#awaitBytes(exchange);
    // Watched anew, it is told of what is still here.
    this.#watch(exchange, EPOLL_CTL.MOD);
  }

  #watch(exchange: Exchange, operation: number): void {
    const result = this.#c.epollControl(this.#epoll, operation, exchange.fd, EPOLL.IN | EPOLL.OUT | EPOLL.ET);
    if (result < 0) this.#settle(exchange, connectFailure(systemError(this.#c, -result), exchange.where));
  }

  #awaitBytes(exchange: Exchange): void {
    exchange.patience.awaitBytes(exchange.request.silenceMs);
    this.#nearest = Math.min(this.#nearest, exchange.patience.until);
  }

  /** A connection did not come about. */
  #unconnected(exchange: Exchange, errno: number): void {
    const failure = connectFailure(systemError(this.#c, errno), exchange.where);
    // A machine without IPv6 has its own words for the same; the first refusal is the one to tell.
    exchange.refusal ??= failure;
    if (failure.kind !== "connection-refused" || exchange.addresses.length === 0) {
      return this.#settle(exchange, exchange.refusal);
    }
    this.#close(exchange);
    this.#waiting.push(exchange);
  }

  #settle(exchange: Exchange, outcome: ExchangeOutcome): void {
    this.#close(exchange);
    this.outcomes[exchange.place] = outcome;
  }

  /** What is closed is watched no more. */
  #close(exchange: Exchange): void {
    if (exchange.fd < 0) return;
    this.#c.close(exchange.fd);
    this.#open.delete(exchange.fd);
    exchange.fd = -1;
  }

  #expire(): void {
    const now = performance.now();
    if (now < this.#nearest) return;
    this.#nearest = Infinity;
    for (const exchange of this.#open.values()) {
      if (exchange.patience.until <= now) this.#settle(exchange, exchange.patience.late());
      else this.#nearest = Math.min(this.#nearest, exchange.patience.until);
    }
  }
}

/** The addresses of a host; `null` for a name. */
function addressesOf(host: string): readonly IpAddress[] | null {
  const addresses = connectedHosts(host).map(parseIpAddress);
  return addresses.every((address) => address !== null) ? addresses : null;
}

function httpError(error: unknown): HttpError {
  if (error instanceof HttpError) return error;
  throw error;
}

/**
 * Sends all requests and reads all of their answers, each as `exchangeOutcome` of `plain_http.ts` does.
 *
 * @param maxBytes How long the body of each may be.
 * @returns What became of each, in their order.
 */
export async function exchangeConcurrently(
  c: Libc,
  requests: readonly ExchangeRequest[],
  maxBytes: number,
): Promise<readonly ExchangeOutcome[]> {
  const epoll = c.epollCreate();
  // Deno has one of its own, and the same lack of descriptors to tell.
  if (epoll < 0) return await Promise.all(requests.map((request) => exchangeOutcome(request, maxBytes)));
  using exchanges = new Exchanges(c, epoll, maxBytes);
  await exchanges.run(requests);
  return await Promise.all(exchanges.outcomes);
}
