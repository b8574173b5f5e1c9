import assert from "node:assert/strict";
import type { UpstreamAuth } from "../../artifact/manifest/artifact_manifest.ts";
import { MurError } from "../../base/errors.ts";
import { createHttpClient } from "../../base/http_client.ts";
import { type GuestRequest, OutgoingHttpError } from "../component/component_runtime.ts";
import {
  createCredentialGateway,
  type CredentialEvent,
  type CredentialGateway,
  credentialRejectedError,
  gatewayEndpointForGuest,
  type GatewayOptions,
  MAX_KEYED_BODY,
  requireUpstreamAuth,
} from "./credential_gateway.ts";
import { type CredentialSource, findCredential } from "./credential_source.ts";

interface Seen {
  readonly method: string;
  readonly path: string;
  readonly headers: readonly (readonly [string, string])[];
  readonly body: string;
}

/** An upstream that notes what it gets and answers with the given statuses, the last one for ever. */
function upstream(...statuses: number[]) {
  const seen: Seen[] = [];
  const server = Deno.serve({ port: 0, hostname: "127.0.0.1", onListen: () => {} }, async (request) => {
    const { pathname, search } = new URL(request.url);
    const body = await request.text();
    seen.push({ method: request.method, path: pathname + search, headers: [...request.headers], body });
    const status = statuses[Math.min(seen.length, statuses.length) - 1] ?? 200;
    const headers = status === 302 ? { location: "http://127.0.0.1:1/" } : undefined;
    return new Response(`answer ${seen.length}`, { status, ...(headers === undefined ? {} : { headers }) });
  });
  return { port: server.addr.port, seen, [Symbol.asyncDispose]: () => server.shutdown() };
}

const AUTH = { header: "Authorization", value: "Bearer {key}" };

const literal = async (value: string) =>
  (await findCredential({ kind: "literal", value }, {
    configFile: "/nonexistent",
    env: { get: () => undefined },
    injectable: [],
    secrets: { get: () => undefined },
  }))!;

async function withGateway(
  options: Partial<GatewayOptions> & { endpoint: string; credential: CredentialSource | null },
  use: (gateway: CredentialGateway, events: CredentialEvent[]) => Promise<void>,
): Promise<void> {
  const client = createHttpClient();
  const events: CredentialEvent[] = [];
  try {
    await use(
      createCredentialGateway({
        artifact: "driver",
        auth: AUTH,
        admission: null,
        send: client.send,
        onEvent: (event) => events.push(event),
        ...options,
      }),
      events,
    );
  } finally {
    client.close();
  }
}

const guest = (path: string, more: Partial<GuestRequest> = {}): GuestRequest => ({
  method: "GET",
  url: new URL(`http://127.0.0.1:9${path}`),
  headers: [],
  body: null,
  signal: new AbortController().signal,
  ...more,
});
const post = (path: string, body: string, headers: GuestRequest["headers"] = []) =>
  guest(path, { method: "POST", body: new Blob([body]).stream(), headers });

Deno.test("a request keeps method, path, query, headers and body, and gets exactly one key", async () => {
  await using server = upstream(200);
  await withGateway(
    { endpoint: `http://127.0.0.1:${server.port}/base/`, credential: await literal("sk-1") },
    async (gateway) => {
      const response = await gateway.http(post("/v1/x%20y?q=a&q=b", "hello", [
        ["authorization", "Bearer guest"],
        ["AUTHORIZATION", "Basic guest"],
        ["x-custom", "kept"],
        ["host", "evil.test"],
      ]));
      assert.equal(await new Response(response.body).text(), "answer 1");
      const [seen] = server.seen;
      assert.deepEqual([seen!.method, seen!.path, seen!.body], ["POST", "/v1/x%20y?q=a&q=b", "hello"]);
      assert.deepEqual(seen!.headers.filter(([name]) => name === "authorization"), [["authorization", "Bearer sk-1"]]);
      assert.ok(seen!.headers.some(([name, value]) => name === "x-custom" && value === "kept"));
      assert.ok(seen!.headers.some(([name, value]) => name === "host" && value === `127.0.0.1:${server.port}`));
      assert.ok(seen!.headers.some(([name, value]) => name === "content-length" && value === "5"));
    },
  );
});

Deno.test("a keyless gateway attaches nothing, removes the guest's own and streams the body through", async () => {
  await using server = upstream(200, 401);
  await withGateway(
    { endpoint: `http://127.0.0.1:${server.port}`, credential: null },
    async (gateway, events) => {
      await (await gateway.http(post("/", "abc", [["authorization", "Bearer guest"]]))).body.cancel();
      const [seen] = server.seen;
      assert.equal(seen!.body, "abc");
      assert.ok(!seen!.headers.some(([name]) => name === "authorization"));
      assert.ok(seen!.headers.some(([name]) => name === "transfer-encoding"));
      const rejected = await gateway.http(guest("/"));
      assert.equal(rejected.status, 401);
      await rejected.body.cancel();
      assert.equal(gateway.rejected(), false);
      assert.deepEqual(events, []);
    },
  );
});

Deno.test("a key replaced in the file is used at the next request; a 401 looks once more and sends the same bytes", async () => {
  const directory = await Deno.makeTempDir();
  const file = `${directory}/config.yaml`;
  try {
    await Deno.writeTextFile(file, "credentials: { KEY: one }\n");
    const credential = (await findCredential({ kind: "reference", name: "KEY" }, {
      configFile: file,
      env: { get: () => undefined },
      injectable: [],
      secrets: { get: () => undefined },
    }))!;
    await using server = upstream(200, 200, 401, 200, 401, 401, 401, 200);
    await withGateway(
      { endpoint: `http://127.0.0.1:${server.port}`, credential },
      async (gateway, events) => {
        const ask = async () => {
          const response = await gateway.http(post("/", "same bytes"));
          await response.body.cancel();
          return response.status;
        };
        const keys = () =>
          server.seen.map(({ headers, body }) => {
            assert.equal(body, "same bytes");
            return headers.find(([name]) => name === "authorization")![1].replace("Bearer ", "");
          });
        assert.equal(await ask(), 200);
        await Deno.writeTextFile(file, "credentials: { KEY: second }\n");
        assert.equal(await ask(), 200);
        assert.deepEqual(keys(), ["one", "second"]);
        assert.deepEqual(events.splice(0), [
          { source: "config", credential: "KEY", change: "rotated", trigger: "file_changed" },
        ]);

        // The key changes while the request is under way: the rejection looks again and sends the new one.
        const reading = credential.read.bind(credential);
        let looks = 0;
        credential.read = async (force) => {
          looks += 1;
          if (force && looks === 2) await Deno.writeTextFile(file, "credentials: { KEY: third-key }\n");
          return await reading(force);
        };
        assert.equal(await ask(), 200);
        assert.deepEqual(keys(), ["one", "second", "second", "third-key"]);
        assert.equal(gateway.rejected(), false);
        assert.deepEqual(events.splice(0), [
          { source: "config", credential: "KEY", change: "rotated", trigger: "rejection" },
        ]);
        credential.read = reading;

        // Unchanged: the 401 stands and nothing is sent again.
        assert.equal(await ask(), 401);
        assert.equal(server.seen.length, 5);
        assert.equal(gateway.rejected(), true);
        assert.equal(gateway.lastStatus(), 401);
        assert.deepEqual(events.splice(0), [
          { source: "config", credential: "KEY", change: "rejected", status: 401, retried: false },
        ]);

        // Changed and rejected again: the second answer is returned whatever it is, and there is no third sending.
        looks = 0;
        credential.read = async (force) => {
          looks += 1;
          if (force && looks === 2) await Deno.writeTextFile(file, "credentials: { KEY: fourth }\n");
          return await reading(force);
        };
        assert.equal(await ask(), 401);
        assert.equal(server.seen.length, 7);
        assert.deepEqual(events.splice(0).map(({ change, retried }) => [change, retried]), [
          ["rotated", undefined],
          ["rejected", true],
        ]);
        assert.equal(gateway.rejected(), true);
        credential.read = reading;
        assert.equal(await ask(), 200);
        assert.equal(gateway.rejected(), false);
        assert.deepEqual(gateway.credentialValues(), ["one", "second", "third-key", "fourth"]);

        await Deno.remove(file);
        assert.equal(await ask(), 200);
        assert.equal(await ask(), 200);
        assert.deepEqual(events, [
          { source: "config", credential: "KEY", change: "unreadable", reason: "missing" },
        ]);
      },
    );
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
});

Deno.test("redirects and other statuses are returned as they are, once", async () => {
  await using server = upstream(302, 403, 500, 429);
  await withGateway(
    { endpoint: `http://127.0.0.1:${server.port}`, credential: await literal("sk-1") },
    async (gateway, events) => {
      for (const status of [302, 403, 500, 429]) {
        const response = await gateway.http(guest("/"));
        assert.equal(response.status, status);
        await response.body.cancel();
      }
      assert.equal(server.seen.length, 4);
      assert.deepEqual(events, []);
    },
  );
});

Deno.test("a metered gateway sends only while an admission is open", async () => {
  await using server = upstream(200);
  const admission = { open: false };
  await withGateway(
    { endpoint: `http://127.0.0.1:${server.port}`, credential: await literal("sk-1"), admission },
    async (gateway) => {
      await assert.rejects(
        gateway.http(guest("/")),
        (error) => error instanceof OutgoingHttpError && error.wasiCode === "HTTP-request-denied",
      );
      assert.equal(server.seen.length, 0);
      admission.open = true;
      await (await gateway.http(guest("/"))).body.cancel();
      assert.equal(server.seen.length, 1);
    },
  );
});

Deno.test("an injected credential that is not there yet fails inside the guest and contacts nobody", async () => {
  await using server = upstream(200);
  const values = new Map<string, string>();
  const credential = (await findCredential({ kind: "reference", name: "KEY" }, {
    configFile: "/nonexistent",
    env: { get: () => "environment" },
    injectable: ["KEY"],
    secrets: values,
  }))!;
  await withGateway({ endpoint: `http://127.0.0.1:${server.port}`, credential }, async (gateway, events) => {
    for (let count = 0; count < 2; count++) {
      await assert.rejects(gateway.http(guest("/")), (error) => {
        assert.ok(error instanceof OutgoingHttpError);
        assert.equal(error.wasiCode, "internal-error");
        assert.match(error.message, /no value was injected yet for 'KEY'/);
        return true;
      });
    }
    assert.equal(server.seen.length, 0);
    assert.deepEqual(events, [{ source: "injected", credential: "KEY", change: "unreadable", reason: "not_injected" }]);
    values.set("KEY", "sk-9");
    await (await gateway.http(guest("/"))).body.cancel();
    assert.ok(server.seen[0]!.headers.some(([, value]) => value === "Bearer sk-9"));
  });
});

Deno.test("no error text holds the key", async () => {
  const secrets = ["sk-very-secret\r\nx: y", "sk-very-secret\u0100"];
  for (const secret of secrets) {
    await withGateway(
      { endpoint: "http://127.0.0.1:1", credential: await literal(secret) },
      async (gateway) => {
        await assert.rejects(gateway.http(guest("/")), (error) => {
          assert.ok(error instanceof OutgoingHttpError);
          assert.ok(!`${error.message}${error.stack}`.includes("sk-very-secret"));
          return true;
        });
      },
    );
  }
  // An upstream that answers with the key in place of HTTP: the parser quotes nothing, and what it said is redacted.
  const listener = Deno.listen({ port: 0, hostname: "127.0.0.1" });
  const serving = (async () => {
    const conn = await listener.accept();
    await conn.read(new Uint8Array(4096));
    await conn.write(new TextEncoder().encode("sk-very-secret\r\n\r\n"));
    conn.close();
  })();
  await withGateway(
    {
      endpoint: `http://127.0.0.1:${(listener.addr as Deno.NetAddr).port}`,
      credential: await literal("sk-very-secret"),
    },
    async (gateway) => {
      await assert.rejects(gateway.http(guest("/")), (error) => {
        assert.ok(error instanceof OutgoingHttpError);
        assert.equal(error.wasiCode, "HTTP-protocol-error");
        assert.ok(!`${error.message}${error.stack}`.includes("sk-very-secret"));
        return true;
      });
    },
  );
  await serving;
  listener.close();
});

Deno.test("a key that the upstream sends back does not reach the guest", async () => {
  const key = "sk-very-secret/0123456789";
  let asked = 0;
  const server = Deno.serve({ port: 0, hostname: "127.0.0.1", onListen: () => {} }, (request) => {
    asked++;
    const sent = request.headers.get("authorization")!;
    assert.equal(sent, `Bearer ${key}`);
    assert.equal(request.headers.get("accept-encoding"), "identity");
    return new Response(JSON.stringify({ error: `you sent ${sent}`, again: encodeURIComponent(sent) }), {
      status: 400,
      headers: { "x-echo": sent, "location": `/?key=${encodeURIComponent(key)}` },
    });
  });
  await withGateway(
    { endpoint: `http://127.0.0.1:${server.addr.port}`, credential: await literal(key) },
    async (gateway) => {
      const response = await gateway.http(guest("/", { headers: [["accept-encoding", "gzip"]] }));
      const seen = JSON.stringify(response.headers) + await new Response(response.body).text();
      assert.match(seen, /you sent Bearer \*{25}"/);
      assert.ok(!decodeURIComponent(seen).includes("very-secret"), seen);
      // Its answer is the request itself.
      await assert.rejects(
        gateway.http(guest("/", { method: "TRACE" })),
        (error) => error instanceof OutgoingHttpError && error.wasiCode === "HTTP-request-denied",
      );
      assert.equal(asked, 1);
    },
  );
  await server.shutdown();
});

Deno.test("a body too large to be sent twice is refused while it comes", async () => {
  await using server = upstream(200);
  let produced = 0;
  const chunk = new Uint8Array(1024 * 1024);
  const body = new ReadableStream<Uint8Array>({
    pull(controller) {
      produced += chunk.length;
      controller.enqueue(chunk);
    },
  }, { highWaterMark: 0 });
  await withGateway(
    { endpoint: `http://127.0.0.1:${server.port}`, credential: await literal("sk-1") },
    async (gateway) => {
      await assert.rejects(
        gateway.http(guest("/", { method: "POST", body })),
        (error) => error instanceof OutgoingHttpError && error.wasiCode === "HTTP-request-body-size",
      );
      assert.ok(produced <= MAX_KEYED_BODY + 4 * chunk.length);
      assert.equal(server.seen.length, 0);
    },
  );
});

Deno.test("a guest that goes away while its body is gathered ends the request", async () => {
  await using server = upstream(200);
  const controller = new AbortController();
  await withGateway(
    { endpoint: `http://127.0.0.1:${server.port}`, credential: await literal("sk-1") },
    async (gateway) => {
      const asked = gateway.http(
        guest("/", { method: "POST", body: new ReadableStream<Uint8Array>({}), signal: controller.signal }),
      );
      setTimeout(() => controller.abort(), 20);
      await assert.rejects(asked, OutgoingHttpError);
      assert.equal(server.seen.length, 0);
    },
  );
});

Deno.test("the address a guest gets carries the path of the endpoint", () => {
  assert.equal(gatewayEndpointForGuest("https://api.example.com"), "http://127.0.0.1:9");
  assert.equal(gatewayEndpointForGuest("https://api.example.com/"), "http://127.0.0.1:9");
  assert.equal(gatewayEndpointForGuest("https://api.example.com:8443/v1/"), "http://127.0.0.1:9/v1");
  assert.equal(gatewayEndpointForGuest("http://[::1]:11434/a/b"), "http://127.0.0.1:9/a/b");
});

Deno.test("a gateway without a usable upstream_auth is E-RUN-025 with its reason", () => {
  const usable: UpstreamAuth = { kind: "usable", header: "x-api-key", value: "{key}" };
  assert.deepEqual(requireUpstreamAuth("a@1.0.0", usable, false), { header: "x-api-key", value: "{key}" });
  const cases: readonly (readonly [UpstreamAuth, boolean, string])[] = [
    [{ kind: "absent" }, false, "there is no such block"],
    [{ kind: "absent" }, true, "retired name"],
    [usable, true, "retired name"],
    [{ kind: "unusable", reason: "not a mapping" }, false, "not a mapping"],
  ];
  for (const [auth, retired, reason] of cases) {
    assert.throws(() => requireUpstreamAuth("a@1.0.0", auth, retired), (error) => {
      assert.ok(error instanceof MurError);
      assert.equal(error.code, "E-RUN-025");
      assert.ok(error.message.includes("a@1.0.0") && error.message.includes(reason), error.message);
      return true;
    });
  }
});

Deno.test("a standing rejection tells whether a restart is needed", async () => {
  await withGateway({ endpoint: "https://api.example.com", credential: await literal("sk-1") }, async (gateway) => {
    const error = credentialRejectedError(gateway, await literal("sk-1"));
    assert.equal(error.code, "E-RUN-027");
    assert.match(error.hint!, /restart/);
    assert.ok(!error.message.includes("sk-1"));
  });
});
