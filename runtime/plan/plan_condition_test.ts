import assert from "node:assert/strict";
import fc from "fast-check";
import { compareCodePoints, holds, readCondition } from "./plan_condition.ts";
import { type Referable, ReferenceFailure } from "./plan_reference.ts";

const declared = new Set(["a", "b", "open", "a>b", "x.y"]);
const settled = new Map<string, Referable>([
  ["a", { status: "success", output: "10" }],
  ["b", { status: "failed", output: null }],
  ["a>b", { status: "skipped", output: "9" }],
  ["x.y", { status: "success", output: "it's" }],
]);

function evaluate(text: string): boolean {
  const reading = readCondition(text, declared);
  assert.ok("condition" in reading, "problem" in reading ? reading.problem : text);
  return holds(reading.condition, settled);
}

const HELD: readonly (readonly [string, boolean])[] = [
  ["", true],
  ["  \n", true],
  ["$a.status == 'success'", true],
  ["$a.status=='success'", true],
  [`$a.status == "success"`, true],
  ["$a.status == 'failed'", false],
  ["'success' == $a.status", true],
  ["$a.status != 'success'", false],
  ["$b.status != $a.status", true],
  ["$b.output == ''", true],
  ["$b.status == 'failed' && $a.status == 'failed'", false],
  ["$b.status == 'failed' && $a.status == 'success'", true],
  ["$b.status == 'success' || $a.status == 'success'", true],
  // || binds weaker than &&
  ["'1' == '1' || '1' == '2' && '1' == '2'", true],
  ["'1' == '2' && '1' == '1' || '1' == '1'", true],
  // text, not numbers
  ["$a.output < '9'", true],
  ["$a.output > '9'", false],
  ["'b' > 'a'", true],
  ["'a' < 'a'", false],
  ["'a' > ''", true],
  ["'' < 'a'", true],
  // operators and quotes inside quotes
  ["'a == b' == 'a == b'", true],
  ["'a && b' == 'a && b' && 'x || y' != 'x'", true],
  [`$x.y.output == "it's"`, true],
  [`'say "x"' == 'say "x"'`, true],
  ["$a>b.output == '9'", true],
  ["'&&' != '||'", true],
];

for (const [text, expected] of HELD) {
  Deno.test(`if: ${JSON.stringify(text)} is ${expected}`, () => assert.equal(evaluate(text), expected));
}

const MALFORMED: readonly string[] = [
  "$a.status",
  "'x'",
  "true",
  "success",
  "$a.status = 'success'",
  "$a.status == success",
  "success == $a.status",
  "$a.status === 'success'",
  "$a.output >= '1'",
  "$a.output <= '1'",
  "$a.status ==",
  "== 'x'",
  "==",
  "($a.status == 'success')",
  "!($a.status == 'success')",
  "!$a.status == 'x'",
  "$a.status == 'x' &&",
  "&& $a.status == 'x'",
  "$a.status == 'x' && && '1' == '1'",
  "$a.status == 'x' ||",
  "$a.status == 'x' || '1' == '1' ||",
  "$a.status == 'x' & '1' == '1'",
  "$a.status == 'x",
  `$a.status == "x'`,
  "'a' == 'b' == 'c'",
  "'a'b == 'c'",
  "'a''b' == 'c'",
  "$ == 'x'",
  "$a == 'x'",
  "$a. == 'x'",
  "1 < 2",
];

for (const text of MALFORMED) {
  Deno.test(`if: ${JSON.stringify(text)} is no condition`, () => {
    const reading = readCondition(text, declared);
    assert.ok("problem" in reading && reading.kind === "form", JSON.stringify(reading));
  });
}

Deno.test("a condition's references are those of the plan", () => {
  const wrong = (text: string) => {
    const reading = readCondition(text, declared);
    assert.ok("problem" in reading && reading.kind === "reference", text);
    return reading.problem;
  };
  assert.equal(wrong("$ghost.status == 'x'"), "'$ghost.status' refers to a step the plan does not have");
  assert.equal(wrong("$ghost.what == 'x'"), "'$ghost.what' refers to a step the plan does not have");
  assert.equal(wrong("'x' == $a.exit"), "'$a.exit' refers to a field that is neither output nor status");
  // The form of the whole is judged first.
  const reading = readCondition("$ghost.status == 'x' && nonsense", declared);
  assert.ok("problem" in reading && reading.kind === "form");
});

Deno.test("a step that is not settled fails the condition, also where the rest decides it", () => {
  for (const text of ["$open.status == 'x'", "'1' == '1' || $open.status == 'x'", "'1' == '2' && $open.output == ''"]) {
    assert.throws(() => evaluate(text), ReferenceFailure, text);
  }
});

Deno.test("any text is a condition or no condition, and what a quoted text holds changes nothing", () => {
  const pieces = fc.constantFrom("'", '"', "$a.status", "==", "!=", "<", ">", "&&", "||", " ", "x", "$", ".", "(");
  fc.assert(fc.property(fc.array(pieces, { maxLength: 12 }), (parts) => {
    const reading = readCondition(parts.join(""), declared);
    if ("condition" in reading) assert.equal(typeof holds(reading.condition, settled), "boolean");
  }));
  const literal = fc.string().filter((text) => !text.includes("'"));
  fc.assert(fc.property(literal, literal, (left, right) => {
    assert.equal(evaluate(`'${left}' == '${right}'`), left === right);
    assert.equal(evaluate(`'${left}' != '${right}'`), left !== right);
    assert.equal(evaluate(`'${left}' == '${right}' || '${left}' != '${right}'`), true);
    assert.equal(evaluate(`'${left}' == '${right}' && '${left}' != '${right}'`), false);
    assert.equal(evaluate(`'${left}' < '${right}'`), evaluate(`'${right}' > '${left}'`));
  }));
});

Deno.test("texts are ordered as their UTF-8 bytes are", () => {
  const bytes = (text: string) => new TextEncoder().encode(text);
  const order = (left: Uint8Array, right: Uint8Array) => {
    for (let index = 0; index < Math.min(left.length, right.length); index++) {
      if (left[index] !== right[index]) return Math.sign(left[index]! - right[index]!);
    }
    return Math.sign(left.length - right.length);
  };
  const text = fc.string({ unit: "binary" });
  fc.assert(fc.property(text, text, (left, right) => {
    assert.equal(Math.sign(compareCodePoints(left, right)), order(bytes(left), bytes(right)));
  }));
  assert.ok(compareCodePoints("\uffff", "\u{10000}") < 0);
  assert.ok(compareCodePoints("\u{1f600}", "\u{1f601}") < 0);
});

Deno.test("every way to join up to four comparisons is judged with && before ||", () => {
  const comparisons = [["'1' == '1'", true], ["'1' == '2'", false]] as const;
  let judged = 0;
  const join = (text: string, all: readonly (readonly boolean[])[], left: number) => {
    assert.equal(evaluate(text), all.some((each) => each.every((value) => value)), text);
    judged++;
    if (left === 0) return;
    for (const [comparison, value] of comparisons) {
      join(`${text} && ${comparison}`, [...all.slice(0, -1), [...all.at(-1)!, value]], left - 1);
      join(`${text} || ${comparison}`, [...all, [value]], left - 1);
    }
  };
  for (const [comparison, value] of comparisons) join(comparison, [[value]], 3);
  assert.equal(judged, 2 * (1 + 4 + 16 + 64));
});
