/**
 * What `mur-roost` counts, and how slots come back: reservations, endings, sessions that die, formations that come and go
 * (seed roost "Delegation bounds"; spec roost 4.1).
 */
import assert from "node:assert/strict";
import { newId } from "../../base/ids.ts";
import { removeRunningRecord } from "../../base/running_record.ts";
import { idleProcess, RoostDaemon, RoostHome } from "../../roost/testing/daemon.ts";

async function started(args: readonly string[] = [], bounds: { spawnApproval?: number } = {}) {
  const home = new RoostHome();
  await home.install("parent", "capabilities: { spawn: { allow: [local/child, local/parent] } }\n");
  await home.install("child");
  const daemon = await RoostDaemon.start(["--spawn-allow", "local/parent", ...args], { home: home.path, bounds });
  return {
    home,
    daemon,
    /** `[live_children, live_capsules]` of a session. */
    async figures(id: string) {
      const { body } = await daemon.status(id);
      return [body.live_children, body.live_capsules];
    },
    async [Symbol.asyncDispose]() {
      await daemon[Symbol.asyncDispose]();
      await home[Symbol.asyncDispose]();
    },
  };
}

Deno.test("the worked run of the specification, figure by figure", async () => {
  await using at = await started(["--max-live-capsules", "3", "--max-concurrent", "2"], { spawnApproval: 2_000 });
  const { daemon } = at;
  const a = await daemon.root("parent");
  assert.deepEqual(await at.figures(a.id), [0, 1]);
  const first = (await daemon.spawn(a.credential, "child")).body.approval;
  assert.deepEqual(await at.figures(a.id), [1, 2]);
  const w = (await daemon.register(newId("ses"), "child", first)).body;
  assert.deepEqual(await at.figures(a.id), [1, 2]);
  assert.equal((await daemon.spawn(a.credential, "child")).status, 200);
  assert.deepEqual(await at.figures(a.id), [2, 3]);
  assert.match(
    (await daemon.spawn(a.credential, "child")).body.error,
    /^machine capsule ceiling .* already holding 3 /,
  );
  await new Promise((resolve) => setTimeout(resolve, 2_100));
  assert.deepEqual(await at.figures(a.id), [1, 2]);
  await daemon.root("parent");
  assert.deepEqual(await at.figures(a.id), [1, 3]);
  await daemon.root("parent");
  assert.deepEqual(await at.figures(a.id), [1, 4]);
  assert.match(
    (await daemon.spawn(a.credential, "child")).body.error,
    /^machine capsule ceiling .* already holding 4 /,
  );
  await daemon.deregister(w.credential);
  assert.deepEqual(await at.figures(a.id), [0, 3]);
});

Deno.test("a session that ends takes its open reservations with it", async () => {
  await using at = await started();
  const { daemon } = at;
  const watcher = await daemon.root("parent");
  const a = await daemon.root("parent");
  const child = await daemon.delegate(a.credential, "child");
  await daemon.spawn(a.credential, "child");
  assert.deepEqual(await at.figures(watcher.id), [0, 4]);
  await daemon.deregister(a.credential);
  // Itself and its reservation; its running child goes on by itself.
  assert.deepEqual(await at.figures(watcher.id), [0, 2]);
  assert.deepEqual(await at.figures(a.id), [1, 2]);
  await daemon.deregister(child.credential, "failed");
  assert.deepEqual(await at.figures(a.id), [0, 1]);
});

Deno.test("a registered session whose process is killed has failed at the next read, and gives its slot back", async () => {
  await using at = await started(["--max-concurrent", "1"]);
  const { daemon, home } = at;
  const parent = await daemon.root("parent");
  const processes = [idleProcess(), idleProcess()];
  try {
    const [own, childs] = processes;
    home.record(parent.id, own!.pid);
    const child = await daemon.delegate(parent.credential, "parent");
    home.record(child.id, childs!.pid);
    // The child holds a reservation of its own.
    assert.equal((await daemon.spawn(child.credential, "child")).status, 200);
    assert.deepEqual(await at.figures(parent.id), [1, 3]);
    assert.equal((await daemon.spawn(parent.credential, "child")).status, 403);
    childs!.kill("SIGKILL");
    await childs!.status;
    assert.deepEqual((await daemon.status(child.id)).body, {
      status: "failed",
      depth_remaining: 2,
      live_children: 0,
      live_capsules: 1,
    });
    assert.deepEqual(await at.figures(parent.id), [0, 1]);
    for (const reply of [await daemon.spawn(child.credential, "child"), await daemon.deregister(child.credential)]) {
      assert.equal(reply.status, 403);
      assert.match(reply.body.error, /^not authorised: /);
    }
    // The parent is not bricked; and one that dies without a read between is found before its credential is judged.
    assert.equal((await daemon.spawn(parent.credential, "child")).status, 200);
    own!.kill("SIGKILL");
    await own!.status;
    assert.equal((await daemon.deregister(parent.credential)).status, 403);
    assert.equal((await daemon.status(parent.id)).body.status, "failed");
    // The records are still where their runtimes left them.
    assert.deepEqual([...Deno.readDirSync(home.running)].length, 2);
  } finally {
    for (const process of processes) {
      try {
        process.kill("SIGKILL");
      } catch {
        // It has ended.
      }
      await process.status;
    }
  }
});

Deno.test("a record that was there and is gone, or names another process, is evidence; one never seen is none", async () => {
  await using at = await started();
  const { daemon, home } = at;
  const status = async (id: string) => (await daemon.status(id)).body.status;
  const [first, second, unseen] = [
    await daemon.root("parent"),
    await daemon.root("parent"),
    await daemon.root("parent"),
  ];
  home.record(first.id, Deno.pid);
  home.record(second.id, Deno.pid);
  assert.deepEqual(
    [await status(first.id), await status(second.id), await status(unseen.id)],
    Array(3).fill("running"),
  );
  removeRunningRecord(home.running, first.id);
  assert.deepEqual([await status(first.id), await status(second.id), await status(unseen.id)], [
    "failed",
    "running",
    "running",
  ]);
  home.record(second.id, 1);
  assert.deepEqual([await status(second.id), await status(unseen.id)], ["failed", "running"]);
  // The whole directory may go: what was never seen there stays counted.
  await Deno.remove(home.running, { recursive: true });
  assert.equal(await status(unseen.id), "running");
  home.record(unseen.id, Deno.pid, { process_start: "1" });
  assert.equal(await status(unseen.id), "failed");
});

Deno.test("a record that cannot be read, or is another session's, proves nothing", async () => {
  await using at = await started();
  const { daemon, home } = at;
  const process = idleProcess();
  try {
    const parent = await daemon.root("parent");
    const path = `${home.running}/${parent.id}.json`;
    const status = async () => (await daemon.status(parent.id)).body.status;
    await Deno.mkdir(home.running, { recursive: true });
    await Deno.writeTextFile(path, "{");
    assert.equal(await status(), "running");
    home.record("ses_other", 1, { process_start: "1" });
    await Deno.rename(`${home.running}/ses_other.json`, path);
    assert.equal(await status(), "running");
    await Deno.remove(path);
    await Deno.symlink(`${home.running}/nothing`, path);
    assert.equal(await status(), "running");
    // Once it was seen, what it named decides, readable or not.
    await Deno.remove(path);
    home.record(parent.id, process.pid);
    assert.equal(await status(), "running");
    await Deno.writeTextFile(path, "{");
    assert.equal(await status(), "running");
    process.kill("SIGKILL");
    await process.status;
    assert.equal(await status(), "failed");
  } finally {
    try {
      process.kill("SIGKILL");
    } catch {
      // It has ended.
    }
    await process.status;
  }
});

Deno.test("a record replaced by one of the same process changes nothing, however often", async () => {
  await using at = await started();
  const { daemon, home } = at;
  const parent = await daemon.root("parent");
  for (let count = 0; count < 30; count++) {
    home.record(parent.id, Deno.pid, { url: `localhost:${count}` });
    assert.equal((await daemon.status(parent.id)).body.status, "running");
  }
});

Deno.test("formations that come and go leave the census where it was", async () => {
  await using at = await started(["--max-live-capsules", "8"]);
  const { daemon } = at;
  const watcher = await daemon.root("parent");
  for (let cycle = 0; cycle < 100; cycle++) {
    const root = await daemon.root("parent");
    const children = await Promise.all(Array.from({ length: 4 }, () => daemon.delegate(root.credential, "child")));
    assert.deepEqual(await at.figures(watcher.id), [0, 6]);
    // Some end before their parent, some after, some without a word of theirs.
    await daemon.deregister(children[0]!.credential);
    await daemon.deregister(children[1]!.credential, "failed");
    await daemon.deregister(root.credential);
    await daemon.deregister(children[2]!.credential);
    await daemon.deregister(children[3]!.credential);
  }
  assert.deepEqual(await at.figures(watcher.id), [0, 1]);
  for (let count = 0; count < 4; count++) assert.equal((await daemon.spawn(watcher.credential, "child")).status, 200);
});
