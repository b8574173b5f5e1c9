/**
 * Reading an answer of HTTP/1 from its bytes, in whatever pieces they come: head, then a body that is framed by a length, by
 * chunks or by the end of the connection. Pure.
 *
 * @module
 */
import { HttpError } from "./http_error.ts";

/** The head of an answer. */
export interface ResponseHead {
  readonly status: number;
  /** Lower-cased names; of a repeated field the values joined by `, `. */
  readonly headers: ReadonlyMap<string, string>;
}

/** Largest head of an answer, and largest trailers, in bytes. */
const MAX_HEAD = 65_536;
/** Longest line between two chunks, in bytes. */
const MAX_CHUNK_LINE = 4_096;

/** The name of a header field. */
export const FIELD_NAME = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;

const NOTHING = new Uint8Array(0);
const decoder = new TextDecoder();

/** Reads a head; `null` when it is none of HTTP/1. */
export function parseResponseHead(text: string): ResponseHead | null {
  const [first, ...lines] = text.replace(/(?:\r?\n){1,2}$/, "").split(/\r?\n/);
  const status = /^HTTP\/1\.[01] ([1-5]\d\d)(?: .*)?$/.exec(first!)?.[1];
  if (status === undefined) return null;
  const headers = new Map<string, string>();
  for (const line of lines) {
    const colon = line.indexOf(":");
    const name = line.slice(0, Math.max(colon, 0));
    if (!FIELD_NAME.test(name)) return null;
    const key = name.toLowerCase();
    const value = line.slice(colon + 1).trim();
    const before = headers.get(key);
    headers.set(key, before === undefined ? value : `${before}, ${value}`);
  }
  return { status: Number(status), headers };
}

/** Where the head ends, behind its empty line; -1 while it has none. */
function headEnd(bytes: Uint8Array): number {
  for (let at = bytes.indexOf(0x0a); at >= 0; at = bytes.indexOf(0x0a, at + 1)) {
    if (bytes[at + 1] === 0x0a) return at + 2;
    if (bytes[at + 1] === 0x0d && bytes[at + 2] === 0x0a) return at + 3;
  }
  return -1;
}

/** What the next byte belongs to. */
type Stage = "head" | "length" | "until-end" | "chunk-size" | "chunk" | "chunk-end" | "trailers" | "whole";

/** One answer while it comes. */
export class ResponseReader {
  readonly #where: string;
  #stage: Stage = "head";
  /** What came and was not taken apart yet. */
  #held: Uint8Array = NOTHING;
  #head: ResponseHead | null = null;
  /** Bytes of the body, or of its chunk, that are still to come. */
  #left = 0;
  /** Characters of trailers that came. */
  #trailers = 0;
  /** Of the body, not taken yet. */
  #pieces: Uint8Array[] = [];
  #size = 0;
  #failure: HttpError | null = null;

  /** @param where Who answers, for messages. */
  constructor(where: string) {
    this.#where = where;
  }

  /** Gives it what has come next, which must stay as it is. What follows the answer is passed over. */
  push(bytes: Uint8Array): void {
    if (this.#stage === "whole" || this.#failure !== null) return;
    if (this.#held.length === 0) this.#held = bytes;
    else {
      const joined = new Uint8Array(this.#held.length + bytes.length);
      joined.set(this.#held);
      joined.set(bytes, this.#held.length);
      this.#held = joined;
    }
    this.#advance();
  }

  /** Nothing more comes. */
  end(): void {
    if (this.#stage === "until-end") this.#stage = "whole";
    if (this.#stage === "whole") return;
    this.#failure ??= this.#stage === "head" && this.#held.length === 0
      ? new HttpError("connection-terminated", `${this.#where} closed the connection without an answer`)
      : new HttpError("response-incomplete", `the answer of ${this.#where} broke off`);
  }

  /** Whether all of it has come. */
  get isWhole(): boolean {
    return this.#stage === "whole";
  }

  /** Its head; `null` while that is to come. @throws {HttpError} When it is none, or will not come. */
  head(): ResponseHead | null {
    if (this.#head === null && this.#failure !== null) throw this.#failure;
    return this.#head;
  }

  /**
   * The next bytes of the body, each once; `null` when there are none now.
   *
   * @throws {HttpError} When all were taken that came before it broke off.
   */
  take(): Uint8Array | null {
    const piece = this.#pieces.shift();
    if (piece !== undefined) {
      this.#size -= piece.length;
      return piece;
    }
    if (this.#failure !== null) throw this.#failure;
    return null;
  }

  /**
   * The whole body as text; `null` while more of it is to come.
   *
   * @throws {HttpError} When it broke off, or is longer than so many bytes, at the first moment that shows it.
   */
  text(maxBytes: number): string | null {
    if (this.#size > maxBytes || (this.#stage === "length" && this.#size + this.#left > maxBytes)) {
      throw new HttpError("body-size", `the answer of ${this.#where} is longer than ${maxBytes} bytes`);
    }
    if (this.#failure !== null) throw this.#failure;
    if (this.#stage !== "whole") return null;
    if (this.#pieces.length === 1) return decoder.decode(this.#pieces[0]);
    const whole = new Uint8Array(this.#size);
    let at = 0;
    for (const piece of this.#pieces) {
      whole.set(piece, at);
      at += piece.length;
    }
    return decoder.decode(whole);
  }

  #fail(kind: "protocol" | "response-headers-too-large", what: string): void {
    this.#failure = new HttpError(kind, what);
  }

  /** Takes apart what is held, as far as it goes. */
  #advance(): void {
    while (this.#failure === null && this.#step());
  }

  /** One step; whether another may follow. */
  #step(): boolean {
    switch (this.#stage) {
      case "head":
        return this.#readHead();
      case "length":
        this.#body(this.#left);
        if (this.#left === 0) this.#stage = "whole";
        return false;
      case "until-end":
        this.#left = this.#held.length;
        this.#body(this.#left);
        return false;
      case "chunk":
        this.#body(this.#left);
        if (this.#left > 0) return false;
        this.#stage = "chunk-end";
        return true;
      case "whole":
        return false;
      case "chunk-size":
      case "chunk-end":
      case "trailers": {
        const line = this.#line();
        if (line === null) return false;
        this.#readLine(line, this.#stage);
        return true;
      }
    }
  }

  #take(count: number): Uint8Array {
    const taken = this.#held.subarray(0, count);
    // What was taken apart is not kept for what follows it.
    this.#held = count === this.#held.length ? NOTHING : this.#held.subarray(count);
    return taken;
  }

  /** Takes up to so many bytes of the body. */
  #body(most: number): void {
    const count = Math.min(most, this.#held.length);
    if (count === 0) return;
    this.#pieces.push(this.#take(count));
    this.#size += count;
    this.#left -= count;
  }

  #readHead(): boolean {
    const end = headEnd(this.#held);
    if ((end < 0 ? this.#held.length : end) > MAX_HEAD) {
      this.#fail("response-headers-too-large", `the answer of ${this.#where} has an endless head`);
      return false;
    }
    if (end < 0) return false;
    const head = parseResponseHead(decoder.decode(this.#take(end)));
    if (head === null) {
      this.#fail("protocol", `${this.#where} does not speak HTTP`);
      return false;
    }
    // An interim answer says that the real one follows.
    if (head.status < 200) return true;
    if (!this.#frame(head)) return false;
    this.#head = head;
    return true;
  }

  /** Reads how long the body is. */
  #frame({ status, headers }: ResponseHead): boolean {
    if (status === 204 || status === 304) {
      this.#stage = "whole";
      return true;
    }
    const coding = headers.get("transfer-encoding");
    if (coding !== undefined) {
      if (coding.toLowerCase() !== "chunked") {
        this.#fail("protocol", `${this.#where} answered with transfer-encoding '${coding}'`);
        return false;
      }
      this.#stage = "chunk-size";
      return true;
    }
    const length = headers.get("content-length");
    if (length === undefined) {
      this.#stage = "until-end";
      return true;
    }
    if (!/^\d{1,15}$/.test(length)) {
      this.#fail("protocol", `${this.#where} answered with content-length '${length}'`);
      return false;
    }
    this.#stage = "length";
    this.#left = Number(length);
    return true;
  }

  /** The next line without its ending; `null` while it is to come. */
  #line(): string | null {
    const end = this.#held.indexOf(0x0a);
    if ((end < 0 ? this.#held.length : end) > MAX_CHUNK_LINE) {
      this.#fail("protocol", `${this.#where} sent an endless line between two chunks`);
      return null;
    }
    return end < 0 ? null : decoder.decode(this.#take(end + 1)).replace(/\r?\n$/, "");
  }

  #readLine(line: string, stage: "chunk-size" | "chunk-end" | "trailers"): void {
    if (stage === "trailers") {
      // They say nothing a door's client asks for.
      if (line === "") this.#stage = "whole";
      this.#trailers += line.length;
      if (this.#trailers > MAX_HEAD) this.#fail("protocol", `the answer of ${this.#where} has endless trailers`);
      return;
    }
    if (stage === "chunk-end") {
      if (line === "") this.#stage = "chunk-size";
      else this.#fail("protocol", `${this.#where} sent a chunk of another size`);
      return;
    }
    const size = /^([0-9a-f]{1,8})[ \t]*(?:;.*)?$/i.exec(line)?.[1];
    if (size === undefined) return this.#fail("protocol", `${this.#where} sent a chunk without a size`);
    this.#left = parseInt(size, 16);
    this.#stage = this.#left === 0 ? "trailers" : "chunk";
  }
}
