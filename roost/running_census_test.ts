import assert from "node:assert/strict";
import { ownStartToken } from "../base/process_identity.ts";
import { removeRunningRecord } from "../base/running_record.ts";
import { idleProcess, RoostHome } from "./testing/daemon.ts";
import { RunningCensus } from "./running_census.ts";

const LONG_AGO = new Date(Date.now() - 60_000);

/** Waits until a later change of the directory is sure to leave other times. */
const settle = () => new Promise((resolve) => setTimeout(resolve, 150));

Deno.test("evidence is found at the next look, in a directory that rested and in one that is changing", async () => {
  await using home = new RoostHome();
  using census = new RunningCensus(home.running, []);
  for (const rest of [false, true]) {
    for (const id of ["removed", "replaced", "kept", "unseen"]) census.register(id);
    for (const id of ["removed", "replaced", "kept"]) home.record(id, Deno.pid);
    assert.deepEqual(census.gone(), { found: [], registered: [] });
    if (rest) {
      await settle();
      census.gone();
      census.gone();
    }
    removeRunningRecord(home.running, "removed");
    assert.deepEqual(census.gone().registered, ["removed"], String(rest));
    if (rest) {
      await settle();
      census.gone();
    }
    home.record("replaced", Deno.pid, { process_start: "1" });
    assert.deepEqual(census.gone().registered, ["replaced"], String(rest));
    assert.deepEqual(census.gone(), { found: [], registered: [] });
    for (const id of ["kept", "unseen"]) census.forget(id);
    for (const id of ["removed", "replaced", "kept"]) removeRunningRecord(home.running, id);
  }
});

Deno.test("a session that registers into a directory that rested is still looked for there", async () => {
  await using home = new RoostHome();
  using census = new RunningCensus(home.running, []);
  census.register("first");
  home.record("first", Deno.pid);
  home.record("early", Deno.pid, { process_start: "1" });
  await settle();
  census.gone();
  census.gone();
  // Its record was there before it registered, and names a process that is gone.
  census.register("early");
  assert.deepEqual(census.gone().registered, ["early"]);
  await settle();
  census.gone();
  census.register("later");
  census.gone();
  home.record("later", Deno.pid, { process_start: "1" });
  assert.deepEqual(census.gone().registered, ["later"]);
});

Deno.test("a record that is there when its session registers is evidence, though it went before anybody asked", async () => {
  await using home = new RoostHome();
  using census = new RunningCensus(home.running, []);
  for (const id of ["pruned", "kept"]) home.record(id, Deno.pid);
  for (const id of ["pruned", "kept", "without"]) census.register(id);
  removeRunningRecord(home.running, "pruned");
  assert.deepEqual(census.gone().registered, ["pruned"]);
  assert.deepEqual(census.gone(), { found: [], registered: [] });
});

Deno.test("a session found at the start moves to the registered, and its process still decides", async () => {
  await using home = new RoostHome();
  const [first, second] = [idleProcess(), idleProcess()];
  const found = [first, second].map(({ pid }, index) => {
    home.record(`s${index}`, pid);
    const { process_start } = JSON.parse(Deno.readTextFileSync(`${home.running}/s${index}.json`));
    return { session_id: `s${index}`, pid, process_start };
  });
  using census = new RunningCensus(home.running, found);
  assert.deepEqual(census.gone(), { found: [], registered: [] });
  census.register("s0");
  assert.deepEqual(census.gone(), { found: [], registered: [] });
  for (const process of [first, second]) {
    process.kill("SIGKILL");
    await process.status;
  }
  assert.deepEqual(census.gone(), { found: ["s1"], registered: ["s0"] });
  assert.deepEqual(census.gone(), { found: [], registered: [] });
});

Deno.test("a directory of old times, of a coarse file system, is looked at again and again", async () => {
  await using home = new RoostHome();
  using census = new RunningCensus(home.running, []);
  census.register("a");
  home.record("a", Deno.pid);
  await Deno.utime(home.running, LONG_AGO, LONG_AGO);
  assert.deepEqual(census.gone(), { found: [], registered: [] });
  removeRunningRecord(home.running, "a");
  await Deno.utime(home.running, LONG_AGO, LONG_AGO);
  assert.deepEqual(census.gone().registered, ["a"]);
});

Deno.test("thousands of sessions are looked at in one go", async () => {
  await using home = new RoostHome();
  using census = new RunningCensus(home.running, []);
  const ids = Array.from({ length: 1_500 }, (_, index) => `s${index}`);
  for (const id of ids) census.register(id);
  const process_start = ownStartToken();
  for (const id of ids) home.record(id, Deno.pid, { process_start });
  assert.deepEqual(census.gone(), { found: [], registered: [] });
  removeRunningRecord(home.running, "s700");
  assert.deepEqual(census.gone().registered, ["s700"]);
});

Deno.test("a directory that changes is not listed for a few sessions without a record, however many have one", async () => {
  await using home = new RoostHome();
  using census = new RunningCensus(home.running, []);
  const ids = Array.from({ length: 200 }, (_, index) => `s${index}`);
  for (const id of ids) home.record(id, Deno.pid);
  for (const id of [...ids, "without", "later"]) census.register(id);
  const { readDirSync } = Deno;
  let listed = 0;
  Deno.readDirSync = (path) => {
    listed++;
    return readDirSync(path);
  };
  try {
    for (const [index, id] of ids.entries()) {
      removeRunningRecord(home.running, id);
      assert.deepEqual(census.gone().registered, [id]);
      if (index === 100) home.record("later", Deno.pid);
    }
    assert.equal(listed, 0);
    removeRunningRecord(home.running, "later");
    assert.deepEqual(census.gone().registered, ["later"]);
    // Of many it is.
    for (const id of ids) census.register(`x${id}`);
    home.record("xs150", Deno.pid, { process_start: "1" });
    assert.deepEqual(census.gone().registered, ["xs150"]);
    assert.equal(listed, 1);
  } finally {
    Deno.readDirSync = readDirSync;
  }
});
