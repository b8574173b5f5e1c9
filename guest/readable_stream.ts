/**
 * `ReadableStream`, the part that reading and making bodies needs (WHATWG Streams 4): a queue with `start`, `pull` and
 * `cancel`, one reader at a time, `for await`. No byte streams, no pipes, no transforms.
 *
 * @module
 */

/** What feeds a stream. */
export interface StreamSource<T> {
  start?(controller: StreamController<T>): void | PromiseLike<void>;
  /** Called when someone waits and the queue is empty. */
  pull?(controller: StreamController<T>): void | PromiseLike<void>;
  cancel?(reason: unknown): void | PromiseLike<void>;
}

/** The source's side. */
export interface StreamController<T> {
  enqueue(chunk: T): void;
  close(): void;
  error(reason?: unknown): void;
}

interface Waiting<T> {
  readonly resolve: (result: { done: false; value: T } | { done: true; value: undefined }) => void;
  readonly reject: (reason: unknown) => void;
}

/** The reader's side; made by {@linkcode ReadableStream.getReader}. */
export interface StreamReader<T> {
  read(): Promise<{ done: false; value: T } | { done: true; value: undefined }>;
  cancel(reason?: unknown): Promise<void>;
  releaseLock(): void;
}

/** The global `ReadableStream`. */
export class ReadableStream<T> {
  readonly #source: StreamSource<T>;
  readonly #controller: StreamController<T>;
  #queue: T[] = [];
  #waiting: Waiting<T>[] = [];
  #end: { readonly failed: boolean; readonly reason: unknown } | null = null;
  #pulling = false;
  #starting: PromiseLike<void>;
  #reader: StreamReader<T> | null = null;

  constructor(source: StreamSource<T> = {}) {
    this.#source = source;
    this.#controller = {
      enqueue: (chunk) => {
        if (this.#end !== null) throw new TypeError("the stream is closed");
        const waiting = this.#waiting.shift();
        if (waiting !== undefined) waiting.resolve({ done: false, value: chunk });
        else this.#queue.push(chunk);
      },
      close: () => this.#finish(false, undefined),
      error: (reason) => this.#finish(true, reason),
    };
    this.#starting = Promise.resolve(source.start?.(this.#controller));
    this.#starting.then(undefined, (reason) => this.#finish(true, reason));
  }

  /** A stream of what an iterable gives. */
  static from<T>(items: AsyncIterable<T> | Iterable<T>): ReadableStream<T> {
    const iterator = Symbol.asyncIterator in items ? items[Symbol.asyncIterator]() : items[Symbol.iterator]();
    return new ReadableStream<T>({
      async pull(controller) {
        const next = await iterator.next();
        if (next.done === true) controller.close();
        else controller.enqueue(await next.value);
      },
      async cancel(reason) {
        await iterator.return?.(reason);
      },
    });
  }

  get locked(): boolean {
    return this.#reader !== null;
  }

  getReader(): StreamReader<T> {
    if (this.#reader !== null) throw new TypeError("the stream is already being read");
    const reader: StreamReader<T> = {
      read: () => {
        if (this.#reader !== reader) return Promise.reject(new TypeError("the reader was released"));
        return this.#read();
      },
      cancel: (reason) => this.#cancel(reason),
      releaseLock: () => {
        if (this.#reader === reader) this.#reader = null;
      },
    };
    this.#reader = reader;
    return reader;
  }

  cancel(reason?: unknown): Promise<void> {
    if (this.#reader !== null) return Promise.reject(new TypeError("the stream is being read; cancel its reader"));
    return this.#cancel(reason);
  }

  async *values(): AsyncGenerator<T, void, undefined> {
    const reader = this.getReader();
    let ended = false;
    try {
      for (;;) {
        const next = await reader.read();
        if (next.done) {
          ended = true;
          return;
        }
        yield next.value;
      }
    } catch (error) {
      ended = true;
      throw error;
    } finally {
      // A loop that is left early gives the connection back.
      if (!ended) await reader.cancel();
      reader.releaseLock();
    }
  }

  [Symbol.asyncIterator](): AsyncGenerator<T, void, undefined> {
    return this.values();
  }

  #read(): Promise<{ done: false; value: T } | { done: true; value: undefined }> {
    if (this.#queue.length > 0) return Promise.resolve({ done: false, value: this.#queue.shift() as T });
    if (this.#end !== null) {
      return this.#end.failed ? Promise.reject(this.#end.reason) : Promise.resolve({ done: true, value: undefined });
    }
    return new Promise((resolve, reject) => {
      this.#waiting.push({ resolve, reject });
      this.#pull();
    });
  }

  #pull(): void {
    if (this.#pulling || this.#source.pull === undefined) return;
    this.#pulling = true;
    this.#starting.then(() => this.#source.pull?.(this.#controller)).then(() => {
      this.#pulling = false;
      if (this.#waiting.length > 0 && this.#end === null) this.#pull();
    }, (reason) => {
      this.#pulling = false;
      this.#finish(true, reason);
    });
  }

  #finish(failed: boolean, reason: unknown): void {
    if (this.#end !== null) return;
    this.#end = { failed, reason };
    if (failed) this.#queue = [];
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const each of waiting) {
      if (failed) each.reject(reason);
      else each.resolve({ done: true, value: undefined });
    }
  }

  async #cancel(reason: unknown): Promise<void> {
    if (this.#end !== null) {
      this.#queue = [];
      return;
    }
    this.#queue = [];
    this.#finish(false, undefined);
    await this.#source.cancel?.(reason);
  }
}
