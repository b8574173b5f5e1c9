import assert from "node:assert/strict";
import { MurError } from "../../base/errors.ts";
import { createHttpClient, type HttpClient } from "../../base/http_client.ts";
import { type LocalAnswer, withLocalServer } from "../../tests/support/local_server.ts";
import { formatMetadata } from "../artifact_metadata.ts";
import { sha256Hex } from "../sha256.ts";
import { parseRegistryUrl, RemoteRegistry } from "./remote_registry.ts";
import { withCode } from "../../tests/support/error_code.ts";
import { NATIVE_METADATA } from "../../tests/support/packed_artifact.ts";

const BOUNDS = { registryRequest: 2_000 };
const utf8 = (text: string) => new TextEncoder().encode(text);
const json = (value: unknown, status = 200) => Response.json(value, { status });
const missing = () => json({ message: "Not Found" }, 404);
const WANTED = { name: "a", version: "1.0.0", platform: "linux-x86_64" };

function registryAt(client: HttpClient, url: string, bounds = BOUNDS) {
  return new RemoteRegistry({ url: `${url}/`, apiKey: "nexus-key", send: client.send, bounds });
}

Deno.test("publishing posts the archive with name, version, kind and platform, and the key as bearer", async () => {
  const answer: LocalAnswer = async () => json({ artifact_id: "a@1.0.0", sha256: await sha256Hex(utf8("zip")) }, 201);
  await withLocalServer(answer, async ({ url, seen }, client) => {
    await registryAt(client, url).publish(NATIVE_METADATA, utf8("zip"));
    assert.equal(seen[0]!.method, "POST");
    assert.equal(seen[0]!.path, "/v1/artifacts?name=a&version=1.0.0&runtime=native&platform=linux-x86_64");
    assert.equal(seen[0]!.authorization, "Bearer nexus-key");
    assert.equal(seen[0]!.headers.get("content-type"), "application/octet-stream");
    assert.deepEqual(seen[0]!.body, utf8("zip"));
  });
});

Deno.test("the registry's refusals of a publish have their codes", async () => {
  const cases: [Response, string, RegExp][] = [
    [json({ error: "bad name" }, 400), "E-IO-003", /HTTP 400: bad name/],
    [json({ error: "exists" }, 409), "E-REG-003", /already published/],
    [
      json({ error: "reserved artifact version 'latest' is not allowed" }, 422),
      "E-REG-004",
      /reserved artifact version 'latest'/,
    ],
    [json({ error: "no payload" }, 422), "E-IO-003", /no payload/],
    [json({ error: "x" }, 401), "E-IO-003", /http:\/\/127[^]*NEXUS_API_KEY/],
    [json({ error: "x" }, 403), "E-IO-003", /http:\/\/127[^]*NEXUS_API_KEY/],
    [new Response("<html>\x1b[2J", { status: 500 }), "E-IO-003", /HTTP 500$/m],
    [json({ error: "\x1b[2Jhidden" }, 500), "E-IO-003", /HTTP 500: {2}\[2Jhidden/],
    [json({ sha256: "0".repeat(64) }, 201), "E-REG-002", /./],
    [new Response(null, { status: 307, headers: { location: "http://127.0.0.1:1/" } }), "E-IO-003", /HTTP 307/],
  ];
  for (const [response, code, pattern] of cases) {
    await withLocalServer(() => response, async ({ url, seen }, client) => {
      await assert.rejects(() => registryAt(client, url).publish(NATIVE_METADATA, utf8("zip")), (error) => {
        assert.ok(!String((error as MurError).message).includes("nexus-key"));
        return withCode(code, pattern)(error);
      });
      assert.equal(seen.length, 1);
    });
  }
});

Deno.test("fetching needs the hash header and bytes of that hash", async () => {
  const hash = await sha256Hex(utf8("zip"));
  const given = (headers: Record<string, string>, body = "zip"): LocalAnswer => () => new Response(body, { headers });
  await withLocalServer(given({ "x-murmur-sha256": hash }), async ({ url, seen }, client) => {
    assert.deepEqual(await registryAt(client, url).fetch(WANTED), { kind: "found", bytes: utf8("zip"), sha256: hash });
    assert.equal(seen[0]!.path, "/v1/artifacts/a/1.0.0?platform=linux-x86_64");
    await registryAt(client, url).fetch({ ...WANTED, platform: null });
    assert.equal(seen[1]!.path, "/v1/artifacts/a/1.0.0");
  });
  await withLocalServer(given({}), async ({ url }, client) => {
    await assert.rejects(() => registryAt(client, url).fetch(WANTED), withCode("E-IO-003", /x-murmur-sha256/));
  });
  await withLocalServer(given({ "x-murmur-sha256": hash }, "zap"), async ({ url }, client) => {
    await assert.rejects(() => registryAt(client, url).fetch(WANTED), withCode("E-REG-002", /a@1\.0\.0/));
  });
  await withLocalServer(() => missing(), async ({ url }, client) => {
    assert.equal((await registryAt(client, url).fetch(WANTED)).kind, "not-found");
    assert.equal((await registryAt(client, url).fetch({ ...WANTED, version: null })).kind, "not-found");
  });
});

Deno.test("a registry that is not there or stays silent is E-IO-003 within the time bound", async () => {
  const client = createHttpClient();
  await assert.rejects(
    () => registryAt(client, "http://127.0.0.1:1").fetch(WANTED),
    withCode("E-IO-003", /did not answer/),
  );
  client.close();
  let free = () => {};
  const held = new Promise<void>((resolve) => free = resolve);
  await withLocalServer(() => held.then(() => missing()), async ({ url }, client) => {
    await assert.rejects(
      () => registryAt(client, url, { registryRequest: 150 }).fetch(WANTED),
      withCode("E-IO-003", /did not answer/),
    );
    free();
  });
});

Deno.test("a listing is the metadata of everything, or E-IO-003", async () => {
  const listed = JSON.parse(formatMetadata(NATIVE_METADATA)).meta;
  await withLocalServer(() => json([listed]), async ({ url, seen }, client) => {
    assert.deepEqual(await registryAt(client, url).list(), [NATIVE_METADATA]);
    assert.equal(seen[0]!.path, "/v1/artifacts");
  });
  for (const bad of [{}, [{}], ["x"], "x"]) {
    await withLocalServer(() => json(bad), async ({ url }, client) => {
      await assert.rejects(() => registryAt(client, url).list(), withCode("E-IO-003", /no artifact list/));
    });
  }
});

Deno.test("a remote registry without a usable key or URL is refused before anything is sent, no secret shown", () => {
  const make = (url: string, apiKey?: string) => () =>
    new RemoteRegistry({ url, apiKey, send: () => Promise.reject(new Error("sent")), bounds: BOUNDS });
  assert.throws(make("http://127.0.0.1:1"), withCode("E-IO-003", /NEXUS_API_KEY is not set/));
  assert.throws(make("http://127.0.0.1:1", ""), withCode("E-IO-003", /NEXUS_API_KEY is not set/));
  assert.throws(make("http://127.0.0.1:1", "a b"), withCode("E-IO-003", /cannot be sent/));
  for (const bad of ["", "x", "ftp://h", "http://h/?q=1", "http://h/#f"]) {
    assert.throws(() => parseRegistryUrl(bad), withCode("E-IO-003", /registry URL/));
  }
  assert.throws(
    () => parseRegistryUrl("http://u:hunter2@h"),
    (error) => !(error as MurError).message.includes("hunter2"),
  );
  assert.equal(parseRegistryUrl("https://h/base//"), "https://h/base");
});
