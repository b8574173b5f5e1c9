import assert from "node:assert/strict";
import { type AddressInfo, createServer } from "node:net";
import { BROKEN_ANSWERS, WHOLE_ANSWERS } from "../tests/support/http_answers.ts";
import { answering, readHead, withPeer, writeAll } from "../tests/support/http_peer.ts";
import { until } from "../tests/support/process_tree.ts";
import { exchangeConcurrently, type ExchangeRequest } from "./concurrent_exchanges.ts";
import { HttpError } from "./http_error.ts";
import { libc } from "./libc.ts";
import { type ExchangeOutcome, exchangeOutcome } from "./plain_http.ts";
import { ADDRESS_FAMILY, LOOPBACK, portOfAddress, socketAddress } from "./socket_address.ts";

const MAX = 100;

function get(port: number, more: Partial<ExchangeRequest> = {}): ExchangeRequest {
  return { method: "GET", host: "127.0.0.1", port, path: "/", connectMs: 2_000, silenceMs: 2_000, ...more };
}

function told(outcome: ExchangeOutcome): unknown {
  if (outcome instanceof HttpError) return [outcome.kind, outcome.message];
  return [outcome.status, [...outcome.headers], outcome.text];
}

/** What becomes of one request, which must be what becomes of it by Deno's connections. */
async function exchanged(request: ExchangeRequest, { alike = true } = {}): Promise<ExchangeOutcome> {
  const [outcome] = await exchangeConcurrently(libc(), [request], MAX);
  if (alike) assert.deepEqual(told(outcome!), told(await exchangeOutcome(request, MAX)));
  return outcome!;
}

function kindOf(outcome: ExchangeOutcome): string {
  return outcome instanceof HttpError ? outcome.kind : "none";
}

function descriptors(): number {
  return [...Deno.readDirSync("/proc/self/fd")].length;
}

/** Reads the request and then never answers. */
async function silent(conn: Deno.TcpConn): Promise<void> {
  await readHead(conn);
  await conn.read(new Uint8Array(1));
}

Deno.test("answers are read however they are framed and cut, and failures told, as by Deno's connections", async () => {
  for (const { bytes, text } of Object.values(WHOLE_ANSWERS)) {
    for (const cuts of [[], [1], [17, 40, 60], Array.from({ length: 40 }, (_, at) => 3 * at)]) {
      await withPeer(answering(bytes, cuts), async (port) => {
        const outcome = await exchanged(get(port));
        assert.deepEqual(outcome instanceof HttpError ? outcome : [outcome.status, outcome.text], [200, text]);
      });
    }
  }
  for (const { bytes, kind } of BROKEN_ANSWERS) {
    await withPeer(answering(bytes), async (port) => {
      assert.equal(kindOf(await exchanged(get(port))), kind, bytes.slice(0, 60));
    });
  }
});

Deno.test("what is sent is the request, with a body that takes many writes", async () => {
  const body = "ä".repeat(3 << 20);
  let received = 0;
  const counting = async (conn: Deno.TcpConn, seen: (text: string) => void) => {
    const buffer = new Uint8Array(65_536);
    const expected = 2 * body.length;
    let head = "";
    while (!head.includes("\r\n\r\n")) {
      head += new TextDecoder("latin1").decode(buffer.subarray(0, (await conn.read(buffer))!));
    }
    const end = head.indexOf("\r\n\r\n") + 4;
    seen(head.slice(0, end));
    received = head.length - end;
    while (received < expected) received += (await conn.read(buffer)) ?? assert.fail("it broke off");
    await writeAll(conn, "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
  };
  await withPeer(counting, async (port, seen) => {
    const request = get(port, { method: "POST", path: "/a?b", headers: [["x-a", "1"]], body });
    assert.equal(kindOf(await exchanged(request, { alike: false })), "none");
    assert.equal(received, 2 * body.length);
    assert.equal(
      seen(),
      `POST /a?b HTTP/1.1\r\nhost: 127.0.0.1:${port}\r\nconnection: close\r\nx-a: 1\r\ncontent-length: ${received}\r\n\r\n`,
    );
  });
  const [refused] = await exchangeConcurrently(libc(), [get(1, { headers: [["x-a", "1\r\nx-b: 2"]] })], MAX);
  assert.equal(kindOf(refused!), "invalid-request");
});

Deno.test("a refusal that comes before the body was taken is read", async () => {
  const refusing = async (conn: Deno.TcpConn) => {
    await readHead(conn);
    await writeAll(conn, "HTTP/1.1 413 Content Too Large\r\ncontent-length: 3\r\n\r\nbig");
    const buffer = new Uint8Array(65_536);
    while (await conn.read(buffer) !== null);
  };
  await withPeer(refusing, async (port) => {
    const outcome = await exchanged(get(port, { method: "POST", body: "y".repeat(8 << 20) }));
    assert.deepEqual(outcome instanceof HttpError ? outcome : [outcome.status, outcome.text], [413, "big"]);
  });
});

Deno.test("a door that is not there, closes at once, or breaks its connection off", async () => {
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const { port } = listener.addr;
  listener.close();
  for (const host of ["127.0.0.1", "localhost"]) {
    const outcome = await exchanged(get(port, { host }));
    assert.deepEqual(told(outcome), ["connection-refused", `${host}:${port} refused the connection`]);
  }
  // Only names and this machine are connected to: an address nobody can be at is told as it is by Deno.
  await exchanged(get(port, { host: "255.255.255.255" }), { alike: false }).then((outcome) =>
    assert.ok(outcome instanceof HttpError && outcome.kind === "unreachable", String(outcome))
  );
  await withPeer(() => Promise.resolve(), async (port) => {
    assert.equal(kindOf(await exchanged(get(port), { alike: false })), "connection-terminated");
  });
});

Deno.test("a connection that is reset is no end of an answer", async () => {
  for (
    const head of [
      "HTTP/1.1 200 OK\r\n\r\nhalf",
      "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf",
      "HTTP/1.1 200",
      "",
    ]
  ) {
    for (const body of [undefined, "y".repeat(8 << 20)]) {
      const server = createServer((socket) => {
        socket.on("error", () => {});
        socket.once("data", () => {
          socket.pause();
          socket.write(head);
          setTimeout(() => socket.resetAndDestroy(), 20);
        });
      });
      await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
      const { port } = server.address() as AddressInfo;
      const request = get(port, { method: "POST", ...(body === undefined ? {} : { body }) });
      assert.deepEqual(told(await exchanged(request, { alike: body === undefined })), [
        "connection-terminated",
        `127.0.0.1:${port} closed the connection`,
      ]);
      await new Promise((resolve) => server.close(resolve));
    }
  }
});

Deno.test("localhost is also the IPv6 loopback, and a name is looked up", async (t) => {
  let v6 = true;
  try {
    Deno.listen({ hostname: "::1", port: 0 }).close();
  } catch {
    v6 = false;
  }
  const ok = answering("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
  await t.step({
    name: "a door on ::1",
    ignore: !v6,
    fn: () =>
      withPeer(ok, async (port, seen) => {
        assert.equal(kindOf(await exchanged(get(port, { host: "localhost" }))), "none");
        assert.ok(seen().includes(`host: localhost:${port}\r\n`));
        assert.equal(kindOf(await exchanged(get(port, { host: "::1" }))), "none");
        assert.ok(seen().includes(`host: [::1]:${port}\r\n`));
      }, "::1"),
  });
  assert.equal(kindOf(await exchanged(get(1, { host: "no-such-name.invalid" }), { alike: false })), "unreachable");
});

Deno.test("each keeps its own bounds, and all of them the last one", async () => {
  await withPeer(silent, async (slow) => {
    await withPeer(answering("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"), async (quick) => {
      const begun = performance.now();
      const outcomes = await exchangeConcurrently(libc(), [
        get(slow, { silenceMs: 150 }),
        get(slow, { silenceMs: 50 }),
        get(quick),
        get(slow, { silenceMs: 5_000, deadline: begun + 200 }),
      ], MAX);
      assert.ok(performance.now() - begun < 4_000);
      const where = `127.0.0.1:${slow}`;
      assert.deepEqual(outcomes.map((each) => each instanceof HttpError ? each.message : each.text), [
        `${where} said nothing for 150 ms`,
        `${where} said nothing for 50 ms`,
        "ok",
        `${where} did not answer in time`,
      ]);
      assert.deepEqual(outcomes.map(kindOf), [
        "connection-timeout",
        "connection-timeout",
        "none",
        "connection-timeout",
      ]);
    });
  });
});

Deno.test("neither a door that drips nor one that floods is waited for longer", async () => {
  // In a process of its own: it goes on while its answers are read.
  const program = (play: string) => `
    const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
    console.log(listener.addr.port);
    const bytes = new TextEncoder().encode("HTTP/1.1 103 Early\\r\\nlink: x\\r\\n\\r\\n".repeat(2_000));
    const serve = async (conn) => {
      await conn.read(new Uint8Array(9_000));
      for (;;) { ${play} }
    };
    for await (const conn of listener) serve(conn).catch(() => {});`;
  const plays = [
    "await conn.write(bytes);",
    "await conn.write(bytes.subarray(0, 3)); await new Promise((resolve) => setTimeout(resolve, 10));",
  ];
  for (const play of plays) {
    const child = new Deno.Command(Deno.execPath(), { args: ["eval", program(play)], stdout: "piped" }).spawn();
    try {
      const reader = child.stdout.getReader();
      const port = Number(new TextDecoder().decode((await reader.read()).value));
      reader.releaseLock();
      const begun = performance.now();
      const request = get(port, { silenceMs: 5_000, deadline: begun + 1_000 });
      // This process answers meanwhile.
      const answered = answering("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
      await withPeer(answered, async (quick) => {
        const outcomes = await exchangeConcurrently(libc(), [...Array(5).fill(request), get(quick)], MAX);
        assert.ok(performance.now() - begun < 10_000);
        const late = ["connection-timeout", `127.0.0.1:${port} did not answer in time`];
        assert.deepEqual(outcomes.slice(0, 5).map(told), Array(5).fill(late));
        assert.equal(kindOf(outcomes[5]!), "none");
      });
    } finally {
      child.kill("SIGKILL");
      await child.stdout.cancel();
      await child.status;
    }
  }
});

Deno.test("a door that takes no connection", async () => {
  const c = libc();
  const fd = c.tcpSocket(ADDRESS_FAMILY[4]);
  const address = socketAddress(LOOPBACK, 0);
  assert.ok(c.bind(fd, address) >= 0 && c.listen(fd, 0) >= 0 && c.getsockname(fd, address) >= 0);
  const port = portOfAddress(address);
  // Nobody accepts: as soon as the queue is full the kernel answers no more.
  const queued = Array.from({ length: 3 }, () => {
    const own = c.tcpSocket(ADDRESS_FAMILY[4]);
    c.connect(own, address);
    return own;
  });
  try {
    const [outcome] = await exchangeConcurrently(c, [get(port, { connectMs: 200 })], MAX);
    assert.deepEqual(told(outcome!), ["connection-timeout", `127.0.0.1:${port} took no connection in 200 ms`]);
  } finally {
    for (const each of [fd, ...queued]) c.close(each);
  }
});

Deno.test("many are answered each in its place, and leave no descriptor behind", async () => {
  const numbered = Deno.serve(
    { hostname: "127.0.0.1", port: 0, onListen: () => {} },
    (request) => new Response(new URL(request.url).pathname),
  );
  const closed = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  closed.close();
  const before = descriptors();
  const requests = Array.from(
    { length: 700 },
    (_, index) =>
      get(index % 7 === 3 ? closed.addr.port : numbered.addr.port, { path: `/${index}`, silenceMs: 20_000 }),
  );
  const outcomes = await exchangeConcurrently(libc(), requests, MAX);
  const expected = requests.map((_, index) => index % 7 === 3 ? "connection-refused" : `/${index}`);
  assert.deepEqual(outcomes.map((each) => each instanceof HttpError ? each.kind : each.text), expected);
  await numbered.shutdown();
  await until("no descriptor is left behind", () => descriptors() <= before);
});

Deno.test("with few descriptors they take turns, and the program ends by itself", async () => {
  const server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen: () => {} }, () => new Response("ok"));
  const url = (name: string) => JSON.stringify(new URL(name, import.meta.url).href);
  const program = `
    import { exchangeConcurrently } from ${url("./concurrent_exchanges.ts")};
    import { libc } from ${url("./libc.ts")};
    // Deno opens what it needs for signals when it comes to it, and panics when it cannot.
    const onSignal = () => {};
    Deno.addSignalListener("SIGUSR2", onSignal);
    const request = { method: "GET", host: "127.0.0.1", port: ${server.addr.port}, path: "/", connectMs: 9000, silenceMs: 9000 };
    const ask = () => exchangeConcurrently(libc(), Array(300).fill(request), 100);
    const some = (await ask()).filter(({ text }) => text === "ok").length;
    const held = [];
    for (let fd = libc().epollCreate(); fd >= 0; fd = libc().epollCreate()) held.push(fd);
    const [none] = (await ask());
    held.splice(0, 3).forEach((fd) => libc().close(fd));
    const one = (await ask()).filter(({ text }) => text === "ok").length;
    Deno.removeSignalListener("SIGUSR2", onSignal);
    console.log(some, none.kind, one);`;
  const config = new URL("../deno.json", import.meta.url).pathname;
  const { stdout, stderr } = await new Deno.Command("sh", {
    args: ["-c", 'ulimit -n 80 && "$@"; true', "sh", Deno.execPath(), "eval", "--config", config, program],
  }).output();
  await server.shutdown();
  assert.equal(new TextDecoder().decode(stdout), "300 unreachable 300\n", new TextDecoder().decode(stderr));
});
