import assert from "node:assert/strict";
import { hookOutput } from "./exports.ts";
import {
  artifact,
  defineHook,
  deny,
  type Hook,
  hookContext,
  HookError,
  messageText,
  reopenTask,
  replaceContext,
  seedContext,
  textMessage,
  writeManifests,
} from "./hook.ts";
import { installTestHost, TestClock } from "./testing_host.ts";

const MESSAGE = { role: "user", content: "x", id: null, sourceId: null, insertedBy: null };

Deno.test("answers become the interface's cases, absent members null, half surrogates replaced", () => {
  assert.deepEqual(hookOutput(undefined), { tag: "none" });
  assert.deepEqual(hookOutput(null), { tag: "none" });
  assert.deepEqual(hookOutput(deny("\ud800")), { tag: "deny", val: "\ufffd" });
  assert.deepEqual(hookOutput(reopenTask("r")), { tag: "reopen-task", val: "r" });
  assert.deepEqual(hookOutput(artifact({ a: 1 })), { tag: "artifact", val: '{"a":1}' });
  assert.deepEqual(hookOutput(seedContext([{ role: "user", content: "x" }])), { tag: "seed-context", val: [MESSAGE] });
  assert.deepEqual(hookOutput(replaceContext([{ ...MESSAGE, sourceId: "s" }])), {
    tag: "replace-context",
    val: [{ ...MESSAGE, sourceId: "s" }],
  });
  assert.deepEqual(hookOutput(writeManifests([{ binaryName: "b", content: "c" }])), {
    tag: "write-manifests",
    val: [{ binaryName: "b", content: "c" }],
  });
});

Deno.test("what is no answer is an error, so that the component outlives it", () => {
  for (const value of ["deny", true, 1, {}, [], { tag: "allow" }, { tag: "seed-context", val: "x" }, { tag: "none" }]) {
    assert.throws(() => hookOutput(value), TypeError, JSON.stringify(value));
  }
});

Deno.test("texts of messages: blocks, folded tool answers, anything else as it is", () => {
  assert.equal(messageText(textMessage("user", "hello")), "hello");
  const tool = { __murmur_tool_msg__: true, tool_call_id: "c", is_error: false, body: [{ type: "text", text: "out" }] };
  assert.equal(messageText({ content: JSON.stringify(tool) }), "out");
  assert.equal(
    messageText({ content: '[{"type":"text","text":"a"},null,{"type":"tool_call"},{"type":"text","text":"b"}]' }),
    "a\nb",
  );
  for (const content of ["plain", "{}", "12", "null"]) assert.equal(messageText({ content }), content);
  assert.equal(messageText({ content: '"quoted"' }), "quoted");
});

Deno.test("a hook has at least one function", () => {
  assert.throws(() => defineHook({}), TypeError);
  assert.throws(() => defineHook({ run() {} } as unknown as Hook), TypeError);
  const hook: Hook = { onShell() {} };
  assert.equal(defineHook(hook), hook);
});

Deno.test("long texts are read in pieces, refusals carry their code", () => {
  const text = "ä€".repeat(400_000);
  const bytes = new TextEncoder().encode(text);
  let pieces = 0;
  installTestHost(
    new TestClock(),
    {
      hook: {
        taskIo: {
          inputLen: () => bytes.length,
          readInput(_form: string, offset: number, maxBytes: number) {
            pieces++;
            let end = Math.min(bytes.length, offset + maxBytes);
            while (end < bytes.length && (bytes[end]! & 0xc0) === 0x80) end--;
            return new TextDecoder().decode(bytes.subarray(offset, end));
          },
          outputLen() {
            throw Object.assign(new Error("no-output"), { payload: "no-output" });
          },
        },
      },
    } as unknown as Parameters<typeof installTestHost>[1],
  );
  assert.equal(hookContext.readTaskInput(), text);
  assert.ok(pieces > 1);
  assert.throws(
    () => hookContext.readTaskOutput(),
    (error) => error instanceof HookError && error.code === "no-output",
  );
});

Deno.test("a tool that imports the module is told that it is no hook", () => {
  installTestHost(new TestClock());
  assert.throws(() => hookContext.countTokens("x"), /only a hook/);
});
