/**
 * How `mur-roost` starts, refuses to start and ends: flags, lines, the count of what runs (seed roost "Start the daemon").
 */
import assert from "node:assert/strict";
import { newId } from "../../base/ids.ts";
import { neglectfulParent } from "../support/neglectful_parent.ts";
import { processExists } from "../../base/process_identity.ts";
import { recordedProcess } from "../../base/write_running_record.ts";
import { VERSION } from "../../base/version.ts";
import { derivedCeiling } from "../../roost/arguments.ts";
import { idleProcess, roostCommand, RoostDaemon, RoostHome } from "../../roost/testing/daemon.ts";

async function run(
  args: readonly string[],
  home: string,
  env: Record<string, string> = {},
  under: readonly string[] = [],
) {
  const { code, stdout, stderr } = await roostCommand(args, { home, env, under }).output();
  return { code, stdout: new TextDecoder().decode(stdout), stderr: new TextDecoder().decode(stderr) };
}

function freePort(): number {
  using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  return (listener.addr as Deno.NetAddr).port;
}

async function isOpen(port: number, hostname = "127.0.0.1"): Promise<boolean> {
  try {
    (await Deno.connect({ hostname, port })).close();
    return true;
  } catch {
    return false;
  }
}

Deno.test("--version prints it and binds nothing", async () => {
  await using home = new RoostHome();
  const port = freePort();
  const { code, stdout, stderr } = await run(["--version", "--port", String(port)], home.path);
  assert.deepEqual([code, stdout, stderr], [0, `mur-roost ${VERSION}\n`, ""]);
  assert.ok(!(await isOpen(port)));
});

Deno.test("arguments that are none end it with one line, and nothing is bound", async () => {
  await using home = new RoostHome();
  const port = freePort();
  for (
    const [args, line] of [
      [["--max-total", "5"], /^mur-roost: unknown argument: --max-total\n$/],
      [["--nope"], /^mur-roost: unknown argument: --nope\n$/],
      [["--max-depth", "x"], /^mur-roost: --max-depth takes a whole number[^\n]*\n$/],
      [["--max-depth", "-1"], /^mur-roost: --max-depth takes a whole number[^\n]*\n$/],
      [["--max-live-capsules"], /^mur-roost: --max-live-capsules needs a value[^\n]*\n$/],
    ] as const
  ) {
    const { code, stdout, stderr } = await run(["--port", String(port), ...args], home.path);
    assert.deepEqual([code, stdout], [1, ""]);
    assert.match(stderr, line);
    assert.ok(!(await isOpen(port)));
  }
  assert.equal((await run(["--port"], home.path)).code, 1);
});

Deno.test("three lines in their order: the count, the address, the ceiling", async () => {
  await using home = new RoostHome();
  await using daemon = await RoostDaemon.start([], { home: home.path });
  const [count, listening, ceiling, ...more] = daemon.startLines;
  assert.deepEqual(more, []);
  const dir = home.running.replaceAll(".", "\\.");
  assert.match(
    count!,
    new RegExp(
      `^mur-roost: 0 live capsules already running on this host, counted from ${dir} \\(0 records read in \\d+\\.\\d ms; ` +
        "0 stale and 0 unreadable not counted\\)$",
    ),
  );
  assert.equal(listening, `mur-roost: listening on 127.0.0.1:${daemon.port}`);
  const derived = derivedCeiling(navigator.hardwareConcurrency);
  assert.equal(ceiling, `mur-roost: machine ceiling ${derived} live capsules (--max-live-capsules)`);
  // A directory that is not there stays so.
  await assert.rejects(Deno.stat(home.running), Deno.errors.NotFound);
  assert.deepEqual(await daemon.request("GET", "/health"), { status: 200, body: {} });
  assert.ok(!(await isOpen(daemon.port, "127.0.0.2")));
  assert.ok(!(await isOpen(daemon.port, "::1")));
});

Deno.test("another process of its user looks neither into its memory nor at its environment", async () => {
  await using home = new RoostHome();
  // Root may look into every process while it has the capability.
  const under = Deno.uid() === 0 ? ["setpriv", "--inh-caps=-all", "--bounding-set=-all"] : [];
  await using daemon = await RoostDaemon.start([], { home: home.path, under });
  const [command, ...args] = [...under, "sh", "-c", 'for f in mem environ fd/0; do cat "/proc/$0/$f" >/dev/null; done'];
  const { stderr } = await new Deno.Command(command!, { args: [...args, String(daemon.child.pid)] }).output();
  const lines = new TextDecoder().decode(stderr).trim().split("\n");
  assert.equal(lines.length, 3, lines.join("\n"));
  for (const line of lines) assert.match(line, /Permission denied$/);
});

Deno.test("the ceiling line names the flag's figure", async () => {
  await using home = new RoostHome();
  await using daemon = await RoostDaemon.start(["--max-live-capsules", "0"], { home: home.path });
  assert.equal(daemon.startLines[2], "mur-roost: machine ceiling 0 live capsules (--max-live-capsules)");
});

Deno.test("a running directory that cannot be listed, or a home that is none, ends it before it binds", async () => {
  await using home = new RoostHome();
  const prefix = "mur-roost: cannot count the capsules already running on this host: ";
  const port = freePort();
  await Deno.mkdir(`${home.path}/.murmur`);
  await Deno.writeTextFile(home.running, "");
  const file = await run(["--port", String(port)], home.path);
  assert.deepEqual(
    [file.code, file.stdout, file.stderr],
    [1, "", `${prefix}${home.running}: Not a directory (os error 20)\n`],
  );
  for (
    const [value, why] of [
      ["relative/home", "HOME is 'relative/home', which is not an absolute path"],
      ["", "HOME is not set"],
    ] as const
  ) {
    const { code, stderr } = await run(["--port", String(port)], value, { USERPROFILE: home.path });
    assert.equal(code, 1);
    assert.equal(stderr, `${prefix}the home directory could not be resolved: ${why}\n`);
  }
  const bytes = ["sh", "-c", `HOME=$(printf '/tmp/\\377') exec "$@"`, "sh"];
  const { code, stderr } = await run(["--port", String(port)], home.path, {}, bytes);
  assert.equal(code, 1);
  assert.equal(
    stderr,
    `${prefix}the home directory could not be resolved: the value of HOME in the environment is not UTF-8\n`,
  );
  assert.ok(!(await isOpen(port)));
});

Deno.test({
  name: "a running directory this user may not read ends it",
  // Root may read everything.
  ignore: Deno.uid() === 0,
  async fn() {
    await using home = new RoostHome();
    await Deno.mkdir(home.running, { recursive: true, mode: 0o700 });
    await Deno.chmod(home.running, 0o000);
    try {
      const { code, stderr } = await run([], home.path);
      assert.equal(code, 1);
      assert.match(stderr, /running: Permission denied \(os error 13\)\n$/);
    } finally {
      await Deno.chmod(home.running, 0o700);
    }
  },
});

Deno.test({
  name: "a record this user may not read is told of, and ends nothing",
  // Root may read everything.
  ignore: Deno.uid() === 0,
  async fn() {
    await using home = new RoostHome();
    const [open, closed] = [newId("ses"), newId("ses")];
    for (const id of [open, closed]) home.record(id, Deno.pid);
    await Deno.chmod(`${home.running}/${closed}.json`, 0);
    await using daemon = await RoostDaemon.start([], { home: home.path });
    assert.match(
      daemon.startLines[0]!,
      / 1 live capsules .*\(2 records read .*; 0 stale and 1 unreadable not counted\)$/,
    );
  },
});

Deno.test("a port that is taken ends it", async () => {
  await using home = new RoostHome();
  using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const { port } = listener.addr as Deno.NetAddr;
  const { code, stderr } = await run(["--port", String(port)], home.path);
  assert.equal(code, 1);
  assert.match(
    stderr,
    new RegExp(`\nmur-roost: failed to bind port ${port}: Address already in use \\(os error 98\\)\n$`),
  );
});

Deno.test("running capsules are counted by their processes, and nothing in their directory is touched", async () => {
  await using home = new RoostHome();
  await home.install("parent", "capabilities: { spawn: { allow: [local/child] } }\n");
  const alive = idleProcess();
  const gone = idleProcess();
  gone.kill("SIGKILL");
  await gone.status;
  try {
    const counted = newId("ses");
    home.record(counted, alive.pid);
    home.record(newId("ses"), alive.pid, { url: "localhost:1" });
    home.record(newId("ses"), alive.pid, { process_start: "" });
    home.record(newId("ses"), gone.pid, { process_start: "1" });
    home.record(newId("ses"), alive.pid, { process_start: "1" });
    const older = newId("ses");
    home.record(older, alive.pid);
    const olderPath = `${home.running}/${older}.json`;
    const { records_dir: _, ...rest } = JSON.parse(await Deno.readTextFile(olderPath));
    await Deno.writeTextFile(olderPath, JSON.stringify(rest));
    await Deno.writeTextFile(`${home.running}/${newId("ses")}.json`, "{");
    await Deno.writeTextFile(`${home.running}/${newId("ses")}.control`, "token");
    await Deno.writeTextFile(`${home.running}/note.txt`, "no record");
    await Deno.chmod(home.running, 0o755);
    const snapshot = () =>
      [...Deno.readDirSync(home.running)].map(({ name }) => {
        const { mode, mtime, ino } = Deno.lstatSync(`${home.running}/${name}`);
        return [name, mode, mtime?.getTime(), ino];
      }).sort();
    const before = snapshot();
    await using daemon = await RoostDaemon.start(["--spawn-allow", "local/parent"], { home: home.path });
    assert.match(
      daemon.startLines[0]!,
      /: 3 live capsules .*\(7 records read in .*; 2 stale and 2 unreadable not counted\)$/,
    );
    const parent = await daemon.root("parent");
    const live = async () => (await daemon.status(parent.id)).body.live_capsules;
    assert.equal(await live(), 4);
    assert.deepEqual(snapshot(), before);
    assert.equal((Deno.statSync(home.running).mode ?? 0) & 0o777, 0o755);
    // One that also registers counts once.
    assert.equal((await daemon.register(counted, "parent")).status, 200);
    assert.equal(await live(), 4);
    alive.kill("SIGKILL");
    await alive.status;
    // Two were found at the start, one had registered.
    assert.equal(await live(), 1);
    assert.equal((await daemon.status(counted)).body.status, "failed");
    assert.deepEqual(snapshot(), before);
  } finally {
    try {
      alive.kill("SIGKILL");
    } catch {
      // It has ended.
    }
    await alive.status;
  }
});

Deno.test("a process that the kernel counts otherwise is judged by its start, and one that has ended is not counted", async () => {
  await using home = new RoostHome();
  const alive = idleProcess();
  await using parent = await neglectfulParent(0.3);
  const zombie = parent.child;
  try {
    home.record(newId("ses"), zombie);
    while (processExists(zombie)) await new Promise((resolve) => setTimeout(resolve, 10));
    const { process_start } = recordedProcess(alive.pid);
    const others = ["", "0", "00000000-0000-0000-0000-000000000000:1"];
    for (const process_instance of others) home.record(newId("ses"), alive.pid, { process_start, process_instance });
    for (const process_instance of others) {
      home.record(newId("ses"), alive.pid, { process_start: "1", process_instance });
    }
    await using daemon = await RoostDaemon.start([], { home: home.path });
    assert.match(
      daemon.startLines[0]!,
      /: 3 live capsules .*\(7 records read in .*; 4 stale and 0 unreadable not counted\)$/,
    );
  } finally {
    alive.kill("SIGKILL");
    await alive.status;
  }
});

Deno.test("a restarted daemon forgets sessions and tokens and counts what still runs", async () => {
  await using home = new RoostHome();
  await home.install("parent", "capabilities: { spawn: { allow: [local/child] } }\n");
  await home.install("child");
  const capsule = idleProcess();
  try {
    const id = newId("ses");
    let credential = "";
    let approval = "";
    {
      await using daemon = await RoostDaemon.start(["--spawn-allow", "local/parent"], { home: home.path });
      credential = (await daemon.register(id, "parent")).body.credential;
      home.record(id, capsule.pid);
      approval = (await daemon.spawn(credential, "child")).body.approval;
      assert.equal((await daemon.status(id)).body.live_capsules, 2);
    }
    await using daemon = await RoostDaemon.start(["--spawn-allow", "local/parent"], { home: home.path });
    assert.match(daemon.startLines[0]!, /: 1 live capsules /);
    assert.deepEqual(await daemon.status(id), { status: 404, body: { error: "session not found" } });
    for (
      const reply of [
        await daemon.spawn(credential, "child"),
        await daemon.deregister(credential),
        await daemon.register(newId("ses"), "child", approval),
      ]
    ) {
      assert.equal(reply.status, 403);
      assert.match(reply.body.error, /^not authorised: /);
    }
  } finally {
    capsule.kill("SIGKILL");
    await capsule.status;
  }
});

for (const signal of ["SIGTERM", "SIGINT"] as const) {
  Deno.test(`${signal} ends it with status 0, connections open or not`, async () => {
    await using home = new RoostHome();
    await using daemon = await RoostDaemon.start([], { home: home.path });
    using idle = await Deno.connect({ hostname: "127.0.0.1", port: daemon.port });
    await idle.write(new TextEncoder().encode("GET /health HTTP/1.1\r\nhost: local"));
    assert.equal((await daemon.request("GET", "/health")).status, 200);
    const status = await daemon.stop(signal);
    assert.deepEqual([status.code, status.signal], [0, null]);
    assert.ok(!(await isOpen(daemon.port)));
    assert.match(daemon.stderr, /"event":"stopping","signal":"SIG(TERM|INT)"\}\n$/);
  });
}

Deno.test("a daemon whose standard error nobody reads answers all the same", async () => {
  await using home = new RoostHome();
  await home.install("parent", "capabilities: { spawn: { allow: [local/child] } }\n");
  const port = freePort();
  const child = roostCommand(["--port", String(port), "--spawn-allow", "local/parent"], { home: home.path }).spawn();
  try {
    for (let wait = 0; wait < 500 && !(await isOpen(port)); wait++) {
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    // More lines than a pipe holds.
    for (let count = 0; count < 1_000; count++) {
      const body = JSON.stringify({ session_id: newId("ses"), name: "local/other", version: "1".repeat(100) });
      const response = await fetch(`http://127.0.0.1:${port}/register`, { method: "POST", body });
      assert.equal(response.status, 403);
      await response.body?.cancel();
    }
    child.kill("SIGTERM");
    assert.equal((await child.status).code, 0);
  } finally {
    await child.stdout.cancel();
    await child.stderr.cancel();
  }
});
