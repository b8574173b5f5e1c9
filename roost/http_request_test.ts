import assert from "node:assert/strict";
import fc from "fast-check";
import { ChunkReader, headEnd, MAX_BODY, parseRequestHead } from "./http_request.ts";

function head(...lines: string[]) {
  return parseRequestHead(`${lines.join("\r\n")}\r\n\r\n`);
}

function status(...lines: string[]): number | null {
  const read = head(...lines);
  return "status" in read ? read.status : null;
}

const GET = "GET /health HTTP/1.1";

Deno.test("a head is read as it was sent", () => {
  const read = head("POST /spawn?x=%2e HTTP/1.1", "Host: localhost:1", "X-A:\t b c \t", "x-a:d", "Content-Length: 5");
  assert.ok(!("status" in read));
  assert.equal(read.method, "POST");
  assert.equal(read.target, "/spawn?x=%2e");
  assert.equal(read.body, 5);
  assert.ok(read.keepAlive);
  assert.deepEqual(Object.fromEntries(read.fields), { host: "localhost:1", "x-a": "b c, d", "content-length": "5" });
});

Deno.test("a connection is kept unless somebody says otherwise", () => {
  const kept = (...lines: string[]) => (head(...lines) as { keepAlive: boolean }).keepAlive;
  assert.ok(kept(GET));
  assert.ok(kept(GET, "connection: keep-alive"));
  for (const value of ["close", "Close", "keep-alive, close", "close,x"]) assert.ok(!kept(GET, `connection: ${value}`));
  assert.ok(!kept("GET / HTTP/1.0"));
});

Deno.test("what could be read in two ways is refused", () => {
  for (
    const lines of [
      ["GET  / HTTP/1.1"],
      ["GET / HTTP/1.1 "],
      ["GET /a b HTTP/1.1"],
      ["GET /"],
      ["GET / HTTP/1.2"],
      ["GET /\u00e9 HTTP/1.1"],
      ["G T / HTTP/1.1"],
      [GET, "no colon"],
      [GET, "a b: c"],
      [GET, "a : b"],
      [GET, ": b"],
      [GET, "a: b", " folded"],
      [GET, "a: b\rc: d"],
      [GET, "a: b\nc: d"],
      [GET, "a: b\0"],
      [GET, "a\u00e9: b"],
      [GET, "content-length: 1", "content-length: 1"],
      [GET, "content-length: +1"],
      [GET, "content-length: 1, 1"],
      [GET, "content-length: -1"],
      [GET, "content-length: 0x1"],
      [GET, "content-length:"],
      [GET, "content-length: 1", "transfer-encoding: chunked"],
      ["GET / HTTP/1.0", "transfer-encoding: chunked"],
      [""],
    ]
  ) assert.equal(status(...lines), 400, JSON.stringify(lines));
  assert.equal(status(GET, "transfer-encoding: gzip, chunked"), 501);
  assert.equal(status(GET, "transfer-encoding: chunked, chunked"), 501);
  assert.equal(status("PRI * HTTP/2.0"), 505);
  assert.equal(status(GET, `content-length: ${MAX_BODY + 1}`), 413);
  assert.equal(status(GET, `content-length: ${MAX_BODY}`), null);
});

Deno.test("a value ends where all readers end it: what is white space elsewhere is a part of it", () => {
  const fields = (...lines: string[]) => {
    const read = parseRequestHead([GET, ...lines, "", ""].join("\r\n"));
    return "status" in read ? read.status : Object.fromEntries(read.fields);
  };
  assert.deepEqual(fields("host: \t localhost \t", "x:", "y: \t"), { host: "localhost", x: "", y: "" });
  for (const space of ["\u00a0", "\u0085", "\ufeff"]) {
    assert.deepEqual(fields(`host: localhost${space}`), { host: `localhost${space}` });
    assert.equal(fields(`content-length: ${space}2`), 400);
    assert.equal(fields(`transfer-encoding: chunked${space}`), 501);
  }
});

Deno.test("no text makes the reader fail", () => {
  const bits = fc.constantFrom(
    "GET ",
    "/",
    " HTTP/1.1",
    "\r\n",
    "\r",
    "\n",
    ":",
    " ",
    "a",
    "content-length",
    "0",
    "\0",
    "é",
  );
  fc.assert(fc.property(fc.oneof(fc.string(), fc.array(bits).map((all) => all.join(""))), (text) => {
    const read = parseRequestHead(`${text}\r\n\r\n`);
    if ("status" in read) return;
    for (const value of read.fields.values()) assert.doesNotMatch(value, /[\r\n\0]/);
    assert.doesNotMatch(read.target, /\s/);
  }));
});

Deno.test("the end of a head is found wherever the bytes are cut", () => {
  const bytes = new TextEncoder().encode(`${GET}\r\na: b\r\n\r\nbody\r\n\r\n`);
  const end = bytes.length - "body\r\n\r\n".length;
  for (let cut = 0; cut <= bytes.length; cut++) {
    const found = headEnd(bytes.subarray(0, cut), 0);
    assert.equal(found, cut < end ? -1 : end);
    // As the server looks: from three bytes before what is new.
    assert.equal(headEnd(bytes, Math.max(0, Math.min(cut, end - 1) - 3)), end);
  }
});

const encoder = new TextEncoder();

Deno.test("a chunked body is the same however it is cut into chunks and reads", () => {
  const part = fc.uint8Array({ minLength: 1, maxLength: 40 });
  fc.assert(
    fc.property(fc.array(part, { maxLength: 8 }), fc.array(fc.nat(30)), fc.boolean(), (parts, reads, trailers) => {
      const pieces = parts.flatMap((
        bytes,
      ) => [encoder.encode(`${bytes.length.toString(16)};x=y\r\n`), bytes, encoder.encode("\r\n")]);
      pieces.push(encoder.encode(`0\r\n${trailers ? "a: b\r\n" : ""}\r\n`));
      const sent = Uint8Array.from(pieces.flatMap((piece) => [...piece]));
      const reader = new ChunkReader(0);
      let held = 0;
      let state = reader.read(sent.subarray(0, 0));
      for (const count of [...reads, ...Array(sent.length).fill(1)]) {
        if (state === "whole") break;
        assert.equal(state, "more");
        held = Math.min(sent.length, held + count);
        state = reader.read(sent.subarray(0, held));
      }
      assert.equal(state, "whole");
      assert.equal(reader.end, sent.length);
      assert.deepEqual([...reader.content(sent)], parts.flatMap((bytes) => [...bytes]));
    }),
  );
});

Deno.test("chunks that lie, or hold more than a body may, are refused", () => {
  const read = (text: string) => {
    const state = new ChunkReader(0).read(encoder.encode(text));
    return typeof state === "string" ? state : state.status;
  };
  assert.equal(read("3\r\nabc\r\n"), "more");
  for (
    const text of [
      "x\r\n",
      "3\nabc\r\n",
      "3\r\nabcd\r\n",
      "-1\r\n",
      "\r\n",
      "3 \r\nabc\r\n",
      "0\r\na\n\r\n",
      "1".repeat(9) + "\r\n",
    ]
  ) {
    assert.equal(read(text), 400, JSON.stringify(text));
  }
  assert.equal(read("1".repeat(2_000)), 400);
  assert.equal(read(`0\r\n${"a".repeat(2_000)}`), 400);
  assert.equal(read(`${(MAX_BODY + 1).toString(16)}\r\n`), 413);
  assert.equal(read(`8000\r\n${"a".repeat(0x8000)}\r\n8001\r\n`), 413);
});
