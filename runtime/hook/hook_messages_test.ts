import assert from "node:assert/strict";
import fc from "fast-check";
import { assistantMessage, type Message, toolMessage, userMessage } from "../agent/message.ts";
import type { HookMessage } from "./hook_event.ts";
import { replacedHistory, seedMessages, summaryText, toHookMessage, toRecordedMessage } from "./hook_messages.ts";

const CALL = { type: "tool_call", id: "c1", name: "t", input: {} };
const HISTORY: readonly Message[] = [
  userMessage("do it", { fence: "task:a2a" }),
  assistantMessage([{ type: "text", text: "looking" }, CALL]),
  toolMessage({ callId: "c1", isError: true, text: "no" }),
  assistantMessage([{ type: "text", text: "done" }], { sourceId: "s", insertedBy: "seed-context" }),
];

function made(role: string, content: string, more: Partial<HookMessage> = {}): HookMessage {
  return { role, content, id: null, sourceId: null, insertedBy: null, ...more };
}

Deno.test("what is handed over and comes back verbatim is the very same history", () =>
  assert.deepEqual(replacedHistory(HISTORY.map(toHookMessage), HISTORY), HISTORY));

Deno.test("a tool message is folded into one object, in the record it is its blocks", () => {
  assert.deepEqual(JSON.parse(toHookMessage(HISTORY[2]!).content), {
    __murmur_tool_msg__: true,
    tool_call_id: "c1",
    is_error: true,
    body: [{ type: "text", text: "no" }],
  });
  assert.deepEqual(JSON.parse(toRecordedMessage(HISTORY[2]!).content), [{ type: "text", text: "no" }]);
});

Deno.test("a changed message gets a fresh id and the runtime's mark, whatever the hook claims", () => {
  const [first, second] = replacedHistory([
    made("user", "summary", { id: HISTORY[0]!.id, insertedBy: "seed-context", sourceId: "mine" }),
    made("assistant", '"as text"'),
  ], HISTORY)!;
  assert.notEqual(first!.id, HISTORY[0]!.id);
  assert.deepEqual(
    [first!.inserted_by, first!.source_id, first!.content],
    ["replace-context", "mine", [{ type: "text", text: "summary" }]],
  );
  assert.deepEqual(second!.content, [{ type: "text", text: "as text" }]);
});

Deno.test("content that is neither blocks nor text becomes its text; another role is a user's", () => {
  for (const content of ["{}", "[1]", "12", "null", '[{"type":"text"},2]', "{broken"]) {
    const [message] = replacedHistory([made("system", content)], HISTORY)!;
    assert.deepEqual([message!.role, message!.content], ["user", [{ type: "text", text: content }]]);
  }
});

Deno.test("calls and answers that do not match throw the whole replacement away", () => {
  const [user, asks, answer] = HISTORY.map(toHookMessage) as [HookMessage, HookMessage, HookMessage];
  assert.equal(replacedHistory([user, asks], HISTORY), null);
  assert.equal(replacedHistory([user, answer], HISTORY), null);
  assert.equal(replacedHistory([user, asks, { ...answer, content: "cut" }], HISTORY), null);
  assert.equal(
    replacedHistory([user, asks, { ...answer, content: answer.content.replace('"c1"', '""') }], HISTORY),
    null,
  );
  assert.notEqual(replacedHistory([user, asks, answer], HISTORY), null);
});

Deno.test("a message that comes back twice is two messages", () => {
  const user = toHookMessage(HISTORY[0]!);
  const ids = replacedHistory([user, user], HISTORY)!.map(({ id }) => id);
  assert.equal(ids[0], HISTORY[0]!.id);
  assert.equal(new Set(ids).size, 2);
});

Deno.test("no replacement has two messages of one id, a mark of the hook's own or a lone call", () => {
  const content = fc.oneof(fc.string(), fc.json(), fc.constantFrom(...HISTORY.map((m) => toHookMessage(m).content)));
  const proposed = fc.array(fc.record({
    role: fc.constantFrom("user", "assistant", "tool", "system"),
    content,
    id: fc.constantFrom(null, ...HISTORY.map(({ id }) => id)),
    sourceId: fc.option(fc.string()),
    insertedBy: fc.constantFrom(null, "seed-context" as const),
  }));
  fc.assert(fc.property(proposed, (messages) => {
    const replaced = replacedHistory(messages, HISTORY);
    if (replaced === null) return;
    assert.equal(new Set(replaced.map(({ id }) => id)).size, replaced.length);
    for (const message of replaced) {
      assert.ok(HISTORY.includes(message) || message.inserted_by === "replace-context");
    }
  }));
});

Deno.test("a seed holds neither calls nor answers", () => {
  const seed = seedMessages([
    made("user", "before"),
    made("assistant", JSON.stringify([{ type: "text", text: "t" }, CALL])),
    made("assistant", JSON.stringify([CALL])),
    toHookMessage(HISTORY[2]!),
  ]);
  assert.deepEqual(seed.map(({ role, content, inserted_by }) => [role, content, inserted_by]), [
    ["user", [{ type: "text", text: "before" }], "seed-context"],
    ["assistant", [{ type: "text", text: "t" }], "seed-context"],
  ]);
});

Deno.test("a summary is the text without tool answers", () =>
  assert.equal(summaryText(HISTORY), "do it\nlooking\ndone"));
