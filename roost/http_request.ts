/**
 * Reading HTTP/1.1 requests: the head, how its body is framed, and chunked bodies. Pure, and strict: whatever could be
 * read in two ways is refused.
 *
 * @module
 */

/** Largest head that is read, in bytes: the two tokens and what any client sends besides fit many times. */
export const MAX_HEAD = 16_384;

/** Largest body that is read, in bytes (spec roost 2.4). */
export const MAX_BODY = 65_536;

/** The head of a request. */
export interface RequestHead {
  readonly method: string;
  /** As it was sent. */
  readonly target: string;
  /** Lower-cased names; the values of a repeated field joined by `, `. */
  readonly fields: ReadonlyMap<string, string>;
  /** Whether the connection is kept for another request. */
  readonly keepAlive: boolean;
  /** Length of the body in bytes, or that it comes in chunks. */
  readonly body: number | "chunked";
}

/** Why a request is not read any further. */
export interface RequestFault {
  readonly status: 400 | 408 | 413 | 431 | 501 | 505;
  readonly message: string;
}

const fault = (status: RequestFault["status"], message: string): RequestFault => ({ status, message });

export const HEAD_TOO_LARGE = fault(431, `the head of a request may hold ${MAX_HEAD} bytes`);
export const BODY_TOO_LARGE = fault(413, `the body of a request may hold ${MAX_BODY} bytes`);
export const TOO_SLOW = fault(408, "the request did not arrive in time");
const BAD_FIELD = fault(400, "a header field cannot be read");
const BAD_CHUNKS = fault(400, "the body's chunks cannot be read");

const REQUEST_LINE = /^([!#$%&'*+\-.^_`|~0-9A-Za-z]{1,32}) ([\x21-\x7e]+) HTTP\/1\.([01])$/;
const FIELD_NAME = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;
/** What no line may hold; a lone carriage return or line feed would end one for some readers and not for others. */
// deno-lint-ignore no-control-regex
const CONTROL = /[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|\r(?!\n)|(?<!\r)\n/;

/** Where the head ends, behind its empty line; -1 while it has none. */
export function headEnd(bytes: Uint8Array, from: number): number {
  for (let at = bytes.indexOf(0x0a, from); at >= 0; at = bytes.indexOf(0x0a, at + 1)) {
    if (at >= 3 && bytes[at - 1] === 0x0d && bytes[at - 2] === 0x0a && bytes[at - 3] === 0x0d) return at + 1;
  }
  return -1;
}

/**
 * Reads a head.
 *
 * @param text All of it with its empty line, a byte a character.
 */
export function parseRequestHead(text: string): RequestHead | RequestFault {
  const lines = text.slice(0, -4).split("\r\n");
  const first = REQUEST_LINE.exec(lines[0]!);
  if (first === null) {
    return / HTTP\/[2-9](\.\d)?$/.test(lines[0]!)
      ? fault(505, "this daemon speaks HTTP/1.1")
      : fault(400, "the request line cannot be read");
  }
  const [, method, target, minor] = first;
  if (CONTROL.test(text)) return BAD_FIELD;
  const fields = new Map<string, string>();
  for (let index = 1; index < lines.length; index++) {
    const line = lines[index]!;
    const colon = line.indexOf(":");
    const name = line.slice(0, Math.max(colon, 0));
    // A line that starts with a blank continued the one before it, for readers of old.
    if (!FIELD_NAME.test(name)) return BAD_FIELD;
    const key = name.toLowerCase();
    const value = trimmed(line, colon + 1);
    const before = fields.get(key);
    fields.set(key, before === undefined ? value : `${before}, ${value}`);
  }
  const length = fields.get("content-length");
  const coding = fields.get("transfer-encoding");
  let body: number | "chunked" = 0;
  if (coding !== undefined) {
    // A message with both is read in two ways by two readers.
    if (length !== undefined || minor === "0") return fault(400, "the request does not say how long its body is");
    if (coding.toLowerCase() !== "chunked") return fault(501, "the only transfer coding is chunked");
    body = "chunked";
  } else if (length !== undefined) {
    if (!/^\d{1,15}$/.test(length)) return fault(400, "content-length is no number");
    body = Number(length);
    if (body > MAX_BODY) return BODY_TOO_LARGE;
  }
  const connection = fields.get("connection");
  const keepAlive = minor === "1" && (connection === undefined || !/(^|,)[ \t]*close[ \t]*(,|$)/i.test(connection));
  return { method: method!, target: target!, fields, keepAlive, body };
}

/** What is around a value and no part of it: blanks and tabs. More is white space elsewhere, and would be read in two ways. */
const isBlank = (text: string, at: number) => text.charCodeAt(at) === 0x20 || text.charCodeAt(at) === 0x09;

function trimmed(line: string, from: number): string {
  let start = from;
  let end = line.length;
  while (start < end && isBlank(line, start)) start++;
  while (end > start && isBlank(line, end - 1)) end--;
  return line.slice(start, end);
}

/** Bytes that may lie around the chunks' content: sizes, extensions, trailers. */
export const MAX_CHUNK_OVERHEAD = 16_384;

/** Longest line of a chunked body. */
const MAX_CHUNK_LINE = 1_024;

/** Reads a chunked body as it comes, every byte once. */
export class ChunkReader {
  /** Start and end of each chunk's content. */
  readonly #chunks: [from: number, to: number][] = [];
  #size = 0;
  #at: number;
  #inTrailers = false;

  /** @param from Where the body begins. */
  constructor(from: number) {
    this.#at = from;
  }

  /** Where the body ends, once it is whole. */
  get end(): number {
    return this.#at;
  }

  /** Looks at what is there now. @param bytes All that came, from the same start each time. */
  read(bytes: Uint8Array): "whole" | "more" | RequestFault {
    for (;;) {
      const lineEnd = bytes.indexOf(0x0a, this.#at);
      if ((lineEnd < 0 ? bytes.length : lineEnd) - this.#at > MAX_CHUNK_LINE) return BAD_CHUNKS;
      if (lineEnd < 0) return "more";
      if (this.#inTrailers) {
        // Trailers say nothing that is asked for here; they end with an empty line.
        if (bytes[lineEnd - 1] !== 0x0d) return BAD_CHUNKS;
        const isLast = lineEnd === this.#at + 1;
        this.#at = lineEnd + 1;
        if (isLast) return "whole";
        continue;
      }
      const line = String.fromCharCode(...bytes.subarray(this.#at, lineEnd));
      const match = /^([0-9A-Fa-f]{1,8})(?:[ \t]*;[\t\x20-\x7e]*)?\r$/.exec(line);
      if (match === null) return BAD_CHUNKS;
      const count = parseInt(match[1]!, 16);
      const start = lineEnd + 1;
      if (count === 0) {
        this.#at = start;
        this.#inTrailers = true;
        continue;
      }
      if (this.#size + count > MAX_BODY) return BODY_TOO_LARGE;
      if (bytes.length < start + count + 2) return "more";
      if (bytes[start + count] !== 0x0d || bytes[start + count + 1] !== 0x0a) return BAD_CHUNKS;
      this.#size += count;
      this.#chunks.push([start, start + count]);
      this.#at = start + count + 2;
    }
  }

  /** The content of the chunks. */
  content(bytes: Uint8Array): Uint8Array {
    const content = new Uint8Array(this.#size);
    let filled = 0;
    for (const [from, to] of this.#chunks) {
      content.set(bytes.subarray(from, to), filled);
      filled += to - from;
    }
    return content;
  }
}
