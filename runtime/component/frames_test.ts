import assert from "node:assert/strict";
import fc from "fast-check";
import {
  encodeMessage,
  encodeMessageParts,
  FrameError,
  MAX_FRAME_BYTES,
  type Message,
  MessageDecoder,
  MessageType,
} from "./frames.ts";

const MAX = 8 << 20;

function decodeAll(bytes: Uint8Array, cuts: readonly number[] = [], max = MAX): Message[] {
  const decoder = new MessageDecoder(max);
  const messages: Message[] = [];
  const points = [...new Set(cuts.map((cut) => cut % (bytes.length + 1)))].sort((a, b) => a - b);
  let from = 0;
  for (const to of [...points, bytes.length]) {
    decoder.push(bytes.subarray(from, to));
    from = to;
    for (let message = decoder.next(); message !== null; message = decoder.next()) messages.push(message);
  }
  assert.equal(decoder.pending, false);
  return messages;
}

function raw(type: number, id: number, payload: Uint8Array, length = 5 + payload.length): Uint8Array {
  const bytes = new Uint8Array(9 + payload.length);
  const view = new DataView(bytes.buffer);
  view.setUint32(0, length, true);
  view.setUint8(4, type);
  view.setUint32(5, id, true);
  bytes.set(payload, 9);
  return bytes;
}

function payload(headerLength: number, rest: Uint8Array): Uint8Array {
  const bytes = new Uint8Array(4 + rest.length);
  new DataView(bytes.buffer).setUint32(0, headerLength, true);
  bytes.set(rest, 4);
  return bytes;
}

Deno.test("messages come back as they were, however the bytes are cut", () => {
  fc.assert(fc.property(
    fc.array(
      fc.record({
        type: fc.constantFrom(...Object.values(MessageType)),
        id: fc.nat(0xffffffff),
        header: fc.dictionary(fc.string(), fc.jsonValue()),
        body: fc.uint8Array({ maxLength: 300 }),
      }),
      { maxLength: 6 },
    ),
    fc.array(fc.nat(5000), { maxLength: 12 }),
    (messages, cuts) => {
      const parts = messages.map((m) => encodeMessage(m.type, m.id, m.header, m.body));
      const bytes = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
      let at = 0;
      for (const part of parts) {
        bytes.set(part, at);
        at += part.length;
      }
      const decoded = decodeAll(bytes, cuts);
      assert.equal(decoded.length, messages.length);
      for (const [index, message] of messages.entries()) {
        const got = decoded[index]!;
        assert.equal(got.type, message.type);
        assert.equal(got.id, message.id);
        assert.equal(JSON.stringify(got.header), JSON.stringify(message.header));
        assert.deepEqual([...got.body], [...message.body]);
      }
    },
  ));
});

Deno.test("a long message is cut into frames of at most 1 MiB and put together again", () => {
  const body = new Uint8Array(3 * MAX_FRAME_BYTES + 17);
  for (let i = 0; i < body.length; i++) body[i] = i * 31;
  const bytes = encodeMessage(MessageType.result, 7, { a: "b" }, body);
  let frames = 0;
  for (let at = 0; at < bytes.length; frames++) {
    const length = new DataView(bytes.buffer, at).getUint32(0, true);
    assert.ok(length <= MAX_FRAME_BYTES);
    at += 4 + length;
  }
  assert.equal(frames, 4);
  const [message, ...more] = decodeAll(bytes, [5, 1_000_000, 2_000_003]);
  assert.equal(more.length, 0);
  assert.deepEqual(message!.header, { a: "b" });
  assert.ok(message!.body.length === body.length && message!.body.every((byte, i) => byte === body[i]));
});

Deno.test("the parts of a message are its frames, and its body is not copied", () => {
  const room = MAX_FRAME_BYTES - 5;
  const size = fc.oneof(fc.integer({ min: 0, max: 300 }), fc.integer({ min: room - 40, max: room + 40 }));
  fc.assert(
    fc.property(fc.array(size, { maxLength: 4 }), (sizes) => {
      const pieces = sizes.map((length, index) => new Uint8Array(length).fill(index + 1));
      const body = new Uint8Array(sizes.reduce((sum, length) => sum + length, 0));
      let at = 0;
      for (const piece of pieces) {
        body.set(piece, at);
        at += piece.length;
      }
      const parts = encodeMessageParts(MessageType.module, 9, { key: "k" }, pieces);
      const whole = encodeMessage(MessageType.module, 9, { key: "k" }, body);
      let length = 0;
      for (const part of parts) {
        assert.deepEqual(whole.subarray(length, length + part.length), part);
        length += part.length;
      }
      assert.equal(length, whole.length);
      const [message] = decodeAll(whole);
      assert.deepEqual(message!.body, body);
      for (const piece of pieces) {
        if (piece.length > 0) assert.ok(parts.some((part) => part.buffer === piece.buffer));
      }
    }),
    { numRuns: 60 },
  );
});

Deno.test("a message that exactly fills frames has no empty part", () => {
  for (const extra of [-1, 0, 1]) {
    const body = new Uint8Array(MAX_FRAME_BYTES - 5 - 4 + extra);
    assert.equal(decodeAll(encodeMessage(MessageType.module, 1, undefined, body))[0]!.body.length, body.length);
  }
});

Deno.test("malformed frames are refused", () => {
  const text = (value: string) => new TextEncoder().encode(value);
  const cases: Record<string, Uint8Array> = {
    "too short": raw(64, 0, new Uint8Array(0), 4),
    "too long": raw(64, 0, new Uint8Array(0), MAX_FRAME_BYTES + 1),
    "length at its largest": raw(64, 0, new Uint8Array(0), 0xffffffff),
    "no header length": raw(64, 0, new Uint8Array(3)),
    "header longer than message": raw(64, 0, payload(5, text("{}"))),
    "header no JSON": raw(64, 0, payload(2, text("{x"))),
    "header a list": raw(64, 0, payload(2, text("[]"))),
    "header null": raw(64, 0, payload(4, text("null"))),
    "header no UTF-8": raw(64, 0, payload(4, new Uint8Array([0x22, 0xc3, 0x28, 0x22]))),
    "empty part": raw(64 | 0x80, 0, new Uint8Array(0)),
  };
  for (const [name, bytes] of Object.entries(cases)) {
    const decoder = new MessageDecoder(MAX);
    decoder.push(bytes);
    assert.throws(() => decoder.next(), FrameError, name);
  }
});

Deno.test("the parts of a message may not be interrupted and have a bound together", () => {
  const part = raw(67 | 0x80, 3, new Uint8Array(10));
  for (const other of [raw(67, 4, new Uint8Array(10)), raw(68, 3, new Uint8Array(10))]) {
    const decoder = new MessageDecoder(MAX);
    decoder.push(part);
    assert.equal(decoder.next(), null);
    decoder.push(other);
    assert.throws(() => decoder.next(), FrameError);
  }
  const bounded = new MessageDecoder(1000);
  assert.throws(() => {
    for (let i = 0; i < 101; i++) {
      bounded.push(part);
      bounded.next();
    }
  }, FrameError);
});

Deno.test("arbitrary bytes give messages or a FrameError, nothing else", () => {
  fc.assert(
    fc.property(
      fc.array(
        fc.oneof(
          fc.uint8Array({ maxLength: 40 }),
          fc.tuple(fc.nat(255), fc.nat(3), fc.uint8Array({ maxLength: 20 })).map(([t, id, p]) => raw(t, id, p)),
          fc.tuple(fc.nat(255), fc.nat(3), fc.nat(30), fc.string({ maxLength: 20 }))
            .map(([t, id, n, s]) => raw(t, id, payload(n, new TextEncoder().encode(s)))),
        ),
        { maxLength: 10 },
      ),
      (chunks) => {
        const decoder = new MessageDecoder(64);
        try {
          for (const chunk of chunks) {
            decoder.push(chunk);
            for (let message = decoder.next(); message !== null; message = decoder.next()) {
              assert.ok(message.type < 0x80);
              assert.equal(typeof message.header, "object");
              assert.ok(message.body.length <= 64);
            }
          }
        } catch (error) {
          assert.ok(error instanceof FrameError, String(error));
        }
      },
    ),
    { numRuns: 2000 },
  );
});
