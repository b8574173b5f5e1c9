import assert from "node:assert/strict";
import { RootedDir } from "../../base/rooted_dir.ts";
import { lostCommands, markLostCommands, type Reconciler } from "./lost_commands.ts";

const BY: Reconciler = { lostSession: "ses_old", session: "ses_new", taskId: "tsk_1", nowMs: 9 };

const line = (value: object) => `${JSON.stringify(value)}\n`;
const START = line({ event_type: "session_start", event_id: "evt_s" });
const detached = (id: string) =>
  line({ event_type: "shell_detached", work_id: id, binary: "/bin/sleep", command: "60", timestamp: 5 });

Deno.test("a detached command is lost when no line ends it", () => {
  const text = START + detached("wrk_1") + detached("wrk_2") + detached("wrk_3") + detached("wrk_4") +
    line({ event_type: "shell_completed", work_id: "wrk_1" }) + "garbage\n" +
    line({ event_type: "shell_abandoned", work_id: "wrk_2" }) + line({ event_type: "shell_lost", work_id: "wrk_3" }) +
    '{"event_type":"shell_completed","work_id":"wrk_4"';
  assert.deepEqual(lostCommands(text), [
    { workId: "wrk_4", binary: "/bin/sleep", command: "60", detachedAtMs: 5 },
  ]);
  assert.deepEqual(lostCommands(""), []);
});

async function withTrace(text: string, work: (records: RootedDir, path: string) => void): Promise<void> {
  const directory = await Deno.makeTempDir();
  try {
    await Deno.writeTextFile(`${directory}/trace.jsonl`, text);
    using records = RootedDir.open(directory);
    work(records, `${directory}/trace.jsonl`);
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
}

Deno.test("each is marked in the old trace, hung off its start, and a second resume finds nothing", () =>
  withTrace(START + detached("wrk_1") + detached("wrk_2"), (records, path) => {
    const text = Deno.readTextFileSync(path);
    const lost = lostCommands(text);
    assert.deepEqual(markLostCommands(records, text, lost, BY), lost);
    const after = Deno.readTextFileSync(path);
    assert.ok(after.startsWith(text));
    const [first, second] = after.slice(text.length).trimEnd().split("\n").map((row) => JSON.parse(row));
    assert.deepEqual(Object.keys(first), [
      "event_type",
      "event_id",
      "parent_id",
      "session_id",
      "timestamp",
      "work_id",
      "binary",
      "command",
      "detached_at_ms",
      "reconciled_by_session",
      "reconciled_task_id",
    ]);
    assert.equal(first.parent_id, "evt_s");
    assert.equal(first.session_id, "ses_old");
    assert.notEqual(first.event_id, second.event_id);
    assert.deepEqual(lostCommands(after), []);
  }));

Deno.test("a torn tail is closed with a newline first; without a readable start there is no parent key", () =>
  withTrace('{"event_type":"session_sta\n' + detached("wrk_1") + '{"event_type":"too', (records, path) => {
    const text = Deno.readTextFileSync(path);
    markLostCommands(records, text, lostCommands(text), BY);
    const added = Deno.readTextFileSync(path).slice(text.length);
    assert.ok(added.startsWith("\n{"));
    assert.equal(Object.hasOwn(JSON.parse(added), "parent_id"), false);
  }));

Deno.test("a command whose line did not land is not reported", () =>
  withTrace(START + detached("wrk_1"), (records, path) => {
    const text = Deno.readTextFileSync(path);
    Deno.renameSync(path, `${path}.moved`);
    Deno.symlinkSync(`${path}.moved`, path);
    assert.deepEqual(markLostCommands(records, text, lostCommands(text), BY), []);
    assert.equal(Deno.readTextFileSync(`${path}.moved`), text);
  }));
