/**
 * When a failed request is tried again, and after how long. Pure: the clock and the dice are handed in.
 *
 * @module
 */

/** What a failed try is judged by. */
export type Failure =
  /** The provider answered with an error status. */
  | {
    readonly kind: "status";
    readonly status: number;
    /** `retry-after`, `retry-after-ms` and `x-should-retry` of the response. */
    readonly header: (name: string) => string | null;
    /** Provider's own word for the error, e.g. `insufficient_quota`. */
    readonly errorType: string;
  }
  /** No answer, or one that broke off. `code`: what the runtime said, e.g. `connection-refused`; empty when unknown. */
  | { readonly kind: "connection"; readonly code: string }
  /** The provider reported an error in the middle of its answer. */
  | { readonly kind: "stream-error"; readonly errorType: string };

/** What to do. */
export type RetryDecision =
  | { readonly retry: false }
  | { readonly retry: true; readonly delayMs: number };

export interface RetryLimits {
  readonly maxRetries: number;
  readonly maxRetryDelayMs: number;
}

const FIRST_DELAY = 500;
const FIRST_DELAY_OVERLOADED = 1_000;
const LONGEST_DELAY = 30_000;

/** Errors of the provider that a second try can't cure although their status says so. */
const PERMANENT: ReadonlySet<string> = new Set(["insufficient_quota", "billing_error", "billing_hard_limit_reached"]);

/** Errors in the middle of an answer that may pass. */
const PASSING: ReadonlySet<string> = new Set([
  "overloaded_error",
  "api_error",
  "rate_limit_error",
  "timeout_error",
  "server_error",
  "server_is_overloaded",
  "internal_server_error",
  "service_unavailable",
  "rate_limit_exceeded",
]);

/** Codes of the runtime that mean: this request is not sent, now or later. */
const REFUSED =
  /^(HTTP-request-|TLS-certificate-error$|destination-IP-prohibited$|internal-error$|configuration-error$)/;

/** Milliseconds a `retry-after` header asks for: seconds, or an HTTP date. `null` when it says nothing usable. */
export function retryAfterMs(value: string | null, now: number): number | null {
  if (value === null) return null;
  const text = value.trim();
  if (/^[0-9]+(\.[0-9]+)?$/.test(text)) return Math.ceil(Number(text) * 1000);
  // A date has letters; a text without them is a number nobody can read.
  if (!/[A-Za-z]/.test(text)) return null;
  const date = Date.parse(text);
  return Number.isNaN(date) ? null : Math.max(0, date - now);
}

function mayPass(failure: Failure): boolean {
  switch (failure.kind) {
    case "connection":
      return !REFUSED.test(failure.code);
    case "stream-error":
      return PASSING.has(failure.errorType);
    case "status": {
      if (PERMANENT.has(failure.errorType)) return false;
      const told = failure.header("x-should-retry")?.toLowerCase();
      if (told === "true") return true;
      if (told === "false") return false;
      return failure.status === 408 || failure.status === 409 || failure.status === 429 || failure.status >= 500;
    }
  }
}

function asked(failure: Failure, now: number): number | null {
  if (failure.kind !== "status") return null;
  const milliseconds = failure.header("retry-after-ms");
  if (milliseconds !== null && /^[0-9]+(\.[0-9]+)?$/.test(milliseconds.trim())) return Math.ceil(Number(milliseconds));
  return retryAfterMs(failure.header("retry-after"), now);
}

/**
 * Decides about one failed try.
 *
 * @param retries Retries made so far.
 * @param random From 0 up to, not including, 1.
 */
export function retryDecision(
  failure: Failure,
  retries: number,
  limits: RetryLimits,
  now: number,
  random: number,
): RetryDecision {
  if (retries >= limits.maxRetries || !mayPass(failure)) return { retry: false };
  const wanted = asked(failure, now);
  if (wanted !== null) {
    // Trying before the time the provider named would fail again; longer than the bound nobody waits.
    return wanted > limits.maxRetryDelayMs ? { retry: false } : { retry: true, delayMs: wanted };
  }
  const crowded = failure.kind === "stream-error" ||
    (failure.kind === "status" && (failure.status === 429 || failure.status === 503 || failure.status === 529));
  const first = crowded ? FIRST_DELAY_OVERLOADED : FIRST_DELAY;
  const full = Math.min(first * 2 ** retries, LONGEST_DELAY, limits.maxRetryDelayMs);
  // Up to a quarter less, so that many capsules refused at once do not come back at once.
  return { retry: true, delayMs: Math.round(full * (1 - random / 4)) };
}
