import assert from "node:assert/strict";
import { murmurHomeAt, recordsGroup } from "../base/murmur_home.ts";
import { parseTrace } from "../runtime/trace/trace_reader.ts";
import { testContext, withTempDir, writeFiles } from "../tests/support/cli_context.ts";
import { stepTree, traceSteps } from "./trace_steps.ts";

const START = {
  event_type: "session_start",
  event_id: "s",
  parent_id: null,
  session_id: "ses_1",
  capsule_name: "c",
  capsule_version: "1",
  model: "m",
  max_turns: 3,
};

function tree(lines: readonly object[], verbose = false): string[] {
  const text = lines.map((line) => `${JSON.stringify(line)}\n`).join("");
  return stepTree(parseTrace(text, "t.jsonl"), verbose).split("\n").slice(0, -1);
}

const TASK = {
  event_type: "task_start",
  event_id: "t",
  parent_id: "s",
  task_id: "tsk_019a001121aa",
  context_id: "ctx_1",
  source: "a2a",
  origin: "event",
  trust: "untrusted",
  lane: "bg",
};

Deno.test("a tree: tasks, turns, calls, in file order, each below what it hangs off", () => {
  assert.deepEqual(
    tree([
      START,
      { event_type: "retention", event_id: "r", parent_id: "s", store: "sessions", reason: "max_age", removed: 1 },
      TASK,
      { event_type: "inference", event_id: "i0", parent_id: "t", turn: 0, decision: "tool_call", tool_name: "fetch" },
      { event_type: "inference", event_id: "h", parent_id: "i0", turn: 0, decision: "text", origin: "hook:memory" },
      {
        event_type: "tool_call",
        event_id: "c",
        parent_id: "i0",
        turn: 0,
        tool_name: "fetch",
        duration_ms: 7,
        status: "ok",
        input: { n: 1, url: "http://x\ny" },
      },
      { event_type: "shell", event_id: "sh", parent_id: "i0", binary: "/bin/ls", exit_code: 2, duration_ms: 1_200 },
      { event_type: "inference", event_id: "i1", parent_id: "t", turn: 1, decision: "end_turn", tool_name: null },
      {
        event_type: "task_end",
        event_id: "e",
        parent_id: "t",
        task_id: "tsk_019a001121aa",
        exit_status: "ok",
        duration_ms: 1,
        turns: 2,
        input_tokens: 1,
        output_tokens: 1,
      },
      {
        event_type: "shell_completed",
        event_id: "sc",
        parent_id: "s",
        work_id: "wrk_1",
        binary: "b",
        exit_code: 0,
        duration_ms: 5,
        status: "ok",
        output_path: "logs/wrk_1.log",
      },
    ], true),
    [
      "Session ses_1  (1 task(s), 2 turn(s))",
      "",
      "task tsk_019a0011…  ctx_1  (a2a, event/untrusted, lane bg)",
      "  turn 0  tool_call  fetch",
      "    inference  hook:memory  text",
      '    tool_call  fetch  7ms  ✓  "http://x y"',
      "    shell      /bin/ls  exit 2  1.2s",
      "  turn 1  end_turn",
      "shell_completed b  wrk_1  exit 0 ✓  5ms  logs/wrk_1.log",
    ],
  );
});

Deno.test("children of a line that is not shown keep its depth; a lost parent falls back on the task", () => {
  assert.deepEqual(
    tree([
      START,
      TASK,
      { event_type: "from_the_future", event_id: "f", parent_id: "t" },
      {
        event_type: "skill_call",
        event_id: "k",
        parent_id: "f",
        turn: 0,
        skill_name: "s",
        duration_ms: 1,
        status: "error",
        trust: "untrusted",
      },
      {
        event_type: "tool_call",
        event_id: "c",
        parent_id: "gone",
        task_id: "tsk_019a001121aa",
        turn: 0,
        tool_name: "x",
        duration_ms: 1,
        status: "error",
      },
      // A parent further down is none: no walk can run in a circle.
      { event_type: "compaction", event_id: "a", parent_id: "b", turn: 0, tokens_before: 9_100, tokens_after: 700 },
      { event_type: "compaction", event_id: "b", parent_id: "a", turn: 0, tokens_before: 1, tokens_after: 1 },
    ]).slice(2),
    [
      "task tsk_019a0011…  ctx_1  (a2a, event/untrusted, lane bg)",
      "  skill_call s  1ms  ✗ (runtime/untrusted)",
      "  tool_call  x  1ms  ✗",
      "compaction 9,100 → 700 tokens",
      "  compaction 1 → 1 tokens",
    ],
  );
});

Deno.test("a trace without ids is listed flat", () => {
  assert.deepEqual(
    tree([
      { ...START, event_id: undefined },
      { event_type: "inference", turn: 0, decision: "tool_call", tool_name: "fetch", duration_ms: 12 },
      { event_type: "inference", turn: 1, decision: "end_turn", tool_name: null },
    ]),
    ["Session ses_1  (0 task(s), 2 turn(s))", "  0  tool_call    fetch       12ms", "  1  end_turn                 —"],
  );
});

Deno.test("the command reads the newest session of the work folder", () =>
  withTempDir(async (directory) => {
    const group = recordsGroup(murmurHomeAt(directory), `${directory}/workdir`);
    await writeFiles(group, { "ses_019a00112100744455667788990011aa/trace.jsonl": `${JSON.stringify(START)}\n` });
    const context = testContext(directory, { HOME: directory });
    assert.equal(await traceSteps(context, {}), 0);
    assert.equal(context.out(), "Session ses_1  (0 task(s), 0 turn(s))\n");
  }));
