/**
 * One request to a registry or install source: bounded in time and size, redirects followed a few times, the credential
 * never sent to another origin.
 *
 * @module
 */
import type { HttpResponse, HttpSend } from "../../base/http_client.ts";

/** A request as registries need it. */
export interface BoundedRequest {
  readonly method: "GET" | "POST";
  readonly url: URL;
  readonly headers: Readonly<Record<string, string>>;
  /** Bearer credential; sent to the origin of `url` alone. */
  readonly token: string | null;
  readonly body?: Uint8Array;
  /** Most bytes of the answer's body. */
  readonly maxBytes: number;
  /** Longest silence, in milliseconds: until the answer starts, and between its parts. */
  readonly idleTimeout: number;
  /** Longest time for all of it, redirects included, in milliseconds. */
  readonly totalTimeout: number;
}

/** A whole answer. */
export interface BoundedResponse {
  readonly status: number;
  readonly header: (name: string) => string | null;
  readonly body: Uint8Array<ArrayBuffer>;
}

/** An exchange that gave no whole answer; the text names hosts and never a credential. */
export class ExchangeFailure extends Error {
  override readonly name = "ExchangeFailure";
}

/** Most redirects followed in a row. */
const MAX_REDIRECTS = 5;

const REDIRECTS = new Set([301, 302, 303, 307, 308]);

/** Whether a text can be sent as a bearer credential: visible ASCII. */
export function isSendableToken(token: string): boolean {
  return /^[\x21-\x7e]+$/.test(token);
}

/**
 * Sends a request and reads the answer.
 *
 * Redirects of a GET are followed at most five times, never from `https` to `http`; the credential is dropped for good at
 * the first one that leaves the origin. A POST is never redirected.
 *
 * @throws {ExchangeFailure}
 */
export async function boundedRequest(send: HttpSend, request: BoundedRequest): Promise<BoundedResponse> {
  const deadline = Date.now() + request.totalTimeout;
  let { url, token } = request;
  for (let redirects = 0;; redirects++) {
    const response = await exchange(send, { ...request, url, token }, deadline);
    const location = response.header("location");
    if (request.method !== "GET" || !REDIRECTS.has(response.status) || location === null) return response;
    if (redirects === MAX_REDIRECTS) {
      throw new ExchangeFailure(`${url.host} redirects more than ${MAX_REDIRECTS} times`);
    }
    const next = redirectTarget(url, location);
    if (next.origin !== url.origin) token = null;
    url = next;
  }
}

function redirectTarget(from: URL, location: string): URL {
  let next: URL;
  try {
    next = new URL(location, from);
  } catch {
    throw new ExchangeFailure(`${from.host} redirects to something that is no URL`);
  }
  const plainer = from.protocol === "https:" && next.protocol !== "https:";
  if (
    (next.protocol !== "https:" && next.protocol !== "http:") || plainer || next.username !== "" || next.password !== ""
  ) {
    throw new ExchangeFailure(`${from.host} redirects to a URL that is not followed`);
  }
  next.hash = "";
  return next;
}

async function exchange(send: HttpSend, request: BoundedRequest, deadline: number): Promise<BoundedResponse> {
  const { url, method, maxBytes, idleTimeout, body } = request;
  const ended = new AbortController();
  let reason = "";
  const end = (why: string) => {
    reason = why;
    ended.abort();
  };
  const total = setTimeout(() => end("was not done in time"), Math.max(0, deadline - Date.now()));
  let idle: ReturnType<typeof setTimeout> | undefined;
  const touch = () => {
    clearTimeout(idle);
    idle = setTimeout(() => end(`gave no answer for ${Math.round(idleTimeout / 1000)} s`), idleTimeout);
  };
  try {
    touch();
    const headers: [string, string][] = Object.entries(request.headers);
    if (request.token !== null) headers.push(["authorization", `Bearer ${request.token}`]);
    const response = await send({ method, url, headers, body: body ?? null, signal: ended.signal });
    const header = (name: string) => response.headers.find(([field]) => field === name)?.[1] ?? null;
    const coding = header("content-encoding");
    if (coding !== null && coding.toLowerCase() !== "identity") {
      await response.body.cancel();
      throw new ExchangeFailure(`${url.host} answered with a content encoding nobody asked for`);
    }
    return { status: response.status, header, body: await readBounded(response, url, maxBytes, touch) };
  } catch (error) {
    if (error instanceof ExchangeFailure) throw error;
    if (reason !== "") throw new ExchangeFailure(`${url.host} ${reason}`);
    throw new ExchangeFailure(error instanceof Error ? error.message : String(error), { cause: error });
  } finally {
    clearTimeout(total);
    clearTimeout(idle);
  }
}

async function readBounded(
  response: HttpResponse,
  url: URL,
  maxBytes: number,
  touch: () => void,
): Promise<Uint8Array<ArrayBuffer>> {
  const parts: Uint8Array[] = [];
  let length = 0;
  for await (const part of response.body) {
    touch();
    length += part.length;
    // Leaving the loop cancels the rest of the body.
    if (length > maxBytes) throw new ExchangeFailure(`${url.host} answered with more than ${maxBytes} bytes`);
    parts.push(part);
  }
  const whole = new Uint8Array(length);
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}
