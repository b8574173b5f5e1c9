import assert from "node:assert/strict";
import fc from "fast-check";
import { HttpError } from "./http_error.ts";
import { parseResponseHead, type PlainRequest, type PlainResponse, sendPlain } from "./plain_http.ts";

/** A peer that plays a connection by hand: what it was sent, and how it answers. */
async function withPeer(
  play: (conn: Deno.TcpConn, seen: (text: string) => void) => Promise<void>,
  work: (port: number, seen: () => string) => Promise<void>,
  hostname = "127.0.0.1",
): Promise<void> {
  using listener = Deno.listen({ hostname, port: 0 });
  let seen = "";
  const serving = (async () => {
    for await (const conn of listener) {
      await play(conn, (text) => seen += text).catch(() => {});
      try {
        conn.close();
      } catch {
        // It was closed by hand.
      }
    }
  })();
  try {
    await work(listener.addr.port, () => seen);
  } finally {
    listener.close();
    await serving.catch(() => {});
  }
}

/** Reads a request's head. */
async function readHead(conn: Deno.TcpConn, seen: (text: string) => void = () => {}): Promise<void> {
  const buffer = new Uint8Array(65_536);
  let text = "";
  while (!text.includes("\r\n\r\n")) {
    const count = await conn.read(buffer);
    if (count === null) return;
    text += new TextDecoder().decode(buffer.subarray(0, count));
  }
  seen(text);
}

async function write(conn: Deno.TcpConn, bytes: Uint8Array | string): Promise<void> {
  let rest = typeof bytes === "string" ? new TextEncoder().encode(bytes) : bytes;
  while (rest.length > 0) rest = rest.subarray(await conn.write(rest));
}

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

/** Answers every request with the same bytes, in pieces cut at the given places, then closes. */
function answering(bytes: string, cuts: readonly number[] = []) {
  return async (conn: Deno.TcpConn, seen: (text: string) => void) => {
    await readHead(conn, seen);
    const whole = new TextEncoder().encode(bytes);
    let at = 0;
    for (const cut of [...cuts, whole.length]) {
      if (cut <= at) continue;
      await write(conn, whole.subarray(at, cut));
      await new Promise((resolve) => setTimeout(resolve, 1));
      at = cut;
    }
  };
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
  const text = "one, zwei: ä\n";
  const size = new TextEncoder().encode(text).length;
  const forms = {
    length: `HTTP/1.1 200 OK\r\nContent-Length: ${size}\r\n\r\n${text}`,
    end: `HTTP/1.1 200 OK\r\n\r\n${text}`,
    chunked: `HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4;ext=1\r\none,\r\n${(size - 4).toString(16)}\r\n${
      text.slice(4)
    }\r\n0\r\ntrailer: x\r\n\r\n`,
    interim: `HTTP/1.1 103 Early\r\nlink: x\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: ${size}\r\n\r\n${text}`,
    bare: `HTTP/1.0 200\ncontent-length: ${size}\n\n${text}`,
  };
  await fc.assert(
    fc.asyncProperty(
      fc.constantFrom(...Object.values(forms)),
      fc.array(fc.nat(160), { maxLength: 6 }),
      fc.boolean(),
      async (form, cuts, whole) => {
        await withPeer(answering(form, cuts.toSorted((a, b) => a - b)), async (port) => {
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
  const cases: [string, string][] = [
    ["", "connection-terminated"],
    ["HTTP/1.1 200 OK\r\ncontent", "response-incomplete"],
    ["HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nfour", "response-incomplete"],
    ["HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nfour", "response-incomplete"],
    ["HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nfives\r\n", "response-incomplete"],
    ["HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nfives\r\n", "protocol"],
    ["HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n-1\r\n", "protocol"],
    ["HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked\r\n\r\n", "protocol"],
    ["HTTP/1.1 200 OK\r\ncontent-length: 5, 6\r\n\r\nfives", "protocol"],
    ["HTTP/1.1 200 OK\r\ncontent-length: -5\r\n\r\n", "protocol"],
    ["HTTP/1.1 200 OK\r\nno colon\r\n\r\n", "protocol"],
    ["SSH-2.0-OpenSSH\r\n\r\n", "protocol"],
    [`HTTP/1.1 200 OK\r\nx: ${"y".repeat(70_000)}`, "response-headers-too-large"],
    [`HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5;${"y".repeat(40_000)}`, "protocol"],
    ["HTTP/1.1 200 OK\r\ncontent-length: 101\r\n\r\n", "body-size"],
    [`HTTP/1.1 200 OK\r\n\r\n${"y".repeat(101)}`, "body-size"],
  ];
  for (const [answer, kind] of cases) {
    await withPeer(answering(answer), async (port) => {
      assert.equal(await failureOf(async () => await (await get(port)).text(100)), kind, answer.slice(0, 60));
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
      await write(conn, letter);
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
    await write(conn, "HTTP/1.1 200 OK\r\n\r\nhalf");
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
    await write(conn, "HTTP/1.1 200 OK\r\n\r\nhalf");
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
    await write(conn, "HTTP/1.1 413 Content Too Large\r\ncontent-length: 3\r\n\r\nbig");
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
