import assert from "node:assert/strict";
import { TEST_CA, TEST_CERTIFICATE, TEST_KEY } from "../tests/support/test_certificates.ts";
import { createHttpClient, type HttpClientOptions, type HttpRequest, type HttpResponse } from "./http_client.ts";
import { HttpError, type HttpErrorKind, httpErrorKindOf } from "./http_error.ts";
import { parseIpAddress } from "./ip_address.ts";
import type { NameResolver } from "./name_resolver.ts";

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** A resolver over a table, which counts what it is asked. */
function tableResolver(table: Readonly<Record<string, readonly string[]>>): NameResolver & { asked: string[] } {
  const asked: string[] = [];
  return {
    asked,
    resolve(name) {
      asked.push(name);
      const literal = parseIpAddress(name);
      if (literal !== null) return Promise.resolve({ kind: "found", addresses: [literal] });
      const addresses = table[name]?.map((text) => parseIpAddress(text)!);
      return Promise.resolve(addresses === undefined ? { kind: "no-such-name" } : { kind: "found", addresses });
    },
  };
}

/** One connection of the raw server. */
class Peer {
  readonly #conn: Deno.Conn;
  #rest = new Uint8Array();
  constructor(conn: Deno.Conn) {
    this.#conn = conn;
  }
  async #fill(): Promise<boolean> {
    const buffer = new Uint8Array(65_536);
    const size = await this.#conn.read(buffer).catch(() => null);
    if (size === null) return false;
    const joined = new Uint8Array(this.#rest.length + size);
    joined.set(this.#rest);
    joined.set(buffer.subarray(0, size), this.#rest.length);
    this.#rest = joined;
    return true;
  }
  /** The next message head, `null` when the client closed. */
  async head(): Promise<string | null> {
    for (;;) {
      const end = decoder.decode(this.#rest).indexOf("\r\n\r\n");
      if (end >= 0) {
        const head = decoder.decode(this.#rest.subarray(0, end));
        this.#rest = this.#rest.slice(end + 4);
        return head;
      }
      if (!await this.#fill()) return null;
    }
  }
  /** Reads until the bytes so far end with `text`. */
  async until(text: string): Promise<string> {
    while (!decoder.decode(this.#rest).endsWith(text)) if (!await this.#fill()) break;
    const all = decoder.decode(this.#rest);
    this.#rest = new Uint8Array();
    return all;
  }
  /** Drops what comes until the bytes so far end with `text`. */
  async skipUntil(text: string): Promise<void> {
    while (!decoder.decode(this.#rest).endsWith(text)) {
      this.#rest = this.#rest.slice(-text.length);
      if (!await this.#fill()) return;
    }
    this.#rest = new Uint8Array();
  }
  /** Waits for the client to close; what it sends until then is dropped. */
  async closed(): Promise<void> {
    while (await this.#fill()) this.#rest = new Uint8Array();
  }
  async write(data: string | Uint8Array): Promise<void> {
    let bytes = typeof data === "string" ? encoder.encode(data) : data;
    while (bytes.length > 0) bytes = bytes.subarray(await this.#conn.write(bytes));
  }
  /** Copies bytes both ways until either side closes. */
  async tunnel(other: Deno.Conn): Promise<void> {
    try {
      await Promise.race([
        this.#conn.readable.pipeTo(other.writable, { preventClose: true }),
        other.readable.pipeTo(this.#conn.writable, { preventClose: true }),
      ]);
    } catch {
      // One side broke off, as tests do.
    } finally {
      this.close();
      try {
        other.close();
      } catch {
        // Already closed.
      }
    }
  }
  close(): void {
    try {
      this.#conn.close();
    } catch {
      // Already closed.
    }
  }
}

/** A server that plays `serve` on every connection and closes it afterwards. */
function rawServer(serve: (peer: Peer) => Promise<void>, hostname = "127.0.0.1", tls = false) {
  const listener = tls
    ? Deno.listenTls({ port: 0, hostname, cert: TEST_CERTIFICATE, key: TEST_KEY })
    : Deno.listen({ port: 0, hostname });
  const peers = new Set<Peer>();
  const running = new Set<Promise<void>>();
  let connections = 0;
  const accepting = (async () => {
    for (;;) {
      let conn: Deno.Conn;
      try {
        conn = await listener.accept();
      } catch (error) {
        if (error instanceof Deno.errors.BadResource) return;
        continue;
      }
      connections += 1;
      const peer = new Peer(conn);
      peers.add(peer);
      const played = serve(peer).catch(() => {}).finally(() => {
        peer.close();
        peers.delete(peer);
        running.delete(played);
      });
      running.add(played);
    }
  })();
  return {
    port: (listener.addr as Deno.NetAddr).port,
    connections: () => connections,
    async [Symbol.asyncDispose]() {
      listener.close();
      for (const peer of peers) peer.close();
      await Promise.all([accepting, ...running]);
    },
  };
}

/** Answers every request with its own head. */
async function echo(peer: Peer): Promise<void> {
  for (let head = await peer.head(); head !== null; head = await peer.head()) {
    await peer.write(`HTTP/1.1 200 OK\r\ncontent-length: ${encoder.encode(head).length}\r\n\r\n${head}`);
  }
}

/** Answers the first request with fixed bytes and closes. */
const answering = (response: string) => async (peer: Peer) => {
  await peer.head();
  await peer.write(response);
};

async function withClient<T>(
  options: HttpClientOptions,
  use: (send: (request: Omit<HttpRequest, "url"> & { url: string }) => Promise<HttpResponse>) => Promise<T>,
): Promise<T> {
  const client = createHttpClient(options);
  try {
    return await use((request) => client.send({ ...request, url: new URL(request.url) }));
  } finally {
    client.close();
  }
}

const text = (response: HttpResponse) => new Response(response.body).text();

async function fails(promise: Promise<unknown>, kind: HttpErrorKind): Promise<HttpError> {
  try {
    await promise;
  } catch (error) {
    assert.ok(error instanceof HttpError, String(error));
    assert.equal(error.kind, kind, error.message);
    return error;
  }
  assert.fail(`no failure, ${kind} expected`);
}

Deno.test("a name that resolves to a private or loopback address opens no connection", async () => {
  await using server = rawServer(echo);
  const resolver = tableResolver({
    "api.test": ["127.0.0.1"],
    "meta.test": ["169.254.169.254", "::ffff:127.0.0.1", "fd00::1"],
    "localhost": ["10.0.0.1"],
  });
  await withClient({ resolver }, async (send) => {
    await fails(send({ method: "GET", url: `http://api.test:${server.port}/` }), "address-refused");
    await fails(send({ method: "GET", url: `http://meta.test:${server.port}/` }), "address-refused");
    await fails(send({ method: "GET", url: `http://localhost:${server.port}/` }), "address-refused");
    await fails(send({ method: "GET", url: `https://api.test:${server.port}/` }), "address-refused");
    await fails(send({ method: "GET", url: `http://none.test:${server.port}/` }), "no-such-name");
  });
  assert.equal(server.connections(), 0);
});

Deno.test("the sender is told when the whole request left, before any answer, and never of one that did not", async () => {
  const received = Promise.withResolvers<void>();
  const answer = Promise.withResolvers<void>();
  await using server = rawServer(async (peer) => {
    await peer.until("the body");
    received.resolve();
    await answer.promise;
    await peer.write("HTTP/1.1 204 No Content\r\n\r\n");
  });
  await withClient({ resolver: tableResolver({}) }, async (send) => {
    const left = Promise.withResolvers<void>();
    let told = 0;
    const url = `http://127.0.0.1:${server.port}/`;
    const response = send({
      method: "POST",
      url,
      body: encoder.encode("the body"),
      sent: () => {
        told++;
        left.resolve();
      },
    });
    await Promise.all([left.promise, received.promise]);
    answer.resolve();
    assert.equal((await response).status, 204);
    assert.equal(told, 1);
    await fails(send({ method: "GET", url: "http://none.invalid/", sent: () => told++ }), "no-such-name");
    assert.equal(told, 1);
  });
});

Deno.test("localhost and literals reach loopback, every spelling of a literal means the same", async () => {
  await using server = rawServer(echo);
  await withClient({ resolver: tableResolver({ localhost: ["127.0.0.1"] }) }, async (send) => {
    for (const host of ["localhost", "127.0.0.1", "2130706433", "0x7f.1", "127.1", "0177.0.0.1", "LOCALHOST"]) {
      const response = await send({ method: "GET", url: `http://${host}:${server.port}/p?q=1#f` });
      const head = await text(response);
      assert.match(head, /^GET \/p\?q=1 HTTP\/1\.1\r\n/);
      assert.match(head, new RegExp(`^Host: ${new URL(`http://${host}:${server.port}`).host}$`, "mi"));
    }
    // With a trailing dot it is another name, and a name opens nothing private.
    await fails(send({ method: "GET", url: `http://localhost.:${server.port}/` }), "no-such-name");
  });
});

Deno.test("IPv6 literals are reached", async () => {
  let server;
  try {
    server = rawServer(echo, "::1");
  } catch {
    // A machine without IPv6 has nothing to test.
    return;
  }
  await using running = server;
  await withClient({}, async (send) => {
    const response = await send({ method: "GET", url: `http://[::1]:${running.port}/` });
    assert.match(await text(response), /^Host: \[::1\]:/mi);
  });
});

Deno.test("the next address is tried when one refuses", async () => {
  await using server = rawServer(echo, "127.0.0.1");
  const resolver = tableResolver({ localhost: ["127.0.0.2", "127.0.0.3", "127.0.0.1"] });
  await withClient({ resolver }, async (send) => {
    assert.equal((await send({ method: "GET", url: `http://localhost:${server.port}/` })).status, 200);
  });
  await withClient({ resolver: tableResolver({ localhost: ["127.0.0.2", "127.0.0.3"] }) }, async (send) => {
    await fails(send({ method: "GET", url: `http://localhost:${server.port}/` }), "connection-refused");
  });
});

Deno.test("a connection is used again without asking for the name, and never by another client", async () => {
  await using server = rawServer(echo);
  const resolver = tableResolver({ localhost: ["127.0.0.1"] });
  const url = `http://localhost:${server.port}/`;
  await withClient({ resolver }, async (send) => {
    for (let count = 0; count < 3; count++) await text(await send({ method: "GET", url }));
    assert.equal(server.connections(), 1);
    assert.deepEqual(resolver.asked, ["localhost"]);
    await withClient({ resolver }, async (other) => void await text(await other({ method: "GET", url })));
    assert.equal(server.connections(), 2);
    // Another name of the same place is another route.
    await text(await send({ method: "GET", url: `http://127.0.0.1:${server.port}/` }));
    assert.equal(server.connections(), 3);
  });
});

Deno.test("an idle connection is closed after its time", async () => {
  let closed = () => {};
  const seen = new Promise<void>((resolve) => closed = resolve);
  await using server = rawServer(async (peer) => {
    await echo(peer);
    closed();
  });
  await withClient({ bounds: { httpConnect: 5_000, httpIdleConnection: 50 } }, async (send) => {
    await text(await send({ method: "GET", url: `http://127.0.0.1:${server.port}/` }));
    await seen;
  });
});

Deno.test("a slow answer outlasts the idle time", async () => {
  await using server = rawServer(async (peer) => {
    await peer.head();
    await new Promise((resolve) => setTimeout(resolve, 200));
    await peer.write("HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\n");
    await new Promise((resolve) => setTimeout(resolve, 200));
    await peer.write("slow");
  });
  await withClient({ bounds: { httpConnect: 5_000, httpIdleConnection: 50 } }, async (send) => {
    assert.equal(await text(await send({ method: "GET", url: `http://127.0.0.1:${server.port}/` })), "slow");
  });
});

Deno.test("a connection the server closed meanwhile: a GET is sent again, a POST is not", async () => {
  const oneAnswerThenReset = async (peer: Peer) => {
    await peer.head();
    await peer.write("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
    // The second request is read and dropped with its connection, as by a server whose idle time has run out.
    await peer.head();
  };
  await using server = rawServer(oneAnswerThenReset);
  const url = `http://127.0.0.1:${server.port}/`;
  await withClient({}, async (send) => {
    assert.equal(await text(await send({ method: "GET", url })), "ok");
    assert.equal(await text(await send({ method: "GET", url })), "ok");
    assert.equal(server.connections(), 2);
    await fails(send({ method: "POST", url, body: encoder.encode("x") }), "connection-terminated");
    assert.equal(server.connections(), 2);
  });
});

Deno.test("redirects come back as they are", async () => {
  await using server = rawServer(
    answering("HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n"),
  );
  await withClient({}, async (send) => {
    const response = await send({ method: "GET", url: `http://127.0.0.1:${server.port}/` });
    assert.equal(response.status, 302);
    assert.deepEqual(response.headers[0], ["location", "http://127.0.0.1:1/"]);
    await response.body.cancel();
  });
});

Deno.test("proxy variables of the environment are ignored", async () => {
  await using proxy = rawServer(echo);
  await using server = rawServer(echo);
  const names = ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "ALL_PROXY", "all_proxy"];
  const before = names.map((name) => [name, Deno.env.get(name)] as const);
  for (const name of names) Deno.env.set(name, `http://127.0.0.1:${proxy.port}`);
  try {
    await withClient({}, async (send) => {
      await text(await send({ method: "GET", url: `http://127.0.0.1:${server.port}/` }));
    });
  } finally {
    for (const [name, value] of before) {
      if (value === undefined) Deno.env.delete(name);
      else Deno.env.set(name, value);
    }
  }
  assert.deepEqual([proxy.connections(), server.connections()], [0, 1]);
});

/** A forward proxy: answers plain requests itself, and tunnels every CONNECT to `target`. */
function proxyServer(seen: string[], target: number | null) {
  return async (peer: Peer) => {
    for (let head = await peer.head(); head !== null; head = await peer.head()) {
      seen.push(head.split("\r\n")[0]!);
      if (!head.startsWith("CONNECT ")) {
        await peer.write("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
      } else if (target === null) {
        await peer.write("HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 0\r\n\r\n");
      } else {
        await peer.write("HTTP/1.1 200 Connection established\r\n\r\n");
        await peer.tunnel(await Deno.connect({ hostname: "127.0.0.1", port: target }));
        return;
      }
    }
  };
}

Deno.test("a configured proxy gets absolute targets, judges addresses itself, and loopback goes past it", async () => {
  const seen: string[] = [];
  await using proxy = rawServer(proxyServer(seen, null));
  await using direct = rawServer(echo);
  const resolver = tableResolver({ localhost: ["127.0.0.1"] });
  await withClient({ proxy: new URL(`http://127.0.0.1:${proxy.port}`), resolver }, async (send) => {
    assert.equal(await text(await send({ method: "GET", url: "http://api.test:81/p?q" })), "ok");
    await text(await send({ method: "GET", url: `http://127.0.0.1:${direct.port}/` }));
    await text(await send({ method: "GET", url: `http://localhost:${direct.port}/` }));
  });
  assert.deepEqual(seen, ["GET http://api.test:81/p?q HTTP/1.1"]);
  assert.deepEqual(resolver.asked.filter((name) => name === "api.test"), []);
  assert.equal(direct.connections(), 2);
});

Deno.test("a proxy that refuses a tunnel is told apart from the service", async () => {
  const seen: string[] = [];
  await using proxy = rawServer(proxyServer(seen, null));
  await withClient({ proxy: new URL(`http://127.0.0.1:${proxy.port}`) }, async (send) => {
    await fails(send({ method: "GET", url: "https://service.test/" }), "proxy");
  });
  assert.deepEqual(seen, ["CONNECT service.test:443 HTTP/1.1"]);
});

Deno.test("TLS verifies the name although the address is pinned", async () => {
  await using server = rawServer(echo, "127.0.0.1", true);
  const proxied = async (host: string, caCertificates?: readonly string[]) => {
    // The names of the certificate are public ones, which open no loopback address: a tunnel brings us to the server.
    await using proxy = rawServer(proxyServer([], server.port));
    const client = createHttpClient({
      proxy: new URL(`http://127.0.0.1:${proxy.port}`),
      ...(caCertificates === undefined ? {} : { caCertificates }),
    });
    try {
      return await text(await client.send({ method: "GET", url: new URL(`https://${host}:${server.port}/x`) }));
    } finally {
      client.close();
    }
  };
  assert.match(await proxied("service.test", [TEST_CA]), /^GET \/x HTTP\/1\.1\r\nHost: service\.test:/);
  assert.match(await proxied("a.wild.test", [TEST_CA]), /^Host: a\.wild\.test:/m);
  await fails(proxied("other.test", [TEST_CA]), "certificate");
  await fails(proxied("wild.test", [TEST_CA]), "certificate");
  await fails(proxied("service.test"), "certificate");
  // Without a tunnel: an address is checked as an address, the certificate's names do not help it.
  await withClient({ caCertificates: [TEST_CA] }, async (send) => {
    await fails(send({ method: "GET", url: `https://127.0.0.1:${server.port}/` }), "certificate");
  });
  const resolver = tableResolver({ localhost: ["127.0.0.1"] });
  await withClient({ caCertificates: [TEST_CA], resolver }, async (send) => {
    await fails(
      send({ method: "GET", url: `https://localhost:${server.port}/`, headers: [["host", "service.test"]] }),
      "certificate",
    );
  });
});

Deno.test("plain HTTP on a TLS port and TLS on a plain port are errors", async () => {
  await using plain = rawServer(async (peer) => {
    await peer.until("\u0000\u0000\u0000\u0000\u0000never");
  });
  await using garbage = rawServer(async (peer) => await peer.write("HTTP/1.1 400 Bad\r\n\r\n"));
  await withClient({ bounds: { httpConnect: 300, httpIdleConnection: 1_000 } }, async (send) => {
    await fails(send({ method: "GET", url: `https://127.0.0.1:${plain.port}/` }), "connection-timeout");
    await fails(send({ method: "GET", url: `https://127.0.0.1:${garbage.port}/` }), "tls");
  });
});

Deno.test("a streamed body is chunked for every method, so it is never read as a second request", async () => {
  const bodies: string[] = [];
  await using server = rawServer(async (peer) => {
    for (let head = await peer.head(); head !== null; head = await peer.head()) {
      assert.match(head, /^Transfer-Encoding: chunked$/m);
      assert.doesNotMatch(head, /content-length/i);
      bodies.push(await peer.until("0\r\n\r\n"));
      await peer.write("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
    }
  });
  const url = `http://127.0.0.1:${server.port}/`;
  await withClient({}, async (send) => {
    for (const method of ["GET", "DELETE", "POST", "REPORT"]) {
      const body = new Blob(["GET /second HTTP/1.1\r\nhost: x\r\n\r\n"]).stream();
      await text(await send({ method, url, body, headers: [["transfer-encoding", "identity"], ["te", "trailers"]] }));
    }
  });
  assert.equal(bodies.length, 4);
  for (const body of bodies) assert.match(body, /^21\r\nGET \/second/);
});

Deno.test("a declared length is kept: more, less and two lengths are refused", async () => {
  await using server = rawServer(async (peer) => {
    await peer.head();
    await peer.closed();
  });
  const url = `http://127.0.0.1:${server.port}/`;
  const stream = (body: string) => new Blob([body]).stream();
  await withClient({}, async (send) => {
    const declared = (length: string) => [["content-length", length]] as const;
    await fails(send({ method: "POST", url, body: stream("12345"), headers: declared("4") }), "body-size");
    await fails(send({ method: "POST", url, body: stream("12345"), headers: declared("6") }), "body-size");
    await fails(send({ method: "POST", url, body: encoder.encode("12345"), headers: declared("4") }), "body-size");
    await fails(send({ method: "POST", url, headers: declared("4") }), "body-size");
    await fails(
      send({ method: "POST", url, body: stream("1234"), headers: [["content-length", "4"], ["Content-Length", "5"]] }),
      "invalid-request",
    );
    for (const length of ["+4", "0x4", "4, 4", "-1", ""]) {
      await fails(send({ method: "POST", url, body: stream("1234"), headers: declared(length) }), "invalid-request");
    }
  });
});

Deno.test("fields of the connection are dropped, others keep order and duplicates", async () => {
  await using server = rawServer(echo);
  await withClient({}, async (send) => {
    const response = await send({
      method: "GET",
      url: `http://user:secret@127.0.0.1:${server.port}/`,
      headers: [
        ["X-One", "1"],
        ["Host", "evil.test"],
        ["connection", "upgrade, close"],
        ["Upgrade", "websocket"],
        ["Proxy-Authorization", "Basic x"],
        ["expect", "100-continue"],
        ["x-one", "2"],
        ["accept-encoding", "gzip"],
        ["x-bytes", "\u00e4"],
      ],
    });
    const [, ...lines] = (await text(response)).split("\r\n");
    assert.deepEqual(lines.slice(1, 4), ["X-One: 1", "x-one: 2", "accept-encoding: gzip"]);
    assert.deepEqual(lines.filter((line) => /^(host|connection)/i.test(line)), [
      `Host: 127.0.0.1:${server.port}`,
      "Connection: keep-alive",
    ]);
    assert.ok(!lines.some((line) => /upgrade|proxy|expect|authorization|secret/i.test(line)));
  });
});

Deno.test("requests that could carry a second line are refused before a connection", async () => {
  await using server = rawServer(echo);
  const url = `http://127.0.0.1:${server.port}/`;
  await withClient({}, async (send) => {
    for (
      const headers of [
        [["x", "a\r\nb: c"]],
        [["x", "a\nb"]],
        [["x", "\u0000"]],
        [["x", "\u0100"]],
        [["x y", "a"]],
        [["", "a"]],
        [["x:", "a"]],
      ] as const
    ) await fails(send({ method: "GET", url, headers }), "invalid-request");
    for (const method of ["", "GET /", "G\r\nX", "CONNECT", "connect"]) {
      await fails(send({ method, url }), "invalid-request");
    }
    await fails(send({ method: "GET", url: "ftp://127.0.0.1/" }), "invalid-request");
  });
  assert.equal(server.connections(), 0);
});

Deno.test("a response arrives as it was sent: bytes of any encoding, duplicate fields, no body where there is none", async () => {
  await using server = rawServer(async (peer) => {
    for (let head = await peer.head(); head !== null; head = await peer.head()) {
      if (head.startsWith("HEAD")) await peer.write("HTTP/1.1 200 OK\r\ncontent-length: 50\r\n\r\n");
      else if (head.includes("/204")) await peer.write("HTTP/1.1 204 No Content\r\n\r\n");
      else {
        await peer.write(
          "HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n" +
            "Set-Cookie: a\r\nset-cookie: b\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nx-trailer: 1\r\n\r\n",
        );
      }
    }
  });
  const url = `http://127.0.0.1:${server.port}`;
  await withClient({}, async (send) => {
    const response = await send({ method: "GET", url: `${url}/` });
    assert.deepEqual(response.headers, [
      ["content-encoding", "gzip"],
      ["set-cookie", "a"],
      ["set-cookie", "b"],
    ]);
    assert.equal(await text(response), "abc");
    assert.equal(await text(await send({ method: "HEAD", url: `${url}/` })), "");
    assert.equal((await send({ method: "GET", url: `${url}/204` })).status, 204);
  });
});

Deno.test("broken responses are errors with their own kinds", async () => {
  const cases: readonly (readonly [string, HttpErrorKind, "head" | "body"])[] = [
    ["garbage\r\n\r\n", "protocol", "head"],
    ["HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 2\r\n\r\nokok", "protocol", "head"],
    [
      "HTTP/1.1 200 OK\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
      "protocol",
      "head",
    ],
    [`HTTP/1.1 200 OK\r\nx: ${"a".repeat(70_000)}\r\n\r\n`, "response-headers-too-large", "head"],
    ["HTTP/1.1 101 Switching\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n", "protocol", "head"],
    ["", "connection-terminated", "head"],
    ["HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nabc", "response-incomplete", "body"],
    ["HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n", "response-incomplete", "body"],
    ["HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\nabc\r\n", "protocol", "body"],
  ];
  for (const [response, kind, at] of cases) {
    await using server = rawServer(answering(response));
    await withClient({}, async (send) => {
      const sent = send({ method: "GET", url: `http://127.0.0.1:${server.port}/` });
      await fails(at === "head" ? sent : sent.then(text), kind);
    });
  }
});

Deno.test("a refusal that comes before the body was sent is delivered, and the body's source is released", async () => {
  await using server = rawServer(async (peer) => {
    await peer.head();
    await peer.write("HTTP/1.1 413 Too Large\r\ncontent-length: 2\r\nconnection: close\r\n\r\nno");
    await peer.closed();
  });
  let released = () => {};
  const cancelled = new Promise<void>((resolve) => released = resolve);
  const body = new ReadableStream<Uint8Array>({
    async pull(controller) {
      await new Promise((resolve) => setTimeout(resolve, 1));
      controller.enqueue(new Uint8Array(16_384));
    },
    cancel: () => released(),
  }, { highWaterMark: 0 });
  const controller = new AbortController();
  await withClient({}, async (send) => {
    const response = await send({
      method: "POST",
      url: `http://127.0.0.1:${server.port}/`,
      body,
      signal: controller.signal,
    });
    assert.equal(response.status, 413);
    assert.equal(await text(response), "no");
    controller.abort();
    await cancelled;
  });
});

Deno.test("upload and download move only as fast as the other side reads", async () => {
  let read = () => {};
  const mayRead = new Promise<void>((resolve) => read = resolve);
  await using server = rawServer(async (peer) => {
    await peer.head();
    await mayRead;
    await peer.skipUntil("0\r\n\r\n");
    await peer.write("HTTP/1.1 200 OK\r\n\r\n");
    for (let count = 0; count < 512; count++) {
      await peer.write(new Uint8Array(65_536));
      written += 65_536;
    }
  });
  let produced = 0;
  let written = 0;
  const body = new ReadableStream<Uint8Array>({
    pull(controller) {
      produced += 65_536;
      controller.enqueue(new Uint8Array(65_536));
      if (produced === 32 * 1024 * 1024) controller.close();
    },
  }, { highWaterMark: 0 });
  await withClient({}, async (send) => {
    const sent = send({ method: "POST", url: `http://127.0.0.1:${server.port}/`, body });
    await new Promise((resolve) => setTimeout(resolve, 300));
    assert.ok(produced < 16 * 1024 * 1024, `${produced} bytes were taken from the source although nobody reads them`);
    read();
    const response = await sent;
    await new Promise((resolve) => setTimeout(resolve, 300));
    assert.ok(written < 16 * 1024 * 1024, `${written} bytes were taken from the server although nobody reads them`);
    let size = 0;
    for await (const chunk of response.body) size += chunk.length;
    assert.equal(size, 32 * 1024 * 1024);
  });
});

Deno.test("an abort ends a request at every stage and closes its connection", async () => {
  let closed = 0;
  await using server = rawServer(async (peer) => {
    const head = await peer.head();
    if (head?.includes("/body")) await peer.write("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nabc");
    await peer.closed();
    closed += 1;
  });
  const url = `http://127.0.0.1:${server.port}`;
  const abortSoon = () => {
    const controller = new AbortController();
    setTimeout(() => controller.abort(new Error("enough")), 50);
    return controller.signal;
  };
  await withClient({}, async (send) => {
    await fails(send({ method: "GET", url, signal: AbortSignal.abort() }), "aborted");
    const error = await fails(send({ method: "GET", url, signal: abortSoon() }), "aborted");
    assert.equal((error.cause as Error).message, "enough");
    await fails(
      send({ method: "POST", url, signal: abortSoon(), body: new ReadableStream<Uint8Array>({}) }),
      "aborted",
    );
    const response = await send({ method: "GET", url: `${url}/body`, signal: abortSoon() });
    await fails(text(response), "aborted");
    const cancelled = await send({ method: "GET", url: `${url}/body` });
    await cancelled.body.cancel();
    // A body whose source fails ends the request too.
    const broken = new ReadableStream<Uint8Array>({
      pull(controller) {
        controller.error(new Error("source"));
      },
    });
    await fails(send({ method: "POST", url, body: broken }), "aborted");
  });
  const resolving = createHttpClient({
    resolver: {
      resolve: (_name, signal) =>
        new Promise((_, reject) => signal!.addEventListener("abort", () => reject(signal!.reason))),
    },
  });
  await fails(
    resolving.send({ method: "GET", url: new URL("http://slow.test/"), signal: abortSoon() }),
    "aborted",
  );
  resolving.close();
  for (let wait = 0; wait < 100 && closed < 4; wait++) await new Promise((resolve) => setTimeout(resolve, 10));
  assert.equal(closed, 4);
});

Deno.test("closing the client ends idle connections and those in use", async () => {
  let closed = 0;
  await using server = rawServer(async (peer) => {
    await peer.head();
    await peer.write("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nabc");
    await peer.closed();
    closed += 1;
  });
  const client = createHttpClient();
  const response = await client.send({ method: "GET", url: new URL(`http://127.0.0.1:${server.port}/`) });
  client.close();
  await fails(text(response), "response-incomplete");
  for (let wait = 0; wait < 100 && closed < 1; wait++) await new Promise((resolve) => setTimeout(resolve, 10));
  assert.equal(closed, 1);
});

Deno.test("codes of the platform map to kinds", () => {
  const cases: readonly (readonly [string, HttpErrorKind])[] = [
    ["ECONNREFUSED", "connection-refused"],
    ["ENETUNREACH", "unreachable"],
    ["ECONNRESET", "connection-terminated"],
    ["CERT_HAS_EXPIRED", "certificate"],
    ["UNABLE_TO_GET_ISSUER_CERT_LOCALLY", "certificate"],
    ["ERR_SSL_WRONG_VERSION_NUMBER", "tls"],
    ["HPE_INVALID_CONSTANT", "protocol"],
    ["", "internal"],
    ["EMFILE", "internal"],
  ];
  for (const [code, kind] of cases) assert.equal(httpErrorKindOf(code), kind, code);
});
