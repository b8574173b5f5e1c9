import assert from "node:assert/strict";
import fc from "fast-check";
import type { Message } from "murmur/driver";
import { CONTINUE, LOST_RESULT, NO_TEXT, turnsOf } from "./conversation.ts";

const user = (...texts: string[]): Message => ({
  role: "user",
  content: texts.map((text) => ({ type: "text", text })),
});
const said = (text: string) => ({ type: "text", text }) as const;
const call = (id: string) => ({ type: "tool_call", id, name: "t", input: {} }) as const;
const assistant = (...content: ReturnType<typeof said | typeof call>[]): Message => ({ role: "assistant", content });
const result = (id: string, text: string, isError = false): Message => ({
  role: "tool",
  tool_call_id: id,
  is_error: isError,
  content: [said(text)],
});
const answer = (callId: string, text: string, isError = false) => ({ callId, isError, text });

Deno.test("a turn with tools: its results and what was said after them are one user turn, results in call order", () => {
  assert.deepEqual(
    turnsOf([user("go"), assistant(said("ok"), call("a"), call("b")), result("b", "2"), result("a", "1"), user("and")]),
    [
      { role: "user", answers: [], texts: ["go"] },
      { role: "assistant", blocks: [said("ok"), call("a"), call("b")] },
      { role: "user", answers: [answer("a", "1"), answer("b", "2")], texts: ["and"] },
    ],
  );
});

Deno.test("a call whose result is lost is answered as failed, a result without its call is told as text", () => {
  assert.deepEqual(turnsOf([result("x", "stray"), user("go"), assistant(call("a")), user("next")]), [
    { role: "user", answers: [], texts: ["stray", "go"] },
    { role: "assistant", blocks: [call("a")] },
    { role: "user", answers: [answer("a", LOST_RESULT, true)], texts: ["next"] },
  ]);
  assert.deepEqual(turnsOf([user("go"), assistant(call("a"))]).at(-1), {
    role: "user",
    answers: [answer("a", LOST_RESULT, true)],
    texts: [],
  });
});

Deno.test("blank texts and empty turns are left out, and the history begins and ends with the user", () => {
  assert.deepEqual(turnsOf([]), [{ role: "user", answers: [], texts: [NO_TEXT] }]);
  assert.deepEqual(turnsOf([user("", " \n")]), [{ role: "user", answers: [], texts: [NO_TEXT] }]);
  assert.deepEqual(turnsOf([user("a"), assistant(said(" ")), user("b")]), [
    { role: "user", answers: [], texts: ["a", "b"] },
  ]);
  assert.deepEqual(turnsOf([assistant(said("hello"))]), [
    { role: "user", answers: [], texts: [NO_TEXT] },
    { role: "assistant", blocks: [said("hello")] },
    { role: "user", answers: [], texts: [CONTINUE] },
  ]);
});

Deno.test("assistant messages in a row are one turn", () => {
  assert.deepEqual(turnsOf([user("a"), assistant(said("b")), assistant(call("c")), result("c", "d")]), [
    { role: "user", answers: [], texts: ["a"] },
    { role: "assistant", blocks: [said("b"), call("c")] },
    { role: "user", answers: [answer("c", "d")], texts: [] },
  ]);
});

Deno.test("whatever was cut out of a history, turns alternate and every call has one answer right after it", () => {
  const id = fc.constantFrom("a", "b", "c", "d");
  const text = fc.constantFrom("", " ", "x", "y");
  const message: fc.Arbitrary<Message> = fc.oneof(
    fc.array(text, { maxLength: 2 }).map((texts) => user(...texts)),
    fc.uniqueArray(fc.oneof(text.map(said), id.map(call)), {
      maxLength: 3,
      selector: (block) => block.type === "tool_call" ? block.id : Math.random(),
    }).map((blocks) => assistant(...blocks)),
    fc.tuple(id, text, fc.boolean()).map(([callId, words, isError]) => result(callId, words, isError)),
  );
  fc.assert(fc.property(fc.array(message, { maxLength: 14 }), (messages) => {
    const turns = turnsOf(messages);
    for (const [index, turn] of turns.entries()) {
      assert.equal(turn.role, index % 2 === 0 ? "user" : "assistant");
      if (turn.role === "assistant") {
        assert.ok(turn.blocks.length > 0);
        const next = turns[index + 1];
        assert.ok(next?.role === "user");
        const calls = turn.blocks.flatMap((block) => block.type === "tool_call" ? [block.id] : []);
        assert.deepEqual(next.answers.map((one) => one.callId), calls);
      } else {
        assert.ok(turn.answers.length + turn.texts.length > 0);
        assert.ok(turn.texts.every((words) => words.trim() !== ""));
        if (index === 0) assert.equal(turn.answers.length, 0);
      }
    }
    assert.equal(turns.at(-1)!.role, "user");
  }));
});
