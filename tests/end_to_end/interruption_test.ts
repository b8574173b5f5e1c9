/**
 * Runs that are ended from outside: killed outright, wound down, cut short; and what a later launch makes of one that was
 * killed (spec session 16.3, 17, cli 12.5).
 *
 * @module
 */
import type { JsonObject } from "../../base/json_value.ts";
import assert from "node:assert/strict";
import { type AgentProject, agentProject, type AgentRun, capsule, toolEntry } from "../support/agent_project.ts";
import { processesBelow, type SeenProcess, stillRunning, until } from "../support/process_tree.ts";
import { startRun } from "../support/serving_run.ts";

const MAIN_WITH_PATIENT_DOOR = new URL("../support/mur_with_patient_door.ts", import.meta.url).pathname;

const sh = (command: string): JsonObject => ({ calls: [{ name: "sh", input: { command } }] });
const shell = { capabilities: { shell: { allow: ["sh", "sleep", "setsid"] } }, lifecycle: { shell_grace_secs: 60 } };
const pause = (milliseconds: number) => new Promise((resolve) => setTimeout(resolve, milliseconds));

/** Kills a run outright when something below it satisfies a condition, and checks that all of it ends. */
async function killOutright(
  manifest: JsonObject,
  task: JsonObject,
  busy: (below: readonly SeenProcess[], project: AgentProject) => boolean,
  signal: Deno.Signal = "SIGKILL",
): Promise<void> {
  await using project = await agentProject(manifest);
  const run = await startRun(project, task);
  let below: readonly SeenProcess[] = [];
  await until("the run is busy", () => busy(below = processesBelow(run.pid), project));
  assert.ok(below.length > 0);
  run.kill(signal);
  const ended = await run.finish();
  assert.equal(ended.signal, signal);
  await pause(1_000);
  assert.deepEqual(stillRunning(below), []);
  assert.equal(ended.events("session_end").length, 0);
}

Deno.test("nothing outlives a runtime that is killed: neither a spinning guest nor commands and what they started", async () => {
  const exists = (path: string) => {
    try {
      return Deno.statSync(path).size > 0;
    } catch {
      return false;
    }
  };
  const started = (name: string) => (_: unknown, project: AgentProject) =>
    [...Deno.readDirSync(`${project.project}/workdir`)].some((session) =>
      exists(`${project.project}/workdir/${session.name}/${name}`)
    );
  let looked = 0;
  await Promise.all([
    // A guest that spins shows nothing; a moment after the door serves it does.
    killOutright(capsule(), { turns: [{ loop: true }] }, () => looked++ > 50),
    killOutright(
      capsule(shell),
      {
        turns: [
          sh(
            "(setsid sh -c 'while :; do sleep 0.05; done' >/dev/null 2>&1 &) ; echo $$ > started; while :; do :; done",
          ),
        ],
      },
      started("started"),
    ),
    killOutright(
      capsule({ artifacts: [toolEntry("native-probe")] }),
      { turns: [{ calls: [{ name: "native-probe", input: { script: "echo x > started; while :; do :; done" } }] }] },
      started("started"),
    ),
  ]);
  await killOutright(
    capsule({ ...shell, lifecycle: { shell_grace_secs: 0 } }),
    { turns: [sh("echo x > started; sleep 300"), { delayMs: 60_000 }] },
    started("started"),
    "SIGINT",
  );
});

function checkWoundDown(run: AgentRun, status: string, exit: number): void {
  assert.equal(run.status, exit, run.stderr);
  assert.match(run.stdout, new RegExp(`\\nstatus: {2}${status}\\n$`));
  assert.equal(run.events("session_end")[0]?.exit_status, status);
  assert.equal(run.trace.at(-1)!.event_type, "session_end");
}

async function assertCleanedUp(project: AgentProject): Promise<void> {
  for (const name of ["sessions", "running"]) {
    assert.deepEqual(await Array.fromAsync(Deno.readDir(`${project.murmur}/${name}`)), [], name);
  }
}

Deno.test("the first SIGTERM winds the session down: the task is canceled, the trace is finished", async () => {
  const cases: readonly [JsonObject, JsonObject, string, string | null][] = [
    [capsule(), { turns: [{ delayMs: 60_000, text: "never" }] }, "inference", null],
    [capsule(), { turns: [{ loop: true }] }, "inference", null],
    [capsule(shell), { turns: [sh("sleep 60"), { text: "never" }] }, "turn", "inference"],
    [
      capsule({ artifacts: [toolEntry("probe-tool")] }),
      { turns: [{ calls: [{ name: "probe-tool", input: { operation: "loop" } }] }] },
      "turn",
      "inference",
    ],
  ];
  const cancel = async ([manifest, task, phase, after]: (typeof cases)[number]) => {
    await using project = await agentProject(manifest);
    const run = await startRun(project, task);
    await run.traced(after ?? "task_start");
    await pause(300);
    const below = processesBelow(run.pid);
    const at = performance.now();
    run.kill("SIGTERM");
    const ended = await run.finish();
    assert.ok(performance.now() - at < 5_000);
    checkWoundDown(ended, "canceled", 1);
    assert.match(ended.stderr, /^error\[E-RUN-040\]: .*canceled/m);
    assert.equal(ended.result, "the task was canceled");
    const [canceled] = ended.events("task_canceled");
    assert.deepEqual([canceled!.phase, canceled!.turn, canceled!.delegation_ids], [phase, 0, []]);
    assert.equal(ended.events("task_end")[0]!.exit_status, "canceled");
    assert.equal(ended.events("task_failed").length, 0);
    await assertCleanedUp(project);
    await pause(200);
    assert.deepEqual(stillRunning(below), []);
  };
  await Promise.all(cases.slice(0, 2).map(cancel));
  await Promise.all(cases.slice(2).map(cancel));
});

Deno.test("a session that is stopped while idle ends well; until then its door shows its card", async () => {
  await using project = await agentProject(capsule({ lifecycle: { task_acceptance: "single" } }));
  const run = await startRun(project, null);
  const at = `http://127.0.0.1:${run.url.split(":")[1]}/.well-known/agent-card.json`;
  const card = await (await fetch(at)).json();
  assert.equal(card.name, "probe");
  assert.ok(JSON.stringify(card).includes(run.records.split("/").at(-1)!));
  // A web page that made a name lead here is not answered.
  using page = await Deno.connect({ hostname: "127.0.0.1", port: Number(run.url.split(":")[1]) });
  await page.write(
    new TextEncoder().encode(
      "GET /.well-known/agent-card.json HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n",
    ),
  );
  const refused = await new Response(page.readable).text();
  assert.match(refused, /^HTTP\/1\.1 403/);
  assert.ok(!refused.includes('"probe"'));
  run.kill("SIGTERM");
  const ended = await run.finish();
  checkWoundDown(ended, "ok", 0);
  assert.deepEqual(ended.trace.map(({ event_type }) => event_type), ["session_start", "session_end"]);
  await assertCleanedUp(project);
});

Deno.test("a second SIGTERM ends it at once", async () => {
  await using project = await agentProject(capsule({ lifecycle: { task_acceptance: "single" } }));
  const run = await startRun(project, null, [], { main: MAIN_WITH_PATIENT_DOOR });
  // A request that somebody still sends keeps the door open for its bound.
  const [hostname, port] = run.url.split(":");
  using connection = await Deno.connect({ hostname: hostname!.replace("localhost", "127.0.0.1"), port: Number(port) });
  const half = "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 10\r\n" +
    "Expect: 100-continue\r\n\r\n{";
  await connection.write(new TextEncoder().encode(half));
  // The door says so when it begins to wait for the rest.
  const answer = new Uint8Array(100);
  assert.match(new TextDecoder().decode(answer.subarray(0, (await connection.read(answer))!)), /^HTTP\/1\.1 100 /);
  const at = performance.now();
  let over = false;
  const finished = run.finish().finally(() => over = true);
  // Those that come before the process looked are one to it.
  while (!over && performance.now() - at < 10_000) {
    try {
      run.kill("SIGTERM");
    } catch {
      // It has just ended.
    }
    await pause(100);
  }
  const { status } = await finished;
  // Neither the door's bound nor that of the teardown has passed.
  assert.ok(performance.now() - at < 15_000);
  assert.equal(status, 143);
});

Deno.test("commands that a killed session lost are reported once by the launch that resumes it", async () => {
  await using project = await agentProject(capsule({ ...shell, lifecycle: { shell_grace_secs: 0 } }));
  const killed = await startRun(project, { turns: [sh("sleep 300"), sh("sleep 301"), { delayMs: 60_000 }] });
  await until(
    "both commands are in the background",
    async () => (await Deno.readTextFile(`${killed.records}/trace.jsonl`)).split('"shell_detached"').length === 3,
  );
  killed.kill("SIGKILL");
  const old = await killed.finish();
  const lost = old.events("shell_detached").map(({ work_id }) => work_id);
  const resumed = await project.run({ task: "go on", args: ["--resume", old.sessionId!] });
  assert.equal(resumed.status, 0, resumed.stderr);
  const [own, report] = resumed.events("task_start");
  assert.equal(own!.source, "task_md");
  assert.deepEqual([report!.source, report!.origin, report!.trust, report!.lane], [
    "detached_lost",
    "completion",
    "untrusted",
    "bg",
  ]);
  const record =
    (await Deno.readTextFile(`${project.murmur}/conversations/probe/${own!.context_id}/conversation.jsonl`))
      .split("\n").filter((line) =>
        line.startsWith('{"role":"user"') && line.includes("<untrusted-content source=task:completion>")
      );
  assert.equal(record.length, 1);
  for (const id of lost) assert.ok(record[0]!.includes(String(id)));
  const marked = (await project.recordOf(old)).events("shell_lost");
  assert.deepEqual(marked.map((line) => [line.work_id, line.reconciled_by_session, line.reconciled_task_id]), [
    [lost[0], resumed.sessionId, report!.task_id],
    [lost[1], resumed.sessionId, report!.task_id],
  ]);
  const again = await project.run({ task: "and on", args: ["--resume", old.sessionId!] });
  assert.equal(again.status, 0, again.stderr);
  assert.equal(again.events("task_start").length, 1);
  // The dead session's scratch directory went with a later launch.
  await assertCleanedUp(project).catch(async () => {
    const left = await Array.fromAsync(Deno.readDir(`${project.murmur}/running`));
    assert.deepEqual(left.map(({ name }) => name), [`${old.sessionId}.json`]);
  });
});
