import assert from "node:assert/strict";
import { feedbackMessage, reopenedTask } from "./reopen_text.ts";

Deno.test("task.md holds the task and all feedback, oldest first", () =>
  assert.equal(
    reopenedTask("Fix it.  \n\n", [{ hook: "a", reason: " tests fail\n" }, { hook: "b", reason: "still" }]),
    "Fix it.\n\n---\n\n# Reopen feedback\n\nThe previous attempt at this task was not accepted. Address the feedback below.\n\n" +
      "## Reopen 1 — from hook `a`\n\ntests fail\n\n## Reopen 2 — from hook `b`\n\nstill\n",
  ));

Deno.test("the next attempt reads one heading and the reason", () =>
  assert.equal(feedbackMessage({ hook: "a", reason: " tests fail\n" }, 2), "# Reopen 2 — from hook a\n\ntests fail"));
