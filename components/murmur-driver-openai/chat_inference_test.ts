import assert from "node:assert/strict";
import type { DriverRequest, Message } from "murmur/driver";
import {
  answeredHistory,
  callsOf,
  driverRequest,
  notedWorld,
  shownChunks,
  toolNamed,
  toolSays,
  userSays,
} from "../../tests/support/driver_harness.ts";
import {
  type ProviderServer,
  type ProviderServerOptions,
  startProviderServer,
} from "../../tests/support/provider_server.ts";
import { inferChat } from "./chat_inference.ts";
import { openAiConfig } from "./openai_config.ts";

const KEY = "sk-test-key";
const GPT = "gpt-4o-mini";
const LOCAL = "qwen3:8b";

async function infer(
  provider: ProviderServer,
  request: DriverRequest,
  config: unknown = undefined,
  random: () => number = () => 0.5,
) {
  const shown = shownChunks();
  const world = notedWorld(provider.key === null ? null : ["authorization", `Bearer ${KEY}`], random);
  const settings = openAiConfig(config === undefined ? undefined : JSON.stringify(config));
  const response = await inferChat(request, shown.context, settings, provider.endpoint, world);
  return { response, shown, world };
}

async function withProvider(
  use: (provider: ProviderServer) => Promise<void>,
  options: Partial<ProviderServerOptions> = {},
): Promise<void> {
  await using provider = await startProviderServer({ format: "openai", key: KEY, ...options });
  await use(provider);
  assert.deepEqual(provider.problems, []);
  assert.deepEqual(provider.script, [], "not everything of the script was asked for");
}

const compatible = { dialect: "compatible", key: null } as const;
const request = (more: Partial<DriverRequest> = {}) => driverRequest({ model: GPT, ...more });

Deno.test("a streamed answer: text as it comes, usage with cached tokens beside the others", async () => {
  await withProvider(async (provider) => {
    provider.script.push({
      text: "There are three files – räksmörgås.",
      usage: { input: 120, output: 9, cached: 100, cacheWrite: 5 },
    });
    const { response, shown } = await infer(provider, request());
    assert.deepEqual(response, {
      stop_reason: "end_turn",
      content: [{ type: "text", text: "There are three files – räksmörgås." }],
      usage: { input_tokens: 15, output_tokens: 9, cached_tokens: 100, cache_write_tokens: 5 },
    });
    assert.equal(shown.text(), "There are three files – räksmörgås.");
    assert.ok(shown.chunks.length > 3);
  });
});

Deno.test("the request to OpenAI and to another server", async () => {
  await withProvider(async (provider) => {
    provider.script.push({ text: "ok" });
    await infer(provider, request({ tools: [toolNamed("g++")] }));
    assert.deepEqual(provider.requests[0]!.body, {
      model: GPT,
      messages: [
        { role: "system", content: "[Capsule]\nName: demo" },
        { role: "user", content: "Count the files" },
      ],
      tools: [{
        type: "function",
        function: { name: "g__", description: "Does g++", parameters: toolNamed("x").parameters },
      }],
      max_completion_tokens: 1000,
      prompt_cache_key: "demo:0.1.0:ctx_01",
      stream: true,
      stream_options: { include_usage: true },
    });
  });
  await withProvider(async (provider) => {
    provider.script.push({ text: "ok" });
    await infer(provider, request({ model: LOCAL }));
    const { body, headers } = provider.requests[0]!;
    assert.deepEqual([body.max_tokens, body.max_completion_tokens, body.prompt_cache_key], [
      1000,
      undefined,
      undefined,
    ]);
    assert.equal(headers.authorization, undefined);
  }, compatible);
});

Deno.test("tools over several turns: parallel calls in pieces, results before what the user says", async () => {
  await withProvider(async (provider) => {
    const tools = [toolNamed("list-files"), toolNamed("g++")];
    provider.script.push(
      { text: "Looking.", toolCalls: [{ name: "list-files", input: { path: 'a "b" ü' } }, { name: "g__", input: {} }] },
      { toolCalls: [{ name: "list-files", input: { path: "b" } }] },
      { text: "Done." },
    );
    let messages: Message[] = [userSays("Count the files")];
    const first = await infer(provider, request({ messages, tools }));
    assert.equal(first.response.stop_reason, "tool_call");
    assert.deepEqual(callsOf(first.response).map((call) => [call.name, call.input]), [
      ["list-files", { path: 'a "b" ü' }],
      ["g++", {}],
    ]);
    messages = answeredHistory(messages, first.response, ["3 files", ""]);
    const second = await infer(provider, request({ messages, tools }));
    messages = [...answeredHistory(messages, second.response, ["1 file"]), userSays("And now?")];
    const third = await infer(provider, request({ messages, tools }));
    assert.equal(third.response.stop_reason, "end_turn");
    const sent = provider.requests[2]!.body.messages as { role: string }[];
    assert.deepEqual(sent.map((message) => message.role), [
      "system",
      "user",
      "assistant",
      "tool",
      "tool",
      "assistant",
      "tool",
      "user",
    ]);
  });
});

Deno.test("a failed call is told as one", async () => {
  await withProvider(async (provider) => {
    provider.script.push({ text: "ok" });
    await infer(
      provider,
      request({
        messages: [
          userSays("a"),
          { role: "assistant", content: [{ type: "tool_call", id: "c1", name: "t", input: {} }] },
          toolSays("c1", "no such file", true),
        ],
      }),
    );
    const messages = provider.requests[0]!.body.messages as { content: string }[];
    assert.equal(messages.at(-1)!.content, "Error: no such file");
  });
});

Deno.test("whatever the pieces cut, the answer is the same", async () => {
  for (const pieceBytes of [1, 2, 3, 7, 64, 1 << 20]) {
    await withProvider(async (provider) => {
      provider.script.push({
        text: "häß\u{1F600}lich",
        toolCalls: [{ name: "list-files", input: { path: "ü\u{1F600}\n" } }],
        pieceBytes,
      });
      const { response, shown } = await infer(provider, request({ tools: [toolNamed("list-files")] }));
      assert.equal(response.error, undefined);
      assert.equal(shown.text(), "häß\u{1F600}lich");
      assert.deepEqual(callsOf(response)[0]!.input, { path: "ü\u{1F600}\n" });
    });
  }
});

Deno.test("servers that differ: no usage, usage unasked, no [DONE], `stop` after a call, no ids", async () => {
  const tools = [toolNamed("a"), toolNamed("b")];
  const calls = [{ id: null, name: "a", input: { path: "1" } }, { id: null, name: "b", input: { path: "2" } }];
  const servers: Partial<ProviderServerOptions>[] = [
    { ...compatible, usage: "never" },
    { ...compatible, usage: "always", done: false },
    { ...compatible, done: false },
  ];
  for (const options of servers) {
    await withProvider(async (provider) => {
      provider.script.push({ toolCalls: calls, stopReason: "stop" }, { text: "ok" });
      const config = { stream_usage: options.usage !== "always" };
      const first = await infer(provider, request({ model: LOCAL, tools }), config, Math.random);
      assert.equal(first.response.stop_reason, "tool_call");
      assert.equal(first.response.usage?.output_tokens, options.usage === "never" ? undefined : 5);
      const ids = callsOf(first.response).map((call) => call.id);
      assert.equal(new Set(ids).size, 2);
      for (const id of ids) assert.match(String(id), /^[A-Za-z0-9]{9}$/);
      const messages = answeredHistory([userSays("go")], first.response, ["x", "y"]);
      await infer(provider, request({ model: LOCAL, tools, messages }));
    }, options);
  }
});

Deno.test("a server that answers whole, asked or not, is understood", async () => {
  await withProvider(async (provider) => {
    provider.script.push(
      { text: "one", thinking: "hm", whole: true },
      { toolCalls: [{ name: "a", input: { path: "x" } }], usage: { input: 3, output: 2 } },
    );
    const first = await infer(provider, request({ model: LOCAL }));
    assert.equal(first.shown.text(), "one");
    assert.equal(first.shown.thinking(), "hm");
    const second = await infer(provider, request({ model: LOCAL, tools: [toolNamed("a")] }), { stream: false });
    assert.equal(second.response.stop_reason, "tool_call");
    assert.deepEqual(second.response.usage, { input_tokens: 3, output_tokens: 2 });
    const { body } = provider.requests[1]!;
    assert.deepEqual([body.stream, body.stream_options], [false, undefined]);
  }, compatible);
});

Deno.test("thinking is shown, kept, and sent back within the work it belongs to", async () => {
  for (const reasoningMember of ["reasoning_content", "reasoning"] as const) {
    await withProvider(async (provider) => {
      const tools = [toolNamed("a")];
      provider.script.push(
        { thinking: "I should look.", toolCalls: [{ name: "a", input: { path: "x" } }] },
        { thinking: "Now I know.", text: "Three." },
        { text: "ok" },
        { text: "ok" },
      );
      let messages: Message[] = [userSays("Count")];
      const first = await infer(provider, request({ model: LOCAL, messages, tools }));
      assert.equal(first.shown.thinking(), "I should look.");
      assert.deepEqual(first.response.content[0], {
        type: "reasoning",
        member: reasoningMember,
        text: "I should look.",
      });
      messages = answeredHistory(messages, first.response, ["3"]);
      const second = await infer(provider, request({ model: LOCAL, messages, tools }));
      messages = [...answeredHistory(messages, second.response), userSays("Thanks")];
      await infer(provider, request({ model: LOCAL, messages, tools }));
      await infer(provider, request({ model: LOCAL, messages, tools }), { replay_reasoning: "always" });
      const thoughts = provider.requests.map(({ body }) =>
        (body.messages as Record<string, unknown>[]).filter((message) => message.role === "assistant")
          .map((message) => message[reasoningMember])
      );
      assert.deepEqual(thoughts, [
        [],
        ["I should look."],
        [undefined, undefined],
        ["I should look.", "Now I know."],
      ]);
    }, { ...compatible, reasoningMember });
  }
});

Deno.test("stop reasons", async () => {
  const cases: readonly (readonly [Record<string, unknown>, string, string | undefined])[] = [
    [{ text: "cut", stopReason: "length" }, "max_tokens", undefined],
    [{ text: "x", stopReason: "content_filter" }, "error", "the provider withheld its answer (content_filter)"],
    [{ text: "x", stopReason: "eos" }, "end_turn", undefined],
    [{ text: "x", stopReason: null }, "end_turn", undefined],
  ];
  for (const [reply, stopReason, error] of cases) {
    await withProvider(async (provider) => {
      provider.script.push(reply);
      const { response } = await infer(provider, request());
      assert.deepEqual([response.stop_reason, response.error], [stopReason, error]);
    });
  }
  await withProvider(async (provider) => {
    provider.script.push({
      text: "Looking.",
      toolCalls: [{ name: "a", input: {}, rawArguments: '{"pa' }],
      stopReason: "length",
    });
    const { response } = await infer(provider, request({ tools: [toolNamed("a")] }));
    assert.deepEqual([response.stop_reason, response.content], ["max_tokens", [{ type: "text", text: "Looking." }]]);
  });
});

Deno.test("a member the server does not know is left out or respelled at the second try, each once", async () => {
  const without: readonly (readonly [string, string])[] = [
    ["stream_options", LOCAL],
    ["prompt_cache_key", GPT],
    ["max_completion_tokens", GPT],
  ];
  for (const [member, model] of without) {
    await using provider = await startProviderServer({ format: "openai", ...compatible, unknown: [member] });
    provider.script.push({ text: "ok" });
    const { response } = await infer(provider, request({ model }));
    assert.equal(response.stop_reason, "end_turn", response.error);
    assert.equal(provider.requests.length, 2);
    if (member === "max_completion_tokens") assert.equal(provider.requests[1]!.body.max_tokens, 1000);
  }
  // OpenAI's own refusal of the older spelling.
  await using provider = await startProviderServer({ format: "openai", key: KEY });
  provider.script.push({ text: "ok" });
  const { response } = await infer(provider, request({ model: "my-finetune" }));
  assert.equal(response.stop_reason, "end_turn", response.error);
  assert.equal(provider.requests[1]!.body.max_completion_tokens, 1000);
  // A refusal that names the member for its value is the operator's to read.
  await withProvider(async (other) => {
    other.script.push({ status: 400, type: "invalid_request_error", message: "max_tokens is too large: 1000" });
    const { response } = await infer(other, request({ model: LOCAL }));
    assert.match(response.error!, /max_tokens is too large/);
  }, compatible);
});

Deno.test("failures that may pass are tried again; a spent quota is not", async () => {
  await withProvider(async (provider) => {
    provider.script.push(
      { status: 429, type: "requests", message: "slow down", headers: { "retry-after-ms": "120" } },
      { status: 502, body: "<html>bad gateway</html>" },
      { text: "at last" },
    );
    const { response, world } = await infer(provider, request());
    assert.deepEqual(response.content, [{ type: "text", text: "at last" }]);
    assert.deepEqual(world.waits, [120, 875]);
  });
  await withProvider(async (provider) => {
    provider.script.push({ status: 429, type: "insufficient_quota", message: "You exceeded your current quota" });
    const { response, world } = await infer(provider, request());
    assert.match(response.error!, /429 insufficient_quota: You exceeded your current quota/);
    assert.deepEqual(world.waits, []);
  });
});

Deno.test("errors come in the provider's words, without the key", async () => {
  await using provider = await startProviderServer({ format: "openai", key: "another" });
  const { response } = await infer(provider, request());
  assert.equal(response.error, "the provider answered 401 authentication_error: invalid x-api-key (request req_test)");
  assert.ok(!JSON.stringify(response).includes(KEY));
});

Deno.test("an answer that breaks off is asked for again", async () => {
  const breaks = [
    { disconnectAfter: 4 },
    { truncateAfter: 4 },
    { errorAfter: { events: 4, type: "server_error", message: "The server had an error" } },
  ];
  for (const delivery of breaks) {
    await withProvider(async (provider) => {
      provider.script.push({ text: "The first try of an answer", ...delivery }, { text: "Whole." });
      const { response, shown } = await infer(provider, request());
      assert.deepEqual(response.content, [{ type: "text", text: "Whole." }]);
      assert.match(shown.text(), /^The first.*\n\n\[the connection broke; the answer starts again\]\n\nWhole\.$/);
    }, { done: false });
  }
});

Deno.test("arguments that are no JSON object are asked for again, and then told", async () => {
  await withProvider(async (provider) => {
    const tools = [toolNamed("a")];
    provider.script.push(
      { toolCalls: [{ name: "a", input: {}, rawArguments: '{"path": ' }] },
      { toolCalls: [{ name: "a", input: {}, rawArguments: '"text"' }] },
    );
    const { response } = await infer(provider, request({ tools }), { max_retries: 1 });
    assert.equal(response.error, "the provider's answer broke off: the arguments of a are not a JSON object");
  });
});

Deno.test("every setting reaches the request", async () => {
  await withProvider(async (provider) => {
    provider.script.push({ text: "ok" });
    await infer(provider, request({ tools: [toolNamed("t")] }), {
      system_role: "developer",
      max_tokens_field: "max_completion_tokens",
      prompt_cache_key: false,
      stream_usage: false,
      temperature: 0,
      top_p: 0.5,
      stop: ["END"],
      seed: 7,
      reasoning_effort: "low",
      verbosity: "low",
      parallel_tool_calls: false,
      service_tier: "flex",
      headers: { "X-Team": "murmur" },
      extra_body: { response_format: { type: "text" } },
    });
    const { body, headers } = provider.requests[0]!;
    assert.equal(headers["x-team"], "murmur");
    assert.deepEqual(
      [body.temperature, body.top_p, body.stop, body.seed, body.reasoning_effort, body.verbosity],
      [0, 0.5, ["END"], 7, "low", "low"],
    );
    assert.deepEqual([body.parallel_tool_calls, body.service_tier, body.response_format], [false, "flex", {
      type: "text",
    }]);
    assert.deepEqual([body.prompt_cache_key, body.stream_options], [undefined, undefined]);
    assert.equal((body.messages as { role: string }[])[0]!.role, "developer");
  });
});
