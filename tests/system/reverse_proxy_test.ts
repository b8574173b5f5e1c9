/**
 * The door behind nginx, with the configuration that the documentation gives (spec door 15): streams outlast silence,
 * half-sent requests and too many connections are nginx's to bound.
 *
 * @module
 */
import assert from "node:assert/strict";
import { type AgentProject, agentProject, capsule } from "../support/agent_project.ts";
import { startRun } from "../support/serving_run.ts";

const CONFIGURATION = new URL("../../docs/nginx-door.conf", import.meta.url);
const decoder = new TextDecoder();

/** A free TCP port. */
function freePort(): number {
  using listener = Deno.listen({ port: 0, hostname: "127.0.0.1" });
  return (listener.addr as Deno.NetAddr).port;
}

async function certificate(directory: string): Promise<string> {
  const { success, stderr } = await new Deno.Command("openssl", {
    args: [
      ..."req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=agent.example".split(" "),
      ...["-addext", "subjectAltName=DNS:agent.example,IP:127.0.0.1"],
      ...["-addext", "basicConstraints=critical,CA:FALSE"],
      ...["-keyout", `${directory}/door.key`, "-out", `${directory}/door.crt`],
    ],
  }).output();
  assert.ok(success, decoder.decode(stderr));
  return await Deno.readTextFile(`${directory}/door.crt`);
}

/** The documented configuration with its name, ports and certificate filled in, as a whole nginx of its own. */
async function configuration(directory: string, listen: number, door: number): Promise<string> {
  const server = (await Deno.readTextFile(CONFIGURATION))
    .replace("listen 443 ssl", `listen 127.0.0.1:${listen} ssl`)
    .replace("/etc/ssl/agent.example.crt", `${directory}/door.crt`)
    .replace("/etc/ssl/agent.example.key", `${directory}/door.key`)
    .replace("http://127.0.0.1:8080", `http://127.0.0.1:${door}`);
  const temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map((name) =>
    `${name}_temp_path ${directory}/${name};`
  );
  return [
    "daemon off;",
    ...(Deno.uid() === 0 ? ["user root;"] : []),
    `pid ${directory}/nginx.pid;`,
    `error_log ${directory}/error.log;`,
    "events {}",
    `http { access_log off; ${temporary.join(" ")}`,
    server,
    "}",
  ].join("\n");
}

interface Proxy extends AsyncDisposable {
  readonly port: number;
  fetch(body: unknown, headers?: Record<string, string>): Promise<Response>;
}

async function proxyBefore(door: number): Promise<Proxy> {
  const directory = await Deno.makeTempDir({ prefix: "mur-nginx-" });
  const port = freePort();
  const authority = await certificate(directory);
  await Deno.writeTextFile(`${directory}/nginx.conf`, await configuration(directory, port, door));
  const nginx = new Deno.Command("nginx", {
    args: ["-c", `${directory}/nginx.conf`, "-e", `${directory}/error.log`],
    stdout: "null",
    stderr: "null",
  }).spawn();
  for (let left = 100;; left--) {
    try {
      (await Deno.connect({ port, hostname: "127.0.0.1" })).close();
      break;
    } catch {
      if (left === 0) assert.fail(await Deno.readTextFile(`${directory}/error.log`).catch(() => "nginx did not start"));
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }
  const client = Deno.createHttpClient({ caCerts: [authority], allowHost: true });
  return {
    port,
    fetch: (body, headers = {}) =>
      fetch(`https://127.0.0.1:${port}/`, {
        client,
        method: "POST",
        headers: { "host": "agent.example", "content-type": "application/json", "a2a-version": "1.0", ...headers },
        body: JSON.stringify(body),
      }),
    async [Symbol.asyncDispose]() {
      client.close();
      nginx.kill("SIGTERM");
      await nginx.status;
      await Deno.remove(directory, { recursive: true }).catch(() => {});
    },
  };
}

const message = (program: unknown) => ({
  message: { messageId: crypto.randomUUID(), role: "ROLE_USER", parts: [{ text: JSON.stringify(program) }] },
});

function serving(): Promise<AgentProject> {
  return agentProject(
    capsule({ network: { hosts: ["agent.example"] }, lifecycle: { task_acceptance: "queue", after_task: "sleep" } }),
  );
}

Deno.test("a stream stays open through a proxy that closes silent connections, while its task is silent for a minute", async () => {
  await using project = await serving();
  const run = await startRun(project, null);
  await using proxy = await proxyBefore(Number(run.url.split(":")[1]));
  const response = await proxy.fetch({
    jsonrpc: "2.0",
    id: 1,
    method: "SendStreamingMessage",
    params: message({ turns: [{ delayMs: 60_000, text: "at last" }] }),
  });
  assert.equal(response.headers.get("content-type"), "text/event-stream");
  const started = performance.now();
  let text = "";
  let beats = 0;
  for await (const chunk of response.body!) {
    text += decoder.decode(chunk, { stream: true });
    beats = text.split(":heartbeat\n").length - 1;
  }
  assert.ok(performance.now() - started >= 60_000);
  assert.ok(beats >= 3, `${beats} heartbeats`);
  assert.match(text, /"at last"/);
  assert.match(text, /TASK_STATE_COMPLETED/);
  run.kill("SIGTERM");
  assert.equal((await run.finish()).status, 0);
});

Deno.test("behind the proxy a half-sent head is answered or cut, and the door keeps serving", async () => {
  await using project = await serving();
  const run = await startRun(project, null);
  await using proxy = await proxyBefore(Number(run.url.split(":")[1]));
  // A client that does not trust the certificate gets no further than the handshake.
  using tls = await Deno.connectTls({
    hostname: "127.0.0.1",
    port: proxy.port,
    caCerts: [],
    unsafelyDisableHostnameVerification: true,
  });
  await assert.rejects(tls.handshake(), /certificate/i);
  using half = await Deno.connect({ hostname: "127.0.0.1", port: proxy.port });
  await half.write(new TextEncoder().encode("POST / HTTP/1.1\r\nHost: agent.exam"));
  const closed = new Response(half.readable).text();
  for (let i = 0; i < 5; i++) {
    const listed = await proxy.fetch({ jsonrpc: "2.0", id: i, method: "ListTasks" });
    assert.equal((await listed.json()).result.totalSize, 0);
  }
  const foreign = await proxy.fetch({ jsonrpc: "2.0", id: 9, method: "ListTasks" }, { host: "evil.example" });
  assert.equal(foreign.status, 403);
  await foreign.body?.cancel();
  await closed;
  run.kill("SIGTERM");
  assert.equal((await run.finish()).status, 0);
});
