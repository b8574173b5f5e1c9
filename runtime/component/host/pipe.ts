/**
 * The host's end of its pipe: frames are read and written synchronously, and everything a guest waits for is a frame
 * (spec components 3.9). There is no event loop: while a guest waits, the process sits in a read.
 *
 * @module
 */
import {
  encodeMessage,
  type Header,
  MAX_HOST_MESSAGE_BYTES,
  type Message,
  MessageDecoder,
  MessageType,
} from "../frames.ts";

/** The runtime's answer to a request, `error` set when it failed. */
export interface Reply {
  readonly header: Header;
  readonly body: Uint8Array<ArrayBuffer>;
}

/** Left for the header in the longest message. */
const HEADER_ROOM_BYTES = 64 << 10;

/** The runtime is gone: nothing is left to do. */
export class PipeClosed extends Error {
  override readonly name = "PipeClosed";
}

/** Milliseconds on a clock that never goes back. */
export function monotonicMs(): number {
  return performance.now();
}

/** What the pipe hands the messages of streams to, by request id. */
export type MessageHandler = (message: Message) => void;

/** The pipe to the runtime. One per process. */
export class Pipe {
  readonly #decoder = new MessageDecoder(Number.MAX_SAFE_INTEGER);
  readonly #chunk = new Uint8Array(256 << 10);
  readonly #handlers = new Map<number, MessageHandler>();
  #nextId = 1;
  #reply: { readonly id: number; message: Message | null } | null = null;
  #timer: { readonly id: number; readonly at: number } | null = null;

  /**
   * Sends a message without an answer.
   *
   * @throws {RangeError} when it is longer than the runtime takes; for a guest that is a trap.
   */
  send(type: number, id: number, header?: Header, body?: Uint8Array): void {
    if (body !== undefined && body.length > MAX_HOST_MESSAGE_BYTES - HEADER_ROOM_BYTES) {
      throw new RangeError(`a value of ${body.length} bytes is longer than ${MAX_HOST_MESSAGE_BYTES}`);
    }
    const bytes = encodeMessage(type, id, header, body);
    let written = 0;
    while (written < bytes.length) written += Deno.stdout.writeSync(bytes.subarray(written));
  }

  /** Waits for the next message of whatever kind. */
  receive(): Message {
    for (;;) {
      const message = this.#decoder.next();
      if (message !== null) return message;
      const count = Deno.stdin.readSync(this.#chunk);
      if (count === null) throw new PipeClosed("the runtime closed the pipe");
      this.#decoder.push(this.#chunk.subarray(0, count));
    }
  }

  /** A request id never used before. */
  takeId(): number {
    return this.#nextId++;
  }

  /** Hands further messages with this id to `handler`, until it is `undefined`. */
  handle(id: number, handler: MessageHandler | undefined): void {
    if (handler === undefined) this.#handlers.delete(id);
    else this.#handlers.set(id, handler);
  }

  /** Sends a request and waits for its answer; messages of streams are taken in meanwhile. */
  request(op: string, args: Header, body?: Uint8Array): Reply {
    const id = this.takeId();
    const waiting = { id, message: null as Message | null };
    this.#reply = waiting;
    this.send(MessageType.request, id, { op, ...args }, body);
    while (waiting.message === null) this.#take(this.receive());
    this.#reply = null;
    return waiting.message;
  }

  /**
   * Waits until at least one message came in or the time is reached.
   *
   * @param until On the clock of {@linkcode monotonicMs}; `Infinity`: no limit.
   */
  waitUntil(until: number): void {
    if (until !== Infinity) {
      const left = until - monotonicMs();
      if (left <= 0) return;
      // An earlier timer that still runs wakes the guest early, which is allowed; it then asks again.
      if (this.#timer === null || this.#timer.at > until) {
        const id = this.takeId();
        this.#timer = { id, at: until };
        this.send(MessageType.timer, id, { ms: Math.ceil(left) });
      }
    }
    this.#take(this.receive());
  }

  /** Forgets the streams and timers of the instance that ended. */
  reset(): void {
    this.#handlers.clear();
    this.forgetTimer();
  }

  /** The runtime ends a timer with the call that asked for it; an instance that stays asks anew. */
  forgetTimer(): void {
    this.#timer = null;
  }

  #take(message: Message): void {
    if (message.type === MessageType.reply && this.#reply?.id === message.id) {
      this.#reply.message = message;
    } else if (message.type === MessageType.wake) {
      if (this.#timer?.id === message.id) this.#timer = null;
    } else {
      this.#handlers.get(message.id)?.(message);
    }
  }

  /** Takes in a message that came while no guest ran: the tail of streams that ended with their instance. */
  discard(message: Message): void {
    this.#take(message);
  }
}
