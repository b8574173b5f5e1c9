import assert from "node:assert/strict";
import fc from "fast-check";
import { type Failure, retryAfterMs, retryDecision } from "./retry_policy.ts";

const NOW = Date.parse("2026-03-10T12:00:00Z");
const LIMITS = { maxRetries: 3, maxRetryDelayMs: 60_000 };

const status = (code: number, headers: Record<string, string> = {}, errorType = ""): Failure => ({
  kind: "status",
  status: code,
  header: (name) => headers[name] ?? null,
  errorType,
});
const decide = (failure: Failure, retries = 0, random = 0) => retryDecision(failure, retries, LIMITS, NOW, random);

Deno.test("statuses that may pass are tried again, others are not", () => {
  for (const code of [408, 409, 429, 500, 502, 503, 504, 529]) assert.ok(decide(status(code)).retry, String(code));
  for (const code of [301, 400, 401, 402, 403, 404, 413, 422]) assert.ok(!decide(status(code)).retry, String(code));
});

Deno.test("the provider's own word outranks the status", () => {
  assert.ok(decide(status(400, { "x-should-retry": "true" })).retry);
  assert.ok(!decide(status(500, { "x-should-retry": "false" })).retry);
  assert.ok(!decide(status(429, { "retry-after": "1" }, "insufficient_quota")).retry);
});

Deno.test("connections that broke are tried again, requests that were refused are not", () => {
  const connection = (code: string): Failure => ({ kind: "connection", code });
  for (
    const code of ["", "connection-refused", "connection-timeout", "DNS-timeout", "HTTP-response-incomplete"]
  ) assert.ok(decide(connection(code)).retry, code);
  for (
    const code of ["HTTP-request-denied", "destination-IP-prohibited", "TLS-certificate-error", "internal-error"]
  ) assert.ok(!decide(connection(code)).retry, code);
});

Deno.test("errors in the middle of an answer: overload passes, a bad request does not", () => {
  for (const errorType of ["overloaded_error", "api_error", "rate_limit_error", "server_error"]) {
    assert.ok(decide({ kind: "stream-error", errorType }).retry);
  }
  assert.ok(!decide({ kind: "stream-error", errorType: "invalid_request_error" }).retry);
});

Deno.test("the count of retries is the bound", () => {
  assert.ok(decide(status(500), 2).retry);
  assert.ok(!decide(status(500), 3).retry);
  assert.deepEqual(retryDecision(status(500), 0, { ...LIMITS, maxRetries: 0 }, NOW, 0), { retry: false });
});

Deno.test("retry-after in seconds, as a date and in milliseconds is kept to; too long a wait ends it", () => {
  assert.deepEqual(decide(status(429, { "retry-after": "7" })), { retry: true, delayMs: 7_000 });
  assert.deepEqual(decide(status(429, { "retry-after": "1.5" })), { retry: true, delayMs: 1_500 });
  assert.deepEqual(decide(status(503, { "retry-after": "Tue, 10 Mar 2026 12:00:20 GMT" })), {
    retry: true,
    delayMs: 20_000,
  });
  assert.deepEqual(decide(status(503, { "retry-after": "Tue, 10 Mar 2026 11:00:00 GMT" })), {
    retry: true,
    delayMs: 0,
  });
  assert.deepEqual(decide(status(429, { "retry-after-ms": "250", "retry-after": "9" })), { retry: true, delayMs: 250 });
  assert.deepEqual(decide(status(429, { "retry-after": "61" })), { retry: false });
  for (const text of ["-5", "soon", "", "1e3", "12 34", "NaN"]) assert.equal(retryAfterMs(text, NOW), null, text);
});

Deno.test("without a header the wait doubles, is bounded, and is spread", () => {
  const delays = [0, 1, 2].map((retries) => {
    const decision = decide(status(500), retries);
    return decision.retry ? decision.delayMs : -1;
  });
  assert.deepEqual(delays, [500, 1_000, 2_000]);
  assert.deepEqual(decide(status(529)), { retry: true, delayMs: 1_000 });
  fc.assert(
    fc.property(fc.nat(19), fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }), (retries, random) => {
      const limits = { maxRetries: 20, maxRetryDelayMs: 5_000 };
      const decision = retryDecision(status(500), retries, limits, NOW, random);
      assert.ok(decision.retry && decision.delayMs >= 375 && decision.delayMs <= 5_000);
    }),
  );
});
