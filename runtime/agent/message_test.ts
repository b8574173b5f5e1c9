import assert from "node:assert/strict";
import fc from "fast-check";
import { isId } from "../../base/ids.ts";
import {
  assistantMessage,
  type Message,
  parseMessage,
  recordJson,
  textOf,
  toolCallsOf,
  toolMessage,
  userMessage,
  wireJson,
} from "./message.ts";

Deno.test("shapes of the three roles, on the wire and in the record", () => {
  const user = userMessage("hi", { id: "msg_1", fence: "task:event" });
  assert.equal(wireJson(user), '{"role":"user","content":[{"type":"text","text":"hi"}]}');
  assert.equal(
    recordJson(user),
    '{"role":"user","content":[{"type":"text","text":"hi"}],"id":"msg_1","fence":"task:event"}',
  );
  const assistant = assistantMessage([{ type: "thinking", signature: "s", z: 1, a: 2 }], {
    id: "msg_2",
    sourceId: "src",
    insertedBy: "replace-context",
  });
  assert.equal(
    wireJson(assistant),
    '{"role":"assistant","content":[{"type":"thinking","signature":"s","z":1,"a":2}]}',
  );
  assert.equal(
    recordJson(assistant),
    '{"role":"assistant","content":[{"type":"thinking","signature":"s","z":1,"a":2}],"id":"msg_2","source_id":"src","inserted_by":"replace-context"}',
  );
  const tool = toolMessage({ callId: "c1", isError: false, text: "out" }, { id: "msg_3", fence: "tool:fetch" });
  assert.equal(
    wireJson(tool),
    '{"role":"tool","tool_call_id":"c1","is_error":false,"content":[{"type":"text","text":"out"}]}',
  );
  assert.equal(
    recordJson(tool),
    '{"role":"tool","tool_call_id":"c1","is_error":false,"content":[{"type":"text","text":"out"}],"id":"msg_3","fence":"tool:fetch"}',
  );
});

Deno.test("a message gets a fresh id", () => {
  const [a, b] = [userMessage("x"), userMessage("x")];
  assert.ok(isId("msg", a.id));
  assert.notEqual(a.id, b.id);
});

const blocks = fc.array(
  fc.oneof(
    fc.record({ type: fc.constant("text"), text: fc.string({ unit: "binary" }) }),
    fc.record({ type: fc.constant("tool_call"), id: fc.string(), name: fc.string(), input: fc.constant({ a: [1] }) }),
    fc.record({ type: fc.string(), data: fc.string() }),
  ),
);
const options = fc.record({
  id: fc.string({ minLength: 1 }),
  sourceId: fc.string(),
  insertedBy: fc.constantFrom("seed-context" as const, "replace-context" as const),
  fence: fc.string(),
}, { requiredKeys: ["id"] });
const messages: fc.Arbitrary<Message> = fc.oneof(
  fc.tuple(blocks, options).map(([content, o]) => assistantMessage(content, o)),
  fc.tuple(blocks, options).map(([content, o]) => ({ ...assistantMessage(content, o), role: "user" as const })),
  fc.tuple(fc.string(), fc.boolean(), fc.string({ unit: "binary" }), options)
    .map(([callId, isError, text, o]) => toolMessage({ callId, isError, text }, o)),
);

Deno.test("a recorded message reads back as it was; envelope keys never reach the wire", () => {
  fc.assert(fc.property(messages, (message) => {
    assert.deepEqual(parseMessage(JSON.parse(recordJson(message)), "other"), JSON.parse(recordJson(message)));
    const wire = JSON.parse(wireJson(message));
    for (const key of ["id", "source_id", "inserted_by", "fence"]) assert.ok(!Object.hasOwn(wire, key));
    assert.deepEqual(wire.content, JSON.parse(recordJson(message)).content);
  }));
});

Deno.test("what is no message is none", () => {
  const bad: unknown[] = [
    null,
    7,
    "text",
    [],
    {},
    { role: 1, content: [] },
    { role: "system", content: [] },
    { role: "user", content: [1] },
    { role: "user", content: {} },
    { role: "tool", content: [] },
    { type: "murmur.record", capsule: "c" },
  ];
  for (const value of bad) assert.equal(parseMessage(value, "x"), null, JSON.stringify(value));
});

Deno.test("older lines: a bare string as content, no content, no id", () => {
  assert.deepEqual(parseMessage({ role: "user", content: "hi" }, "msg_x"), userMessage("hi", { id: "msg_x" }));
  assert.deepEqual(parseMessage({ role: "assistant" }, "msg_x"), assistantMessage([], { id: "msg_x" }));
  assert.equal(parseMessage({ role: "user", content: [], id: "" }, "msg_x")?.id, "msg_x");
  assert.deepEqual(
    parseMessage({ role: "user", content: [], id: "i", unknown: 1, inserted_by: "someone" }, "x"),
    { role: "user", content: [], id: "i" },
  );
});

Deno.test("the final text is all text blocks joined with a newline", () => {
  assert.equal(
    textOf([{ type: "text", text: "a" }, { type: "thinking", text: "no" }, { type: "text", text: "b" }, {
      type: "text",
    }]),
    "a\nb",
  );
  assert.equal(textOf([]), "");
});

Deno.test("tool calls in block order; an absent input is empty, one that is no object says so", () => {
  const calls = toolCallsOf([
    { type: "text", text: "x" },
    { type: "tool_call", id: "c1", name: "a", input: { k: 1 } },
    { type: "tool_call", name: "b" },
    { type: "tool_call", id: 7, name: "c", input: null },
    { type: "tool_call", id: "c4", name: "d", input: "[]" },
    { type: "tool_call", id: "c5", name: "e", input: [1] },
  ]);
  assert.deepEqual(calls.map(({ id, name, input }) => [id, name, input]), [
    ["c1", "a", { k: 1 }],
    [null, "b", {}],
    [null, "c", {}],
    ["c4", "d", {}],
    ["c5", "e", {}],
  ]);
  assert.deepEqual(calls.map(({ inputProblem }) => inputProblem !== null), [false, false, false, true, true]);
});
