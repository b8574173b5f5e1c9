import assert from "node:assert/strict";
import { parseNetworkRule } from "../../artifact/network_rules.ts";
import { createHttpClient } from "../../base/http_client.ts";
import { HttpError } from "../../base/http_error.ts";
import { type GuestRequest, type GuestResponse, OutgoingHttpError } from "../component/component_runtime.ts";
import { createOutgoingHttp, outgoingHttpError } from "./outgoing_policy.ts";

/** A server that echoes method, URL path, headers and body as JSON, and counts. */
function echoServer() {
  let requests = 0;
  const server = Deno.serve({ port: 0, hostname: "127.0.0.1", onListen: () => {} }, async (request) => {
    requests += 1;
    if (new URL(request.url).pathname === "/cut") {
      const body = new ReadableStream<Uint8Array>({
        start(controller) {
          controller.enqueue(new Uint8Array(3));
          controller.error(new Error("cut"));
        },
      });
      return new Response(body, { headers: { "content-length": "10" } });
    }
    return Response.json({ headers: [...request.headers], body: await request.text() });
  });
  return {
    port: server.addr.port,
    requests: () => requests,
    [Symbol.asyncDispose]: () => server.shutdown(),
  };
}

const guest = (url: string, more: Partial<GuestRequest> = {}): GuestRequest => ({
  method: "GET",
  url: new URL(url),
  headers: [],
  body: null,
  signal: new AbortController().signal,
  ...more,
});

const json = async (response: GuestResponse) => await new Response(response.body).json();

async function refused(promise: Promise<unknown>, code: string): Promise<void> {
  await assert.rejects(promise, (error) => {
    assert.ok(error instanceof OutgoingHttpError, String(error));
    assert.equal(error.wasiCode, code, error.message);
    return true;
  });
}

Deno.test("a request goes out only when a rule matches, without the headers of a runtime", async () => {
  await using server = echoServer();
  const client = createHttpClient();
  try {
    const http = createOutgoingHttp({
      rules: [parseNetworkRule(`localhost:${server.port}`)],
      send: client.send,
      gateway: null,
    });
    const response = await http(guest(`http://localhost:${server.port}/a`, {
      method: "POST",
      headers: [
        ["x-murmur-task-origin", "operator"],
        ["X-Murmur-Task-Trust", "trusted"],
        ["x-murmur-delegation-id", "dlg_1"],
        ["X-MURMUR-COMPLETION-SESSION", "ses_1"],
        ["x-murmur-other", "kept"],
      ],
      body: new Blob(["hello"]).stream(),
    }));
    const seen = await json(response);
    assert.equal(seen.body, "hello");
    assert.deepEqual(
      seen.headers.filter(([name]: [string]) => name.startsWith("x-murmur")),
      [["x-murmur-other", "kept"]],
    );
    // Another name, another port, another scheme, a suffix, a trailing dot: none of them is the rule.
    for (
      const url of [
        `http://127.0.0.1:${server.port}/`,
        `http://localhost.:${server.port}/`,
        `http://localhost/`,
        `http://a.localhost:${server.port}/`,
        `http://localhost%2e:${server.port}/`,
        `http://127.0.0.1:9/`,
        `ftp://localhost:${server.port}/`,
      ]
    ) await refused(http(guest(url)), "HTTP-request-denied");
    assert.equal(server.requests(), 1);
  } finally {
    client.close();
  }
});

Deno.test("a matching name opens no private address", async () => {
  await using server = echoServer();
  const client = createHttpClient({
    resolver: {
      resolve: () =>
        Promise.resolve({ kind: "found", addresses: [{ version: 4, bytes: Uint8Array.of(127, 0, 0, 1) }] }),
    },
  });
  const http = createOutgoingHttp({ rules: [parseNetworkRule("api.test")], send: client.send, gateway: null });
  await refused(http(guest(`http://api.test:${server.port}/`)), "destination-IP-prohibited");
  client.close();
  assert.equal(server.requests(), 0);
});

Deno.test("spellings of an address are the address", async () => {
  await using server = echoServer();
  const client = createHttpClient();
  const http = createOutgoingHttp({ rules: [parseNetworkRule("127.0.0.1")], send: client.send, gateway: null });
  try {
    for (const host of ["127.0.0.1", "2130706433", "0x7f000001", "127.1"]) {
      await json(await http(guest(`http://${host}:${server.port}/`)));
    }
    await refused(http(guest(`http://[::ffff:127.0.0.1]:${server.port}/`)), "HTTP-request-denied");
    await refused(http(guest(`http://0.0.0.0:${server.port}/`)), "HTTP-request-denied");
  } finally {
    client.close();
  }
});

Deno.test("the gateway answers only its exact authority, and only where there is one", async () => {
  const asked: string[] = [];
  const answer: GuestResponse = { status: 200, headers: [], body: new Blob(["gateway"]).stream() };
  const http = createOutgoingHttp({
    rules: [],
    send: () => Promise.reject(new Error("sent")),
    gateway: (request) => {
      asked.push(request.url.href);
      return Promise.resolve(answer);
    },
  });
  assert.equal(await http(guest("http://127.0.0.1:9/v1/x?q=1")), answer);
  for (
    const url of [
      "https://127.0.0.1:9/",
      "http://127.0.0.1/",
      "http://127.0.0.1:90/",
      "http://localhost:9/",
      "http://[::1]:9/",
      "http://user@127.0.0.1:9/",
    ]
  ) await refused(http(guest(url)), "HTTP-request-denied");
  assert.deepEqual(asked, ["http://127.0.0.1:9/v1/x?q=1"]);
});

Deno.test("the formation plane is asked before the rules and only for what it answers", async () => {
  const answer: GuestResponse = { status: 202, headers: [], body: new Blob([]).stream() };
  const http = createOutgoingHttp({
    rules: [],
    send: () => Promise.reject(new Error("sent")),
    gateway: null,
    formation: (request) => request.url.hostname === "peer.formation.invalid" ? Promise.resolve(answer) : null,
  });
  assert.equal(await http(guest("http://peer.formation.invalid/")), answer);
  await refused(http(guest("http://other.formation.invalid/")), "HTTP-request-denied");
});

Deno.test("failures carry WASI codes, also in the middle of a body, and no text of an unknown failure", async () => {
  await using server = echoServer();
  const client = createHttpClient();
  const http = createOutgoingHttp({ rules: [parseNetworkRule("127.0.0.1")], send: client.send, gateway: null });
  try {
    await refused(http(guest("http://127.0.0.1:1/")), "connection-refused");
    const cut = await http(guest(`http://127.0.0.1:${server.port}/cut`));
    await refused(new Response(cut.body).text(), "HTTP-response-incomplete");
    await refused(
      http(guest(`http://127.0.0.1:${server.port}/`, { headers: [["a", "b\r\nc"]] })),
      "HTTP-protocol-error",
    );
  } finally {
    client.close();
  }
  assert.equal(outgoingHttpError(new Error("secret")).message.includes("secret"), false);
  assert.equal(outgoingHttpError(new HttpError("no-such-name", "x")).wasiCode, "DNS-error");
  assert.equal(outgoingHttpError(new HttpError("name-timeout", "x")).wasiCode, "DNS-timeout");
  assert.equal(outgoingHttpError(new HttpError("certificate", "x")).wasiCode, "TLS-certificate-error");
});
