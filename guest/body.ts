/**
 * Bodies of requests and responses (WHATWG Fetch 5.2): what can be sent, and reading one as text, JSON or bytes.
 *
 * @module
 */
import { ReadableStream } from "./readable_stream.ts";

/** What a body can be made from. Text is sent as UTF-8. */
export type BodyInit =
  | string
  | Uint8Array
  | ArrayBuffer
  | URLSearchParams
  | ReadableStream<Uint8Array>
  | AsyncIterable<Uint8Array | string>;

/** A body ready to be sent: bytes when its length is known, else a stream. */
export interface PreparedBody {
  readonly bytes: Uint8Array | null;
  readonly stream: ReadableStream<Uint8Array> | null;
  readonly contentType: string | null;
}

/** Turns a body of any accepted kind into bytes or a stream. */
export function prepareBody(init: BodyInit): PreparedBody {
  if (typeof init === "string") return known(new TextEncoder().encode(init), "text/plain;charset=UTF-8");
  if (init instanceof Uint8Array) return known(init.slice(), null);
  if (init instanceof ArrayBuffer) return known(new Uint8Array(init.slice(0)), null);
  if (init instanceof URLSearchParams) {
    return known(new TextEncoder().encode(init.toString()), "application/x-www-form-urlencoded;charset=UTF-8");
  }
  if (init instanceof ReadableStream) return { bytes: null, stream: init, contentType: null };
  if (typeof init === "object" && init !== null && Symbol.asyncIterator in init) {
    return { bytes: null, stream: ReadableStream.from(encoded(init)), contentType: null };
  }
  throw new TypeError("a body must be text, bytes, URLSearchParams, a ReadableStream or an async iterable of those");
}

function known(bytes: Uint8Array, contentType: string | null): PreparedBody {
  return { bytes, stream: null, contentType };
}

async function* encoded(parts: AsyncIterable<Uint8Array | string>): AsyncGenerator<Uint8Array, void, undefined> {
  const encoder = new TextEncoder();
  for await (const part of parts) yield typeof part === "string" ? encoder.encode(part) : part;
}

/** Reads a stream to its end. */
export async function collect(stream: AsyncIterable<Uint8Array>): Promise<Uint8Array> {
  const chunks: Uint8Array[] = [];
  let length = 0;
  for await (const chunk of stream) {
    chunks.push(chunk);
    length += chunk.length;
  }
  const first = chunks[0];
  if (chunks.length === 1 && first !== undefined) return first;
  const all = new Uint8Array(length);
  let offset = 0;
  for (const chunk of chunks) {
    all.set(chunk, offset);
    offset += chunk.length;
  }
  return all;
}

/** The reading half of `Request` and `Response`. */
export class Body {
  #prepared: PreparedBody | null;
  #stream: ReadableStream<Uint8Array> | null = null;
  #used = false;

  constructor(body: PreparedBody | null) {
    this.#prepared = body;
    this.#stream = body?.stream ?? null;
  }

  /** The body as a stream; `null` when there is none. */
  get body(): ReadableStream<Uint8Array> | null {
    const bytes = this.#prepared?.bytes ?? null;
    if (this.#stream === null && bytes !== null) {
      this.#stream = new ReadableStream<Uint8Array>({
        start(controller) {
          if (bytes.length > 0) controller.enqueue(bytes);
          controller.close();
        },
      });
    }
    return this.#stream;
  }

  get bodyUsed(): boolean {
    return this.#used || (this.#stream?.locked ?? false);
  }

  async bytes(): Promise<Uint8Array> {
    if (this.bodyUsed) throw new TypeError("the body was read already");
    this.#used = true;
    if (this.#stream === null) return this.#prepared?.bytes ?? new Uint8Array();
    return await collect(this.#stream);
  }

  async arrayBuffer(): Promise<ArrayBuffer> {
    const bytes = await this.bytes();
    return bytes.slice().buffer as ArrayBuffer;
  }

  async text(): Promise<string> {
    return new TextDecoder().decode(await this.bytes());
  }

  async json(): Promise<unknown> {
    return JSON.parse(await this.text());
  }

  /** @internal Hands the body over to be sent. */
  takeBody(): PreparedBody | null {
    if (this.#prepared === null) return null;
    if (this.bodyUsed) throw new TypeError("the body was read already");
    this.#used = true;
    return this.#prepared;
  }
}
