import assert from "node:assert/strict";
import fc from "fast-check";
import { ComponentHttp, MAX_REQUESTS_IN_FLIGHT, requestUrl } from "./component_http.ts";
import { type GuestRequest, type OutgoingHttp, OutgoingHttpError } from "./component_runtime.ts";
import { type Message, MessageType } from "./frames.ts";
import { ProtocolViolation } from "./host_messages.ts";
import { eventually, everythingTool, Harness, NO_HTTP } from "./testing/harness.ts";

const encoder = new TextEncoder();

function streamOf(...parts: (string | Uint8Array)[]): ReadableStream<Uint8Array> {
  return ReadableStream.from(parts.map((part) => typeof part === "string" ? encoder.encode(part) : part));
}

/** A response of `total` bytes in parts of 50,000, counting what was pulled. */
function counted(total: number, onPull: (bytes: number) => void): ReadableStream<Uint8Array> {
  let left = total;
  return new ReadableStream({
    pull(controller) {
      const part = new Uint8Array(Math.min(50_000, left)).fill(1);
      left -= part.length;
      onPull(part.length);
      controller.enqueue(part);
      if (left === 0) controller.close();
    },
  }, { highWaterMark: 0 });
}

Deno.test("a guest's request arrives as it was sent, but for what only a runtime may say", async () => {
  await using harness = new Harness();
  let seen: GuestRequest | undefined;
  let body = "";
  const http: OutgoingHttp = async (request) => {
    seen = request;
    body = await new Response(request.body).text();
    return {
      status: 418,
      headers: [["x-answer", "grü\u00dfe"], ["set-cookie", "a=1"], ["set-cookie", "b=2"]],
      body: streamOf("te", "a"),
    };
  };
  const spec = await harness.spec(await everythingTool(), { http });
  const answer = await harness.do(spec, "fetch", {
    method: "post",
    url: "https://Example.com:8443/a/b?c=d%20e",
    headers: [["X-One", "1"], ["x-one", "2"], ["X-Murmur-Task-Trust", "operator"], ["authorization", "Bearer x"]],
    body: "hello",
    text: true,
  });
  assert.deepEqual(answer, {
    status: 418,
    headers: [["x-answer", "grü\u00dfe"], ["set-cookie", "a=1"], ["set-cookie", "b=2"]],
    bytes: 3,
    sum: 314,
    text: "tea",
  });
  assert.equal(seen!.method, "POST");
  assert.equal(seen!.url.href, "https://example.com:8443/a/b?c=d%20e");
  assert.deepEqual(seen!.headers, [["x-one", "1"], ["x-one", "2"], ["authorization", "Bearer x"]]);
  assert.equal(body, "hello");
});

Deno.test("a request without body bytes has no body, whatever the guest opened", async () => {
  await using harness = new Harness();
  const bodies: boolean[] = [];
  const http: OutgoingHttp = (request) => {
    bodies.push(request.body !== null);
    return Promise.resolve({ status: 204, headers: [], body: streamOf() });
  };
  const spec = await harness.spec(await everythingTool(), { http });
  await harness.do(spec, "fetch", { url: "http://a.example/" });
  await harness.do(spec, "fetch", { method: "post", url: "http://a.example/", body: "" });
  await harness.do(spec, "fetch", { method: "post", url: "http://a.example/", body: "x" });
  assert.deepEqual(bodies, [false, false, true]);
});

Deno.test("megabytes flow both ways, and no faster than the slower side", async () => {
  await using harness = new Harness();
  const total = 5_000_000;
  let received = 0;
  let mostAhead = 0;
  let pulled = 0;
  const http: OutgoingHttp = async (request) => {
    if (request.method === "GET") return { status: 200, headers: [], body: counted(total, (n) => pulled += n) };
    for await (const part of request.body!) {
      received += part.length;
      mostAhead = Math.max(mostAhead, part.length);
      if (received < 1_000_000) await new Promise((resolve) => setTimeout(resolve, 1));
    }
    return { status: 200, headers: [], body: streamOf(String(received)) };
  };
  const spec = await harness.spec(await everythingTool(), { http });
  const up = await harness.do(spec, "fetch", { method: "put", url: "http://a.example/", body: total, text: true });
  assert.deepEqual([(up as { text: string }).text, received], [String(total), total]);
  assert.ok(mostAhead <= 65_536);
  const down = await harness.do(spec, "fetch", { url: "http://a.example/" }) as { bytes: number; sum: number };
  assert.deepEqual([down.bytes, down.sum, pulled], [total, total, total]);

  pulled = 0;
  await harness.do(spec, "holdResponse", { url: "http://a.example/", ms: 300 });
  assert.ok(pulled <= (512 << 10) + 2 * 50_000, `${pulled} bytes were taken for a guest that reads ten`);
});

Deno.test("events reach the guest as they come", async () => {
  await using harness = new Harness();
  let controller: ReadableStreamDefaultController<Uint8Array>;
  const http: OutgoingHttp = () =>
    Promise.resolve({
      status: 200,
      headers: [["content-type", "text/event-stream"]],
      body: new ReadableStream<Uint8Array>({ start: (own) => void (controller = own) }),
    });
  const spec = await harness.spec(await everythingTool(), { http });
  const chunks: string[] = [];
  const running = harness.do(spec, "events", { url: "http://a.example/" }, { emitChunk: (text) => chunks.push(text) });
  for (let i = 0; i < 5; i++) {
    await eventually(() => chunks.length === i && controller !== undefined);
    controller!.enqueue(encoder.encode(`data: ${i}\n\n`));
    await eventually(() => chunks.length === i + 1);
  }
  controller!.close();
  await running;
  assert.deepEqual(chunks, [0, 1, 2, 3, 4].map((i) => `data: ${i}\n\n`));
});

Deno.test("trailers reach the guest", async () => {
  await using harness = new Harness();
  const http: OutgoingHttp = (request) =>
    Promise.resolve({
      status: 200,
      headers: [],
      body: streamOf("x"),
      ...(request.url.pathname === "/with" ? { trailers: Promise.resolve([["x-sum", "1"]] as const) } : {}),
    });
  const spec = await harness.spec(await everythingTool(), { http });
  assert.deepEqual(await harness.do(spec, "trailers", { url: "http://a.example/with" }), [["x-sum", "1"]]);
  assert.equal(await harness.do(spec, "trailers", { url: "http://a.example/without" }), null);
});

Deno.test("failures arrive as the error codes of the interface", async () => {
  await using harness = new Harness();
  const cases: [OutgoingHttp, string][] = [
    [NO_HTTP, "HTTP-request-denied"],
    [() => Promise.reject(new OutgoingHttpError("connection-refused", "no")), "connection-refused"],
    [() => Promise.reject(new OutgoingHttpError("DNS-error", "no such name")), "DNS-error"],
    [() => Promise.reject(new OutgoingHttpError("HTTP-response-header-size", "too long")), "HTTP-response-header-size"],
    [() => Promise.reject(new OutgoingHttpError("made-up", "x")), "internal-error"],
    [() => Promise.reject(new Error("a secret")), "internal-error"],
    [() =>
      Promise.resolve({
        status: 200,
        headers: [],
        body: new ReadableStream({ start: (c) => c.error(new OutgoingHttpError("connection-terminated", "cut")) }),
      }), "connection-terminated"],
  ];
  for (const [http, code] of cases) {
    const spec = await harness.spec(await everythingTool(), { http });
    assert.equal(await harness.try(spec, "fetch", { url: "http://a.example/" }), code);
  }
});

Deno.test("a request that names no host is denied", async () => {
  await using harness = new Harness();
  let sent = 0;
  const http: OutgoingHttp = () => {
    sent++;
    return Promise.resolve({ status: 200, headers: [], body: streamOf() });
  };
  const spec = await harness.spec(await everythingTool(), { http });
  for (const url of ["http:///x", "http://[/x", "http://a.example:99999/"]) {
    assert.equal(await harness.try(spec, "fetch", { url }), "HTTP-request-denied", url);
  }
  assert.equal(sent, 0);
  assert.deepEqual(await harness.do(spec, "fields"), [
    ["1", "2"],
    { error: "forbidden" },
    { error: "invalid-syntax" },
    { error: "invalid-syntax" },
    { error: "immutable" },
  ]);
});

Deno.test("the guest's time limits end its requests", async () => {
  await using harness = new Harness();
  const aborted: boolean[] = [];
  const http: OutgoingHttp = (request) => {
    request.signal.addEventListener("abort", () => aborted.push(true));
    if (request.url.pathname === "/never") return new Promise(() => {});
    return Promise.resolve({ status: 200, headers: [], body: new ReadableStream() });
  };
  const spec = await harness.spec(await everythingTool(), { http });
  const limit = 50_000_000;
  assert.equal(
    await harness.try(spec, "fetch", { url: "http://a.example/never", options: { firstByte: limit } }),
    "HTTP-response-timeout",
  );
  assert.equal(
    await harness.try(spec, "fetch", { url: "http://a.example/slow", options: { betweenBytes: limit } }),
    "connection-read-timeout",
  );
  assert.deepEqual(aborted, [true, true]);
});

Deno.test("a dropped response, the end of a call and a kill end the request upstream", async () => {
  await using harness = new Harness();
  let aborted = 0;
  let canceled = 0;
  const http: OutgoingHttp = (request) => {
    request.signal.addEventListener("abort", () => aborted++);
    return Promise.resolve({
      status: 200,
      headers: [],
      body: new ReadableStream<Uint8Array>({
        pull: (controller) => controller.enqueue(new Uint8Array(10_000)),
        cancel: () => void canceled++,
      }),
    });
  };
  const spec = await harness.spec(await everythingTool(), { http });
  let droppedAt = -1;
  await harness.do(spec, "dropResponse", { url: "http://a.example/" }, {
    emitChunk: () => setTimeout(() => droppedAt = aborted, 150),
  });
  assert.equal(droppedAt, 1, "ended while the call went on");
  await eventually(() => canceled === 1);

  await harness.do(spec, "holdResponse", { url: "http://a.example/", ms: 1 });
  await eventually(() => aborted === 2 && canceled === 2);

  const abort = new AbortController();
  await assert.rejects(harness.do(spec, "holdResponse", { url: "http://a.example/", ms: 60_000 }, {
    signal: abort.signal,
    emitChunk: () => abort.abort(),
  }));
  await eventually(() => aborted === 3 && canceled === 3);
});

Deno.test("64 requests are in flight at most; thousands one after the other are no matter", async () => {
  await using harness = new Harness();
  let most = 0;
  let open = 0;
  const never: OutgoingHttp = (request) => {
    most = Math.max(most, ++open);
    request.signal.addEventListener("abort", () => open--);
    return new Promise(() => {});
  };
  const spec = await harness.spec(await everythingTool(), { http: never });
  const codes = await harness.do(spec, "many", { url: "http://a.example/", count: 70 }) as string[];
  assert.equal(codes.filter((code) => code === "started").length, MAX_REQUESTS_IN_FLIGHT);
  assert.equal(codes.filter((code) => code === "connection-limit-reached").length, 6);
  assert.equal(most, MAX_REQUESTS_IN_FLIGHT);
  await eventually(() => open === 0);

  const small: OutgoingHttp = () => Promise.resolve({ status: 200, headers: [], body: streamOf("ten bytes!") });
  const quick = await harness.spec(await everythingTool(), { http: small });
  assert.equal(await harness.do(quick, "sequence", { url: "http://a.example/", count: 2_000 }), 20_000);
});

Deno.test("a target is built from whole parts only", () => {
  assert.equal(requestUrl("http", "a.example", "/x?y")?.href, "http://a.example/x?y");
  assert.equal(requestUrl(null, "a.example", null)?.href, "https://a.example/");
  assert.equal(requestUrl("http", "a.example", "?q")?.href, "http://a.example/?q");
  assert.equal(requestUrl("http", "[::1]:80", "/")?.hostname, "[::1]");
  for (
    const [scheme, authority, path] of [
      ["ftp", "a.example", "/"],
      ["http", null, "/"],
      ["http", "", "/"],
      ["http", "user@a.example", "/"],
      ["http", "a.example/b", "/"],
      ["http", "a.example\\b", "/"],
      ["http", "a.example", "x"],
      ["http", "a.example", "/#f"],
      ["http", "a.example", "/ x"],
      ["http", "a b", "/"],
    ] as const
  ) assert.equal(requestUrl(scheme, authority, path), null, `${scheme} ${authority} ${path}`);
  fc.assert(fc.property(fc.string(), fc.string(), (authority, path) => {
    const url = requestUrl("http", authority, path);
    if (url === null) return;
    assert.equal(url.username + url.password + url.hash, "");
    assert.ok(url.host !== "" && url.protocol === "http:");
  }));
});

Deno.test("frames no honest host would send are refused", () => {
  const start = {
    method: "GET",
    scheme: "http",
    authority: "a.example",
    path: "/",
    headers: [],
    hasBody: true,
    connectTimeoutMs: null,
    firstByteTimeoutMs: null,
    betweenBytesTimeoutMs: null,
  };
  const message = (type: number, id: number, header = {}, bytes = 0): Message => ({
    type,
    id,
    header,
    body: new Uint8Array(bytes),
  });
  const hang: OutgoingHttp = () => new Promise(() => {});
  const sequences: Message[][] = [
    [message(MessageType.httpBody, 1)],
    [message(MessageType.httpClose, 1)],
    [message(MessageType.httpStart, 1, { ...start, method: "G T" })],
    [message(MessageType.httpStart, 1, { ...start, headers: [["a"]] })],
    [message(MessageType.httpStart, 1, { ...start, headers: "x" })],
    [message(MessageType.httpStart, 1, { ...start, scheme: 5 })],
    [message(MessageType.httpStart, 1, start), message(MessageType.httpBody, 1, {}, 300_000)],
    [message(MessageType.httpStart, 1, start), message(MessageType.httpCredit, 1, { bytes: 1 })],
    [message(MessageType.httpStart, 1, start), message(MessageType.httpCredit, 1, { bytes: -1 })],
    [message(MessageType.httpStart, 1, { ...start, hasBody: false }), message(MessageType.httpBody, 1, {}, 1)],
    [
      message(MessageType.httpStart, 1, start),
      message(MessageType.httpBodyEnd, 1, { abort: false, trailers: null }),
      message(MessageType.httpBody, 1, {}, 1),
    ],
    [message(MessageType.httpStart, 1, start), message(MessageType.httpClose, 1), message(MessageType.httpClose, 1)],
    Array.from({ length: 65 }, (_, index) => message(MessageType.httpStart, index + 1, start)),
  ];
  for (const sequence of sequences) {
    using http = new ComponentHttp(() => {}, hang);
    const last = sequence.pop()!;
    for (const each of sequence) http.take(each);
    assert.throws(() => http.take(last), ProtocolViolation);
  }
});
