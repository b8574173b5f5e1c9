import assert from "node:assert/strict";
import fc from "fast-check";
import type { JsonObject, JsonValue } from "../../base/json_value.ts";
import { kindsOf, MAX_RETRIES, MAX_STEPS, readPlan } from "./plan.ts";

function steps(...written: JsonValue[]): JsonObject {
  return { id: "p", steps: written };
}

Deno.test("a plan is read with its defaults, null counting as absent", () => {
  const reading = readPlan(steps(
    { id: "a", shell: "git status" },
    {
      id: "b",
      tool: "notes",
      shell: null,
      capsule: null,
      input: { text: "$a.output" },
      depends_on: ["a", "a"],
      if: "$a.status == 'success'",
      on_error: "skip",
      retries: 2,
    },
    { id: "c", capsule: "worker", input: null, depends_on: null, if: null, on_error: null, retries: null },
  ));
  assert.ok("plan" in reading);
  const defaults = { tool: null, shell: null, capsule: null, input: null, dependsOn: [], condition: "", retries: 0 };
  assert.deepEqual(reading.plan, {
    id: "p",
    steps: [
      { ...defaults, id: "a", shell: "git status", onError: "fail" },
      {
        ...defaults,
        id: "b",
        tool: "notes",
        input: { text: "$a.output" },
        dependsOn: ["a"],
        condition: "$a.status == 'success'",
        onError: "skip",
        retries: 2,
      },
      { ...defaults, id: "c", capsule: "worker", onError: "fail" },
    ],
  });
  assert.deepEqual(reading.plan.steps.map(kindsOf), [["shell"], ["tool"], ["capsule"]]);
});

Deno.test("a plan may have no steps, and one step may name any number of kinds: both are read", () => {
  assert.deepEqual(readPlan({ id: "p", steps: [] }), { plan: { id: "p", steps: [] } });
  const reading = readPlan(steps({ id: "a" }, { id: "b", tool: "t", shell: "s" }));
  assert.ok("plan" in reading);
  assert.deepEqual(reading.plan.steps.map(kindsOf), [[], ["tool", "shell"]]);
});

const REFUSED: readonly (readonly [string, JsonObject, RegExp])[] = [
  ["no id", { steps: [] }, /: id must be text$/],
  ["a number as id", { id: 1, steps: [] }, /: id must be text$/],
  ["a blank id", { id: " ", steps: [] }, /: id is blank$/],
  ["a long id", { id: "x".repeat(129), steps: [] }, /: id is longer than 128 characters$/],
  ["no steps", { id: "p" }, /: steps must be a list$/],
  ["steps by name", { id: "p", steps: { a: {} } }, /: steps must be a list$/],
  ["too many steps", steps(...Array(MAX_STEPS + 1).fill({ id: "a", shell: "x" })), /257 entries; .* at most 256$/],
  [
    "an unknown key",
    { id: "p", steps: [], parallel: true },
    /the plan has the unknown key 'parallel'; there are id, steps$/,
  ],
  ["a wrapper", { plan: { id: "p", steps: [] } }, /the unknown key 'plan'/],
  ["__proto__ as a key", JSON.parse('{"id":"p","steps":[],"__proto__":{}}'), /unknown key '__proto__'/],
  ["a text as step", steps("a"), /: steps\[0\] must be an object$/],
  ["a list as step", steps({ id: "a" }, []), /: steps\[1\] must be an object$/],
  ["a misspelt key", steps({ id: "a", shell: "x", dependsOn: ["b"] }), /steps\[0\] has the unknown key 'dependsOn'/],
  ["__proto__ in a step", steps(JSON.parse('{"id":"a","__proto__":{"tool":"x"}}')), /unknown key '__proto__'/],
  ["a step without id", steps({ shell: "x" }), /: steps\[0\]\.id must be text$/],
  ["a colour as id", steps({ id: "\u001b[31ma" }), /: steps\[0\]\.id holds a character that is not printable$/],
  ["a C1 control", steps({ id: "\u009b31m" }), /not printable/],
  ["a line break", steps({ id: "a\nb" }), /not printable/],
  ["a line separator", steps({ id: "a\u2028b" }), /not printable/],
  ["text written backwards", steps({ id: "a\u202eb" }), /not printable/],
  ["a zero-width space", steps({ id: "a\u200bb" }), /not printable/],
  ["half a character", steps({ id: "a\ud800" }), /not printable/],
  ["a number as tool", steps({ id: "a", tool: 5 }), /: steps\[0\]\.tool must be text$/],
  ["a list as shell", steps({ id: "a", shell: ["ls"] }), /: steps\[0\]\.shell must be text$/],
  ["a list as input", steps({ id: "a", tool: "t", input: [] }), /: steps\[0\]\.input must be an object or text$/],
  ["a number as input", steps({ id: "a", tool: "t", input: 1 }), /: steps\[0\]\.input must be an object or text$/],
  ["a text as depends_on", steps({ id: "a", depends_on: "b" }), /: steps\[0\]\.depends_on must be a list$/],
  ["a number in depends_on", steps({ id: "a", depends_on: [1] }), /: steps\[0\]\.depends_on\[0\] must be text$/],
  ["a colour in depends_on", steps({ id: "a", depends_on: ["\u001b"] }), /depends_on\[0\] holds a character/],
  ["a truth value as if", steps({ id: "a", if: true }), /: steps\[0\]\.if must be text$/],
  ["a number as on_error", steps({ id: "a", on_error: 1 }), /: steps\[0\]\.on_error must be text$/],
  ["half a retry", steps({ id: "a", retries: 0.5 }), /: steps\[0\]\.retries must be a whole number of at least 0$/],
  ["a negative retry", steps({ id: "a", retries: -1 }), /must be a whole number/],
  ["retries as text", steps({ id: "a", retries: "1" }), /must be a whole number/],
  ["endless retries", steps({ id: "a", retries: MAX_RETRIES + 1 }), /is 101; a step is retried at most 100 times$/],
];

for (const [name, input, message] of REFUSED) {
  Deno.test(`a plan is not read with ${name}`, () => {
    const reading = readPlan(input);
    assert.ok("problem" in reading);
    assert.match(reading.problem, /^the plan cannot be read: /);
    assert.match(reading.problem, message);
    // deno-lint-ignore no-control-regex -- exactly these may not reach a terminal
    assert.doesNotMatch(reading.problem, /[\u0000-\u001f\u007f-\u009f\u2028\u202e]/);
  });
}

Deno.test("any JSON object is a plan or a problem, and what is read names what was written", () => {
  const value = fc.jsonValue({ maxDepth: 3 });
  const key = fc.constantFrom(
    "id",
    "tool",
    "shell",
    "capsule",
    "input",
    "depends_on",
    "if",
    "on_error",
    "retries",
    "x",
  );
  const step = fc.dictionary(key, fc.oneof(value, fc.string()));
  const plan = fc.record({ id: fc.oneof(value, fc.string()), steps: fc.oneof(value, fc.array(fc.oneof(step, value))) });
  fc.assert(fc.property(plan, (input) => {
    const reading = readPlan(input as JsonObject);
    if ("problem" in reading) return;
    const written = input.steps as unknown as readonly { readonly id: string }[];
    assert.deepEqual(reading.plan.steps.map(({ id }) => id), written.map(({ id }) => id));
  }));
});
