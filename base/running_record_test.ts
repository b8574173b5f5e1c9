import assert from "node:assert/strict";
import { newId } from "./ids.ts";
import { ownStartToken } from "./process_identity.ts";
import {
  formatRunningRecord,
  openRunningDirectory,
  parseRunningRecord,
  peekRunningDirectory,
  readRecordProcess,
  removeRunningRecord,
  type RunningRecord,
  takeRecords,
} from "./running_record.ts";
import { writeRunningRecord } from "./write_running_record.ts";

function record(changes: Partial<RunningRecord> = {}): RunningRecord {
  return {
    session_id: newId("ses"),
    url: "127.0.0.1:4711",
    pid: Deno.pid,
    process_start: ownStartToken(),
    capsule_name: "demo",
    capsule_version: "1.0.0",
    workdir: "/w",
    records_dir: "/r",
    outlives_launcher: false,
    started_at: "2026-01-01T00:00:00Z",
    ...changes,
  };
}

/** What a command reads of the directory. */
function taken(dir: string): RunningRecord[] {
  return takeRecords(openRunningDirectory(dir)).map(({ record }) => record as RunningRecord);
}

function newestFirst(records: readonly RunningRecord[]): RunningRecord[] {
  return records.toSorted((a, b) => a.session_id < b.session_id ? 1 : -1);
}

function inTempDir(body: (dir: string) => void): () => void {
  return () => {
    const dir = Deno.makeTempDirSync();
    try {
      body(dir);
    } finally {
      Deno.removeSync(dir, { recursive: true });
    }
  };
}

Deno.test("a record is read as it was written", () => {
  const full = record({
    url: null,
    door_token: "t",
    credentials: { ci: "c" },
    formation_id: newId("frm"),
    formation_member: "edit",
    formation_entry: true,
    formation_lifeline: true,
    formation_launcher: { pid: 7, process_start: "9" },
    spawned_by: newId("ses"),
  });
  assert.deepEqual(parseRunningRecord(formatRunningRecord(full)), { kind: "record", record: full });
  const bare = record();
  const text = formatRunningRecord({ ...bare, credentials: {}, formation_entry: false, formation_lifeline: false });
  assert.deepEqual(JSON.parse(text), bare);
  assert.match(text, /^\{\n {2}"session_id"/);
});

Deno.test("what is no record, and what lacks only records_dir", () => {
  const { records_dir: _, ...older } = record();
  assert.deepEqual(parseRunningRecord(JSON.stringify(older)), { kind: "older", record: older });
  const bad: unknown[] = [
    "",
    [],
    null,
    {},
    { ...record(), pid: "1" },
    { ...record(), pid: 1.5 },
    { ...record(), url: 5 },
    { ...record(), records_dir: null },
    { ...record(), formation_id: "frm_x" },
    { ...record(), session_id: "../x" },
    { ...older, workdir: undefined },
  ];
  for (const value of bad) {
    assert.deepEqual(parseRunningRecord(JSON.stringify(value)), { kind: "unreadable" }, JSON.stringify(value));
  }
  assert.deepEqual(parseRunningRecord("{"), { kind: "unreadable" });
  const extra = { ...record(), unconfined: true, later: 1 };
  assert.equal(parseRunningRecord(JSON.stringify(extra)).kind, "record");
});

Deno.test(
  "the directory is listed newest first, cleaned by commands and left alone by a peek",
  inTempDir((home) => {
    const dir = `${home}/.murmur/running`;
    assert.deepEqual(peekRunningDirectory(dir), {
      records: [],
      older: [],
      unreadable: [],
      unopened: [],
      controlTokens: new Set(),
    });
    assert.throws(() => Deno.statSync(dir));
    const first = record();
    const second = record();
    writeRunningRecord(dir, first);
    writeRunningRecord(dir, second);
    const { records_dir: _, ...older } = record();
    Deno.writeTextFileSync(`${dir}/${older.session_id}.json`, JSON.stringify(older));
    Deno.writeTextFileSync(`${dir}/broken.json`, "{");
    Deno.writeTextFileSync(`${dir}/${newId("ses")}.json`, JSON.stringify(first));
    Deno.writeTextFileSync(`${dir}/other.txt`, "{");
    Deno.symlinkSync("/etc/hostname", `${dir}/link.json`);
    Deno.chmodSync(dir, 0o755);

    const seen = peekRunningDirectory(dir);
    assert.deepEqual(seen.records, [second, first]);
    assert.deepEqual(seen.older, [older]);
    assert.equal(seen.unreadable.length, 3);
    assert.equal(Deno.statSync(dir).mode! & 0o777, 0o755);
    assert.equal([...Deno.readDirSync(dir)].length, 7);

    assert.deepEqual(newestFirst(taken(dir)), [older, second, first]);
    assert.equal(Deno.statSync(dir).mode! & 0o777, 0o700);
    assert.equal(Deno.statSync(`${dir}/${first.session_id}.json`).mode! & 0o777, 0o600);
    assert.deepEqual(peekRunningDirectory(dir).unreadable, []);
    assert.ok([...Deno.readDirSync(dir)].some(({ name }) => name === "other.txt"));

    Deno.writeTextFileSync(`${dir}/${first.session_id}.control`, "token");
    assert.deepEqual(openRunningDirectory(dir).controlTokens, new Set([first.session_id]));
    removeRunningRecord(dir, first.session_id);
    removeRunningRecord(dir, first.session_id);
    assert.deepEqual(newestFirst(taken(dir)), [older, second]);
    assert.throws(() => Deno.statSync(`${dir}/${first.session_id}.control`));
  }),
);

Deno.test(
  "what is too large for a record is none, and is not read to find out",
  inTempDir((home) => {
    const dir = `${home}/.murmur/running`;
    const real = record();
    writeRunningRecord(dir, real);
    const huge = `${dir}/${newId("ses")}.json`;
    Deno.writeTextFileSync(huge, "");
    Deno.truncateSync(huge, 8 << 30);
    const started = performance.now();
    assert.deepEqual(taken(dir), [real]);
    assert.ok(performance.now() - started < 1_000);
    assert.throws(() => Deno.statSync(huge), Deno.errors.NotFound);
  }),
);

Deno.test({
  name: "a record that cannot be read now is not listed and not removed",
  // Root reads everything.
  ignore: Deno.uid() === 0,
  fn: inTempDir((home) => {
    const dir = `${home}/.murmur/running`;
    const [open, closed] = [record(), record()];
    for (const each of [open, closed]) writeRunningRecord(dir, each);
    Deno.chmodSync(`${dir}/${closed.session_id}.json`, 0);
    assert.deepEqual(taken(dir), [open]);
    assert.deepEqual(peekRunningDirectory(dir).unopened, [`${closed.session_id}.json`]);
    Deno.chmodSync(`${dir}/${closed.session_id}.json`, 0o600);
    assert.deepEqual(newestFirst(taken(dir)), [closed, open]);
  }),
});

Deno.test(
  "a directory that can't be held is E-RUN-028",
  inTempDir((home) => {
    Deno.writeTextFileSync(`${home}/running`, "");
    assert.throws(() => openRunningDirectory(`${home}/running`), { code: "E-RUN-028" });
    assert.throws(() => writeRunningRecord(`${home}/running`, record()), { name: "MurError" });
  }),
);

Deno.test("the process of a record is told from another with its pid", () => {
  assert.equal(readRecordProcess(record()).state, "same");
  assert.equal(readRecordProcess(record({ process_start: "1" })).state, "gone");
  assert.equal(readRecordProcess(record({ pid: 2 ** 30 })).state, "gone");
});
