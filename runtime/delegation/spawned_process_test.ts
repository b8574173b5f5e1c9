import assert from "node:assert/strict";
import { parseProcessStat } from "../../base/process_identity.ts";
import { SpawnedProcess, type SpawnedProcessOptions } from "./spawned_process.ts";

const heard: string[] = [];

function start(script: string, more: Partial<SpawnedProcessOptions> = {}): SpawnedProcess {
  return new SpawnedProcess({
    command: "/bin/sh",
    args: ["-c", script],
    env: { PATH: "/usr/bin:/bin" },
    cwd: "/",
    input: "",
    bounds: { childStopGrace: 300, childLastWords: 300 },
    nothingNew: new Set(["known"]),
    diagnostics: (line) => heard.push(line),
    ...more,
  });
}

function isGone(pid: number): boolean {
  try {
    Deno.statSync(`/proc/${pid}`);
    return false;
  } catch {
    return true;
  }
}

Deno.test("the first line is handed over, what follows is read and dropped", async () => {
  const child = start('read a; read b; echo "$a-$b"; head -c 3000000 /dev/zero; echo; echo more', {
    input: "one\ntwo\n",
  });
  assert.equal(await child.firstLine, "one-two");
  const { code, at } = await child.exited;
  assert.equal(code, 0);
  assert.ok(at <= performance.now() && at >= child.launchedAt);
  assert.ok(isGone(child.pid), "it is reaped");
});

Deno.test("its input ends behind what it was given", async () => {
  assert.equal(await start("cat | wc -c", { input: "x".repeat(200_000) }).firstLine, "200000");
});

Deno.test("one that ends or closes its output without a line says so", async () => {
  const ended = start("exit 3");
  assert.equal(await ended.firstLine, null);
  assert.equal((await ended.exited).code, 3);
  const closed = start("exec >&-; sleep 60");
  assert.equal(await closed.firstLine, null);
  assert.equal((await closed.end()).signal, "SIGTERM");
});

Deno.test("a first line without end is cut, and does not fill the memory", async () => {
  const child = start("head -c 5000000 /dev/zero | tr '\\0' x; echo; sleep 60");
  assert.equal((await child.firstLine)?.length, 65_536);
  await child.kill();
});

Deno.test("its errors are told line by line, the last ones kept", async () => {
  heard.length = 0;
  const child = start(
    "for i in $(seq 50); do echo line $i >&2; done; printf 'no end' >&2; head -c 5000 /dev/zero | tr '\\0' y >&2",
  );
  await child.exited;
  assert.equal(heard.length, 51);
  const tail = child.stderrTail();
  assert.equal(tail.length, 20);
  assert.equal(tail[18], "line 50");
  assert.ok(tail[19]!.startsWith("no endyyy") && tail[19]!.length === 2_000);
});

Deno.test("it leads a session of its own: a signal to the group of its launcher is not for it", async () => {
  // Group and session of a process, behind its state and its parent.
  const child = start("read -r a b c d group session rest < /proc/$$/stat; echo $$ $group $session");
  const [pid, group, session] = (await child.firstLine)!.split(" ");
  assert.deepEqual([group, session], [pid, pid]);
  await child.exited;
});

Deno.test("a line that says nothing new is neither told nor kept", async () => {
  heard.length = 0;
  const child = start("printf 'known\\nknown too\\n known\\nknown\\n' >&2");
  await child.exited;
  assert.deepEqual(heard, ["known too", " known"]);
  assert.deepEqual(child.stderrTail(), heard);
});

Deno.test("a signal ends it, a second call joins the first, and one that does not listen is killed", async () => {
  const willing = start("trap 'exit 7' TERM; echo up; while :; do sleep 0.02; done");
  await willing.firstLine;
  const [first, second] = await Promise.all([willing.end(), willing.end()]);
  assert.deepEqual([first.code, second], [7, first]);

  const deaf = start("trap '' TERM; echo up; while :; do sleep 0.02; done");
  await deaf.firstLine;
  const begin = performance.now();
  assert.equal((await deaf.end()).signal, "SIGKILL");
  assert.ok(performance.now() - begin >= 290);

  const stopped = start("echo up; exec sleep 60");
  await stopped.firstLine;
  Deno.kill(stopped.pid, "SIGSTOP");
  while (parseProcessStat(Deno.readTextFileSync(`/proc/${stopped.pid}/stat`))?.state !== "T");
  assert.equal((await stopped.end()).signal, "SIGKILL");
  assert.ok([willing, deaf, stopped].every(({ pid }) => isGone(pid)));
  assert.equal((await stopped.end()).signal, "SIGKILL", "an end after the end");
});

Deno.test("several are ended at once, in one grace", async () => {
  const children = Array.from({ length: 6 }, () => start("trap '' TERM; echo up; while :; do sleep 0.02; done"));
  await Promise.all(children.map(({ firstLine }) => firstLine));
  const begin = performance.now();
  await Promise.all(children.map((child) => child.end()));
  assert.ok(performance.now() - begin < 1_500, String(performance.now() - begin));
});

Deno.test("a process it leaves behind with its streams does not hold up its end", async () => {
  const child = start("sleep 5 & echo up; exit 0");
  const begin = performance.now();
  await child.exited;
  assert.ok(performance.now() - begin < 3_000);
});

Deno.test("what cannot be started is told, and no descriptor is left", async () => {
  const open = () => [...Deno.readDirSync("/proc/self/fd")].length;
  await start("exit 0").exited;
  const before = open();
  for (let round = 0; round < 5; round++) assert.throws(() => start("", { command: "/no/such/program" }), /not found/);
  for (let round = 0; round < 5; round++) await start("exit 0").exited;
  assert.equal(open(), before);
});

Deno.test("its lifeline is at 3, a pipe nobody else writes to: it ends with the process that launched it", async () => {
  // The launcher is a process of its own, killed; the child it launched waits for its lifeline alone.
  const launcher = new URL("./testing/launch_and_wait.ts", import.meta.url).pathname;
  for (const signal of ["SIGKILL", "SIGTERM"] as const) {
    const process = new Deno.Command(Deno.execPath(), {
      args: ["run", "-A", "--quiet", launcher],
      stdout: "piped",
      cwd: new URL("../..", import.meta.url).pathname,
    }).spawn();
    const reader = process.stdout.pipeThrough(new TextDecoderStream()).getReader();
    const said = JSON.parse((await reader.read()).value!) as { pid: number; descriptors: string };
    assert.equal(said.descriptors, "0, 1, 2, 3");
    assert.match(Deno.readLinkSync(`/proc/${said.pid}/fd/3`), /^pipe:/);
    process.kill(signal);
    await process.status;
    for (const limit = Date.now() + 5_000; !isGone(said.pid); await new Promise((r) => setTimeout(r, 10))) {
      assert.ok(Date.now() < limit, `${said.pid} is left`);
    }
    await reader.cancel();
  }
});
