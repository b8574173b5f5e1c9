import assert from "node:assert/strict";
import type { DriverRequest, DriverResponse, Message } from "murmur/driver";
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
import { type ProviderServer, startProviderServer } from "../../tests/support/provider_server.ts";
import { anthropicConfig } from "./anthropic_config.ts";
import { inferMessages } from "./messages_inference.ts";

const KEY = "sk-ant-test-key";

async function infer(provider: ProviderServer, request: DriverRequest, config: unknown = undefined) {
  const shown = shownChunks();
  const world = notedWorld(["x-api-key", KEY]);
  const settings = anthropicConfig(config === undefined ? undefined : JSON.stringify(config));
  const response = await inferMessages(request, shown.context, settings, provider.endpoint, world);
  return { response, shown, world };
}

async function withProvider(use: (provider: ProviderServer) => Promise<void>): Promise<void> {
  await using provider = await startProviderServer({ format: "anthropic", key: KEY });
  await use(provider);
  assert.deepEqual(provider.problems, []);
  assert.deepEqual(provider.script, [], "not everything of the script was asked for");
}

Deno.test("a streamed answer: text as it comes, usage with what the cache gave", async () => {
  await withProvider(async (provider) => {
    provider.script.push({
      text: "There are three files – räksmörgås.",
      usage: { input: 20, output: 9, cached: 100, cacheWrite: 30 },
    });
    const { response, shown } = await infer(provider, driverRequest());
    assert.deepEqual(response, {
      stop_reason: "end_turn",
      content: [{ type: "text", text: "There are three files – räksmörgås." }],
      usage: { input_tokens: 20, output_tokens: 9, cached_tokens: 100, cache_write_tokens: 30 },
    });
    assert.equal(shown.text(), "There are three files – räksmörgås.");
    assert.ok(shown.chunks.length > 3);
  });
});

Deno.test("the request: version, system, cache marks, tools, bound", async () => {
  await withProvider(async (provider) => {
    provider.script.push({ text: "ok" });
    await infer(provider, driverRequest({ tools: [toolNamed("list-files"), toolNamed("g++")] }));
    const [{ headers, body }] = provider.requests as [typeof provider.requests[0]];
    assert.equal(headers["anthropic-version"], "2023-06-01");
    assert.deepEqual(body, {
      model: "model-1",
      max_tokens: 1000,
      system: [{ type: "text", text: "[Capsule]\nName: demo", cache_control: { type: "ephemeral" } }],
      messages: [{
        role: "user",
        content: [{ type: "text", text: "Count the files", cache_control: { type: "ephemeral" } }],
      }],
      tools: [
        { name: "list-files", description: "Does list-files", input_schema: toolNamed("x").parameters },
        { name: "g__", description: "Does g++", input_schema: toolNamed("x").parameters },
      ],
      stream: true,
    });
  });
});

Deno.test("tools over several turns: parallel calls, thinking kept with its signature, results in order", async () => {
  await withProvider(async (provider) => {
    const tools = [toolNamed("list-files"), toolNamed("g++")];
    provider.script.push(
      {
        thinking: "I should look at both.",
        redactedThinking: "b64==",
        text: "Looking.",
        toolCalls: [{ name: "list-files", input: { path: 'a "b" ü' } }, { name: "g__", input: {} }],
      },
      { thinking: "Now I know.", toolCalls: [{ name: "list-files", input: { path: "b" } }] },
      { text: "Done." },
    );
    let messages: Message[] = [userSays("Count the files")];
    const first = await infer(provider, driverRequest({ messages, tools }));
    assert.equal(first.response.stop_reason, "tool_call");
    assert.equal(first.shown.thinking(), "I should look at both.");
    assert.equal(first.shown.text(), "Looking.");
    assert.deepEqual(first.response.content.map((block) => block.type), [
      "thinking",
      "redacted_thinking",
      "text",
      "tool_call",
      "tool_call",
    ]);
    assert.deepEqual(callsOf(first.response).map((block) => [block.name, block.input]), [
      ["list-files", { path: 'a "b" ü' }],
      ["g++", {}],
    ]);
    messages = answeredHistory(messages, first.response, ["3 files", ""]);
    const second = await infer(provider, driverRequest({ messages, tools }));
    messages = answeredHistory(messages, second.response, ["1 file"]);
    const third = await infer(provider, driverRequest({ messages, tools }));
    assert.equal(third.response.stop_reason, "end_turn");
    // The server compares every thinking block with what it sent; here only that they went back at all.
    const sent = provider.requests[2]!.body.messages as { role: string; content: { type: string }[] }[];
    assert.deepEqual(sent[1]!.content.map((block) => block.type), [
      "thinking",
      "redacted_thinking",
      "text",
      "tool_use",
      "tool_use",
    ]);
    assert.deepEqual(sent[2]!.content.map((block) => Object.keys(block).sort().join()), [
      "content,tool_use_id,type",
      "cache_control,tool_use_id,type",
    ]);
  });
});

Deno.test("whatever the pieces cut, the answer is the same", async () => {
  for (const pieceBytes of [1, 2, 3, 7, 64, 1 << 20]) {
    await withProvider(async (provider) => {
      provider.script.push({
        thinking: "grübeln …",
        text: "häß\u{1F600}lich",
        toolCalls: [{ name: "list-files", input: { path: "ü\u{1F600}\n" } }],
        pieceBytes,
      });
      const { response, shown } = await infer(provider, driverRequest({ tools: [toolNamed("list-files")] }));
      assert.equal(response.error, undefined);
      assert.equal(shown.text(), "häß\u{1F600}lich");
      assert.deepEqual(callsOf(response)[0]!.input, { path: "ü\u{1F600}\n" });
    });
  }
});

Deno.test("a server that answers whole, asked or not, is understood", async () => {
  await withProvider(async (provider) => {
    provider.script.push({ text: "one", thinking: "hm", whole: true }, { text: "two" });
    const first = await infer(provider, driverRequest());
    assert.deepEqual(first.response.content.at(-1), { type: "text", text: "one" });
    assert.equal(first.shown.text(), "one");
    assert.equal(first.shown.thinking(), "hm");
    const second = await infer(provider, driverRequest(), { stream: false });
    assert.equal(second.shown.text(), "two");
    assert.equal(provider.requests[1]!.body.stream, false);
  });
});

Deno.test("stop reasons", async () => {
  const cases: readonly (readonly [Record<string, unknown>, Partial<DriverResponse>])[] = [
    [{ text: "cut", stopReason: "max_tokens" }, { stop_reason: "max_tokens" }],
    [{ text: "cut", stopReason: "model_context_window_exceeded" }, { stop_reason: "max_tokens" }],
    [{ stopReason: "model_context_window_exceeded" }, {
      stop_reason: "error",
      error: "the conversation no longer fits the model's context window",
    }],
    [{ text: "found", stopReason: "stop_sequence" }, { stop_reason: "end_turn" }],
    [{ stopReason: "refusal", stopDetails: { type: "refusal", category: "cyber", explanation: "No." } }, {
      stop_reason: "error",
      error: "the provider refused to answer (cyber): No.",
    }],
    [{ text: "x", stopReason: "something_new" }, {
      stop_reason: "error",
      error: "the provider ended its answer with the unknown stop reason 'something_new'",
    }],
  ];
  for (const [reply, expected] of cases) {
    await withProvider(async (provider) => {
      provider.script.push(reply);
      const { response } = await infer(provider, driverRequest());
      assert.equal(response.stop_reason, expected.stop_reason);
      assert.equal(response.error, expected.error);
    });
  }
});

Deno.test("a call cut by the bound is neither run nor kept", async () => {
  await withProvider(async (provider) => {
    const tools = [toolNamed("list-files")];
    provider.script.push({
      text: "Looking.",
      toolCalls: [{ name: "list-files", input: {}, rawArguments: '{"path": "a' }],
      stopReason: "max_tokens",
    }, { toolCalls: [{ name: "list-files", input: { path: "a" } }], stopReason: "max_tokens" });
    for (const content of [[{ type: "text", text: "Looking." }], []]) {
      const { response } = await infer(provider, driverRequest({ tools }));
      assert.equal(response.stop_reason, "max_tokens");
      assert.deepEqual(response.content, content);
    }
  });
});

Deno.test("an answer that pauses for the provider's own tools goes on by itself", async () => {
  await withProvider(async (provider) => {
    const search = { type: "server_tool_use", id: "srvtoolu_1", name: "web_search", input: { query: "x" } };
    provider.script.push(
      { blocks: [search], stopReason: "pause_turn", usage: { input: 5, output: 3 } },
      { text: "Found it.", usage: { input: 6, output: 4 } },
    );
    const { response } = await infer(provider, driverRequest());
    assert.equal(response.stop_reason, "end_turn");
    assert.deepEqual(response.content, [search, { type: "text", text: "Found it." }]);
    assert.deepEqual(response.usage, { input_tokens: 11, output_tokens: 7 });
    const messages = provider.requests[1]!.body.messages as unknown[];
    assert.deepEqual(messages.at(-1), { role: "assistant", content: [search] });
  });
});

Deno.test("failures that may pass are tried again, as often as configured", async () => {
  await withProvider(async (provider) => {
    provider.script.push(
      { status: 529, type: "overloaded_error", message: "Overloaded" },
      { status: 429, type: "rate_limit_error", message: "slow", headers: { "retry-after": "2" } },
      { status: 500, type: "api_error", message: "x", body: "<html>bad gateway</html>" },
      { text: "at last" },
    );
    const { response, world } = await infer(provider, driverRequest());
    assert.deepEqual(response.content, [{ type: "text", text: "at last" }]);
    assert.deepEqual(world.waits, [875, 2000, 1750]);
    assert.equal(world.lines.length, 3);
    assert.match(world.lines[0]!, /529 overloaded_error: Overloaded \(request req_test\); trying again in 875 ms/);
  });
  await withProvider(async (provider) => {
    provider.script.push(
      { status: 503, type: "api_error", message: "one" },
      { status: 503, type: "api_error", message: "two" },
    );
    const { response, world } = await infer(provider, driverRequest(), { max_retries: 1 });
    assert.equal(response.stop_reason, "error");
    assert.equal(response.error, "the provider answered 503 api_error: two (request req_test)");
    assert.equal(world.waits.length, 1);
  });
});

Deno.test("a connection closed without an answer is tried again", async () => {
  await withProvider(async (provider) => {
    provider.script.push({ disconnect: true }, { text: "at last" });
    const { response, world } = await infer(provider, driverRequest());
    assert.deepEqual(response.content, [{ type: "text", text: "at last" }]);
    assert.deepEqual(world.waits, [438]);
  });
});

Deno.test("errors of the provider are passed on in its words, at once when trying again can't help", async () => {
  await withProvider(async (provider) => {
    provider.script.push({ status: 400, type: "invalid_request_error", message: "prompt is too long: 9 > 8" });
    const { response, world } = await infer(provider, driverRequest());
    assert.equal(
      response.error,
      "the provider answered 400 invalid_request_error: prompt is too long: 9 > 8 (request req_test)",
    );
    assert.deepEqual(world.waits, []);
  });
  await using provider = await startProviderServer({ format: "anthropic", key: "another" });
  const { response } = await infer(provider, driverRequest());
  assert.equal(response.error, "the provider answered 401 authentication_error: invalid x-api-key (request req_test)");
  assert.ok(!JSON.stringify(response).includes(KEY));
});

Deno.test("redirects are not followed", async () => {
  await withProvider(async (provider) => {
    provider.script.push({ status: 307, body: "", headers: { location: "https://elsewhere.test/" } });
    const { response } = await infer(provider, driverRequest());
    assert.match(response.error!, /307 a redirect to https:\/\/elsewhere\.test\/, which is not followed/);
  });
});

Deno.test("an answer that breaks off is asked for again; the break is shown when text had been shown", async () => {
  const breaks = [
    { disconnectAfter: 6 },
    { truncateAfter: 6 },
    { errorAfter: { events: 6, type: "overloaded_error", message: "Overloaded" } },
  ];
  for (const delivery of breaks) {
    await withProvider(async (provider) => {
      provider.script.push({ text: "The first try of an answer", ...delivery }, { text: "Whole." });
      const { response, shown } = await infer(provider, driverRequest());
      assert.deepEqual(response.content, [{ type: "text", text: "Whole." }]);
      assert.match(shown.text(), /^The first.*\n\n\[the connection broke; the answer starts again\]\n\nWhole\.$/);
    });
    await withProvider(async (provider) => {
      provider.script.push({ thinking: "A long thought before the break", ...delivery }, { text: "Whole." });
      const { shown } = await infer(provider, driverRequest());
      assert.equal(shown.text(), "Whole.");
    });
  }
});

Deno.test("an error in the middle that can't pass ends the inference with the provider's words", async () => {
  await withProvider(async (provider) => {
    provider.script.push({
      text: "Some text",
      errorAfter: { events: 4, type: "invalid_request_error", message: "no more" },
    });
    const { response } = await infer(provider, driverRequest());
    assert.deepEqual(response.content, []);
    assert.equal(response.error, "the provider broke off its answer: invalid_request_error: no more");
  });
});

Deno.test("a provider that falls silent counts as a broken connection", async () => {
  await using provider = await startProviderServer({ format: "anthropic", key: KEY });
  provider.script.push({ text: "Some text", silentAfter: 4 }, { text: "Whole." });
  const { response } = await infer(provider, driverRequest(), { idle_timeout_seconds: 1 });
  assert.deepEqual(response.content, [{ type: "text", text: "Whole." }]);
  assert.equal(provider.abandoned, 1);
});

Deno.test("input that is no JSON is asked for again", async () => {
  await withProvider(async (provider) => {
    const tools = [toolNamed("list-files")];
    provider.script.push(
      { toolCalls: [{ name: "list-files", input: {}, rawArguments: '{"path": ' }] },
      { toolCalls: [{ name: "list-files", input: { path: "a" } }] },
    );
    const { response } = await infer(provider, driverRequest({ tools }));
    assert.deepEqual(callsOf(response)[0]!.input, { path: "a" });
  });
});

Deno.test("a history of another provider and one with gaps is made acceptable", async () => {
  await withProvider(async (provider) => {
    provider.script.push({ text: "ok" });
    await infer(
      provider,
      driverRequest({
        system: " ",
        messages: [
          toolSays("gone", "a result without its call"),
          { role: "assistant", content: [{ type: "reasoning", text: "theirs" }, { type: "text", text: "" }] },
          {
            role: "assistant",
            content: [
              { type: "reasoning", text: "theirs" },
              { type: "tool_call", id: "call:1/2", name: "old tool", input: { a: 1 } },
            ],
          },
          userSays("  "),
        ],
      }),
    );
    assert.equal(provider.requests[0]!.body.system, undefined);
  });
});

Deno.test("thinking that the provider does not recognise is left out at the second try", async () => {
  await using provider = await startProviderServer({ format: "anthropic", key: KEY });
  provider.script.push({ text: "ok" });
  const { response } = await infer(
    provider,
    driverRequest({
      messages: [
        userSays("a"),
        {
          role: "assistant",
          content: [{ type: "thinking", thinking: "foreign", signature: "other" }, { type: "text", text: "b" }],
        },
        userSays("c"),
      ],
    }),
  );
  assert.equal(response.stop_reason, "end_turn");
  assert.equal(provider.requests.length, 2);
  assert.deepEqual(provider.requests[1]!.problems, []);
});

Deno.test("every setting reaches the request", async () => {
  await withProvider(async (provider) => {
    provider.script.push({ text: "ok" }, { text: "ok" });
    await infer(provider, driverRequest({ tools: [toolNamed("t")] }), {
      api_version: "2026-10-21",
      beta: ["one-2026", "two-2026"],
      prompt_caching: false,
      thinking: { type: "adaptive" },
      effort: "high",
      stop_sequences: ["END"],
      tool_choice: { type: "any" },
      service_tier: "auto",
      headers: { "X-Team": "murmur" },
      extra_body: { metadata: { user_id: "u" } },
    });
    const { headers, body } = provider.requests[0]!;
    assert.equal(headers["anthropic-version"], "2026-10-21");
    assert.equal(headers["anthropic-beta"], "one-2026,two-2026");
    assert.equal(headers["x-team"], "murmur");
    assert.ok(!JSON.stringify(body).includes("cache_control"));
    assert.deepEqual(
      [body.thinking, body.output_config, body.stop_sequences, body.tool_choice, body.service_tier, body.metadata],
      [{ type: "adaptive" }, { effort: "high" }, ["END"], { type: "any" }, "auto", { user_id: "u" }],
    );
    await infer(provider, driverRequest(), { temperature: 0, top_p: 0.5, top_k: 3, cache_ttl: "1h" });
    const second = provider.requests[1]!.body;
    assert.deepEqual([second.temperature, second.top_p, second.top_k], [0, 0.5, 3]);
    assert.ok(JSON.stringify(second).includes('"cache_control":{"type":"ephemeral","ttl":"1h"}'));
  });
});

Deno.test("cache marks stand at the ends of the last two requests, so a long turn still finds its prefix", async () => {
  await withProvider(async (provider) => {
    provider.script.push({ text: "ok" });
    const call = (id: string) => ({ type: "tool_call", id, name: "t", input: {} });
    await infer(
      provider,
      driverRequest({
        messages: [
          userSays("a"),
          { role: "assistant", content: [call("1")] },
          toolSays("1", "x"),
          { role: "assistant", content: [call("2")] },
          toolSays("2", "y"),
        ],
      }),
    );
    const messages = provider.requests[0]!.body.messages as { content: Record<string, unknown>[] }[];
    assert.deepEqual(
      messages.map((message) => message.content.some((block) => block.cache_control !== undefined)),
      [false, false, true, false, true],
    );
  });
});
