import assert from "node:assert/strict";
import type { JsonObject } from "../../base/json_value.ts";
import { readPlan } from "./plan.ts";
import { type PlanFacts, type PlanVerdict, validatePlan } from "./plan_validation.ts";

const FACTS: PlanFacts = {
  tools: new Set(["notes", "sh", "git", "share-file", "submit-plan", "switch-driver", "delegate-task", "call-member"]),
  shellAllow: new Set(["sh", "git", "__proto__"]),
};

function verdict(steps: readonly JsonObject[], facts = FACTS): PlanVerdict {
  const reading = readPlan({ id: "p", steps });
  assert.ok("plan" in reading, JSON.stringify(reading));
  return validatePlan(reading.plan, facts);
}

Deno.test("a valid plan: each kind of step with what it works on", () => {
  const result = verdict([
    { id: "a", shell: "  git log --format='%h %s' -1 " },
    { id: "b", tool: "notes", input: { text: "$a.output" }, depends_on: ["a", "f"], if: "$f.status == 'success'" },
    { id: "c", tool: "sh", input: "$b.output", on_error: "skip" },
    { id: "d", tool: "share-file", on_error: "continue", retries: 1 },
    { id: "e", capsule: "worker", input: "$a.output" },
    { id: "f", capsule: "local/worker", input: { objective: "look" } },
    { id: "g", shell: "git status", input: { ignored: "$ghost.output" } },
  ]);
  assert.ok("plan" in result);
  assert.deepEqual(result.plan.steps.map(({ work }) => work), [
    { kind: "shell", words: ["git", "log", "--format=%h %s", "-1"], line: "git log --format='%h %s' -1" },
    { kind: "tool", tool: "notes", input: { text: "$a.output" } },
    { kind: "tool", tool: "sh", input: "$b.output" },
    { kind: "tool", tool: "share-file", input: null },
    { kind: "capsule", capsule: "worker", objective: "$a.output" },
    { kind: "capsule", capsule: "local/worker", objective: "look" },
    { kind: "shell", words: ["git", "status"], line: "git status" },
  ]);
  assert.deepEqual(result.plan.steps.map(({ onError }) => onError), [
    "fail",
    "fail",
    "skip",
    "continue",
    "fail",
    "fail",
    "fail",
  ]);
});

Deno.test("what is judged when its step's turn comes does not refuse the plan: cycles, malformed conditions, own references", () => {
  for (
    const steps of [
      [{ id: "a", shell: "git", depends_on: ["a"] }],
      [{ id: "a", shell: "git", depends_on: ["b"] }, { id: "b", shell: "git", depends_on: ["a"] }],
      [{ id: "a", shell: "git", if: "nonsense" }],
      [{ id: "a", tool: "notes", input: { x: "$a.output" } }],
      [{ id: "a", capsule: "not-allowed", input: "x" }],
    ]
  ) assert.ok("plan" in verdict(steps), JSON.stringify(steps));
});

/** Problems of the step `x`. */
const PROBLEMS: readonly (readonly [string, JsonObject, RegExp])[] = [
  ["no kind", {}, /^a step has exactly one of tool, shell and capsule; this one has none$/],
  ["two kinds", { tool: "notes", shell: "git" }, /this one has tool, shell$/],
  ["three kinds", { tool: "notes", shell: "git", capsule: "w" }, /this one has tool, shell, capsule$/],
  ["a tool that is not there", { tool: "nope" }, /^tool 'nope' is not in the inventory$/],
  ["a tool with an inherited name", { tool: "constructor" }, /^tool 'constructor' is not in the inventory$/],
  ["a runtime-provided tool it does not have", { tool: "end-without-answer" }, /is not in the inventory$/],
  ["a plan in a plan", { tool: "submit-plan" }, /^tool 'submit-plan' cannot be called from a plan$/],
  ["another driver", { tool: "switch-driver" }, /cannot be called from a plan$/],
  ["a delegation", { tool: "delegate-task" }, /cannot be called from a plan$/],
  ["a call of a member", { tool: "call-member" }, /cannot be called from a plan$/],
  ["an empty command", { shell: "" }, /^the shell command is empty$/],
  ["a command of blanks", { shell: " \t " }, /^the shell command is empty$/],
  ["a command of quotes", { shell: "'' \"\"" }, /^the shell command is empty$/],
  ["a binary that is not allowed", { shell: "curl x" }, /^binary 'curl' is not in capabilities\.shell\.allow$/],
  ["an allowed binary by a path", { shell: "/usr/bin/git" }, /^binary '\/usr\/bin\/git' is not in/],
  ["a relative path", { shell: "./git" }, /^binary '\.\/git' is not in/],
  ["an inherited name as binary", { shell: "toString" }, /^binary 'toString' is not in/],
  ["a variable before the command", { shell: "PATH=/evil git" }, /^binary 'PATH=\/evil' is not in/],
  ["a quoted whole line", { shell: "'git status'" }, /^binary 'git status' is not in/],
  ["a colour in a binary", { shell: "\u001b[31mgit" }, /^binary '\\u001b\[31mgit' is not in/],
  ["a capsule without input", { capsule: "w" }, /^the input of a capsule step must be text or \{"objective": "…"\}$/],
  ["a capsule with another input", { capsule: "w", input: { task: "x" } }, /must be text or/],
  ["a capsule with more than an objective", { capsule: "w", input: { objective: "x", y: 1 } }, /must be text or/],
  ["a capsule whose objective is no text", { capsule: "w", input: { objective: 1 } }, /must be text or/],
  [
    "an unknown on_error",
    { shell: "git", on_error: "ignore" },
    /^on_error 'ignore' is not known; .* fail, skip, continue$/,
  ],
  ["an inherited on_error", { shell: "git", on_error: "constructor" }, /is not known/],
  [
    "an unknown dependency",
    { shell: "git", depends_on: ["a", "z"] },
    /^depends_on names 'z', a step the plan does not/,
  ],
  ["a dependency with an inherited name", { shell: "git", depends_on: ["__proto__"] }, /^depends_on names '__proto__'/],
  [
    "a reference to no step",
    { tool: "notes", input: { x: ["$z.output"] } },
    /^'\$z\.output' refers to a step the plan/,
  ],
  ["a reference to no field", { tool: "notes", input: "$a.error" }, /^'\$a\.error' refers to a field that is neither/],
  ["such an objective", { capsule: "w", input: { objective: "$z.output" } }, /^'\$z\.output' refers to a step/],
  ["such a condition", { shell: "git", if: "$z.status == 'x'" }, /^'\$z\.status' refers to a step/],
  ["such a field in a condition", { shell: "git", if: "$a.error == 'x'" }, /^'\$a\.error' refers to a field/],
];

for (const [name, step, message] of PROBLEMS) {
  Deno.test(`a plan is refused at the step with ${name}`, () => {
    const result = verdict([{ id: "a", shell: "git" }, { id: "x", ...step }, { id: "y", tool: "also-wrong" }]);
    assert.ok("problem" in result, JSON.stringify(result));
    assert.equal(result.step.id, "x");
    assert.match(result.problem, message);
  });
}

Deno.test("the same id twice is refused at the second, whatever it is", () => {
  for (const id of ["a", "__proto__"]) {
    const result = verdict([{ id, shell: "git" }, { id: "b", shell: "git" }, { id, tool: "nope" }]);
    assert.ok("problem" in result);
    assert.deepEqual([result.step.id, result.step.tool], [id, "nope"]);
    assert.equal(result.problem, `the id '${id}' is used by an earlier step`);
  }
});

Deno.test("a capsule without commands and tools has nothing for a plan to use", () => {
  const nothing = { tools: new Set<string>(), shellAllow: new Set<string>() };
  assert.ok("plan" in verdict([], nothing));
  assert.ok("problem" in verdict([{ id: "a", shell: "git" }], nothing));
  assert.ok("problem" in verdict([{ id: "a", tool: "notes" }], nothing));
});
