import assert from "node:assert/strict";
import { libc } from "../base/libc.ts";
import {
  type HttpAnswer,
  type HttpHandler,
  type HttpServer,
  type HttpServerOptions,
  serveHttp,
} from "./http_server.ts";
import { MAX_HEAD } from "./http_request.ts";
import { listenOnLoopback } from "./loopback_listener.ts";
import { type ListeningProcess, processorMs, startListening } from "./testing/listening_process.ts";

const encoder = new TextEncoder();
const OK: HttpAnswer = { status: 200, body: "{}" };

interface Served extends AsyncDisposable {
  readonly port: number;
  readonly server: HttpServer;
}

/** A server of this process, closed at the end of its test. */
function served(handler: HttpHandler, options: Partial<HttpServerOptions> = {}, c = libc()): Served {
  const listener = listenOnLoopback(c, 0);
  assert.ok(typeof listener !== "number");
  const server = serveHttp(c, listener, { handler, requestMs: 10_000, maxConnections: 512, ...options });
  return { port: listener.port, server, [Symbol.asyncDispose]: () => server.close(0) };
}

function get(path: string, fields = ""): string {
  return `GET ${path} HTTP/1.1\r\nhost: localhost\r\n${fields}\r\n`;
}

function connect(port: number): Promise<Deno.TcpConn> {
  return Deno.connect({ hostname: "127.0.0.1", port });
}

async function send(connection: Deno.TcpConn, text: string): Promise<void> {
  for (let rest = encoder.encode(text); rest.length > 0;) rest = rest.subarray(await connection.write(rest));
}

/** Reads until there are so many answers; what came, and nothing more when the connection was ended before. */
async function answers(connection: Deno.TcpConn, count: number): Promise<readonly string[]> {
  const decoder = new TextDecoder();
  const buffer = new Uint8Array(65_536);
  let text = "";
  const whole: string[] = [];
  for (;;) {
    for (let end = text.indexOf("\r\n\r\n"); end >= 0; end = text.indexOf("\r\n\r\n")) {
      const length = Number(/content-length: (\d+)/.exec(text)![1]);
      if (text.length < end + 4 + length) break;
      whole.push(text.slice(0, end + 4 + length));
      text = text.slice(end + 4 + length);
    }
    if (whole.length >= count) return whole;
    const got = await connection.read(buffer).catch(() => null);
    if (got === null) return whole;
    text += decoder.decode(buffer.subarray(0, got));
  }
}

/** Whether the server has ended a connection, cleanly or not. */
async function isEnded(connection: Deno.TcpConn): Promise<boolean> {
  return await connection.read(new Uint8Array(1)).catch(() => null) === null;
}

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

async function until(what: string, holds: () => boolean): Promise<void> {
  for (const end = Date.now() + 10_000; !holds(); await pause(2)) assert.ok(Date.now() < end, what);
}

/** Descriptors of this process that are sockets or wait for some. */
function openSockets(): number {
  let count = 0;
  for (const { name } of Deno.readDirSync("/proc/self/fd")) {
    try {
      if (/^socket:|eventpoll/.test(Deno.readLinkSync(`/proc/self/fd/${name}`))) count++;
    } catch {
      // The one that lists them.
    }
  }
  return count;
}

/** A handler whose answers a test gives. */
function heldBack() {
  const waiting: PromiseWithResolvers<HttpAnswer>[] = [];
  const handler: HttpHandler = ({ target }) => {
    if (target === "/now") return OK;
    waiting.push(Promise.withResolvers<HttpAnswer>());
    return waiting.at(-1)!.promise;
  };
  return { waiting, handler };
}

Deno.test("an answer whose client has gone reaches nobody, and whoever came in its place gets their own", async () => {
  const { waiting, handler } = heldBack();
  const before = openSockets();
  {
    await using at = served(handler);
    for (const way of ["closed", "reset"] as const) {
      const gone = await connect(at.port);
      await send(gone, get("/later"));
      await until("the handler is asked", () => waiting.length === 1);
      // Unread bytes make a close a reset.
      if (way === "reset") await send(gone, get("/more"));
      gone.close();
      await pause(20);
      const others = await Promise.all(Array.from({ length: 8 }, () => connect(at.port)));
      waiting.pop()!.resolve({ status: 200, body: '{"for":"nobody"}' });
      await pause(20);
      for (const other of others) {
        await send(other, get("/now"));
        assert.match((await answers(other, 1))[0]!, /\r\n\r\n\{\}$/);
        other.close();
      }
    }
  }
  assert.equal(openSockets(), before);
});

Deno.test("a handler that fails ends its connection and no other", async () => {
  const { waiting, handler } = heldBack();
  await using at = served(handler);
  using failing = await connect(at.port);
  using other = await connect(at.port);
  await send(failing, get("/later") + get("/now"));
  await until("the handler is asked", () => waiting.length === 1);
  waiting[0]!.reject(new TypeError("a defect"));
  assert.ok(await isEnded(failing));
  await send(other, get("/now"));
  assert.equal((await answers(other, 1)).length, 1);
});

Deno.test("what is read when the server closes is answered and its connection ended; what waits is cut", async () => {
  const { waiting, handler } = heldBack();
  const before = openSockets();
  const at = served(handler);
  const asking = await connect(at.port);
  const idle = await connect(at.port);
  const half = await connect(at.port);
  await send(asking, get("/later") + get("/now"));
  await send(half, "GET /now HTTP/1.1\r\nho");
  await until("the handler is asked", () => waiting.length === 1);
  let hasClosed = false;
  const closed = at.server.close(10_000).then(() => hasClosed = true);
  assert.ok(await isEnded(idle));
  assert.ok(await isEnded(half));
  await assert.rejects(connect(at.port), Deno.errors.ConnectionRefused);
  assert.ok(!hasClosed, "it waits for the answer");
  waiting[0]!.resolve(OK);
  // The second request was never read: the first answer says so.
  const got = await answers(asking, 2);
  assert.equal(got.length, 1);
  assert.match(got[0]!, /\r\nconnection: close\r\n/);
  await closed;
  for (const connection of [asking, idle, half]) connection.close();
  assert.equal(openSockets(), before);
});

Deno.test("an answer that comes after the grace is over is nobody's, and closing twice is closing once", async () => {
  const { waiting, handler } = heldBack();
  const before = openSockets();
  const at = served(handler);
  const asking = await connect(at.port);
  await send(asking, get("/later"));
  await until("the handler is asked", () => waiting.length === 1);
  const start = performance.now();
  await Promise.all([at.server.close(50), at.server.close(50)]);
  assert.ok(performance.now() - start < 5_000);
  assert.ok(await isEnded(asking));
  asking.close();
  assert.equal(openSockets(), before);
  // Its number may be somebody else's by now.
  using taken = await Deno.open("/dev/null", { write: true });
  waiting[0]!.resolve(OK);
  await pause(20);
  assert.equal(await taken.write(encoder.encode("x")), 1);
});

Deno.test("closing under load answers each request whole or cuts it, and leaves no descriptor", async () => {
  const body = JSON.stringify({ text: "x".repeat(3_000) });
  for (let round = 0; round < 5; round++) {
    const before = openSockets();
    let asked = 0;
    const at = served(({ target }) => {
      asked++;
      return target === "/later" ? pause(1).then(() => ({ status: 200, body })) : { status: 200, body };
    });
    let whole = 0;
    let isClosing = false;
    const clients = Array.from({ length: 40 }, async (_, client) => {
      // Those that come while it closes are refused or cut.
      for (let count = 0; !isClosing || count === 0; count++) {
        const connection = await connect(at.port).catch(() => null);
        if (connection === null) return;
        for (let last = count === 0;; last = false) {
          const sent = send(connection, get(client % 2 === 0 ? "/later" : "/now")).catch(() => {});
          const [answer] = await answers(connection, 1);
          await sent;
          if (answer === undefined) break;
          assert.equal(answer.slice(answer.indexOf("\r\n\r\n") + 4), body);
          whole++;
          if (!last && client % 4 < 2) break;
        }
        connection.close();
      }
    });
    await until("it is busy", () => whole > 200);
    const closing = at.server.close(10_000);
    isClosing = true;
    const start = performance.now();
    await closing;
    assert.ok(performance.now() - start < 5_000, "nobody was waited for in vain");
    await Promise.all(clients);
    // An answer that was cut in the kernel was made all the same.
    assert.ok(asked >= whole && asked - whole <= 40, `${asked} asked, ${whole} whole answers`);
    assert.equal(openSockets(), before);
  }
});

Deno.test("requests that come together are answered in their order, late answers among them", async () => {
  const seen: string[] = [];
  await using at = served(({ target }) => {
    seen.push(target);
    const answer = { status: 200, body: JSON.stringify({ target }) };
    return target.includes("late") ? pause(5).then(() => answer) : answer;
  });
  using connection = await connect(at.port);
  const targets = Array.from({ length: 500 }, (_, index) => index % 50 === 7 ? `/late${index}` : `/${index}`);
  const sent = send(connection, targets.map((target) => get(target)).join(""));
  const got = await answers(connection, targets.length);
  await sent;
  assert.deepEqual(seen, targets);
  assert.deepEqual(got.map((text) => JSON.parse(text.slice(text.indexOf("\r\n\r\n") + 4)).target), targets);
});

Deno.test("an answer does not wait until the one before it was acknowledged", async () => {
  await using at = served(() => OK);
  using connection = await connect(at.port);
  connection.setNoDelay(true);
  const took: number[] = [];
  for (let round = 0; round < 30; round++) {
    const start = performance.now();
    await send(connection, get("/a") + get("/b") + get("/c"));
    assert.equal((await answers(connection, 3)).length, 3);
    took.push(performance.now() - start);
  }
  // Acknowledgements are held back for 40 ms.
  assert.ok(took.toSorted((a, b) => a - b)[15]! < 20, `${took}`);
});

Deno.test("a head that comes a byte at a time is read; the same one again, whole or in any two parts, too", async () => {
  await using at = served(({ target, fields }) => ({ status: 200, body: JSON.stringify([target, fields.get("x")]) }));
  using connection = await connect(at.port);
  connection.setNoDelay(true);
  const request = get("/a", "x: 1\r\n");
  const other = get("/a", "x: 2\r\n");
  const answered = async (value: string) =>
    assert.ok((await answers(connection, 1))[0]!.endsWith(`["/a","${value}"]`), value);
  for (const byte of request) {
    await send(connection, byte);
    await pause(0);
  }
  await answered("1");
  for (let cut = 1; cut < request.length; cut++) {
    await send(connection, request.slice(0, cut));
    await pause(1);
    // What follows may differ from the request before it in any place.
    await send(connection, (cut % 2 === 0 ? request : other).slice(cut));
    await answered(cut % 2 === 0 || cut > request.indexOf("x: 1") + 3 ? "1" : "2");
  }
});

Deno.test("requests behind a body in chunks are read from its end on", async () => {
  await using at = served(({ target, content }) => {
    const answer = { status: 200, body: JSON.stringify([target, new TextDecoder().decode(content)]) };
    return target === "/late" ? pause(5).then(() => answer) : answer;
  });
  using connection = await connect(at.port);
  const chunked = (target: string) =>
    `POST ${target} HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n2\r\nab\r\n1;x=y\r\nc\r\n0\r\nt: 1\r\n\r\n`;
  const text = chunked("/late") + get("/1") + chunked("/now") + chunked("/late") + get("/2");
  for (let cut = 0; cut < text.length; cut += 7) {
    await send(connection, text.slice(0, cut));
    await pause(1);
    await send(connection, text.slice(cut));
    const got = await answers(connection, 5);
    assert.deepEqual(got.map((answer) => JSON.parse(answer.slice(answer.indexOf("\r\n\r\n") + 4))), [
      ["/late", "abc"],
      ["/1", ""],
      ["/now", "abc"],
      ["/late", "abc"],
      ["/2", ""],
    ], `cut at ${cut}`);
  }
});

Deno.test("a reader that is slow gets all of its answers, and holds up nobody", async () => {
  // More than the system's buffers take.
  const body = JSON.stringify({ text: "x".repeat(8 << 20) });
  await using at = served(({ target }) => target === "/large" ? { status: 200, body } : OK);
  using slow = await connect(at.port);
  await send(slow, get("/large") + get("/small"));
  await pause(50);
  using other = await connect(at.port);
  let got = 0;
  const buffer = new Uint8Array(256 * 1024);
  let tail = "";
  const decoder = new TextDecoder("latin1");
  while (!tail.endsWith("\r\n\r\n{}")) {
    const count = await slow.read(buffer);
    assert.ok(count !== null);
    got += count;
    tail = (tail + decoder.decode(buffer.subarray(Math.max(0, count - 200), count))).slice(-200);
    await send(other, get("/now"));
    assert.equal((await answers(other, 1)).length, 1);
  }
  assert.ok(got > body.length);
  await send(slow, get("/small"));
  assert.equal((await answers(slow, 1)).length, 1);
});

Deno.test("an answer that is not taken in time ends its connection, a head that is not sent is told", async () => {
  const body = JSON.stringify({ text: "x".repeat(8 << 20) });
  await using at = served(({ target }) => target === "/large" ? { status: 200, body } : OK, { requestMs: 300 });
  using never = await connect(at.port);
  using half = await connect(at.port);
  using idle = await connect(at.port);
  await send(never, get("/large"));
  await send(half, get("/small") + "GET /sm");
  const got = await answers(half, 3);
  assert.deepEqual(got.map((text) => text.split(" ")[1]), ["200", "408"]);
  assert.ok(await isEnded(idle));
  await pause(1_000);
  // What lies in the buffers is still there to be read; the rest never comes.
  let read = 0;
  const buffer = new Uint8Array(1 << 20);
  for (let count = await never.read(buffer); count !== null; count = await never.read(buffer).catch(() => null)) {
    read += count;
  }
  assert.ok(read < body.length);
});

Deno.test("a refusal reaches its reader although much more was sent", async () => {
  await using at = served(() => OK);
  for (const size of [MAX_HEAD, 4 * MAX_HEAD, 20 * MAX_HEAD]) {
    using connection = await connect(at.port);
    const sent = send(connection, `GET /a HTTP/1.1\r\nhost: a\r\nx: ${"a".repeat(size)}\r\n\r\n`).catch(() => {});
    assert.match((await answers(connection, 1))[0]!, /^HTTP\/1\.1 431 /);
    await sent;
  }
});

Deno.test("an answer that is not ASCII is as long as it says", async () => {
  await using at = served(() => ({ status: 200, body: '{"text":"é€😀"}' }));
  using connection = await connect(at.port);
  await send(connection, get("/a") + get("/b", "connection: close\r\n"));
  const bytes = new Uint8Array(await new Response(connection.readable).arrayBuffer());
  const text = new TextDecoder().decode(bytes);
  assert.deepEqual([...text.matchAll(/content-length: (\d+)/g)].map((match) => match[1]), ["20", "20"]);
  assert.ok(text.endsWith('{"text":"é€😀"}'));
});

Deno.test("what is done once the server has settled is done once: behind the first answer, or after a while", async () => {
  const order: string[] = [];
  const options = (afterMs: number) => ({ settled: { afterMs, work: () => void order.push("settled") } });
  {
    await using at = served(({ target }) => (order.push(target), OK), options(60_000));
    using connection = await connect(at.port);
    await pause(30);
    assert.deepEqual(order, []);
    for (const target of ["/1", "/2"]) {
      await send(connection, get(target));
      assert.equal((await answers(connection, 1)).length, 1);
      await pause(30);
    }
  }
  assert.deepEqual(order.splice(0), ["/1", "settled", "/2"]);
  await using _at = served(() => OK, options(50));
  await pause(20);
  assert.deepEqual(order, []);
  await until("it has settled", () => order.length > 0);
  await pause(100);
  assert.deepEqual(order, ["settled"]);
});

Deno.test("requests that came together share a moment; what was sent behind one of them has a later one", async () => {
  const moments: number[] = [];
  await using at = served(({ target, moment }) => {
    moments.push(moment);
    return target === "/late" ? pause(5).then(() => OK) : OK;
  });
  using connection = await connect(at.port);
  await send(connection, get("/1") + get("/2") + get("/late") + get("/3"));
  assert.equal((await answers(connection, 4)).length, 4);
  assert.deepEqual(moments, moments.toSorted((a, b) => a - b));
  assert.equal(new Set(moments.splice(0)).size, 4);
  const many = await Promise.all(Array.from({ length: 30 }, () => connect(at.port)));
  // Held up until all have come.
  await send(connection, get("/1"));
  await answers(connection, 1);
  const start = performance.now();
  const sent = many.map((each) => send(each, get("/1")));
  while (performance.now() - start < 20);
  await Promise.all(sent);
  await Promise.all(many.map((each) => answers(each, 1)));
  for (const each of many) each.close();
  assert.equal(moments.length, 31);
  assert.ok(new Set(moments).size < 31, `${moments}`);
});

/** The calls of this process, which count the connections that are accepted and not closed. */
function counting() {
  const calls = libc();
  const open = new Set<number>();
  let inARow = 0;
  const counts = { open, most: 0, accepted: 0, mostInARow: 0 };
  const accept = (listener: number): number => {
    const fd = calls.accept(listener);
    inARow = fd < 0 ? 0 : inARow + 1;
    if (fd < 0) return fd;
    counts.accepted++;
    counts.mostInARow = Math.max(counts.mostInARow, inARow);
    counts.most = Math.max(counts.most, open.add(fd).size);
    return fd;
  };
  const close = (fd: number): number => {
    open.delete(fd);
    return calls.close(fd);
  };
  const c = new Proxy(calls, {
    get(target, name) {
      if (name === "accept") return accept;
      if (name === "close") return close;
      const value = Reflect.get(target, name);
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
  return { c, counts };
}

Deno.test("at no moment are there more connections than may be, besides the one for which another is ended", async () => {
  const maxConnections = 8;
  const { c, counts } = counting();
  const { waiting, handler } = heldBack();
  await using at = served(handler, { maxConnections }, c);
  const open: Deno.TcpConn[] = [];
  try {
    // Some say nothing, some half of it; some are refused and still listened to, some wait for their answer.
    for (const text of ["", "GET /no", "no request\r\n\r\n", get("/later"), get("/now")]) {
      const come = await Promise.all(Array.from({ length: 100 }, () => connect(at.port)));
      open.push(...come);
      await Promise.all(come.map((connection) => send(connection, text).catch(() => {})));
      // Accepted behind all of them.
      using last = await connect(at.port);
      await send(last, get("/now", "connection: close\r\n"));
      assert.equal((await answers(last, 1)).length, 1);
    }
    assert.ok(waiting.length > 0, "some wait for their answer");
    assert.equal(counts.accepted, 5 * 101);
    assert.ok(counts.mostInARow > maxConnections, `${counts.mostInARow} came at once`);
    assert.equal(counts.most, maxConnections + 1);
    assert.equal(counts.open.size, maxConnections - 1);
  } finally {
    for (const connection of open) connection.close();
  }
  for (const { resolve } of waiting) resolve(OK);
  await until("all of them are closed", () => counts.open.size === 0);
});

/** A server in a process that may have so many descriptors. */
async function starved(descriptors: number): Promise<ListeningProcess> {
  const program = new URL("testing/starved_server.ts", import.meta.url).pathname;
  const config = new URL("../deno.json", import.meta.url).pathname;
  const limited = ["sh", "-c", 'ulimit -n "$0" && exec "$@"', String(descriptors)];
  return await startListening([...limited, Deno.execPath(), "run", "--quiet", "-A", "--config", config, program]);
}

Deno.test("without descriptors the connection that waits longest makes room for the next", async () => {
  await using at = await starved(80);
  const open: Deno.TcpConn[] = [];
  try {
    for (let count = 0; count < 150; count++) {
      const connection = await connect(at.port);
      open.push(connection);
      await send(connection, get("/now"));
      assert.equal((await answers(connection, 1)).length, 1, `connection ${count}`);
    }
    assert.ok(await isEnded(open[0]!));
    // No more of them than there is need for.
    let kept = 0;
    for (const connection of open.slice(-20)) {
      await send(connection, get("/now")).catch(() => {});
      kept += (await answers(connection, 1)).length;
    }
    assert.equal(kept, 20);
  } finally {
    for (const connection of open) connection.close();
  }
});

Deno.test("when others hold all descriptors a connection waits until there is one, and nothing spins", async () => {
  await using at = await starved(80);
  {
    using holding = await connect(at.port);
    await send(holding, get("/hold?1500", "connection: close\r\n"));
    assert.equal((await answers(holding, 1)).length, 1);
    assert.ok(await isEnded(holding));
  }
  await pause(300);
  using first = await connect(at.port);
  const before = processorMs(at.pid);
  const start = performance.now();
  await send(first, get("/now"));
  assert.equal((await answers(first, 1)).length, 1);
  const took = performance.now() - start;
  const spent = processorMs(at.pid) - before;
  assert.ok(took > 500, `${took}`);
  assert.ok(spent < took / 2, `${spent} ms of processor time in ${took} ms`);
  // Nobody was ended in vain.
  await send(first, get("/now"));
  assert.equal((await answers(first, 1)).length, 1);
});
