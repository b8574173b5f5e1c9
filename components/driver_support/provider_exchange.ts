/**
 * One inference over HTTP: the request is sent, its answer read by the driver's own reader, and what may pass is tried
 * again. Everything of the world is handed in, so that tests run it against a real server.
 *
 * @module
 */
import type { ExchangeConfig } from "./config_reader.ts";
import { isObject, parsed, textAt } from "./json_value.ts";
import { type Failure, retryDecision } from "./retry_policy.ts";

/** What is needed of a response. */
export interface ProviderResponse {
  readonly status: number;
  readonly headers: { get(name: string): string | null };
  readonly body: AsyncIterable<Uint8Array> | null;
  text(): Promise<string>;
}

/** The world. */
export interface World {
  fetch(
    url: string,
    init: {
      readonly method: string;
      readonly headers: Record<string, string>;
      readonly body: string;
      readonly redirect: "manual";
      readonly signal: AbortSignal;
    },
  ): Promise<ProviderResponse>;
  sleep(milliseconds: number): Promise<void>;
  now(): number;
  random(): number;
  /** Tells the operator what is tried again. */
  log(line: string): void;
}

/** A failure whose text the task shall end with. */
export class ProviderError extends Error {
  override readonly name = "ProviderError";
  /** Status of the answer; `null` when there was none. */
  readonly status: number | null;
  /** Provider's word for it, e.g. `invalid_request_error`; may be empty. */
  readonly errorType: string;
  readonly failure: Failure;

  constructor(message: string, status: number | null, errorType: string, failure: Failure) {
    super(message);
    this.status = status;
    this.errorType = errorType;
    this.failure = failure;
  }
}

/** Longest text of a provider that is passed on. */
const LONGEST_TEXT = 2_000;

function bounded(text: string): string {
  return text.length > LONGEST_TEXT ? `${text.slice(0, LONGEST_TEXT)}…` : text;
}

/** What the body of an error says: the provider's words, unchanged. */
export function errorTexts(body: unknown): { readonly type: string; readonly message: string } {
  const error = isObject(body) ? body.error ?? body : body;
  if (typeof error === "string") return { type: "", message: bounded(error) };
  if (!isObject(error)) return { type: "", message: "" };
  const code = textAt(error, "code");
  return {
    // Both words are used to tell errors apart; the code is the finer one.
    type: code !== "" && textAt(error, "type") !== code ? code : textAt(error, "type"),
    message: bounded(textAt(error, "message") || textAt(error, "detail") || textAt(body, "detail")),
  };
}

/** An error in the middle of an answer. */
export function streamError(body: unknown): ProviderError {
  const { type, message } = errorTexts(body);
  const said = [type, message].filter((part) => part !== "").join(": ") || bounded(JSON.stringify(body) ?? "");
  return new ProviderError(`the provider broke off its answer: ${said}`, null, type, {
    kind: "stream-error",
    errorType: type,
  });
}

/** An answer that ended too early. */
export function brokenOff(what: string): ProviderError {
  return new ProviderError(`the provider's answer broke off: ${what}`, null, "", { kind: "connection", code: "" });
}

async function statusError(response: ProviderResponse): Promise<ProviderError> {
  const raw = await response.text().catch(() => "");
  const { type, message } = errorTexts(parsed(raw));
  const location = response.headers.get("location");
  const said = response.status >= 300 && response.status < 400
    ? `a redirect to ${location ?? "nowhere"}, which is not followed: name that address as the endpoint`
    : [type, message].filter((part) => part !== "").join(": ") || bounded(raw.trim()) || "without a text";
  const id = response.headers.get("request-id") ?? response.headers.get("x-request-id");
  return new ProviderError(
    `the provider answered ${response.status} ${said}${id === null ? "" : ` (request ${id})`}`,
    response.status,
    type,
    { kind: "status", status: response.status, header: (name) => response.headers.get(name), errorType: type },
  );
}

function connectionError(error: unknown): ProviderError {
  if (error instanceof ProviderError) return error;
  const code = error instanceof Error && "code" in error && typeof error.code === "string" ? error.code : "";
  const message = error instanceof Error ? error.message : String(error);
  return new ProviderError(message, null, "", { kind: "connection", code });
}

/** The bytes of a body, with an error when none come for too long. */
async function* watched(
  body: AsyncIterable<Uint8Array>,
  alive: () => void,
  silent: () => boolean,
): AsyncGenerator<Uint8Array, void, undefined> {
  try {
    for await (const chunk of body) {
      alive();
      yield chunk;
    }
  } catch (error) {
    throw silent() ? brokenOff("it fell silent") : error;
  }
}

/** Reads an answer. */
export type AnswerReader<T> = (response: ProviderResponse) => Promise<T>;

/**
 * Sends one request until an answer was read.
 *
 * @param body The request; may be replaced after a refusal by `revise`, which gives `null` when it has no better one.
 * @throws {ProviderError} what the last try ended with.
 */
export async function exchange<T>(
  world: World,
  config: ExchangeConfig,
  url: string,
  headers: Readonly<Record<string, string>>,
  body: Readonly<Record<string, unknown>>,
  read: AnswerReader<T>,
  revise: (error: ProviderError, body: Readonly<Record<string, unknown>>) => Readonly<Record<string, unknown>> | null =
    () => null,
): Promise<T> {
  let current = body;
  for (let retries = 0;;) {
    const controller = new AbortController();
    let silent = false;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const alive = () => {
      clearTimeout(timer);
      timer = setTimeout(() => {
        silent = true;
        controller.abort();
      }, config.idleTimeoutMs);
    };
    let error: ProviderError;
    try {
      alive();
      const response = await world.fetch(url, {
        method: "POST",
        headers: { ...headers, ...config.headers, "content-type": "application/json" },
        body: JSON.stringify(current),
        redirect: "manual",
        signal: controller.signal,
      });
      alive();
      if (response.status < 200 || response.status > 299) throw await statusError(response);
      const answer = response.body === null ? response : {
        status: response.status,
        headers: response.headers,
        body: watched(response.body, alive, () => silent),
        text: () => response.text(),
      };
      return await read(answer);
    } catch (caught) {
      error = silent && !(caught instanceof ProviderError) ? brokenOff("it fell silent") : connectionError(caught);
    } finally {
      clearTimeout(timer);
    }
    const revised = revise(error, current);
    if (revised !== null) {
      current = revised;
      continue;
    }
    const decision = retryDecision(error.failure, retries, config, world.now(), world.random());
    if (!decision.retry) throw error;
    world.log(`${error.message}; trying again in ${decision.delayMs} ms`);
    await world.sleep(decision.delayMs);
    retries += 1;
  }
}
