import assert from "node:assert/strict";
import fc from "fast-check";
import {
  parentRule,
  serializeTraceEvent,
  TRACE_EVENT_KEYS,
  type TraceEventBody,
  type TraceEventType,
} from "./trace_event.ts";

const ENVELOPE = { event_id: "evt_1", parent_id: null, session_id: "ses_1", timestamp: 1 };

Deno.test("a line starts with the five common keys, then the event's own in table order", () => {
  for (const [type, keys] of Object.entries(TRACE_EVENT_KEYS)) {
    // Members in reverse: the table decides, not the caller.
    const body = Object.fromEntries([...keys].reverse().map((key, index) => [key, index]));
    const line = serializeTraceEvent(
      { ...ENVELOPE, event_type: type as TraceEventType },
      body as unknown as TraceEventBody<TraceEventType>,
    );
    assert.deepEqual(
      Object.keys(JSON.parse(line)),
      ["event_type", "event_id", "parent_id", "session_id", "timestamp", ...keys],
    );
  }
});

Deno.test("the example of the specification is reproduced byte for byte", () => {
  const line = serializeTraceEvent({
    event_type: "task_end",
    event_id: "evt_019a00112233744455667788990011aa",
    parent_id: "evt_019a00112200744455667788990011aa",
    session_id: "ses_019a00112100744455667788990011aa",
    timestamp: 1767225600500,
  }, {
    reopen_count: 0,
    task_id: "tsk_019a001121aa744455667788990011aa",
    exit_status: "ok",
    duration_ms: 812,
    turns: 2,
    input_tokens: 2310,
    output_tokens: 95,
    tool_calls: 1,
    shell_calls: 1,
  });
  assert.equal(
    line,
    '{"event_type":"task_end","event_id":"evt_019a00112233744455667788990011aa","parent_id":"evt_019a00112200744455667788990011aa","session_id":"ses_019a00112100744455667788990011aa","timestamp":1767225600500,"task_id":"tsk_019a001121aa744455667788990011aa","exit_status":"ok","duration_ms":812,"turns":2,"input_tokens":2310,"output_tokens":95,"tool_calls":1,"shell_calls":1,"reopen_count":0}',
  );
});

Deno.test("an absent member is omitted, a null one is written", () => {
  const line = serializeTraceEvent({ ...ENVELOPE, event_type: "inference" }, {
    turn: 0,
    task_id: null,
    decision: "end_turn",
    tool_name: null,
    input_tokens: undefined,
  });
  assert.deepEqual(Object.keys(JSON.parse(line)).slice(5), ["turn", "task_id", "decision", "tool_name"]);
  assert.match(line, /"task_id":null/);
});

Deno.test("a line has no newline in it, whatever the text", () => {
  fc.assert(fc.property(fc.string({ unit: "binary" }), (text) => {
    const line = serializeTraceEvent({ ...ENVELOPE, event_type: "harness_note" }, { text });
    assert.ok(!line.includes("\n"));
    assert.equal(JSON.parse(line).text, text);
  }));
});

Deno.test("every event hangs off the node that the specification names", () => {
  const rules: Record<string, string> = {};
  for (const type of Object.keys(TRACE_EVENT_KEYS) as TraceEventType[]) {
    rules[type] = parentRule(type, {} as TraceEventBody<typeof type>);
  }
  const of = (rule: string) => Object.keys(rules).filter((type) => rules[type] === rule).sort();
  assert.deepEqual(of("none"), ["session_start"]);
  assert.deepEqual(of("plan"), ["plan_end", "plan_step", "plan_step_start"]);
  assert.deepEqual(
    of("turn"),
    [
      "call_denied",
      "compaction",
      "compaction_declined",
      "protected_path_denied",
      "shell",
      "shell_detach_unrecorded",
      "shell_detached",
      "skill_call",
      "spend_ceiling_reached",
      "tool_call",
      "tool_input_refused",
    ],
  );
  assert.deepEqual(
    of("task"),
    [
      "context_seed",
      "control_applied",
      "harness_exit",
      "harness_failed",
      "harness_interrupt",
      "harness_note",
      "harness_retry",
      "harness_session",
      "harness_session_forgotten",
      "harness_start",
      "harness_warning",
      "inference",
      "task_canceled",
      "task_continued",
      "task_end",
      "task_failed",
      "task_reopened",
      "tools_refreshed",
    ],
  );
  assert.equal(
    parentRule("inference", { turn: 0, task_id: null, decision: "text", tool_name: null, origin: "hook:x" }),
    "turn",
  );
});
