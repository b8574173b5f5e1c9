import assert from "node:assert/strict";
import fc from "fast-check";
import type { ToolResult } from "../component/component_runtime.ts";
import {
  actionOf,
  ANSWER_DEPTH,
  buildDriverPayload,
  decisionOf,
  dispatchFailure,
  type DriverReply,
  type DriverRequest,
  parseUsage,
  promptCacheKey,
  readDriverResult,
  reservedMetadata,
  usageKeys,
} from "./driver_protocol.ts";
import { assistantMessage, toolMessage, userMessage } from "./message.ts";

const REQUEST: DriverRequest = {
  model: "m-large",
  maxTokens: 8192,
  messages: [userMessage("Count the files")],
  tools: [{ name: "list-files", parameters: { type: "object", properties: {} }, description: "Lists files" }],
  system: "[Capsule]\nName: demo …",
  promptCacheKey: "demo:0.1.0:ctx_01",
  continuationId: null,
  sendFrom: 0,
};

function result(more: Partial<ToolResult>): ToolResult {
  return { status: "passed", summary: null, data: null, dataPath: null, truncated: false, metadata: [], ...more };
}

function reply(response: unknown, metadata: ToolResult["metadata"] = []): DriverReply {
  const outcome = readDriverResult(result({ data: JSON.stringify(response), metadata }));
  assert.equal(outcome.kind, "reply");
  return outcome.kind === "reply" ? outcome.reply : assert.fail();
}

function failureOf(more: Partial<ToolResult>): string {
  const outcome = readDriverResult(result(more));
  return outcome.kind === "failure"
    ? `${outcome.failure.cause} ${outcome.failure.errorCode}: ${outcome.failure.message}`
    : "reply";
}

Deno.test("the request: keys in their order, envelope keys stripped", () => {
  const { json, rest } = buildDriverPayload(REQUEST);
  assert.equal(
    json,
    '{"model":"m-large","max_tokens":8192,"messages":[{"role":"user","content":[{"type":"text","text":"Count the files"}]}],"tools":[{"name":"list-files","parameters":{"type":"object","properties":{}},"description":"Lists files"}],"params":{},"system":"[Capsule]\\nName: demo …","prompt_cache_key":"demo:0.1.0:ctx_01"}',
  );
  assert.deepEqual(rest, { model: "m-large", max_tokens: 8192, params: {}, prompt_cache_key: "demo:0.1.0:ctx_01" });
});

Deno.test("continuing sends the tail and the id", () => {
  const messages = [
    userMessage("a"),
    assistantMessage([{ type: "tool_call", id: "c", name: "t", input: {} }]),
    toolMessage({ callId: "c", isError: true, text: "no" }),
  ];
  const payload = buildDriverPayload({ ...REQUEST, messages, continuationId: "k1", sendFrom: 2 });
  const parsed = JSON.parse(payload.json);
  assert.deepEqual(parsed.messages, [{
    role: "tool",
    tool_call_id: "c",
    is_error: true,
    content: [{ type: "text", text: "no" }],
  }]);
  assert.equal(parsed.continuation_id, "k1");
  assert.equal(Object.keys(parsed).at(-1), "continuation_id");
  assert.deepEqual(payload.sent, [messages[2]]);
  assert.equal(payload.rest.continuation_id, "k1");
});

Deno.test("the request is the JSON of its parts, whatever is in them", () => {
  fc.assert(fc.property(
    fc.array(fc.string({ unit: "binary" })),
    fc.string({ unit: "binary" }),
    fc.string({ unit: "binary" }),
    (texts, system, model) => {
      const messages = texts.map((text) => userMessage(text));
      const payload = buildDriverPayload({ ...REQUEST, messages, system, model });
      const parsed = JSON.parse(payload.json);
      assert.equal(parsed.system, system);
      assert.equal(parsed.model, model);
      assert.deepEqual(parsed.messages.map((m: { content: { text: string }[] }) => m.content[0]!.text), texts);
      assert.equal(`[${payload.sentJsons.join(",")}]`, JSON.stringify(parsed.messages));
      assert.equal(payload.toolsJson, JSON.stringify(parsed.tools));
    },
  ));
});

Deno.test("the cache key is constant over a task", () => {
  assert.equal(promptCacheKey("bot", "0.1.0", "ctx_1"), "bot:0.1.0:ctx_1");
  assert.equal(promptCacheKey("bot", "0.1.0", null), "bot:0.1.0");
});

Deno.test("an answer is read from data, else from the summary", () => {
  const body = '{"stop_reason":"end_turn","content":[{"type":"text","text":"hi"}]}';
  for (const more of [{ data: body }, { summary: body }, { data: body, summary: "other" }]) {
    const outcome = readDriverResult(result(more));
    assert.equal(outcome.kind === "reply" && outcome.reply.body, body);
  }
});

Deno.test("every failure has its text, its cause and its code", () => {
  const cases: [Partial<ToolResult>, string][] = [
    [{ status: "failed", data: "quota", summary: "s" }, "driver_error driver_error: quota"],
    [{ status: "error", summary: "s" }, "driver_error driver_error: s"],
    [{ status: "failed" }, "driver_error driver_error: driver returned error"],
    [{}, "malformed_response malformed_response: driver returned no data"],
    [{ data: "{}x" }, "malformed_response malformed_response: failed to parse driver response: "],
    [{ data: "" }, "malformed_response malformed_response: failed to parse driver response: "],
    [{ data: "[]" }, "malformed_response malformed_response: failed to parse driver response: not a JSON object"],
    [{ data: "null" }, "malformed_response malformed_response: failed to parse driver response: not a JSON object"],
    [
      { data: '{"stop_reason":7}' },
      "malformed_response malformed_response: failed to parse driver response: 'stop_reason' is not a string",
    ],
    [
      { data: '{"stop_reason":"end_turn","content":"hi"}' },
      "malformed_response malformed_response: failed to parse driver response: 'content' is not a list of blocks",
    ],
    [
      { data: '{"stop_reason":"end_turn","content":["hi"]}' },
      "malformed_response malformed_response: failed to parse driver response: 'content' is not a list of blocks",
    ],
    [
      { data: '{"stop_reason":"tool_call","content":[{"type":"tool_call","id":"c"}]}' },
      "malformed_response malformed_response: failed to parse driver response: a tool_call block has no name",
    ],
  ];
  for (const [more, expected] of cases) {
    assert.ok(failureOf(more).startsWith(expected), `${failureOf(more)} / ${expected}`);
  }
  assert.deepEqual(dispatchFailure("it trapped"), {
    message: "driver invocation failed: it trapped",
    cause: "driver_error",
    errorCode: "driver_failed",
  });
});

Deno.test("an answer nested too deep is refused before it is parsed", () => {
  const nested = (depth: number) =>
    `{"stop_reason":"end_turn","content":[{"type":"x","v":${"[".repeat(depth - 3)}${"]".repeat(depth - 3)}}]}`;
  assert.equal(readDriverResult(result({ data: nested(ANSWER_DEPTH) })).kind, "reply");
  assert.match(failureOf({ data: nested(ANSWER_DEPTH + 1) }), /nested deeper than 256 levels/);
  assert.match(failureOf({ data: "[".repeat(5_000_000) }), /nested deeper/);
  const brackets = JSON.stringify({
    stop_reason: "end_turn",
    content: [{ type: "text", text: `"[{\\`.repeat(1_000) }],
  });
  assert.equal(readDriverResult(result({ data: brackets })).kind, "reply");
});

Deno.test("what the loop does by stop_reason, and the decision on the trace line", () => {
  const content = [{ type: "text", text: "a" }, { type: "thinking" }, { type: "text", text: "b" }];
  const call = { type: "tool_call", id: "c1", name: "list-files" };
  const cases: [unknown, string, unknown][] = [
    [{ stop_reason: "end_turn", content }, "end_turn", { kind: "finish", text: "a\nb", cut: false }],
    [{ stop_reason: "end_turn" }, "end_turn", { kind: "finish", text: "", cut: false }],
    [{ stop_reason: "max_tokens", content }, "text", { kind: "finish", text: "a\nb", cut: true }],
    [{ stop_reason: "tool_call", content: [call] }, "tool_call", {
      kind: "run-tools",
      calls: [{ id: "c1", name: "list-files", input: {}, inputProblem: null }],
    }],
  ];
  for (const [response, decision, action] of cases) {
    assert.equal(decisionOf(reply(response)), decision);
    assert.deepEqual(actionOf(reply(response)), action);
  }
  const failures: [unknown, string, string][] = [
    [{ stop_reason: "error", error: "overloaded" }, "error", "overloaded"],
    [{ stop_reason: "error" }, "error", "driver returned error"],
    [{ stop_reason: "error", error: { code: 1 } }, "error", "driver returned error"],
    [
      { stop_reason: "tool_call", content },
      "tool_call",
      "driver returned stop_reason 'tool_call' without a tool_call block",
    ],
    [{ stop_reason: "pause", content }, "text", "unsupported stop_reason 'pause'"],
    [{ content }, "text", "unsupported stop_reason ''"],
  ];
  for (const [response, decision, message] of failures) {
    assert.equal(decisionOf(reply(response)), decision);
    const action = actionOf(reply(response));
    assert.equal(action.kind === "fail" && action.failure.message, message);
  }
});

Deno.test("usage: bad and unknown members are dropped, good ones kept, absent ones stay absent", () => {
  assert.deepEqual(
    parseUsage({ input_tokens: 812, output_tokens: 0, cached_tokens: 5, cache_write_tokens: 7, reasoning: 1 }),
    { inputTokens: 812, outputTokens: 0, cachedTokens: 5, cacheWriteTokens: 7 },
  );
  for (const bad of [-1, 1.5, "3", null, true, [], 2 ** 60, Number.NaN]) {
    assert.deepEqual(parseUsage({ input_tokens: bad, output_tokens: 4 }), { outputTokens: 4 });
  }
  for (const none of [undefined, null, 7, "x", [1], []]) assert.deepEqual(parseUsage(none), {});
  assert.deepEqual(usageKeys({ inputTokens: 1, cacheWriteTokens: 0 }), {
    input_tokens_actual: 1,
    cache_write_tokens: 0,
  });
  assert.deepEqual(reply({ stop_reason: "end_turn", usage: { input_tokens: 90, x: 1 } }).usage, { inputTokens: 90 });
});

Deno.test("of a reserved metadata key the first counts, an empty one is none", () => {
  assert.equal(
    reply({ stop_reason: "end_turn" }, [["continuation_id", "k1"], ["continuation_id", "k2"]]).continuationId,
    "k1",
  );
  assert.equal(
    reply({ stop_reason: "end_turn" }, [["continuation_id", ""], ["continuation_id", "k2"]]).continuationId,
    null,
  );
  assert.equal(reply({ stop_reason: "end_turn" }).continuationId, null);
  assert.equal(reservedMetadata([["state_effect", "read"]], "state_effect"), "read");
});

Deno.test("no answer of any shape throws", () => {
  fc.assert(
    fc.property(
      fc.oneof(
        fc.jsonValue(),
        fc.record({ stop_reason: fc.jsonValue(), content: fc.jsonValue(), usage: fc.jsonValue() }),
      ),
      (value) => {
        const outcome = readDriverResult(result({ data: JSON.stringify(value) }));
        if (outcome.kind === "reply") actionOf(outcome.reply);
      },
    ),
  );
});
