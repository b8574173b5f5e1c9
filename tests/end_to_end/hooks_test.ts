/**
 * Hooks in real sessions: what they are told, what their answers do, and what is left when they break (spec components 10,
 * session 10 to 12).
 *
 * @module
 */
import assert from "node:assert/strict";
import type { JsonObject, JsonValue } from "../../base/json_value.ts";
import { pathExists } from "../../base/path_exists.ts";
import {
  agentProject,
  type AgentRun,
  callsThenResults,
  capsule,
  type CapsuleBlocks,
  hookEntry,
  shownResults,
  toolEntry,
} from "../support/agent_project.ts";
import { allEvents, type DoorSession, message, sentEvents, startSession } from "../support/door_session.ts";
import { processesBelow, stillRunning, until } from "../support/process_tree.ts";
import { startRun } from "../support/serving_run.ts";

const RECORDS = { capabilities: { filesystem: { records: true } } };
const probe = (operation: string, more: JsonObject = {}): JsonObject => ({
  name: "probe-tool",
  input: { operation, ...more },
});
const sh = (command: string): JsonObject => ({ name: "sh", input: { command } });

/** A recorded event. */
interface Told {
  readonly name: string;
  /** Number of the event in the hook's own count. */
  readonly events: number;
  readonly event: JsonObject;
}

/** What a hook with `record: true` and the records' folder was told. */
async function told(run: AgentRun): Promise<readonly Told[]> {
  const text = await Deno.readTextFile(`${run.records}/hooks/events.jsonl`);
  return text.trim().split("\n").map((line) => JSON.parse(line) as Told);
}

async function hookLog(run: AgentRun, hook: string): Promise<string> {
  return await Deno.readTextFile(`${run.records}/logs/hook-${hook}.log`).catch(() => "");
}

const faults = (run: AgentRun) =>
  run.events("hook_dispatch_error").map(({ hook_name, event, arm }) => [hook_name, event, arm]);

/** A project whose hook does these actions, by event. */
function withHook(
  name: string,
  actions: JsonObject,
  blocks: CapsuleBlocks = {},
  entry: JsonObject = {},
): ReturnType<typeof agentProject> {
  const artifacts = [toolEntry("probe-tool"), hookEntry(name, { actions }, entry), ...blocks.artifacts ?? []];
  return agentProject(capsule({ ...blocks, artifacts }));
}

async function ended(run: Promise<AgentRun>, status = 0): Promise<AgentRun> {
  const finished = await run;
  assert.equal(finished.status, status, finished.stderr);
  return finished;
}

Deno.test("a hook bound to nothing is told of everything, in order, by one instance", async () => {
  await using project = await agentProject(capsule({
    capabilities: { shell: { allow: ["sh"] } },
    artifacts: [toolEntry("probe-tool"), hookEntry("hook-all", { record: true }, RECORDS)],
    context: { max_tokens: 100_000 },
  }));
  const run = await ended(
    project.run({ task: callsThenResults(probe("letters", { size: 3 }), sh("echo out; exit 3")) }),
  );
  const events = await told(run);
  assert.deepEqual(events.map(({ name }) => name), [
    "on-session-start",
    "on-task-start",
    "on-inference",
    "on-tool-call",
    "on-inference",
    "on-tool-call",
    "on-shell",
    "on-inference",
    "on-task-end",
    "on-session-end",
  ]);
  // The count lives in a variable of the hook.
  assert.deepEqual(events.map((each) => each.events), events.map((_, index) => index + 1));
  const of = (name: string) => events.filter((each) => each.name === name).map(({ event }) => event);
  const [start] = of("on-session-start");
  assert.deepEqual(start, {
    capsuleName: "probe",
    capsuleVersion: "0.1.0",
    sessionId: run.sessionId,
    model: "m-1",
    capabilities: ["shell"],
  });
  const [task] = of("on-task-start");
  const given = run.events("task_start")[0]!;
  assert.deepEqual(
    [task!.taskId, task!.contextId, task!.source, task!.inputBytes, task!.budgetTokens, task!.contextWindow],
    [given.task_id, given.context_id, "task_md", given.message_parts_bytes, 10_000, 100_000],
  );
  const turns = run.events("inference");
  of("on-inference").forEach((event, index) => {
    const line = turns[index]!;
    assert.deepEqual(
      [event.turn, event.inputTokens, event.outputTokens, event.decision, event.toolName],
      [line.turn, line.input_tokens, line.output_tokens, line.decision, line.tool_name],
    );
  });
  assert.match(String(of("on-inference")[1]!.prompt), /^\[\{"role":"user".*"tool_call_id":"c0_0"/);
  const calls = run.events("tool_call");
  of("on-tool-call").forEach((event, index) => {
    const line = calls[index]!;
    assert.deepEqual(event, {
      turn: line.turn,
      toolName: line.tool_name,
      inputBytes: line.input_bytes,
      input: JSON.stringify(line.input),
      outcome: { outputBytes: line.output_bytes, durationMs: line.duration_ms, status: line.status },
    });
  });
  const shell = of("on-shell")[0]!;
  const line = run.events("shell")[0]!;
  assert.deepEqual(
    [shell.binary, shell.command, shell.argv, shell.script, shell.recipe],
    [line.binary, "echo out; exit 3", ["sh", "-c", "echo out; exit 3"], "echo out; exit 3", null],
  );
  assert.deepEqual(
    { ...(shell.outcome as JsonObject), durationMs: 0 },
    { exitCode: 3, stdout: "out\n", stderr: "", stdoutBytes: 4, stderrBytes: 0, durationMs: 0 },
  );
  assert.deepEqual(of("on-task-end"), [{ taskId: given.task_id, exitStatus: "ok" }]);
  const end = run.events("session_end")[0]!;
  const [last] = of("on-session-end");
  assert.deepEqual({ ...last, durationMs: 0 }, {
    totalTurns: end.total_turns,
    totalInputTokens: end.total_input_tokens,
    totalOutputTokens: end.total_output_tokens,
    totalToolCalls: end.total_tool_calls,
    totalShellCalls: end.total_shell_calls,
    durationMs: 0,
    exitStatus: "ok",
  });
  assert.deepEqual(faults(run), []);
  assert.equal((await Deno.stat(`${run.records}/hooks`)).mode! & 0o777, 0o700);
});

Deno.test("a policy hook refuses what it does not pass, in whatever way it fails to", async () => {
  await using project = await withHook("hook-tool", {
    "on-tool-call": [
      { at: "observation", when: "fine", answer: { tag: "deny", val: "too late" } },
      { when: "denied", answer: { tag: "deny", val: " not\nhere " } },
      { when: "empty", answer: { tag: "deny", val: "" } },
      { when: "broken", throws: "I failed" },
      { when: "other arm", answer: { tag: "artifact", val: "{}" } },
      { when: "no answer", answer: { tag: "allow" } },
    ],
  });
  const call = (text: string) => probe("outcome", { text, outcome: { data: text } });
  const run = await ended(
    project.run({
      task: callsThenResults(...["fine", "denied", "empty", "broken", "other arm", "no answer"].map(call)),
    }),
  );
  const results = shownResults(run);
  assert.match(results[0]!.text, /^<untrusted-content source=tool:probe-tool>\nfine\n/);
  const refused = (reason: string) => ({
    text: `the call of 'probe-tool' was refused by hook 'hook-tool': ${reason}\n` +
      "It was not made. The same call is refused again unless it is changed.",
    error: true,
  });
  assert.deepEqual(results.slice(1), [
    refused("not\nhere"),
    refused("it gave no reason"),
    refused("it failed: I failed"),
    refused("it answered 'artifact', which decides nothing"),
    refused("it failed: a hook answers with what deny, artifact and their like make, or with nothing"),
  ]);
  // What was refused was not made: no record, no observation.
  assert.equal(run.events("tool_call").length, 1);
  assert.deepEqual(
    run.events("call_denied").map((
      { turn, event, hook_name, target, reason },
    ) => [turn, event, hook_name, target, reason]),
    [
      "not\nhere",
      "it gave no reason",
      "it failed: I failed",
      "it answered 'artifact', which decides nothing",
      results[5]!.text.split(": ").slice(1).join(": ").split("\n")[0],
    ]
      .map((reason, index) => [index + 1, "on-tool-call", "hook-tool", "probe-tool", reason]),
  );
  // A refusal after the call is an answer like any other that is not taken there.
  assert.deepEqual(faults(run), [["hook-tool", "on-tool-call", "deny"]]);
  assert.match(await hookLog(run, "hook-tool"), /hook 'hook-tool' on-tool-call: deny: /);
});

Deno.test("a policy hook on commands sees exactly what is to be run, after the manifest's own refusals", async () => {
  await using project = await withHook("hook-shell", {
    "on-shell": [
      { at: "decision", when: "rm -rf", answer: { tag: "deny", val: "destroys" } },
      { at: "decision", when: "touch", answer: { tag: "deny", val: "$event" } },
    ],
  }, { capabilities: { shell: { allow: ["sh", "make"] }, filesystem: { read_only: ["keep"] } } });
  await project.write("folder/Makefile", "clean:\n\trm -rf build\n\nbuild:\n\techo built\n");
  const long = `echo ${"x".repeat(300)}; rm -rf /`;
  const run = await ended(project.run({
    workdir: `${project.project}/folder`,
    task: callsThenResults(
      sh("echo fine"),
      sh("rm -rf /"),
      sh(long),
      sh("cd . && make clean"),
      { name: "make", input: { command: "clean" } },
      sh("rm -rf keep/x"),
      sh(" "),
      probe("letters", { size: 1, text: "rm -rf" }),
    ),
  }));
  const texts = shownResults(run).map(({ text }) => text);
  assert.match(texts[0]!, /Stdout:\nfine/);
  for (const index of [1, 2, 3, 4]) assert.match(texts[index]!, /refused by hook 'hook-shell': destroys/);
  // The manifest's own refusal, and a call that would run nothing, never reach the hook.
  assert.match(texts[5]!, /keep/);
  assert.doesNotMatch(texts[5]!, /hook/);
  assert.match(texts[6]!, /non-empty 'command'/);
  assert.match(texts[7]!, /\nb\n/);
  assert.deepEqual(
    run.events("call_denied").map(({ event, target }) => [event, target]),
    [["on-shell", "sh"], ["on-shell", "sh"], ["on-shell", "sh"], ["on-shell", "make"]],
  );
  assert.equal(run.events("shell").length, 1);
});

Deno.test("a hook that spins or eats memory is ended, once; a lost policy hook refuses from then on", async () => {
  const call = probe("letters", { size: 1 });
  for (
    const [action, limits, why] of [
      [{ spin: true }, { deadline_seconds: 2 }, /exceeded its 2s execution deadline/],
      [{ eat: true }, { memory_bytes: 64 << 20 }, /exceeded its configured resource limits|failed: /],
    ] as const
  ) {
    await using project = await withHook("hook-tool", { "on-tool-call": [{ at: "decision", nth: 2, ...action }] }, {
      capabilities: { limits },
    });
    const run = await ended(project.run({ task: callsThenResults(call, call, call) }));
    const [first, second, third] = shownResults(run);
    assert.equal(first!.error, false);
    assert.ok(second!.error);
    assert.match(second!.text, why);
    // An engine may survive memory that it was refused; then the third call is an ordinary one.
    const lost = faults(run).length > 0;
    assert.equal(third!.error, lost);
    assert.equal(run.events("tool_call").length, lost ? 1 : 2);
    if (!("spin" in action)) continue;
    assert.deepEqual(faults(run), [["hook-tool", "on-tool-call", "instance-lost"]]);
    assert.equal((await hookLog(run, "hook-tool")).match(/instance-lost/g)?.length, 1);
  }
});

Deno.test("what a hook writes is shown as its own, to the bound of a call", async () => {
  await using project = await withHook("hook-all", {
    "on-task-start": [{ flood: 1_200_000 }],
    "on-task-end": [{ say: "bye" }],
  });
  const run = await ended(project.run({ task: "x" }));
  const lines = run.stderr.split("\n").filter((line) => line.startsWith("[hook-all] "));
  assert.match(lines.at(-2)!, /\(\d+ bytes of output beyond 1048576 were dropped\)/);
  assert.equal(lines.at(-1), "[hook-all] bye");
  assert.equal(lines.length, 1_051);
});

Deno.test("a policy hook whose process is killed while it decides refuses, now and later", async () => {
  await using project = await withHook("hook-tool", { "on-tool-call": [{ at: "decision", nth: 1, delayMs: 60_000 }] });
  const call = probe("letters", { size: 1 });
  const serving = await startRun(project, { turns: [{ calls: [call] }, { calls: [call] }, { show: "results" }] });
  await serving.traced("inference");
  // The hook waits in a timer: whatever host is killed, the hook's is among them.
  await new Promise((resolve) => setTimeout(resolve, 500));
  const hosts = processesBelow(serving.pid);
  assert.ok(hosts.length > 0);
  for (const { pid } of hosts) {
    try {
      Deno.kill(pid, "SIGKILL");
    } catch (error) {
      // One that went with its guard.
      if (!(error instanceof Deno.errors.NotFound)) throw error;
    }
  }
  const run = await serving.finish();
  assert.equal(run.status, 0, run.stderr);
  for (const { text, error } of shownResults(run)) {
    assert.ok(error);
    assert.match(text, /refused by hook 'hook-tool': .*(crashed|gone)/);
  }
  assert.equal(shownResults(run).length, 2);
  assert.equal(run.events("tool_call").length, 0);
  assert.deepEqual(faults(run), [["hook-tool", "on-tool-call", "instance-lost"]]);
  await until("every process is gone", () => stillRunning(hosts).length === 0);
});

Deno.test("an observing hook that fails costs nothing but its own news", async () => {
  await using project = await withHook("hook-all", {
    "on-session-start": [{ answer: { tag: "deny", val: "no session" } }],
    "on-tool-call": [{ throws: "seen too much" }],
    "on-inference": [{ nth: 2, spin: true }],
    "on-task-end": [{ answer: { tag: "reopen-task", val: "never said: the instance is lost" } }],
  }, { capabilities: { limits: { deadline_seconds: 1 } } });
  const run = await ended(project.run({ task: callsThenResults(probe("letters", { size: 1 })) }));
  assert.match(run.result!, /"error":false/);
  assert.deepEqual(faults(run), [
    ["hook-all", "on-session-start", "deny"],
    ["hook-all", "on-inference", "instance-lost"],
  ]);
  assert.match(await hookLog(run, "hook-all"), /on-tool-call: error: seen too much/);
  const last = run.trace.slice(-3).map(({ event_type }) => event_type);
  assert.deepEqual(last, ["hook_dispatch_error", "hook_dispatch_error", "session_end"]);
});

Deno.test("a contract that cannot be, and a hook without its functions, are refused before anything runs", async () => {
  for (
    const [hook, code, text] of [
      [
        "hook-wrong",
        "E-MAN-003",
        /hook hook-wrong@1\.0\.0 invalid config: binding 'on-session-end' honours no commit_policy/,
      ],
      ["hook-none", "E-RUN-001", /hook 'hook-none' does not export 'murmur:hook\/lifecycle@0\.9\.0'/],
    ] as const
  ) {
    await using project = await withHook(hook, {});
    const run = await project.run({ task: "x" });
    assert.equal(run.status, 1);
    assert.match(run.stderr, new RegExp(`error\\[${code}\\]`));
    assert.match(run.stderr, text);
    assert.equal(run.sessionId, null, "it never served");
  }
});

Deno.test("a hook has what its own entry grants, and nothing of the capsule's", async () => {
  const notes = (grants: JsonObject) =>
    withHook("hook-all", {
      "on-task-start": [{ ask: "environment" }],
      "on-inference": [{ nth: 1, ask: "files" }, { nth: 2, fetch: "http://127.0.0.1:1/" }],
      "on-tool-call": [{ ask: "task" }],
      "on-task-end": [{ nth: 1, ask: "conversation", answer: { tag: "reopen-task", val: "$notes" } }],
    }, {
      capabilities: { network: { allow: ["http://127.0.0.1:1"] }, env: { allow: ["LANG"] } },
      lifecycle: { max_task_reopens: 1 },
    }, { capabilities: grants });
  const task: JsonObject = { turns: [{ calls: [probe("letters", { size: 1 })] }, { text: "one" }] };
  const env = { LANG: "C.UTF-8" };
  const read = (run: AgentRun) => {
    const lines = JSON.parse(String(run.events("task_reopened")[0]!.reason)) as JsonObject[];
    return lines;
  };
  {
    await using project = await notes({ task_io: { read: false }, conversation: { read: false } });
    const run = await project.run({ task, env });
    const [environment, files, tasks, fetched, conversation] = read(run);
    assert.deepEqual(Object.keys(environment!), ["MURMUR_ARTIFACT_CONFIG"]);
    assert.ok("error" in files!);
    assert.deepEqual(tasks, {
      given: { error: "not-granted" },
      original: { error: "not-granted" },
      output: { error: "not-granted" },
    });
    assert.match(String(fetched), /was refused/);
    assert.deepEqual(conversation, { error: "not-granted" });
  }
  {
    await using project = await notes({
      task_io: { read: true },
      conversation: { read: true },
      filesystem: { scope: "mine" },
      network: { allow: ["http://127.0.0.1:1"] },
    });
    await project.write("folder/mine/here", "");
    await project.write("folder/secret", "");
    const run = await project.run({ task, env, workdir: `${project.project}/folder` });
    const [environment, files, tasks, fetched, conversation] = read(run);
    assert.deepEqual(Object.keys(environment!), ["MURMUR_ARTIFACT_CONFIG"]);
    assert.deepEqual(files, ["here"]);
    const text = JSON.stringify(task);
    assert.deepEqual(tasks, { given: text, original: text, output: { error: "no-output" } });
    assert.match(String(fetched), /connection-refused|ECONNREFUSED|refused the connection|could not/);
    const [first, second] = conversation as unknown as { messages: JsonObject[]; nextCursor: string; total: number }[];
    assert.deepEqual(first!.messages.map(({ role }) => role), ["assistant", "tool"]);
    assert.match(String(first!.messages[1]!.content), /untrusted-content/);
    assert.deepEqual([first!.nextCursor, first!.total], ["2", 4]);
    assert.deepEqual(second!.messages.map(({ role }) => role), ["assistant", "user"]);
  }
});

Deno.test("an inference of a hook is recorded as its own, counts, is no turn, and respects the ceiling", async () => {
  const actions: JsonObject = {
    "on-tool-call": [{ ask: "inference" }, { ask: "tokens" }],
    "on-task-end": [{ nth: 1, answer: { tag: "reopen-task", val: "$notes" } }],
  };
  const task: JsonObject = { turns: [{ calls: [probe("letters", { size: 1 })] }, { text: "done" }] };
  {
    await using project = await withHook("hook-all", actions);
    const run = await project.run({ task });
    const [answer, tokens] = JSON.parse(String(run.events("task_reopened")[0]!.reason)) as JsonValue[];
    const lines = run.events("inference");
    const own = lines.find(({ origin }) => origin !== undefined)!;
    assert.deepEqual(answer, {
      text: "asked by a hook",
      modelUsed: "m-1",
      inputTokens: own.input_tokens,
      outputTokens: own.output_tokens,
    });
    assert.equal(tokens, 2);
    assert.deepEqual(
      [own.origin, own.model, own.decision, own.turn, own.tool_name, own.stop_reason],
      ["hook:hook-all", "m-1", "end_turn", 0, null, undefined],
    );
    // Before the line of the call it was made at, below the turn.
    assert.deepEqual(run.trace.map(({ event_type }) => event_type).slice(2, 5), [
      "inference",
      "inference",
      "tool_call",
    ]);
    assert.equal(own.parent_id, lines[0]!.event_id);
    const end = run.events("session_end")[0]!;
    assert.equal(end.total_turns, lines.length - 1);
    assert.equal(
      end.total_input_tokens,
      lines.reduce((sum, { input_tokens }) => sum + Number(input_tokens ?? 0), 0),
    );
  }
  {
    await using project = await withHook("hook-all", actions, {
      inference: { max_session_tokens: 8_300, max_tokens: 100 },
    });
    const run = await project.run({ task });
    const refusal = run.events("spend_ceiling_reached")[0]!;
    assert.deepEqual([refusal.origin, refusal.limit], ["hook:hook-all", "session"]);
    assert.equal(run.events("inference").filter(({ origin }) => origin !== undefined).length, 0);
  }
});

Deno.test("a compaction replaces the history, keeps it, or fails the task", async () => {
  const compacting = (actions: readonly JsonObject[], more: CapsuleBlocks = {}) =>
    withHook("hook-compact", { "on-compaction": actions }, {
      context: { max_tokens: 400 },
      ...more,
      inference: { compaction: { threshold: 0.9, dump_summaries: true }, ...more.inference },
    });
  const filling: JsonObject = { turns: [{ calls: [probe("letters", { size: 4_000 })] }, { text: "x" }, { text: "y" }] };
  const two: JsonObject = {
    turns: [{ calls: [probe("letters", { size: 4_000 })] }, { calls: [probe("list")] }, { show: "request" }],
  };
  {
    await using project = await compacting([{ nth: 1, keep: 1 }]);
    const run = await ended(project.run({ task: two }));
    assert.ok(run.events("compaction").length + run.events("compaction_declined").length > 0, run.traceText);
  }
  {
    await using project = await compacting([{
      answer: { tag: "replace-context", val: [{ role: "user", content: "short" }] },
    }]);
    const run = await project.run({ task: filling });
    const done = run.events("compaction");
    assert.ok(done.length >= 1);
    const turn = run.events("inference").find(({ turn }) => turn === done[0]!.turn)!;
    assert.equal(done[0]!.tokens_before, turn.input_tokens);
    assert.ok(Number(done[0]!.tokens_after) < Number(done[0]!.tokens_before));
    const dump = (await Deno.readTextFile(`${run.records}/out/compaction-summaries.jsonl`)).trim().split("\n");
    assert.deepEqual(JSON.parse(dump[0]!), {
      turn: done[0]!.turn,
      tokens_before: done[0]!.tokens_before,
      tokens_after: done[0]!.tokens_after,
      summary: "short",
    });
  }
  {
    await using project = await compacting([{
      answer: {
        tag: "replace-context",
        val: [{ role: "assistant", content: '[{"type":"tool_call","id":"q","name":"x","input":{}}]' }],
      },
    }]);
    const run = await ended(project.run({ task: filling }));
    assert.equal(run.events("compaction_declined")[0]!.reason, "unresolved_tool_call");
    assert.match(await hookLog(run, "hook-compact"), /do not match/);
  }
  {
    await using project = await compacting([{ throws: "no summary" }]);
    const run = await ended(project.run({ task: filling }), 1);
    assert.equal(run.result, "error: compaction hook failed: hook-compact: no summary");
    assert.deepEqual(run.events("task_failed").map(({ cause }) => cause), ["compaction_hook"]);
  }
  {
    // Its own question was refused for its cost: that is why the task ends, whatever the hook says.
    await using project = await compacting([{ ask: "inference", throws: "no summary" }], {
      inference: { max_session_tokens: 8_300, max_tokens: 100 },
    });
    const run = await project.run({ task: filling });
    assert.deepEqual(run.events("task_end").map(({ exit_status }) => exit_status), ["spend_ceiling_reached"]);
    assert.equal(run.events("spend_ceiling_reached")[0]!.origin, "hook:hook-compact");
    assert.match(run.result!, /^stopped: spend ceiling reached: /);
  }
  {
    // Without a hook the history stays, which is said.
    await using project = await agentProject(capsule({ context: { max_tokens: 10 } }));
    const run = await ended(project.run({ task: "hello" }));
    assert.equal(run.events("compaction_declined")[0]!.reason, "no_hook_replacement");
  }
});

Deno.test("a seed stands before the history and the task, or is rejected and said so", async () => {
  const seeding = (val: readonly JsonObject[], window: number | null = 1_000) =>
    withHook("hook-seed", { "on-task-start": [{ answer: { tag: "seed-context", val } }] }, {
      ...(window === null ? {} : { context: { max_tokens: window } }),
    });
  const words = (count: number) => "word ".repeat(count);
  {
    await using project = await seeding([{ role: "user", content: "remember this", sourceId: "memory/1" }]);
    const run = await ended(project.run({ task: { turns: [{ show: "request" }] } }));
    const line = run.events("context_seed")[0]!;
    assert.deepEqual([line.outcome, line.hook_name, line.budget_tokens], ["seeded", "hook-seed", 100]);
    const { messages } = JSON.parse(run.result!) as { messages: { content: { text: string }[] }[] };
    assert.deepEqual(messages.map(({ content }) => content[0]!.text.slice(0, 13)), ["remember this", '{"turns":[{"s']);
    const records = await Deno.readTextFile(
      `${project.murmur}/conversations/probe/${run.events("task_start")[0]!.context_id}/conversation.jsonl`,
    );
    const [seed] = records.split("\n").map((each) => each === "" ? null : JSON.parse(each));
    assert.deepEqual([seed.inserted_by, seed.source_id, seed.id], [
      "seed-context",
      "memory/1",
      (line.message_ids as string[])[0],
    ]);
  }
  {
    await using project = await seeding([{ role: "user", content: words(50) }, { role: "user", content: words(50) }]);
    const run = await ended(project.run({ task: "x" }));
    const line = run.events("context_seed")[0]!;
    assert.ok(["trimmed", "seeded"].includes(String(line.outcome)));
    assert.ok(Number(line.tokens) <= 100);
  }
  for (
    const [content, window, reason] of [
      [words(300), 1_000, "message_over_budget"],
      ["x", null, "no_budget"],
    ] as const
  ) {
    await using project = await seeding([{ role: "user", content }], window);
    const run = await ended(project.run({ task: "x" }));
    const line = run.events("context_seed")[0]!;
    assert.deepEqual([line.outcome, line.reason, line.tokens, line.message_ids], ["rejected", reason, 0, []]);
    assert.deepEqual(faults(run), [["hook-seed", "on-task-start", "seed-rejected"]]);
  }
});

Deno.test("a task that is sent back goes on with the feedback, as often as it may", async () => {
  const feedback = (times: number): JsonObject => ({
    "on-task-end": [{ times, answer: { tag: "reopen-task", val: " do better\n" } }],
  });
  {
    await using project = await withHook("hook-reopen", feedback(1));
    const run = await ended(project.run({ task: { turns: [{ text: "first" }] } }));
    const line = run.events("task_reopened")[0]!;
    assert.deepEqual(
      [line.hook_name, line.reason, line.reopen_number, line.attempt_context, line.turns_remaining],
      ["hook-reopen", " do better\n", 1, "continued", 9],
    );
    const end = run.events("task_end")[0]!;
    assert.deepEqual([end.exit_status, end.reopen_count, end.turns], ["ok", 1, 2]);
    assert.equal(run.result, "you said: # Reopen 1 — from hook hook-reopen\n\ndo better");
    assert.deepEqual(run.events("inference").map(({ turn }) => turn), [0, 1]);
  }
  {
    await using project = await withHook("hook-reopen", feedback(9), { lifecycle: { max_task_reopens: 2 } });
    const run = await ended(project.run({ task: { turns: [{ text: "first" }] } }), 1);
    const end = run.events("task_end")[0]!;
    assert.deepEqual([end.exit_status, end.reopen_count], ["reopen_budget_exhausted", 2]);
    const failed = run.events("task_failed")[0]!;
    assert.equal(failed.cause, "reopen_budget_exhausted");
    assert.match(String(failed.reason), /^task reopen budget exhausted.* 2 times and hook 'hook-reopen'/);
    assert.match(run.result!, /^you said: /);
  }
  {
    await using project = await withHook("hook-reopen", feedback(9), {
      inference: { max_turns: 2 },
      lifecycle: { max_task_reopens: 5 },
    });
    const run = await ended(project.run({ task: { turns: [{ text: "first" }] } }), 1);
    assert.match(String(run.events("task_failed")[0]!.reason), /^task turn budget exhausted/);
  }
  {
    // Nothing had entered the list: the rewritten task is the message of a fresh one.
    await using project = await withHook("hook-reopen", feedback(1));
    const run = await ended(project.run({ task: { turns: [{ throws: "no answer" }] } }));
    assert.equal(run.events("task_reopened")[0]!.attempt_context, "restarted");
    assert.match(
      run.result!,
      /^you said: \{"turns"[^]*\n\n---\n\n# Reopen feedback\n\n[^]*## Reopen 1 — from hook `hook-reopen`\n\ndo better\n$/,
    );
    assert.equal(run.events("task_failed").length, 0);
  }
  {
    await using project = await withHook("hook-reopen", feedback(9), { lifecycle: { max_task_reopens: 0 } });
    const run = await ended(project.run({ task: { turns: [{ text: "first" }] } }), 1);
    assert.equal(run.events("inference").length, 1);
  }
});

Deno.test("an async hook is told everything before the session ends, and its answers change nothing", async () => {
  await using project = await agentProject(capsule({
    artifacts: [
      toolEntry("probe-tool"),
      hookEntry("hook-async", {
        record: true,
        actions: {
          "on-task-end": [{ delayMs: 300, answer: { tag: "reopen-task", val: "x" } }],
          "on-tool-call": [{ throws: "no" }],
        },
      }, RECORDS),
    ],
  }));
  const run = await ended(project.run({ task: callsThenResults(probe("letters", { size: 1 })) }));
  assert.deepEqual((await told(run)).map(({ name }) => name), [
    "on-session-start",
    "on-task-start",
    "on-inference",
    "on-tool-call",
    "on-inference",
    "on-task-end",
    "on-session-end",
  ]);
  assert.deepEqual(faults(run), [["hook-async", "on-tool-call", "error"], [
    "hook-async",
    "on-task-end",
    "reopen-task",
  ]]);
  assert.equal(run.events("task_reopened").length, 0);
});

Deno.test("what hooks add to an answer reaches the caller with the turn that ends the task, and no other", async () => {
  await using project = await withHook("hook-all", {
    "on-inference": [
      { when: '"decision":"tool_call"', answer: { tag: "artifact", val: '{"turn":1}' } },
      { when: '"turn":1', answer: { tag: "artifact", val: '{"turn":2}' } },
      { answer: { tag: "artifact", val: "[]" } },
    ],
  }, { lifecycle: { task_acceptance: "queue", after_task: "sleep" } });
  await using session = await startSession(project);
  const updates = async (task: object) =>
    (await allEvents(await session.stream("SendStreamingMessage", message(task))))
      .map(({ data }) => data.result.artifactUpdate ?? data.result.statusUpdate ?? data.result.task);
  const events = await updates({ turns: [{ calls: [probe("letters", { size: 1 })] }, { text: "done" }] });
  const own = events.filter(({ artifact }) => artifact?.name === "hook-all");
  assert.deepEqual(own.map(({ artifact }) => artifact.parts[0].text), ['{"turn":2}']);
  assert.ok(events.indexOf(own[0]) < events.findIndex(({ status }) => status?.state === "TASK_STATE_COMPLETED"));
  assert.ok((await updates({ turns: [{ text: "again" }] })).every(({ artifact }) => artifact?.name !== "hook-all"));
  const run = await session.stop();
  assert.deepEqual(faults(run), [["hook-all", "on-inference", "artifact"]]);
});

Deno.test("the stream of a task that is sent back tells where each attempt begins, and counts its turns from 1", async () => {
  await using project = await withHook("hook-reopen", {
    "on-task-end": [{ times: 2, answer: { tag: "reopen-task", val: "do better" } }],
  }, { lifecycle: { task_acceptance: "queue", after_task: "sleep", max_task_reopens: 2 } });
  await using session = await startSession(project);
  const task = message({ turns: [{ calls: [probe("letters", { size: 1 })] }, { text: "first" }] });
  const events = await allEvents(await session.stream("SendStreamingMessage", task));
  const statuses = events.flatMap(({ data: { result: { statusUpdate } } }) =>
    statusUpdate?.metadata.murmur.frame === "status"
      ? [[statusUpdate.status.message.parts[0].text, statusUpdate.metadata.murmur.reopen ?? null]]
      : []
  );
  const expected = [
    ["inference turn 1", null],
    ["inference turn 2", null],
    ["inference turn 1", 1],
    ["inference turn 1", 2],
    ["session ended", null],
  ];
  assert.deepEqual(statuses, expected);
  const watched = await session.stream("stream/watch");
  const raw: unknown[] = [];
  for await (const { event, data } of sentEvents(watched)) {
    if (event === "status") raw.push([data.status.message, data.status.reopen ?? null]);
    if (data.final && event === "status") break;
  }
  assert.deepEqual(raw, expected);
  const run = await session.stop();
  assert.deepEqual(run.events("inference").map(({ turn }) => turn), [0, 1, 2, 3]);
});

Deno.test("a task that is canceled while a hook decides makes no call", async () => {
  await using project = await withHook("hook-tool", {
    "on-tool-call": [{ at: "decision", say: "thinking", delayMs: 1_500 }],
  }, {
    lifecycle: { task_acceptance: "queue", after_task: "sleep" },
  });
  await using session = await startSession(project);
  const { result } = await session.rpc(
    "SendMessage",
    message({ turns: [{ calls: [probe("write", { path: "made", text: "x" })] }] }, {}, { returnImmediately: true }),
  );
  await session.traced("inference");
  await session.rpc("CancelTask", { id: result.task.id });
  await session.traced("task_end");
  const run = await session.stop();
  assert.equal(run.events("task_end")[0]!.exit_status, "canceled");
  assert.deepEqual(run.events("tool_call").map(({ status }) => status), ["error"]);
  assert.deepEqual([...Deno.readDirSync(`${project.project}/workdir/${session.sessionId}`)], []);
});

Deno.test("a canceled task is not sent back, and a stopped session still tells its hooks of the end", async () => {
  await using project = await withHook("hook-all", {
    "on-task-end": [{ answer: { tag: "reopen-task", val: "go on" } }],
    "on-session-end": [{ say: "the end" }],
  }, { lifecycle: { task_acceptance: "queue", after_task: "sleep" } });
  await using session = await startSession(project);
  const { result } = await session.rpc(
    "SendMessage",
    message({ turns: [{ delayMs: 60_000, text: "late" }] }, {}, { returnImmediately: true }),
  );
  await session.traced("task_start");
  await session.rpc("CancelTask", { id: result.task.id });
  await session.traced("task_end");
  const run = await session.stop();
  assert.deepEqual(run.events("task_end").map(({ exit_status, reopen_count }) => [exit_status, reopen_count]), [
    ["canceled", 0],
  ]);
  assert.match(run.stderr, /^\[hook-all\] the end$/m);
  assert.equal(run.events("session_end").length, 1);
});

Deno.test("a cancel that is accepted while hooks are told of a task's end stands everywhere", async () => {
  const cancelLate = async (cancel: (session: DoorSession, id: string) => Promise<unknown>) => {
    await using project = await withHook("hook-all", { "on-task-end": [{ say: "told", delayMs: 2_000 }] }, {
      lifecycle: { task_acceptance: "queue", after_task: "sleep", conversation: "threaded" },
    });
    await using session = await startSession(project);
    const { result } = await session.rpc("SendMessage", message({ turns: [{ text: "the answer" }] }));
    const { id } = result.task;
    await until("the answer is filed", () => pathExists(`${session.records}/out/result.txt`));
    await cancel(session, id);
    await session.traced("task_end");
    const run = await session.stop();
    const [canceled] = run.events("task_canceled");
    assert.deepEqual([canceled?.task_id, canceled?.turn, canceled?.phase], [id, 0, "turn"]);
    assert.deepEqual(run.events("task_end").map(({ exit_status }) => exit_status), ["canceled"]);
    assert.equal(run.result, "the task was canceled");
    assert.equal(await pathExists(`${session.records}/out/result_${id}.txt`), false);
    return run;
  };
  const [, stopped] = await Promise.all([
    cancelLate(async (session, id) => {
      const { result } = await session.rpc("CancelTask", { id });
      assert.equal(result.status.state, "TASK_STATE_CANCELED");
    }),
    cancelLate((session) => session.stop()),
  ]);
  assert.equal(stopped.events("session_end")[0]?.exit_status, "canceled");
  assert.equal(stopped.status, 1);
});

Deno.test("a resumed conversation is compacted first when that is asked for", async () => {
  await using project = await withHook("hook-compact", {
    "on-compaction": [{ answer: { tag: "replace-context", val: [{ role: "user", content: "what was before" }] } }],
  });
  const first = await ended(project.run({ task: "remember" }));
  const resumed = await ended(project.run({
    task: { turns: [{ show: "request" }] },
    args: ["--resume", first.sessionId!, "--resume-mode", "compact"],
  }));
  const { messages } = JSON.parse(resumed.result!) as { messages: { content: { text: string }[] }[] };
  assert.deepEqual(messages.map(({ content }) => content[0]!.text.slice(0, 15)), [
    "what was before",
    '{"turns":[{"sho',
  ]);
});

Deno.test("a hook that compacts nothing is no hook to resume with", async () => {
  await using project = await withHook("hook-tool", {});
  const first = await ended(project.run({ task: "remember" }));
  const run = await project.run({ task: "x", args: ["--resume", first.sessionId!, "--resume-mode", "compact"] });
  assert.match(run.stderr, /^error\[E-RUN-018\]: /m);
});

Deno.test("a hook describes commands before the session begins, and writes nowhere else", async () => {
  const manifest = (description: string) =>
    `name: sh\nversion: 0.0.0\nruntime: tool\nimplementation: native\ndescription: ${description}\n`;
  await using project = await withHook("hook-stage", {
    "on-stage": [{
      ask: "inference",
      answer: {
        tag: "write-manifests",
        val: [
          { binaryName: "sh", content: manifest("A shell, with care") },
          { binaryName: "../escaped", content: "x" },
          { binaryName: "..", content: "x" },
          { binaryName: "", content: "x" },
        ],
      },
    }],
    "on-session-start": [{ answer: { tag: "deny", val: "never called" } }],
  }, { capabilities: { shell: { allow: ["sh"] } } });
  const run = await ended(project.run({ task: { turns: [{ show: "request" }] } }));
  const { tools } = JSON.parse(run.result!) as { tools: { name: string; description: string }[] };
  assert.equal(tools.find(({ name }) => name === "sh")!.description, "A shell, with care");
  const log = await hookLog(run, "hook-stage");
  assert.equal(log.match(/is not written: the name is not one path segment/g)?.length, 3);
  assert.deepEqual(faults(run), []);
});
