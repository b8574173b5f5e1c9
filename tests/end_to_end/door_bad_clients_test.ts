/**
 * Clients that do what they should not, against the door of a real session: each gets its answer, and none impairs another.
 *
 * @module
 */
import assert from "node:assert/strict";
import { agentProject, capsule } from "../support/agent_project.ts";
import { allEvents, type DoorSession, message, sentEvents, startSession } from "../support/door_session.ts";
import { until } from "../support/process_tree.ts";

const serving = () =>
  agentProject(capsule({ lifecycle: { task_acceptance: "queue", after_task: "sleep", queue_depth: 4 } }));

const pause = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

function head(fields: Readonly<Record<string, string>>, target = "/"): string {
  const all = { "host": "localhost", "content-type": "application/json", "a2a-version": "1.0", ...fields };
  return `POST ${target} HTTP/1.1\r\n${
    Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`).join("")
  }\r\n`;
}

const rpcBody = (id: unknown, method: string, params: object = {}) =>
  JSON.stringify({ jsonrpc: "2.0", id, method, params });
const whole = (body: string, fields: Readonly<Record<string, string>> = {}) =>
  head({ "content-length": String(body.length), ...fields }) + body;

/** The door still does its work, and quickly. */
async function assertServes(session: DoorSession): Promise<void> {
  const started = performance.now();
  const { result } = await session.rpc("SendMessage", message("hello", {}, {}));
  assert.equal(result.task.status.state, "TASK_STATE_COMPLETED");
  assert.ok(performance.now() - started < 5_000);
}

/** Resident memory of a process, in MB. */
async function residentMb(pid: number): Promise<number> {
  return Number((await Deno.readTextFile(`/proc/${pid}/statm`)).split(" ")[1]) * 4_096 / 1e6;
}

async function openMany(session: DoorSession, count: number, text: string): Promise<Deno.Conn[]> {
  const bytes = new TextEncoder().encode(text);
  const opened: Deno.Conn[] = [];
  for (let i = 0; i < count; i++) {
    const connection = await Deno.connect({ hostname: "127.0.0.1", port: session.port });
    if (bytes.length > 0) await connection.write(bytes);
    opened.push(connection);
  }
  return opened;
}

Deno.test("a body that is cut short, huge, deep, of another type, or many in one is answered or dropped, and harms nobody", async () => {
  await using project = await serving();
  await using session = await startSession(project);
  await assertServes(session);
  const before = await residentMb(session.pid);

  // Half a body: nobody is there to be answered.
  for (const connection of await openMany(session, 50, `${head({ "content-length": "100" })}{"jsonrpc"`)) {
    connection.close();
  }

  const text = "x".repeat(100 << 20);
  const refused = await session.request("/", {
    method: "POST",
    headers: { "content-type": "application/json", "a2a-version": "1.0" },
    body: text,
  });
  assert.equal(refused.status, 413);
  assert.deepEqual(Object.keys(await refused.json()), ["error", "message"]);
  const pieces = new ReadableStream<Uint8Array>({
    pull(controller) {
      controller.enqueue(new Uint8Array(1 << 20).fill(32));
    },
  });
  const endless = await session.request("/", {
    method: "POST",
    headers: { "content-type": "application/json", "a2a-version": "1.0" },
    body: pieces,
  });
  assert.equal(endless.status, 413);
  await endless.body?.cancel();

  for (const deep of ["[".repeat(8 << 20), '{"a":'.repeat(1 << 20), `${"[".repeat(65)}${"]".repeat(65)}`]) {
    assert.match(await session.raw(whole(deep), 5_000), /"code":-32700/);
  }
  for (
    const type of ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=application/json"]
  ) {
    assert.match(await session.raw(whole(rpcBody(1, "ListTasks"), { "content-type": type })), /^HTTP\/1\.1 404 /);
  }
  assert.match(
    await session.raw(whole(`[${rpcBody(1, "ListTasks")},${rpcBody(2, "ListTasks")}]`)),
    /"id":null.*-32600/,
  );
  for (const version of ["0.3", "2.0", "one", "1.0\r\na2a-version: 1.0", "1.0\r\na2a-version: 0.3"]) {
    assert.match(await session.raw(whole(rpcBody(1, "ListTasks"), { "a2a-version": version })), /"code":-32009/);
  }
  assert.match(await session.raw(whole(rpcBody(1, "GetTask", { id: "tsk_none" }))), /"code":-32001/);
  // No UTF-8 is no JSON.
  using binary = await Deno.connect({ hostname: "127.0.0.1", port: session.port });
  await binary.write(new TextEncoder().encode(head({ "content-length": "4" })));
  await binary.write(Uint8Array.of(0x22, 0xff, 0xfe, 0x22));
  const answer = new Uint8Array(4_096);
  assert.match(new TextDecoder().decode(answer.subarray(0, (await binary.read(answer))!)), /"code":-32700/);

  await assertServes(session);
  const grown = await residentMb(session.pid) - before;
  assert.ok(grown < 200, `memory grew by ${grown.toFixed(0)} MB`);
  assert.equal((await session.rpc("ListTasks")).result.totalSize, 2);
  assert.equal((await session.stop()).status, 0);
});

Deno.test("requests that share an id, or come in one write, are each answered", async () => {
  await using project = await serving();
  await using session = await startSession(project);
  const same = await Promise.all(
    Array.from({ length: 20 }, () =>
      session.request("/", {
        method: "POST",
        headers: { "content-type": "application/json", "a2a-version": "1.0" },
        body: rpcBody("same", "ListTasks"),
      }).then((response) => response.json())),
  );
  assert.deepEqual(same.map(({ id }) => id), Array.from({ length: 20 }, () => "same"));

  using connection = await Deno.connect({ hostname: "127.0.0.1", port: session.port });
  const requests = Array.from({ length: 30 }, (_, i) => whole(rpcBody(i, i % 2 === 0 ? "ListTasks" : "Nothing")));
  await connection.write(new TextEncoder().encode(requests.join("")));
  const decoder = new TextDecoder();
  let text = "";
  const buffer = new Uint8Array(65_536);
  while (text.split('"jsonrpc"').length <= 30) {
    const count = await connection.read(buffer);
    assert.ok(count !== null, text);
    text += decoder.decode(buffer.subarray(0, count));
  }
  const ids = [...text.matchAll(/"id":(\d+)/g)].map(([, id]) => Number(id));
  assert.deepEqual(ids, Array.from({ length: 30 }, (_, i) => i));
  await assertServes(session);
});

Deno.test("readers that never read hold nobody up and no memory", async () => {
  await using project = await serving();
  await using session = await startSession(project);
  const stalled = [
    ...await openMany(session, 20, whole(rpcBody(1, "murmur.WatchStream"))),
    ...await openMany(session, 20, whole(rpcBody(1, "stream/watch"))),
    // Answers nobody takes.
    ...await openMany(session, 20, whole(rpcBody(1, "ListTasks")).repeat(20)),
  ];
  await pause(100);
  await assertServes(session);
  const before = await residentMb(session.pid);
  // Each task writes 12 MB of frames, far beyond what the sockets of the stalled take.
  const flood = { turns: [{ flood: { count: 60, size: 200_000 }, text: "done" }] };
  let seen = 0;
  for (let task = 0; task < 6; task++) {
    const stream = await session.stream("SendStreamingMessage", message(flood));
    for await (const { event, data } of sentEvents(stream)) {
      if (event === "text") seen++;
      if (event === "status") assert.notEqual(data.result.statusUpdate.status.state, "TASK_STATE_FAILED");
      assert.notEqual(event, "lagged");
    }
  }
  assert.ok(seen >= 6 * 60, `${seen} chunks`);
  const grown = await residentMb(session.pid) - before;
  assert.ok(grown < 400, `memory grew by ${grown.toFixed(0)} MB`);
  for (const connection of stalled) connection.close();
  await assertServes(session);
  assert.equal((await session.stop()).status, 0);
});

Deno.test("what a body becomes is bounded too, and what was sent is not kept when its task has ended", async () => {
  await using project = await serving();
  await using session = await startSession(project);
  await assertServes(session);
  const { result: { task: running } } = await session.rpc("SendMessage", message({ turns: [{ delayMs: 600_000 }] }));
  const before = await residentMb(session.pid);
  const asMessage = (parts: string) =>
    `{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":{"messageId":"m","role":"ROLE_USER",` +
    `"parts":${parts}}}}`;
  const post = async (body: string) =>
    await (await session.request("/", {
      method: "POST",
      headers: { "content-type": "application/json", "a2a-version": "1.0" },
      body,
    })).json();
  // 15 MB of values that cost a parser 30 times that, and of values that are written out for the agent in as many bytes.
  const objects = asMessage(`[${Array(5_000_000).fill("{}").join(",")}]`);
  const numbers = asMessage(`[{"data":${"[".repeat(50)}${Array(7_000_000).fill("1").join(",")}${"]".repeat(50)}}]`);
  for (const body of [objects, numbers]) assert.equal((await post(body)).error.code, -32700);
  // 4,000,000 characters that need two bytes each.
  const text = asMessage(`[{"text":"${"\u4e00".repeat(4_000_000)}"}]`);
  for (let i = 0; i < 40; i++) {
    const { id } = (await post(text)).result.task;
    assert.equal((await session.rpc("CancelTask", { id })).result.status.state, "TASK_STATE_CANCELED");
  }
  const grown = await residentMb(session.pid) - before;
  assert.ok(grown < 250, `memory grew by ${grown.toFixed(0)} MB`);
  assert.equal((await session.rpc("CancelTask", { id: running.id })).result.status.state, "TASK_STATE_CANCELED");
  await assertServes(session);
});

Deno.test("large answers come whole, and those nobody takes hold a bounded amount of memory", async () => {
  await using project = await serving();
  await using session = await startSession(project);
  const { result: { task } } = await session.rpc("SendMessage", message({ turns: [{ letters: 10_000_000 }] }, {}, {}));
  const request = { method: "POST", headers: { "content-type": "application/json", "a2a-version": "1.0" } };
  const answer = await session.request("/", { ...request, body: rpcBody(1, "GetTask", { id: task.id }) });
  const length = Number(answer.headers.get("content-length"));
  const text = await answer.text();
  assert.equal(text.length, length);
  assert.equal(JSON.parse(text).result.artifacts[0].parts[0].text, "a".repeat(10_000_000));
  const before = await residentMb(session.pid);
  const unread = await openMany(session, 60, whole(rpcBody(1, "GetTask", { id: task.id })));
  await pause(500);
  const refused = await session.request("/", { ...request, body: rpcBody(1, "GetTask", { id: task.id }) });
  assert.deepEqual([refused.status, refused.headers.get("retry-after")], [503, "1"]);
  assert.equal((await refused.json()).error, "too_many_answers");
  assert.equal((await session.rpc("ListTasks")).result.totalSize, 1, "small answers are not held to it");
  const grown = await residentMb(session.pid) - before;
  assert.ok(grown < 250, `memory grew by ${grown.toFixed(0)} MB`);
  for (const connection of unread) connection.close();
  await until(
    "room for another answer",
    async () => (await session.rpc("GetTask", { id: task.id })).result !== undefined,
  );
});

Deno.test("more connections than the system gives descriptors end neither the session nor a stream, and the door opens again", async () => {
  await using project = await serving();
  await using session = await startSession(project, [], { under: ["sh", "-c", 'ulimit -n 160; exec "$@"', "sh"] });
  const step = { delayMs: 1_500, calls: [{ name: "no-such-tool" }] };
  const slow = { turns: [step, step, step, { text: "done" }] };
  const followed = allEvents(await session.stream("SendStreamingMessage", message(slow)));
  const half = new TextEncoder().encode("POST / HTTP/1.1\r\nhost: loc");
  const held: Deno.Conn[] = [];
  const deadline = Date.now() + 4_000;
  let refusals = 0;
  // Goes on while the door is shut: it opens between and is filled again.
  while (Date.now() < deadline) {
    try {
      const connection = await Deno.connect({ hostname: "127.0.0.1", port: session.port });
      held.push(connection);
      if (held.length % 2 === 0) await connection.write(half);
    } catch {
      refusals++;
      await pause(20);
    }
    if (held.length > 1_000) await pause(20);
  }
  assert.ok(refusals > 0, "the limit was reached");
  for (const connection of held) connection.close();
  const events = await followed;
  assert.equal(events.at(-1)!.data.result.statusUpdate.status.state, "TASK_STATE_COMPLETED");
  await until("the door opens again", () => session.rpc("ListTasks").then(() => true, () => false));
  await assertServes(session);
  const run = await session.stop();
  assert.equal(run.status, 0, run.stderr);
  assert.equal(run.trace.at(-1)!.event_type, "session_end");
  assert.match(run.stderr, /^the door takes no more connections for now: .*Too many open files/m);
});

Deno.test("2,000 connections that are idle or have sent half a request impair nothing", async () => {
  await using project = await serving();
  await using session = await startSession(project);
  const { result: { task: { id } } } = await session.rpc("SendMessage", message("hello", {}, {}));
  const times = async () => {
    const taken: number[] = [];
    for (let i = 0; i < 200; i++) {
      const started = performance.now();
      assert.equal((await session.rpc("GetTask", { id })).result.id, id);
      taken.push(performance.now() - started);
    }
    return taken.toSorted((a, b) => a - b);
  };
  const alone = await times();
  const idle = await openMany(session, 1_000, "");
  const half = await openMany(session, 1_000, "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: applic");
  const crowded = await times();
  assert.ok(crowded[190]! < 20 * alone[100]! + 20, `${crowded[190]} ms beside ${alone[100]} ms`);
  await assertServes(session);
  // They can still become requests.
  await half[0]!.write(
    new TextEncoder().encode(
      `ation/json\r\nA2A-Version: 1.0\r\nContent-Length: ${rpcBody(1, "ListTasks").length}\r\n\r\n${
        rpcBody(1, "ListTasks")
      }`,
    ),
  );
  const answer = new Uint8Array(4_096);
  let text = "";
  while (!text.includes("}}")) text += new TextDecoder().decode(answer.subarray(0, (await half[0]!.read(answer))!));
  assert.match(text, /"totalSize":2/);
  const stopping = performance.now();
  const outcome = await session.stop();
  assert.equal(outcome.status, 0, outcome.stderr);
  assert.ok(performance.now() - stopping < 5_000);
  for (const connection of [...idle, ...half]) connection.close();
});
