import assert from "node:assert/strict";
import fc from "fast-check";
import { assistantMessage, type Message, toolCallsOf, toolMessage, userMessage } from "./message.ts";
import { mendToolPairs } from "./tool_pairs.ts";

const call = (...ids: string[]) => assistantMessage(ids.map((id) => ({ type: "tool_call", id, name: "t", input: {} })));
const answer = (callId: string) => toolMessage({ callId, isError: false, text: "out" });

function shape(messages: readonly Message[]): string[] {
  return messages.map((message) =>
    message.role === "tool"
      ? `${message.is_error ? "lost" : "answer"} ${message.tool_call_id}`
      : [message.role, ...toolCallsOf(message.content).map(({ id }) => id)].join(" ")
  );
}

Deno.test("a whole history stays as it is", () => {
  const history = [userMessage("a"), call("c0", "c1"), answer("c0"), answer("c1"), call("c0"), answer("c0"), call()];
  assert.deepEqual(mendToolPairs(history), history);
});

Deno.test("answers whose call was dropped are left out", () => {
  assert.deepEqual(shape(mendToolPairs([answer("c0"), answer("c1"), userMessage("a")])), ["user"]);
});

Deno.test("a call without an answer gets one that says so, in its place", () => {
  assert.deepEqual(
    shape(mendToolPairs([call("c0", "c1"), answer("c1"), userMessage("next"), call("c0")])),
    ["assistant c0 c1", "answer c1", "lost c0", "user", "assistant c0", "lost c0"],
  );
});

Deno.test("whatever is cut away, every call is answered right after it, and mending twice changes nothing", () => {
  const message = fc.oneof(
    fc.constantFrom("a", "b", "c").map(answer),
    fc.array(fc.constantFrom("a", "b", "c"), { maxLength: 3 }).map((ids) => call(...new Set(ids))),
    fc.constant(userMessage("u")),
  );
  fc.assert(fc.property(fc.array(message, { maxLength: 12 }), (history) => {
    const mended = mendToolPairs(history);
    let open: string[] = [];
    for (const one of mended) {
      if (one.role === "tool") {
        assert.ok(open.includes(one.tool_call_id));
        open = open.filter((id) => id !== one.tool_call_id);
      } else {
        assert.deepEqual(open, []);
        open = one.role === "assistant" ? toolCallsOf(one.content).map(({ id }) => id!) : [];
      }
    }
    assert.deepEqual(open, []);
    assert.deepEqual(mendToolPairs(mended), mended);
    // Nothing but tool messages is left out.
    assert.deepEqual(mended.filter(({ role }) => role !== "tool"), history.filter(({ role }) => role !== "tool"));
  }));
});
