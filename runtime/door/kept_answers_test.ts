import assert from "node:assert/strict";
import type { TaskView } from "../session/task_registry.ts";
import { KeptAnswers } from "./kept_answers.ts";

function task(id: string, state: TaskView["state"] = "working"): TaskView {
  return { id, contextId: "ctx", state, message: null, response: null, prompt: null, changedMs: 1, submitter: null };
}

Deno.test("an answer is kept for the very task it tells of, and for no later state of it", () => {
  const kept = new KeptAnswers();
  const working = task("a");
  assert.equal(kept.of(working), null);
  kept.keep(working, '"working"');
  assert.equal(kept.of(working), '"working"');
  assert.equal(kept.of(task("b")), null);
  const completed = task("a", "completed");
  assert.equal(kept.of(completed), null);
  // A registry that makes a new object of the same facts costs an answer, never a wrong one.
  assert.equal(kept.of(task("a")), null);
  kept.keep(completed, '"completed"');
  assert.equal(kept.of(completed), '"completed"');
  assert.equal(kept.of(working), null);
});

Deno.test("a long answer is not kept, nor is the shorter one before it", () => {
  const kept = new KeptAnswers();
  const asked = task("a");
  kept.keep(asked, "x".repeat(8_192));
  assert.equal(kept.of(asked)!.length, 8_192);
  kept.keep(asked, "x".repeat(8_193));
  assert.equal(kept.of(asked), null);
});

Deno.test("the answers kept last stay, 64 of them", () => {
  const kept = new KeptAnswers();
  const tasks = Array.from({ length: 65 }, (_, index) => task(String(index)));
  for (const each of tasks.slice(0, 64)) kept.keep(each, "{}");
  // Kept again, it is not the oldest any more.
  kept.keep(tasks[0]!, "[]");
  kept.keep(tasks[64]!, "{}");
  assert.equal(kept.of(tasks[0]!), "[]");
  assert.equal(kept.of(tasks[1]!), null);
  assert.equal(tasks.filter((each) => kept.of(each) !== null).length, 64);
});
