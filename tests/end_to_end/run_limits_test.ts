/**
 * What bounds a run: turns, spend ceilings of the session and of the machine, the size of the work folder; and what a
 * driver's continuation saves (spec session 9.5, 9.6, 9.8, manifest 15).
 *
 * @module
 */
import type { JsonObject } from "../../base/json_value.ts";
import assert from "node:assert/strict";
import { agentProject, type AgentRun, capsule, toolEntry, type TraceLine } from "../support/agent_project.ts";

const again: JsonObject = { calls: [{ name: "probe-tool", input: { operation: "letters", size: 3 } }] };
const tools = [toolEntry("probe-tool")];

function checkStopped(run: AgentRun, status: string): readonly TraceLine[] {
  assert.equal(run.status, 1, run.stderr);
  assert.match(run.stdout, new RegExp(`\\nstatus: {2}${status}\\n$`));
  assert.match(run.stderr, /^error\[E-RUN-040\]: [^\n]*\n {2}hint: [^\n]*\n$/m);
  assert.equal(run.events("task_end")[0]!.exit_status, status);
  assert.equal(run.events("session_end")[0]!.exit_status, status);
  assert.equal(run.events("task_failed").length, 0);
  return run.trace;
}

Deno.test("a task ends when its turns are used up", async () => {
  await using project = await agentProject(capsule({ artifacts: tools, inference: { max_turns: 2 } }));
  const run = await project.run({ task: { turns: [again, again, { text: "never" }] } });
  checkStopped(run, "max_turns_reached");
  assert.equal(run.result, "error: inference loop exceeded 2 turns");
  assert.deepEqual(run.events("inference").map(({ turn }) => turn), [0, 1]);
  assert.equal(run.events("task_end")[0]!.turns, 2);
  assert.equal(run.events("tool_call").length, 2);
});

Deno.test("the session's ceiling refuses the call that could cross it, before it is sent", async () => {
  const ceiling = 2_000;
  await using project = await agentProject(capsule({
    artifacts: tools,
    inference: { max_turns: 20, max_tokens: 500, max_session_tokens: ceiling },
  }));
  const run = await project.run({ task: { turns: Array(20).fill(again) } });
  checkStopped(run, "spend_ceiling_reached");
  assert.match(run.result!, /^stopped: spend ceiling reached: .*retrying will not get past it$/);
  assert.equal(run.events("session_start")[0]!.max_session_tokens, ceiling);
  const [refused] = run.events("spend_ceiling_reached");
  const spent = run.events("inference").reduce(
    (sum, line) => sum + Number(line.input_tokens) + Number(line.output_tokens),
    0,
  );
  assert.ok(spent > 0 && spent <= ceiling);
  assert.deepEqual([refused!.limit, refused!.ceiling, refused!.used], ["session", ceiling, spent]);
  assert.ok(spent + Number(refused!.requested) > ceiling);
  assert.equal(run.events("inference").length, refused!.turn);
  // The machine's ceiling is not set: no ledger.
  await assert.rejects(Deno.stat(`${project.murmur}/spend`), Deno.errors.NotFound);
});

Deno.test("the machine's ceiling counts every session of the day, failed calls by their input", async () => {
  await using project = await agentProject(capsule({ inference: { max_tokens: 100 } }));
  await Deno.writeTextFile(`${project.murmur}/config.yaml`, "spend:\n  machine_tokens_per_day: 1500\n", {
    mode: 0o600,
  });
  await Deno.mkdir(`${project.murmur}/spend`, { recursive: true });
  await Deno.writeTextFile(`${project.murmur}/spend/2020-01-01.jsonl`, "{}\n");
  const runs: AgentRun[] = [];
  for (const task of [{ turns: [{ text: "answer" }] }, { turns: [{ stop: "error" }] }]) {
    runs.push(await project.run({ task }));
  }
  assert.deepEqual(runs.map(({ status }) => status), [0, 1]);
  assert.equal(runs[0]!.events("session_start")[0]!.machine_tokens_per_day, 1500);
  let last = runs[0]!;
  for (let tries = 0; tries < 6 && last.events("spend_ceiling_reached").length === 0; tries++) {
    last = await project.run({ task: "again" });
  }
  checkStopped(last, "spend_ceiling_reached");
  assert.equal(last.events("spend_ceiling_reached")[0]!.limit, "machine");
  const ledgers = [...Deno.readDirSync(`${project.murmur}/spend`)].map(({ name }) => name);
  assert.equal(ledgers.length, 1, ledgers.join());
  const path = `${project.murmur}/spend/${ledgers[0]}`;
  assert.equal(Deno.statSync(path).mode! & 0o777, 0o600);
  const lines = (await Deno.readTextFile(path)).trimEnd().split("\n").map((line) => JSON.parse(line));
  assert.deepEqual(Object.keys(lines[0]), ["ts", "session_id", "input_tokens", "output_tokens"]);
  assert.deepEqual([lines[0].session_id, lines[0].input_tokens, lines[0].output_tokens], [
    runs[0]!.sessionId,
    runs[0]!.events("inference")[0]!.input_tokens,
    runs[0]!.events("inference")[0]!.output_tokens,
  ]);
  assert.deepEqual([lines[1].session_id, lines[1].output_tokens], [runs[1]!.sessionId, 0]);
  assert.ok(lines[1].input_tokens > 0);
});

Deno.test("a continued driver is sent what is new, and the whole again when it stops continuing", async () => {
  await using project = await agentProject(capsule({ artifacts: tools }));
  const [continued, dropped] = await Promise.all([
    // The driver that gets no user message shows the request.
    project.run({ task: { turns: [{ ...again, metadata: { continuation_id: "k-1" } }] } }),
    project.run({
      task: {
        turns: [{ ...again, metadata: { continuation_id: "" } }, { show: "request" }],
      },
    }),
  ]);
  for (const run of [continued, dropped]) assert.equal(run.status, 0, run.stderr);
  const request = JSON.parse(continued.result!);
  assert.equal(request.continuation_id, "k-1");
  assert.deepEqual(request.messages.map(({ role }: { role: string }) => role), ["assistant", "tool"]);
  const [first, second] = continued.events("inference");
  assert.equal((second!.message_ids as string[]).length, 2);
  // What is counted is the whole request, not what was sent of it.
  assert.ok(Number(second!.input_tokens) > Number(first!.input_tokens));
  const whole = JSON.parse(dropped.result!);
  assert.ok(!("continuation_id" in whole));
  assert.equal(whole.messages.length, 3);
});

Deno.test("a work folder over its ceiling ends the session", async () => {
  await using project = await agentProject(capsule({
    capabilities: { shell: { allow: ["sh", "head", "sleep"] }, resources: { workdir_max_bytes: 100_000 } },
    inference: { max_turns: 100 },
    lifecycle: { shell_grace_secs: 60 },
  }));
  const run = await project.run({
    task: {
      turns: [
        { calls: [{ name: "sh", input: { command: "head -c 300000 /dev/zero > big" } }] },
        ...Array(60).fill({ calls: [{ name: "sh", input: { command: "sleep 0.5" } }] }),
      ],
    },
  });
  assert.equal(run.status, 1, run.stdout);
  assert.match(run.stdout, /\nstatus: {2}failed\n$/);
  assert.match(run.stderr, /\nerror\[E-RUN-013\]: /);
  assert.match(run.result!, /^error: /);
  const [failed] = run.events("task_failed");
  assert.equal(failed!.cause, "runtime_error");
  assert.ok(!("turn" in failed!));
  assert.equal(run.events("session_end")[0]!.exit_status, "failed");
});
