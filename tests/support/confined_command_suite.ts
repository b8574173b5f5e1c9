/**
 * What holds of every contained command, whatever build of the helper runs it: how it starts, ends, is told, limited and
 * cleared away.
 *
 * @module
 */
import assert from "node:assert/strict";
import { libc } from "../../base/libc.ts";
import { processesBelow, stillRunning, until } from "./process_tree.ts";
import type { ConfineTier } from "../../sandbox/confine_records.ts";
import { taskBaseline } from "../../sandbox/process_limits.ts";
import { ConfinedPlace, CONTAINED_TIERS } from "../../sandbox/testing/confined_place.ts";

const TIERS = [...CONTAINED_TIERS, "env"] as const satisfies readonly ConfineTier[];

/** Processes that carry a mark in their arguments. */
function marked(mark: string): number[] {
  const pids: number[] = [];
  for (const { name } of Deno.readDirSync("/proc")) {
    if (!/^\d+$/.test(name) || Number(name) === Deno.pid) continue;
    try {
      if (!Deno.readTextFileSync(`/proc/${name}/cmdline`).includes(mark)) continue;
      if (/\) [ZX] /.test(Deno.readTextFileSync(`/proc/${name}/stat`))) continue;
      pids.push(Number(name));
    } catch {
      // It has ended.
    }
  }
  return pids;
}

const newMark = () => `mark-${crypto.randomUUID()}`;

function statusOf(pid: number): Map<string, string> {
  const lines = Deno.readTextFileSync(`/proc/${pid}/status`).split("\n");
  return new Map(lines.map((line) => line.split(":\t", 2) as [string, string]));
}

/** Leaves processes that left their group and their parents. */
const ORPHANS = (mark: string) => `
  (setsid sh -c 'while :; do sleep 1; done' ${mark} &)
  (setsid sh -c 'trap "" TERM HUP INT; while :; do sleep 1; done' ${mark} &)
  (setsid sh -c '(setsid sleep 1000 || exec sleep 1000) & sleep 1000; : ${mark}' &)`;

/** Registers the tests. @param helper Builds or finds the helper; `null` when this machine can't. */
export function testConfinedCommands(what: string, helper: () => Promise<string | null>): void {
  const test = (name: string, body: (place: ConfinedPlace) => Promise<void>) => {
    Deno.test(`${what}: ${name}`, async () => {
      const path = await helper();
      if (path === null) return console.log("this machine can't build that helper: nothing was tested");
      await using place = new ConfinedPlace(path);
      await body(place);
    });
  };

  test("a command's status, signal and output arrive, on every tier", async (place) => {
    for (const tier of TIERS) {
      const end = await place.sh("echo out; echo err >&2; pwd; exit 42", { tier });
      assert.deepEqual(end.failure, null, tier);
      assert.equal(end.exitCode, 42, tier);
      assert.equal(end.signal, null, tier);
      assert.equal(end.stdout, `out\n${place.workdir}\n`, tier);
      assert.equal(end.stderr, "err\n", tier);
      for (const [signal, number] of [["SIGSEGV", 11], ["SIGTERM", 15], ["SIGKILL", 9]] as const) {
        const killed = await place.sh(`kill -${number} $$`, { tier });
        assert.equal(killed.signal, signal, tier);
        assert.equal(killed.exitCode, 128 + number, tier);
        assert.equal(killed.resourceLimit, null, tier);
      }
    }
  });

  test("a command has its arguments, its environment, its input and nothing else", async (place) => {
    for (const tier of TIERS) {
      const argv = ["name", "", "a b", "ü\n", "x".repeat(100_000)];
      const script = 'for a; do printf "%s|" "$a"; done; cat; env';
      const end = await place.run("/bin/sh", ["sh", "-c", script, ...argv], {
        tier,
        env: { ONE: "1", LD_BIND_NOW: "1" },
        input: new TextEncoder().encode("input"),
      });
      assert.equal(end.failure, null);
      // The shell adds the last.
      const [before, environment] = end.stdout.split("input");
      assert.equal(before, `${argv.slice(1).join("|")}|`);
      const names = environment!.trim().split("\n").map((line) => line.split("=")[0]).sort();
      assert.deepEqual(names.filter((name) => name !== "PWD"), ["LD_BIND_NOW", "ONE", "PATH"], tier);
      // An input nobody reads is no failure; without one there is nothing to read.
      assert.equal((await place.sh("exit 3", { tier, input: new Uint8Array(1_000_000) })).exitCode, 3);
      assert.equal((await place.sh("cat; echo end", { tier })).stdout, "end\n");
    }
  });

  test("a command has three descriptors, its own session, no signal blocked or ignored, no core", async (place) => {
    for (const tier of ["env", "seccomp"] as const) {
      const { stdout } = await place.sh(
        "ls /proc/self/fd; ulimit -c; cut -d' ' -f1,5,6 /proc/$$/stat; exec cat /proc/self/status",
        { tier },
      );
      // The fourth is the listing's own.
      assert.match(stdout, /^0\n1\n2\n3\n0\n(\d+) \1 \1\n/);
      assert.match(stdout, /SigBlk:\s+0+\n/);
      assert.match(stdout, /SigIgn:\s+0+\n/);
    }
  });

  test("seen from outside a command has no capability, no new privileges and a filter", async (place) => {
    for (const tier of CONTAINED_TIERS) {
      const command = place.start("/bin/sh", ["sh", "-c", "sleep 1000; :"], { tier });
      const started = await command.started;
      assert.notEqual(started, null);
      const status = statusOf(started!.pid);
      for (const name of ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"]) {
        assert.match(status.get(name)!, /^0+$/, `${tier} ${name}`);
      }
      assert.equal(status.get("NoNewPrivs"), "1");
      assert.equal(status.get("Seccomp"), "2");
      assert.equal(status.get("Uid")!.split("\t")[0], String(Deno.uid()));
      assert.equal(status.get("NSpid")!.split("\t").length, 2);
      for (const kind of ["net", "user", "pid", "mnt"]) {
        // A process of another user namespace shows these to root alone.
        if (Deno.uid() !== 0) continue;
        assert.notEqual(
          Deno.readLinkSync(`/proc/${started!.pid}/ns/${kind}`),
          Deno.readLinkSync(`/proc/self/ns/${kind}`),
        );
      }
      command.kill();
      const end = await command.end;
      assert.equal(end.signal, "SIGKILL");
      assert.equal(end.exitCode, 137);
    }
  });

  test("what a command leaves behind ends with it, and its output too", async (place) => {
    for (const tier of TIERS) {
      const mark = newMark();
      const end = await place.sh(`${ORPHANS(mark)}\nsleep 0.2; echo done`, { tier });
      assert.equal(end.stdout, "done\n");
      assert.equal(end.exitCode, 0);
      assert.deepEqual(marked(mark), [], tier);
    }
  });

  test("without a PID namespace the same holds as long as the helper lives", async (place) => {
    const mark = newMark();
    const without = { records: [{ op: "pidns", own: false }] } as const;
    const end = await place.sh(`${ORPHANS(mark)}\nsleep 0.2; echo done; exit 4`, without);
    assert.equal(end.stdout, "done\n");
    assert.equal(end.exitCode, 4);
    assert.deepEqual(marked(mark), []);
    const command = place.start("/bin/sh", ["sh", "-c", `${ORPHANS(mark)}\nwhile :; do sleep 1; done`], without);
    await command.started;
    await until("the orphans run", () => marked(mark).length >= 3);
    command.kill();
    assert.equal((await command.end).signal, "SIGKILL");
    assert.deepEqual(marked(mark), []);
  });

  test("init reaps what falls to it", async (place) => {
    const { stdout } = await place.sh(
      "i=0; while [ $i -lt 20 ]; do (setsid sh -c 'sleep 0.05' &); i=$((i+1)); done; sleep 0.6; " +
        "grep -l 'State:.Z' /proc/[0-9]*/status; ls -d /proc/[0-9]* | wc -l",
      { tier: "seccomp" },
    );
    // Init, the shell, `ls` and `wc`.
    assert.equal(stdout.trim(), "4");
  });

  test("a signal reaches the group, init takes none from inside", async (place) => {
    for (const tier of CONTAINED_TIERS) {
      const command = place.start(
        "/bin/sh",
        ["sh", "-c", "kill -9 1; kill -TERM 1; trap 'echo got; exit 6' TERM; echo up; : >ready; sleep 1000 & wait"],
        { tier },
      );
      await command.started;
      const ready = `${place.workdir}/ready`;
      await until("it waits", () => Deno.stat(ready).then(() => true, () => false));
      await Deno.remove(ready);
      command.signal(15);
      const end = await command.end;
      assert.equal(end.exitCode, 6);
      assert.equal(end.stdout.text(), "up\ngot\n");
    }
  });

  test("a kill takes everything, at whatever moment it comes", async (place) => {
    for (const tier of CONTAINED_TIERS) {
      for (let round = 0; round < 12; round++) {
        const mark = newMark();
        const command = place.start("/bin/sh", ["sh", "-c", `${ORPHANS(mark)}\nwhile :; do sleep 1; done`], { tier });
        if (round > 0) await new Promise((resolve) => setTimeout(resolve, round * 2));
        command.kill();
        const end = await command.end;
        assert.equal(end.failure, null, `${tier} ${round}`);
        assert.equal(end.exitCode, 137, `${tier} ${round}`);
        assert.deepEqual(marked(mark), []);
      }
    }
  });

  test("SIGKILL of the helper leaves nothing and is told", async (place) => {
    for (const tier of CONTAINED_TIERS) {
      for (let round = 0; round < 12; round++) {
        const mark = newMark();
        const before = new Set(processesBelow(Deno.pid).map(({ pid }) => pid));
        const command = place.start("/bin/sh", ["sh", "-c", `${ORPHANS(mark)}\nwhile :; do sleep 1; done`], { tier });
        // From the first moment on: between any two steps of the start.
        await new Promise((resolve) => setTimeout(resolve, round * 2));
        const below = processesBelow(Deno.pid).filter(({ pid }) => !before.has(pid));
        assert.ok(below.length > 0);
        libc().kill(below[0]!.pid, 9);
        const end = await command.end;
        assert.equal(end.failure?.stage, "helper", `${tier} ${round}`);
        await until("all gone", () => stillRunning(below).length === 0 && marked(mark).length === 0, 2_000);
      }
    }
  });

  test("the helper's own processes are closed to others of the user", async (place) => {
    const command = place.start("/bin/sh", ["sh", "-c", "sleep 1000; :"], { tier: "full" });
    const { pid } = (await command.started)!;
    const init = Number(statusOf(pid).get("PPid"));
    const own = Number(statusOf(init).get("PPid"));
    for (const watcher of [init, own]) {
      // The watcher gives up what it does not need once a command lasts.
      await until("it is confined", () => statusOf(watcher).get("NoNewPrivs") === "1");
      // Nobody of this user reads its memory.
      assert.equal(Deno.statSync(`/proc/${watcher}/environ`).uid, 0);
    }
    assert.ok(statusOf(init).get("Seccomp") === "2");
    command.kill();
    await command.end;
  });

  test("limits of a process are set, lowered to what is inherited", async (place) => {
    for (const tier of TIERS) {
      const { stdout } = await place.sh("ulimit -n; ulimit -f; ulimit -t; ulimit -c", {
        tier,
        records: [
          { op: "rlimit", name: "nofile", value: 64 },
          { op: "rlimit", name: "fsize", value: 512 * 1024 },
          { op: "rlimit", name: "cpu", value: 7 },
          { op: "rlimit", name: "nproc", value: 100_000 },
        ],
      });
      assert.equal(stdout, "64\n1024\n7\n0\n", tier);
    }
    const spins = await place.sh("while :; do :; done", { records: [{ op: "rlimit", name: "cpu", value: 1 }] });
    assert.equal(spins.signal, "SIGXCPU");
    assert.equal(spins.resourceLimit, "cpu_seconds");
    const writes = await place.run("/bin/dd", ["dd", "if=/dev/zero", "of=big", "bs=64k", "count=10"], {
      tier: "env",
      records: [{ op: "rlimit", name: "fsize", value: 100_000 }],
    });
    assert.equal(writes.signal, "SIGXFSZ");
    assert.equal(writes.resourceLimit, "max_file_size_bytes");
  });

  test("the number of a user's processes is limited, but for root", async (place) => {
    const fork = "i=0; while [ $i -lt 60 ]; do sleep 5 & i=$((i+1)); done; echo all";
    // The kernel counts all tasks of the user.
    const limited = { records: [{ op: "rlimit", name: "nproc", value: taskBaseline() + 20 }] } as const;
    const end = await place.sh(fork, limited);
    if (Deno.uid() === 0) return assert.equal(end.stdout, "all\n");
    assert.equal(end.stdout, "");
    assert.match(end.stderr, /fork/i);
  });

  test("a process above its memory is killed alone, and that is told", async (place) => {
    const records = [{ op: "watch", name: "memory_bytes", value: 40 << 20 }] as const;
    for (const tier of TIERS) {
      const whole = await place.sh("exec tail /dev/zero", { tier: tier === "full" ? "seccomp" : tier, records });
      if (tier === "sealed") continue; // It has no such device here.
      assert.equal(whole.signal, "SIGKILL", tier);
      assert.equal(whole.resourceLimit, "memory_bytes", tier);
    }
    const part = await place.sh("tail /dev/zero; echo $?; exit 3", { tier: "seccomp", records });
    assert.equal(part.stdout, "137\n");
    assert.equal(part.exitCode, 3);
    assert.equal(part.resourceLimit, "memory_bytes");
  });

  test("a tree above its memory or its number is killed as a whole", async (place) => {
    for (const tier of ["seccomp", "env"] as const) {
      const mark = newMark();
      const memory = await place.sh(
        `for i in 1 2 3; do head -c 25000000 /dev/zero | tail -c 25000000 | (sleep 1000; cat ${mark}) & done; wait`,
        { tier, records: [{ op: "watch", name: "cgroup_memory_bytes", value: 60 << 20 }] },
      );
      assert.equal(memory.signal, "SIGKILL");
      assert.equal(memory.resourceLimit, "cgroup_memory_bytes");
      const count = await place.sh(
        `i=0; while [ $i -lt 40 ]; do (setsid sleep 1000 ${mark} || exec sleep 1000) & i=$((i+1)); done; wait`,
        { tier, records: [{ op: "watch", name: "cgroup_pids_max", value: 20 }] },
      );
      assert.equal(count.signal, "SIGKILL");
      assert.equal(count.resourceLimit, "cgroup_pids_max");
      assert.deepEqual(marked(mark), []);
      const within = await place.sh("sleep 0.5; exit 2", {
        tier,
        records: [
          { op: "watch", name: "cgroup_pids_max", value: 20 },
          { op: "watch", name: "cgroup_memory_bytes", value: 1 << 30 },
        ],
      });
      assert.equal(within.exitCode, 2);
      assert.equal(within.resourceLimit, null);
    }
  });

  test("a fork bomb ends", async (place) => {
    const mark = newMark();
    // It stops growing at 255 shells, so that a helper that fails it does not take the machine along.
    const bomb = await place.sh(
      `f() { [ $1 -lt 7 ] && { f $(($1+1)) & f $(($1+1)) & }; sleep 5; : ${mark}; }; f 0; sleep 1000`,
      {
        records: [{ op: "watch", name: "cgroup_pids_max", value: 50 }, { op: "rlimit", name: "nproc", value: 5_000 }],
      },
    );
    assert.equal(bomb.resourceLimit, "cgroup_pids_max");
    assert.deepEqual(marked(mark), []);
  });

  test("a start that fails names its stage, and nothing runs", async (place) => {
    const missing = `${place.root}/nothing`;
    const cases = [
      ["exec", /^No such file/, place.run(missing, ["x"])],
      ["exec", /^(Permission denied|Exec format)/, place.run(place.file("text", "no program", 0o755), ["x"])],
      [
        "open-rules",
        /nothing: No such file/,
        place.sh("echo ran", {
          records: [{ op: "rule", rights: "R", presence: "req", path: missing }],
        }),
      ],
      ["cgroup", /nothing: No such file/, place.sh("echo ran", { records: [{ op: "cgroup", path: missing }] })],
      [
        "mounts",
        /nothing: No such file/,
        place.sh("echo ran", { records: [{ op: "rw", exec: false, path: missing }] }),
      ],
      [
        "mounts",
        /nothing: No such file/,
        place.sh("echo ran", {
          records: [{ op: "protect", how: "ro", path: missing }],
        }),
      ],
      [
        "sealed-root",
        /^protect .*nothing failed: No such file/,
        place.sh("echo ran", {
          tier: "sealed",
          records: [{ op: "protect", how: "ro", path: missing }],
        }),
      ],
    ] as const;
    for (const [stage, reason, running] of cases) {
      const end = await running;
      assert.equal(end.failure?.stage, stage);
      assert.match(end.failure.reason, reason);
      assert.equal(end.stdout, "");
    }
    // A rule that need not be there is left out.
    const optional = await place.sh("echo ran", {
      records: [{ op: "rule", rights: "R", presence: "opt", path: missing }],
    });
    assert.equal(optional.stdout, "ran\n");
  });

  test("output of any size arrives whole, from every stream", async (place) => {
    for (const tier of ["full", "sealed"] as const) {
      const end = await place.sh("head -c 900000 f; cat f >&2", {
        tier,
        records: [],
        env: { F: place.file("f", "x".repeat(950_000)) },
      });
      assert.equal(end.stdout.length, 900_000);
      assert.equal(end.stderr.length, 950_000);
    }
  });

  test("many commands at once, each with its own end", async (place) => {
    const ends = await Promise.all(
      Array.from({ length: 40 }, (_, i) => place.sh(`echo ${i}; exit ${i}`, { tier: i % 2 === 0 ? "full" : "sealed" })),
    );
    for (const [i, end] of ends.entries()) {
      assert.equal(end.exitCode, i);
      assert.equal(end.stdout, `${i}\n`);
    }
  });
}
