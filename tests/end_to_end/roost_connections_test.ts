/**
 * `mur-roost` and clients that are slow, broken or too many (spec roost 2.4).
 */
import assert from "node:assert/strict";
import { MAX_CONNECTIONS } from "../../roost/http_server.ts";
import { MAX_BODY, MAX_HEAD } from "../../roost/http_request.ts";
import { idleProcess, RoostDaemon, RoostHome } from "../../roost/testing/daemon.ts";
import { until } from "../support/process_tree.ts";

const encoder = new TextEncoder();

async function started(bounds: { roostRequest?: number } = {}) {
  const home = new RoostHome();
  const daemon = await RoostDaemon.start([], { home: home.path, bounds });
  return {
    daemon,
    async [Symbol.asyncDispose]() {
      await daemon[Symbol.asyncDispose]();
      await home[Symbol.asyncDispose]();
    },
  };
}

/**
 * Connections that the daemon holds, each by the inode of its socket: of those that wait to be accepted, or that it closed,
 * nobody has the socket. The kernel writes its table a page at a time: while connections come and go, whosever they are, some
 * rows come twice and others not at all.
 */
function held(port: number): ReadonlySet<string> {
  const [, ...rows] = Deno.readTextFileSync("/proc/net/tcp").trim().split("\n");
  const local = `:${port.toString(16).toUpperCase().padStart(4, "0")}`;
  const inodes = new Set<string>();
  for (const row of rows) {
    const [, address, , state, , , , , , inode] = row.trim().split(/\s+/);
    if (address!.endsWith(local) && state !== TCP_LISTEN && inode !== "0") inodes.add(inode!);
  }
  return inodes;
}

const TCP_LISTEN = "0A";

const connect = (port: number) => Deno.connect({ hostname: "127.0.0.1", port });

/** Everything until the daemon closes. */
async function rest(connection: Deno.TcpConn): Promise<string> {
  const decoder = new TextDecoder();
  let text = "";
  const buffer = new Uint8Array(4_096);
  try {
    for (let count = await connection.read(buffer); count !== null; count = await connection.read(buffer)) {
      text += decoder.decode(buffer.subarray(0, count));
    }
  } catch {
    // Reset.
  }
  return text;
}

Deno.test("heads and bodies are bounded, and the refusal reaches whoever is still sending", async () => {
  await using at = await started();
  const { daemon } = at;
  const fields = "host: localhost\r\n";
  const [head] = await daemon.raw(`GET /health HTTP/1.1\r\n${fields}x: ${"a".repeat(MAX_HEAD)}\r\n\r\n`);
  assert.deepEqual([head!.status, Object.keys(head!.body)], [431, ["error"]]);
  const [many] = await daemon.raw(`GET /health HTTP/1.1\r\n${fields}${"a: b\r\n".repeat(10_000)}\r\n`);
  assert.equal(many!.status, 431);
  const post = (length: number, body: string) =>
    daemon.raw(`POST /spawn HTTP/1.1\r\n${fields}connection: close\r\ncontent-length: ${length}\r\n\r\n${body}`);
  assert.equal((await post(MAX_BODY, "x".repeat(MAX_BODY)))[0]!.status, 400);
  assert.equal((await post(MAX_BODY + 1, ""))[0]!.status, 413);
  assert.equal((await post(1_000_000, "x".repeat(1_000_000)))[0]!.status, 413);
  const chunk = `8000\r\n${"x".repeat(0x8000)}\r\n`;
  const chunked = `POST /spawn HTTP/1.1\r\n${fields}connection: close\r\ntransfer-encoding: chunked\r\n\r\n`;
  assert.equal((await daemon.raw(`${chunked}${chunk}${chunk}0\r\n\r\n`))[0]!.status, 400);
  assert.equal((await daemon.raw(`${chunked}${chunk.repeat(20)}0\r\n\r\n`))[0]!.status, 413);
  const pieces = [...'{"name":"local/a","version":"1"}'].map((letter) => `1\r\n${letter}\r\n`).join("");
  assert.equal((await daemon.raw(`${chunked}${pieces}0\r\n\r\n`))[0]!.status, 403);
  assert.equal((await daemon.request("GET", "/health")).status, 200);
});

Deno.test("what is no request is refused, and its connection closed", async () => {
  await using at = await started();
  for (
    const [text, status] of [
      ["\r\n\r\n", 400],
      ["hello\r\n\r\n", 400],
      ["GET /health HTTP/1.1\r\nhost : localhost\r\n\r\n", 400],
      ["GET /health HTTP/1.1\r\nhost: localhost\r\n folded\r\n\r\n", 400],
      [
        "POST /spawn HTTP/1.1\r\nhost: localhost\r\ncontent-length: 2\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        400,
      ],
      ["POST /spawn HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n", 400],
      ["PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505],
      ["\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400],
    ] as const
  ) {
    const replies = await at.daemon.raw(text);
    assert.deepEqual([replies.length, replies[0]?.status], [1, status], JSON.stringify(text));
  }
});

Deno.test("requests on one connection are answered in their order, until it is to be closed", async () => {
  await using at = await started();
  const health = "GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n";
  const status = "GET /status/x HTTP/1.1\r\nhost: localhost\r\n\r\n";
  const spawn = "POST /spawn HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1\r\n\r\n{";
  const last = "HEAD /health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
  const replies = await at.daemon.raw(health + status + spawn + health + last.replace("HEAD", "GET") + health);
  assert.deepEqual(replies.map(({ status }) => status), [200, 404, 400, 200, 200]);
  // HTTP/1.0 has one request a connection; a HEAD has no body.
  assert.equal((await at.daemon.raw(`GET /health HTTP/1.0\r\nhost: localhost\r\n\r\n${health}`)).length, 1);
  using connection = await connect(at.daemon.port);
  await connection.write(encoder.encode(last));
  assert.match(await rest(connection), /^HTTP\/1\.1 404 .*\r\ncontent-length: 21\r\nconnection: close\r\n\r\n$/s);
});

Deno.test("a body that waits for leave to be sent gets it", async () => {
  await using at = await started();
  using connection = await connect(at.daemon.port);
  await connection.write(encoder.encode(
    "POST /spawn HTTP/1.1\r\nhost: localhost\r\nexpect: 100-continue\r\nconnection: close\r\ncontent-length: 1\r\n\r\n",
  ));
  const buffer = new Uint8Array(100);
  const count = await connection.read(buffer);
  assert.equal(new TextDecoder().decode(buffer.subarray(0, count!)), "HTTP/1.1 100 Continue\r\n\r\n");
  await connection.write(encoder.encode("{"));
  assert.match(await rest(connection), /^HTTP\/1\.1 400 /);
});

Deno.test("a request that does not arrive in time is ended, while others are answered at once", async () => {
  await using at = await started({ roostRequest: 1_000 });
  const { daemon } = at;
  const slow = await connect(daemon.port);
  const idle = await connect(daemon.port);
  const body = await connect(daemon.port);
  await slow.write(encoder.encode("GET /health HTTP/1.1\r\nho"));
  await body.write(encoder.encode("POST /spawn HTTP/1.1\r\nhost: localhost\r\ncontent-length: 10\r\n\r\n{"));
  // A letter now and then does not prolong it.
  const trickle = setInterval(() => slow.write(encoder.encode("s")).catch(() => {}), 100);
  const start = performance.now();
  const ended = Promise.all([rest(slow), rest(idle), rest(body)]);
  const took: number[] = [];
  for (let count = 0; count < 20; count++) {
    const asked = performance.now();
    assert.equal((await daemon.request("GET", "/health")).status, 200);
    took.push(performance.now() - asked);
  }
  const [slowEnd, idleEnd, bodyEnd] = await ended;
  const elapsed = performance.now() - start;
  clearInterval(trickle);
  assert.match(slowEnd, /^HTTP\/1\.1 408 /);
  assert.match(bodyEnd, /^HTTP\/1\.1 408 /);
  assert.equal(idleEnd, "");
  assert.ok(elapsed > 900 && elapsed < 8_000, `${elapsed}`);
  assert.ok(Math.min(...took) < 500, `${took}`);
  for (const connection of [slow, idle, body]) connection.close();
});

Deno.test("a client that does not take its answers is cut off", async () => {
  await using at = await started({ roostRequest: 1_000 });
  const connection = await connect(at.daemon.port);
  const many = encoder.encode("GET /status/x HTTP/1.1\r\nhost: localhost\r\n\r\n".repeat(2_000));
  let sent = 0;
  const start = performance.now();
  try {
    // Never reading: once both buffers are full the daemon waits to write, and this to be read.
    while (performance.now() - start < 20_000) sent += await connection.write(many);
    assert.fail("it was never cut off");
  } catch (error) {
    assert.ok(error instanceof Deno.errors.ConnectionReset || error instanceof Deno.errors.BrokenPipe, String(error));
  }
  connection.close();
  assert.ok(sent > 0);
  assert.equal((await at.daemon.request("GET", "/health")).status, 200);
});

Deno.test("connections are bounded: the one that waits longest makes room, and requests are still answered", async () => {
  // None of them is ended because it took too long to open the others.
  await using at = await started({ roostRequest: 60_000 });
  const { daemon } = at;
  const open: Deno.TcpConn[] = [];
  const health = "GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n";
  const half = "POST /spawn HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: 2\r\n\r\n{";
  const come = async (text: string) => {
    const connection = await connect(daemon.port);
    open.push(connection);
    await connection.write(encoder.encode(text)).catch(() => {});
    return connection;
  };
  // It is accepted behind all that came before: once it is answered the daemon has done with them.
  const ask = async () => {
    const connection = await come(health + half);
    const buffer = new Uint8Array(1_024);
    const count = await connection.read(buffer);
    assert.match(new TextDecoder().decode(buffer.subarray(0, count ?? 0)), /^HTTP\/1\.1 200 /);
  };
  try {
    for (let count = 0; count < MAX_CONNECTIONS + 100; count++) {
      await come(half);
      if (count % 50 === 0) await ask();
    }
    await ask();
    // The daemon is at rest from here on: what was seen once is held.
    const seen = new Set<string>();
    await until("as many connections are held as may be", () => {
      for (const inode of held(daemon.port)) seen.add(inode);
      return seen.size >= MAX_CONNECTIONS;
    });
    assert.equal(seen.size, MAX_CONNECTIONS);
    // The first ones are gone, the last ones are not.
    const answers = await Promise.all(open.map(async (connection) => {
      await connection.write(encoder.encode("}")).catch(() => {});
      return await rest(connection);
    }));
    const gone = open.length - MAX_CONNECTIONS;
    assert.deepEqual(answers.map((answer) => answer.startsWith("HTTP/1.1 ")), open.map((_, index) => index >= gone));
  } finally {
    for (const connection of open) connection.close();
  }
});

Deno.test("clients that come and go without a word leave nothing behind", async () => {
  await using at = await started();
  const { daemon } = at;
  for (let round = 0; round < 10; round++) {
    const connections = await Promise.all(Array.from({ length: 50 }, () => connect(daemon.port)));
    for (const [index, connection] of connections.entries()) {
      if (index % 2 === 0) await connection.write(encoder.encode("GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n"));
      connection.close();
    }
  }
  assert.equal((await daemon.request("GET", "/health")).status, 200);
  // That one is kept for another request.
  await until("no connection is held", () => held(daemon.port).size <= 1);
});

Deno.test("with few descriptors connections leave enough of them to decide by", async () => {
  await using home = new RoostHome();
  await home.install("parent", "capabilities: { spawn: { allow: [local/child] } }\n");
  await home.install("child");
  const under = ["sh", "-c", 'ulimit -n 120 && exec "$0" "$@"'];
  const args = ["--spawn-allow", "local/parent", "--max-live-capsules", "100"];
  await using daemon = await RoostDaemon.start(args, { home: home.path, under });
  const processes = Array.from({ length: 50 }, idleProcess);
  const open: Deno.TcpConn[] = [];
  try {
    // Its processes alone would take more descriptors than it watches them by.
    const parents = [];
    for (const process of processes) {
      const parent = await daemon.root("parent");
      home.record(parent.id, process.pid);
      parents.push(parent);
    }
    const half = encoder.encode("POST /spawn HTTP/1.1\r\nhost: localhost\r\ncontent-length: 60000\r\n\r\n{");
    for (let count = 0; count < 200; count++) {
      const connection = await connect(daemon.port);
      await connection.write(half).catch(() => {});
      open.push(connection);
    }
    for (const { id, credential } of [parents[0]!, parents.at(-1)!]) {
      assert.equal((await daemon.status(id)).body.status, "running");
      // Read afresh, since it has just changed.
      await home.install("child", `# for ${id}\n`);
      const { status, body } = await daemon.spawn(credential, "child");
      assert.equal(status, 200, JSON.stringify(body));
    }
    assert.equal((await daemon.status(parents[7]!.id)).body.live_capsules, 52);
    processes[7]!.kill("SIGKILL");
    await processes[7]!.status;
    assert.equal((await daemon.status(parents[7]!.id)).body.status, "failed");
    assert.ok(!daemon.stderr.includes('"event":"defect"'), daemon.stderr);
  } finally {
    for (const connection of open) connection.close();
    for (const process of processes) {
      try {
        process.kill("SIGKILL");
      } catch {
        // The one that was killed.
      }
      await process.status;
    }
  }
});
