import assert from "node:assert/strict";
import { libc } from "../base/libc.ts";
import { checkoutHelper } from "./confine_helper.ts";
import { guardArguments, type GuardOptions, parseWalls, WALLS } from "./guard.ts";

const helper = await checkoutHelper();
const SHELL = Deno.realPathSync("/bin/sh");

function spawn(options: GuardOptions, program: string, args: readonly string[]): Deno.ChildProcess {
  return new Deno.Command(helper, {
    args: guardArguments(options, program, args),
    clearEnv: true,
    env: { PATH: "/usr/bin:/bin" },
    stdin: "piped",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
}

async function finish(child: Deno.ChildProcess): Promise<{ status: Deno.CommandStatus; out: string; err: string }> {
  const [status, out, err] = await Promise.all([
    child.status,
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
  ]);
  return { status, out, err };
}

async function run(options: GuardOptions, script: string, input = "") {
  const child = spawn(options, SHELL, ["-c", script]);
  const writer = child.stdin.getWriter();
  if (input !== "") await writer.write(new TextEncoder().encode(input)).catch(() => {});
  const result = await finish(child);
  await writer.close().catch(() => {});
  return result;
}

/** Pids of processes that carry a mark in their arguments. */
function marked(mark: string): number[] {
  const pids: number[] = [];
  for (const entry of Deno.readDirSync("/proc")) {
    if (!/^\d+$/.test(entry.name) || Number(entry.name) === Deno.pid) continue;
    try {
      if (!Deno.readTextFileSync(`/proc/${entry.name}/cmdline`).includes(mark)) continue;
      if (/\) [ZX] /.test(Deno.readTextFileSync(`/proc/${entry.name}/stat`))) continue;
      pids.push(Number(entry.name));
    } catch {
      // It has ended.
    }
  }
  return pids;
}

async function until(condition: () => boolean, ms: number): Promise<number> {
  const start = performance.now();
  while (!condition()) {
    if (performance.now() - start > ms) return Infinity;
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
  return performance.now() - start;
}

function newMark(): string {
  return `mark-${crypto.randomUUID()}`;
}

/** Starts the helper as the runtime does, then waits for ever. */
const STAND_IN = `
const [helper, ...args] = Deno.args;
const child = new Deno.Command(helper, { args, stdin: "piped", stdout: "piped", stderr: "null" }).spawn();
const reader = child.stdout.getReader();
await reader.read();
console.log("up");
await new Promise(() => setInterval(() => {}, 1000));
`;

const HOST: GuardOptions = {
  componentHost: { execute: ["/bin", "/usr", "/lib", "/lib64"], read: ["/proc", "/dev"] },
};

const SPINS = "echo up; while :; do :; done";
const LEAVES_ORPHANS = `
  echo up
  setsid sh -c 'while :; do :; done' "$0" &
  (setsid sh -c 'trap "" TERM HUP INT; while :; do sleep 1; done' "$0" &)
  (setsid sh -c '(setsid sleep 1000 "$0" || exec sleep 1000) & sleep 1000' "$0" &)
  while :; do :; done`;

for (
  const [what, options, script] of [
    ["a spinning program", {}, SPINS],
    ["a spinning component host behind its walls", HOST, SPINS],
    ["a program with orphans in sessions of their own", {}, LEAVES_ORPHANS],
    ["a component host with orphans", HOST, LEAVES_ORPHANS],
  ] as const satisfies readonly (readonly [string, GuardOptions, string])[]
) {
  Deno.test(`SIGKILL of the runtime leaves nothing of ${what} within a second`, async () => {
    const mark = newMark();
    const standIn = new Deno.Command(Deno.execPath(), {
      args: [
        "run",
        "-A",
        "--no-config",
        `data:text/javascript,${encodeURIComponent(STAND_IN)}`,
        helper,
        ...guardArguments(options, SHELL, ["-c", script, mark]),
      ],
      stdin: "null",
      stdout: "piped",
      stderr: "null",
    }).spawn();
    const reader = standIn.stdout.getReader();
    assert.match(new TextDecoder().decode((await reader.read()).value), /up/);
    if (script === LEAVES_ORPHANS) await until(() => marked(mark).length >= 6, 2_000);
    assert.ok(marked(mark).length >= 3, "the program does not run");
    standIn.kill("SIGKILL");
    const took = await until(() => marked(mark).length === 0, 1_000);
    const left = marked(mark);
    for (const pid of left) libc().kill(pid, 9);
    assert.ok(took < 1_000, `still there after a second: ${left}`);
    await reader.cancel();
    await standIn.status;
  });
}

Deno.test("the program's end is the helper's end", async () => {
  for (const options of [{}, HOST]) {
    assert.equal((await run(options, "exit 0")).status.code, 0);
    assert.equal((await run(options, "exit 42")).status.code, 42);
    for (const signal of ["SIGSEGV", "SIGTERM", "SIGKILL"] as const) {
      const { status } = await run(options, `kill -${signal.slice(3)} $$`);
      assert.equal(status.signal, signal);
    }
  }
});

Deno.test("what the program leaves behind ends with it, and both pipes end", async () => {
  for (const options of [{}, HOST]) {
    const mark = newMark();
    const child = spawn(options, SHELL, [
      "-c",
      `(setsid sh -c 'while :; do sleep 1; done' ${mark} &); sh -c 'sleep 1000; :' ${mark} & echo done`,
    ]);
    const { out, status } = await finish(child);
    assert.equal(out, "done\n");
    assert.equal(status.code, 0);
    assert.deepEqual(marked(mark), []);
    await child.stdin.close().catch(() => {});
  }
});

Deno.test("a program reads what it is passed while the helper only watches", async () => {
  for (const options of [{}, HOST]) {
    const child = spawn(options, SHELL, ["-c", "read a; read b; echo $a-$b"]);
    const writer = child.stdin.getWriter();
    await writer.write(new TextEncoder().encode("one\ntwo\nrest"));
    const { out } = await finish(child);
    assert.equal(out, "one-two\n");
    await writer.close().catch(() => {});
  }
});

Deno.test("hang-up counts at once, with input still unread", async () => {
  const mark = newMark();
  const child = spawn({}, SHELL, ["-c", SPINS, mark]);
  const writer = child.stdin.getWriter();
  await writer.write(new Uint8Array(10_000));
  await until(() => marked(mark).length === 2, 1_000);
  await writer.close();
  const { status } = await finish(child);
  assert.equal(status.signal, "SIGKILL");
  assert.deepEqual(marked(mark), []);
});

Deno.test("signals to the helper reach the program's group", async () => {
  const child = spawn({}, SHELL, ["-c", "trap 'echo got; exit 6' TERM; echo up; sleep 1000 & wait"]);
  const reader = child.stdout.getReader();
  await reader.read();
  child.kill("SIGTERM");
  assert.equal(new TextDecoder().decode((await reader.read()).value), "got\n");
  assert.equal((await child.status).code, 6);
  await reader.cancel();
  await child.stderr.cancel();
  await child.stdin.close().catch(() => {});
});

Deno.test("SIGKILL of the helper takes the program along, whenever it comes", async () => {
  for (const options of [{}, HOST]) {
    // From the first moment on: between any two steps of the start.
    for (let round = 0; round < 40; round++) {
      const mark = newMark();
      const child = spawn(options, SHELL, ["-c", SPINS, mark]);
      if (round > 0) await until(() => marked(mark).length >= 1 + round % 3, 100);
      child.kill("SIGKILL");
      const took = await until(() => marked(mark).length === 0, 1_000);
      for (const pid of marked(mark)) libc().kill(pid, 9);
      assert.ok(took < 1_000, `round ${round}`);
      await finish(child);
      await child.stdin.close().catch(() => {});
    }
  }
});

Deno.test("a program has three descriptors, a session of its own and no core dump", async () => {
  const { out } = await run(
    {},
    "ls /proc/self/fd; ulimit -c; cut -d' ' -f1,5,6 /proc/$$/stat; exec cat /proc/self/status",
  );
  // The fourth is the listing's own.
  assert.match(out, /^0\n1\n2\n3\n0\n(\d+) \1 \1\n/);
  assert.match(out, /SigBlk:\s+0+\n/);
  assert.match(out, /SigIgn:\s+0+\n/);
});

Deno.test("a process above its memory is killed alone, and the helper says so", async () => {
  const told = /(?:^|\n)mur-confine: limit: memory_bytes\n$/;
  for (const base of [{}, HOST]) {
    const options = { ...base, memoryBytes: 40 << 20 };
    const main = await run(options, "exec tail /dev/zero");
    assert.equal(main.status.signal, "SIGKILL");
    assert.match(main.err, told);
    const child = await run(options, "tail /dev/zero; echo $?; echo last >&2; exit 3");
    assert.equal(child.out, "137\n");
    assert.equal(child.status.code, 3);
    assert.match(child.err, told);
    const within = await run(options, "sleep 0.5; exit 2");
    assert.deepEqual([within.status.code, within.err.includes("limit")], [2, false]);
  }
});

Deno.test("a start that fails names its stage", async () => {
  const child = spawn({}, "/nothing/here", []);
  const { status, err } = await finish(child);
  assert.equal(status.code, 127);
  assert.equal(err, "mur-confine: failed: exec: No such file or directory\n");
  await child.stdin.close().catch(() => {});
});

Deno.test("bad arguments start nothing", async () => {
  for (
    const args of [
      [],
      ["run"],
      ["guard"],
      ["guard", "--"],
      ["guard", "--", "true"],
      ["guard", "--memory", "some", "--", "/bin/true"],
      ["guard", "--memory", "-1", "--", "/bin/true"],
      ["guard", "--memory", "99999999999999999999999", "--", "/bin/true"],
      ["guard", "--memory"],
      ["guard", "--profile", "other", "--", "/bin/true"],
      ["guard", "--rx", "relative", "--", "/bin/true"],
      ["guard", "--unknown", "x", "--", "/bin/true"],
    ]
  ) {
    const { code, stderr } = await new Deno.Command(helper, { args, stdin: "null" }).output();
    assert.equal(code, 2, args.join(" "));
    assert.match(new TextDecoder().decode(stderr), /^mur-confine: /);
  }
});

Deno.test("the lists of allowed and forbidden calls share nothing", async () => {
  assert.ok((await new Deno.Command(helper, { args: ["harden-check"], stdin: "null" }).output()).success);
});

Deno.test("walls are read from the helper's first line", () => {
  assert.deepEqual(parseWalls("mur-confine: walls: pid-namespace seccomp\n"), ["pid-namespace", "seccomp"]);
  assert.deepEqual(parseWalls("mur-confine: walls:"), []);
  assert.equal(parseWalls("mur-confine: failed: exec: x"), null);
  assert.equal(parseWalls("x mur-confine: walls: seccomp"), null);
});

/** What each wall must refuse, by the lines of the attack program. */
const REFUSED_BY: Readonly<Record<string, readonly string[]>> = {
  "pid-namespace": ["signal"],
  "network-namespace": ["connect"],
  "read-only-mounts": ["create", "write", "chmod", "touch", "unlink", "mkdir", "truncate"],
  "capabilities": ["mount", "mknod", "setuid-root"],
  "landlock": ["read", "write", "create", "list", "proc", "execute", "mkdir", "unlink"],
  "seccomp": [
    "socket-inet",
    "socket-inet6",
    "socket-unix",
    "socket-netlink",
    "connect",
    "execute-memory",
    "unshare",
    "mount",
    "ptrace",
    "io_uring",
    "bpf",
    "keyctl",
    "clone-namespace",
    "clone3",
  ],
};

async function attack(dir: string, options: GuardOptions | null): Promise<Map<string, string>> {
  const program = `${dir}/attack`;
  await Deno.writeTextFile(`${dir}/secret`, "secret");
  await Deno.writeTextFile(`${dir}/victim`, "victim");
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const args = [`${dir}/secret`, `${dir}/victim`, String(Deno.pid), String(listener.addr.port), "/bin/true"];
  try {
    const command = options === null
      ? new Deno.Command(program, { args, stdin: "piped", stdout: "piped", stderr: "piped" })
      : new Deno.Command(helper, {
        args: guardArguments(options, program, args),
        stdin: "piped",
        stdout: "piped",
        stderr: "piped",
      });
    const child = command.spawn();
    const { out, err } = await finish(child);
    await child.stdin.close().catch(() => {});
    const answers = new Map(out.trim().split("\n").map((line) => line.split(" ") as [string, string]));
    answers.set("walls", (parseWalls(err.split("\n")[0]!) ?? []).join(" "));
    return answers;
  } finally {
    listener.close();
  }
}

Deno.test("an attack from inside a component host gets through none of its walls", async () => {
  const dir = await Deno.makeTempDir();
  try {
    const source = new URL("./confine/attack.c", import.meta.url);
    const built = await new Deno.Command("cc", {
      args: ["-static", "-O1", "-o", `${dir}/attack`, decodeURIComponent(source.pathname)],
    }).output();
    assert.ok(built.success, new TextDecoder().decode(built.stderr));
    // Without walls the attempts succeed, so that a refusal below means something.
    const bare = await attack(dir, null);
    for (const name of ["read", "write", "list", "signal", "socket-inet", "connect", "execute", "execute-memory"]) {
      assert.equal(bare.get(name), "open", `${name} without walls`);
    }
    const answers = await attack(dir, { componentHost: { execute: [], read: [] } });
    const walls = answers.get("walls")!.split(" ");
    for (const wall of walls) {
      for (const name of REFUSED_BY[wall] ?? []) {
        assert.notEqual(answers.get(name), "open", `${name} behind ${wall}`);
        assert.notEqual(answers.get(name), undefined, `${name} was tried`);
      }
    }
    assert.ok(walls.includes("no-new-privileges"));
    assert.equal(answers.get("socketpair"), "open");
    assert.equal(await Deno.readTextFile(`${dir}/victim`), "victim");
    // Where the kernel offers it, a missing wall is a fault: the probe asks without the helper.
    const unshare = await new Deno.Command("unshare", { args: ["-Urmpfn", "true"] }).output().catch(() => null);
    if (unshare?.success) assert.deepEqual(walls, [...WALLS]);
    else console.log(`this machine grants only: ${walls.join(" ")}`);
  } finally {
    await Deno.remove(dir, { recursive: true });
    for (const left of ["/tmp/mur-attack", "/tmp/mur-attack-dir", "/tmp/mur-attack-dev"]) {
      await Deno.remove(left, { recursive: true }).catch(() => {});
    }
  }
});
