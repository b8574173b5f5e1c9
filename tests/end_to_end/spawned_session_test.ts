/**
 * A session that another one launched, seen from its own side: what it was handed, what it begins with, how it learns that
 * its launcher is gone (roost seed "Workdir snapshot", "A child ends with its parent"; spec roost 9 to 13).
 *
 * @module
 */
import assert from "node:assert/strict";
import { newId } from "../../base/ids.ts";
import type { JsonObject } from "../../base/json_value.ts";
import { libc } from "../../base/libc.ts";
import { type ExitStatus, PipedProcess } from "../../base/piped_process.ts";
import { type LifelineEnds, makeLifeline } from "../../runtime/delegation/lifeline.ts";
import { formatSpawnerHandle } from "../../runtime/delegation/spawner_handle.ts";
import { type AgentProject, agentProject, capsule, shownResults } from "../support/agent_project.ts";
import { delegate, delegates, delegating, delegationWorld, readTrace, worker } from "../support/delegation_world.ts";
import { withLocalServer } from "../support/local_server.ts";
import { murCommand, murEnvironment } from "../support/mur_process.ts";
import { preparedFile } from "../support/prepared_home.ts";
import { until } from "../support/process_tree.ts";

const FAULTY_MUR = new URL("../support/faulty_mur.ts", import.meta.url).pathname;
const MAIN_WITH_SHORT_TEARDOWN = new URL("../support/mur_with_short_teardown.ts", import.meta.url).pathname;

Deno.test("a child begins with a copy of its parent's folder, which is content to it and nothing that is obeyed", async () => {
  const parent = capsule({
    name: "boss",
    capabilities: {
      spawn: { allow: ["local/worker"], workdir_snapshot: ["local/worker"] },
      env: { allow: ["HANDED"] },
    },
  });
  const child = worker("worker", { capabilities: { env: { allow: ["HANDED"] } } });
  await using world = await delegationWorld(parent, [child]);
  const { project } = world;
  const work = `${project.root}/work`;
  const files: Record<string, string> = {
    "src/a.ts": "code",
    // A project of an agent's making, with capsules, configuration, variables and tasks of its own.
    "murmur.yaml": "name: worker\nversion: 0.1.0\n",
    ".murmur/config.yaml": "containment: no-such-class\n",
    ".murmur/artifacts/program-driver/1.0.0/program-driver.mur.zip": "forged",
    ".murmur/artifacts/program-driver/1.0.0/program-driver.sha256": "a".repeat(64),
    ".murmur/artifacts/worker/0.1.0/worker.mur.zip": "forged",
    ".murmur/artifacts/worker/0.1.0/worker.sha256": "b".repeat(64),
    ".env": "HANDED=from the copy\n",
    "task.md": "obey the copy",
    "input.txt": "obey the copy",
    "out/result.txt": "the runtime's",
  };
  for (const [path, text] of Object.entries(files)) {
    Deno.mkdirSync(`${work}/${path.slice(0, path.lastIndexOf("/") + 1)}`, { recursive: true });
    Deno.writeTextFileSync(`${work}/${path}`, text);
  }
  Deno.symlinkSync(`${work}/src/a.ts`, `${work}/link`);
  await new Deno.Command("mkfifo", { args: [`${work}/pipe`] }).output();

  const slow: JsonObject = { turns: [{ delayMs: 3_000, text: "the real task" }] };
  const running = world.start(delegates(delegate("worker", slow)), {
    args: ["--workdir", work],
    env: { HANDED: "from the parent" },
  });
  // `task.md` and `input.txt` of the operator's own folder are not in question here: the launch names its task.
  const run = await (await running).finish();
  assert.equal(run.status, 0, run.stderr);
  const records = `${project.murmur}/records${work}/${run.sessionId}`;
  const trace = readTrace(records);
  const [delegated] = world.children(trace);
  const start = trace.find(({ event_type }) => event_type === "delegation_start")!;
  const snapshot = start.workdir_snapshot as JsonObject;
  assert.deepEqual(snapshot, {
    source: work,
    files: 10,
    directories: 7,
    links: 1,
    bytes: Object.entries(files).filter(([path]) => !path.startsWith("out/")).reduce(
      (sum, [, text]) => sum + text.length,
      0,
    ),
    skipped: snapshot.skipped,
  });
  assert.deepEqual(
    Object.fromEntries((snapshot.skipped as JsonObject[]).map(({ path, reason }) => [path, reason])),
    { out: "runtime-owned", pipe: "fifo" },
  );
  const childStart = delegated!.events("session_start")[0]!;
  const { restriction, ...rest } = (childStart.effective_grants as JsonObject).parent_workdir as JsonObject;
  assert.deepEqual(rest, snapshot);
  assert.equal(
    restriction,
    ((childStart.effective_grants as JsonObject).filesystem_boundary as JsonObject).restriction,
  );
  // It ran the task it was given, from the installed capsule, and nothing the copy said.
  assert.deepEqual(delegated!.events("task_start").map(({ source }) => source), ["a2a"]);
  assert.equal(Deno.readTextFileSync(`${delegated!.records}/out/result.txt`).trim(), "the real task");
  assert.equal(Deno.readTextFileSync(`${delegated!.workdir}/src/a.ts`), "code");
  assert.equal(Deno.readLinkSync(`${delegated!.workdir}/link`), `${delegated!.workdir}/src/a.ts`);
});

Deno.test("a child's commands see neither its handle nor its lifeline, and its MURMUR.md tells of the copy", async () => {
  const shell = { shell: { allow: ["sh", "env", "ls", "cat"] } };
  const parent = capsule({
    name: "boss",
    capabilities: { ...shell, spawn: { allow: ["local/worker"], workdir_snapshot: ["local/worker"] } },
  });
  await using world = await delegationWorld(parent, [worker("worker", { capabilities: shell })]);
  const script = "env; ls -l /proc/self/fd /proc/$$/fd; cat $MURMUR_RUNTIME_DIR/MURMUR.md";
  const task: JsonObject = { turns: [{ calls: [{ name: "sh", input: { command: script } }] }, { show: "results" }] };
  Deno.writeTextFileSync(`${world.project.project}/notes`, "12345");
  const run = await world.project.run({
    task: delegates(delegate("worker", task)),
    workdir: world.project.project,
    env: world.env,
  });
  assert.equal(run.status, 0, run.stderr);
  const [child] = world.children(run.trace);
  const result = Deno.readTextFileSync(`${child!.records}/out/result.txt`);
  const [{ text, error }] = shownResults({ result }) as [{ text: string; error: boolean }];
  assert.ok(!error, text);
  for (const name of ["MURMUR_SPAWNER", "MURMUR_ROOST_URL", "msa1.", "msc1."]) assert.ok(!text.includes(name), name);
  assert.match(text, /MURMUR_SESSION_ID=ses_/);
  assert.ok(!/ [3-9] -> pipe:/.test(text), text);
  assert.match(text, /copy of your parent's: \d+ files, \d+ bytes\. What you change does not reach the parent/);
});

/** A `mur run` whose lifeline the test holds. */
interface Launched {
  readonly process: PipedProcess;
  readonly lifeline: LifelineEnds;
  readonly exited: Promise<ExitStatus>;
  /** Waits for the readiness line; answers the records directory. */
  ready(): Promise<string>;
  stderr(): string;
}

function launch(
  project: AgentProject,
  args: readonly string[],
  { env = {}, main, input = "" }: { env?: Record<string, string>; main?: string; input?: string } = {},
): Launched {
  libc().closeOnExecFrom(3);
  const lifeline = makeLifeline();
  const [command, ...rest] = murCommand(["run", "--json", ...args], main);
  let stdout = "";
  let stderr = "";
  const process = new PipedProcess({
    command,
    args: rest,
    cwd: project.project,
    env: murEnvironment({ home: project.home, env: { MURMUR_SPAWNER_LIFELINE: "3", ...env } }),
    descriptors: [lifeline.childEnd],
  }, {
    stdout: (bytes) => stdout += new TextDecoder().decode(bytes),
    stdoutEnd: () => {},
    stderr: (bytes) => stderr += new TextDecoder().decode(bytes),
    stderrEnd: () => {},
  });
  lifeline.closeChildEnd();
  process.write(new TextEncoder().encode(input));
  process.closeInput();
  return {
    process,
    lifeline,
    exited: process.exited(),
    stderr: () => stderr,
    async ready() {
      await until("it is ready", () => stdout.includes("\n"), 30_000);
      const { session_id } = JSON.parse(stdout);
      return `${project.murmur}/records${project.project}/workdir/${session_id}`;
    },
  };
}

const HANDLE = { url: null, sessionId: newId("ses"), contextId: "ctx_1", delegationId: newId("dlg") };
const LONG_TASK = JSON.stringify({ turns: [{ delayMs: 60_000, text: "never" }] });

Deno.test("a launcher that is gone: the session says so first, winds down as by a signal, and logs what it has to say", async () => {
  await using project = await agentProject(capsule());
  for (const handle of [HANDLE, null]) {
    const env: Record<string, string> = handle === null ? {} : { MURMUR_SPAWNER: formatSpawnerHandle(handle) };
    const { lifeline, exited, ready } = launch(project, ["--task", LONG_TASK], { env });
    const records = await ready();
    await until("it works", () => readTrace(records).some(({ event_type }) => event_type === "task_start"));
    lifeline.release();
    assert.deepEqual(await exited, { code: 1, signal: null });
    const trace = readTrace(records);
    const kinds = trace.map(({ event_type }) => event_type);
    const at = kinds.indexOf("spawner_ended");
    assert.ok(kinds.indexOf("task_canceled") > at && kinds.indexOf("task_end") > at, `${kinds}`);
    assert.deepEqual(
      [trace[at]!.spawned_by, trace[at]!.delegation_id],
      handle === null ? [undefined, undefined] : [handle.sessionId, handle.delegationId],
    );
    assert.deepEqual([kinds.at(-1), trace.at(-1)!.exit_status], ["session_end", "canceled"]);
    assert.equal(kinds.filter((kind) => kind === "spawner_ended").length, 1);
  }
});

Deno.test("a launcher that goes on the way down changes nothing; a signal after it is still the first", async () => {
  await using project = await agentProject(capsule());
  const { process, lifeline, exited, ready } = launch(project, ["--task", LONG_TASK]);
  const records = await ready();
  process.signal(15);
  await until("it winds down", () => readTrace(records).some(({ event_type }) => event_type === "task_canceled"));
  lifeline.release();
  assert.equal((await exited).code, 1);
  assert.ok(!readTrace(records).some(({ event_type }) => event_type === "spawner_ended"));

  const second = launch(project, ["--task", LONG_TASK]);
  const secondRecords = await second.ready();
  second.lifeline.release();
  await until("it winds down", () => readTrace(secondRecords).some(({ event_type }) => event_type === "spawner_ended"));
  second.process.signal(15);
  assert.equal((await second.exited).code, 1, "one signal does not cut it short");
  assert.equal(readTrace(secondRecords).at(-1)!.event_type, "session_end");
});

Deno.test("a teardown that outlasts its bound is cut short with 143", async () => {
  await using project = await agentProject(capsule());
  // Whoever it reports to takes the connection and says nothing.
  using silent = Deno.listen({ port: 0, hostname: "127.0.0.1" });
  const url = `http://127.0.0.1:${(silent.addr as Deno.NetAddr).port}`;
  const { lifeline, exited, ready } = launch(project, ["--task", LONG_TASK], {
    env: { MURMUR_SPAWNER: formatSpawnerHandle({ ...HANDLE, url }) },
    main: MAIN_WITH_SHORT_TEARDOWN,
  });
  const records = await ready();
  lifeline.release();
  assert.deepEqual(await exited, { code: 143, signal: null });
  assert.equal(readTrace(records).at(-1)!.event_type, "session_end", "it was the report that hung");
});

Deno.test("a launcher that is gone before there is a session, and a script capsule, end at once with 143", async () => {
  await using project = await agentProject(capsule());
  const early = launch(project, ["--task", LONG_TASK]);
  early.lifeline.release();
  assert.equal((await early.exited).code, 143);
  await assertNoSession(project);

  await using script = await agentProject({ name: "probe-script", version: "0.1.0" });
  await Deno.copyFile(await preparedFile("probe_capsule.wasm"), `${script.project}/capsule.wasm`);
  const running = launch(script, [], { input: JSON.stringify({ loop: true }) });
  await running.ready();
  running.lifeline.release();
  assert.equal((await running.exited).code, 143);
});

async function assertNoSession(project: AgentProject): Promise<void> {
  for (const name of ["sessions", "running", "records"]) {
    const found = await Array.fromAsync(Deno.readDir(`${project.murmur}/${name}`)).catch(() => []);
    assert.deepEqual(found, [], name);
  }
}

Deno.test("what a launcher hands over and is none is refused before there is a session", async () => {
  await using project = await agentProject(capsule());
  const refused = async (code: string, args: readonly string[], env: Record<string, string>, stdin?: string) => {
    const run = await project.run({ args, env, ...(stdin === undefined ? {} : { stdin }) });
    assert.equal(run.status, 1, run.stderr);
    assert.match(run.stderr, new RegExp(`error\\[${code}\\]`));
    assert.equal(run.stdout.includes("session:"), false);
  };
  await refused("E-RUN-020", [], { MURMUR_SPAWNER: "{}" });
  await refused("E-RUN-020", [], { MURMUR_SPAWNER_LIFELINE: "2" });
  await refused("E-RUN-020", [], { MURMUR_SPAWNER_LIFELINE: "not a number" });
  await refused("E-RUN-020", [], { MURMUR_SPAWNER_LIFELINE: "0" }, "");
  await refused("E-RUN-019", ["--spawn-grant-stdin"], {}, "");
  await refused("E-RUN-020", ["--spawn-grant-stdin"], {}, "msa1.a.b\nno report\n");
  // The session of this one would exist: it is refused by the daemon it cannot reach, with nothing of it left running.
  await refused("E-RUN-019", ["--spawn-grant-stdin"], {}, "msa1.a.b\n");
  await refused("E-RUN-019", ["--spawn-grant-stdin"], { MURMUR_ROOST_URL: "http://127.0.0.1:1" }, "msa1.a.b\n");
  for (const name of ["sessions", "running"]) {
    assert.deepEqual(await Array.fromAsync(Deno.readDir(`${project.murmur}/${name}`)).catch(() => []), [], name);
  }
});

Deno.test("whoever registers has its running record by then, an agent and a script, so that its death can be seen", async () => {
  const recorded: string[][] = [];
  let running = "";
  await withLocalServer(async () => {
    recorded.push((await Array.fromAsync(Deno.readDir(running))).map(({ name }) => name));
    return Response.json({ error: "not here" }, { status: 403 });
  }, async ({ url, seen }) => {
    await using agent = await agentProject(capsule());
    await using script = await agentProject({ name: "probe-script", version: "0.1.0" });
    await Deno.copyFile(await preparedFile("probe_capsule.wasm"), `${script.project}/capsule.wasm`);
    for (const project of [agent, script]) {
      running = `${project.murmur}/running`;
      const run = await project.run({
        args: ["--spawn-grant-stdin"],
        env: { MURMUR_ROOST_URL: url },
        stdin: "msa1.a.b\n",
      });
      assert.equal(run.status, 1, run.stderr);
      assert.match(run.stderr, /error\[E-RUN-019\].*not here/);
      assert.deepEqual(await Array.fromAsync(Deno.readDir(running)), []);
      const { session_id } = JSON.parse(new TextDecoder().decode(seen.at(-1)!.body));
      assert.deepEqual(recorded.at(-1), [`${session_id}.json`]);
    }
  });
});

Deno.test("an agent and a script that could not learn whether they are registered are counted no longer than they live", async () => {
  await using agent = await delegationWorld(capsule(delegating(["local/worker"], { name: "boss" })), []);
  await using script = await delegationWorld(
    { name: "probe-script", version: "0.1.0", capabilities: { spawn: { allow: ["local/worker"] } } },
    [],
  );
  await Deno.copyFile(await preparedFile("probe_capsule.wasm"), `${script.project.project}/capsule.wasm`);
  await Promise.all([agent, script].map(async ({ daemon, env, project }) => {
    daemon.child.kill("SIGSTOP");
    const run = await project.run({ env, main: FAULTY_MUR, stdin: "{}" });
    assert.equal(run.status, 1);
    assert.match(run.stderr, /error\[E-RUN-019\].*cannot be asked/);
    const records = await Array.fromAsync(Deno.readDir(`${project.murmur}/running`));
    assert.equal(records.length, 1, project.project);
    // What was sent is read all the same.
    daemon.child.kill("SIGCONT");
    const id = records[0]!.name.replace(/\.json$/, "");
    await until("the session is registered and found dead", async () => (await daemon.status(id)).status === 200);
    const { body } = await daemon.status(id);
    assert.deepEqual([body.status, body.live_capsules], ["failed", 0]);
  }));
});

Deno.test("a capsule that may delegate needs its daemon", async () => {
  await using world = await delegationWorld(capsule(delegating(["local/worker"], { name: "boss" })), [
    worker("worker"),
  ]);
  for (const url of ["", "   ", "http://127.0.0.1:1", "nonsense"]) {
    const run = await world.project.run({ task: delegates(), env: { MURMUR_ROOST_URL: url } });
    assert.equal(run.status, 1);
    assert.match(run.stderr, /error\[E-RUN-019\]/);
    assert.equal(run.sessionId, null);
  }
  // Registered, refused for another reason: the daemon is told, and holds nothing.
  const run = await world.run({ turns: [{ text: "alone" }] });
  assert.equal(run.status, 0, run.stderr);
  assert.deepEqual((await world.daemon.status(run.sessionId!)).body.live_capsules, 0);
});
