import assert from "node:assert/strict";
import type { ToolRun } from "../agent/tool_dispatch.ts";
import { endOfCall, MAX_PLAN_TEXT, MAX_STEP_TEXT, TextBudget } from "./step_end.ts";

function end(run: Partial<ToolRun> & Pick<ToolRun, "passed">) {
  return endOfCall({ kind: "ran", run: { text: "text", metadata: [], ...run } });
}

/** What a component answered; `file` is what its data-path leads to. */
function answer(data: string | null, summary: string | null, file: string | null = null) {
  return { answer: { data, summary, readData: () => file } };
}

Deno.test("output and error of a tool: data, else the file; summary, else data", () => {
  const rows: readonly (readonly [ReturnType<typeof answer>, string | null, string | null])[] = [
    [answer("d", "s"), "d", "s"],
    [answer("d", null), "d", "d"],
    [answer("", "s", "f"), "", "s"],
    [answer(null, "s", "f"), "f", "s"],
    [answer(null, null, "f"), "f", "f"],
    [answer(null, "s"), null, "s"],
    [answer(null, null), null, "text"],
  ];
  for (const [given, output, error] of rows) {
    assert.deepEqual(end({ passed: true, ...given }), { passed: true, output, error: null });
    assert.deepEqual(end({ passed: false, ...given }), { passed: false, output, error });
  }
});

Deno.test("a result that is one text: output of one that passed, error of one that did not", () => {
  assert.deepEqual(end({ passed: true }), { passed: true, output: "text", error: null });
  assert.deepEqual(end({ passed: false }), { passed: false, output: null, error: "text" });
});

Deno.test("a refusal is the step's error and final", () => {
  assert.deepEqual(endOfCall({ kind: "refused", reason: "no" }), {
    passed: false,
    output: null,
    error: "no",
    final: true,
  });
});

Deno.test("reserved metadata and an unanswered question are passed on", () => {
  const metadata = [["state_effect", "read"], ["resource_id", "r"], ["other", "x"], ["resource_id", "late"]] as const;
  const { stateEffect, resourceId, inputTimedOut } = end({ passed: true, metadata });
  assert.deepEqual([stateEffect, resourceId, inputTimedOut], ["read", "r", undefined]);
  const asked = end({ passed: false, inputTimedOut: true });
  assert.deepEqual([asked.inputTimedOut, asked.final], [true, true]);
});

Deno.test("what a plan keeps is bounded for each step and for all together, cut between characters", () => {
  const budget = new TextBudget();
  assert.equal(budget.take("short"), "short");
  assert.equal(budget.take("é".repeat(MAX_STEP_TEXT / 2)).length, MAX_STEP_TEXT / 2);
  const cut = budget.take(`x${"é".repeat(MAX_STEP_TEXT)}`);
  assert.equal(cut, `x${"é".repeat(MAX_STEP_TEXT / 2 - 1)} […]\n[cut at ${MAX_STEP_TEXT} bytes]`);
  let kept = 0;
  for (let step = 0; step < 256; step++) kept += budget.take("y".repeat(MAX_STEP_TEXT)).length;
  assert.ok(kept < MAX_PLAN_TEXT + 256 * 40);
  assert.equal(budget.take("z"), " […]\n[cut at 0 bytes]");
});
