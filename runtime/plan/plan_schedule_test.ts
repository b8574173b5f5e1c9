import assert from "node:assert/strict";
import fc from "fast-check";
import { nextRound, type Settled, type SettledStep, settleStep } from "./plan_schedule.ts";
import type { OnError, ValidPlan, ValidStep } from "./plan_validation.ts";

function step(id: string, more: Partial<ValidStep> = {}): ValidStep {
  return {
    id,
    work: { kind: "tool", tool: "t", input: null },
    dependsOn: [],
    condition: "",
    onError: "fail",
    retries: 0,
    ...more,
  };
}

function plan(...steps: ValidStep[]): ValidPlan {
  return { id: "p", steps };
}

function done(of: ValidStep, status: SettledStep["status"], output: string | null = null): [string, SettledStep] {
  return [of.id, { step: of, status, output, error: null, attempts: 1 }];
}

function ids(list: readonly { readonly step: ValidStep }[]): string[] {
  return list.map(({ step }) => step.id);
}

const NONE: Settled = new Map();

Deno.test("a plan without steps is completed at once, and so is one whose steps have all settled", () => {
  const over = { settled: [], ready: [], ends: "completed" };
  assert.deepEqual(nextRound(plan(), NONE), over);
  const a = step("a");
  assert.deepEqual(nextRound(plan(a), new Map([done(a, "failed")])), over);
});

Deno.test("steps whose dependencies have settled, however, are ready together in file order", () => {
  const [a, b] = [step("a"), step("b", { dependsOn: ["a"] })];
  const [c, d] = [step("c"), step("d", { dependsOn: ["a", "c"] })];
  const whole = plan(a, b, c, d);
  assert.deepEqual(ids(nextRound(whole, NONE).ready), ["a", "c"]);
  for (const status of ["success", "failed", "skipped"] as const) {
    assert.deepEqual(ids(nextRound(whole, new Map([done(a, status)])).ready), ["b", "c"]);
    assert.deepEqual(ids(nextRound(whole, new Map([done(a, status), done(c, status)])).ready), ["b", "d"]);
  }
});

Deno.test("a condition that does not hold settles its step as skipped, without a reference of its input being looked at", () => {
  const a = step("a");
  const b = step("b", {
    condition: "$a.status == 'failed'",
    dependsOn: ["a"],
    work: { kind: "tool", tool: "t", input: { x: "$late.output" } },
  });
  const late = step("late", { dependsOn: ["b"] });
  const round = nextRound(plan(a, b, late), new Map([done(a, "success")]));
  assert.deepEqual(round.settled, [{ step: b, status: "skipped", output: null, error: null, attempts: 0 }]);
  assert.deepEqual([round.ready, round.ends], [[], null]);
});

Deno.test("a malformed condition, and one on a step that is not settled, stop the plan whatever on_error says", () => {
  for (const onError of ["fail", "skip", "continue"] as const) {
    for (const condition of ["nonsense", "$b.status == 'x'"]) {
      const [a, b] = [step("a", { condition: "'x' == 'y'" }), step("b")];
      const wrong = step("wrong", { condition, onError });
      const round = nextRound(plan(a, wrong, b), NONE);
      assert.deepEqual(ids(round.settled), ["a", "wrong"]);
      assert.equal(round.settled[1]!.status, "failed");
      assert.match(round.settled[1]!.error!, /^if: /);
      assert.deepEqual([round.ready, round.ends], [[], "stopped"]);
    }
  }
});

Deno.test("an input that refers to a step of the same round fails by on_error, without a dispatch", () => {
  const rows: readonly (readonly [OnError, SettledStep["status"], boolean])[] = [
    ["fail", "failed", true],
    ["skip", "skipped", false],
    ["continue", "failed", false],
  ];
  for (const [onError, status, stops] of rows) {
    const a = step("a");
    for (
      const work of [
        { kind: "tool", tool: "t", input: { x: "$a.output" } },
        { kind: "capsule", capsule: "w", objective: "$a.output" },
        { kind: "tool", tool: "t", input: "$b.status" },
      ] as const
    ) {
      const b = step("b", { work, onError });
      const round = nextRound(plan(a, b), NONE);
      assert.deepEqual([ids(round.settled), round.settled[0]!.status, round.settled[0]!.attempts], [["b"], status, 0]);
      assert.match(round.settled[0]!.error!, /^input: '\$[ab]\.\w+' refers to a step that is not settled yet/);
      assert.deepEqual([ids(round.ready), round.ends], stops ? [[], "stopped"] : [["a"], null]);
    }
  }
});

Deno.test("references of inputs and objectives are filled in when a step is ready; shell lines stay as they are", () => {
  const a = step("a");
  const b = step("b", { work: { kind: "tool", tool: "t", input: { x: "$a.output", y: "$a.status" } } });
  const c = step("c", { work: { kind: "capsule", capsule: "w", objective: "$a.output" } });
  const d = step("d", { work: { kind: "shell", words: ["echo", "$a.output"], line: "echo $a.output" } });
  const round = nextRound(plan(a, b, c, d), new Map([done(a, "success", "text")]));
  assert.deepEqual(round.ready.map(({ work }) => work), [
    { kind: "tool", tool: "t", input: { x: "text", y: "success" } },
    { kind: "capsule", capsule: "w", objective: "text" },
    { kind: "shell", words: ["echo", "$a.output"], line: "echo $a.output" },
  ]);
});

Deno.test("a cycle fails its first step once nothing else can run", () => {
  const free = step("free");
  const [a, b] = [step("a", { dependsOn: ["b"], onError: "continue" }), step("b", { dependsOn: ["a"] })];
  assert.deepEqual(ids(nextRound(plan(a, b, free), NONE).ready), ["free"]);
  const round = nextRound(plan(a, b, free), new Map([done(free, "success")]));
  assert.deepEqual([ids(round.settled), round.settled[0]!.status, round.ends], [["a"], "failed", "stopped"]);
  assert.match(round.settled[0]!.error!, /waits for 'b', .*\(a cycle\)$/);
  const self = step("self", { dependsOn: ["self"] });
  assert.match(nextRound(plan(self), NONE).settled[0]!.error!, /waits for 'self'/);
});

Deno.test("on_error decides what a failed attempt settles as, and whether the plan goes on", () => {
  const failed = { passed: false, output: "o", error: "e" };
  const passed = { passed: true, output: "o", error: null };
  for (const onError of ["fail", "skip", "continue"] as const) {
    const of = step("a", { onError });
    assert.deepEqual(settleStep(of, passed, 1), {
      settled: { step: of, status: "success", output: "o", error: null, attempts: 1 },
      stops: false,
    });
    assert.deepEqual(settleStep(of, failed, 2), {
      settled: { step: of, status: onError === "skip" ? "skipped" : "failed", output: "o", error: "e", attempts: 2 },
      stops: onError === "fail",
    });
  }
});

/** A plan of up to ten steps with any dependencies among them, and which of them fail. */
const anyPlan = fc.integer({ min: 0, max: 10 }).chain((count) => {
  const index = fc.nat({ max: Math.max(0, count - 1) });
  return fc.array(
    fc.record({
      dependsOn: fc.uniqueArray(index, { maxLength: 3 }),
      refersTo: fc.option(index),
      condition: fc.option(fc.record({ of: index, status: fc.constantFrom("success", "failed", "skipped") })),
      onError: fc.constantFrom<OnError>("fail", "skip", "continue"),
      fails: fc.boolean(),
    }),
    { minLength: count, maxLength: count },
  );
});

Deno.test("any plan ends: each step settles once and after its dependencies, and only a stop leaves steps out", () => {
  fc.assert(fc.property(anyPlan, (drawn) => {
    const steps = drawn.map(({ dependsOn, refersTo, condition, onError }, index) =>
      step(`s${index}`, {
        dependsOn: dependsOn.map((other) => `s${other}`),
        condition: condition === null ? "" : `$s${condition.of}.status == '${condition.status}'`,
        work: { kind: "tool", tool: "t", input: refersTo === null ? null : { x: `$s${refersTo}.output` } },
        onError,
      })
    );
    const fails = (of: ValidStep) => drawn[Number(of.id.slice(1))]!.fails;
    const settled = new Map<string, SettledStep>();
    const settle = (each: SettledStep) => {
      assert.ok(!settled.has(each.step.id));
      settled.set(each.step.id, each);
    };
    let stopped: string | null = null;
    for (let rounds = 0; stopped === null; rounds++) {
      assert.ok(rounds <= steps.length, "every round settles a step");
      const round = nextRound(plan(...steps), settled);
      if (round.ends === "completed") break;
      if (round.ends === null) assert.ok(round.settled.length + round.ready.length > 0);
      for (const { step, work } of round.ready) {
        assert.ok(step.dependsOn.every((id) => settled.has(id)));
        // Nothing is left of a reference.
        assert.doesNotMatch(JSON.stringify(work), /\$s\d/);
      }
      for (const each of round.settled) settle(each);
      if (round.ends === "stopped") stopped = round.settled.at(-1)!.step.id;
      for (const { step } of round.ready) {
        const { settled, stops } = settleStep(step, { passed: !fails(step), output: "o", error: "e" }, 1);
        settle(settled);
        if (stops) stopped ??= step.id;
      }
    }
    if (stopped === null) assert.equal(settled.size, steps.length);
    else assert.equal(settled.get(stopped)!.status, "failed");
    for (const { step, status, attempts, error } of settled.values()) {
      if (attempts > 0) assert.equal(status, !fails(step) ? "success" : step.onError === "skip" ? "skipped" : "failed");
      if (status !== "skipped") assert.equal(error === null, status === "success");
    }
  }));
});
