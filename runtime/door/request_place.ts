/**
 * How much a door works on at once (spec door 15): requests and streams, each with its limit.
 *
 * @module
 */
import type { HttpRefusal } from "./door_access.ts";
import type { OpenEventStream } from "./event_stream.ts";

/** Requests that are read or worked on at once; held answers and streams are not counted. */
export const MAX_REQUESTS = 256;

/** Streams that are open at once. */
export const MAX_STREAMS = 512;

const RETRY: readonly (readonly [string, string])[] = [["retry-after", "1"]];

/** Beyond {@linkcode MAX_REQUESTS}, or the memory their bodies may take. */
export const TOO_MANY_REQUESTS: HttpRefusal = {
  status: 503,
  error: "too_many_requests",
  message: "this door works on as many requests as it takes at once",
  headers: RETRY,
};

/** Beyond the memory large answers may take. */
export const TOO_MANY_ANSWERS: HttpRefusal = {
  status: 503,
  error: "too_many_answers",
  message: "this door writes as many large answers as it holds at once",
  headers: RETRY,
};

const TOO_MANY_STREAMS: HttpRefusal = {
  status: 503,
  error: "too_many_streams",
  message: "this door serves as many streams as it takes at once",
  headers: RETRY,
};

/** What a door has taken on. */
export class DoorLoad {
  requests = 0;
  /** Streams that are about to be opened. */
  opening = 0;
  readonly streams = new Set<OpenEventStream>();

  /** Takes on a request; `null`: there is no room for it. */
  take(): RequestPlace | null {
    return this.requests >= MAX_REQUESTS ? null : new RequestPlace(this);
  }
}

/** One request's part of a door's load. */
export class RequestPlace {
  readonly #load: DoorLoad;
  #works = true;
  #opens = false;

  constructor(load: DoorLoad) {
    this.#load = load;
    load.requests++;
  }

  /** Why the request may open no stream; `null`: it may, and is going to. */
  refuseStream(): HttpRefusal | null {
    const { streams, opening } = this.#load;
    if (streams.size + opening >= MAX_STREAMS) return TOO_MANY_STREAMS;
    this.#opens = true;
    this.#load.opening++;
    return null;
  }

  /** The request is held from now on and works no more. */
  hold(): void {
    if (this.#works) this.#load.requests--;
    this.#works = false;
  }

  /** The request is answered. */
  leave(): void {
    if (this.#opens) this.#load.opening--;
    this.#opens = false;
    this.hold();
  }
}
