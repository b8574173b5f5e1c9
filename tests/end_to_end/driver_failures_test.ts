/**
 * What becomes of a task whose driver misbehaves: result file, trace, exit status (spec session 9.3, components 6.3).
 *
 * @module
 */
import type { JsonObject, JsonValue } from "../../base/json_value.ts";
import assert from "node:assert/strict";
import { type AgentProject, agentProject, type AgentRun, capsule, toolEntry } from "../support/agent_project.ts";

interface Misbehaviour {
  readonly turn: JsonObject;
  /** Text of the failure, without the `error: ` of the result file. */
  readonly failure: string | RegExp;
  readonly cause: "driver_error" | "malformed_response";
  /** `null`: the call itself succeeded, and what it answered cannot be acted on. */
  readonly errorCode: "driver_error" | "driver_failed" | "malformed_response" | null;
}

const answer = (body: JsonValue): JsonObject => ({ raw: JSON.stringify(body) });
const parse = (rest: RegExp) => new RegExp(`^failed to parse driver response: ${rest.source}$`);

const MISBEHAVIOURS: Readonly<Record<string, Misbehaviour>> = {
  "no JSON": {
    turn: { raw: "I am no JSON" },
    failure: parse(/.+/),
    cause: "malformed_response",
    errorCode: "malformed_response",
  },
  "JSON that is no object": {
    turn: answer(["end_turn"]),
    failure: parse(/not a JSON object/),
    cause: "malformed_response",
    errorCode: "malformed_response",
  },
  "content that is no list": {
    turn: answer({ stop_reason: "end_turn", content: "text" }),
    failure: parse(/'content' is not a list of blocks/),
    cause: "malformed_response",
    errorCode: "malformed_response",
  },
  "a nest of lists": {
    turn: { raw: `${"[".repeat(5_000)}${"]".repeat(5_000)}` },
    failure: parse(/nested deeper than \d+ levels/),
    cause: "malformed_response",
    errorCode: "malformed_response",
  },
  "no data at all": {
    turn: { outcome: {} },
    failure: "driver returned no data",
    cause: "malformed_response",
    errorCode: "malformed_response",
  },
  "an unknown stop_reason": {
    turn: { stop: "paused", text: "x" },
    failure: "unsupported stop_reason 'paused'",
    cause: "malformed_response",
    errorCode: null,
  },
  "tool_call without a call": {
    turn: { stop: "tool_call", text: "x" },
    failure: "driver returned stop_reason 'tool_call' without a tool_call block",
    cause: "malformed_response",
    errorCode: null,
  },
  "a call without a name": {
    turn: answer({ stop_reason: "tool_call", content: [{ type: "tool_call", id: "c" }] }),
    failure: parse(/a tool_call block has no name/),
    cause: "malformed_response",
    errorCode: "malformed_response",
  },
  "an error of its own": {
    turn: answer({ stop_reason: "error", content: [], error: "the model is asleep" }),
    failure: "the model is asleep",
    cause: "driver_error",
    errorCode: "driver_error",
  },
  "an error without a text": {
    turn: { stop: "error" },
    failure: "driver returned error",
    cause: "driver_error",
    errorCode: "driver_error",
  },
  "status failed": {
    turn: { outcome: { status: "failed", data: "no quota left", summary: "not this" } },
    failure: "no quota left",
    cause: "driver_error",
    errorCode: "driver_error",
  },
  "status error with a summary alone": {
    turn: { outcome: { status: "error", summary: "it broke" } },
    failure: "it broke",
    cause: "driver_error",
    errorCode: "driver_error",
  },
  "a thrown error": {
    turn: { throws: "unexpected" },
    failure: "unexpected",
    cause: "driver_error",
    errorCode: "driver_error",
  },
};

/** Checks a failed task everywhere it is told. */
function checkFailure(name: string, run: AgentRun, expected: Omit<Misbehaviour, "turn">): void {
  const { failure, cause, errorCode } = expected;
  assert.equal(run.status, 1, `${name}: ${run.stderr}`);
  assert.ok(run.result!.startsWith("error: "), `${name}: ${run.result}`);
  const told = run.result!.slice("error: ".length);
  if (typeof failure === "string") assert.equal(told, failure, name);
  else assert.match(told, failure);
  assert.match(run.stdout, /\nstatus: {2}failed\n$/);
  assert.match(run.stderr, /^error\[E-RUN-040\]: [\s\S]*\n {2}hint: .*\n$/m);
  assert.ok(run.stderr.includes(told.slice(0, 200)), name);
  assert.deepEqual(
    run.trace.map(({ event_type }) => event_type),
    ["session_start", "task_start", "inference", "task_failed", "task_end", "session_end"],
    name,
  );
  const [, , inference, failed, taskEnd, end] = run.trace;
  if (errorCode === null) {
    assert.ok(!("error_code" in inference!) && inference!.decision !== "error", name);
    assert.equal(taskEnd!.turns, 1, name);
  } else {
    assert.deepEqual([inference!.decision, inference!.stop_reason, inference!.error_code], [
      "error",
      "error",
      errorCode,
    ], name);
    assert.equal(inference!.error, told.slice(0, 2_000), name);
    assert.ok(!("input_tokens" in inference!) && !("response_sha" in inference!), name);
    assert.deepEqual([taskEnd!.turns, taskEnd!.input_tokens], [0, 0], name);
  }
  assert.deepEqual([failed!.cause, failed!.turn, failed!.reason], [cause, 0, told.slice(0, 2_000)], name);
  assert.equal(taskEnd!.exit_status, "failed", name);
  assert.equal(end!.exit_status, "failed", name);
}

/** Runs a few at a time. */
async function inBatches<T>(items: readonly T[], size: number, work: (item: T) => Promise<void>): Promise<void> {
  for (let at = 0; at < items.length; at += size) await Promise.all(items.slice(at, at + size).map(work));
}

Deno.test("every answer a driver may not give fails the task with its reason", async () => {
  await using project = await agentProject(capsule());
  await inBatches(Object.entries(MISBEHAVIOURS), 4, async ([name, { turn, ...expected }]) => {
    checkFailure(name, await project.run({ task: { turns: [turn] } }), expected);
  });
});

async function failingRun(
  manifest: Parameters<typeof capsule>[0],
  task: JsonObject | string,
  failure: RegExp,
  errorCode: Misbehaviour["errorCode"] = "driver_failed",
): Promise<void> {
  await using project = await agentProject(capsule(manifest));
  checkFailure(String(failure), await project.run({ task }), { failure, cause: "driver_error", errorCode });
}

Deno.test("a driver that traps, never returns or takes all memory fails its call", async () => {
  await Promise.all([
    failingRun({ driver: "trap-driver" }, "x", /^driver invocation failed: tool 'trap-driver' trapped: .*unreachable/),
    failingRun(
      { capabilities: { limits: { deadline_seconds: 1 } } },
      { turns: [{ loop: true }] },
      /^driver invocation failed: tool 'program-driver' exceeded its 1s execution deadline \(capabilities\.limits\.deadline_seconds\) and was interrupted$/,
    ),
    // The engine inside sees the refused growth and says so itself.
    failingRun(
      { capabilities: { limits: { memory_bytes: 33_554_432 } } },
      { turns: [{ letters: 60_000_000 }] },
      /out of memory/,
      "driver_error",
    ),
  ]);
});

Deno.test("what a driver may answer is taken as it is: long texts, floods, junk beside what counts", async () => {
  await using project = await agentProject(capsule({ artifacts: [toolEntry("probe-tool")] }));
  const cases: readonly [JsonObject, (run: AgentRun) => void][] = [
    [{ letters: 10_000_000 }, (run) => {
      assert.equal(run.result!.length, 10_000_000);
      assert.ok(Number(run.events("inference")[0]!.output_tokens) > 1_000_000);
    }],
    [{ flood: { count: 5_000, size: 2_000 }, text: "done" }, (run) => {
      assert.equal(run.result, "done");
      assert.ok(!run.stdout.includes("xxx"));
    }],
    [{ text: "cut", stop: "max_tokens" }, (run) => {
      assert.equal(run.result, "cut");
      assert.match(
        run.stderr,
        /^\[capsule-runtime\] warning\[W-RUN-001\]: turn 1 was cut at inference\.max_tokens \(8192\)/m,
      );
      assert.deepEqual(
        [run.events("inference")[0]!.decision, run.events("inference")[0]!.stop_reason],
        ["text", "max_tokens"],
      );
    }],
    [{
      ...answer({
        stop_reason: "end_turn",
        content: [],
        usage: { input_tokens: -1, output_tokens: "3", cached_tokens: 2 },
      }),
    }, (run) => {
      assert.equal(run.result, "");
      const [line] = run.events("inference");
      assert.equal(line!.cached_tokens, 2);
      assert.ok(!("input_tokens_actual" in line!) && !("output_tokens_actual" in line!));
    }],
    [{ text: "a", log: "a line\u001b[2J of its own", stop: "end_turn" }, (run) => {
      assert.match(run.stderr, /^\[program-driver\] a line/m);
      assert.ok(!run.traceText.includes('of its own"'));
    }],
  ];
  await inBatches(cases, 3, async ([turn, check]) => {
    const run = await project.run({ task: { turns: [turn] } });
    assert.equal(run.status, 0, run.stderr);
    check(run);
  });
});

async function rawTurns(project: AgentProject, ...bodies: readonly JsonValue[]): Promise<AgentRun> {
  return await project.run({ task: { turns: [...bodies.map(answer), { show: "request" }] } });
}

Deno.test("a call without an id or with an input that is no object is answered, not fatal", async () => {
  await using project = await agentProject(capsule({ artifacts: [toolEntry("probe-tool")] }));
  const run = await rawTurns(project, {
    stop_reason: "tool_call",
    content: [
      { type: "thinking", thinking: "hm", signature: "s" },
      { type: "text", text: "calling" },
      { type: "tool_call", name: "probe-tool", input: { operation: "letters", size: 2 } },
      { type: "tool_call", id: "c2", name: "probe-tool", input: "text" },
      { type: "tool_call", id: "c3", name: "probe-tool" },
      { type: "tool_call", id: "c4", name: "probe-tool", input: { operation: "letters", size: 1 } },
    ],
  });
  assert.equal(run.status, 0, run.stderr);
  const { messages } = JSON.parse(run.result!);
  assert.deepEqual(messages[1].content[0], { type: "thinking", thinking: "hm", signature: "s" });
  assert.deepEqual(
    messages.slice(2).map((message: JsonObject) => [message.role, message.tool_call_id, message.is_error]),
    [["tool", "", false], ["tool", "c2", true], ["tool", "c3", true], ["tool", "c4", false]],
  );
  assert.match(messages[3].content[0].text, /^the input of a tool call must be a JSON object$/);
  assert.deepEqual(
    run.events("tool_call").map((line) => [line.tool_call_id, line.status]),
    [[null, "ok"], ["c2", "error"], ["c3", "error"], ["c4", "ok"]],
  );
});
