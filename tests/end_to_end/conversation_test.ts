/**
 * Conversation records, contexts and resuming over several launches (spec session 13).
 *
 * @module
 */
import type { JsonObject } from "../../base/json_value.ts";
import assert from "node:assert/strict";
import { type AgentProject, agentProject, type AgentRun, capsule } from "../support/agent_project.ts";

const threaded = { lifecycle: { conversation: "threaded" } };
const show: JsonObject = { turns: [{ show: "request" }] };

/** Texts of the messages a run that shows its request was sent. */
function sentTexts(run: AgentRun): string[] {
  assert.equal(run.status, 0, run.stderr);
  const { messages } = JSON.parse(run.result!) as { messages: { content: { text: string }[] }[] };
  return messages.map(({ content }) => content[0]!.text);
}

function recordPath(project: AgentProject, context: unknown, store = "probe"): string {
  return `${project.murmur}/conversations/${store}/${context}/conversation.jsonl`;
}

async function record(project: AgentProject, context: unknown, store?: string): Promise<JsonObject[]> {
  const text = await Deno.readTextFile(recordPath(project, context, store));
  assert.ok(text.endsWith("\n"));
  return text.trimEnd().split("\n").map((line) => JSON.parse(line));
}

const contextOf = (run: AgentRun) => run.events("task_start")[0]!.context_id;

Deno.test("a conversation is recorded unless the manifest says otherwise", async () => {
  await using project = await agentProject(capsule());
  await project.write("off/murmur.yaml", JSON.stringify(capsule({ context: { record: "off" } })));
  await project.write("named/murmur.yaml", JSON.stringify(capsule({ context: { record_store: "shared" } })));
  const [plain, off, named, failed] = await Promise.all([
    project.run({ task: "hello" }),
    project.run({ task: "hello", args: ["--manifest", "off/murmur.yaml"], workdir: `${project.project}/off` }),
    project.run({ task: "hello", args: ["--manifest", "named/murmur.yaml"], workdir: `${project.project}/named` }),
    project.run({ task: { turns: [{ stop: "error" }] } }),
  ]);
  const path = recordPath(project, contextOf(plain));
  for (const at of [path, recordPath(project, contextOf(named), "shared")]) {
    for (let directory = at.slice(0, at.lastIndexOf("/")), n = 0; n < 3; n++) {
      assert.equal(Deno.statSync(directory).mode! & 0o777, 0o700, directory);
      directory = directory.slice(0, directory.lastIndexOf("/"));
    }
    assert.equal(Deno.statSync(at).mode! & 0o777, 0o600);
  }
  const lines = await record(project, contextOf(plain));
  assert.deepEqual(lines.map((line) => Object.keys(line)), [["role", "content", "id"], ["role", "content", "id"]]);
  assert.deepEqual(lines.map(({ role, content }) => [role, content]), [
    ["user", [{ type: "text", text: "hello" }]],
    ["assistant", [{ type: "text", text: "you said: hello" }]],
  ]);
  assert.equal(lines[0]!.id, (plain.events("inference")[0]!.message_ids as string[])[0]);
  await assert.rejects(Deno.stat(recordPath(project, contextOf(off))), Deno.errors.NotFound);
  // A failed task has recorded what it sent.
  assert.equal((await record(project, contextOf(failed))).length, 1);
});

Deno.test("a context is continued by launches that give its id, when the capsule is threaded", async () => {
  await using project = await agentProject(capsule(threaded));
  await project.write("stateless/murmur.yaml", JSON.stringify(capsule()));
  const first = await project.run({ task: "one", args: ["--context", "talk"] });
  assert.equal(first.events("session_start")[0]!.context_id, "talk");
  assert.equal(contextOf(first), "talk");
  const second = await project.run({ task: show, args: ["--context", "talk"] });
  assert.deepEqual(sentTexts(second), ["one", "you said: one", JSON.stringify(show)]);
  const stateless = await project.run({
    task: show,
    args: ["--context", "talk", "--manifest", "stateless/murmur.yaml"],
    workdir: `${project.project}/stateless`,
  });
  assert.deepEqual(sentTexts(stateless), [JSON.stringify(show)]);
  const ids = (await record(project, "talk")).map(({ id }) => id);
  assert.equal(ids.length, 6);
  assert.equal(new Set(ids).size, 6);
  assert.deepEqual(second.events("inference")[0]!.message_ids, ids.slice(0, 3));

  // A torn end costs itself alone.
  await Deno.writeTextFile(recordPath(project, "talk"), '{"role":"user","content":[{"type":"te', { append: true });
  const torn = await project.run({ task: show, args: ["--context", "talk"] });
  assert.equal(sentTexts(torn).length, 7);
  assert.match(torn.stderr, /line 7\b/);
  const text = await Deno.readTextFile(recordPath(project, "talk"));
  assert.match(text, /\[\{"type":"te\n\{"role":"user"/);
});

Deno.test("calls that a turn left unanswered are answered when the conversation goes on", async () => {
  await using project = await agentProject(capsule(threaded));
  const odd = {
    raw: JSON.stringify({
      stop_reason: "end_turn",
      content: [{ type: "text", text: "done" }, { type: "tool_call", id: "c1", name: "nothing", input: {} }],
    }),
  };
  const first = await project.run({ task: { turns: [odd] }, args: ["--context", "odd"] });
  assert.deepEqual([first.status, first.result], [0, "done"], first.stderr);
  const next = await project.run({ task: show, args: ["--context", "odd"] });
  const { messages } = JSON.parse(next.result!);
  assert.deepEqual(messages.map(({ role }: JsonObject) => role), ["user", "assistant", "tool", "user"]);
  assert.deepEqual([messages[2].tool_call_id, messages[2].is_error], ["c1", true]);
});

Deno.test("a state store outlives the session and is the declaring artifact's alone", async () => {
  const probe = (input: JsonObject): JsonObject => ({ name: "probe-tool", input });
  await using project = await agentProject(capsule({
    artifacts: [{
      name: "probe-tool",
      version: "1.0.0",
      runtime: "tool",
      capabilities: { state: { store: "shared" } },
    }],
  }));
  const calls = (...made: JsonObject[]): JsonObject => ({ turns: [{ calls: made }, { show: "results" }] });
  const first = await project.run({ task: calls(probe({ operation: "write", path: "state/note", text: "kept" })) });
  assert.equal(first.status, 0, first.stderr);
  const store = `${project.murmur}/state/shared`;
  assert.equal(Deno.statSync(store).mode! & 0o777, 0o700);
  await Deno.chmod(store, 0o755);
  const second = await project.run({
    task: calls(
      probe({ operation: "read", path: "state/note" }),
      probe({ operation: "read", path: "state/../../../config.yaml" }),
      probe({ operation: "list", path: "." }),
    ),
  });
  const results = JSON.parse(second.result!) as { text: string; error: boolean }[];
  assert.match(results[0]!.text, /\nkept\n/);
  assert.deepEqual(results.map(({ error }) => error), [false, true, false]);
  assert.match(results[2]!.text, /\n\[\]\n/);
  assert.equal(Deno.statSync(store).mode! & 0o777, 0o700);
  assert.deepEqual(
    (second.events("session_start")[0]!.effective_grants as JsonObject).state_stores,
    [{ artifact: "probe-tool", store: "shared", host_path: store }],
  );
});

Deno.test("two launches at the same time share a context", async () => {
  await using project = await agentProject(capsule(threaded));
  const runs = await Promise.all(
    ["a", "b", "c"].map((text) =>
      project.run({ task: { turns: [{ delayMs: 200, text: `to ${text}` }] }, args: ["--context", "both"] })
    ),
  );
  for (const run of runs) assert.equal(run.status, 0, run.stderr);
  const lines = await record(project, "both");
  assert.equal(lines.length, 6);
  const answers = lines.filter(({ role }) => role === "assistant").map(({ content }) => JSON.stringify(content));
  for (const text of ["a", "b", "c"]) assert.ok(answers.some((answer) => answer.includes(`"to ${text}"`)));
});

Deno.test("a session is resumed by its address, whatever the capsule's conversation says", async () => {
  await using project = await agentProject(capsule());
  const older = await project.run({ task: "older" });
  const newest = await project.run({ task: "newer" });
  const resumes: readonly [readonly string[], AgentRun][] = [
    [["--resume", older.sessionId!], older],
    [["--resume", older.sessionId!.slice(-6)], older],
  ];
  // The newest one is asked for first: each resume is a session itself.
  const latest = await project.run({ task: show, args: ["--resume"] });
  assert.equal(latest.events("session_start")[0]!.resumed_from, newest.sessionId);
  assert.deepEqual(sentTexts(latest), ["newer", "you said: newer", JSON.stringify(show)]);
  for (const [args, target] of resumes) {
    const run = await project.run({ task: show, args });
    const [start] = run.events("session_start");
    assert.deepEqual([start!.resumed_from, start!.context_id], [target.sessionId, contextOf(target)]);
    assert.equal(sentTexts(run)[0], "older");
  }
  const second = await project.run({ task: show, args: ["--resume", "@3"] });
  assert.equal(second.events("session_start")[0]!.resumed_from, latest.sessionId);
});

Deno.test("a resume that cannot be is refused before anything is made", async () => {
  await using project = await agentProject(capsule());
  await project.write("off/murmur.yaml", JSON.stringify(capsule({ context: { record: "off" } })));
  const idle = await project.run();
  assert.equal(idle.status, 0, idle.stderr);
  const made = await project.run({ task: "hello" });
  const off = await project.run({
    task: "hello",
    args: ["--manifest", "off/murmur.yaml"],
    workdir: `${project.project}/off`,
  });
  // A trace that breaks off after its task began is enough.
  await Deno.writeTextFile(`${made.records}/trace.jsonl`, `${made.traceText.split("\n").slice(0, 2).join("\n")}\n{"ev`);
  const torn = await project.run({ task: show, args: ["--resume", made.sessionId!] });
  assert.equal(sentTexts(torn).length, 3);
  await Deno.remove(recordPath(project, contextOf(made)));
  const before = [...Deno.readDirSync(`${project.murmur}/records${project.project}/workdir`)].length;
  const refusals: readonly [string, readonly string[]][] = [
    ["E-RUN-015", ["--resume", "--context", "x"]],
    ["E-RUN-016", ["--resume", idle.sessionId!]],
    ["E-RUN-017", ["--resume", made.sessionId!]],
    ["E-RUN-018", ["--resume", torn.sessionId!, "--resume-mode", "compact"]],
    ["E-TRC-002", ["--resume", "ses_00000000000000000000000000000000"]],
    ["E-RUN-039", ["--context", "x", "--forget-session"]],
    ["E-CAP-011", ["--context", "../x"]],
    ["E-CAP-011", ["--context", "a/b"]],
    ["E-CAP-011", ["--context", ".hidden"]],
    ["E-CAP-011", ["--context", ""]],
    ["E-CAP-011", ["--context", ".."]],
  ];
  for (let at = 0; at < refusals.length; at += 4) {
    await Promise.all(
      refusals.slice(at, at + 4).map(async ([code, args]) => {
        const run = await project.run({ task: "x", args });
        assert.equal(run.status, 1, `${args}: ${run.stdout}`);
        assert.match(run.stderr, new RegExp(`^error\\[${code}\\]: `, "m"), args.join(" "));
        assert.equal(run.stdout, "status:  failed\n");
      }),
    );
  }
  const offAgain = await project.run({
    task: "x",
    args: ["--manifest", "off/murmur.yaml", "--resume", off.sessionId!],
    workdir: `${project.project}/off`,
  });
  assert.match(offAgain.stderr, /^error\[E-RUN-017\]: /m);
  assert.equal([...Deno.readDirSync(`${project.murmur}/records${project.project}/workdir`)].length, before);
  assert.deepEqual([...Deno.readDirSync(`${project.murmur}/sessions`)], []);
});
