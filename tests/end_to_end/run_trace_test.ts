/**
 * The trace a run leaves, line by line (spec trace 2 to 6, 8), and what `mur trace` makes of it.
 *
 * @module
 */
import type { JsonObject } from "../../base/json_value.ts";
import assert from "node:assert/strict";
import {
  agentProject,
  type AgentRun,
  callsThenResults,
  capsule,
  type CapsuleBlocks,
  toolEntry,
  type TraceLine,
} from "../support/agent_project.ts";
import { canMount } from "../support/own_mounts.ts";

const ENVELOPE = ["event_type", "event_id", "parent_id", "session_id", "timestamp"];
const INFERENCE = ["turn", "task_id", "input_tokens", "output_tokens", "decision", "stop_reason", "tool_name"];
const WIRE = ["message_ids", "system_sha", "tools_sha", "response_sha", "message_shas"];

/** Keys of each line behind the envelope, in their order (spec trace 5, 6). */
const KEYS: Readonly<Record<string, readonly string[]>> = {
  session_start: [
    "capsule_name",
    "capsule_version",
    "model",
    "max_turns",
    "max_session_tokens",
    "machine_tokens_per_day",
    "capabilities",
    "tools_declared",
    "tool_refresh",
    "runtime_artifacts",
    "containment_declared",
    "containment_achieved",
    "userns_grant",
    "workdir_exec",
    "resumed_from",
    "context_id",
    "system_prompt_source",
    "credential_source",
    "gateways",
    "system_prompt_sha256",
    "effective_grants",
  ],
  task_start: ["task_id", "context_id", "source", "origin", "trust", "lane", "message_parts_bytes"],
  skill_call: ["turn", "task_id", "skill_name", "output_bytes", "duration_ms", "status", "origin", "trust"],
  shell: ["turn", "task_id", "binary", "command", "exit_code", "stdout_bytes", "stderr_bytes", "duration_ms"],
  tool_input_refused: ["turn", "tool_name", "tool_call_id", "missing", "reason"],
  task_end: [
    "task_id",
    "exit_status",
    "duration_ms",
    "turns",
    "input_tokens",
    "output_tokens",
    "tool_calls",
    "shell_calls",
    "reopen_count",
  ],
  session_end: [
    "total_turns",
    "total_input_tokens",
    "total_output_tokens",
    "total_tool_calls",
    "total_shell_calls",
    "duration_ms",
    "exit_status",
  ],
};

const TOOL_CALL = ["turn", "task_id", "tool_name", "tool_call_id", "input", "input_bytes"];
const TOOL_CALL_END = ["output_bytes", "duration_ms", "status"];

const MANIFEST: CapsuleBlocks = {
  capabilities: { shell: { allow: ["sh"] } },
  artifacts: [toolEntry("probe-tool"), { name: "greeting", version: "1.0.0", runtime: "skill" }],
  inference: { system_prompt: "Be brief." },
};

const PROGRAM: JsonObject = {
  turns: [
    { text: "I look.", calls: [{ name: "sh", input: { command: "echo one; exit 3" } }, { name: "greeting" }] },
    {
      calls: [
        {
          name: "probe-tool",
          input: {
            operation: "outcome",
            outcome: { data: "d", metadata: { state_effect: "mutate", resource_id: "r/1" } },
          },
        },
        { name: "probe-tool", input: { path: "x" } },
      ],
      usage: { input_tokens: 90, output_tokens: 12, cached_tokens: 3, cache_write_tokens: 4, other: 1 },
    },
    { text: "answer", stop: "max_tokens" },
  ],
};

async function sha256(bytes: Uint8Array<ArrayBuffer>): Promise<string> {
  return new Uint8Array(await crypto.subtle.digest("SHA-256", bytes)).toHex();
}

function sum(lines: readonly TraceLine[], key: string): number {
  return lines.reduce((total, line) => total + Number(line[key] ?? 0), 0);
}

/** Checks what holds for every trace: unique ids, one session, earlier parents, counters that add up (spec trace 8). */
function checkInvariants(run: AgentRun): void {
  assert.ok(run.traceText.endsWith("\n"));
  const seen = new Set<string>();
  let last = 0;
  for (const line of run.trace) {
    assert.deepEqual(Object.keys(line).slice(0, 5), ENVELOPE);
    assert.match(line.event_id, /^evt_[0-9a-f]{32}$/);
    assert.ok(!seen.has(line.event_id));
    assert.equal(line.session_id, run.sessionId);
    assert.equal(line.parent_id === null, line.event_type === "session_start");
    assert.ok(line.parent_id === null || seen.has(String(line.parent_id)), `parent of ${line.event_type}`);
    assert.ok(Number(line.timestamp) >= last);
    last = Number(line.timestamp);
    seen.add(line.event_id);
  }
  const [end] = run.events("session_end");
  const tasks = run.events("task_end");
  assert.equal(end!.total_turns, sum(tasks, "turns"));
  assert.equal(end!.total_input_tokens, sum(tasks, "input_tokens"));
  assert.equal(end!.total_output_tokens, sum(tasks, "output_tokens"));
  assert.equal(end!.total_tool_calls, sum(tasks, "tool_calls"));
  assert.equal(end!.total_shell_calls, sum(tasks, "shell_calls"));
  assert.equal(end!.total_tool_calls, run.events("tool_call").length);
  assert.equal(end!.total_input_tokens, sum(run.events("inference"), "input_tokens"));
}

Deno.test("a trace with its contents: order, tree, keys, hashes that match the blobs, sums", async () => {
  await using project = await agentProject(capsule({ ...MANIFEST, trace: { capture: "content" } }));
  const run = await project.run({ task: PROGRAM });
  assert.equal(run.status, 0, run.stderr);
  assert.match(run.stderr, /^\[capsule-runtime\] warning\[W-RUN-001\]: /m);
  checkInvariants(run);

  const types = run.trace.map(({ event_type }) => event_type);
  assert.deepEqual(types, [
    "session_start",
    "task_start",
    "inference",
    "tool_call",
    "shell",
    "skill_call",
    "inference",
    "tool_call",
    "tool_input_refused",
    "tool_call",
    "inference",
    "task_end",
    "session_end",
  ]);
  const [start, task, first, shellCall, shell, skill, second, tool, refused, refusedCall, third, taskEnd, end] =
    run.trace;
  const parents = [
    [start, null],
    [task, start],
    [first, task],
    [shellCall, first],
    [shell, first],
    [skill, first],
    [second, task],
    [tool, second],
    [refused, second],
    [refusedCall, second],
    [third, task],
    [taskEnd, task],
    [end, start],
  ] as const;
  for (const [line, parent] of parents) assert.equal(line!.parent_id, parent?.event_id ?? null, line!.event_type);

  for (const line of run.trace) {
    const expected = line === second
      ? [
        ...INFERENCE,
        "input_tokens_actual",
        "output_tokens_actual",
        "cached_tokens",
        "cache_write_tokens",
        ...WIRE,
      ]
      : line.event_type === "inference"
      ? [...INFERENCE, ...WIRE]
      : line.event_type === "tool_call"
      ? [...TOOL_CALL, "output", ...TOOL_CALL_END, ...line === tool ? ["state_effect", "resource_id"] : []]
      : KEYS[line.event_type]!;
    assert.deepEqual(Object.keys(line).slice(5), expected, line.event_type);
  }

  assert.deepEqual(start!.capabilities, ["shell"]);
  assert.deepEqual(start!.tools_declared, ["greeting", "probe-tool", "sh"]);
  assert.equal(start!.system_prompt_source, "manifest");
  assert.deepEqual([task!.source, task!.origin, task!.trust, task!.lane], ["task_md", "user", "trusted", "user"]);
  assert.equal(task!.message_parts_bytes, JSON.stringify(PROGRAM).length);
  assert.deepEqual(
    [first, second, third].map((line) => [line!.turn, line!.decision, line!.stop_reason, line!.tool_name]),
    [
      [0, "tool_call", "tool_call", "sh"],
      [1, "tool_call", "tool_call", "probe-tool"],
      [2, "text", "max_tokens", null],
    ],
  );
  assert.deepEqual(
    [second!.input_tokens_actual, second!.output_tokens_actual, second!.cached_tokens, second!.cache_write_tokens],
    [90, 12, 3, 4],
  );
  assert.deepEqual([shell!.exit_code, shell!.command, shell!.stdout_bytes], [3, "echo one; exit 3", 4]);
  assert.deepEqual([shellCall!.status, shellCall!.input], ["ok", { command: "echo one; exit 3" }]);
  assert.equal(shellCall!.input_bytes, JSON.stringify(shellCall!.input).length);
  assert.match(String(shellCall!.output), /^<untrusted-content source=tool:sh>\n\$ echo one; exit 3\nExit code: 3\n/);
  assert.equal(shellCall!.output_bytes, new TextEncoder().encode(String(shellCall!.output)).length);
  assert.deepEqual([skill!.skill_name, skill!.origin, skill!.trust, skill!.status], [
    "greeting",
    "operator",
    "trusted",
    "ok",
  ]);
  assert.deepEqual([tool!.state_effect, tool!.resource_id], ["mutate", "r/1"]);
  assert.deepEqual([refused!.missing, refused!.tool_call_id], [["operation"], "c1_1"]);
  assert.deepEqual([refusedCall!.status, refusedCall!.output], ["error", refused!.reason]);
  assert.deepEqual(
    [taskEnd!.turns, taskEnd!.tool_calls, taskEnd!.shell_calls, taskEnd!.exit_status, taskEnd!.reopen_count],
    [3, 3, 1, "ok", 0],
  );

  // Every hash names a blob of these bytes, and nothing else is kept.
  const kept = new Map<string, string>();
  assert.equal(Deno.statSync(`${run.records}/blobs`).mode! & 0o777, 0o700);
  for await (const { name } of Deno.readDir(`${run.records}/blobs`)) {
    const bytes = await Deno.readFile(`${run.records}/blobs/${name}`);
    assert.equal(await sha256(bytes), name);
    kept.set(name, new TextDecoder().decode(bytes));
  }
  const turns = [first!, second!, third!];
  const named = new Set([String(start!.system_prompt_sha256)]);
  for (const turn of turns) {
    const shas = turn.message_shas as readonly string[];
    assert.equal(shas.length, (turn.message_ids as readonly string[]).length);
    for (const sha of [turn.system_sha, turn.tools_sha, turn.response_sha, ...shas]) named.add(String(sha));
  }
  assert.deepEqual([...kept.keys()].sort(), [...named].sort());
  assert.equal(kept.get(String(start!.system_prompt_sha256)), "Be brief.");
  assert.match(
    kept.get(String(first!.system_sha))!,
    /^\[Capsule\]\nName: probe\nVersion: 0\.1\.0\n[\s\S]*\n\nBe brief\.$/,
  );
  assert.deepEqual(
    (JSON.parse(kept.get(String(first!.tools_sha))!) as { name: string }[]).map(({ name }) => name),
    start!.tools_declared,
  );
  const messages = (third!.message_shas as readonly string[]).map((sha) => JSON.parse(kept.get(sha)!));
  assert.deepEqual(messages.map(({ role }) => role), [
    "user",
    "assistant",
    "tool",
    "tool",
    "assistant",
    "tool",
    "tool",
  ]);
  assert.equal(messages[0].content[0].text, JSON.stringify(PROGRAM));
  for (const message of messages) assert.ok(!("id" in message) && !("fence" in message));
  assert.equal(JSON.parse(kept.get(String(third!.response_sha))!).stop_reason, "max_tokens");
  assert.equal(turns[1]!.message_shas && (turns[1]!.message_shas as string[])[0], (first!.message_shas as string[])[0]);

  const shown = await project.mur(["trace", "show"]);
  assert.equal(shown.status, 0, shown.stderr);
  assert.match(shown.stdout, new RegExp(`session: +${run.sessionId}`));
  assert.match(shown.stdout, /status: +ok/);
  const body = await project.mur(["trace", "show", "--body", "system", "--turn", "0"]);
  assert.match(body.stdout, /\[Capsule\]\nName: probe\n/);
});

Deno.test("capture none keeps no hash, meta keeps hashes alone, and both are the hashes of the same bytes", async () => {
  await using project = await agentProject(capsule(MANIFEST));
  await project.write("none/murmur.yaml", JSON.stringify(capsule({ ...MANIFEST, trace: { capture: "none" } })));
  const [meta, none] = await Promise.all([
    project.run({ task: PROGRAM }),
    project.run({ task: PROGRAM, args: ["--manifest", "none/murmur.yaml"], workdir: project.home }),
  ]);
  for (const run of [meta, none]) {
    assert.equal(run.status, 0, run.stderr);
    checkInvariants(run);
    assert.ok(run.events("tool_call").every((line) => !("output" in line)));
    await assert.rejects(Deno.stat(`${run.records}/blobs`), Deno.errors.NotFound);
  }
  const wire = (run: AgentRun, index: number) =>
    Object.keys(run.events("inference")[index]!).filter((key) => /_sha/.test(key));
  assert.deepEqual(wire(meta, 0), ["system_sha", "tools_sha", "response_sha", "message_shas"]);
  assert.deepEqual(wire(none, 0), []);
  const hash = await sha256(new TextEncoder().encode("Be brief."));
  for (const run of [meta, none]) assert.equal(run.events("session_start")[0]!.system_prompt_sha256, hash);
  const message = JSON.stringify({ role: "user", content: [{ type: "text", text: JSON.stringify(PROGRAM) }] });
  assert.equal(
    (meta.events("inference")[0]!.message_shas as string[])[0],
    await sha256(new TextEncoder().encode(message)),
  );
});

Deno.test("the prompt comes from a file, a skill or the command line, and the model is sent exactly that", async () => {
  const prompted = (inference: Record<string, string>, more = {}) => JSON.stringify(capsule({ inference, ...more }));
  await using project = await agentProject(prompted({ system_prompt_file: "p.md" }));
  await project.write("p.md", "\n From a file. \n");
  await project.write(
    "skill/murmur.yaml",
    prompted({ system_prompt_artifact: "greeting" }, {
      artifacts: [{ name: "greeting", version: "1.0.0", runtime: "skill" }],
    }),
  );
  const task = { turns: [{ show: "request" }] };
  const [file, skill, flag, blank] = await Promise.all([
    project.run({ task }),
    project.run({ task, args: ["--manifest", "skill/murmur.yaml"], workdir: `${project.project}/skill` }),
    project.run({ task, args: ["--system-prompt", "  From the flag.  "] }),
    project.run({ task, args: ["--system-prompt", "  "] }),
  ]);
  const systems = [file, skill, flag, blank].map((run) => {
    assert.equal(run.status, 0, run.stderr);
    return JSON.parse(run.result!).system as string;
  });
  const block = systems[3]!.trimEnd();
  assert.equal(systems[0], `${block}\n\n\n From a file. \n`);
  assert.equal(systems[1], `${block}\n\n\n# How to greet\n\nSay </untrusted-content> hello.\n`);
  assert.equal(systems[2], `${block}\n\nFrom the flag.`);
  for (const run of [file, skill, flag, blank]) {
    // Nothing that differs from launch to launch: providers cache by prefix.
    assert.ok(!block.includes(run.sessionId!) && !block.includes(project.project));
  }
  assert.deepEqual(
    [file, skill, flag, blank].map((run) => run.events("session_start")[0]!.system_prompt_source),
    ["manifest", "manifest", "cli", "cli"],
  );
  assert.equal(blank.events("session_start")[0]!.system_prompt_sha256, null);
  // The skill bound as the prompt is no tool any more.
  assert.deepEqual(skill.events("session_start")[0]!.tools_declared, []);
  const request = JSON.parse(file.result!);
  assert.deepEqual(Object.keys(request), [
    "model",
    "max_tokens",
    "messages",
    "tools",
    "params",
    "system",
    "prompt_cache_key",
  ]);
  assert.deepEqual(request.messages, [{ role: "user", content: [{ type: "text", text: JSON.stringify(task) }] }]);
  assert.deepEqual([request.model, request.max_tokens, request.params], ["m-1", 8192, {}]);
  assert.equal(request.prompt_cache_key, `probe:0.1.0:${file.events("task_start")[0]!.context_id}`);
});

Deno.test("steps of a trace can be listed, and a run without calls has none", async () => {
  await using project = await agentProject(capsule(MANIFEST));
  const run = await project.run({ task: callsThenResults({ name: "sh", input: { command: "true" } }) });
  assert.equal(run.status, 0, run.stderr);
  const steps = await project.mur(["trace", "steps"]);
  assert.equal(steps.status, 0, steps.stderr);
  assert.match(steps.stdout, /sh/);
});

Deno.test("a disk that fills up while a session runs ends it, and what was written before can be read", {
  ignore: !canMount(),
}, async () => {
  await using project = await agentProject(capsule({ inference: { max_turns: 100 } }));
  await Deno.mkdir(`${project.murmur}/records`, { mode: 0o700 });
  // The disk is gone when the run is over.
  const kept = `${project.root}/kept`;
  await Deno.mkdir(kept);
  const unknown = { name: "no-such-tool" };
  const run = await project.run({
    task: { turns: Array(40).fill({ calls: Array(20).fill(unknown) }) },
    mounts: [{ at: `${project.murmur}/records`, kilobytes: 128, keep: kept }],
  });
  assert.equal(run.status, 1, run.stderr);
  assert.match(run.stdout, /\nstatus: {2}failed\n$/);
  assert.match(run.stderr, /^error\[E-RUN-007\]: trace write failed: cannot write trace\.jsonl: no space is left$/m);
  for (const name of ["sessions", "running"]) assert.deepEqual([...Deno.readDirSync(`${project.murmur}/${name}`)], []);

  const text = await Deno.readTextFile(`${kept}${project.project}/workdir/${run.sessionId}/trace.jsonl`);
  assert.ok(text.endsWith("}\n"));
  const lines = text.trimEnd().split("\n").map((line) => JSON.parse(line) as TraceLine);
  assert.deepEqual([...new Set(lines.map(({ event_type }) => event_type))].slice(0, 4), [
    "session_start",
    "task_start",
    "inference",
    "tool_call",
  ]);
  assert.ok(lines.length > 100, String(lines.length));
  await Deno.remove(`${project.murmur}/records`);
  await Deno.rename(kept, `${project.murmur}/records`);
  const shown = await project.mur(["trace", "show", run.sessionId!]);
  assert.equal(shown.status, 0, shown.stderr);
  assert.match(shown.stdout, /no-such-tool/);
});
