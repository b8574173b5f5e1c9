/**
 * `wasi:io` 0.2 on the host's side, synchronous: error, poll and streams (spec components 3.1).
 *
 * @module
 */
import { monotonicMs, type Pipe } from "./pipe.ts";
import { Refusal } from "./refusal.ts";

/** `wasi:io/error.error`. The payload is what an interface recovers from it, e.g. a file error code. */
export class IoError {
  readonly #message: string;
  /** Code by which `filesystem-error-code` and `http-error-code` recognise it. */
  readonly payload: IoErrorPayload;

  constructor(message: string, payload: IoErrorPayload = {}) {
    this.#message = message;
    this.payload = payload;
  }

  toDebugString(): string {
    return this.#message;
  }

  [Symbol.dispose](): void {}
}

/** What made an {@linkcode IoError}. */
export interface IoErrorPayload {
  readonly file?: string;
  readonly http?: { readonly tag: string; readonly val?: unknown };
}

/** `wasi:io/streams.stream-error`. */
type StreamError = { readonly tag: "closed" } | { readonly tag: "last-operation-failed"; readonly val: IoError };

/** The `err` of an operation on a closed stream. */
export function closed(): Refusal {
  return new Refusal({ tag: "closed" } satisfies StreamError);
}

/** The `err` of an operation that failed. */
export function failed(message: string, payload?: IoErrorPayload): Refusal {
  return new Refusal({ tag: "last-operation-failed", val: new IoError(message, payload) } satisfies StreamError);
}

/** When a pollable is ready. */
export interface Readiness {
  ready(): boolean;
  /** Time on the clock of `monotonicMs` at which it becomes ready by itself; `Infinity`: only by a message. */
  readonly until: number;
}

/** Always ready: what it waits for is asked of the runtime when it is done. */
export const ALWAYS_READY: Readiness = { ready: () => true, until: Infinity };

let pipe: Pipe;

/** Binds waiting to the process's pipe. Called once, before any guest. */
export function bindStreams(to: Pipe): void {
  pipe = to;
}

/** `wasi:io/poll.pollable`. */
export class Pollable {
  readonly readiness: Readiness;

  constructor(readiness: Readiness) {
    this.readiness = readiness;
  }

  ready(): boolean {
    return this.readiness.ready();
  }

  block(): void {
    blockOn(this.readiness);
  }

  [Symbol.dispose](): void {}
}

function blockOn(readiness: Readiness): void {
  while (!readiness.ready()) pipe.waitUntil(readiness.until);
}

/** `wasi:io/poll.poll`: the indexes of the ready ones; waits until there is one. */
export function poll(list: readonly Pollable[]): Uint32Array {
  if (list.length === 0) throw new TypeError("poll of an empty list");
  for (;;) {
    const ready: number[] = [];
    let until = Infinity;
    for (const [index, pollable] of list.entries()) {
      if (pollable.readiness.ready()) ready.push(index);
      else until = Math.min(until, pollable.readiness.until);
    }
    if (ready.length > 0) return Uint32Array.from(ready);
    pipe.waitUntil(until);
  }
}

/** A pollable that is ready at a time. */
export function pollableAt(until: number): Pollable {
  return new Pollable({ ready: () => monotonicMs() >= until, until });
}

/** Where the bytes of an input stream come from. */
export interface Source extends Readiness {
  /** Up to `max` bytes, none when there are none yet. @throws {Refusal} with a stream error */
  read(max: number): Uint8Array;
  close?(): void;
}

/** Most bytes one read or write moves; longer ones are cut, as the interface allows. */
export const MAX_TRANSFER_BYTES = 256 << 10;

function clampLength(length: bigint): number {
  return length > BigInt(MAX_TRANSFER_BYTES) ? MAX_TRANSFER_BYTES : Number(length);
}

/** `wasi:io/streams.input-stream`. */
export class InputStream {
  readonly #source: Source;

  constructor(source: Source) {
    this.#source = source;
  }

  read(length: bigint): Uint8Array {
    return this.#source.read(clampLength(length));
  }

  blockingRead(length: bigint): Uint8Array {
    if (length === 0n) return this.read(length);
    for (;;) {
      const bytes = this.read(length);
      if (bytes.length > 0) return bytes;
      blockOn(this.#source);
    }
  }

  skip(length: bigint): bigint {
    return BigInt(this.read(length).length);
  }

  blockingSkip(length: bigint): bigint {
    return BigInt(this.blockingRead(length).length);
  }

  subscribe(): Pollable {
    return new Pollable(this.#source);
  }

  [Symbol.dispose](): void {
    this.#source.close?.();
  }
}

/** Where the bytes of an output stream go. */
export interface Sink extends Readiness {
  /** Bytes that may be written now; 0: not ready. @throws {Refusal} with a stream error */
  room(): number;
  /** Takes all of `bytes`, which are no more than `room` allowed. @throws {Refusal} with a stream error */
  write(bytes: Uint8Array): void;
  /** Ready again when everything written has gone out. */
  flush?(): void;
  close?(): void;
}

/** `wasi:io/streams.output-stream`. */
export class OutputStream {
  readonly #sink: Sink;

  constructor(sink: Sink) {
    this.#sink = sink;
  }

  checkWrite(): bigint {
    return BigInt(this.#sink.room());
  }

  write(bytes: Uint8Array): void {
    // A write beyond what `check-write` allowed is a trap by the interface.
    if (bytes.length > this.#sink.room()) throw new TypeError("write beyond what check-write allowed");
    this.#sink.write(bytes);
  }

  blockingWriteAndFlush(bytes: Uint8Array): void {
    this.#writeAll(bytes);
    this.blockingFlush();
  }

  #writeAll(bytes: Uint8Array): void {
    for (let at = 0; at < bytes.length;) {
      let room = this.#sink.room();
      while (room === 0) {
        blockOn(this.#sink);
        room = this.#sink.room();
      }
      const part = bytes.subarray(at, at + room);
      this.#sink.write(part);
      at += part.length;
    }
  }

  flush(): void {
    this.#sink.room();
    this.#sink.flush?.();
  }

  blockingFlush(): void {
    this.flush();
    // Also reports an error that came up while flushing.
    while (this.#sink.room() === 0) blockOn(this.#sink);
  }

  writeZeroes(length: bigint): void {
    this.write(new Uint8Array(checkedLength(length)));
  }

  blockingWriteZeroesAndFlush(length: bigint): void {
    this.blockingWriteAndFlush(new Uint8Array(checkedLength(length)));
  }

  splice(source: InputStream, length: bigint): bigint {
    const room = this.#sink.room();
    if (room === 0) return 0n;
    const bytes = source.read(length < BigInt(room) ? length : BigInt(room));
    if (bytes.length > 0) this.#sink.write(bytes);
    return BigInt(bytes.length);
  }

  blockingSplice(source: InputStream, length: bigint): bigint {
    while (this.#sink.room() === 0) blockOn(this.#sink);
    const room = BigInt(this.#sink.room());
    const bytes = source.blockingRead(length < room ? length : room);
    if (bytes.length > 0) this.#sink.write(bytes);
    return BigInt(bytes.length);
  }

  subscribe(): Pollable {
    return new Pollable(this.#sink);
  }

  [Symbol.dispose](): void {
    this.#sink.close?.();
  }
}

function checkedLength(length: bigint): number {
  if (length > BigInt(MAX_TRANSFER_BYTES)) throw new TypeError("more zeroes than check-write allowed");
  return Number(length);
}

/** An input that is at its end. */
export function emptyInput(): InputStream {
  return new InputStream({
    ...ALWAYS_READY,
    read() {
      throw closed();
    },
  });
}
