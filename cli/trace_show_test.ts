import assert from "node:assert/strict";
import { MurError } from "../base/errors.ts";
import { murmurHomeAt, recordsGroup } from "../base/murmur_home.ts";
import { RootedDir } from "../base/rooted_dir.ts";
import { sha256Hex } from "../runtime/trace/trace_redaction.ts";
import { TraceWriter } from "../runtime/trace/trace_writer.ts";
import type { Capture } from "../runtime/trace/wire_capture.ts";
import { testContext } from "../tests/support/cli_context.ts";
import { traceShow, type TraceShowOptions, traceWorkdir } from "./trace_show.ts";

const SESSION = "ses_019a00112100744455667788990011aa";
const REQUEST = {
  system: "[Capsule]\nName: demo",
  toolsJson: '[{"name":"fetch"}]',
  messageJsons: ['{"role":"user","content":[]}', '{"role":"assistant","content":[{"type":"text","text":"ä"}]}'],
};
const RESPONSE = '{"stop_reason":"tool_call"}';

function hash(text: string): string {
  return `${sha256Hex(text).slice(0, 12)}…`;
}

class Bench {
  readonly root: string;
  /** What the last command printed. */
  output: () => string = () => "";

  constructor(root: string) {
    this.root = root;
  }

  get group(): string {
    return recordsGroup(murmurHomeAt(this.root), `${this.root}/project/workdir`);
  }

  async show(options: TraceShowOptions = {}): Promise<string> {
    const context = testContext(`${this.root}/project`, { HOME: this.root });
    this.output = context.out;
    assert.equal(await traceShow(context, options), 0);
    return context.out();
  }

  async refusal(options: TraceShowOptions): Promise<string> {
    try {
      await this.show(options);
    } catch (error) {
      if (!(error instanceof MurError)) throw error;
      return `${error.code}: ${error.message}`;
    }
    return "accepted";
  }

  /** A session written by the real writer. */
  trace(id: string, capture: Capture, work: (writer: TraceWriter, tick: (ms: number) => void) => void): void {
    const directory = `${this.group}/${id}`;
    Deno.mkdirSync(directory, { recursive: true });
    using records = RootedDir.open(directory);
    let now = 1_767_225_600_000;
    const writer = TraceWriter.open({ records, sessionId: id, capture, now: () => now });
    try {
      const hash = writer.wire.systemPrompt("operator's prompt");
      writer.write("session_start", {
        capsule_name: "demo",
        capsule_version: "1.0.0",
        model: "m-1",
        max_turns: 10,
        max_session_tokens: null,
        machine_tokens_per_day: null,
        capabilities: ["network", "shell"],
        tools_declared: ["bash", "fetch"],
        tool_refresh: "compaction",
        runtime_artifacts: [],
        containment_declared: "sealed",
        containment_achieved: "scoped",
        userns_grant: null,
        workdir_exec: false,
        resumed_from: null,
        context_id: null,
        system_prompt_source: "manifest",
        credential_source: "config",
        gateways: [],
        system_prompt_sha256: hash,
        effective_grants: {},
      });
      work(writer, (ms) => void (now += ms));
    } finally {
      writer.close();
    }
  }
}

async function withBench(work: (bench: Bench) => Promise<void>): Promise<void> {
  const root = await Deno.makeTempDir();
  try {
    await work(new Bench(root));
  } finally {
    await Deno.remove(root, { recursive: true });
  }
}

/** One task of two turns: a tool call, a shell command, an answer. */
function usualTask(
  writer: TraceWriter,
  tick: (ms: number) => void,
  task = "tsk_019a001121aa744455667788990011aa",
): void {
  writer.write("task_start", {
    task_id: task,
    context_id: "ctx_1",
    source: "task_md",
    origin: "user",
    trust: "trusted",
    lane: "user",
    message_parts_bytes: 5,
  });
  const base = { task_id: task, input_tokens: 1_100, output_tokens: 40 };
  writer.write("inference", {
    ...base,
    turn: 0,
    decision: "tool_call",
    stop_reason: "tool_call",
    tool_name: "fetch",
    input_tokens_actual: 1_050,
    cached_tokens: 900,
    ...writer.wire.response(writer.wire.request(REQUEST), RESPONSE),
  });
  writer.write("tool_call", {
    turn: 0,
    task_id: task,
    tool_name: "fetch",
    tool_call_id: "c1",
    input: { path: "a.txt", note: "\u001b[2J" },
    input_bytes: 10,
    output_bytes: 3,
    duration_ms: 1_500,
    status: "ok",
    state_effect: "read",
  });
  writer.write("tool_call", {
    turn: 0,
    task_id: task,
    tool_name: "bash",
    tool_call_id: "c2",
    input: { command: "x".repeat(200) },
    input_bytes: 10,
    output_bytes: 3,
    duration_ms: 500,
    status: "error",
  });
  writer.write("shell", {
    turn: 0,
    task_id: task,
    binary: "/bin/bash",
    command: "x",
    exit_code: 127,
    stdout_bytes: 0,
    stderr_bytes: 1,
    duration_ms: 480,
  });
  tick(2_000);
  writer.write("inference", { ...base, turn: 1, decision: "end_turn", stop_reason: "end_turn", tool_name: null });
  writer.endTask({ exitStatus: "ok", reopenCount: 0 });
}

Deno.test("the summary of an ordinary session", () =>
  withBench(async (bench) => {
    bench.trace(SESSION, "meta", (writer, tick) => {
      usualTask(writer, tick);
      writer.endSession("ok");
    });
    assert.equal(
      await bench.show(),
      `── Session ──────────────────────────────────────
session:    ${SESSION}
capsule:    demo v1.0.0
model:      m-1
status:     ok
duration:   2.0s
capabilities: network, shell
tools:      bash, fetch
containment: sealed → scoped
workdir exec: no
prompt:     manifest  ${hash("operator's prompt")}

── Turns ────────────────────────────────────────
count:      2  (max: 10)

── Tokens ───────────────────────────────────────
input:      2,200  (avg 1100/turn)
output:     80  (avg 40/turn)
total:      2,280
provider:   in 1,050, cached 900

── Wire ─────────────────────────────────────────
turn 0  system ${hash(REQUEST.system)}  tools ${hash(REQUEST.toolsJson)}  response ${hash(RESPONSE)}  2 message(s)
bodies:     mur trace show --body system --turn 0

── Tool calls ───────────────────────────────────
count:      2  (1 ok, 1 error)  success 50.0%
latency:    avg 1.0s
  turn 0  fetch 1.5s ✓  {"path":"a.txt","note":"\\u001b[2J"}
  turn 0  bash 500ms ✗  {"command":"${"x".repeat(108)}…
  turn 1  end_turn

── Redundant calls ──────────────────────────────
count:      0

── Skill calls ──────────────────────────────────
count:      0

── Shell calls ──────────────────────────────────
count:      1
exit codes: 0 ok, 1 failed (exit 127)
latency:    avg 480ms

── Compaction ───────────────────────────────────
fired:      no
`,
    );
  }));

Deno.test("a session that died: its last event, totals from the lines, half a line told", () =>
  withBench(async (bench) => {
    bench.trace(SESSION, "none", (writer, tick) => {
      usualTask(writer, tick);
      writer.write("task_start", {
        task_id: "tsk_2",
        context_id: "ctx_1",
        source: "a2a",
        origin: "event",
        trust: "untrusted",
        lane: "bg",
        message_parts_bytes: 5,
      });
    });
    const path = `${bench.group}/${SESSION}/trace.jsonl`;
    let text = await bench.show();
    assert.match(
      text,
      /status: {5}ended without a session_end {2}\(last event: task_start at 2026-01-01T00:00:02\.000Z\)/,
    );
    assert.match(text, /duration: {3}2\.0s/);
    assert.match(text, /input: {6}2,200 {2}\(avg 1100\/turn\)/);
    assert.doesNotMatch(text, /── Wire/);
    await Deno.writeTextFile(path, '{"event_type":"from_the_future"}\n{"event_type":"infer', { append: true });
    text = await bench.show({ session: path });
    assert.match(text, /last event: from_the_future, then half a line\)/);
  }));

Deno.test("sections that show only when there is something in them, in order", () =>
  withBench(async (bench) => {
    bench.trace(SESSION, "meta", (writer, tick) => {
      writer.write("retention", { store: "sessions", reason: "max_age", removed: 2, targets: ["ses_a", "ses_b"] });
      usualTask(writer, tick);
      usualTask(writer, tick, "tsk_019a001121bb744455667788990011aa");
      writer.write("task_failed", { task_id: "tsk_3", turn: 0, cause: "driver_error", reason: "one\ntwo" });
      writer.write("task_canceled", {
        task_id: "tsk_4",
        phase: "queued",
        detached_work_ids: ["wrk_1"],
        delegation_ids: [],
      });
      writer.write("task_rejected", {
        task_id: "tsk_5",
        context_id: "ctx",
        source: "a2a",
        cause: "session_ended",
        reason: "r",
      });
      writer.write("call_denied", {
        turn: 0,
        event: "on-shell",
        hook_name: "h",
        target: "bash",
        reason: "no ".repeat(40),
      });
      writer.second.write("resource_read", {
        path: "p",
        outcome: "not_found",
        bytes: null,
        sha256: null,
        generation: 0,
        containment_achieved: "scoped",
        reason: "gone",
      });
      writer.second.write("delegation_start", {
        delegation_id: "dlg_019a001121aa744455667788990011aa",
        capsule: "coder",
        version: "1.0.0",
        child_session_id: SESSION,
        child_workdir: "/abs/children/coder-1",
      });
      writer.write("artifact_pulled", {
        name: "a",
        version: "1",
        runtime: "tool",
        origin: "runtime",
        session: SESSION,
        trust: "untrusted",
      });
      writer.write("a2a_send", {
        peer_url: "http://localhost:1",
        message_id: "m",
        task_id: "t",
        context_id: "c",
        traceparent: null,
        trust: "trusted",
      });
      writer.write("compaction_declined", { turn: 1, task_id: null, tokens: 9_100, reason: "no_hook_replacement" });
      writer.write("hook_dispatch_error", { hook_name: "h", event: "drain", arm: "timeout" });
      writer.endSession("failed");
    });
    const text = await bench.show();
    assert.deepEqual([...text.matchAll(/^── (.+?) ─+$/gm)].map((match) => match[1]), [
      "Session",
      "Hook failures",
      "Retention",
      "Turns",
      "Tokens",
      "Wire",
      "Tool calls",
      "Redundant calls",
      "Skill calls",
      "Pulled at runtime",
      "Shell calls",
      "Compaction",
      "Cancelled",
      "Rejected",
      "Failed",
      "Denied calls",
      "Resource plane",
      "Delegations",
      "A2A",
      "Tasks",
    ]);
    for (
      const line of [
        "✗ h  drain  timeout",
        "sessions  max_age  removed 2",
        "  ses_a, ses_b",
        "  turn 0  fetch  a.txt  (re-reads turn 0)",
        "a@1  tool  runtime/untrusted",
        "declined:   at turn 1  (9,100 tokens)  no_hook_replacement",
        "task_canceled  at queued  tsk_4",
        "  still running: wrk_1",
        "task_rejected  tsk_5  session_ended  source a2a",
        "task_failed  driver_error  tsk_3  at turn 0",
        "reason:     one",
        "            two",
        `turn 0  on-shell  bash  by h  “${"no ".repeat(40).slice(0, 80)}…”`,
        "read:       1 not_found",
        "dlg_019a0011…  coder@1.0.0  ses_019a0011…  in flight",
        `  child trace: ${bench.root}/.murmur/records/abs/children/coder-1/${SESSION}/trace.jsonl`,
        "received:   0 task(s)",
        "  → http://localhost:1",
        "task 2  tsk_019a0011  turns: 2  in: 2,200  out: 80  ok  2.0s",
      ]
    ) assert.ok(text.includes(`${line}\n`), line);
  }));

Deno.test("no control character of a trace reaches the terminal", () =>
  withBench(async (bench) => {
    bench.trace(SESSION, "meta", (writer) => {
      writer.write("task_failed", {
        task_id: "tsk_1",
        cause: "driver_error",
        reason: "\u001b]0;x\u0007\u009b31m\u202e",
      });
    });
    // deno-lint-ignore no-control-regex
    assert.doesNotMatch(await bench.show(), /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u202e]/);
  }));

Deno.test("bodies: verbatim, by selector and by hash", () =>
  withBench(async (bench) => {
    bench.trace(SESSION, "content", (writer, tick) => usualTask(writer, tick));
    const body = (selector: string, turn?: number) =>
      bench.show({ body: selector, ...(turn === undefined ? {} : { turn }) });
    assert.equal(await body("system", 0), REQUEST.system);
    assert.equal(await body("tools", 0), REQUEST.toolsJson);
    assert.equal(await body("response", 0), RESPONSE);
    assert.equal(await body("message:1", 0), REQUEST.messageJsons[1]);
    const { system_prompt_sha256: hash } = JSON.parse(
      (await Deno.readTextFile(`${bench.group}/${SESSION}/trace.jsonl`)).split("\n")[0]!,
    );
    assert.equal(await body(hash), "operator's prompt");
    assert.equal(await body(hash.slice(0, 8)), "operator's prompt");
    assert.equal(
      await bench.show({ session: `${bench.group}/${SESSION}/trace.jsonl`, body: hash }),
      "operator's prompt",
    );
  }));

Deno.test("every refusal of --body", () =>
  withBench(async (bench) => {
    bench.trace(SESSION, "meta", (writer, tick) => usualTask(writer, tick));
    assert.equal(
      await bench.refusal({ body: "system" }),
      "E-TRC-001: --turn is required with --body system; this trace has turns 0, 1",
    );
    assert.equal(
      await bench.refusal({ body: "tools", turn: 9 }),
      "E-TRC-001: turn 9 has no inference record in this trace",
    );
    assert.equal(
      await bench.refusal({ body: "response", turn: 1 }),
      "E-TRC-001: turn 1 recorded no content hashes — the session ran under trace.capture: none",
    );
    assert.equal(
      await bench.refusal({ body: "message:2", turn: 0 }),
      "E-TRC-001: turn 0 recorded 2 messages; there is no message 2",
    );
    for (
      const [selector, what] of [["system", "system prompt"], ["tools", "tool schemas"], ["response", "response"], [
        "message:0",
        "message 0",
      ]]
    ) {
      assert.match(
        await bench.refusal({ body: selector!, turn: 0 }),
        new RegExp(`^E-TRC-001: turn 0 ${what} [0-9a-f]{64}: recorded under capture: meta; no body was stored$`),
      );
    }
    for (const unknown of ["ffffffff", "abc", "SYSTEM", "message:x", "../../etc/passwd"]) {
      assert.equal(await bench.refusal({ body: unknown }), `E-TRC-001: no hash in this trace matches ${unknown}`);
    }
    assert.equal(await bench.refusal({ turn: 0 }), "E-TRC-001: --turn has no meaning without --body");
  }));

Deno.test("a body that is not what was recorded, or stands behind a link, is not printed", () =>
  withBench(async (bench) => {
    bench.trace(SESSION, "content", (writer, tick) => usualTask(writer, tick));
    const blobs = `${bench.group}/${SESSION}/blobs`;
    for (const { name } of [...Deno.readDirSync(blobs)]) Deno.writeTextFileSync(`${blobs}/${name}`, "changed");
    assert.match(await bench.refusal({ body: "system", turn: 0 }), /^E-TRC-001: .*not what was recorded$/);
    Deno.writeTextFileSync(`${bench.root}/secret`, "secret");
    for (const { name } of [...Deno.readDirSync(blobs)]) {
      Deno.removeSync(`${blobs}/${name}`);
      Deno.symlinkSync(`${bench.root}/secret`, `${blobs}/${name}`);
    }
    assert.match(await bench.refusal({ body: "system", turn: 0 }), /^E-IO-003: /);
    assert.equal(bench.output(), "");
  }));

Deno.test("addresses and missing traces", () =>
  withBench(async (bench) => {
    assert.equal(
      await bench.refusal({}),
      `E-TRC-002: no sessions found in workdir at ${bench.root}/project/workdir`,
    );
    await Deno.mkdir(`${bench.group}/${SESSION}`, { recursive: true });
    assert.match(await bench.refusal({}), /^E-IO-001: /);
    await Deno.writeTextFile(`${bench.group}/${SESSION}/trace.jsonl`, "");
    assert.match(await bench.refusal({}), /^E-TRC-001: .*the trace is empty$/);
    await Deno.writeTextFile(`${bench.group}/${SESSION}/trace.jsonl`, "{}\n");
    assert.match(await bench.refusal({ session: "11aa" }), /^E-TRC-001: .*trace\.jsonl:1: missing key 'event_type'$/);
    assert.match(
      await bench.refusal({ workdir: "elsewhere" }),
      /^E-TRC-002: no sessions found in workdir at .*\/elsewhere$/,
    );
  }));

Deno.test("the work folder is taken against the current directory", () => {
  const at = (workdir: string | undefined) => traceWorkdir({ cwd: "/p/q" }, workdir);
  assert.deepEqual([undefined, ".", "../x/", "/a//b/../c", "/", "a/./b"].map(at), [
    "/p/q/workdir",
    "/p/q",
    "/p/x",
    "/a/c",
    "/",
    "/p/q/a/b",
  ]);
});
