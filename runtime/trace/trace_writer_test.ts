import assert from "node:assert/strict";
import { MurError } from "../../base/errors.ts";
import { RootedDir } from "../../base/rooted_dir.ts";
import { canMount, onSmallDisk } from "../../tests/support/own_mounts.ts";
import type { TraceEventBody, TraceEventType } from "./trace_event.ts";
import { parseTrace } from "./trace_reader.ts";
import { tokenId } from "./trace_redaction.ts";
import { type TraceOptions, TraceWriter } from "./trace_writer.ts";

const SESSION = "ses_019a00112100744455667788990011aa";

const START: TraceEventBody<"session_start"> = {
  capsule_name: "demo",
  capsule_version: "1.0.0",
  model: "m-1",
  max_turns: 10,
  max_session_tokens: null,
  machine_tokens_per_day: null,
  capabilities: [],
  tools_declared: [],
  tool_refresh: "compaction",
  runtime_artifacts: [],
  containment_declared: "advisory",
  containment_achieved: "advisory",
  userns_grant: null,
  workdir_exec: false,
  resumed_from: null,
  context_id: null,
  system_prompt_source: "none",
  credential_source: "none",
  gateways: [],
  system_prompt_sha256: null,
  effective_grants: {},
};

function taskStart(id: string): TraceEventBody<"task_start"> {
  return {
    task_id: id,
    context_id: "ctx_1",
    source: "task_md",
    origin: "user",
    trust: "trusted",
    lane: "user",
    message_parts_bytes: 3,
  };
}

function turn(
  number: number,
  task: string,
  more: Partial<TraceEventBody<"inference">> = {},
): TraceEventBody<"inference"> {
  return {
    turn: number,
    task_id: task,
    input_tokens: 100,
    output_tokens: 10,
    decision: "end_turn",
    stop_reason: "end_turn",
    tool_name: null,
    ...more,
  };
}

function toolCall(
  number: number,
  task: string,
  more: Partial<TraceEventBody<"tool_call">> = {},
): TraceEventBody<"tool_call"> {
  return {
    turn: number,
    task_id: task,
    tool_name: "fetch",
    tool_call_id: "c1",
    input: {},
    input_bytes: 2,
    output_bytes: 0,
    duration_ms: 1,
    status: "ok",
    ...more,
  };
}

async function withTrace(
  work: (writer: TraceWriter, directory: string) => void | Promise<void>,
  options: Partial<TraceOptions> = {},
): Promise<void> {
  const directory = await Deno.makeTempDir();
  const records = RootedDir.open(directory);
  const writer = TraceWriter.open({ records, sessionId: SESSION, capture: "meta", ...options });
  try {
    await work(writer, directory);
  } finally {
    writer.close();
    records.close();
    await Deno.remove(directory, { recursive: true });
  }
}

function lines(directory: string): Record<string, unknown>[] {
  const text = Deno.readTextFileSync(`${directory}/trace.jsonl`);
  assert.ok(text === "" || text.endsWith("\n"));
  return text.split("\n").slice(0, -1).map((line) => JSON.parse(line));
}

Deno.test("the tree: session, task and turn nodes as the specification draws them", () =>
  withTrace((writer, directory) => {
    const early = writer.second.write("resource_read", {
      path: "x",
      outcome: "ok",
      bytes: 1,
      sha256: null,
      generation: 0,
      containment_achieved: "advisory",
      reason: null,
    });
    const session = writer.write("session_start", START);
    const outside = writer.write("inference", turn(0, "none", { task_id: null, origin: "hook:h" }));
    const task = writer.write("task_start", taskStart("tsk_1"));
    const refused = writer.write("tool_input_refused", {
      turn: 0,
      tool_name: "t",
      tool_call_id: null,
      missing: ["a"],
      reason: "r",
    });
    const first = writer.write("inference", turn(0, "tsk_1", { decision: "tool_call" }));
    const hook = writer.write("inference", turn(0, "tsk_1", { origin: "hook:h" }));
    const call = writer.write("tool_call", toolCall(0, "tsk_1"));
    const pulled = writer.write("artifact_pulled", {
      name: "a",
      version: "1",
      runtime: "tool",
      origin: "runtime",
      session: SESSION,
      trust: "untrusted",
    });
    const refreshed = writer.write("tools_refreshed", {
      turn: 1,
      task_id: "tsk_1",
      trigger: "immediate",
      added: ["a"],
      removed: [],
      tools: ["a"],
    });
    const second = writer.write("inference", turn(1, "tsk_1"));
    const queued = writer.write("task_canceled", {
      task_id: "tsk_9",
      phase: "queued",
      detached_work_ids: [],
      delegation_ids: [],
    });
    const canceled = writer.write("task_canceled", {
      task_id: "tsk_1",
      turn: 1,
      phase: "turn",
      detached_work_ids: [],
      delegation_ids: [],
    });
    const end = writer.endTask({ exitStatus: "canceled", reopenCount: 0 });
    const between = writer.write("skill_call", {
      turn: 0,
      task_id: null,
      skill_name: "s",
      output_bytes: 1,
      duration_ms: 1,
      status: "ok",
      origin: "operator",
      trust: "trusted",
    });
    const nextTask = writer.write("task_start", taskStart("tsk_2"));
    const beforeTurn = writer.write("tool_call", toolCall(0, "tsk_2"));
    writer.endTask({ exitStatus: "ok", reopenCount: 0 });
    const plan = writer.second.write("plan_start", { plan_id: "p", step_count: 0, steps: [] })!;
    const planEnd = writer.second.write("plan_end", {
      plan_id: "p",
      outcome: "completed",
      steps_total: 0,
      steps_succeeded: 0,
      steps_failed: 0,
      steps_skipped: 0,
      duration_ms: 0,
    }, { plan });
    writer.endSession("ok");

    const parents = new Map(lines(directory).map((line) => [line.event_id, line.parent_id]));
    const expected: [string | null, string | null][] = [
      [early, null],
      [session, null],
      [outside, session],
      [task, session],
      [refused, task],
      [first, task],
      [hook, first],
      [call, first],
      [pulled, session],
      [refreshed, task],
      [second, task],
      [queued, session],
      [canceled, task],
      [end, task],
      [between, session],
      [nextTask, session],
      [beforeTurn, nextTask],
      [plan, session],
      [planEnd, plan],
    ];
    for (const [id, parent] of expected) assert.equal(parents.get(id), parent, String(id));
    assert.equal(session, writer.sessionNode);

    // Invariants of section 8.
    const seen = new Set<unknown>();
    for (const line of lines(directory)) {
      assert.equal(line.session_id, SESSION);
      assert.ok(!seen.has(line.event_id));
      if (line.parent_id !== null) assert.ok(seen.has(line.parent_id), String(line.event_type));
      seen.add(line.event_id);
    }
  }));

Deno.test("counts follow the table: hooks spend tokens, failed http calls count nothing, tasks add up to the session", () =>
  withTrace((writer, directory) => {
    writer.write("session_start", START);
    writer.write("task_start", taskStart("tsk_1"));
    writer.write("inference", turn(0, "tsk_1", { decision: "tool_call" }));
    writer.write("tool_call", toolCall(0, "tsk_1"));
    writer.write("shell", {
      turn: 0,
      task_id: "tsk_1",
      binary: "/bin/ls",
      command: "",
      exit_code: 0,
      stdout_bytes: 0,
      stderr_bytes: 0,
      duration_ms: 1,
    });
    writer.write("shell_detached", {
      turn: 0,
      task_id: "tsk_1",
      work_id: "wrk_1",
      binary: "b",
      command: "",
      grace_ms: 1,
    });
    writer.write("inference", turn(1, "tsk_1", { origin: "hook:h", input_tokens: 7, output_tokens: 3 }));
    writer.write("inference", {
      turn: 1,
      task_id: "tsk_1",
      decision: "error",
      tool_name: null,
      origin: "hook:h",
      input_tokens: 5,
    });
    writer.write("inference", { turn: 1, task_id: "tsk_1", decision: "error", stop_reason: "error", tool_name: null });
    writer.write("skill_call", {
      turn: 1,
      task_id: "tsk_1",
      skill_name: "s",
      output_bytes: 1,
      duration_ms: 1,
      status: "ok",
      origin: "operator",
      trust: "trusted",
    });
    assert.equal(writer.taskCounts.turns, 1);
    writer.endTask({ exitStatus: "failed", reopenCount: 1 });
    writer.write("task_start", taskStart("tsk_2"));
    writer.write("inference", turn(0, "tsk_2", { decision: "error" }));
    writer.endTask({ exitStatus: "ok", reopenCount: 0 });
    writer.endSession("failed");

    const all = lines(directory);
    const [one, two] = all.filter((line) => line.event_type === "task_end");
    const end = all.at(-1)!;
    assert.deepEqual(
      [one!.turns, one!.input_tokens, one!.output_tokens, one!.tool_calls, one!.shell_calls, one!.reopen_count],
      [1, 112, 13, 1, 2, 1],
    );
    assert.deepEqual([two!.turns, two!.input_tokens, two!.output_tokens, two!.tool_calls], [1, 100, 10, 0]);
    assert.deepEqual(
      [end.total_turns, end.total_input_tokens, end.total_output_tokens, end.total_tool_calls, end.total_shell_calls],
      [2, 212, 23, 1, 2],
    );
    assert.equal(end.exit_status, "failed");
  }));

Deno.test("durations run from task_start and from the opening of the trace", async () => {
  let now = 10_000;
  await withTrace((writer, directory) => {
    now += 40;
    writer.write("session_start", START);
    writer.write("task_start", taskStart("tsk_1"));
    now += 812;
    writer.endTask({ exitStatus: "ok", reopenCount: 0 });
    now += 8;
    writer.endSession("ok");
    const all = lines(directory);
    assert.deepEqual(all.map((line) => line.timestamp), [10_040, 10_040, 10_852, 10_860]);
    assert.deepEqual(all.slice(-2).map((line) => line.duration_ms), [812, 860]);
  }, { now: () => now });
});

Deno.test("no credential and no peer-file token reaches a line", () => {
  const secret = "sk-live-0123456789";
  const token = "mh1.eyJ2IjoxfQ.bWFj";
  return withTrace((writer, directory) => {
    writer.write("session_start", START);
    writer.write("task_start", taskStart("tsk_1"));
    writer.write("tool_call", toolCall(0, "tsk_1", { input: { handle: token, key: secret }, output: `got ${token}` }));
    writer.write("shell", {
      turn: 0,
      task_id: "tsk_1",
      binary: "curl",
      command: `-H "authorization: ${secret}" ${token}`,
      exit_code: 0,
      stdout_bytes: 0,
      stderr_bytes: 0,
      duration_ms: 1,
    });
    writer.write("inference", {
      turn: 0,
      task_id: "tsk_1",
      decision: "error",
      tool_name: null,
      error: `401 for pw ${"x".repeat(3_000)}`,
    });
    writer.write("task_failed", { task_id: "tsk_1", cause: "driver_error", reason: `wrong key ${secret} or pw` });
    writer.second.write("member_call", {
      task_id: "tsk_1",
      call_id: "mcl_1",
      member: "m",
      status: "completed",
      duration_ms: 1,
      output: token,
      truncated: false,
      delivered: true,
    });
    const text = Deno.readTextFileSync(`${directory}/trace.jsonl`);
    assert.ok(!text.includes(secret));
    assert.ok(!text.includes("mh1."));
    assert.equal(text.split(`<handle:${tokenId(token)}>`).length - 1, 4);
    const all = lines(directory);
    assert.match(String(all[4]!.error), /^401 for \[redacted\] x+$/);
    assert.equal(new TextEncoder().encode(String(all[4]!.error)).length, 2_000);
    assert.equal(all[5]!.reason, "wrong key [redacted] or [redacted]");
  }, { credentials: () => [secret, "pw"] });
});

Deno.test("credentials are asked for at every line, so a rotated one counts at once", () => {
  let current: string[] = [];
  return withTrace((writer, directory) => {
    writer.write("harness_note", { text: "first-secret" });
    current = ["first-secret"];
    writer.write("harness_note", { text: "first-secret" });
    assert.deepEqual(lines(directory).map((line) => line.text), ["first-secret", "[redacted]"]);
  }, { credentials: () => current });
});

Deno.test("both writers of a file keep their lines whole", () =>
  withTrace((writer, directory) => {
    writer.write("session_start", START);
    for (let i = 0; i < 200; i++) {
      writer.write("harness_note", { text: "a".repeat(i * 37) });
      writer.second.write("harness_note", { text: "b".repeat(i * 11) });
    }
    assert.equal(lines(directory).length, 401);
  }));

Deno.test("after it is closed: the second writer is silent, the loop's ends the session", () => {
  const reports: string[] = [];
  return withTrace((writer) => {
    writer.write("session_start", START);
    writer.close();
    assert.equal(writer.second.write("harness_note", { text: "late" }), null);
    assert.equal(reports.length, 1);
    assert.throws(
      () => writer.write("task_start", taskStart("tsk_1")),
      (error: unknown) =>
        error instanceof MurError && error.code === "E-RUN-007" && error.message.startsWith("trace write failed: "),
    );
  }, { report: (text) => void reports.push(text) });
});

Deno.test("a trace that cannot be opened is E-RUN-007, and a link in its place is not followed", async () => {
  const directory = await Deno.makeTempDir();
  try {
    await Deno.writeTextFile(`${directory}/elsewhere`, "");
    await Deno.symlink("elsewhere", `${directory}/trace.jsonl`);
    using records = RootedDir.open(directory);
    assert.throws(
      () => TraceWriter.open({ records, sessionId: SESSION, capture: "meta" }),
      (error: unknown) => error instanceof MurError && error.code === "E-RUN-007",
    );
    assert.equal(await Deno.readTextFile(`${directory}/elsewhere`), "");
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
});

Deno.test("the trace is readable by its owner only", () =>
  withTrace((writer, directory) => {
    writer.write("session_start", START);
    assert.equal(Deno.statSync(`${directory}/trace.jsonl`).mode! & 0o777, 0o600);
  }));

Deno.test({
  name: "a full disk: tolerated lines are survived, others end the session, and no line is ever torn or joined",
  ignore: !canMount(),
  fn: async () => {
    const module = new URL("./trace_writer.ts", import.meta.url).href;
    const rooted = new URL("../../base/rooted_dir.ts", import.meta.url).href;
    const output = await onSmallDisk(`
      const { TraceWriter } = await import(${JSON.stringify(module)});
      const { RootedDir } = await import(${JSON.stringify(rooted)});
      const reports = [];
      const records = RootedDir.open(DIRECTORY);
      const writer = TraceWriter.open({ records, sessionId: ${
      JSON.stringify(SESSION)
    }, capture: "content", report: (t) => reports.push(t) });
      writer.write("session_start", ${JSON.stringify(START)});
      writer.wire.systemPrompt("kept");
      let written = 0;
      let code = "none";
      for (let i = 0; i < 100; i++) {
        try {
          writer.write("harness_note", { text: "x".repeat(9973) });
          written++;
        } catch (error) {
          code = error.code;
          break;
        }
      }
      const second = writer.second.write("harness_note", { text: "y".repeat(9973) });
      writer.write("compaction", { turn: 0, task_id: null, tokens_before: 1, tokens_after: 1, pad: "" });
      let huge = "x".repeat(20000);
      writer.write("shell_detached", { turn: 0, task_id: null, work_id: "wrk_1", binary: "b", command: huge, grace_ms: 1 });
      writer.wire.systemPrompt("z".repeat(200000));
      const text = Deno.readTextFileSync(DIRECTORY + "/trace.jsonl");
      const lines = text.split("\\n").slice(0, -1).map((line) => JSON.parse(line).event_type);
      console.log(JSON.stringify({ written, code, second, reports, whole: text.endsWith("\\n"), types: [...new Set(lines)], count: lines.length,
        blobs: [...Deno.readDirSync(DIRECTORY + "/blobs")].map((entry) => entry.name) }));
    `);
    const result = JSON.parse(output);
    assert.equal(result.code, "E-RUN-007");
    assert.ok(result.written > 5 && result.written < 14);
    assert.equal(result.second, null);
    assert.equal(result.whole, true);
    // What is small enough still finds room: the tolerated line, and the note that a detachment went unrecorded.
    assert.deepEqual(result.types, ["session_start", "harness_note", "compaction", "shell_detach_unrecorded"]);
    assert.equal(result.count, result.written + 3);
    assert.deepEqual(result.reports.map((text: string) => text.slice(0, 24)), [
      "trace write failed: cann",
      "trace write failed: cann",
      "a trace body could not b",
    ]);
    assert.equal(result.blobs.length, 1);
  },
});

Deno.test("a process killed while it writes leaves whole lines, half a line at most at the end", async () => {
  const directory = await Deno.makeTempDir();
  const script = `
    const { TraceWriter } = await import(${JSON.stringify(new URL("./trace_writer.ts", import.meta.url).href)});
    const { RootedDir } = await import(${JSON.stringify(new URL("../../base/rooted_dir.ts", import.meta.url).href)});
    const writer = TraceWriter.open({ records: RootedDir.open(Deno.args[0]), sessionId: "${SESSION}", capture: "meta" });
    writer.write("session_start", ${JSON.stringify(START)});
    console.log("ready");
    for (let i = 0; ; i++) {
      writer.write("harness_note", { text: String.fromCharCode(97 + i % 26).repeat(i * 7919 % 70000) });
      writer.second.write("harness_note", { text: "second" });
    }`;
  const file = `${directory}/writer.ts`;
  await Deno.writeTextFile(file, script);
  try {
    for (let round = 0; round < 20; round++) {
      const records = `${directory}/${round}`;
      await Deno.mkdir(records);
      const child = new Deno.Command(Deno.execPath(), {
        args: ["run", "-A", "--quiet", "--config", new URL("../../deno.json", import.meta.url).pathname, file, records],
        stdout: "piped",
        stderr: "null",
      }).spawn();
      const reader = child.stdout.getReader();
      assert.equal((await reader.read()).done, false);
      await new Promise((resolve) => setTimeout(resolve, Math.random() * 25));
      child.kill("SIGKILL");
      await child.status;
      await reader.cancel();
      const text = await Deno.readTextFile(`${records}/trace.jsonl`);
      const trace = parseTrace(text, "trace.jsonl");
      assert.equal(trace.end, null);
      const whole = text.split("\n").filter((line) => line !== "").length;
      assert.equal(trace.lines.length, trace.torn ? whole - 1 : whole);
      assert.equal(trace.torn, !text.endsWith("\n"));
    }
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
});

Deno.test("events with nothing but a session above them hang off it, empty bodies included", () =>
  withTrace((writer, directory) => {
    const types: TraceEventType[] = ["formation_ended", "spawner_ended", "harness_retry"];
    writer.write("session_start", START);
    writer.write("formation_ended", { formation_id: "frm_1" });
    writer.write("spawner_ended", {});
    writer.write("harness_retry", { attempt: 1, reason: "r" });
    assert.deepEqual(lines(directory).slice(1).map((line) => line.event_type), types);
  }));
