import assert from "node:assert/strict";
import { libc } from "../base/libc.ts";
import { until } from "../tests/support/process_tree.ts";
import { checkoutHelper } from "./confine_helper.ts";
import type { CommandRecord } from "./confine_records.ts";
import { describeEnd } from "./confined_command.ts";
import { elfClosure } from "./elf_closure.ts";
import { ConfinedPlace, CONTAINED_TIERS } from "./testing/confined_place.ts";
import { confineSource } from "./testing/sanitized_helper.ts";
import { testConfinedCommands } from "../tests/support/confined_command_suite.ts";

testConfinedCommands("contained", checkoutHelper);

function marked(mark: string): number[] {
  const pids: number[] = [];
  for (const { name } of Deno.readDirSync("/proc")) {
    try {
      if (/^\d+$/.test(name) && Deno.readTextFileSync(`/proc/${name}/cmdline`).includes(mark)) pids.push(Number(name));
    } catch {
      // It has ended.
    }
  }
  return pids.filter((pid) => pid !== Deno.pid);
}

/** A program that starts a contained command as the runtime does, says so, and waits, releases or ends. */
const STAND_IN = `
const { ConfinedPlace } = await import(Deno.args[0]);
const [, helper, tier, script, then] = Deno.args;
const place = new ConfinedPlace(helper);
const records = [{ op: "watch", name: "memory_bytes", value: 40 << 20 }];
const command = place.start("/bin/sh", ["sh", "-c", script], { tier, records });
// A release may come before the command runs.
if (then !== "release") await command.started;
console.log(JSON.stringify([place.root]));
if (then === "release") {
  await command.release();
  Deno.exit(0);
}
await new Promise(() => setInterval(() => {}, 1000));
`;

async function standIn(tier: string, script: string, then: string) {
  const child = new Deno.Command(Deno.execPath(), {
    args: [
      "run",
      "-A",
      `data:text/javascript,${encodeURIComponent(STAND_IN)}`,
      import.meta.resolve("./testing/confined_place.ts"),
      await checkoutHelper(),
      tier,
      script,
      then,
    ],
    stdin: "null",
    stdout: "piped",
    stderr: "inherit",
  }).spawn();
  const reader = child.stdout.getReader();
  const { value } = await reader.read();
  const [root] = JSON.parse(new TextDecoder().decode(value)) as [string];
  return { child, root, close: () => reader.cancel() };
}

Deno.test("SIGKILL of the runtime leaves nothing of a contained command within a second", async () => {
  for (const tier of [...CONTAINED_TIERS, "env"]) {
    const mark = `mark-${crypto.randomUUID()}`;
    const script =
      `(setsid sh -c 'trap "" TERM HUP; while :; do sleep 1; done' ${mark} &); while :; do :; done # ${mark}`;
    const { child, root, close } = await standIn(tier, script, "wait");
    await until("it runs", () => marked(mark).length >= 3);
    child.kill("SIGKILL");
    await until("it is gone", () => marked(mark).length <= 0, 1_000).finally(() => {
      for (const pid of marked(mark)) libc().kill(pid, 9);
    });
    await close();
    await child.status;
    await Deno.remove(root, { recursive: true });
  }
});

Deno.test("a released command outlives the runtime and its readers, still limited", async () => {
  for (const tier of CONTAINED_TIERS) {
    const mark = `mark-${crypto.randomUUID()}`;
    // It goes on writing to pipes that nobody reads, and then takes more memory than it may.
    const script = `i=0; while [ $i -lt 4000 ]; do echo "line $i with some more text to fill the pipe"; ` +
      `i=$((i+1)); [ $i -eq 1 ] && sleep 0.5; done; ` +
      `yes | head -c 300000000 | tail -c 200000000; echo $? > done; : ${mark}`;
    const { child, root, close } = await standIn(tier, script, "release");
    assert.equal((await child.status).code, 0);
    await close();
    await until("it runs without the runtime", () => marked(mark).length >= 1);
    await until("it ends", () => marked(mark).length === 0);
    assert.equal(await Deno.readTextFile(`${root}/work/done`), "137\n");
    await Deno.remove(root, { recursive: true });
  }
});

Deno.test("a helper that can't be run leaves no socket behind", async () => {
  await using place = new ConfinedPlace(await checkoutHelper());
  assert.throws(() => place.start("/bin/true", ["true"], { helper: `${place.root}/none` }), Deno.errors.NotFound);
  // One that says nothing at all.
  const mute = place.file("mute", "#!/bin/sh\nexit 0\n", 0o755);
  const end = await place.run("/bin/true", ["true"], { helper: mute });
  assert.deepEqual(end.failure, { stage: "helper", reason: "it ended without a word" });
  assert.deepEqual([...Deno.readDirSync(place.control)], []);
  await place.sh("exit 0");
  assert.deepEqual([...Deno.readDirSync(place.control)], []);
});

Deno.test("an end is described from what the helper said", () => {
  const exit = { userMs: 0, systemMs: 0, maxResidentBytes: 0 };
  const failed = { stage: "netns", reason: "x" };
  const going = { killed: false, running: true };
  assert.deepEqual(describeEnd({ kind: "failed", failure: failed }, going).failure, failed);
  assert.match(describeEnd(null, going).failure!.reason, /while the command ran/);
  assert.deepEqual(describeEnd(null, { killed: false, running: false }).failure, {
    stage: "helper",
    reason: "it ended without a word",
  });
  assert.deepEqual(describeEnd(null, { killed: true, running: true }), {
    failure: null,
    exitCode: 137,
    signal: "SIGKILL",
    resourceLimit: null,
  });
  const end = (value: number, bySignal: boolean, limit: string) =>
    describeEnd({ kind: "exited", exit: { ...exit, value, bySignal, limit } }, going);
  assert.deepEqual(end(3, false, ""), { failure: null, exitCode: 3, signal: null, resourceLimit: null });
  assert.deepEqual(end(25, true, ""), {
    failure: null,
    exitCode: 153,
    signal: "SIGXFSZ",
    resourceLimit: "max_file_size_bytes",
  });
  // What the helper killed for counts before the signal, and a word it does not know for nothing.
  assert.equal(end(24, true, "memory_bytes").resourceLimit, "memory_bytes");
  assert.equal(end(24, true, "moon").resourceLimit, "cpu_seconds");
  // Real-time signals have no name here.
  assert.deepEqual(end(40, true, ""), { failure: null, exitCode: 168, signal: null, resourceLimit: null });
});

Deno.test("a program with an engine of its own runs under limits, WebAssembly and all", async () => {
  const program = Deno.realPathSync(Deno.execPath());
  await using place = new ConfinedPlace(await checkoutHelper());
  // A module that exports a function that gives 42.
  const bytes = "0,97,115,109,1,0,0,0,1,5,1,96,0,1,127,3,2,1,0,7,5,1,1,102,0,0,10,6,1,4,0,65,42,11";
  const code = `console.log(new WebAssembly.Instance(new WebAssembly.Module(new Uint8Array([${bytes}]))).exports.f())`;
  const limits: CommandRecord[] = [
    { op: "rlimit", name: "nofile", value: 1_024 },
    { op: "rlimit", name: "fsize", value: 4 * 2 ** 30 },
    { op: "watch", name: "memory_bytes", value: 2 * 2 ** 30 },
    { op: "watch", name: "cgroup_memory_bytes", value: 4 * 2 ** 30 },
    { op: "watch", name: "cgroup_pids_max", value: 256 },
  ];
  const rules = [program, ...elfClosure(program)].map((path): CommandRecord => ({
    op: "rule",
    rights: "RX",
    presence: "req",
    path,
  }));
  for (const tier of ["full", "seccomp"] as const) {
    const end = await place.run(program, ["deno", "eval", code], {
      tier,
      records: [...limits, ...(tier === "full" ? rules : [])],
      env: { HOME: place.workdir, NO_COLOR: "1" },
    });
    assert.equal(end.stdout, "42\n", end.stderr);
    assert.equal(end.resourceLimit, null);
  }
});

Deno.test("processes that a second thread starts are counted like others", async () => {
  await using place = new ConfinedPlace(await checkoutHelper());
  const program = `${place.root}/forks`;
  const { success, stderr } = await new Deno.Command("cc", {
    args: ["-static", "-pthread", "-O1", "-o", program, confineSource("thread_forks.c")],
  }).output();
  assert.ok(success, new TextDecoder().decode(stderr));
  const end = await place.run(program, ["forks", "30"], {
    records: [
      { op: "rule", rights: "RX", presence: "req", path: program },
      { op: "watch", name: "cgroup_pids_max", value: 20 },
    ],
  });
  assert.equal(end.signal, "SIGKILL");
  assert.equal(end.resourceLimit, "cgroup_pids_max");
});
