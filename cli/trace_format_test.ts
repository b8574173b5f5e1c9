import assert from "node:assert/strict";
import { average, cut, duration, mark, row, sectionRule, short, thousands } from "./trace_format.ts";

Deno.test("numbers, durations, averages", () => {
  assert.deepEqual([0, 999, 1_000, 1_234_567].map(thousands), ["0", "999", "1,000", "1,234,567"]);
  assert.deepEqual([0, 999, 1_000, 1_250, 61_000].map(duration), ["0ms", "999ms", "1.0s", "1.3s", "61.0s"]);
  assert.deepEqual([average(10, 4), average(0, 3), average(1, 0)], ["3", "0", "—"]);
});

Deno.test("ids, cuts, marks, rows and rules", () => {
  assert.equal(short("ses_019a00112100"), "ses_019a0011…");
  assert.equal(short("ses_019a0011"), "ses_019a0011");
  assert.equal(cut("😀😀😀", 2), "😀😀…");
  assert.equal(cut("ab", 2), "ab");
  assert.deepEqual(["ok", "success", "error", undefined].map(mark), ["✓", "✓", "✗", "✗"]);
  assert.equal(row("model:", "m"), "model:      m");
  assert.equal(row("containment:", "a → b"), "containment: a → b");
  assert.equal(sectionRule("Turns").length, 49);
  assert.ok(sectionRule("Turns").startsWith("── Turns ─"));
});
