/**
 * The wire between the runtime and a component host (spec components 3.9): length-prefixed, typed frames of at most
 * 1 MiB on the host's standard input and output. A message longer than one frame is sent as consecutive frames.
 *
 * ```
 * u32 length of what follows, little endian
 * u8  type; bit 7 set: the message goes on in the next frame
 * u32 id of the request the message belongs to, 0 for none
 * …   the message: u32 length of the header, the header as JSON text, the body
 * ```
 *
 * Pure: bytes in, messages out. Both sides use this module; only the runtime's side counts on the other being hostile.
 *
 * @module
 */

/** Longest frame, counted after the length field (spec components 15). */
export const MAX_FRAME_BYTES = 1 << 20;

/** Longest message the runtime accepts from a host, e.g. one tool result. */
export const MAX_HOST_MESSAGE_BYTES = 64 << 20;

const FRAME_HEAD_BYTES = 5;
const FRAME_ROOM_BYTES = MAX_FRAME_BYTES - FRAME_HEAD_BYTES;
const MORE = 0x80;
const EMPTY = new Uint8Array(0);
const encoder = new TextEncoder();
const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** Message types. Those of the runtime are below 64, those of the host from 64 on. */
export const MessageType = {
  /** One core module, body: its bytes. */
  module: 1,
  /** Glue code and the modules of a component, body: the code. */
  component: 2,
  /** A call of the loaded component. */
  call: 3,
  /** The answer to a `request`. */
  reply: 4,
  httpHead: 5,
  httpData: 6,
  httpEnd: 7,
  httpError: 8,
  /** More bytes of a request body may be sent. */
  httpBodyCredit: 9,
  /** The timer asked for has run out. */
  wake: 10,
  /** Asks for `loaded` when everything before it is taken in. */
  sync: 11,
  /** Makes an instance of the loaded component that stays. */
  open: 12,
  /** A call of the instance that stayed. */
  callKept: 13,

  /** The host is up. */
  ready: 64,
  /** Everything before the last `sync` is taken in. */
  loaded: 65,
  /** The instance stands and the guest function is entered now. */
  entered: 66,
  /** The end of a call. */
  result: 67,
  /** An effect with an answer: files, input, `invoke`. */
  request: 68,
  httpStart: 69,
  httpBody: 70,
  httpBodyEnd: 71,
  /** More bytes of a response body may be sent. */
  httpCredit: 72,
  /** The host is done with a request, finished or not. */
  httpClose: 73,
  timer: 74,
  chunk: 75,
  output: 76,
  /** Closes a file handle. */
  release: 77,
} as const;

/** JSON of a message header. */
export type Header = { readonly [key: string]: unknown };

/** A whole message. */
export interface Message {
  readonly type: number;
  readonly id: number;
  readonly header: Header;
  readonly body: Uint8Array<ArrayBuffer>;
}

/** Bytes that are no valid stream of frames. The peer is not to be talked to any longer. */
export class FrameError extends Error {
  override readonly name = "FrameError";
}

const NO_HEADER: Header = Object.freeze({});

/**
 * Encodes one message as the frames that carry it, in one piece.
 *
 * @param id 0 to 2^32-1.
 */
export function encodeMessage(
  type: number,
  id: number,
  header: Header = NO_HEADER,
  body: Uint8Array = EMPTY,
): Uint8Array<ArrayBuffer> {
  const json = header === NO_HEADER ? EMPTY : encoder.encode(JSON.stringify(header));
  const length = 4 + json.length + body.length;
  if (length > FRAME_ROOM_BYTES) {
    const parts = encodeMessageParts(type, id, header, [body]);
    return joinBytes(parts, parts.reduce((sum, part) => sum + part.length, 0));
  }
  const bytes = new Uint8Array(4 + FRAME_HEAD_BYTES + length);
  const view = new DataView(bytes.buffer);
  writeFrameHead(view, 0, length, type, id);
  view.setUint32(9, json.length, true);
  bytes.set(json, 13);
  bytes.set(body, 13 + json.length);
  return bytes;
}

/**
 * Encodes one message as {@linkcode encodeMessage} does, without copying its body: the parts, one after the other, are the
 * frames. Bodies have megabytes.
 *
 * @param body In pieces. They must stay as they are until the parts are written.
 */
export function encodeMessageParts(
  type: number,
  id: number,
  header: Header,
  body: readonly Uint8Array[],
): Uint8Array[] {
  const json = encoder.encode(JSON.stringify(header));
  const head = new Uint8Array(4 + json.length);
  new DataView(head.buffer).setUint32(0, json.length, true);
  head.set(json, 4);
  const pieces = [head, ...body];
  let left = pieces.reduce((sum, piece) => sum + piece.length, 0);
  const parts: Uint8Array[] = [];
  let room = 0;
  for (const piece of pieces) {
    for (let at = 0; at < piece.length;) {
      if (room === 0) {
        room = Math.min(left, FRAME_ROOM_BYTES);
        const frame = new Uint8Array(4 + FRAME_HEAD_BYTES);
        writeFrameHead(new DataView(frame.buffer), 0, room, room < left ? type | MORE : type, id);
        parts.push(frame);
      }
      const part = piece.subarray(at, at + room);
      parts.push(part);
      at += part.length;
      room -= part.length;
      left -= part.length;
    }
  }
  return parts;
}

function writeFrameHead(view: DataView, at: number, payload: number, type: number, id: number): void {
  view.setUint32(at, FRAME_HEAD_BYTES + payload, true);
  view.setUint8(at + 4, type);
  view.setUint32(at + 5, id, true);
}

/** Takes bytes as they come and gives whole messages. */
export class MessageDecoder {
  readonly #maxMessage: number;
  #buffer = new Uint8Array(64 << 10);
  #start = 0;
  #end = 0;
  /** The parts of a message that is not yet complete. */
  #parts: Uint8Array<ArrayBuffer>[] = [];
  #partsBytes = 0;
  #partsType = 0;
  #partsId = 0;

  /** @param maxMessage Longest message, header and body together, in bytes. */
  constructor(maxMessage: number) {
    this.#maxMessage = maxMessage;
  }

  /** Adds bytes. They are copied. */
  push(bytes: Uint8Array): void {
    const held = this.#end - this.#start;
    if (this.#end + bytes.length > this.#buffer.length) {
      const target = held + bytes.length > this.#buffer.length
        ? new Uint8Array(Math.max(this.#buffer.length * 2, held + bytes.length))
        : this.#buffer;
      // `set` on the same buffer moves correctly when source and target overlap.
      target.set(this.#buffer.subarray(this.#start, this.#end));
      this.#buffer = target;
      this.#start = 0;
      this.#end = held;
    }
    this.#buffer.set(bytes, this.#end);
    this.#end += bytes.length;
  }

  /** Whether bytes of an incomplete message are held. */
  get pending(): boolean {
    return this.#end > this.#start || this.#parts.length > 0;
  }

  /**
   * The next whole message, or `null` when more bytes are needed.
   *
   * @throws {FrameError} when the bytes are no frames; the decoder must not be used any longer.
   */
  next(): Message | null {
    for (;;) {
      const held = this.#end - this.#start;
      if (held < 4) return null;
      const view = new DataView(this.#buffer.buffer, this.#start, held);
      const length = view.getUint32(0, true);
      if (length < FRAME_HEAD_BYTES) throw new FrameError(`a frame of ${length} bytes is too short`);
      if (length > MAX_FRAME_BYTES) {
        throw new FrameError(`a frame of ${length} bytes is longer than ${MAX_FRAME_BYTES}`);
      }
      if (held < 4 + length) return null;
      const rawType = view.getUint8(4);
      const type = rawType & ~MORE;
      const id = view.getUint32(5, true);
      const payload = this.#buffer.slice(this.#start + 9, this.#start + 4 + length);
      this.#start += 4 + length;
      if (this.#start === this.#end) this.#start = this.#end = 0;

      const continues = this.#parts.length > 0;
      if (continues && (type !== this.#partsType || id !== this.#partsId)) {
        throw new FrameError("a message was interrupted by another");
      }
      if (this.#partsBytes + payload.length > this.#maxMessage) {
        throw new FrameError(`a message is longer than ${this.#maxMessage} bytes`);
      }
      if ((rawType & MORE) !== 0) {
        if (payload.length === 0) throw new FrameError("an empty part of a message");
        this.#parts.push(payload);
        this.#partsBytes += payload.length;
        this.#partsType = type;
        this.#partsId = id;
        continue;
      }
      if (!continues) return decodePayload(type, id, payload);
      this.#parts.push(payload);
      const whole = joinBytes(this.#parts, this.#partsBytes + payload.length);
      this.#parts = [];
      this.#partsBytes = 0;
      return decodePayload(type, id, whole);
    }
  }
}

function joinBytes(parts: readonly Uint8Array[], length: number): Uint8Array<ArrayBuffer> {
  const whole = new Uint8Array(length);
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

function decodePayload(type: number, id: number, payload: Uint8Array<ArrayBuffer>): Message {
  if (payload.length < 4) throw new FrameError("a message without a header length");
  const headerLength = new DataView(payload.buffer, payload.byteOffset, 4).getUint32(0, true);
  if (headerLength > payload.length - 4) throw new FrameError("a message header longer than its message");
  const body = payload.subarray(4 + headerLength);
  if (headerLength === 0) return { type, id, header: NO_HEADER, body };
  let header: unknown;
  try {
    header = JSON.parse(decoder.decode(payload.subarray(4, 4 + headerLength)));
  } catch (cause) {
    throw new FrameError("a message header that is no JSON", { cause });
  }
  if (typeof header !== "object" || header === null || Array.isArray(header)) {
    throw new FrameError("a message header that is no object");
  }
  return { type, id, header: header as Header, body };
}
