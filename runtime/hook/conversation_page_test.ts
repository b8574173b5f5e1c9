import assert from "node:assert/strict";
import fc from "fast-check";
import { type Message, userMessage } from "../agent/message.ts";
import { messagePage } from "./conversation_page.ts";

const record = (count: number): Message[] => Array.from({ length: count }, (_, i) => userMessage(`m${i}`));
const textsOf = (messages: readonly { readonly content: string }[]) =>
  messages.map(({ content }) => (JSON.parse(content) as { text: string }[])[0]!.text);

Deno.test("newest first, the last page has no cursor, an empty record is an empty page", () => {
  const five = record(5);
  const first = messagePage(five, null, 2)!;
  assert.deepEqual([textsOf(first.messages), first.nextCursor, first.total], [["m4", "m3"], "3", 5]);
  const second = messagePage(five, first.nextCursor, 3)!;
  assert.deepEqual([textsOf(second.messages), second.nextCursor], [["m2", "m1", "m0"], null]);
  assert.deepEqual(messagePage([], null, 5), { messages: [], nextCursor: null, total: 0 });
});

Deno.test("a cursor stays good while the record grows", () => {
  const messages = record(4);
  const { nextCursor } = messagePage(messages, null, 2)!;
  assert.deepEqual(textsOf(messagePage([...messages, ...record(3)], nextCursor, 9)!.messages), ["m1", "m0"]);
});

Deno.test("limits are clamped, cursors nobody gave are refused", () => {
  assert.equal(messagePage(record(200), null, 0)!.messages.length, 1);
  assert.equal(messagePage(record(200), null, 4_000_000_000)!.messages.length, 100);
  for (const cursor of ["", "0", "-1", "6", "1e1", " 2", "x", "99999999999999999999"]) {
    assert.equal(messagePage(record(5), cursor, 1), null, cursor);
  }
});

Deno.test("all pages together are the record", () => {
  fc.assert(fc.property(fc.integer({ min: 0, max: 40 }), fc.integer({ min: 1, max: 10 }), (count, limit) => {
    const messages = record(count);
    const read: string[] = [];
    for (let cursor: string | null = null;;) {
      const page: ReturnType<typeof messagePage> = messagePage(messages, cursor, limit);
      read.push(...textsOf(page!.messages));
      cursor = page!.nextCursor;
      if (cursor === null) break;
    }
    assert.deepEqual(read, textsOf(messagePage(messages, null, 100)!.messages));
  }));
});
