import assert from "node:assert/strict";
import fc from "fast-check";
import { HttpError } from "./http_error.ts";
import { type PlainRequest, type PlainResponse, sendPlain } from "./plain_http.ts";
import { BROKEN_ANSWERS, WHOLE_ANSWERS } from "../tests/support/http_answers.ts";
import { answering, readHead, withPeer, writeAll } from "../tests/support/http_peer.ts";

const BOUNDS = { connectMs: 2_000, silenceMs: 2_000 };

function get(port: number, more: Partial<PlainRequest> = {}): Promise<PlainResponse> {
  return sendPlain({ method: "GET", host: "127.0.0.1", port, path: "/", ...BOUNDS, ...more });
}

/** The kind of failure of a request, or of reading its body. */
async function failureOf(work: () => Promise<unknown>): Promise<string> {
  try {
    await work();
  } catch (error) {
    if (error instanceof HttpError) return error.kind;
    throw error;
  }
  return "none";
}

Deno.test("a request is what it says: host, length, nothing of its own but connection: close", async () => {
  await withPeer(answering("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"), async (port, seen) => {
    const response = await sendPlain({
      method: "POST",
      host: "127.0.0.1",
      port,
      path: "/a?b",
      headers: [["content-type", "application/json"], ["a2a-version", "1.0"]],
      body: "ä",
      ...BOUNDS,
    });
    assert.equal(response.status, 200);
    assert.equal(await response.text(10), "ok");
    assert.equal(
      seen(),
      `POST /a?b HTTP/1.1\r\nhost: 127.0.0.1:${port}\r\nconnection: close\r\ncontent-type: application/json\r\n` +
        "a2a-version: 1.0\r\ncontent-length: 2\r\n\r\nä",
    );
  });
});

Deno.test("a header that would end its line is not sent", async () => {
  for (const header of [["x-a", "1\r\nx-b: 2"], ["x-a\r\nx-b", "1"], ["x a", "1"], ["x-a", "\u0000"]] as const) {
    assert.equal(await failureOf(() => get(1, { headers: [header] })), "invalid-request");
  }
});

Deno.test("a body is the same however it is framed and wherever it is cut", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.constantFrom(...Object.values(WHOLE_ANSWERS)),
      fc.array(fc.nat(160), { maxLength: 6 }),
      fc.boolean(),
      async ({ bytes, text }, cuts, whole) => {
        await withPeer(answering(bytes, cuts.toSorted((a, b) => a - b)), async (port) => {
          const response = await get(port);
          if (whole) assert.equal(await response.text(100), text);
          else {
            const decoder = new TextDecoder();
            let joined = "";
            for await (const piece of response.pieces()) joined += decoder.decode(piece, { stream: true });
            assert.equal(joined, text);
          }
        });
      },
    ),
    { numRuns: 40 },
  );
});

Deno.test("what is no whole answer is a failure, and says which", async () => {
  for (const { bytes, kind } of BROKEN_ANSWERS) {
    await withPeer(answering(bytes), async (port) => {
      assert.equal(await failureOf(async () => await (await get(port)).text(100)), kind, bytes.slice(0, 60));
    });
  }
});

Deno.test("a door that takes no connection, is silent, or dawdles past the deadline", async () => {
  using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const { port } = listener.addr;
  listener.close();
  assert.equal(await failureOf(() => get(port)), "connection-refused");

  const silent = async (conn: Deno.TcpConn) => {
    await readHead(conn);
    await conn.read(new Uint8Array(1));
  };
  await withPeer(silent, async (port) => {
    const before = Date.now();
    assert.equal(await failureOf(() => get(port, { silenceMs: 50 })), "connection-timeout");
    assert.ok(Date.now() - before < 1_000);
  });

  const dripping = async (conn: Deno.TcpConn) => {
    await readHead(conn);
    for (const letter of `HTTP/1.1 200 OK\r\n\r\n${"y".repeat(400)}`) {
      await writeAll(conn, letter);
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
  };
  await withPeer(dripping, async (port) => {
    const before = performance.now();
    const failure = await failureOf(async () => {
      await (await get(port, { silenceMs: 1_000, deadline: before + 200 })).text(1_000);
    });
    assert.equal(failure, "connection-timeout");
    assert.ok(performance.now() - before < 900);
  });
});

Deno.test("many requests keep their own bounds", async () => {
  const silent = async (conn: Deno.TcpConn) => {
    await readHead(conn);
    await conn.read(new Uint8Array(1));
  };
  await withPeer(silent, async (slow) => {
    await withPeer(answering("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"), async (quick) => {
      const kinds = await Promise.all([
        failureOf(() => get(slow, { silenceMs: 150 })),
        failureOf(() => get(slow, { silenceMs: 50 })),
        failureOf(async () => await (await get(quick, { silenceMs: 300 })).text(9)),
      ]);
      assert.deepEqual(kinds, ["connection-timeout", "connection-timeout", "none"]);
    });
  });
});

Deno.test("a request is given up before, while it waits, and while its body is read", async () => {
  const given = new AbortController();
  given.abort();
  assert.equal(await failureOf(() => get(1, { signal: given.signal })), "aborted");
  const half = async (conn: Deno.TcpConn) => {
    await readHead(conn);
    await writeAll(conn, "HTTP/1.1 200 OK\r\n\r\nhalf");
    await conn.read(new Uint8Array(1));
  };
  await withPeer(half, async (port) => {
    const giving = new AbortController();
    const response = await get(port, { signal: giving.signal });
    let read = "";
    const failure = await failureOf(async () => {
      for await (const piece of response.pieces()) {
        read += new TextDecoder().decode(piece);
        setTimeout(() => giving.abort(), 10);
      }
    });
    assert.deepEqual([read, failure], ["half", "aborted"]);
  });
});

Deno.test("leaving the loop closes the connection", async () => {
  let closed = false;
  const endless = async (conn: Deno.TcpConn) => {
    await readHead(conn);
    await writeAll(conn, "HTTP/1.1 200 OK\r\n\r\nhalf");
    closed = await conn.read(new Uint8Array(1)).then((count) => count === null, () => true);
  };
  await withPeer(endless, async (port) => {
    for await (const _ of (await get(port)).pieces()) break;
    for (let count = 0; count < 100 && !closed; count++) await new Promise((resolve) => setTimeout(resolve, 5));
    assert.ok(closed);
  });
});

Deno.test("a refusal that comes before the body was taken is read", async () => {
  const refusing = async (conn: Deno.TcpConn) => {
    await readHead(conn);
    await writeAll(conn, "HTTP/1.1 413 Content Too Large\r\ncontent-length: 3\r\n\r\nbig");
    // The other side sees the answer instead of a reset, as a door sees to it.
    const buffer = new Uint8Array(65_536);
    while (await conn.read(buffer) !== null);
  };
  await withPeer(refusing, async (port) => {
    const response = await sendPlain({
      method: "POST",
      host: "127.0.0.1",
      port,
      path: "/",
      body: "y".repeat(8 << 20),
      ...BOUNDS,
    });
    assert.equal(response.status, 413);
    assert.equal(await response.text(10), "big");
  });
});

Deno.test("localhost is also the IPv6 loopback", async (t) => {
  let v6 = true;
  try {
    Deno.listen({ hostname: "::1", port: 0 }).close();
  } catch {
    v6 = false;
  }
  await t.step({
    name: "a door on ::1",
    ignore: !v6,
    fn: () =>
      withPeer(
        answering("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"),
        async (port, seen) => {
          assert.equal(await (await get(port, { host: "localhost" })).text(9), "ok");
          assert.ok(seen().includes(`host: localhost:${port}\r\n`));
          assert.equal(await (await get(port, { host: "::1" })).text(9), "ok");
          assert.ok(seen().includes(`host: [::1]:${port}\r\n`));
        },
        "::1",
      ),
  });
});
