import assert from "node:assert/strict";
import { readScripts, ScriptError } from "./script.ts";

Deno.test("a script is read with its defaults", () => {
  const [script] = readScripts({
    turns: [{ text: "a", tool_calls: [{ name: "bash" }], usage: { input_tokens: 1 } }, { error: "no", delay_ms: 5 }],
  });
  assert.deepEqual(script?.turns[0], {
    text: "a",
    thinking: [],
    chunks: null,
    toolCalls: [{ name: "bash", input: {}, id: null }],
    usage: { input_tokens: 1 },
    stopReason: null,
    error: null,
    delayMs: 0,
    chunkDelayMs: 0,
    continuationId: null,
  });
  assert.equal(script?.turns[1]?.error, "no");
  assert.deepEqual(readScripts({ scripts: [{ when: "x", turns: [{}] }, { turns: [{}] }] }).map(({ when }) => when), [
    "x",
    null,
  ]);
});

Deno.test("what is wrong is named", () => {
  const cases: [unknown, RegExp][] = [
    [null, /either turns or scripts/],
    [{ turns: [], scripts: [] }, /either turns or scripts/],
    [{ turns: [] }, /config\.turns is empty/],
    [{ turns: "x" }, /config\.turns must be a list/],
    [{ turn: [] }, /config\.turn is not known; there are turns, scripts/],
    [{ turns: [{ text: 5 }] }, /config\.turns\[0\]\.text must be text/],
    [{ turns: [{ tool_calls: [{}] }] }, /config\.turns\[0\]\.tool_calls\[0\]\.name must be text/],
    [{ turns: [{ usage: { tokens: 1 } }] }, /usage\.tokens is not known/],
    [{ turns: [{ delay_ms: -1 }] }, /delay_ms must be a number of at least 0/],
    [{ turns: [{ stop_reason: "done" }] }, /stop_reason must be one of end_turn, tool_call, max_tokens, error/],
    [{ scripts: [{ when: 1, turns: [{}] }] }, /config\.scripts\[0\]\.when must be text/],
  ];
  for (const [config, message] of cases) {
    assert.throws(
      () => readScripts(config),
      (error: Error) => error instanceof ScriptError && message.test(error.message),
    );
  }
});
