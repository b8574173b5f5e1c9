import assert from "node:assert/strict";
import { anthropicProblems, type JsonObject, openAiProblems, type ProviderRequest } from "./provider_check.ts";

const HEADERS = { "content-type": "application/json", "anthropic-version": "2023-06-01" };

function request(path: string, body: JsonObject, headers: Record<string, string> = {}): ProviderRequest {
  const all = { ...HEADERS, ...headers };
  return { method: "POST", path, headers: all, headerNames: Object.keys(all), body };
}

const MEMORY = { thinking: new Map([["sig1", "hm"]]), paused: false };
const RULES = { dialect: "openai", unknown: [], path: "/v1/chat/completions" } as const;

const text = (words: string) => ({ type: "text", text: words });
const messages = {
  model: "m",
  max_tokens: 10,
  messages: [
    { role: "user", content: [text("a")] },
    {
      role: "assistant",
      content: [
        { type: "thinking", thinking: "hm", signature: "sig1" },
        { type: "tool_use", id: "c1", name: "t", input: {} },
      ],
    },
    { role: "user", content: [{ type: "tool_result", tool_use_id: "c1" }, text("b")] },
  ],
  tools: [{ name: "t", input_schema: { type: "object" } }],
};
const anthropic = (body: JsonObject, headers = {}) => anthropicProblems(request("/v1/messages", body, headers), MEMORY);

Deno.test("a right request to the Messages API has no problem, each wrong one has its own", () => {
  assert.deepEqual(anthropic(messages), []);
  const [first, second, third] = messages.messages;
  const cases: readonly (readonly [JsonObject, RegExp, Record<string, string>?])[] = [
    [{ ...messages, tempo: 1 }, /body\.tempo: Extra inputs/],
    [{ ...messages, max_tokens: 0 }, /max_tokens/],
    [{ ...messages, messages: [] }, /at least one message/],
    [{ ...messages, messages: [second, third] }, /roles must alternate/],
    [{ ...messages, messages: [first, first] }, /roles must alternate/],
    [{ ...messages, messages: [first, second] }, /prefill/],
    [{ ...messages, messages: [first, second, first] }, /without `tool_result`/],
    [
      { ...messages, messages: [first, second, { role: "user", content: [...third!.content].reverse() }] },
      /come first/,
    ],
    [{ ...messages, messages: [{ role: "user", content: "a" }] }, /non-empty list/],
    [{ ...messages, messages: [{ role: "user", content: [text(" ")] }] }, /non-whitespace/],
    [{ ...messages, messages: [{ role: "user", content: [{ ...text("a"), id: "x" }] }] }, /Extra inputs/],
    [
      {
        ...messages,
        messages: [
          first,
          { role: "assistant", content: [{ type: "thinking", thinking: "other", signature: "sig1" }] },
          first,
        ],
      },
      /Invalid `signature`/,
    ],
    [{ ...messages, tools: [{ name: "t t", input_schema: { type: "object" } }] }, /should match/],
    [{ ...messages, tools: [{ name: "t", input_schema: {} }] }, /input_schema/],
    [{ ...messages, tools: [messages.tools[0], messages.tools[0]] }, /unique/],
    [messages, /anthropic-version/, { "anthropic-version": "" }],
    [messages, /must not leave/, { "x-murmur-task-origin": "user" }],
    [messages, /content-type/, { "content-type": "text/plain" }],
    [{ ...messages, temperature: 1 }, /removed/, { "anthropic-version": "2026-10-21" }],
  ];
  for (const [body, problem, headers] of cases) {
    assert.ok(anthropic(body, headers).some((found) => problem.test(found)), `${problem}`);
  }
});

const chat = {
  model: "m",
  max_completion_tokens: 10,
  messages: [
    { role: "system", content: "s" },
    { role: "user", content: "a" },
    {
      role: "assistant",
      content: null,
      tool_calls: [{ id: "c1", type: "function", function: { name: "t", arguments: "{}" } }],
    },
    { role: "tool", tool_call_id: "c1", content: "" },
  ],
  tools: [{ type: "function", function: { name: "t", parameters: { type: "object" } } }],
  stream: true,
  stream_options: { include_usage: true },
};
const openAi = (body: JsonObject) => openAiProblems(request(RULES.path, body), RULES);

Deno.test("a right request to the Chat Completions API has no problem, each wrong one has its own", () => {
  assert.deepEqual(openAi(chat), []);
  const [system, user, call, result] = chat.messages;
  const cases: readonly (readonly [JsonObject, RegExp])[] = [
    [{ ...chat, system: "x" }, /body\.system/],
    [{ ...chat, max_tokens: 10 }, /at the same time/],
    [{ ...chat, max_completion_tokens: undefined, max_tokens: 10 }, /Unsupported parameter: 'max_tokens'/],
    [{ ...chat, stream: false }, /stream_options/],
    [{ ...chat, messages: [user, system] }, /must come first/],
    [{ ...chat, messages: [user, call] }, /not answered/],
    [{ ...chat, messages: [user, call, user, result] }, /must be followed by tool messages/],
    [{ ...chat, messages: [user, result] }, /must be a response/],
    [{ ...chat, messages: [{ ...user, content: "" }] }, /empty/],
    [{ ...chat, messages: [user, { role: "assistant", content: null }, user] }, /null without tool_calls/],
    [{ ...chat, messages: [user, { ...call, reasoning_content: "x" }, result] }, /reasoning_content/],
    [
      {
        ...chat,
        messages: [
          user,
          { ...call, tool_calls: [{ ...call!.tool_calls![0], function: { name: "t", arguments: {} } }] },
          result,
        ],
      },
      /not a JSON object/,
    ],
    [{ ...chat, tools: [{ name: "t" }] }, /tools\.0/],
  ];
  for (const [body, problem] of cases) {
    assert.ok(openAi(body).some((found) => problem.test(found)), `${problem}`);
  }
});
