/**
 * The commands for running capsules as programs, against real sessions: what one of them does, the others and the session
 * itself show.
 *
 * @module
 */
import assert from "node:assert/strict";
import { recordedProcess } from "../../base/write_running_record.ts";
import type { JsonObject } from "../../base/json_value.ts";
import { main } from "../../cli/main.ts";
import { type AgentProject, agentProject, capsule, toolEntry } from "../support/agent_project.ts";
import { testContext } from "../support/cli_context.ts";
import { type DoorSession, startSession } from "../support/door_session.ts";
import { spawnMur } from "../support/mur_process.ts";
import { until } from "../support/process_tree.ts";
import { startRun } from "../support/serving_run.ts";

const SERVES: JsonObject = { task_acceptance: "queue", after_task: "sleep", queue_depth: 4 };
const program = (...turns: JsonObject[]) => JSON.stringify({ turns });
const SLOW = program({ delayMs: 60_000, text: "never" });

async function withSession(
  work: (session: DoorSession, project: AgentProject) => Promise<void>,
  blocks: JsonObject = {},
): Promise<void> {
  await using project = await agentProject(capsule({
    artifacts: [toolEntry("murmur-tool-request-input", { version: "0.1.0" })],
    lifecycle: SERVES,
    ...blocks,
  }));
  await using session = await startSession(project);
  await work(session, project);
}

/** A `mur` that goes on while the test does. */
function background(project: AgentProject, args: readonly string[]) {
  const child = spawnMur(args, { cwd: project.project, home: project.home });
  let [out, err] = ["", ""];
  const keep = async (stream: ReadableStream<Uint8Array>, add: (text: string) => void) => {
    for await (const text of stream.pipeThrough(new TextDecoderStream())) add(text);
  };
  const kept = Promise.all([
    keep(child.stdout, (text) => out += text),
    keep(child.stderr, (text) => err += text),
  ]);
  return {
    kill: (signal: Deno.Signal) => child.kill(signal),
    out: () => out,
    err: () => err,
    said: (text: string) => until(`'${text}' from mur ${args.join(" ")}`, () => (out + err).includes(text)),
    async end() {
      const { code } = await child.status;
      await kept;
      return { status: code, out, err };
    },
  };
}

Deno.test("a session is listed, given a task, followed and stopped", () =>
  withSession(async (session, project) => {
    const record = JSON.parse(await Deno.readTextFile(`${project.murmur}/running/${session.sessionId}.json`));
    const { pid, process_start, process_instance } = record;
    assert.deepEqual({ pid, process_start, ...(process_instance ? { process_instance } : {}) }, recordedProcess(pid));
    const listed = await project.mur(["ps"]);
    assert.equal(listed.status, 0);
    assert.match(
      listed.stdout,
      new RegExp(`^${session.sessionId}  probe@0\\.1\\.0 +running +(yes|no) +00:00:\\d\\d `, "m"),
    );
    assert.equal(listed.stderr, "");

    const watching = background(project, ["watch"]);
    await watching.said("watching ses_");
    const sent = await project.mur(["send", "@1", program({ chunks: ["It ", "works"], text: "It works" })]);
    assert.deepEqual(sent, {
      status: 0,
      signal: null,
      stdout: "It works\n",
      stderr: "[working]  inference turn 1\n[completed]\n",
    });
    const quiet = await project.mur(["send", session.sessionId.slice(-6), "-"], {
      stdin: program({ text: "not streamed" }),
    });
    assert.equal(quiet.stdout, "not streamed\n");
    const json = await project.mur(["send", "@1", program({ text: "as data" }), "--json"]);
    const lines = json.stdout.trim().split("\n").map((line) => JSON.parse(line));
    assert.equal(lines.at(-1).task.artifacts[0].parts[0].text, "as data");
    assert.equal(json.stderr, "");

    const stopped = await project.mur(["stop", "@1"]);
    assert.equal(
      stopped.stdout,
      `stopped: ${session.sessionId}\ncapsule: probe@0.1.0\nsignal:  SIGTERM\nresidue: nothing else was left running\n`,
    );
    const watched = await watching.end();
    assert.equal(watched.status, 0, watched.err);
    assert.match(watched.out, /^\[working\] {2}inference turn 1\nIt works\n\[completed\]\n {2}It works\n/);
    assert.match(watched.out, / {2}as data\n$/);
    const run = await session.finish();
    assert.equal(run.status, 0);
    assert.equal(run.events("session_end").length, 1);
    assert.equal((await project.mur(["ps"])).stdout, "no running capsules\n");
  }));

Deno.test("a reply of many megabytes reaches whoever waits for it, whole and once", () =>
  withSession(async (_session, project) => {
    const letters = 9_000_000;
    const whole = await project.mur(["send", "@1", program({ letters })]);
    assert.equal(whole.stderr, "[working]  inference turn 1\n[completed]\n");
    assert.ok(whole.status === 0 && whole.stdout === `${"a".repeat(letters)}\n`, `${whole.stdout.length} characters`);
    const watched = await project.mur(["send", "@1", "--json", program({ letters })]);
    const lines = watched.stdout.trimEnd().split("\n");
    assert.ok(Math.max(...lines.slice(0, -1).map((line) => line.length)) < 4 << 20, "what the official client takes");
  }));

Deno.test("a question is answered by a second command", () =>
  withSession(async (_session, project) => {
    const asks = program({ calls: [{ name: "murmur-tool-request-input", input: { prompt: "Which one?" } }] }, {
      show: "results",
    });
    const asked = await project.mur(["send", "@1", asks]);
    assert.deepEqual([asked.status, asked.stdout], [0, "Which one?\n"]);
    const [, task] = /mur send ses_\w+ --task (tsk_\w+) /.exec(asked.stderr)!;
    const answered = await project.mur(["send", "@1", "--task", task!, "the second"]);
    assert.equal(answered.status, 0, answered.stderr);
    assert.match(answered.stdout, /the second/);
    const late = await project.mur(["send", "@1", "--task", task!, "again"]);
    assert.equal(late.status, 1);
    assert.match(late.stderr, new RegExp(`E-IO-003\\]: ses_\\w+ takes no message for task '${task}'`));
  }));

Deno.test("Ctrl-C leaves the task running; canceling it ends whoever follows it", () =>
  withSession(async (session, project) => {
    const first = background(project, ["send", "@1", SLOW]);
    await first.said("inference turn 1");
    first.kill("SIGINT");
    const left = await first.end();
    assert.equal(left.status, 130);
    const [, task] = new RegExp(`mur cancel ${session.sessionId} (tsk_\\w+)\n$`).exec(left.err)!;

    const waiting = background(project, ["send", "@1", program({ text: "second" })]);
    const canceled = await project.mur(["cancel", "@1", task!]);
    assert.deepEqual([canceled.status, canceled.stdout], [0, `task:    ${task}\nstate:   canceled\n`]);
    assert.equal((await project.mur(["cancel", "@1", task!])).stdout, `task:    ${task}\nstate:   canceled\n`);
    assert.deepEqual((await waiting.end()).out, "second\n", "the queue goes on");
    assert.match((await project.mur(["cancel", "@1", "tsk_x"])).stderr, /E-IO-003\]: ses_\w+ holds no task 'tsk_x'/);
  }));

Deno.test("stopping a session in the middle of a task ends the task first, and says so", () =>
  withSession(async (session, project) => {
    const sending = background(project, ["send", "@1", SLOW]);
    await sending.said("inference turn 1");
    const queued = background(project, ["send", "@1", program({ text: "never" }), "--json"]);
    await queued.said("TASK_STATE_SUBMITTED");
    const stopped = await project.mur(["stop", session.sessionId]);
    assert.equal(stopped.status, 0, stopped.stderr);
    assert.match(
      stopped.stdout,
      /^signal: {2}SIGTERM\ncanceled: tsk_\w+\ncanceled: tsk_\w+\nresidue: nothing else was left running\n$/m,
    );
    const run = await session.finish();
    assert.deepEqual(run.events("task_end").map(({ exit_status: status }) => status), ["canceled"]);
    assert.equal(run.events("session_end").length, 1);
    const sent = await sending.end();
    assert.equal(sent.status, 1);
    assert.match(sent.err, /^\[canceled\] {2}task canceled$/m);
    assert.equal((await queued.end()).status, 1);
  }));

Deno.test("a session that is killed: watchers say so, its record goes, its trace is read", () =>
  withSession(async (session, project) => {
    const watching = background(project, ["watch"]);
    const sending = background(project, ["send", "@1", SLOW]);
    await sending.said("inference turn 1");
    await watching.said("inference turn 1");
    Deno.kill(session.pid, "SIGKILL");
    for (const command of [watching, sending]) {
      const { status, err } = await command.end();
      assert.equal(status, 1);
      assert.match(
        err,
        /E-IO-003\]: the stream of ses_\w+ was lost after event \d+: .*\n {2}hint: its process has ended/,
      );
    }
    await session.finish();
    const listed = await project.mur(["ps"]);
    assert.deepEqual(
      [listed.stdout, listed.stderr],
      ["no running capsules\n", `pruned: ${session.sessionId} — no process holds pid ${session.pid}\n`],
    );
    assert.match((await project.mur(["trace", "show"])).stdout, /status: {5}ended without a session_end/);
    assert.match((await project.mur(["stop", "@1"])).stderr, /E-RUN-022/);
    assert.equal((await project.mur(["trace", "rm", session.sessionId])).stdout, `removed: ${session.sessionId}\n`);
    assert.match((await project.mur(["trace", "show"])).stderr, /E-TRC-002\]: no sessions found/);
  }));

Deno.test("a session that hangs is unreachable, and is stopped all the same", () =>
  withSession(async (session, project) => {
    Deno.kill(session.pid, "SIGSTOP");
    // The same commands in this process, where a silent door is given up sooner.
    const mur = async (...args: string[]) => {
      const context = testContext(project.project, { HOME: project.home }, { doorCard: 300, listedDoors: 300 });
      const status = await main(args, context);
      return { status, stdout: context.out(), stderr: context.err() };
    };
    const listed = await mur("ps");
    assert.match(listed.stdout, /^ses_\w+ .* unreachable /m);
    assert.match(
      listed.stderr,
      /^unreachable: ses_\w+ — localhost:\d+ (said nothing for 300 ms|did not answer in time)$/m,
    );
    assert.match((await mur("trace", "rm", "@1")).stderr, /E-TRC-002\]: ses_\w+ is running/);
    const stopped = await mur("stop", "@1", "--timeout", "0");
    assert.equal(stopped.status, 0, stopped.stderr);
    assert.match(stopped.stdout, /^signal: {2}SIGKILL\nresidue: unknown — the capsule could not be asked: /m);
    await session.finish();
    assert.equal((await project.mur(["ps"])).stdout, "no running capsules\n");
  }));

Deno.test("an authenticated door opens by its record, and elsewhere with a token", () =>
  withSession(async (session, project) => {
    const sent = await project.mur(["send", "@1", program({ text: "let in" })]);
    assert.equal(sent.stdout, "let in\n", sent.stderr);
    assert.match((await project.mur(["ps"])).stdout, / running /);
    const tokens = await project.mur(["token", "@1"]);
    assert.match(tokens.stdout, /^operator mdt1\.\S+\nci mdt1\.\S+\n$/);
    const url = `localhost:${session.port}`;
    const cancelWith = (token: string) =>
      project.mur(["cancel", "--url", url, "tsk_x"], { env: token === "" ? {} : { MURMUR_DOOR_TOKEN: token } });
    const operator = (await project.mur(["token", "@1", "operator"])).stdout.trim();
    assert.match((await cancelWith(operator)).stderr, /holds no task 'tsk_x'/);
    const ci = (await project.mur(["token", "@1", "ci"])).stdout.trim();
    assert.match((await cancelWith(ci)).stderr, /answered 403 insufficient_scope[^]*MURMUR_DOOR_TOKEN/);
    assert.match((await cancelWith("")).stderr, /answered 401 unauthenticated[^]*MURMUR_DOOR_TOKEN/);
    assert.equal((await project.mur(["stop", "@1"])).status, 0);
    await session.finish();
  }, { network: { authentication: { scheme: "bearer", credentials: { ci: { scopes: ["GetTask"] } } } } }));

Deno.test("a door on an address of its own is found there, and its token goes nowhere else", async () => {
  await using project = await agentProject(
    capsule({ lifecycle: SERVES, network: { authentication: { scheme: "bearer" } } }),
  );
  const run = await startRun(project, null, ["--bind", "127.0.0.2"]);
  const port = Number(run.url.split(":")[1]);
  let asked = "";
  // Somebody else on the same port of the address that localhost leads to.
  await using _other = Deno.serve({ hostname: "127.0.0.1", port, onListen: () => {} }, async (request) => {
    asked += JSON.stringify([...request.headers]) + await request.text();
    return Response.json({ name: "other" });
  });
  const listed = await project.mur(["ps", "--json"]);
  assert.equal(JSON.parse(listed.stdout).sessions[0].status, "running", listed.stdout);
  const sent = await project.mur(["send", "@1", program({ text: "here" })]);
  assert.equal(sent.stdout, "here\n", sent.stderr);
  const stopped = await project.mur(["stop", "@1"]);
  assert.equal(stopped.status, 0, stopped.stderr);
  await run.finish();
  assert.equal(asked, "");
});

Deno.test("a capsule that takes no tasks, and one that is busy", async () => {
  await withSession(async (_session, project) => {
    const running = background(project, ["send", "@1", SLOW]);
    await running.said("inference turn 1");
    const queued = background(project, ["send", "@1", program({ text: "queued" }), "--json"]);
    await queued.said("TASK_STATE_SUBMITTED");
    const refused = await project.mur(["send", "@1", "hello"]);
    assert.deepEqual([refused.status, refused.stdout, refused.stderr], [
      1,
      "",
      "[rejected]  task rejected: capsule is busy\n",
    ]);
    assert.equal((await project.mur(["stop", "@1"])).status, 0);
    await Promise.all([running.end(), queued.end()]);
  }, { lifecycle: { ...SERVES, queue_depth: 1 } });
});
