import assert from "node:assert/strict";
import fc from "fast-check";
import { serverSentEvents } from "./sse.ts";

async function* pieces(bytes: Uint8Array, cuts: readonly number[]): AsyncGenerator<Uint8Array> {
  const sorted = [...new Set(cuts.map((cut) => cut % (bytes.length + 1)))].sort((a, b) => a - b);
  let from = 0;
  for (const cut of [...sorted, bytes.length]) {
    yield bytes.subarray(from, cut);
    from = cut;
  }
}

async function eventsOf(text: string, cuts: readonly number[] = []): Promise<[string, string, string | undefined][]> {
  const source = pieces(new TextEncoder().encode(text), cuts);
  return (await Array.fromAsync(serverSentEvents(source))).map(({ event, data, id }) => [event, data, id]);
}

const STREAM = "\ufeff: comment\n\nevent: greeting\ndata: grüße 😀\n\nid: 7\ndata:one\ndata: two\r\ndata\r\n\r\n" +
  "event: nothing\n\nretry: 10\ndata: [DONE]\r\rdata: unfinished";

Deno.test("events as the format says", async () => {
  assert.deepEqual(await eventsOf(STREAM), [
    ["greeting", "grüße 😀", undefined],
    ["message", "one\ntwo\n", "7"],
    ["message", "[DONE]", undefined],
  ]);
});

Deno.test("however the bytes are cut, the events are the same", async () => {
  const expected = await eventsOf(STREAM);
  await fc.assert(fc.asyncProperty(fc.array(fc.nat({ max: 300 }), { maxLength: 12 }), async (cuts) => {
    assert.deepEqual(await eventsOf(STREAM, cuts), expected);
  }));
});

Deno.test("leaving the loop ends the source; no body has no events", async () => {
  let ended = false;
  async function* endless() {
    try {
      for (;;) yield new TextEncoder().encode("data: x\n\n");
    } finally {
      ended = true;
    }
  }
  for await (const event of serverSentEvents(endless())) {
    assert.equal(event.data, "x");
    break;
  }
  assert.ok(ended);
  assert.deepEqual(await Array.fromAsync(serverSentEvents({ body: null })), []);
});
