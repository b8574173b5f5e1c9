import assert from "node:assert/strict";
import { RoostDaemon, RoostHome } from "../roost/testing/daemon.ts";
import { HttpError } from "./http_error.ts";
import { newId } from "./ids.ts";
import { parseRoostUrl, RoostClient } from "./roost_client.ts";

Deno.test("a base URL names host, port and path", () => {
  for (
    const [text, host, port, path] of [
      ["http://127.0.0.1:7700", "127.0.0.1", 7700, ""],
      [" http://127.0.0.1:7700/ ", "127.0.0.1", 7700, ""],
      ["http://localhost", "localhost", 80, ""],
      ["http://[::1]:1/a/b//", "::1", 1, "/a/b"],
    ] as const
  ) assert.deepEqual(parseRoostUrl(text), { host, port, path }, text);
  for (
    const text of [
      "",
      "127.0.0.1:7700",
      "localhost:7700",
      "https://127.0.0.1",
      "http://",
      "http://u@h",
      "http://h/?q",
      "http://h/#f",
    ]
  ) assert.equal(parseRoostUrl(text), null, text);
});

Deno.test("a session's life with the real daemon", async () => {
  await using home = new RoostHome();
  await home.install("parent", "capabilities: { spawn: { allow: [local/child] } }\n");
  const sha256 = await home.install("child");
  await using daemon = await RoostDaemon.start(["--spawn-allow", "local/parent", "--max-live-capsules", "9"], {
    home: home.path,
  });
  const client = new RoostClient(parseRoostUrl(daemon.url)!);
  assert.equal(client.where, `127.0.0.1:${daemon.port}`);
  const bounds = { maxDepth: 3, maxConcurrent: 4, maxLiveCapsules: 9 };
  assert.deepEqual(await client.health(), { ok: true, value: bounds });
  const parent = newId("ses");
  const registered = await client.register({ session_id: parent, name: "local/parent", version: "1.0.0" }, null);
  assert.ok(registered.ok);
  const { credential } = registered.value;
  const granted = await client.spawn(credential, { name: "local/child", version: "1.0.0" });
  assert.ok(granted.ok);
  assert.equal(granted.value.sha256, sha256);
  const child = newId("ses");
  const launched = await client.register(
    { session_id: child, name: "local/child", version: "1.0.0" },
    granted.value.approval,
  );
  assert.ok(launched.ok);
  assert.deepEqual(await client.status(parent), {
    ok: true,
    value: { status: "running", depth_remaining: 3, live_children: 1, live_capsules: 2 },
  });
  assert.deepEqual(await client.spawn(credential, { name: "local/other", version: "1.0.0" }), {
    ok: false,
    status: 403,
    message: "capsule 'local/other' is not in parent's spawn_allow",
  });
  assert.deepEqual(await client.deregister(launched.value.credential, "failed"), { ok: true, value: null });
  assert.deepEqual(await client.status("ses_a/b c"), { ok: false, status: 404, message: "session not found" });
  const after = await client.status(child);
  assert.ok(after.ok && after.value.status === "failed");
});

const BOUNDS = { roostConnect: 1_000, roostAnswer: 300 };

/** A client of something that is no daemon: what it gets back. */
async function answered(reply: string): Promise<unknown> {
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const serving = (async () => {
    const connection = await listener.accept();
    await connection.read(new Uint8Array(4_096));
    await connection.write(new TextEncoder().encode(reply)).catch(() => {});
    if (reply !== "") connection.close();
    return connection;
  })();
  const client = new RoostClient({ host: "127.0.0.1", port: (listener.addr as Deno.NetAddr).port, path: "" }, BOUNDS);
  const outcome = await client.spawn("msc1.secret.secret", { name: "local/a", version: "1" }).catch((error) => error);
  const connection = await serving;
  if (reply === "") connection.close();
  listener.close();
  return outcome;
}

const http = (status: string, body: string) =>
  `HTTP/1.1 ${status}\r\ncontent-length: ${new TextEncoder().encode(body).length}\r\n\r\n${body}`;

Deno.test("what answers as no daemon does is an error, bounded in time and size, without a token in its text", async () => {
  const grant = { approval: "a", name: "n", version: "v", sha256: "0".repeat(64), expires_at_ms: 1 };
  const replies: Record<string, string> = {
    silence: "",
    "no HTTP": "hello\r\n\r\n",
    "no JSON": http("200 OK", "<html>"),
    "no object": http("200 OK", "[]"),
    "no approval": http("200 OK", JSON.stringify({ ...grant, approval: 1 })),
    "no hash": http("200 OK", JSON.stringify({ ...grant, sha256: "x" })),
    "no time": http("200 OK", JSON.stringify({ ...grant, expires_at_ms: 1.5 })),
    "too long": http("200 OK", JSON.stringify({ ...grant, more: "x".repeat(100_000) })),
    "cut short": "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{",
  };
  for (const [what, reply] of Object.entries(replies)) {
    const error = await answered(reply);
    assert.ok(error instanceof HttpError, what);
    assert.doesNotMatch(error.message, /secret/, what);
  }
  assert.deepEqual(await answered(http("200 OK", JSON.stringify(grant))), { ok: true, value: grant });
});

Deno.test("a refusal is passed on as one line, whatever it says", async () => {
  const refused = async (status: string, body: string) => await answered(http(status, body)) as Record<string, unknown>;
  const lines = await refused("403 Forbidden", JSON.stringify({ error: "a\nb \u2028 c" }));
  assert.deepEqual(lines, { ok: false, status: 403, message: "a b c" });
  const long = await refused("500 Oops", JSON.stringify({ error: "x".repeat(9_000) }));
  assert.ok((long.message as string).length < 2_010);
  assert.match((await refused("502 Bad Gateway", "<html>")).message as string, /^127\.0\.0\.1:\d+ answered 502$/);
});

Deno.test("a daemon that is not there is an error at once, and no proxy of the environment is asked", async () => {
  const client = new RoostClient({ host: "127.0.0.1", port: 1, path: "" }, BOUNDS);
  const proxy = Deno.env.get("HTTP_PROXY");
  Deno.env.set("HTTP_PROXY", "http://127.0.0.1:9");
  try {
    await assert.rejects(client.health(), (error) => error instanceof HttpError && error.kind === "connection-refused");
  } finally {
    if (proxy === undefined) Deno.env.delete("HTTP_PROXY");
    else Deno.env.set("HTTP_PROXY", proxy);
  }
  const given = AbortSignal.abort();
  await assert.rejects(client.status("x", { signal: given }), (error) => error instanceof HttpError);
});
