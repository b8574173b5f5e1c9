import assert from "node:assert/strict";
import fc from "fast-check";
import { MurError } from "./errors.ts";
import { DEFAULT_TIME_BOUNDS } from "./time_bounds.ts";
import { type DoorAnswer, errorInfo, scriptedDoor } from "../tests/support/scripted_door.ts";
import { DoorClient, doorTrouble, doorWords, isTokenText, parseHostAndPort, parseRpcAnswer } from "./door_client.ts";

Deno.test("host:port, a literal of IPv6 in brackets, and nothing else", () => {
  assert.deepEqual(parseHostAndPort("localhost:41873"), { host: "localhost", port: 41873 });
  assert.deepEqual(parseHostAndPort("LOCALHOST:1"), { host: "localhost", port: 1 });
  assert.deepEqual(parseHostAndPort("[::1]:80"), { host: "::1", port: 80 });
  for (
    const text of [
      "",
      "localhost",
      "localhost:",
      "localhost:0",
      "localhost:65536",
      ":80",
      "::1:80",
      "[::1]",
      "[::1:80",
      "http://localhost:80",
      "localhost:80/",
      "user@localhost:80",
      "local host:80",
      "localhost:80\r\nx: y",
      "[::1%eth0]:80",
    ]
  ) {
    assert.equal(parseHostAndPort(text), null, text);
  }
});

Deno.test("a token is visible ASCII", () => {
  assert.ok(isTokenText("mdt1.abc-_.x"));
  for (const text of ["", "a b", "a\n", "ä", "a\r\nx-y: z"]) assert.ok(!isTokenText(text), text);
});

Deno.test("an answer has a result or an error, never both, never neither", () => {
  const text = (value: unknown) => JSON.stringify(value);
  assert.deepEqual(parseRpcAnswer(text({ jsonrpc: "2.0", id: 1, result: null })), { ok: true, result: null });
  assert.deepEqual(
    parseRpcAnswer(text({
      jsonrpc: "2.0",
      id: 1,
      error: { code: -32002, message: "no", data: errorInfo("X", { state: "TASK_STATE_FAILED", odd: 1 }) },
    })),
    { ok: false, failure: { code: -32002, message: "no", metadata: { state: "TASK_STATE_FAILED" } } },
  );
  const bad: unknown[] = [
    null,
    [],
    {},
    { jsonrpc: "2.0", id: 1 },
    { jsonrpc: "1.0", id: 1, result: 1 },
    { jsonrpc: "2.0", id: 1, result: 1, error: { code: 1, message: "" } },
    { jsonrpc: "2.0", id: 1, error: { code: 1.5, message: "" } },
    { jsonrpc: "2.0", id: 1, error: { code: 1 } },
    { jsonrpc: "2.0", id: 1, error: "no" },
  ];
  for (const value of bad) assert.equal(parseRpcAnswer(text(value)), null, text(value));
  fc.assert(fc.property(fc.string(), (input) => void parseRpcAnswer(input)));
});

Deno.test("a call is one POST with version, type and token, and no origin", async () => {
  await using door = scriptedDoor({ token: "mdt1.x", answer: ({ params }) => ({ result: params }) });
  const client = new DoorClient({ host: "localhost", port: door.port, token: "mdt1.x" }, DEFAULT_TIME_BOUNDS);
  assert.deepEqual(await client.call("Echo", { a: "ä" }), { ok: true, result: { a: "ä" } });
  const { headers } = door.calls[0]!;
  assert.equal(headers.get("a2a-version"), "1.0");
  assert.equal(headers.get("authorization"), "Bearer mdt1.x");
  assert.equal(headers.get("origin"), null);
  assert.equal(headers.get("host"), `localhost:${door.port}`);
  assert.equal(headers.get("content-type"), "application/json");
});

Deno.test("a refusal is told with its status and its words, without the token; headers of a call go along", async () => {
  await using door = scriptedDoor({ token: "mdt1.secret" });
  for (const [token, word] of [[null, "unauthenticated"], ["mdt1.wrong", "invalid_token"]] as const) {
    const client = new DoorClient({ host: "localhost", port: door.port, token }, DEFAULT_TIME_BOUNDS);
    const trouble = await client.call("GetTask", { id: "x" }).then(() => assert.fail("answered"), doorTrouble);
    assert.match(trouble, new RegExp(`^it answered 401 ${word}`));
    assert.ok(!trouble.includes("mdt1"));
  }
  await using open = scriptedDoor({ answer: () => ({ result: {} }) });
  const client = new DoorClient({ host: "localhost", port: open.port, token: null }, DEFAULT_TIME_BOUNDS);
  await client.call("Any", {}, { headers: [["x-murmur-task-origin", "completion"]] });
  assert.equal(open.calls[0]!.headers.get("x-murmur-task-origin"), "completion");
});

Deno.test("what is no JSON-RPC answer, no card, or too large is a broken door", async () => {
  for (
    const [response, reason] of [
      [() => new Response("<html>"), /no JSON-RPC/],
      [() => Response.json({ result: 1 }), /no JSON-RPC/],
      [() => new Response(null, { status: 500 }), /it answered 500/],
      [() => Response.json({ error: "body_too_large", message: "too large" }, { status: 413 }), /413 body_too_large/],
    ] as const
  ) {
    await using door = scriptedDoor({ answer: () => ({ response: response() }) });
    const client = new DoorClient({ host: "localhost", port: door.port, token: null }, DEFAULT_TIME_BOUNDS);
    const trouble = await client.call("GetTask", {}).then(() => "answered", doorTrouble);
    assert.match(trouble, reason);
  }
  await using door = scriptedDoor({ card: () => new Response("{") });
  const client = new DoorClient({ host: "localhost", port: door.port, token: null }, DEFAULT_TIME_BOUNDS);
  assert.match(await client.card().then(() => "answered", doorTrouble), /is not JSON/);
});

Deno.test("a streaming method answers with a stream or with one refusal", async () => {
  await using door = scriptedDoor({
    answer: ({ method }): DoorAnswer =>
      method === "Refused"
        ? { error: { code: -32004, message: "ended" } }
        : method === "Plain"
        ? { result: {} }
        : { events: [{ id: 3, result: { a: 1 } }, { result: { b: 2 } }] },
  });
  const client = new DoorClient({ host: "localhost", port: door.port, token: null }, DEFAULT_TIME_BOUNDS);
  const answer = await client.stream("Streamed", {}, { lastEventId: 7 });
  assert.ok(answer.ok);
  const events = [];
  for await (const event of answer.events) events.push(event);
  assert.deepEqual(events, [{ id: 3, response: { a: 1 } }, { id: null, response: { b: 2 } }]);
  assert.equal(door.calls[0]!.lastEventId, "7");
  const refused = await client.stream("Refused", {});
  assert.deepEqual(refused, { ok: false, failure: { code: -32004, message: "ended", metadata: {} } });
  assert.match(await client.stream("Plain", {}).then(() => "answered", doorTrouble), /without a stream/);
});

Deno.test("a door that drips its answer is given up as a silent one is", async () => {
  const dripping = () => {
    let timer: ReturnType<typeof setInterval>;
    return new Response(
      new ReadableStream<Uint8Array>({
        start: (controller) => void (timer = setInterval(() => controller.enqueue(Uint8Array.of(0x20)), 20)),
        cancel: () => clearInterval(timer),
      }),
    );
  };
  await using door = scriptedDoor({ card: dripping, answer: () => ({ response: dripping() }) });
  const bounds = { ...DEFAULT_TIME_BOUNDS, doorConnect: 100, doorCard: 200, doorAnswer: 200 };
  const client = new DoorClient({ host: "localhost", port: door.port, token: null }, bounds);
  for (const ask of [() => client.card(), () => client.call("CancelTask", { id: "tsk_a" })]) {
    const started = performance.now();
    assert.match(await ask().then(() => "answered", doorTrouble), /did not answer in time/);
    assert.ok(performance.now() - started < 5_000);
  }
});

Deno.test("a door's words stay on one line and have an end", () => {
  assert.equal(doorWords("no\nsuch\r\n\ttask "), "no such task");
  assert.equal(doorWords("x".repeat(300)), "x".repeat(300));
  assert.equal(doorWords("x".repeat(301)), `${"x".repeat(300)}…`);
  assert.equal(doorWords(`a${" ".repeat(600)}b`), "a…");
  fc.assert(fc.property(fc.string({ maxLength: 2_000 }), (text) => {
    const words = doorWords(text);
    assert.ok(words.length <= 301 && !/[\r\n\u2028\u2029]/.test(words));
  }));
  const answer = parseRpcAnswer(JSON.stringify({ jsonrpc: "2.0", id: 1, error: { code: 1, message: "a\nb" } }));
  assert.deepEqual(answer, { ok: false, failure: { code: 1, message: "a b", metadata: {} } });
});

Deno.test("another error than a door's is no door's", () => {
  assert.throws(() => doorTrouble(new MurError("E-IO-003", "x")), MurError);
});
