import assert from "node:assert/strict";
import { formatEvent, openEventStream } from "./event_stream.ts";

const pause = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

/** A source whose events a test hands out. */
function source() {
  const waiting: ((event: string | null) => void)[] = [];
  const ready: (string | null)[] = [];
  let asked = 0;
  let closed = false;
  const give = (event: string | null) => {
    const next = waiting.shift();
    if (next === undefined) ready.push(event);
    else next(event);
  };
  async function* events() {
    for (;;) {
      asked++;
      const event = ready.length > 0
        ? ready.shift()!
        : await new Promise<string | null>((resolve) => waiting.push(resolve));
      if (event === null) return;
      yield event;
    }
  }
  return {
    give,
    get asked() {
      return asked;
    },
    get closed() {
      return closed;
    },
    source: {
      events: events(),
      close: () => {
        closed = true;
        give(null);
      },
    },
  };
}

Deno.test("an event has its number only when it has one, its name and one line of data", () => {
  assert.equal(formatEvent(12, "status", "{}"), "id: 12\nevent: status\ndata: {}\n\n");
  assert.equal(formatEvent(null, "gap", "{}"), "event: gap\ndata: {}\n\n");
});

Deno.test("events are asked for no faster than they are read", async () => {
  const own = source();
  const { body } = openEventStream(own.source, 60_000, () => {});
  for (let i = 0; i < 50; i++) own.give(`${i};`);
  await pause(10);
  assert.equal(own.asked, 1);
  const reader = body.getReader();
  const decoder = new TextDecoder();
  for (let i = 0; i < 50; i++) assert.equal(decoder.decode((await reader.read()).value), `${i};`);
  own.give(null);
  assert.ok((await reader.read()).done);
  await pause(1);
  assert.ok(own.closed);
});

Deno.test("a comment is sent at every beat to a reader that waits, and none to one that does not read", async () => {
  let ended = 0;
  const waiting = source();
  const reader = openEventStream(waiting.source, 20, () => ended++).body.getReader();
  for (let beat = 0; beat < 3; beat++) {
    assert.equal(new TextDecoder().decode((await reader.read()).value), ":heartbeat\n\n");
  }
  await reader.cancel();
  assert.ok(waiting.closed);
  assert.equal(ended, 1);

  const stalled = source();
  const stream = openEventStream(stalled.source, 5, () => ended++);
  await pause(60);
  const late = stream.body.getReader();
  await late.read();
  // Only what was there already would win.
  assert.equal(await Promise.race([late.read(), Promise.resolve(undefined)]), undefined);
  stream.cut();
  assert.equal(ended, 2);
});

Deno.test("a reader that leaves ends the source, also while it waits", async () => {
  const own = source();
  let ended = 0;
  const { body } = openEventStream(own.source, 60_000, () => ended++);
  const reader = body.getReader();
  const read = reader.read();
  await pause(5);
  await reader.cancel();
  assert.deepEqual(await read, { value: undefined, done: true });
  assert.ok(own.closed);
  assert.equal(ended, 1);
});

Deno.test("a stream that is cut off fails for its reader, once", async () => {
  const own = source();
  let ended = 0;
  const stream = openEventStream(own.source, 60_000, () => ended++);
  own.give("a");
  own.give("b");
  await pause(5);
  stream.cut();
  stream.cut();
  await assert.rejects(async () => {
    for await (const _ of stream.body);
  }, { name: "AbortError" });
  assert.ok(own.closed);
  assert.equal(ended, 1);
});
