import assert from "node:assert/strict";
import fc from "fast-check";
import { MurError } from "../../base/errors.ts";
import { linesOf, parseTrace, parseTraceLines, readTrace } from "./trace_reader.ts";

const START = '{"event_type":"session_start","capsule_name":"c","capsule_version":"1","model":"m","max_turns":3}';
const END =
  '{"event_type":"session_end","total_turns":1,"total_input_tokens":2,"total_output_tokens":3,"total_tool_calls":0,"total_shell_calls":0,"duration_ms":4,"exit_status":"ok"}';

function refusal(text: string): string {
  try {
    parseTrace(text, "t.jsonl");
  } catch (error) {
    assert.ok(error instanceof MurError);
    assert.equal(error.code, "E-TRC-001");
    return error.message;
  }
  return "accepted";
}

Deno.test("a whole trace", () => {
  const trace = parseTrace(`${START}\n\n${END}\n`, "t.jsonl");
  assert.equal(trace.start.capsule_name, "c");
  assert.equal(trace.end?.exit_status, "ok");
  assert.equal(trace.torn, false);
  assert.equal(trace.lines.length, 2);
});

Deno.test("unknown events and unknown keys are passed over, blank lines skipped", () => {
  const trace = parseTrace(`  \n${START}\n{"event_type":"from_the_future","x":1}\n\n`, "t.jsonl");
  assert.deepEqual(trace.lines.map((line) => line.event_type), ["session_start", "from_the_future"]);
  assert.equal(trace.end, null);
});

Deno.test("a bad line is named with file and number", () => {
  assert.equal(refusal(`${START}\nnot json\n${END}\n`), "t.jsonl:2: not a JSON object");
  assert.equal(refusal(`${START}\n[1]\n`), "t.jsonl:2: not a JSON object");
  assert.equal(refusal(`${START}\nnull\n`), "t.jsonl:2: not a JSON object");
  assert.equal(refusal(`${START}\n{"a":1}\n`), "t.jsonl:2: missing key 'event_type'");
  assert.equal(
    refusal(`${START}\n{"event_type":"tool_call","turn":0}\n`),
    "t.jsonl:2: tool_call: missing key 'tool_name'",
  );
});

Deno.test("a key that is needed and has a value of another kind is named; one that is not is passed over", () => {
  const event = (keys: object) => `${START}\n${JSON.stringify(keys)}\n`;
  const ended = {
    event_type: "task_end",
    exit_status: "ok",
    duration_ms: 1,
    turns: 1,
    input_tokens: 1,
    output_tokens: 1,
  };
  assert.equal(refusal(event({ ...ended, task_id: {} })), "t.jsonl:2: task_end: 'task_id' is not a text");
  assert.equal(refusal(event({ ...ended, task_id: null })), "t.jsonl:2: task_end: 'task_id' is not a text");
  assert.equal(refusal(event({ ...ended, task_id: "t", turns: "1" })), "t.jsonl:2: task_end: 'turns' is not a number");
  assert.equal(
    refusal(`${START}\n{"event_type":"shell_abandoned","work_id":"w","binary":"b","running_ms":1e999}\n`),
    "t.jsonl:2: shell_abandoned: 'running_ms' is not a number",
  );
  assert.equal(
    refusal(event({ event_type: "tools_refreshed", turn: 0, trigger: "immediate", added: [1], removed: [] })),
    "t.jsonl:2: tools_refreshed: 'added' is not a list of texts",
  );
  assert.equal(
    refusal(event({ event_type: "plan_start", plan_id: "p", steps: [{ step_id: "s" }] })),
    "t.jsonl:2: plan_start: 'steps' is not a list of objects with step_id, kind",
  );
  const { lines } = parseTrace(
    event({ ...ended, task_id: "t", event_id: 1, parent_id: null, timestamp: 1e300, tool_calls: "2", new: {} }),
    "t.jsonl",
  );
  assert.deepEqual(lines[1], { ...ended, task_id: "t", parent_id: null, new: {} });
  const start = JSON.parse(START);
  const strange = {
    ...start,
    capabilities: null,
    userns_grant: null,
    gateways: 3,
    runtime_artifacts: [null],
    workdir_exec: 1,
  };
  assert.deepEqual(parseTrace(`${JSON.stringify(strange)}\n`, "t.jsonl").start, {
    ...start,
    userns_grant: null,
    workdir_exec: 1,
  });
});

Deno.test("an empty trace and one without a start are refused", () => {
  assert.equal(refusal(""), "t.jsonl: the trace is empty");
  assert.equal(refusal("\n\n"), "t.jsonl: the trace is empty");
  assert.equal(refusal(`${END}\n`), "t.jsonl: no session_start");
});

Deno.test("a trace cut at any byte reads up to its last whole line", () => {
  const text = `${START}\n{"event_type":"harness_note","text":"ä😀"}\n${END}\n`;
  const bytes = new TextEncoder().encode(text);
  fc.assert(fc.property(fc.integer({ min: START.length + 1, max: bytes.length }), (at) => {
    const cut = new TextDecoder().decode(bytes.subarray(0, at));
    const { lines, torn } = parseTraceLines(cut, "t.jsonl");
    const whole = cut.split("\n").slice(0, -1);
    const tail = cut.split("\n").at(-1)!;
    // A last line that lost nothing but its newline is whole.
    const tailWhole = tail !== "" && text.includes(`${tail}\n`) && tail.endsWith("}") && lines.length > whole.length;
    assert.equal(lines.length, whole.length + (tailWhole ? 1 : 0));
    assert.equal(torn, tail !== "" && !tailWhole);
  }));
});

Deno.test("counts come from the lines, so a trace without an end has them too", () => {
  const trace = parseTrace(
    [
      START,
      '{"event_type":"inference","turn":0,"decision":"tool_call","input_tokens":10,"output_tokens":2}',
      '{"event_type":"inference","turn":0,"decision":"text","origin":"hook:h","input_tokens":5,"output_tokens":1}',
      '{"event_type":"inference","turn":1,"decision":"error"}',
      '{"event_type":"tool_call","turn":0,"tool_name":"t","duration_ms":1,"status":"ok"}',
      '{"event_type":"shell","binary":"b","exit_code":0,"duration_ms":1}',
      '{"event_type":"shell_detached","work_id":"w","binary":"b"}',
      "",
    ].join("\n"),
    "t.jsonl",
  );
  assert.deepEqual(trace.counts, { turns: 1, inputTokens: 15, outputTokens: 3, toolCalls: 1, shellCalls: 2 });
  assert.equal(linesOf(trace, "shell", "tool_call").length, 2);
});

Deno.test("a missing file is E-IO-001", async () => {
  await assert.rejects(
    readTrace("/nowhere/trace.jsonl"),
    (error: unknown) => error instanceof MurError && error.code === "E-IO-001",
  );
});
