import assert from "node:assert/strict";
import { newId } from "../base/ids.ts";
import { idleProcess, RoostDaemon, RoostHome } from "../roost/testing/daemon.ts";
import { withLocalServer } from "../tests/support/local_server.ts";
import { testContext } from "../tests/support/cli_context.ts";
import { main } from "./main.ts";

async function status(home: string, args: readonly string[], env: Record<string, string> = {}) {
  const context = testContext(home, { HOME: home, ...env });
  const code = await main(["roost", "status", ...args], context);
  return { code, out: context.out(), err: context.err() };
}

Deno.test("the daemon's count, and sessions as a tree with what they may still spawn", async () => {
  await using home = new RoostHome();
  await home.install("parent", "capabilities: { spawn: { allow: [local/child] } }\n");
  await home.install("child");
  await using daemon = await RoostDaemon.start(["--spawn-allow", "local/parent", "--max-live-capsules", "9"], {
    home: home.path,
  });
  const process = idleProcess();
  try {
    const parent = await daemon.root("parent");
    const child = await daemon.delegate(parent.credential, "child");
    await daemon.spawn(parent.credential, "child");
    const other = newId("ses");
    home.record(parent.id, process.pid, { capsule_name: "parent" });
    home.record(child.id, process.pid, { capsule_name: "child", spawned_by: parent.id });
    home.record(other, process.pid, { capsule_name: "alone" });
    home.record(newId("ses"), process.pid, { process_start: "1" });
    const before = [...Deno.readDirSync(home.running)].length;
    const shown = await status(home.path, ["--url", daemon.url]);
    assert.deepEqual([shown.code, shown.err], [0, ""]);
    // The columns are as wide as their cells.
    assert.deepEqual(shown.out.split("\n").map((line) => line.trimEnd().replaceAll(/(?<=\S) {2,}/g, "  ")), [
      `mur-roost answers at 127.0.0.1:${daemon.port}`,
      "live capsules: 3",
      "bounds: 9 live capsules (--max-live-capsules), 4 children a session (--max-concurrent), 3 levels of delegation " +
      "(--max-depth)",
      "",
      "SESSION  CAPSULE  STATUS  MAY DELEGATE  CHILDREN",
      `${other}  alone@1.0.0  unregistered  -  -`,
      `${parent.id}  parent@1.0.0  running  3 levels  2`,
      `  ${child.id}  child@1.0.0  running  2 levels  0`,
      "",
    ]);
    // The environment names it too; a flag goes before it.
    const json = await status(home.path, ["--json"], { MURMUR_ROOST_URL: `${daemon.url}/` });
    assert.equal(json.code, 0);
    const { sessions, ...rest } = JSON.parse(json.out);
    assert.deepEqual(rest, {
      url: `${daemon.url}/`,
      live_capsules: 3,
      max_depth: 3,
      max_concurrent: 4,
      max_live_capsules: 9,
    });
    assert.deepEqual(
      sessions.map(({ session_id, status, spawned_by }: Record<string, unknown>) => [session_id, status, spawned_by]),
      [
        [other, "unregistered", null],
        [parent.id, "running", null],
        [child.id, "running", parent.id],
      ],
    );
    assert.equal((await status(home.path, ["--url", daemon.url], { MURMUR_ROOST_URL: "http://127.0.0.1:1" })).code, 0);
    assert.equal([...Deno.readDirSync(home.running)].length, before);
  } finally {
    process.kill("SIGKILL");
    await process.status;
  }
});

Deno.test("a daemon that knows none of the sessions says so; one that is not there is an error", async () => {
  await using home = new RoostHome();
  {
    await using daemon = await RoostDaemon.start([], { home: home.path });
    const shown = await status(home.path, ["--url", daemon.url]);
    assert.equal(shown.code, 0);
    assert.match(shown.out, /\nlive capsules: 0\nbounds: \d+ live .*\nno running capsules\n$/);
    await assert.rejects(Deno.stat(home.running), Deno.errors.NotFound);
  }
  {
    // As after a restart: it counts what runs, and knows none of them.
    await using other = new RoostHome();
    for (let count = 0; count < 2; count++) other.record(newId("ses"), Deno.pid);
    await using daemon = await RoostDaemon.start([], { home: other.path });
    assert.match((await status(other.path, ["--url", daemon.url])).out, /\nlive capsules: 2\n[^]* unregistered /);
    const { live_capsules } = JSON.parse((await status(other.path, ["--url", daemon.url, "--json"])).out);
    assert.equal(live_capsules, 2);
  }
  const gone = await status(home.path, ["--url", "http://127.0.0.1:1"]);
  assert.equal(gone.code, 1);
  assert.match(gone.err, /^error\[E-IO-003\]: no mur-roost answers at 127\.0\.0\.1:1: .*\n {2}hint: /);
  for (const url of ["127.0.0.1:7700", "https://127.0.0.1:7700", "http://a@127.0.0.1", "http://127.0.0.1/?x"]) {
    const { code, err } = await status(home.path, ["--url", url]);
    assert.equal(code, 1, url);
    assert.match(err, /is not the address of a mur-roost/);
  }
});

Deno.test("records that name each other as parents are listed once each", async () => {
  await using home = new RoostHome();
  await using daemon = await RoostDaemon.start([], { home: home.path });
  const [first, second] = [newId("ses"), newId("ses")];
  home.record(first, Deno.pid, { spawned_by: second });
  home.record(second, Deno.pid, { spawned_by: first });
  const { code, out } = await status(home.path, ["--url", daemon.url, "--json"]);
  assert.equal(code, 0);
  assert.deepEqual(
    JSON.parse(out).sessions.map(({ session_id }: { session_id: string }) => session_id).sort(),
    [first, second].sort(),
  );
});

Deno.test("a count and bounds that a daemon does not tell are unknown", async () => {
  await using home = new RoostHome();
  await withLocalServer(() => Response.json({}), async ({ url }) => {
    const shown = await status(home.path, ["--url", url]);
    assert.deepEqual([shown.code, shown.err], [0, ""]);
    assert.match(shown.out, /\nlive capsules: unknown, since this daemon does not tell them\n/);
    assert.match(shown.out, /\nbounds: unknown, since this daemon does not tell them\n/);
    const { max_depth, max_live_capsules } = JSON.parse((await status(home.path, ["--url", url, "--json"])).out);
    assert.deepEqual([max_depth, max_live_capsules], [null, null]);
  });
});
