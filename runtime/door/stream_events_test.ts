import assert from "node:assert/strict";
import fc from "fast-check";
import { StreamResponse } from "@a2a-js/sdk";
import type { Frame } from "../session/frame_log.ts";
import type { TaskView } from "../session/task_registry.ts";
import {
  endEvents,
  frameEvents,
  MAX_EVENT_TEXT_BYTES,
  rawFrameEvent,
  snapshotEvent,
  type StreamEvent,
  taskNoticeEvent,
  watchNoticeEvent,
} from "./stream_events.ts";

const AT = Date.UTC(2026, 8, 1, 10);
const TASK: TaskView = {
  id: "tsk_a",
  contextId: "ctx_b",
  state: "working",
  message: null,
  response: null,
  prompt: null,
  changedMs: AT,
  submitter: null,
};

const json = ({ id, type, response }: StreamEvent) => ({ id, type, result: StreamResponse.toJSON(response) });
const events = (frame: Frame) => [...frameEvents(frame, "ctx_b")].map(json);
const message = (suffix: string, text: string) => ({
  messageId: `msg_tsk_a_${suffix}`,
  contextId: "ctx_b",
  taskId: "tsk_a",
  role: "ROLE_AGENT",
  parts: [{ text, mediaType: "text/plain" }],
});
const timestamp = "2026-09-01T10:00:00.000Z";

Deno.test("frames are written as the standard's events, with what murmur adds in their metadata", () => {
  assert.deepEqual(json(snapshotEvent({ ...TASK, state: "submitted" })), {
    id: null,
    type: "task",
    result: { task: { id: "tsk_a", contextId: "ctx_b", status: { state: "TASK_STATE_SUBMITTED" } } },
  });
  assert.deepEqual(
    events({
      id: 1,
      atMs: AT,
      type: "status",
      taskId: "tsk_a",
      contextId: "ctx_b",
      state: "working",
      message: "inference turn 1",
      final: false,
    }),
    [{
      id: 1,
      type: "status",
      result: {
        statusUpdate: {
          taskId: "tsk_a",
          contextId: "ctx_b",
          status: { state: "TASK_STATE_WORKING", message: message("1", "inference turn 1"), timestamp },
          metadata: { murmur: { frame: "status", final: false } },
        },
      },
    }],
  );
  assert.deepEqual(events({ id: 2, atMs: AT, type: "text", taskId: "tsk_a", text: "The answer", final: false }), [{
    id: 2,
    type: "text",
    result: {
      statusUpdate: {
        taskId: "tsk_a",
        contextId: "ctx_b",
        status: { state: "TASK_STATE_WORKING", timestamp },
        metadata: { murmur: { frame: "text", text: "The answer", final: false } },
      },
    },
  }]);
  const metadataOf = (frame: Frame) =>
    (events(frame)[0]!.result as { statusUpdate: { metadata: unknown } }).statusUpdate.metadata;
  assert.deepEqual(metadataOf({ id: 3, atMs: AT, type: "thinking", taskId: "tsk_a", text: "hm", final: false }), {
    murmur: { frame: "thinking", text: "hm", final: false },
  });
  assert.deepEqual(
    metadataOf({ id: 3, atMs: AT, type: "tool-call-started", taskId: "tsk_a", toolCallId: "c1", toolName: "bash" }),
    { murmur: { frame: "tool-call-started", tool_call_id: "c1", tool_name: "bash" } },
  );
  assert.deepEqual(
    metadataOf({ id: 3, atMs: AT, type: "tool-call-progress", taskId: "tsk_a", toolCallId: "c1", inputBytes: 7 }),
    { murmur: { frame: "tool-call-progress", tool_call_id: "c1", input_bytes: 7 } },
  );
});

Deno.test("an answer comes as an artifact without an id before its final status", () => {
  const frame: Frame = {
    id: 9,
    atMs: AT,
    type: "status",
    taskId: "tsk_a",
    contextId: "ctx_b",
    state: "completed",
    message: "session ended",
    response: "42",
    final: true,
  };
  const artifact = {
    id: null,
    type: "artifact",
    result: {
      artifactUpdate: {
        taskId: "tsk_a",
        contextId: "ctx_b",
        artifact: { artifactId: "response", name: "response", parts: [{ text: "42", mediaType: "text/plain" }] },
        lastChunk: true,
      },
    },
  };
  const status = (id: number | null) => ({
    id,
    type: "status",
    result: {
      statusUpdate: {
        taskId: "tsk_a",
        contextId: "ctx_b",
        status: { state: "TASK_STATE_COMPLETED", message: message("status", "session ended"), timestamp },
        metadata: { murmur: { frame: "status", final: true } },
      },
    },
  });
  assert.deepEqual(events(frame), [artifact, status(9)]);
  // The same when its frame is lost, but for the number.
  const ended: TaskView = { ...TASK, state: "completed", message: "session ended", response: "42" };
  assert.deepEqual([...endEvents(ended)].map(json), [artifact, status(null)]);
  assert.deepEqual(rawFrameEvent(frame), {
    id: 9,
    type: "status",
    payload: {
      id: "tsk_a",
      context_id: "ctx_b",
      status: { state: "completed", message: "session ended", response: "42" },
      final: true,
    },
  });
});

const artifactFrame = (content: string): Frame => ({
  id: 5,
  atMs: AT,
  type: "artifact",
  taskId: "tsk_a",
  toolName: "bash",
  content,
  fenceSource: "tool:bash",
  toolCallId: null,
  isError: false,
  durationMs: 12,
  exitCode: 0,
  truncated: false,
});

Deno.test("a tool call is an artifact with everything known of it", () => {
  const keys = {
    fence_source: "tool:bash",
    tool_call_id: null,
    is_error: false,
    duration_ms: 12,
    exit_code: 0,
    truncated: false,
  };
  assert.deepEqual(events(artifactFrame("out")), [{
    id: 5,
    type: "artifact",
    result: {
      artifactUpdate: {
        taskId: "tsk_a",
        contextId: "ctx_b",
        artifact: { artifactId: "tool-5", name: "bash", parts: [{ text: "out", mediaType: "text/plain" }] },
        lastChunk: true,
        metadata: { murmur: { frame: "artifact", tool_name: "bash", ...keys } },
      },
    },
  }]);
  const raw = rawFrameEvent(artifactFrame("out"));
  assert.deepEqual(raw.payload, { id: "tsk_a", artifact: { tool_name: "bash", content: "out", ...keys } });
  assert.deepEqual(Object.keys(raw.payload.artifact as object), [
    "tool_name",
    "content",
    "fence_source",
    "tool_call_id",
    "is_error",
    "duration_ms",
    "exit_code",
    "truncated",
  ]);
});

Deno.test("a long text is cut into events the official client takes, and nothing of it is lost", () => {
  const unit = fc.constantFrom("a", "é", "€", "😀", "\u0000", "\n", '"', "\ud800");
  fc.assert(
    fc.property(
      fc.array(unit, { minLength: 1, maxLength: 12 }),
      fc.integer({ min: 0, max: 1_500_000 }),
      (letters, length) => {
        const pattern = letters.join("");
        const text = pattern.repeat(Math.ceil(length / pattern.length));
        const pieces = [...frameEvents(artifactFrame(text), "ctx_b")];
        const values = pieces.map(({ response }) => {
          assert.ok(response.payload?.$case === "artifactUpdate");
          return response.payload.value;
        });
        const texts = values.map(({ artifact }) => String(artifact!.parts[0]!.content!.value));
        assert.equal(texts.join(""), text);
        for (const [i, piece] of texts.entries()) {
          assert.ok(new TextEncoder().encode(piece).length <= MAX_EVENT_TEXT_BYTES);
          assert.ok(JSON.stringify(json(pieces[i]!)).length < 4 << 20);
          // No piece parts the halves of a character.
          assert.ok(i === 0 || !/^[\udc00-\udfff]/.test(piece));
        }
        assert.deepEqual(values.map(({ append }) => append), values.map((_, i) => i > 0));
        assert.deepEqual(values.map(({ lastChunk }) => lastChunk), values.map((_, i) => i === values.length - 1));
        assert.deepEqual(pieces.map(({ id }) => id), pieces.map((_, i) => i === pieces.length - 1 ? 5 : null));
      },
    ),
    { numRuns: 12 },
  );
});

Deno.test("a long chunk is several, a long reply its chunks and their end; only the last has the number", () => {
  const unit = fc.constantFrom("a", "é", "😀", "\u0000");
  const cases = fc.tuple(
    unit,
    fc.integer({ min: 0, max: 2_500_000 }),
    fc.constantFrom("text", "thinking"),
    fc.boolean(),
  );
  fc.assert(
    fc.property(cases, ([letter, length, type, final]) => {
      const text = letter.repeat(length);
      const events = [...frameEvents({ id: 5, atMs: AT, type, taskId: "tsk_a", text, final }, "ctx_b")].map(json);
      const said = events.map(({ result }) =>
        (result as { statusUpdate: { metadata: { murmur: { text: string; final: boolean } } } }).statusUpdate.metadata
          .murmur
      );
      assert.equal(said.map(({ text }) => text).join(""), text);
      for (const event of events) assert.ok(JSON.stringify(event).length < 4 << 20);
      assert.deepEqual(said.map((each) => each.final), said.map((_, i) => final && i === said.length - 1));
      assert.deepEqual(events.map(({ id }) => id), events.map((_, i) => i === events.length - 1 ? 5 : null));
      if (final && events.length > 1) assert.equal(said.at(-1)!.text, "", "it tells of chunks, not of a whole reply");
      // Up to four bytes a letter.
      if (length * 4 <= MAX_EVENT_TEXT_BYTES) assert.equal(events.length, 1);
    }),
    { numRuns: 20, examples: [[["a", 2_500_000, "text", true]], [["\u0000", 2_500_000, "text", false]]] },
  );
});

Deno.test("notices are a status on a task's stream and a message on a session's", () => {
  assert.deepEqual(
    json(taskNoticeEvent({ ...TASK, state: "input-required" }, { type: "lagged", payload: { missed: 3 } })),
    {
      id: null,
      type: "lagged",
      result: {
        statusUpdate: {
          taskId: "tsk_a",
          contextId: "ctx_b",
          status: { state: "TASK_STATE_INPUT_REQUIRED", timestamp },
          metadata: { murmur: { frame: "lagged", missed: 3 } },
        },
      },
    },
  );
  assert.deepEqual(json(watchNoticeEvent({ type: "gap", payload: { first_available_id: 4 } }, 2)), {
    id: null,
    type: "gap",
    result: {
      message: {
        messageId: "msg_gap_2",
        role: "ROLE_AGENT",
        parts: [{ data: { first_available_id: 4 }, mediaType: "application/json" }],
        metadata: { murmur: { frame: "gap" } },
      },
    },
  });
});
