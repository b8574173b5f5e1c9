import assert from "node:assert/strict";
import { ProviderError } from "../driver_support/provider_exchange.ts";
import { toolNames } from "../driver_support/tool_names.ts";
import { ChatAnswer } from "./chat_answer.ts";
import { chatBody, chatUrl } from "./chat_request.ts";
import { modelDialect, openAiConfig } from "./openai_config.ts";

const NAMES = toolNames(["a", "b"]);

function answerOf(...chunks: unknown[]) {
  const answer = new ChatAnswer(() => 0.5);
  const shown = chunks.flatMap((chunk) => answer.take(typeof chunk === "string" ? chunk : JSON.stringify(chunk)));
  return { response: answer.finish(NAMES), shown };
}
const delta = (fields: unknown, finish: string | null = null) => ({
  choices: [{ index: 0, delta: fields, finish_reason: finish }],
});

Deno.test("calls that all carry index 0, or none, are told apart by their ids", () => {
  for (const index of [{ index: 0 }, {}]) {
    const { response } = answerOf(
      delta({ tool_calls: [{ ...index, id: "c1", type: "function", function: { name: "a", arguments: '{"x":1}' } }] }),
      delta({ tool_calls: [{ ...index, id: "c2", type: "function", function: { name: "b", arguments: '{"x":2}' } }] }),
      delta({}, "tool_calls"),
    );
    assert.deepEqual(response.content, [
      { type: "tool_call", id: "c1", name: "a", input: { x: 1 } },
      { type: "tool_call", id: "c2", name: "b", input: { x: 2 } },
    ]);
  }
});

Deno.test("two calls with one id get two", () => {
  const call = { id: "call_0", type: "function", function: { name: "a", arguments: "" } };
  const { response } = answerOf(
    delta({ tool_calls: [{ index: 0, ...call }, { index: 1, ...call }] }),
    "[DONE]",
  );
  const ids = response.content.map((block) => ({ ...block } as { id?: unknown }).id);
  assert.equal(ids[0], "call_0");
  assert.notEqual(ids[1], "call_0");
});

Deno.test("a name repeated with every piece, arguments as an object, and further members of a call", () => {
  const { response } = answerOf(
    delta({ tool_calls: [{ index: 0, id: "c", function: { name: "a", arguments: '{"x"' }, extra_content: { g: 1 } }] }),
    delta({ tool_calls: [{ index: 0, id: "c", function: { name: "a", arguments: ":1}" } }] }),
    delta({ tool_calls: [{ index: 1, id: "d", function: { name: "b", arguments: { y: 2 } } }] }, "stop"),
  );
  assert.deepEqual(response.content, [
    { type: "tool_call", id: "c", name: "a", input: { x: 1 }, provider: { extra_content: { g: 1 } } },
    { type: "tool_call", id: "d", name: "b", input: { y: 2 } },
  ]);
  // And what came with a call goes back with it.
  const body = chatBody(
    {
      model: "m",
      max_tokens: 1,
      params: {},
      tools: [],
      messages: [{ role: "assistant", content: response.content }],
    },
    openAiConfig(undefined),
    NAMES,
  );
  const messages = body.messages as { tool_calls?: Record<string, unknown>[] }[];
  assert.deepEqual(messages[1]!.tool_calls![0]!.extra_content, { g: 1 });
});

Deno.test("content as parts, chunks without choices, other choices", () => {
  const { response, shown } = answerOf(
    { choices: null, usage: null },
    { usage: { prompt_tokens: 3, completion_tokens: 1, prompt_cache_hit_tokens: 2 } },
    delta({ content: [{ type: "thinking", thinking: [{ type: "text", text: "hm" }] }, { type: "text", text: "hi" }] }),
    { choices: [{ index: 1, delta: { content: "other" }, finish_reason: "stop" }] },
    delta({ refusal: "!" }, "stop"),
  );
  assert.deepEqual(response, {
    stop_reason: "end_turn",
    content: [{ type: "text", text: "hi!" }],
    usage: { input_tokens: 1, output_tokens: 1, cached_tokens: 2 },
  });
  assert.deepEqual(shown.map(({ kind, text }) => `${kind} ${text}`), ["thinking hm", "text hi", "text !"]);
});

Deno.test("what is no chunk, an error chunk, and an end without a reason are failures", () => {
  const failures: readonly (readonly [unknown[], RegExp])[] = [
    [["{"], /a chunk is not JSON/],
    [[delta({ content: "x" })], /ended before/],
    [[{ error: { message: "boom", type: "server_error" } }], /server_error: boom/],
    [[{ error: "boom" }], /boom/],
    [[delta({}, "error")], /broke off/],
    [[delta({}, "tool_calls")], /ends in a tool call and holds none/],
    [[delta({ tool_calls: [{ index: 0, function: { arguments: "{}" } }] }, "tool_calls")], /no name/],
  ];
  for (const [chunks, text] of failures) {
    assert.throws(() => answerOf(...chunks), (error) => {
      assert.ok(error instanceof ProviderError);
      assert.match(error.message, text);
      return true;
    });
  }
});

Deno.test("the endpoint may carry a version, a path, or be replaced by one", () => {
  const cases: readonly (readonly [string, string | undefined, string])[] = [
    ["http://127.0.0.1:9", undefined, "http://127.0.0.1:9/v1/chat/completions"],
    ["http://127.0.0.1:9/v1/", undefined, "http://127.0.0.1:9/v1/chat/completions"],
    ["http://127.0.0.1:9/openai/v1", undefined, "http://127.0.0.1:9/openai/v1/chat/completions"],
    ["http://127.0.0.1:9/v1beta/openai", undefined, "http://127.0.0.1:9/v1beta/openai/chat/completions"],
    ["http://127.0.0.1:9/proxy", undefined, "http://127.0.0.1:9/proxy/v1/chat/completions"],
    ["http://v1.example:9", undefined, "http://v1.example:9/v1/chat/completions"],
    [
      "http://127.0.0.1:9",
      "/openai/deployments/x/chat/completions?api-version=1",
      "http://127.0.0.1:9/openai/deployments/x/chat/completions?api-version=1",
    ],
  ];
  for (const [endpoint, path, url] of cases) assert.equal(chatUrl(endpoint, path), url);
});

Deno.test("the dialect follows the model's name unless it is configured", () => {
  const none = { maxTokensField: undefined, promptCacheKey: undefined };
  for (const model of ["gpt-4o-mini", "gpt-5.1", "o3", "o4-mini", "chatgpt-4o-latest", "openai/gpt-4.1"]) {
    assert.deepEqual(
      modelDialect(model, none),
      { maxTokensField: "max_completion_tokens", promptCacheKey: true },
      model,
    );
  }
  for (const model of ["gpt-oss:20b", "openai/gpt-oss-120b", "llama3.2", "qwen3", "mistral-large", "olmo2"]) {
    assert.deepEqual(modelDialect(model, none), { maxTokensField: "max_tokens", promptCacheKey: false }, model);
  }
  assert.deepEqual(modelDialect("llama3", { maxTokensField: "max_completion_tokens", promptCacheKey: true }), {
    maxTokensField: "max_completion_tokens",
    promptCacheKey: true,
  });
});
