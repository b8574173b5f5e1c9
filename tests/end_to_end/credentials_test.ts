/**
 * The model drivers in whole runs against a provider that checks what it is sent, and the keys that nobody else may see
 * (spec components 5, cli 5.4).
 *
 * @module
 */
import type { JsonObject } from "../../base/json_value.ts";
import assert from "node:assert/strict";
import { type AgentProject, agentProject, type AgentRun, capsule, toolEntry } from "../support/agent_project.ts";
import { murCommand, murEnvironment } from "../support/mur_process.ts";
import { type ProviderServer, startProviderServer } from "../support/provider_server.ts";

const KEY = "sk-only-the-provider-and-mur-know-0123456789";

const DRIVERS = { anthropic: "murmur-driver-anthropic", openai: "murmur-driver-openai" } as const;
type Format = keyof typeof DRIVERS;

/** A capsule with a real driver before a provider. */
function modelCapsule(
  format: Format,
  provider: ProviderServer,
  apiKey: string,
  more: Parameters<typeof capsule>[0] = {},
) {
  const name = DRIVERS[format];
  const manifest = capsule({ driver: name, ...more });
  const [, ...others] = manifest.artifacts as JsonObject[];
  const gateway = { endpoint: provider.endpoint, api_key: apiKey };
  return { ...manifest, artifacts: [{ name, version: "0.1.0", runtime: "driver", gateway }, ...others] };
}

async function* filesBelow(directory: string): AsyncGenerator<string> {
  for await (const { name, isDirectory, isFile } of Deno.readDir(directory)) {
    if (isDirectory) yield* filesBelow(`${directory}/${name}`);
    else if (isFile) yield `${directory}/${name}`;
  }
}

/** No file below a directory but the configuration holds a text, in any of the shapes it travels in. */
async function assertNowhere(directory: string, secret: string): Promise<void> {
  const shapes = [secret, btoa(secret), secret.split("").reverse().join("")];
  for await (const path of filesBelow(directory)) {
    if (path.endsWith("/.murmur/config.yaml")) continue;
    const text = new TextDecoder("latin1").decode(await Deno.readFile(path));
    for (const shape of shapes) assert.ok(!text.includes(shape), path);
  }
}

async function assertKeySafe(project: AgentProject, run: AgentRun): Promise<void> {
  for (const text of [run.stdout, run.stderr, run.result ?? "", run.traceText]) assert.ok(!text.includes(KEY));
  await assertNowhere(project.murmur, KEY);
}

const tools = {
  artifacts: [toolEntry("probe-tool")],
  capabilities: { shell: { allow: ["sh", "cat", "env", "find", "sed", "tr"] } },
  trace: { capture: "content" },
};

/** Everything an agent can reach: its environment, its files, the runtime's directories, the process that runs it. */
const SEARCH = `env; cat "$MURMUR_RUNTIME_DIR"/murmur.yaml "$MURMUR_RUNTIME_DIR"/*.md; ` +
  `find "$HOME/.." -type f -exec cat {} +; cat /proc/$PPID/environ /proc/$PPID/cmdline | tr '\\0' '\\n'; ` +
  `for p in /proc/[0-9]*; do cat $p/environ $p/cmdline $p/mem; done`;

async function searchingRun(
  format: Format,
  source: "config" | "environment" | "manifest",
): Promise<void> {
  await using provider = await startProviderServer({ format, key: KEY, dialect: "compatible" });
  await using project = await agentProject(
    modelCapsule(format, provider, source === "manifest" ? KEY : "${PROVIDER_KEY}", tools),
  );
  if (source === "config") {
    const set = await project.mur(["config", "set", "-g", "credentials.PROVIDER_KEY", "-"], { stdin: `${KEY}\n` });
    assert.equal(set.status, 0, set.stderr);
  }
  provider.script.push(
    {
      text: "I look around.",
      thinking: "Where might it be?",
      toolCalls: [
        { name: "sh", input: { command: SEARCH } },
        { name: "probe-tool", input: { operation: "environment" } },
        { name: "probe-tool", input: { operation: "read", path: "murmur-runtime/murmur.yaml" } },
      ],
      usage: { input: 100, output: 20, cached: 5 },
    },
    { text: "Nothing found.", usage: { input: 200, output: 3 } },
  );
  const run = await project.run({
    task: "Find the key.",
    args: ["--output", "text"],
    env: source === "environment" ? { PROVIDER_KEY: KEY } : {},
  });
  assert.equal(run.status, 0, run.stderr);
  assert.equal(run.stdout, "Nothing found.\n");
  assert.deepEqual(provider.problems, []);
  assert.equal(provider.requests.length, 2);
  const header = format === "anthropic" ? ["x-api-key", KEY] : ["authorization", `Bearer ${KEY}`];
  for (const { headers, headerNames } of provider.requests) {
    assert.equal(headers[header[0]!], header[1]);
    assert.equal(headerNames.filter((name) => name === header[0]).length, 1);
  }
  const [start] = run.events("session_start");
  assert.equal(start!.credential_source, source);
  assert.deepEqual(start!.gateways, [
    { artifact: DRIVERS[format], host: new URL(provider.endpoint).host, credential_source: source, metered: true },
  ]);
  assert.equal(/W-SEC-027/.test(run.stderr), source !== "config");
  const [first, second] = run.events("inference");
  assert.deepEqual([first!.output_tokens_actual, second!.output_tokens_actual], [20, 3]);
  assert.deepEqual(run.events("tool_call").map(({ status }) => status), ["ok", "ok", "ok"]);
  // What the tools gave went back to the model.
  for (const seen of ["MURMUR_SESSION_ID=", "# MURMUR", "session_start"]) {
    assert.ok(JSON.stringify(provider.requests[1]!.body).includes(seen), seen);
  }
  assert.ok(!JSON.stringify(provider.requests.map(({ body }) => body)).includes(KEY));
  await assertKeySafe(project, run);
}

Deno.test("a key of the configuration reaches the provider and nothing else, over a tool round trip", async () => {
  await Promise.all([searchingRun("anthropic", "config"), searchingRun("openai", "config")]);
});

Deno.test("a key that is no text refuses the launch by its name, and is shown nowhere", async () => {
  await using provider = await startProviderServer({ format: "openai", key: KEY, dialect: "compatible" });
  await using project = await agentProject(modelCapsule("openai", provider, "${PROVIDER_KEY}"));
  const under = ["sh", "-c", `PROVIDER_KEY=$(printf '%s\\377' "$0") exec "$@"`, KEY];
  const run = await project.run({ task: "x", under, env: { MUR_DEBUG: "1" } });
  assert.equal(run.status, 1);
  assert.match(run.stderr, /error\[E-IO-003\]: the value of PROVIDER_KEY in the environment is not UTF-8\n/);
  await assertKeySafe(project, run);
});

Deno.test("so does a key of the environment and one that stands in the manifest", async () => {
  await Promise.all([searchingRun("anthropic", "environment"), searchingRun("openai", "manifest")]);
});

Deno.test("a rejected key fails the task and says what to do", async () => {
  await Promise.all((["anthropic", "openai"] as const).map(async (format) => {
    await using provider = await startProviderServer({ format, key: "another" });
    await using project = await agentProject(modelCapsule(format, provider, "${PROVIDER_KEY}"));
    const run = await project.run({ task: "x", env: { PROVIDER_KEY: KEY } });
    assert.equal(run.status, 1);
    assert.equal(provider.requests.length, 1);
    assert.match(run.stderr, /^error\[E-RUN-027\]: .*PROVIDER_KEY[\s\S]*^error\[E-RUN-040\]: /m);
    const [credential] = run.events("inference_credential");
    assert.deepEqual(
      [credential!.source, credential!.credential, credential!.change, credential!.status, credential!.retried],
      ["environment", "PROVIDER_KEY", "rejected", 401, false],
    );
    const [inference] = run.events("inference");
    assert.deepEqual([inference!.error_code, inference!.provider_status], ["credential_rejected", 401]);
    assert.equal(run.events("task_failed")[0]!.cause, "credential_rejected");
    await assertKeySafe(project, run);
  }));
});

Deno.test("a key that is replaced while the session runs is used for the next request", async () => {
  await using provider = await startProviderServer({ format: "anthropic", key: KEY });
  await using project = await agentProject(
    modelCapsule("anthropic", provider, "${PROVIDER_KEY}", { artifacts: [toolEntry("probe-tool")] }),
  );
  const config = (key: string) => `credentials:\n  PROVIDER_KEY: ${key}\n`;
  await Deno.writeTextFile(`${project.murmur}/config.yaml`, config(KEY), { mode: 0o600 });
  const next = `${KEY}-rotated`;
  provider.script.push(
    () => {
      Deno.writeTextFileSync(`${project.murmur}/config.yaml`, config(next));
      provider.key = next;
      return { toolCalls: [{ name: "probe-tool", input: { operation: "letters", size: 1 } }] };
    },
    () => {
      Deno.removeSync(`${project.murmur}/config.yaml`);
      return { toolCalls: [{ name: "probe-tool", input: { operation: "letters", size: 1 } }] };
    },
    { text: "done" },
  );
  const run = await project.run({ task: "x" });
  assert.equal(run.status, 0, run.stderr);
  assert.deepEqual(provider.problems, []);
  assert.deepEqual(provider.requests.map(({ headers }) => headers["x-api-key"]), [KEY, next, next]);
  assert.deepEqual(
    run.events("inference_credential").map((line) => [line.change, line.trigger ?? line.reason]),
    [["rotated", "file_changed"], ["unreadable", "missing"]],
  );
  await assertKeySafe(project, run);
});

Deno.test("what the provider says about a failure is told without the key", async () => {
  await using provider = await startProviderServer({ format: "openai", key: KEY });
  await using project = await agentProject(modelCapsule("openai", provider, KEY));
  provider.script.push({ status: 400, type: "invalid_request_error", message: `you sent Bearer ${KEY}, dear` });
  const run = await project.run({ task: "x" });
  assert.equal(run.status, 1);
  assert.equal(run.events("inference")[0]!.provider_status, 400);
  assert.match(run.result!, /^error: /);
  await assertKeySafe(project, run);
});

const scriptPresent = await new Deno.Command("script", { args: ["--version"], stdout: "null", stderr: "null" }).output()
  .then(({ success }) => success, () => false);

Deno.test({
  name: "a model's answer is shown on a terminal while it arrives",
  ignore: !scriptPresent,
  async fn() {
    await using provider = await startProviderServer({ format: "anthropic", key: KEY });
    await using project = await agentProject(modelCapsule("anthropic", provider, KEY));
    provider.script.push({ text: "a text that comes in many pieces", pieceDelayMs: 150 });
    const words = murCommand(["run", "--task", "x"]).map((word) => `'${word}'`).join(" ");
    const child = new Deno.Command("script", {
      args: ["-qec", words, "/dev/null"],
      cwd: project.project,
      clearEnv: true,
      env: murEnvironment({ home: project.home }),
      stdin: "null",
      stdout: "piped",
      stderr: "null",
    }).spawn();
    const arrivals: string[] = [];
    for await (const text of child.stdout.pipeThrough(new TextDecoderStream())) arrivals.push(text);
    assert.ok((await child.status).success);
    assert.match(arrivals.join("").replaceAll("\r\n", "\n"), /\na text that comes in many pieces\nstatus: {2}ok\n/);
    assert.ok(arrivals.length >= 4, `${arrivals.length} pieces`);
  },
});

Deno.test("a tool reaches what the rules allow and nothing by a detour", async () => {
  const seen: string[] = [];
  const serve = (name: string, handler: (url: URL) => Response) =>
    Deno.serve({ hostname: "127.0.0.1", port: 0, onListen: () => {} }, (request) => {
      const url = new URL(request.url);
      seen.push(`${name} ${url.pathname}`);
      return handler(url);
    });
  await using inner = serve("inner", () => new Response("secret of the inner service"));
  await using open = serve(
    "open",
    (url) =>
      url.pathname === "/away"
        ? Response.redirect(`http://127.0.0.1:${inner.addr.port}/secret`)
        : url.pathname === "/home"
        ? Response.redirect(`http://127.0.0.1:${open.addr.port}/hello`)
        : new Response("hello"),
  );
  const host = Deno.hostname();
  const rules = [`http://127.0.0.1:${open.addr.port}`, `${host}:${inner.addr.port}`];
  await using project = await agentProject(capsule({
    artifacts: [
      { name: "murmur-tool-fetch", version: "0.1.0", runtime: "tool" },
    ],
    capabilities: { network: { allow: rules } },
  }));
  const fetches = [
    `http://127.0.0.1:${open.addr.port}/hello`,
    `http://127.0.0.1:${open.addr.port}/home`,
    `http://127.0.0.1:${inner.addr.port}/secret`,
    `http://127.0.0.1:${open.addr.port}/away`,
    `http://localhost:${open.addr.port}/hello`,
    `http://0.0.0.0:${inner.addr.port}/secret`,
    `http://[::ffff:127.0.0.1]:${inner.addr.port}/secret`,
    // An allowed name that leads to an address of this machine.
    `http://${host}:${inner.addr.port}/secret`,
    `http://127.0.0.1:${open.addr.port}@127.0.0.1:${inner.addr.port}/secret`,
    `https://127.0.0.1:${open.addr.port}/hello`,
    "http://127.0.0.1:9/v1/messages",
    "file:///etc/passwd",
  ];
  const run = await project.run({
    task: {
      turns: [
        { calls: fetches.map((url) => ({ name: "murmur-tool-fetch", input: { url, timeout_seconds: 5 } })) },
        { show: "results" },
      ],
    },
  });
  assert.equal(run.status, 0, run.stderr);
  const results = JSON.parse(run.result!) as { text: string; error: boolean }[];
  assert.deepEqual(results.map(({ error }) => error), [false, false, ...Array(fetches.length - 2).fill(true)]);
  assert.match(results[0]!.text, /hello/);
  assert.match(results[2]!.text, /was refused: no network\.allow covers it/);
  assert.ok(!run.result!.includes("secret of the inner service"));
  assert.deepEqual(seen, ["open /hello", "open /home", "open /hello", "open /away"]);
});
