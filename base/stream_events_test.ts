import assert from "node:assert/strict";
import fc from "fast-check";
import { HttpError } from "./http_error.ts";
import type { JsonObject } from "./json_value.ts";
import { taskFrames, watchNotice } from "../tests/support/scripted_door.ts";
import { isTerminal, parseTask, streamEvents, streamUpdate, taskWord } from "./stream_events.ts";

const TASK = taskFrames("tsk_a", "ctx_b");

/** A body in pieces cut at the given places. */
function body(text: string, cuts: readonly number[] = []) {
  const bytes = new TextEncoder().encode(text);
  return {
    async *pieces(): AsyncGenerator<Uint8Array, void> {
      let at = 0;
      for (const cut of [...cuts.toSorted((a, b) => a - b), bytes.length]) {
        if (cut > at) yield bytes.slice(at, cut);
        at = Math.max(at, cut);
      }
    },
  };
}

async function read(text: string, cuts: readonly number[] = []) {
  const events = [];
  for await (const event of streamEvents(body(text, cuts), "door")) events.push(event);
  return events;
}

const data = (result: unknown) => `data: ${JSON.stringify({ jsonrpc: "2.0", id: 1, result })}`;

Deno.test("events are read wherever the stream is cut; comments and unknown fields are passed over", async () => {
  const text = `:heartbeat\n\nevent: task\n${data({ a: "ä\u2028" })}\n\nid: 12\nretry: 5\nfoo: bar\n${
    data({ b: 1 })
  }\n\n:x\n\nid: x\n${data({ c: 1 })}\n\n${data(5)}\n\n${data({ torn: 1 })}`;
  const whole = [{ id: null, response: { a: "ä\u2028" } }, { id: 12, response: { b: 1 } }, {
    id: null,
    response: { c: 1 },
  }];
  await fc.assert(fc.asyncProperty(fc.array(fc.nat(text.length + 10), { maxLength: 8 }), async (cuts) => {
    assert.deepEqual(await read(text, cuts), whole);
  }));
});

Deno.test("an event that is no answer, an error and an endless event end the stream", async () => {
  for (
    const [text, reason] of [
      ["data: {}\n\n", /no JSON-RPC/],
      ["data: x\n\n", /no JSON-RPC/],
      [`data: {"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"gone"}}\n\n`, /ended the stream: gone/],
      [`data: ${"y".repeat(9 << 20)}`, /endless event/],
    ] as const
  ) {
    await assert.rejects(read(text), (error) => error instanceof HttpError && reason.test(error.message));
  }
});

Deno.test("every state has its word, and nothing else has one", () => {
  assert.equal(taskWord("TASK_STATE_INPUT_REQUIRED"), "input-required");
  for (const state of [undefined, null, 1, "", "working", "TASK_STATE_UNSPECIFIED", "toString", "__proto__"]) {
    assert.equal(taskWord(state), null, String(state));
  }
  const terminal = ["COMPLETED", "FAILED", "CANCELED", "REJECTED"];
  for (const name of ["SUBMITTED", "WORKING", "INPUT_REQUIRED", "AUTH_REQUIRED", ...terminal]) {
    assert.equal(isTerminal(taskWord(`TASK_STATE_${name}`)!), terminal.includes(name), name);
  }
});

Deno.test("a task is known by an id that can be typed", () => {
  const status = { state: "TASK_STATE_WORKING" };
  assert.equal(parseTask({ id: "tsk_01a2288f34a37001ace0c3f0d0a77413", status })?.state, "working");
  for (const id of ["", 5, "tsk_a; rm -rf ~", "tsk_$(id)", "tsk_\u001b[2J", "tsk a", "tsk_a\n", "t".repeat(201)]) {
    assert.equal(parseTask({ id, status }), null, String(id));
  }
});

Deno.test("a task's artifacts are told apart", () => {
  const task = parseTask({
    id: "tsk_a",
    contextId: "ctx_b",
    status: { state: "TASK_STATE_CANCELED", message: { parts: [{ text: "a" }, { data: {} }, { text: "b" }] } },
    artifacts: [
      { artifactId: "residue", parts: [{ data: { kind: "delegation" } }] },
      { artifactId: "response", parts: [{ text: "42" }] },
      { artifactId: "prompt", parts: [{ text: "which?" }] },
    ],
  });
  assert.deepEqual({ ...task, raw: null }, {
    id: "tsk_a",
    contextId: "ctx_b",
    state: "canceled",
    message: "a\nb",
    response: "42",
    prompt: "which?",
    residue: [{ kind: "delegation" }],
    raw: null,
  });
  for (const bad of [undefined, null, {}, { id: "x" }, { id: "", status: { state: "TASK_STATE_WORKING" } }]) {
    assert.equal(parseTask(bad as JsonObject), null);
  }
});

Deno.test("what each event says", () => {
  const of = (event: { readonly result: JsonObject }) => streamUpdate(event.result);
  assert.equal(of(TASK.task("TASK_STATE_SUBMITTED")).kind, "task");
  assert.deepEqual(of(TASK.status(1, "TASK_STATE_WORKING", "inference turn 1")), {
    kind: "status",
    taskId: "tsk_a",
    contextId: "ctx_b",
    state: "working",
    message: "inference turn 1",
    final: false,
    reopen: null,
  });
  assert.deepEqual(of(TASK.text(2, "hi", true)), { kind: "text", taskId: "tsk_a", text: "hi", final: true });
  for (const frame of ["thinking", "tool-call-started", "tool-call-progress", "of-a-later-version"]) {
    const update = of(TASK.frame(3, frame, { text: "x", tool_name: "x" }));
    assert.equal(update.kind, frame === "of-a-later-version" ? "status" : "other", frame);
  }
  assert.deepEqual(of(TASK.tool(4, "bash", "out", { exit_code: 2, is_error: true, truncated: true })), {
    kind: "tool-result",
    taskId: "tsk_a",
    artifactId: "tool-4",
    toolName: "bash",
    content: "out",
    isError: true,
    exitCode: 2,
    durationMs: 12,
    truncated: true,
    append: false,
    last: true,
  });
  assert.deepEqual(of(TASK.response("42", true, false)), {
    kind: "response",
    taskId: "tsk_a",
    text: "42",
    append: true,
    last: false,
  });
  assert.deepEqual(of(TASK.frame(5, "lagged", { missed: 3 })), { kind: "lagged", missed: 3 });
  assert.deepEqual(of(watchNotice("gap", { first_available_id: 9 })), { kind: "gap", firstAvailableId: 9 });
  assert.deepEqual(of(watchNotice("connection-ack", { role: "observer", conversation_mode: "threaded" })), {
    kind: "connection-ack",
    threaded: true,
  });
  assert.deepEqual(of(watchNotice("capsule-closed")), { kind: "capsule-closed" });
  // A standard server that knows nothing of frames.
  assert.deepEqual(
    streamUpdate({ statusUpdate: { taskId: "t", contextId: "c", status: { state: "TASK_STATE_FAILED" } } }),
    {
      kind: "status",
      taskId: "t",
      contextId: "c",
      state: "failed",
      message: null,
      final: true,
      reopen: null,
    },
  );
});

Deno.test("whatever comes, reading it does not fail", () => {
  const json = fc.jsonValue().map((value) => value as JsonObject);
  const shaped = fc.record({
    statusUpdate: json,
    artifactUpdate: json,
    message: json,
    task: json,
  }, { requiredKeys: [] });
  fc.assert(fc.property(shaped, (response) => void streamUpdate(response as JsonObject)));
});
