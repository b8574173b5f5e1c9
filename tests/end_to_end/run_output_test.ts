/**
 * What `mur run` prints, leaves behind and gives to commands and components (spec cli 12, session 4, 5, 18).
 *
 * @module
 */
import assert from "node:assert/strict";
import {
  type AgentProject,
  agentProject,
  type AgentRun,
  callsThenResults,
  capsule,
  type ShownResult,
  shownResults,
  toolEntry,
} from "../support/agent_project.ts";
import { murCommand, murEnvironment, spawnMur } from "../support/mur_process.ts";

const HUMAN = /^murmur: url localhost:\d+\nsession: ses_[0-9a-f]{32}\nstatus: {2}ok\n$/;

/** Output of a shell tool's result. */
function stdoutOf({ text }: ShownResult): string {
  return /\nStdout:\n([\s\S]*?)\nStderr:\n/.exec(text)?.[1] ?? "";
}

/** A result without the lines of its fence. */
function unfenced(text: string): string {
  return text.split("\n").slice(1, -1).join("\n");
}

function variables(text: string): Record<string, string> {
  return Object.fromEntries(
    text.split("\n").filter((line) => line.includes("=")).map((line) => [
      line.slice(0, line.indexOf("=")),
      line.slice(line.indexOf("=") + 1),
    ]),
  );
}

async function names(directory: string): Promise<string[]> {
  const found: string[] = [];
  for await (const { name } of Deno.readDir(directory)) found.push(name);
  return found.sort();
}

function modeOf(path: string): number {
  return Deno.statSync(path).mode! & 0o777;
}

/** Every directory from `~/.murmur` down to a path, that path included. */
function componentsBelow(project: AgentProject, path: string): string[] {
  const parts = path.slice(project.murmur.length + 1).split("/");
  return [project.murmur, ...parts.map((_, index) => `${project.murmur}/${parts.slice(0, index + 1).join("/")}`)];
}

Deno.test("a run prints its lines, shows its session to commands, and leaves nothing but its records", async () => {
  await using project = await agentProject(capsule({
    capabilities: { shell: { allow: ["sh"] } },
    artifacts: [toolEntry("probe-tool"), toolEntry("native-probe"), {
      name: "greeting",
      version: "1.0.0",
      runtime: "skill",
    }],
  }));
  const look = [
    `cat '${project.murmur}'/running/ses_*.json`,
    `cat "$MURMUR_RUNTIME_DIR/task.md"`,
    `sed -n '/^## Installed/,/^## Calling/p' "$MURMUR_RUNTIME_DIR/MURMUR.md"`,
    `cd "$MURMUR_RUNTIME_DIR" && find . -type f | sort`,
    `stat -c %a "$HOME" "$TMPDIR" "$MURMUR_RUNTIME_DIR"`,
    `pwd`,
  ];
  const task = JSON.stringify(callsThenResults(...look.map((command) => ({ name: "sh", input: { command } }))));
  const run = await project.run({ task });
  assert.equal(run.status, 0, run.stderr);
  assert.match(
    run.stdout,
    /^murmur: url localhost:\d+\nsession: ses_[0-9a-f]{32}\nskills: 1 installed\nstatus: {2}ok\n$/,
  );
  assert.doesNotMatch(run.stderr, /error\[/);

  const [running, taskFile, inventory, files, modes, pwd] = shownResults(run).map((result) => stdoutOf(result).trim());
  const record = JSON.parse(running!);
  assert.equal(record.session_id, run.sessionId);
  assert.equal(record.capsule_name, "probe");
  assert.equal(record.records_dir, run.records);
  assert.match(run.stdout, new RegExp(`murmur: url ${record.url}\n`));
  assert.equal(taskFile, task);
  assert.match(inventory!, /- \*\*native-probe\*\* \(v1\.0\.0, tool\)/);
  assert.match(inventory!, /- \*\*greeting\*\* \(v1\.0\.0, skill\).*\*\(call by name to load guidance\)\*/);
  assert.doesNotMatch(inventory!, /program-driver/);
  assert.deepEqual(files!.split("\n"), [
    "./MURMUR.md",
    "./murmur.yaml",
    "./task.md",
    "./tools/greeting/murmur.yaml",
    "./tools/greeting/skill.md",
    "./tools/native-probe/murmur.yaml",
    "./tools/native-probe/native-probe",
    "./tools/probe-tool/murmur.yaml",
    "./tools/program-driver/murmur.yaml",
    "./tools/sh/murmur.yaml",
  ]);
  assert.equal(modes, "700\n700\n700");
  assert.equal(pwd, `${project.project}/workdir/${run.sessionId}`);

  for (const directory of componentsBelow(project, run.records)) assert.equal(modeOf(directory), 0o700, directory);
  for (const name of ["logs", "out", "tmp", "home"]) assert.equal(modeOf(`${run.records}/${name}`), 0o700, name);
  assert.deepEqual(await names(`${project.murmur}/sessions`), []);
  assert.deepEqual(await names(`${project.murmur}/running`), []);
  assert.deepEqual(await names(`${project.project}/workdir/${run.sessionId}`), []);
  assert.deepEqual(await names(run.records), ["home", "logs", "out", "tmp", "trace.jsonl"]);
  assert.deepEqual(await names(`${run.records}/out`), ["result.txt"]);
  assert.equal(modeOf(`${run.records}/trace.jsonl`), 0o600);
  assert.match(await Deno.readTextFile(`${run.records}/logs/bootstrap.log`), /W-SEC-001/);
});

Deno.test("commands and components get the environment the rules name and nothing else", async () => {
  await using project = await agentProject(capsule({
    capabilities: {
      shell: { allow: ["sh"], baseline_env: ["WANTED", "ALSO_API_KEY", "MURMUR_ROOST_URL"], strip_env: ["HIDDEN_*"] },
      env: { allow: ["COLOUR", "MURMUR_CAPSULE_NAME", "ABSENT"] },
    },
    artifacts: [
      toolEntry("probe-tool", { config: { a: [1, { b: null }] } }),
      toolEntry("native-probe"),
    ],
    inference: {
      transport: "http",
      model: "m-1",
      driver: { artifact: "program-driver", config: { depth: 3 } },
    },
  }));
  const run = await project.run({
    task: {
      turns: [
        {
          calls: [
            { name: "sh", input: { command: "env" } },
            { name: "native-probe", input: { script: "env" } },
            { name: "probe-tool", input: { operation: "environment" } },
            { name: "probe-tool", input: { operation: "environment" } },
          ],
        },
        { show: "results" },
      ],
    },
    args: ["--json"],
    env: {
      WANTED: "yes",
      UNWANTED: "no",
      ALSO_API_KEY: "k1",
      HIDDEN_THING: "h",
      ANTHROPIC_API_KEY: "k2",
      AWS_SECRET: "k3",
      GITHUB_TOKEN: "k4",
      COLOUR: "blue",
      MURMUR_CAPSULE_NAME: "not-this",
      MURMUR_SESSION_ID: "ses_foreign",
      MURMUR_ROOST_URL: "http://127.0.0.1:1",
      LANG: "C.UTF-8",
      TERM: "dumb",
    },
  });
  assert.equal(run.status, 0, run.stderr);
  const ready = JSON.parse(run.stdout.slice(0, -1));
  assert.equal(run.stdout, `${JSON.stringify(ready)}\n`);
  assert.deepEqual(Object.keys(ready), ["url", "pid", "session_id", "name", "version", "workdir"]);
  assert.deepEqual({ ...ready, url: "", pid: 0 }, {
    url: "",
    pid: 0,
    session_id: run.sessionId,
    name: "probe",
    version: "0.1.0",
    workdir: `${project.project}/workdir/${run.sessionId}`,
  });

  const [shell, native, first, second] = shownResults(run);
  const home = `${run.records}/home`;
  const temporary = `${run.records}/tmp`;
  const common = {
    HOME: home,
    USERPROFILE: home,
    TMPDIR: temporary,
    TMP: temporary,
    TEMP: temporary,
    PATH: Deno.env.get("PATH"),
    LANG: "C.UTF-8",
    TERM: "dumb",
    WANTED: "yes",
    MURMUR_RUNTIME_DIR: `${project.murmur}/sessions/${run.sessionId}/runtime`,
    PWD: ready.workdir,
  };
  const identity = {
    MURMUR_CAPSULE_NAME: "probe",
    MURMUR_CAPSULE_VERSION: "0.1.0",
    MURMUR_SESSION_ID: run.sessionId,
    MURMUR_CAPSULE_URL: ready.url,
    MURMUR_INFERENCE_TRANSPORT: "http",
    MURMUR_INFERENCE_MODEL: "m-1",
    MURMUR_INFERENCE_DRIVER: "program-driver",
    MURMUR_INFERENCE_DRIVER_CONFIG: '{"depth":3}',
    MURMUR_INFERENCE_ENDPOINT: "",
  };
  // A shell counts its own depth.
  const { SHLVL: _, OLDPWD: __, ...shellSaw } = variables(stdoutOf(shell!));
  assert.deepEqual(shellSaw, { ...common, ...identity });
  const { SHLVL: ___, OLDPWD: ____, ...nativeSaw } = variables(unfenced(native!.text));
  assert.deepEqual(nativeSaw, common);

  const seen = [first, second].map(({ text } = { text: "", error: true }) => JSON.parse(unfenced(text)));
  assert.deepEqual(seen[0], {
    environment: { COLOUR: "blue", ...identity, MURMUR_ARTIFACT_CONFIG: '{"a":[1,{"b":null}]}' },
    config: { a: [1, { b: null }] },
    calls: 1,
  });
  // Each call has an instance of its own.
  assert.deepEqual(seen[1], seen[0]);
  const log = await Deno.readTextFile(`${run.records}/logs/bootstrap.log`);
  for (const secret of ["k1", "k2", "k3", "k4"]) assert.ok(!log.includes(`"${secret}"`));
});

Deno.test("--output text prints the answer alone, --verbose says more, a failed task fails the command", async () => {
  await using project = await agentProject(capsule({ inference: { max_tokens: 5 } }));
  const answer = "first line\nsecond \u001b[31mline\u0007";
  const [text, verbose, failed, noTask] = await Promise.all([
    project.run({
      task: { turns: [{ text: answer, chunks: ["chunk"], thinking: ["hm"] }] },
      args: ["--output", "text"],
    }),
    project.run({ task: "hello", args: ["-v"] }),
    project.run({ task: { turns: [{ stop: "error", text: "x" }] }, args: ["--output", "text"] }),
    project.run(),
  ]);
  assert.equal(text.status, 0, text.stderr);
  assert.equal(text.stdout, `${answer}\n`);
  assert.match(text.stderr, /^murmur: url localhost:\d+\nsession: ses_[0-9a-f]{32}\nstatus: {2}ok\n$/m);
  assert.equal(text.result, answer);

  assert.equal(verbose.status, 0, verbose.stderr);
  assert.deepEqual(verbose.stdout.split("\n").map((line) => line.replace(/localhost:\d+/, "localhost:N")), [
    "murmur: url localhost:N",
    `session: ${verbose.sessionId}`,
    `workdir: ${project.project}/workdir/${verbose.sessionId}`,
    "manifest: probe v0.1.0",
    "driver: program-driver (m-1)",
    "status:  ok",
    "",
  ]);
  assert.equal(verbose.result, "you said: hello");

  assert.equal(failed.status, 1);
  assert.equal(failed.stdout, "");
  assert.match(
    failed.stderr,
    /\nstatus: {2}failed\nerror\[E-RUN-040\]: [^\n]*driver returned error\n {2}hint: [^\n]+\n$/,
  );
  assert.equal(failed.result, "error: driver returned error");
  assert.equal(failed.events("session_end")[0]?.exit_status, "failed");

  // Without a task and without a door that takes one, the session ends at once.
  assert.equal(noTask.status, 0, noTask.stderr);
  assert.match(noTask.stdout, HUMAN);
  assert.deepEqual(noTask.trace.map(({ event_type }) => event_type), ["session_start", "session_end"]);
  assert.equal(noTask.result, null);
});

Deno.test("a task comes from a file, from the work folder, or waits out the idle bound", async () => {
  await using project = await agentProject(capsule({ lifecycle: { task_acceptance: "single" } }));
  await project.write("tasks/one.txt", "from a file");
  await project.write("folder/task.md", "from the folder");
  await project.write("folder/input.txt", "not this");
  await project.write("other/input.txt", "from input.txt");
  const long = `long ${"x".repeat(9_000)}`;
  const [file, folder, input, idle, text] = await Promise.all([
    project.run({ task: "tasks/one.txt" }),
    project.run({ workdir: `${project.project}/folder` }),
    project.run({ workdir: `${project.project}/other` }),
    project.run({ env: { MURMUR_A2A_TIMEOUT_SECS: "1" } }),
    project.run({ task: long }),
  ]);
  for (const run of [file, folder, input, idle, text]) assert.equal(run.status, 0, run.stderr);
  assert.equal(file.result, "you said: from a file");
  assert.equal(folder.result, "you said: from the folder");
  assert.equal(input.result, "you said: from input.txt");
  assert.equal(text.result, `you said: ${long}`);
  assert.equal(await project.read("folder/task.md"), "from the folder");
  assert.equal(idle.status, 0, idle.stderr);
  assert.deepEqual(idle.trace.map(({ event_type }) => event_type), ["session_start", "session_end"]);
  assert.ok(Number(idle.trace[1]!.duration_ms) >= 950);
});

Deno.test("a task that cannot be read refuses the launch before anybody is told of a session", async () => {
  await using project = await agentProject(capsule());
  await Deno.mkdir(`${project.project}/pipe`);
  await new Deno.Command("mkfifo", { args: [`${project.project}/pipe/task.md`] }).output();
  await Deno.mkdir(`${project.project}/link`);
  await Deno.symlink("/etc/passwd", `${project.project}/link/task.md`);
  await project.write("huge.md", "x".repeat(17 << 20));
  await project.write("blocked/murmur.yaml", JSON.stringify(capsule()));
  await project.write("blocked/workdir", "a file");
  const runs = await Promise.all([
    project.run({ workdir: `${project.project}/pipe` }),
    project.run({ workdir: `${project.project}/link` }),
    project.run({ task: "huge.md" }),
    project.run({ task: "x", cwd: `${project.project}/blocked` }),
  ]);
  for (const run of runs) {
    assert.equal(run.stdout, "status:  failed\n");
    assert.match(run.stderr, /^error\[E-IO-003\]: cannot |^error\[E-IO-003\]: .*larger than/);
  }
  assert.deepEqual(await names(`${project.murmur}/sessions`), []);
  await assert.rejects(Deno.stat(`${project.project}/murmur.lock`), Deno.errors.NotFound);
});

Deno.test("a closed stdout changes neither the session nor its status, and what it refused is kept", async () => {
  await using project = await agentProject(capsule());
  const child = spawnMur(["run", "--task", '{"turns":[{"delayMs":300,"text":"done"}]}'], {
    cwd: project.project,
    home: project.home,
  });
  await child.stdout.cancel();
  await child.stderr.cancel();
  const { code } = await child.status;
  assert.equal(code, 0);
  const [session] = await names(`${project.murmur}/records${project.project}/workdir`);
  const records = `${project.murmur}/records${project.project}/workdir/${session}`;
  assert.equal(await Deno.readTextFile(`${records}/out/result.txt`), "done");
  assert.match(await Deno.readTextFile(`${records}/logs/bootstrap.log`), /status: {2}ok/);
});

const scriptPresent = await new Deno.Command("script", { args: ["--version"], stdout: "null", stderr: "null" }).output()
  .then(({ success }) => success, () => false);

Deno.test({
  name: "on a terminal the text is shown as it streams, its control characters escaped",
  ignore: !scriptPresent,
  async fn() {
    await using project = await agentProject(capsule());
    const onTerminal = async (args: readonly string[]) => {
      const command = murCommand(args).map((word) => `'${word.replaceAll("'", "'\\''")}'`).join(" ");
      const { code, stdout } = await new Deno.Command("script", {
        args: ["-qec", `${command} 2>'${project.root}/stderr'`, "/dev/null"],
        cwd: project.project,
        clearEnv: true,
        env: murEnvironment({ home: project.home }),
        stdin: "null",
      }).output();
      return { code, text: new TextDecoder().decode(stdout).replaceAll("\r\n", "\n") };
    };
    const program = (turn: unknown) => JSON.stringify({ turns: [turn] });
    const streamed = await onTerminal([
      "run",
      "--task",
      program({ chunks: ["one ", "\u001b]0;title\u0007two"], text: "one two" }),
    ]);
    assert.equal(streamed.code, 0);
    assert.match(streamed.text, /session: ses_[0-9a-f]{32}\none \\x1b\]0;title\\x07two\nstatus: {2}ok\n$/);
    const whole = await onTerminal(["run", "--task", program({ text: "whole answer" })]);
    assert.match(whole.text, /session: ses_[0-9a-f]{32}\nwhole answer\nstatus: {2}ok\n$/);
    const json = await onTerminal(["run", "--json", "--task", program({ chunks: ["one"], text: "one" })]);
    assert.equal(json.text.trim().split("\n").length, 1);
  },
});

Deno.test("tokens of an authenticated door stand on the readiness line when asked for, and in no log", async () => {
  const authentication = { scheme: "bearer", credentials: { reader: { scopes: ["GetTask"] } } };
  await using project = await agentProject(capsule({ network: { authentication } }));
  const asked = await project.run({ task: "x", args: ["--json", "--readiness-tokens"] });
  const { tokens } = JSON.parse(asked.stdout.split("\n")[0]!);
  assert.deepEqual(Object.keys(tokens), ["operator", "reader"]);
  for (const token of Object.values<string>(tokens)) assert.match(token, /^mdt1\./);
  const plain = await project.run({ task: "x", args: ["--json"] });
  assert.ok(!("tokens" in JSON.parse(plain.stdout.split("\n")[0]!)));
  // A reader that went away: the line is lost, not kept.
  const closed = spawnMur(["run", "--json", "--readiness-tokens", "--task", "x"], {
    cwd: project.project,
    home: project.home,
  });
  await closed.stdout.cancel();
  await closed.stderr.cancel();
  assert.equal((await closed.status).code, 0);
  const kept = await new Deno.Command("grep", { args: ["-rl", "mdt1", `${project.murmur}/records`] }).output();
  assert.equal(new TextDecoder().decode(kept.stdout), "");
});

Deno.test("an answer is told from what a run leaves: records of two runs stand side by side", async () => {
  await using project = await agentProject(capsule());
  const runs: AgentRun[] = [await project.run({ task: "a" }), await project.run({ task: "b" })];
  assert.deepEqual(runs.map(({ result }) => result), ["you said: a", "you said: b"]);
  assert.deepEqual(
    await names(`${project.murmur}/records${project.project}/workdir`),
    runs.map(({ sessionId }) => sessionId).sort(),
  );
  const lock = await project.read("murmur.lock");
  assert.match(lock, /^lock_version: 2\n/);
  assert.match(
    lock,
    /name: program-driver\n {4}resolved_version: 1\.0\.0\n {4}sha256:\n {6}any: [0-9a-f]{64}\n {4}origin: operator\n/,
  );
});
