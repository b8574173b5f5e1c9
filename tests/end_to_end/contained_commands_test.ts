/**
 * Whole sessions whose commands are hostile: what they leave, what they reach, what is left of them, and what a host that
 * cannot hold them is told (spec containment 1.3, 3, 4, 9, 13, 14.2, 16, 19.4).
 *
 * Needs Linux with Landlock, user and network namespaces; without them these tests fail, and do not pass.
 *
 * @module
 */
import assert from "node:assert/strict";
import type { JsonObject } from "../../base/json_value.ts";
import {
  type AgentProject,
  agentProject,
  type AgentRun,
  capsule,
  shownResults,
  toolEntry,
} from "../support/agent_project.ts";
import { withLocalServer } from "../support/local_server.ts";
import { AS_NOBODY } from "../support/mur_process.ts";
import { processesBelow, processesOf, stillRunning, until } from "../support/process_tree.ts";
import { startRun } from "../support/serving_run.ts";

/** Programs of the system that a hostile agent makes use of. */
const TOOLS = ["sh", "cat", "chmod", "cp", "kill", "ln", "ls", "mkdir", "mv", "rm", "setsid", "sleep", "touch"];

const FLOORS = ["scoped", "sealed"] as const;

const sh = (command: string): JsonObject => ({ name: "sh", input: { command } });
const turnOf = (...calls: readonly JsonObject[]): JsonObject => ({ turns: [{ calls }, { show: "results" }] });

function hostile(capabilities: JsonObject = {}, more: JsonObject = {}): JsonObject {
  return capsule({
    capabilities: { shell: { allow: TOOLS }, ...capabilities },
    lifecycle: { shell_grace_secs: 60 },
    ...more,
  });
}

/** What a command printed. */
function stdout({ text }: { readonly text: string }): string {
  return /\nStdout:\n([\s\S]*?)\nStderr:\n/.exec(text)?.[1] ?? text;
}

function exitCodes(run: AgentRun): number[] {
  return run.events("shell").map(({ exit_code }) => Number(exit_code));
}

/** Everything below a directory: kind, mode, size, times, content or target of each entry. */
async function snapshot(directory: string): Promise<Record<string, string>> {
  const found: Record<string, string> = {};
  const look = async (path: string) => {
    const info = await Deno.lstat(path);
    const content = info.isSymlink
      ? await Deno.readLink(path)
      : info.isFile
      ? await Deno.readTextFile(path).catch(() => "")
      : "";
    found[path.slice(directory.length)] = [info.isDirectory, info.mode, info.mtime?.getTime(), content].join(" ");
    if (info.isDirectory) { for await (const { name } of Deno.readDir(path)) await look(`${path}/${name}`); }
  };
  await look(directory);
  return found;
}

/** A folder of the same user beside the work folder. */
async function makeOutside(directory: string): Promise<void> {
  await Deno.mkdir(`${directory}/folder`, { recursive: true });
  await Deno.writeTextFile(`${directory}/file`, "outside");
  await Deno.writeTextFile(`${directory}/folder/inner`, "inner");
  await Deno.chmod(`${directory}/file`, 0o644);
}

/** Ways to leave a trace in a directory; each is a script of its own. */
const TRACES: Readonly<Record<string, (outside: string) => string>> = {
  "make a file": (at) => `echo x > '${at}/new'`,
  "write to a file": (at) => `echo x >> '${at}/file'`,
  "empty a file": (at) => `: > '${at}/file'`,
  "remove a file": (at) => `rm '${at}/file'`,
  "rename a file": (at) => `mv '${at}/file' '${at}/other'`,
  "take a file away": (at) => `mv '${at}/file' ./taken`,
  "put a file there": (at) => `echo x > own && mv own '${at}/put'`,
  "make a directory": (at) => `mkdir '${at}/made'`,
  "make a link": (at) => `ln -s /etc '${at}/link'`,
  "make a hard link": (at) => `echo x > hard && ln hard '${at}/hard'`,
  "hard link a file into the work folder and write it": (at) => `ln '${at}/file' ./in && echo x >> in`,
  "write through a link in the work folder": (at) => `ln -sfn '${at}' out && echo x > out/through`,
  "write through a link to a file": (at) => `ln -sf '${at}/file' f && echo x >> f`,
  "change a mode": (at) => `chmod 600 '${at}/file'`,
  "change a time": (at) => `touch -d 2001-01-01 '${at}/file'`,
  "climb out": (at) => `cd / && cd '${at}' && echo x > climbed`,
  "write through /proc": (at) => `(cd '${at}' && echo x > /proc/self/cwd/proc)`,
  "copy over a file": (at) => `cp /dev/null '${at}/file'`,
  "write into a folder below": (at) => `echo x > '${at}/folder/inner'`,
};

for (const floor of FLOORS) {
  Deno.test(`${floor}: an agent that tries everything leaves no trace outside its work folder`, async () => {
    await using project = await agentProject(hostile());
    // Not below /tmp, which is the session's own for a command.
    const outside = await Deno.makeTempDir({ dir: "/var/tmp" });
    await using _outside = { [Symbol.asyncDispose]: () => Deno.remove(outside, { recursive: true }) };
    await makeOutside(outside);
    const before = [await snapshot(outside), await snapshot(project.home).then(withoutRecords)];
    const seconds = String(3_000 + Math.random());
    const scripts = Object.values(TRACES).map((attack) => attack(outside));
    const run = await project.run({
      args: ["--containment", floor],
      task: turnOf(
        ...scripts.map(sh),
        sh(`(setsid sh -c 'trap "" TERM HUP; sleep ${seconds}' > /dev/null 2>&1 &); echo started`),
        sh("kill -9 $PPID; kill -9 -1; echo still here"),
        sh(`echo x > /tmp/mine && cat /tmp/mine; echo x > "$HOME/mine"; echo x > work`),
      ),
    });
    assert.equal(run.status, 0, run.stderr);
    assert.equal(run.events("session_start")[0]!.containment_achieved, floor);
    const codes = exitCodes(run);
    for (const [index, name] of Object.keys(TRACES).entries()) assert.notEqual(codes[index], 0, name);
    const [started, killed, own] = shownResults(run).slice(-3).map(stdout);
    assert.equal(started, "started\n");
    assert.ok(["still here\n", ""].includes(killed!), "it may kill itself and what is its own");
    assert.equal(own, "x\n");
    assert.deepEqual([await snapshot(outside), await snapshot(project.home).then(withoutRecords)], before);
    assert.equal(await project.read(`workdir/${run.sessionId}/work`), "x\n");
    assert.deepEqual(processesOf(["sleep", seconds]), []);

    // Each of these does leave one when nothing holds it.
    for (const [name, attack] of Object.entries(TRACES)) {
      const bare = `${project.root}/bare`;
      await makeOutside(bare);
      const cwd = `${project.root}/cwd`;
      await Deno.mkdir(cwd);
      const untouched = await snapshot(bare);
      const { stderr } = await new Deno.Command("sh", { args: ["-c", attack(bare)], cwd }).output();
      assert.notDeepEqual(await snapshot(bare), untouched, `${name}: ${new TextDecoder().decode(stderr)}`);
      for (const directory of [bare, cwd]) await Deno.remove(directory, { recursive: true });
    }
  });
}

/** What a session leaves on purpose is no trace: its records, and what the runtime itself keeps. */
function withoutRecords(found: Record<string, string>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(found).filter(([path]) =>
      !/^(\/\.murmur(\/(records|sessions|running|compiled|conversations|state|spend)(\/.*)?)?)?$/.test(path)
    ),
  );
}

for (const floor of FLOORS) {
  Deno.test(`${floor}: a command reads its records and nothing else of the home`, async () => {
    await using project = await agentProject(hostile());
    await Deno.writeTextFile(`${project.murmur}/config.yaml`, "credentials:\n  A_KEY: sk-not-for-commands\n");
    await Deno.writeTextFile(`${project.home}/private`, "sk-not-for-commands");
    const run = await project.run({
      args: ["--containment", floor],
      task: turnOf(
        sh(`cat '${project.murmur}/config.yaml'`),
        sh(`ls '${project.murmur}/conversations'`),
        sh(`ls '${project.murmur}'; ls "$MURMUR_RUNTIME_DIR/../ctl"`),
        sh(`cat '${project.home}/private'`),
        sh(`cat /proc/1/environ /proc/$PPID/environ`),
        sh('echo x > "$HOME/../out/forged"; echo x >> "$HOME/../trace.jsonl"; echo x > "$MURMUR_RUNTIME_DIR/task.md"'),
        sh('cat "$MURMUR_RUNTIME_DIR/task.md"; ls "$HOME/.."'),
      ),
    });
    assert.equal(run.status, 0, run.stderr);
    assert.ok(!JSON.stringify(shownResults(run)).includes("sk-not"));
    const codes = exitCodes(run);
    for (const [index, code] of codes.slice(0, 6).entries()) assert.notEqual(code, 0, String(index));
    assert.match(stdout(shownResults(run)[6]!), /"turns"[\s\S]*home\nlogs\nout\ntmp\ntrace\.jsonl\n/);
    // Lines of a trace are the runtime's own.
    assert.equal(run.trace.at(-1)!.event_type, "session_end");
    await assert.rejects(Deno.stat(`${run.records}/out/forged`), Deno.errors.NotFound);
  });
}

for (const floor of FLOORS) {
  Deno.test(`${floor}: commands reach what the rules name through the relay, and nothing beside it`, async () => {
    await withLocalServer(() => new Response("granted"), async (allowed) => {
      await withLocalServer(() => new Response("forbidden"), async (forbidden) => {
        const [open, closed] = [allowed.url, forbidden.url].map((url) => new URL(url).port);
        const get = (host: string, port: string) =>
          ({
            name: "bash",
            input: {
              command: `exec 3<>/dev/tcp/${host}/${port} || exit 7; printf 'GET / HTTP/1.0\\r\\n\\r\\n' >&3; ` +
                'while read -r line; do last=$line; done <&3; echo "$line"',
            },
          }) satisfies JsonObject;
        const calls = [
          get("127.0.0.1", open!),
          get("localhost", open!),
          get("127.0.0.1", closed!),
          get("localhost", closed!),
          get("127.1.2.3", open!),
          get("169.254.169.254", "80"),
          get("10.0.0.1", open!),
          get("1.1.1.1", open!),
          get("::1", open!),
          get("example.com", open!),
        ];
        await using project = await agentProject(capsule({
          capabilities: {
            shell: { allow: ["bash"] },
            network: { allow: [`127.0.0.1:${open}`, `localhost:${open}`] },
          },
        }));
        const run = await project.run({ args: ["--containment", floor], task: turnOf(...calls) });
        assert.equal(run.status, 0, run.stderr);
        const said = shownResults(run).map(stdout);
        assert.deepEqual(said.slice(0, 2), ["granted\n", "granted\n"]);
        for (const [index, text] of said.slice(2).entries()) assert.equal(text.trim(), "", String(index));
        assert.deepEqual([allowed.seen.length, forbidden.seen.length], [2, 0]);

        await project.write("murmur.yaml", JSON.stringify(capsule({ capabilities: { shell: { allow: ["bash"] } } })));
        const without = await project.run({ args: ["--containment", floor], task: turnOf(...calls) });
        assert.equal(without.status, 0, without.stderr);
        assert.ok(exitCodes(without).every((code) => code === 7), "no rule, no way out");
        assert.deepEqual([allowed.seen.length, forbidden.seen.length], [2, 0]);

        // Bare, each of the local ones is answered.
        for (const host of ["127.0.0.1", "localhost"]) {
          const { command } = get(host, closed!).input;
          const { stdout: answer } = await new Deno.Command("bash", { args: ["-c", command] }).output();
          assert.equal(new TextDecoder().decode(answer), "forbidden\n");
        }
      });
    });
  });
}

for (const floor of FLOORS) {
  Deno.test(`${floor}: a helper or a keeper that is killed fails its command alone, and leaves nothing`, async () => {
    await using project = await agentProject(
      hostile({}, { lifecycle: { shell_grace_secs: 60, task_acceptance: "none" } }),
    );
    const seconds = String(4_000 + Math.random());
    const run = await startRun(
      project,
      {
        turns: [
          { calls: [sh(`(setsid sleep ${seconds} &); sleep ${seconds}`)] },
          { calls: [sh("echo next")] },
          { show: "results" },
        ],
      },
      ["--containment", floor],
    );
    await until("the command runs", () => processesOf(["sleep", seconds]).length === 2);
    const sleeping = processesOf(["sleep", seconds]);
    const helpers = processesBelow(run.pid).filter(({ command }) => command.startsWith("mur-confine"));
    for (const mode of ["keeper", "run"]) {
      const [helper] = helpers.filter(({ pid }) => argumentsOf(pid)[1] === mode);
      Deno.kill(helper!.pid, "SIGKILL");
    }
    await until("nothing of it is left", () => stillRunning(sleeping).length === 0);
    const ended = await run.finish();
    assert.equal(ended.status, 0, ended.stderr);
    const [killed, next] = shownResults(ended);
    assert.ok(killed!.error, killed!.text);
    assert.match(killed!.text, /\nsandbox: [^\n]*: helper: it ended while the command ran, and the command with it\n/);
    assert.equal(stdout(next!), "next\n");
  });
}

Deno.test("of two sessions in one work folder the last one holds the trusted names to its end", async () => {
  await using project = await agentProject(hostile());
  const workdir = project.project;
  const attack = sh("echo x > .env; mkdir .murmur/x; echo x > roster.yaml; echo fine");
  const first = project.run({ workdir, task: { turns: [{ calls: [sh("sleep 1")] }, { text: "done" }] } });
  await until("the names are taken", async () => await Deno.lstat(`${workdir}/.env`).then(() => true, () => false));
  const second = project.run({ workdir, task: { turns: [{ delayMs: 2_500, calls: [attack] }, { show: "results" }] } });
  const ended = await first;
  assert.equal(ended.status, 0, ended.stderr);
  const run = await second;
  assert.equal(run.status, 0, run.stderr);
  assert.ok(run.events("shell")[0]!.timestamp! > ended.events("session_end")[0]!.timestamp!, "it outlived the first");
  assert.equal(stdout(shownResults(run)[0]!), "fine\n");
  const names = [...Deno.readDirSync(workdir)].map(({ name }) => name).sort();
  assert.deepEqual(names, ["murmur.lock", "murmur.yaml"]);
});

Deno.test("nor does a command that runs while another session ends get at them", async () => {
  await using project = await agentProject(hostile());
  const workdir = project.project;
  const short = project.run({ workdir, task: { turns: [{ calls: [sh("sleep 1")] }, { text: "done" }] } });
  await until("the names are taken", async () => await Deno.lstat(`${workdir}/.env`).then(() => true, () => false));
  // One command, from before that end to after it.
  const attack = sh(
    "i=0; while [ $i -lt 40 ]; do mkdir .murmur 2>/dev/null && echo made; (echo x > .murmur/config.yaml) 2>/dev/null && " +
      "echo written; (echo x > .env) 2>/dev/null && echo written; sleep 0.1; i=$((i+1)); done; echo over",
  );
  const long = project.run({ workdir, task: turnOf(attack) });
  const [ended, run] = [await short, await long];
  assert.equal(ended.status, 0, ended.stderr);
  assert.equal(run.status, 0, run.stderr);
  assert.ok(
    run.events("session_end")[0]!.timestamp! > ended.events("session_end")[0]!.timestamp!,
    "it outlived the other",
  );
  assert.equal(stdout(shownResults(run)[0]!), "over\n");
  const names = [...Deno.readDirSync(workdir)].map(({ name }) => name).sort();
  assert.deepEqual(names, ["murmur.lock", "murmur.yaml"]);
});

for (const floor of FLOORS) {
  Deno.test(`${floor}: a session that is killed leaves no trace either, once the next launch has cleared up`, async () => {
    await using project = await agentProject(hostile({}, { lifecycle: { shell_grace_secs: 60 } }));
    const outside = await Deno.makeTempDir({ dir: "/var/tmp" });
    await using _outside = { [Symbol.asyncDispose]: () => Deno.remove(outside, { recursive: true }) };
    await makeOutside(outside);
    const workdir = `${project.root}/work`;
    await Deno.mkdir(workdir);
    const home = async () => withoutRecords(await snapshot(project.home));
    const before = [await snapshot(outside), await home()];
    const seconds = String(6_000 + Math.random());
    const attacks = Object.values(TRACES).map((attack) => `(${attack(outside)})`).join("; ");
    const run = await startRun(project, {
      turns: [{ calls: [sh(`${attacks}; (setsid sleep ${seconds} &); echo x > ready; sleep ${seconds}`)] }],
    }, ["--containment", floor, "--workdir", workdir, "--lifecycle-task-acceptance", "queue"]);
    await until("it has done its worst", () => processesOf(["sleep", seconds]).length === 2);
    const processes = processesBelow(run.pid);
    run.kill("SIGKILL");
    await until("its processes are gone", () => stillRunning(processes).length === 0);
    assert.deepEqual(processesOf(["sleep", seconds]), []);
    assert.deepEqual([await snapshot(outside), await home()], before);
    const names = () => [...Deno.readDirSync(project.project)].map(({ name }) => name).sort();
    const next = await project.run({ task: { turns: [{ text: "done" }] } });
    assert.equal(next.status, 0, next.stderr);
    assert.deepEqual(names(), ["murmur.lock", "murmur.yaml", "workdir"]);
    assert.deepEqual([...Deno.readDirSync(`${project.murmur}/sessions`)], []);
  });
}

Deno.test("a killed session's placeholders go with the next launch, wherever that works", async () => {
  await using project = await agentProject(hostile({}, { lifecycle: { shell_grace_secs: 60 } }));
  await using elsewhere = await agentProject(capsule());
  const run = await startRun(
    project,
    { turns: [{ calls: [sh("sleep 60")] }] },
    ["--workdir", project.project, "--lifecycle-task-acceptance", "queue"],
  );
  const names = () => [...Deno.readDirSync(project.project)].map(({ name }) => name).sort();
  await until("the names are taken", () => names().includes(".env"));
  await until("its command runs", () => processesBelow(run.pid).some(({ command }) => command.startsWith("sleep")));
  run.kill("SIGKILL");
  await until("its processes are gone", () => processesBelow(run.pid).length === 0);
  assert.deepEqual(names(), [".env", ".murmur", "murmur.lock", "murmur.yaml", "roster.yaml"]);
  // What the operator writes there is the operator's.
  await Deno.writeTextFile(`${project.project}/.env`, "A=1\n");
  const next = await elsewhere.run({ home: project.home, task: { turns: [{ text: "done" }] } });
  assert.equal(next.status, 0, next.stderr);
  assert.deepEqual(names(), [".env", "murmur.lock", "murmur.yaml"]);
});

for (const floor of FLOORS) {
  Deno.test(`${floor}: a command that outlives its session takes no name that a later launch trusts`, async () => {
    await using project = await agentProject(hostile({}, { lifecycle: { shell_grace_secs: 0 } }));
    const names = () => [...Deno.readDirSync(project.project)].map(({ name }) => name).sort();
    // It waits without starting anything: elsewhere others of this user may have used up all processes for a moment.
    assert.ok((await new Deno.Command("mkfifo", { args: [`${project.project}/go`] }).output()).success);
    const attack = "read go < go; for name in .env roster.yaml murmur.yaml murmur.lock; do " +
      "rm -f $name; mv $name moved; echo evil > $name; done; rm -rf .murmur; mkdir .murmur; " +
      "echo evil > .murmur/config.yaml; echo done > over";
    const run = await project.run({
      args: ["--containment", floor],
      workdir: project.project,
      task: turnOf(sh(attack)),
    });
    assert.equal(run.status, 0, run.stderr);
    assert.equal(run.events("shell_abandoned").length, 1);
    // Another launch there ends, and clears up, before it.
    const beside = await project.run({ workdir: project.project, task: { turns: [{ text: "done" }] } });
    assert.equal(beside.status, 0, beside.stderr);
    await Deno.writeTextFile(`${project.project}/go`, "now\n");
    await until("it has done its worst", () => names().includes("over"));
    for (const name of [".env", "roster.yaml", "murmur.yaml", "murmur.lock"]) {
      assert.doesNotMatch(await project.read(name), /evil/, name);
    }
    assert.deepEqual([...Deno.readDirSync(`${project.project}/.murmur`)], []);
    const next = async () => {
      const { status, stderr } = await project.run({ workdir: project.project, task: { turns: [{ text: "done" }] } });
      assert.equal(status, 0, stderr);
      return names().join(" ");
    };
    // Its helper ends a moment after it.
    await until("nothing holds the names", async () => await next() === "go murmur.lock murmur.yaml over");
    assert.deepEqual([...Deno.readDirSync(`${project.murmur}/sessions`)], []);
  });
}

Deno.test("what an agent left on the PATH is not started by a launch that asks compilers", async () => {
  await using project = await agentProject(hostile({
    containment: "sealed",
    shell: { allow: [...TOOLS, "gcc"] },
  }));
  const bin = `${project.project}/venv/bin`;
  const options = { workdir: project.project, env: { PATH: `${bin}:${Deno.env.get("PATH")}` } };
  const attack = `printf '#!/bin/sh\necho x > ${project.root}/mark\n' > ${bin}/gcc && chmod +x ${bin}/gcc`;
  const first = await project.run({ ...options, task: turnOf(sh(`mkdir -p ${bin} && ${attack}`)) });
  assert.equal(first.status, 0, first.stderr);
  const explained = await project.mur(["run", "--explain-scope", "--workdir", project.project], options);
  assert.match(explained.stderr, /E-CAP-006[^\n]*venv\/bin\/gcc/);
  await assert.rejects(Deno.stat(`${project.root}/mark`), Deno.errors.NotFound);
  // It would have worked.
  assert.ok((await new Deno.Command(`${bin}/gcc`).output()).success);
  await Deno.stat(`${project.root}/mark`);
});

function argumentsOf(pid: number): string[] {
  try {
    return Deno.readTextFileSync(`/proc/${pid}/cmdline`).split("\0");
  } catch {
    return [];
  }
}

Deno.test("a command left behind by an orderly end stays behind its walls, and ends with its helper", async () => {
  await using project = await agentProject(hostile({}, { lifecycle: { shell_grace_secs: 0 } }));
  const seconds = String(5_000 + Math.random());
  const run = await project.run({ task: turnOf(sh(`exec sleep ${seconds}`)) });
  assert.equal(run.status, 0, run.stderr);
  assert.equal(run.events("shell_abandoned").length, 1);
  const [left] = processesOf(["sleep", seconds]);
  assert.ok(left !== undefined, "it goes on");
  const status = await Deno.readTextFile(`/proc/${left.pid}/status`);
  for (const line of ["NoNewPrivs:\t1", "Seccomp:\t2", "CapEff:\t0000000000000000", "CapBnd:\t0000000000000000"]) {
    assert.ok(status.includes(`${line}\n`), line);
  }
  const init = Number(/^PPid:\t(\d+)$/m.exec(status)![1]);
  const helper = Number(/^PPid:\t(\d+)$/m.exec(await Deno.readTextFile(`/proc/${init}/status`))![1]);
  assert.equal(argumentsOf(helper)[1], "run");
  Deno.kill(helper, "SIGKILL");
  await until("it ended with its helper", () => stillRunning([left]).length === 0);
});

for (const floor of FLOORS) {
  for (const [who, under] of [["this user", []], ["a user without any capability", AS_NOBODY]] as const) {
    Deno.test(`${floor} is met here, for ${who}, and is what was explained`, async () => {
      await using project = await agentProject(hostile({ network: { allow: ["localhost:1"] } }, {
        artifacts: [toolEntry("native-probe")],
      }));
      const args = ["--containment", floor];
      const [explained, run] = await Promise.all([
        project.mur(["run", "--explain-scope", "--json", ...args], { under }),
        project.run({
          args,
          under,
          task: turnOf(sh("echo fine"), { name: "native-probe", input: { script: "echo x" } }),
        }),
      ]);
      assert.equal(run.status, 0, run.stderr);
      assert.equal(stdout(shownResults(run)[0]!), "fine\n");
      assert.match(shownResults(run)[1]!.text, /\nx\n/);
      const [start] = run.events("session_start");
      const grants = start!.effective_grants as JsonObject;
      assert.deepEqual(JSON.parse(explained.stdout), grants);
      assert.deepEqual(
        [start!.containment_declared, start!.containment_achieved, start!.userns_grant, grants.floor_met],
        [floor, floor, grants.userns_grant, true],
      );
      assert.equal(
        grants.enforcement_tier,
        floor === "sealed" ? "mountns+pivot_root+landlock+seccomp" : "landlock+seccomp",
      );
      assert.match(run.stderr, /warning\[W-SEC-005\]/);
      assert.doesNotMatch(run.stderr, /warning\[W-SEC-00[123]\]/);
    });
  }
}

Deno.test("a host without user namespaces is told, and runs no command", async () => {
  await using project = await agentProject(capsule());
  const under = ["unshare", "-r", "sh", "-c", 'echo 0 > /proc/sys/user/max_user_namespaces && exec "$@"', "sh"];
  const plain = await project.run({ under, task: { turns: [{ text: "done" }] } });
  assert.equal(plain.status, 0, plain.stderr);
  assert.equal(plain.events("session_start")[0]!.containment_achieved, "advisory");
  for (const floor of FLOORS) {
    const refused = await project.run({ under, args: ["--containment", floor], task: "x" });
    assert.equal(refused.status, 1);
    assert.match(refused.stderr, /^error\[E-CAP-003\]: [^\n]*user\.max_user_namespaces/m);
  }
  await project.write("murmur.yaml", JSON.stringify(hostile()));
  const commands = await project.run({ under, task: turnOf(sh("echo x")) });
  assert.equal(commands.status, 1);
  assert.match(commands.stderr, /^error\[E-CAP-005\]: [^\n]*network namespace[^\n]*kernel_support_missing/m);
  assert.equal(commands.sessionId, null);
});

Deno.test("a root that can't be composed ends the session", async () => {
  const shell = {
    allow: TOOLS,
    staged_runtime: [{ binary: "cat", source_path: "/nothing/of/that/name", pin: "1" }],
  };
  await using project = await agentProject(hostile({ containment: "sealed", shell }));
  const run = await project.run({ task: turnOf(sh("echo ran > ran"), sh("echo again")) });
  assert.equal(run.status, 1);
  assert.match(
    run.stderr,
    /^error\[E-RUN-014\]: sealed-root: [^\n]*\/nothing\/of\/that\/name[^\n]* failed: No such file/m,
  );
  assert.equal(run.events("shell").length, 0);
  assert.equal(run.events("session_end")[0]!.exit_status, "failed");
  assert.deepEqual([...Deno.readDirSync(`${project.project}/workdir/${run.sessionId}`)], []);
});

Deno.test("what a command is stopped for is told, whatever bounds it", async () => {
  await using project = await agentProject(hostile({
    resources: { max_processes: 2_000, cpu_seconds: 1, max_file_size_bytes: 65_536 },
  }));
  const run = await project.run({
    task: turnOf(
      sh("i=0; while [ $i -lt 400 ]; do sleep 3 & i=$((i+1)); done; wait"),
      sh("while :; do :; done"),
      sh("exec cat /dev/zero > big"),
      sh("echo fine"),
    ),
  });
  assert.equal(run.status, 0, run.stderr);
  assert.deepEqual(run.events("shell").map(({ resource_limit }) => resource_limit ?? null), [
    "cgroup_pids_max",
    "cpu_seconds",
    "max_file_size_bytes",
    null,
  ]);
});

Deno.test("from inside a command the walls answer as the documentation says", async () => {
  // docs/security.md, "See for yourself".
  const answers: Readonly<Record<typeof FLOORS[number], readonly RegExp[]>> = {
    scoped: [/Permission denied/, /Permission denied/, /Read-only/, /Read-only/, /refused/],
    sealed: [/No such file/, /Permission denied/, /No such file|nonexistent/, /Read-only/, /refused/],
  };
  for (const floor of FLOORS) {
    await using project = await agentProject(capsule({
      capabilities: { shell: { allow: ["bash", "cat", "cp"] } },
    }));
    const run = await project.run({
      args: ["--containment", floor],
      workdir: project.project,
      task: turnOf(
        ...[
          "cat /etc/shadow",
          "cp /bin/cat x; ./x",
          "echo x > /var/tmp/x",
          "echo x > murmur.yaml",
          ": < /dev/tcp/1.1.1.1/443",
        ]
          .map((command) => ({ name: "bash", input: { command } })),
      ),
    });
    assert.equal(run.status, 0, run.stderr);
    for (const [index, { text }] of shownResults(run).entries()) assert.match(text, answers[floor][index]!, floor);
    assert.ok(exitCodes(run).every((code) => code !== 0));
  }
});

/** A home whose path is longer than a socket's can be. */
async function longHome(project: AgentProject): Promise<string> {
  const home = `${project.root}/${"long-".repeat(30)}`;
  await Deno.rename(project.home, home);
  return home;
}

Deno.test("a home of any length serves commands", async () => {
  await using project = await agentProject(hostile());
  const home = await longHome(project);
  const finished = await project.mur(["run", "--output", "text", "--task", JSON.stringify(turnOf(sh("echo fine")))], {
    home,
  });
  assert.equal(finished.status, 0, finished.stderr);
  assert.match(finished.stdout, /Stdout:\\nfine/);
});
