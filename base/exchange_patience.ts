/**
 * How long an exchange with a door is waited for: a bound for connecting, one for every silence, and one for all of it.
 * Pure.
 *
 * @module
 */
import { HttpError } from "./http_error.ts";

/** Bounds of an exchange. */
export interface ExchangeBounds {
  /** Longest time to connect, in milliseconds. */
  readonly connectMs: number;
  /** Longest silence of the other side, in milliseconds: until its answer begins, and between any two pieces of it. */
  readonly silenceMs: number;
  /** When the exchange has to be over, on the clock of `performance.now()`, however busy the other side is. */
  readonly deadline?: number;
}

/** The patience with one exchange. */
export class ExchangePatience {
  readonly #where: string;
  readonly #last: number;
  #awaited: "connection" | "bytes" | "all" = "connection";
  #allowed = 0;
  #until = Infinity;

  /** @param where Who is waited for, for messages. @param last When all has to be over. */
  constructor(where: string, last: number = Infinity) {
    this.#where = where;
    this.#last = last;
  }

  /** When it ends, on the clock of `performance.now()`. */
  get until(): number {
    return this.#until;
  }

  /** From now on so many milliseconds for a connection. */
  awaitConnection(ms: number): void {
    this.#await("connection", ms);
  }

  /** From now on so many milliseconds for the next bytes. */
  awaitBytes(ms: number): void {
    this.#await("bytes", ms);
  }

  #await(what: "connection" | "bytes", ms: number): void {
    const until = performance.now() + ms;
    this.#awaited = until <= this.#last ? what : "all";
    this.#allowed = ms;
    this.#until = Math.min(until, this.#last);
  }

  /** The failure of an exchange whose time is over. */
  late(): HttpError {
    return new HttpError("connection-timeout", `${this.#where} ${this.#missing()}`);
  }

  #missing(): string {
    switch (this.#awaited) {
      case "connection":
        return `took no connection in ${this.#allowed} ms`;
      case "bytes":
        return `said nothing for ${this.#allowed} ms`;
      case "all":
        return "did not answer in time";
    }
  }
}
