import assert from "node:assert/strict";
import { launchCapsule, MurError, type RunningCapsule } from "../../mod.ts";
import { canMount } from "../support/own_mounts.ts";
import { type AgentProject, agentProject, capsule, toolEntry } from "../support/agent_project.ts";

const SERVING = capsule({
  artifacts: [toolEntry("murmur-tool-request-input", { version: "0.1.0" })],
  lifecycle: { task_acceptance: "queue", after_task: "sleep", queue_depth: 4 },
  capabilities: { shell: { allow: ["sh"] } },
});

function launch(project: AgentProject, more: Parameters<typeof launchCapsule>[0] = {}): Promise<RunningCapsule> {
  return launchCapsule({
    cwd: project.project,
    home: project.home,
    env: { PATH: Deno.env.get("PATH") ?? "", HOME: project.home },
    ...more,
  });
}

const program = (...turns: readonly unknown[]) => JSON.stringify({ turns });

Deno.test("a program starts a capsule, follows its tasks by typed events, and stops it", async () => {
  await using project = await agentProject(SERVING);
  const session = await launch(project);
  const seen: string[] = [];
  const all = (async () => {
    for await (const event of session.events) seen.push(event.type);
  })();
  const task = session.send(program({ chunks: ["Hel", "lo"], text: "Hello" }));
  const events = [];
  for await (const event of task.events) {
    if (event.type === "gap") assert.fail("nothing is lost");
    events.push(event.type === "status" ? `${event.state} ${event.message}` : event.type === "text" ? event.text : "?");
  }
  assert.deepEqual(events, ["working inference turn 1", "Hel", "lo", "", "completed session ended"]);
  assert.deepEqual(await task.result, { state: "completed", message: "session ended", response: "Hello" });

  const other = session.send(
    program({ calls: [{ name: "sh", input: { command: "echo seen" } }] }, { show: "results" }),
  );
  assert.match((await other.result).response ?? "", /seen/);

  const outcome = await session.stop();
  assert.equal(outcome.status, "ok");
  await all;
  assert.ok(seen.includes("artifact"));
  const trace = await Deno.readTextFile(`${session.recordsDir}/trace.jsonl`);
  const lines = trace.trimEnd().split("\n").map((line) => JSON.parse(line));
  assert.deepEqual(
    lines.filter(({ event_type }) => event_type === "task_start").map(({ origin, trust }) => [origin, trust]),
    [
      ["user", "trusted"],
      ["user", "trusted"],
    ],
  );
  assert.equal(lines.at(-1).event_type, "session_end");
});

Deno.test("a question is answered, a running task and a waiting one are canceled, a full queue refuses", async () => {
  await using project = await agentProject(SERVING);
  await using session = await launch(project);
  const asking = session.send(
    program({ calls: [{ name: "murmur-tool-request-input", input: { prompt: "which?" } }] }, { show: "results" }),
  );
  assert.equal(asking.reply("too early"), false);
  for await (const event of asking.events) {
    if (event.type === "status" && event.state === "input-required") assert.ok(asking.reply("the red one"));
  }
  assert.match((await asking.result).response ?? "", /the red one/);

  const slow = session.send(program({ delayMs: 60_000, text: "never" }));
  for await (const event of slow.events) if (event.type === "status") break;
  const waiting = [1, 2, 3, 4].map(() => session.send("x"));
  const refused = session.send("one too many");
  assert.deepEqual(await refused.result, {
    state: "rejected",
    message: "task rejected: capsule is busy",
    response: null,
  });
  for (const task of waiting) assert.ok(task.cancel());
  assert.equal((await waiting[0]!.result).message, "task canceled before it started");
  assert.ok(slow.cancel());
  assert.deepEqual(await slow.result, { state: "canceled", message: "task canceled", response: null });
  assert.equal(slow.cancel(), false);
  assert.equal((await session.send("still here").result).response, "you said: still here");
});

Deno.test("a refused launch is thrown with its code, and nothing is left", async () => {
  await using project = await agentProject(SERVING);
  await assert.rejects(
    launch(project, { manifest: "missing.yaml" }),
    (error) => error instanceof MurError && error.code === "E-IO-001",
  );
  await project.write(
    "open.yaml",
    JSON.stringify({ ...SERVING, capabilities: { shell: { allow: ["sh"] }, filesystem: { workdir_exec: true } } }),
  );
  await assert.rejects(
    launch(project, { manifest: "open.yaml", containment: "sealed" }),
    (error) => error instanceof MurError && error.code === "E-CAP-003",
  );
});

Deno.test("a capsule that cannot go on leaves nobody who follows it waiting", { ignore: !canMount() }, async () => {
  await using project = await agentProject(SERVING);
  await Deno.mkdir(`${project.murmur}/records`, { mode: 0o700 });
  const turns = Array(40).fill({ calls: Array(20).fill({ name: "no-such-tool" }) });
  const run = await project.mur([program(...turns)], {
    main: new URL("../support/embedding_program.ts", import.meta.url).pathname,
    mounts: [{ at: `${project.murmur}/records`, kilobytes: 128 }],
  });
  assert.equal(run.status, 0, run.stderr);
  const { events, result, code, session, late } = JSON.parse(run.stdout);
  assert.equal(code, "E-RUN-007");
  assert.deepEqual(result, {
    state: "failed",
    message: "error[E-RUN-007]: trace write failed: cannot write trace.jsonl: no space is left",
    response: null,
  });
  assert.equal(events.at(-1), "status");
  assert.deepEqual(session, events);
  assert.deepEqual(late, []);
});

Deno.test("a capsule that ends by itself tells how", async () => {
  await using project = await agentProject(SERVING);
  const session = await launch(project, {
    task: program({ raw: "no JSON" }),
    taskAcceptance: "single",
    afterTask: "exit",
  });
  const outcome = await session.ended;
  assert.equal(outcome.status, "failed");
  assert.equal(session.send("late").id.startsWith("tsk_"), true);
  assert.equal((await session.send("late").result).message, "task rejected: the session is closing");
});
