import assert from "node:assert/strict";
import fc from "fast-check";
import type { JsonValue } from "../../base/json_value.ts";
import {
  fillReferences,
  MAX_FILLED_LENGTH,
  readReference,
  type Referable,
  ReferenceFailure,
  wrongReference,
} from "./plan_reference.ts";

const declared = new Set(["a", "b", "a.b", "__proto__", "a b", "$"]);

function settled(entries: Record<string, Referable> | [string, Referable][]): Map<string, Referable> {
  return new Map(Array.isArray(entries) ? entries : Object.entries(entries));
}

const success = (output: string | null): Referable => ({ status: "success", output });

Deno.test("references: the field is after the last dot, the id is everything before it", () => {
  const rows: readonly (readonly [string, string, string])[] = [
    ["$a.output", "a", "output"],
    ["$a.status", "a", "status"],
    ["$a.b.output", "a.b", "output"],
    ["$__proto__.output", "__proto__", "output"],
    ["$a b.status", "a b", "status"],
    ["$$.status", "$", "status"],
  ];
  for (const [text, id, field] of rows) assert.deepEqual(readReference(text, declared), { reference: { id, field } });
});

Deno.test("texts that are no references stand for themselves", () => {
  const texts = [
    "",
    "$",
    "$.",
    "$.output",
    "$a",
    "a.output",
    " $a.output",
    "x $a.output",
    "$5.00",
    "$HOME/.profile",
    "$ghost.stdout",
    "$constructor.name",
  ];
  for (const text of texts) assert.equal(readReference(text, declared), null, text);
});

Deno.test("a reference to no step of the plan, or to no field, is wrong wherever it stands", () => {
  const ghost = "'$ghost.output' refers to a step the plan does not have";
  assert.deepEqual(readReference("$ghost.output", declared), { problem: ghost });
  assert.deepEqual(readReference("$constructor.status", declared), {
    problem: "'$constructor.status' refers to a step the plan does not have",
  });
  const field = "'$a.stdout' refers to a field that is neither output nor status";
  assert.deepEqual(readReference("$a.stdout", declared), { problem: field });
  assert.deepEqual(readReference("$a.output ", declared), {
    problem: "'$a.output ' refers to a field that is neither output nor status",
  });
  assert.equal(wrongReference({ x: [1, null, { y: "$ghost.output" }] }, declared), ghost);
  assert.equal(wrongReference("$a.stdout", declared), field);
  assert.equal(wrongReference({ "$ghost.output": "a key is no reference" }, declared), null);
  assert.equal(wrongReference({ x: "$a.output", y: "text", z: true, n: null }, declared), null);
  assert.equal(wrongReference(null, declared), null);
  assert.match(wrongReference("$\u001b[31m.output", declared)!, /^'\$\\u001b\[31m\.output' refers/);
});

Deno.test("whole strings are replaced anywhere in an input, by text and by text only", () => {
  const scope = {
    declared,
    settled: settled([
      ["a", success('{"x":1}')],
      ["b", { status: "failed", output: null }],
      ["a.b", success("$a.output")],
      ["__proto__", success("kept apart")],
    ]),
  };
  const input = JSON.parse(`{
    "one": "$a.output", "two": ["$b.status", {"three": "$b.output"}], "$a.output": "a key", "in": "is $a.output",
    "number": 1, "truth": true, "none": null, "price": "$5.00", "once": "$a.b.output",
    "__proto__": {"own": "$__proto__.output"}
  }`);
  const filled = fillReferences(input, scope);
  assert.equal(
    JSON.stringify(filled),
    JSON.stringify(JSON.parse(`{
    "one": "{\\"x\\":1}", "two": ["failed", {"three": ""}], "$a.output": "a key", "in": "is $a.output",
    "number": 1, "truth": true, "none": null, "price": "$5.00", "once": "$a.output",
    "__proto__": {"own": "kept apart"}
  }`)),
  );
  assert.equal(Object.getPrototypeOf(filled), Object.prototype);
  assert.equal(({} as { readonly own?: string }).own, undefined);
  assert.equal(fillReferences("$a.output", scope), '{"x":1}');
  assert.equal(fillReferences(null, scope), null);
});

Deno.test("a reference to a step that is not settled fails, its own step's included", () => {
  const fails = (input: JsonValue) => () => fillReferences(input, { declared, settled: settled({}) });
  assert.throws(
    fails({ x: "$a.output" }),
    new ReferenceFailure("'$a.output' refers to a step that is not settled yet; name it in depends_on"),
  );
});

Deno.test("what references stand for is bounded, so that outputs do not multiply", () => {
  const scope = { declared, settled: settled({ a: success("x".repeat(MAX_FILLED_LENGTH / 4)) }) };
  assert.equal(fillReferences(Array(4).fill("$a.output"), scope).length, 4);
  assert.throws(() => fillReferences(Array(5).fill("$a.output"), scope), ReferenceFailure);
  assert.throws(() => fillReferences({ x: Array(100_000).fill("$a.output") }, scope), /more than 1048576 characters/);
});

Deno.test("an input without references comes out as it went in; shape and keys never change", () => {
  fc.assert(fc.property(fc.jsonValue(), (value) => {
    const input = value as JsonValue;
    assert.equal(
      JSON.stringify(fillReferences(input, { declared: new Set(), settled: settled({}) })),
      JSON.stringify(input),
    );
  }));
  const leaf = fc.oneof(fc.constantFrom("$a.output", "$b.status", "$b.output"), fc.string(), fc.integer());
  const tree = fc.object({ values: [leaf], maxDepth: 4 });
  const scope = { declared, settled: settled({ a: success("A"), b: { status: "skipped", output: null } }) };
  fc.assert(fc.property(tree, (input) => {
    const text = JSON.stringify(
      input as JsonValue,
      (_key, item) => item === "$a.output" ? "A" : item === "$b.status" ? "skipped" : item === "$b.output" ? "" : item,
    );
    if (wrongReference(input as JsonValue, declared) !== null) return;
    assert.equal(JSON.stringify(fillReferences(input as JsonValue, scope)), text);
  }));
});
