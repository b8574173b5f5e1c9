import assert from "node:assert/strict";
import { parseDuration } from "./duration.ts";

Deno.test("durations are digits with s, m, h, d or nothing", () => {
  assert.equal(parseDuration("30"), 30);
  assert.equal(parseDuration("30s"), 30);
  assert.equal(parseDuration(" 10m "), 600);
  assert.equal(parseDuration("2h"), 7200);
  assert.equal(parseDuration("14d"), 1_209_600);
  assert.equal(parseDuration("0"), 0);
});

Deno.test("anything else is no duration", () => {
  for (const text of ["", "5 minutes", "30S", "1h30m", "1.5h", "-1", "+1", "m", "1w", "1 m", "1e3"]) {
    assert.equal(parseDuration(text), null, text);
  }
  assert.equal(parseDuration("18446744073709551616"), null);
  assert.equal(parseDuration("213503982334602d"), null);
  assert.equal(parseDuration("213503982334601d"), Number.MAX_SAFE_INTEGER);
});
