import assert from "node:assert/strict";
import fc from "fast-check";
import { BROKEN_ANSWERS, WHOLE_ANSWERS } from "../tests/support/http_answers.ts";
import { HttpError } from "./http_error.ts";
import { parseResponseHead, ResponseReader } from "./http_response.ts";

const encoder = new TextEncoder();

/** What a reader makes of an answer that comes in pieces, the connection ending behind it. */
function read(pieces: readonly Uint8Array[], maxBytes: number): string {
  const reader = new ResponseReader("door:1");
  try {
    for (const piece of [...pieces, null]) {
      if (piece === null) reader.end();
      else reader.push(piece);
      const head = reader.head();
      const text = head === null ? null : reader.text(maxBytes);
      if (text !== null) return `${head!.status} ${text}`;
    }
  } catch (error) {
    if (error instanceof HttpError) return error.kind;
    throw error;
  }
  throw new Error("an answer is whole or broken once its connection has ended");
}

function cut(bytes: Uint8Array, places: readonly number[]): Uint8Array[] {
  const ends = [...places.map((place) => place % (bytes.length + 1)).sort((a, b) => a - b), bytes.length];
  return ends.map((end, index) => bytes.subarray(index === 0 ? 0 : ends[index - 1], end)).filter(({ length }) =>
    length > 0
  );
}

/** Bytes of an answer that are pushed one after another, and those of its body that were taken after each. */
function taken(pieces: readonly Uint8Array[]): string {
  const reader = new ResponseReader("door:1");
  let body = "";
  for (const piece of pieces) {
    reader.push(piece);
    for (let next = reader.take(); next !== null; next = reader.take()) body += new TextDecoder().decode(next);
  }
  return body;
}

Deno.test("an answer is the same wherever it is cut", () => {
  const answers = Object.values(WHOLE_ANSWERS);
  fc.assert(
    fc.property(fc.constantFrom(...answers), fc.array(fc.nat(400), { maxLength: 12 }), ({ bytes, text }, places) => {
      assert.equal(read(cut(encoder.encode(bytes), places), 100), `200 ${text}`);
    }),
    { numRuns: 2_000 },
  );
  for (const { bytes, text } of answers) {
    assert.equal(read([...encoder.encode(bytes)].map((byte) => Uint8Array.of(byte)), 100), `200 ${text}`);
  }
});

Deno.test("what is broken is broken wherever it is cut", () => {
  fc.assert(
    fc.property(
      fc.constantFrom(...BROKEN_ANSWERS),
      fc.array(fc.nat(80_000), { maxLength: 4 }),
      ({ bytes, kind }, places) =>
        assert.equal(read(cut(encoder.encode(bytes), places), 100), kind, bytes.slice(0, 60)),
    ),
    { numRuns: 500 },
  );
});

Deno.test("whatever comes, a reader reads it or refuses it, and no byte twice", () => {
  const piece = fc.oneof(
    fc.uint8Array({ maxLength: 20 }),
    fc.constantFrom(
      ...[
        "HTTP/1.1 200 OK\r\n",
        "content-length: 3\r\n",
        "transfer-encoding: chunked\r\n",
        "\r\n",
        "3\r\n",
        "abc",
        "0\r\n",
      ]
        .map((text) => encoder.encode(text)),
    ),
  );
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 30 }), (pieces) => {
      const size = pieces.reduce((sum, { length }) => sum + length, 0);
      try {
        assert.ok(taken(pieces).length <= size);
      } catch (error) {
        assert.ok(error instanceof HttpError, String(error));
      }
      read(pieces, 1 << 20);
    }),
    { numRuns: 2_000 },
  );
});

Deno.test("what came of a body is taken before its failure is told", () => {
  const reader = new ResponseReader("door:1");
  reader.push(encoder.encode("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\nno size\r\n"));
  assert.equal(reader.head()!.status, 200);
  assert.equal(new TextDecoder().decode(reader.take()!), "abc");
  assert.throws(() => reader.take(), { kind: "protocol", message: "door:1 sent a chunk without a size" });
});

Deno.test("bytes behind an answer are none of it", () => {
  assert.equal(
    read([encoder.encode("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nokmore"), encoder.encode("more")], 9),
    "200 ok",
  );
  for (const status of [204, 304]) {
    assert.equal(read([encoder.encode(`HTTP/1.1 ${status} x\r\ncontent-length: 2\r\n\r\nok`)], 9), `${status} `);
  }
});

Deno.test("a body that is announced too long is refused before it comes", () => {
  const reader = new ResponseReader("door:1");
  reader.push(encoder.encode("HTTP/1.1 200 OK\r\ncontent-length: 101\r\n\r\n"));
  assert.equal(reader.text(101), null);
  assert.throws(() => reader.text(100), { kind: "body-size" });
});

Deno.test("a head is read or refused, whatever it holds", () => {
  assert.deepEqual(parseResponseHead("HTTP/1.1 204 No Content\r\nA: 1\r\na:  2 \r\n\r\n"), {
    status: 204,
    headers: new Map([["a", "1, 2"]]),
  });
  fc.assert(fc.property(fc.string(), (text) => {
    const head = parseResponseHead(text);
    if (head !== null) assert.ok(head.status >= 100 && head.status < 600);
  }));
});
