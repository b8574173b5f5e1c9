import assert from "node:assert/strict";
import fc from "fast-check";
import { PLAN_CANCELED, type PlanEnd, type PlanExecution, runPlan, STEPS_AT_ONCE } from "./plan_runner.ts";
import type { OnError, StepWork, ValidPlan, ValidStep } from "./plan_validation.ts";
import type { StepEnd } from "./step_end.ts";

const TOOL: StepWork = { kind: "tool", tool: "t", input: null };
const SHELL: StepWork = { kind: "shell", words: ["s"], line: "s" };
const CAPSULE: StepWork = { kind: "capsule", capsule: "c", objective: "o" };

function step(id: string, work: StepWork = TOOL, more: Partial<ValidStep> = {}): ValidStep {
  return { id, work, dependsOn: [], condition: "", onError: "fail", retries: 0, ...more };
}

function plan(...steps: ValidStep[]): ValidPlan {
  return { id: "p", steps };
}

const PASSED: StepEnd = { passed: true, output: "out", error: null };
const FAILED: StepEnd = { passed: false, output: null, error: "went wrong" };

/** Steps that end when the test says so. */
class Steps {
  readonly log: string[] = [];
  readonly records: unknown[] = [];
  readonly #open = new Map<string, (end: StepEnd) => void>();
  readonly cancel = new AbortController();
  most = 0;
  readonly execution: PlanExecution = {
    attempt: ({ step }, signal) =>
      new Promise((resolve) => {
        this.log.push(`try ${step.id}`);
        const end = (end: StepEnd) => {
          this.#open.delete(step.id);
          resolve(end);
        };
        this.#open.set(step.id, end);
        this.most = Math.max(this.most, this.#open.size);
        signal.addEventListener("abort", () => end(FAILED));
        if (signal.aborted) end(FAILED);
      }),
    started: ({ step_id }) => void this.log.push(`start ${step_id}`),
    settled: (body) => {
      this.log.push(`${body.status} ${body.step_id}`);
      this.records.push(body);
    },
    signal: this.cancel.signal,
  };

  get open(): string[] {
    return [...this.#open.keys()];
  }

  /** Ends a step, and waits until what follows from it has been started. */
  async end(id: string, end: StepEnd = PASSED): Promise<void> {
    this.#open.get(id)!(end);
    await turn();
  }
}

async function turn(): Promise<void> {
  await new Promise((resolve) => setTimeout(resolve, 0));
}

function shown({ outcome, failedStep, steps }: PlanEnd): unknown[] {
  return [outcome, failedStep, ...steps.map(({ step, status }) => `${status} ${step.id}`)];
}

Deno.test("shell and capsule steps of a round run side by side, tool steps one after the other beside them", async () => {
  const steps = new Steps();
  const running = runPlan(
    plan(step("t1"), step("s1", SHELL), step("t2"), step("c1", CAPSULE), step("s2", SHELL), step("t3")),
    steps.execution,
  );
  await turn();
  assert.deepEqual(steps.open.sort(), ["c1", "s1", "s2", "t1"]);
  await steps.end("s2");
  await steps.end("t1");
  assert.deepEqual(steps.open.sort(), ["c1", "s1", "t2"]);
  await steps.end("t2");
  await steps.end("c1");
  await steps.end("s1");
  assert.deepEqual(steps.open, ["t3"]);
  await steps.end("t3");
  assert.deepEqual(shown(await running), [
    "completed",
    null,
    ...["s2", "t1", "t2", "c1", "s1", "t3"].map((id) => `success ${id}`),
  ]);
});

Deno.test("a round is over before the next begins", async () => {
  const steps = new Steps();
  const running = runPlan(
    plan(step("a", SHELL), step("slow", SHELL), step("b", SHELL, { dependsOn: ["a"] })),
    steps.execution,
  );
  await turn();
  await steps.end("a");
  assert.deepEqual(steps.open, ["slow"]);
  await steps.end("slow");
  assert.deepEqual(steps.open, ["b"]);
  await steps.end("b");
  assert.equal((await running).outcome, "completed");
});

Deno.test("only so many run at once, however wide a round is", async () => {
  const steps = new Steps();
  const running = runPlan(plan(...Array.from({ length: 50 }, (_, at) => step(`s${at}`, SHELL))), steps.execution);
  await turn();
  assert.deepEqual(steps.open, Array.from({ length: STEPS_AT_ONCE }, (_, at) => `s${at}`));
  while (steps.open.length > 0) await steps.end(steps.open.at(-1)!);
  assert.equal((await running).steps.length, 50);
  assert.equal(steps.most, STEPS_AT_ONCE);
});

Deno.test("a failure that stops the plan lets what runs finish and starts nothing more", async () => {
  const steps = new Steps();
  const wide = Array.from({ length: STEPS_AT_ONCE + 2 }, (_, at) => step(`s${at}`, SHELL));
  const running = runPlan(
    plan(step("t1"), step("t2"), ...wide, step("next", SHELL, { dependsOn: ["t1"] })),
    steps.execution,
  );
  await turn();
  await steps.end("s3", FAILED);
  await steps.end("t1");
  await steps.end("s0", { ...FAILED, error: "later" });
  assert.deepEqual(steps.open.length, STEPS_AT_ONCE - 2);
  while (steps.open.length > 0) await steps.end(steps.open[0]!);
  const end = await running;
  assert.deepEqual([end.outcome, end.failedStep], ["failed", "s3"]);
  assert.deepEqual(shown(end).slice(2, 5), ["failed s3", "success t1", "failed s0"]);
  assert.equal(end.steps.length, STEPS_AT_ONCE + 1);
});

Deno.test("a step is dispatched again while it has retries; a refusal is not", async () => {
  for (
    const [ends, retries, expected] of [
      [[FAILED, FAILED, PASSED], 2, ["success", 3, "out"]],
      [[FAILED, PASSED], 5, ["success", 2, "out"]],
      [[FAILED, FAILED], 1, ["failed", 2, "went wrong"]],
      [[{ ...FAILED, final: true }], 3, ["failed", 1, "went wrong"]],
    ] as const
  ) {
    const steps = new Steps();
    const running = runPlan(plan(step("a", SHELL, { retries })), steps.execution);
    await turn();
    for (const end of ends) await steps.end("a", end);
    const [settled] = (await running).steps;
    assert.deepEqual([settled!.status, settled!.attempts, settled!.output ?? settled!.error], expected);
    assert.equal(steps.log.filter((line) => line === "start a").length, 1);
  }
});

Deno.test("skip and continue keep the error and go on; dependents run", async () => {
  const steps = new Steps();
  const running = runPlan(
    plan(
      step("a", SHELL, { onError: "skip" }),
      step("b", SHELL, { onError: "continue", dependsOn: ["a"] }),
      step("c", SHELL, { dependsOn: ["b"] }),
    ),
    steps.execution,
  );
  await turn();
  await steps.end("a", FAILED);
  await steps.end("b", FAILED);
  await steps.end("c");
  const end = await running;
  assert.deepEqual(shown(end), ["completed", null, "skipped a", "failed b", "success c"]);
  assert.deepEqual(end.steps.map(({ error }) => error), ["went wrong", "went wrong", null]);
});

Deno.test("a cancel ends what runs at once, starts nothing more, and every step that was started is settled", async () => {
  const steps = new Steps();
  const running = runPlan(
    plan(step("a", SHELL, { retries: 9 }), step("t1"), step("t2"), step("b", SHELL, { dependsOn: ["a"] })),
    steps.execution,
  );
  await turn();
  steps.cancel.abort();
  const end = await running;
  assert.deepEqual(shown(end), ["canceled", null, "failed a", "failed t1"]);
  assert.deepEqual(end.steps.map(({ error }) => error), [PLAN_CANCELED, PLAN_CANCELED]);
  assert.deepEqual(steps.log.filter((line) => line.startsWith("try")), ["try a", "try t1"].toSorted());
});

Deno.test("a task that is canceled already runs no step, and a cancel between rounds no further one", async () => {
  const before = new Steps();
  before.cancel.abort();
  assert.deepEqual(shown(await runPlan(plan(step("a")), before.execution)), ["canceled", null]);
  assert.deepEqual(before.log, []);
  const between = new Steps();
  const running = runPlan(plan(step("a"), step("b", TOOL, { dependsOn: ["a"] })), {
    ...between.execution,
    settled: () => between.cancel.abort(),
  });
  await turn();
  await between.end("a");
  assert.deepEqual(shown(await running), ["canceled", null, "success a"]);
});

Deno.test("a question nobody answered stops the plan, whatever on_error says", async () => {
  const steps = new Steps();
  const running = runPlan(plan(step("a", TOOL, { onError: "continue" }), step("b")), steps.execution);
  await turn();
  await steps.end("a", { ...FAILED, inputTimedOut: true });
  const end = await running;
  assert.deepEqual([end.outcome, end.failedStep, end.inputTimedOut, end.steps.length], ["failed", "a", true, 1]);
});

Deno.test("a record that cannot be written ends what runs, and is what the plan fails with", async () => {
  const steps = new Steps();
  const broken = new Error("no space left");
  const running = runPlan(plan(step("a", SHELL), step("b", SHELL), step("c", SHELL)), {
    ...steps.execution,
    settled: () => {
      throw broken;
    },
  });
  await turn();
  steps.end("b");
  await assert.rejects(running, broken);
  assert.deepEqual(steps.open, []);
});

Deno.test("records: kind, status, attempts, input of tools, what a tool says it did", async () => {
  const steps = new Steps();
  const running = runPlan(
    plan(
      step("a", { kind: "tool", tool: "t", input: { path: "x" } }),
      step("b", SHELL, { dependsOn: ["a"], condition: "$a.output == 'other'" }),
      step("c", CAPSULE, { dependsOn: ["b"] }),
    ),
    steps.execution,
  );
  await turn();
  await steps.end("a", { ...PASSED, stateEffect: "read", resourceId: "r" });
  await steps.end("c", { ...FAILED, error: "e".repeat(5_000) });
  await running;
  const [a, b, c] = steps.records as Record<string, unknown>[];
  assert.ok((a!.duration_ms as number) >= 0);
  assert.deepEqual({ ...a, duration_ms: 0 }, {
    step_id: "a",
    kind: "tool",
    status: "success",
    attempts: 1,
    duration_ms: 0,
    input: { path: "x" },
    state_effect: "read",
    resource_id: "r",
  });
  assert.deepEqual(b, { step_id: "b", kind: "shell", status: "skipped", attempts: 0, duration_ms: 0 });
  assert.deepEqual([c!.status, (c!.error as string).length], ["failed", 2_000]);
});

Deno.test("any plan ends, whatever its steps do and whenever it is canceled, and each step is tried as often as it may", async () => {
  const kinds = fc.constantFrom(TOOL, SHELL, CAPSULE);
  const drawn = fc.array(
    fc.record({
      work: kinds,
      dependsOn: fc.uniqueArray(fc.nat({ max: 7 }), { maxLength: 3 }),
      onError: fc.constantFrom<OnError>("fail", "skip", "continue"),
      retries: fc.nat({ max: 2 }),
      failures: fc.nat({ max: 3 }),
    }),
    { maxLength: 8 },
  );
  await fc.assert(
    fc.asyncProperty(drawn, fc.option(fc.nat({ max: 10 })), async (steps, cancelAfter) => {
      const made = steps.map(({ work, dependsOn, onError, retries }, at) =>
        step(`s${at}`, work, {
          dependsOn: dependsOn.filter((on) => on < steps.length).map((on) => `s${on}`),
          onError,
          retries,
        })
      );
      const cancel = new AbortController();
      const tries = new Map<string, number>();
      const [started, settled] = [new Set<string>(), new Map<string, number>()];
      let total = 0;
      let [toolsAtOnce, mostTools] = [0, 0];
      const end = await runPlan(plan(...made), {
        attempt: async ({ step, work }) => {
          const count = (tries.get(step.id) ?? 0) + 1;
          tries.set(step.id, count);
          if (work.kind === "tool") mostTools = Math.max(mostTools, ++toolsAtOnce);
          await Promise.resolve();
          if (work.kind === "tool") toolsAtOnce--;
          if (++total === cancelAfter) cancel.abort();
          return count > steps[Number(step.id.slice(1))]!.failures ? PASSED : FAILED;
        },
        started: ({ step_id }) => void started.add(step_id),
        settled: ({ step_id, attempts }) => void settled.set(step_id, attempts),
        signal: cancel.signal,
      });
      assert.ok(mostTools <= 1);
      assert.equal(end.outcome === "canceled", cancel.signal.aborted);
      assert.equal(end.outcome === "failed", end.failedStep !== null);
      assert.deepEqual(end.steps.map(({ step }) => step.id), [...settled.keys()]);
      for (const id of started) assert.equal(settled.get(id), tries.get(id));
      for (const { step: { id, retries } } of end.steps) assert.ok((tries.get(id) ?? 0) <= retries + 1);
      if (end.outcome === "completed") assert.equal(end.steps.length, made.length);
    }),
  );
});
