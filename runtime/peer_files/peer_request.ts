/**
 * Requests to a peer's door: no redirect is followed, no variable of the environment makes them take another way, and a peer
 * that falls silent, or answers without end, is given up.
 *
 * @module
 */
import type { HttpClient, HttpHeaders, HttpResponse } from "../../base/http_client.ts";
import { HttpError } from "../../base/http_error.ts";

/** How long a peer is waited for. */
export interface PeerPatience {
  /** Longest silence, in milliseconds. */
  readonly silenceMs: number;
  /** Longest exchange, however busy the peer is, in seconds: `capabilities.limits.deadline_seconds`. */
  readonly deadlineSeconds: number;
}

/** How a peer is asked. */
export interface PeerRequestOptions {
  readonly client: HttpClient;
  readonly headers?: HttpHeaders;
  readonly patience: PeerPatience;
  /** Ends the request. */
  readonly signal: AbortSignal;
}

/** An answer whose body is read piece by piece. */
export interface PeerResponse extends Pick<HttpResponse, "status" | "headers"> {
  /** Leaving the loop closes the connection. @throws {HttpError} */
  pieces(): AsyncGenerator<Uint8Array<ArrayBuffer>, void>;
  /** Closes the connection unless the body was read to its end. A second call does nothing. */
  close(): Promise<void>;
}

/** Value of a field that stands there once; `null` otherwise. */
export function singleField(headers: HttpHeaders, name: string): string | null {
  const values = headers.filter(([each]) => each === name);
  return values.length === 1 ? values[0]![1] : null;
}

/** Longest time that a timer takes, in milliseconds. */
const MAX_TIMER_MS = 2 ** 31 - 1;

/** Sends a `GET`. @throws {HttpError} */
export async function getFromPeer(url: URL, options: PeerRequestOptions): Promise<PeerResponse> {
  const { client, patience: { silenceMs, deadlineSeconds }, signal, headers = [] } = options;
  const givenUp = new AbortController();
  let why = "";
  const giveUpAfter = (ms: number, reason: string) =>
    setTimeout(() => {
      why ||= reason;
      givenUp.abort();
    }, Math.min(ms, MAX_TIMER_MS));
  const listen = () => giveUpAfter(silenceMs, `was silent for ${silenceMs / 1_000} s`);
  let silence = listen();
  const deadline = giveUpAfter(
    deadlineSeconds * 1_000,
    `took longer than ${deadlineSeconds} s (capabilities.limits.deadline_seconds)`,
  );
  const heard = () => {
    clearTimeout(silence);
    silence = listen();
  };
  const over = () => {
    clearTimeout(silence);
    clearTimeout(deadline);
  };
  const named = (error: unknown): unknown =>
    givenUp.signal.aborted ? new HttpError("unreachable", `${url.host} ${why}`) : error;
  let response: HttpResponse;
  try {
    response = await client.send({ method: "GET", url, headers, signal: AbortSignal.any([signal, givenUp.signal]) });
  } catch (error) {
    over();
    throw named(error);
  }
  heard();
  return {
    status: response.status,
    headers: response.headers,
    async *pieces() {
      try {
        for await (const piece of response.body) {
          heard();
          yield piece as Uint8Array<ArrayBuffer>;
        }
      } catch (error) {
        throw named(error);
      } finally {
        over();
      }
    },
    async close() {
      over();
      await response.body.cancel().catch(() => {});
    },
  };
}

/** Reads a small body as text; `null` when it is longer than `maxBytes` or not UTF-8. @throws {HttpError} */
export async function textOfPeer(response: PeerResponse, maxBytes: number): Promise<string | null> {
  const decoder = new TextDecoder("utf-8", { fatal: true });
  let text = "";
  let length = 0;
  try {
    for await (const piece of response.pieces()) {
      length += piece.length;
      if (length > maxBytes) return null;
      text += decoder.decode(piece, { stream: true });
    }
    return text + decoder.decode();
  } catch (error) {
    if (error instanceof TypeError) return null;
    throw error;
  }
}
