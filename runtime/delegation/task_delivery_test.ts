import assert from "node:assert/strict";
import type { JsonValue } from "../../base/json_value.ts";
import { DEFAULT_TIME_BOUNDS } from "../../base/time_bounds.ts";
import { deliverTask, type Delivery, type DeliveryResult } from "./task_delivery.ts";

const BOUNDS = { ...DEFAULT_TIME_BOUNDS, childDelivery: 600, childRetry: 10 };

function deliver(port: number, more: Partial<Delivery> = {}): Promise<DeliveryResult> {
  return deliverTask({
    url: `localhost:${port}`,
    token: null,
    task: "  do it\n",
    traceparent: null,
    signal: new AbortController().signal,
    bounds: BOUNDS,
    ...more,
  });
}

/** A door that answers each request as it is told, and what it was sent. */
async function door(
  answer: (request: Request) => Response | Promise<Response>,
  body: (door: { port: number; sent: { headers: Headers; body: string }[] }) => Promise<void>,
): Promise<void> {
  const sent: { headers: Headers; body: string }[] = [];
  await using server = Deno.serve({ port: 0, hostname: "127.0.0.1", onListen: () => {} }, async (request) => {
    sent.push({ headers: request.headers, body: await request.text() });
    return await answer(request);
  });
  await body({ port: server.addr.port, sent });
}

const result = (value: JsonValue) => () => Response.json({ jsonrpc: "2.0", id: 1, result: value });
const task = (state: string) => result({ task: { id: "tsk_1", contextId: "c", status: { state } } });

Deno.test("one message with the task verbatim, and no word of where it comes from", () =>
  door(task("TASK_STATE_SUBMITTED"), async ({ port, sent }) => {
    const traceparent = `00-${"a".repeat(32)}-${"b".repeat(16)}-01`;
    assert.deepEqual(await deliver(port, { token: "dt1.t", traceparent }), { accepted: true, taskId: "tsk_1" });
    const [{ headers, body }] = sent as [{ headers: Headers; body: string }];
    const { method, params } = JSON.parse(body);
    assert.equal(method, "SendMessage");
    assert.deepEqual(params.message.parts, [{ text: "  do it\n" }]);
    assert.equal(params.message.role, "ROLE_USER");
    assert.equal(headers.get("a2a-version"), "1.0");
    assert.equal(headers.get("authorization"), "Bearer dt1.t");
    assert.equal(headers.get("traceparent"), traceparent);
    for (const name of ["x-murmur-task-origin", "x-murmur-task-trust"]) assert.equal(headers.get(name), null);
  }));

Deno.test("a task that is not taken fails, and so does any answer that is no task; nothing is sent twice", async () => {
  const bad: Record<string, (request: Request) => Response | Promise<Response>> = {
    failed: task("TASK_STATE_FAILED"),
    rejected: task("TASK_STATE_REJECTED"),
    canceled: task("TASK_STATE_CANCELED"),
    "no id": result({ task: { status: { state: "TASK_STATE_WORKING" } } }),
    "no state": result({ task: { id: "t" } }),
    message: result({ message: { messageId: "m" } }),
    nothing: result(null),
    "an error": () => Response.json({ jsonrpc: "2.0", id: 1, error: { code: -32603, message: "no" } }),
    "no JSON-RPC": () => new Response("hello"),
    "too large": () => new Response("{}", { status: 413 }),
    busy: () => new Response("{}", { status: 503 }),
    forbidden: () => new Response("{}", { status: 403 }),
  };
  for (const [name, answer] of Object.entries(bad)) {
    await door(answer, async ({ port, sent }) => {
      const delivered = await deliver(port);
      assert.equal(delivered.accepted, false, name);
      assert.equal(sent.length, 1, name);
    });
  }
});

Deno.test("a working or finished task is taken", async () => {
  for (const state of ["TASK_STATE_WORKING", "TASK_STATE_COMPLETED", "TASK_STATE_INPUT_REQUIRED"]) {
    await door(task(state), async ({ port }) => assert.ok((await deliver(port)).accepted, state));
  }
});

Deno.test("a door that does not listen yet is tried until it does, or the bound is over", async () => {
  const port = (() => {
    using probe = Deno.listen({ port: 0, hostname: "127.0.0.1" });
    return (probe.addr as Deno.NetAddr).port;
  })();
  const start = performance.now();
  const never = await deliver(port);
  assert.ok(!never.accepted && /refused/.test(never.reason));
  const took = performance.now() - start;
  assert.ok(took > 300 && took < 2_000, String(took));

  const delivering = deliver(port, { bounds: { ...BOUNDS, childDelivery: 10_000 } });
  await new Promise((resolve) => setTimeout(resolve, 150));
  await using _server = Deno.serve({ port, hostname: "127.0.0.1", onListen: () => {} }, task("TASK_STATE_SUBMITTED"));
  assert.ok((await delivering).accepted);
});

Deno.test("a door that takes the connection and says nothing, or breaks it, fails within the bound and gets it once", async () => {
  using silent = Deno.listen({ port: 0, hostname: "127.0.0.1" });
  const start = performance.now();
  assert.ok(!(await deliver((silent.addr as Deno.NetAddr).port)).accepted);
  assert.ok(performance.now() - start < 2_000);

  using breaking = Deno.listen({ port: 0, hostname: "127.0.0.1" });
  let connections = 0;
  const accepting = (async () => {
    for await (const connection of breaking) {
      connections++;
      await connection.read(new Uint8Array(1_000));
      connection.close();
    }
  })();
  assert.ok(!(await deliver((breaking.addr as Deno.NetAddr).port)).accepted);
  breaking.close();
  await accepting;
  assert.equal(connections, 1);
});

Deno.test("given up, while it waits and while it asks", async () => {
  const bounds = { ...BOUNDS, childDelivery: 20_000, childRetry: 5_000 };
  using silent = Deno.listen({ port: 0, hostname: "127.0.0.1" });
  for (const port of [1, (silent.addr as Deno.NetAddr).port]) {
    const given = new AbortController();
    setTimeout(() => given.abort(), 30);
    const start = performance.now();
    assert.ok(!(await deliver(port, { bounds, signal: given.signal })).accepted);
    assert.ok(performance.now() - start < 1_000);
  }
});
