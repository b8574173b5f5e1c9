import assert from "node:assert/strict";
import fc from "fast-check";
import { completionOf, type CompletionRecord, completionText, formatRecord, parseRecord } from "./completion_record.ts";

const RECORD: CompletionRecord = {
  delegation_id: "dlg_1",
  capsule_name: "worker",
  capsule_version: "1.0.0",
  session_id: "ses_1",
  status: "ok",
  result_path: "/records/out/result.txt",
  workdir: "/w",
  duration_ms: 7,
  reported_by: "child",
  delivered: false,
  delivery_error: "refused",
};
const EXPECTED = { delegationId: "dlg_1", sessionId: "ses_1" };

Deno.test("a record is read as it was written, whatever else a later version puts in", () => {
  assert.deepEqual(parseRecord(formatRecord(RECORD), EXPECTED), { kind: "record", record: RECORD });
  assert.deepEqual(parseRecord(JSON.stringify({ ...RECORD, later: 1 }), EXPECTED), { kind: "record", record: RECORD });
  fc.assert(fc.property(
    fc.record({
      status: fc.constantFrom("ok", "error", "crashed", "terminated"),
      detail: fc.string({ unit: "grapheme" }),
      workdir: fc.string({ unit: "grapheme" }),
      duration_ms: fc.nat(),
      delivered: fc.boolean(),
    }),
    (more) => {
      const record = { ...RECORD, ...more } as CompletionRecord;
      assert.deepEqual(parseRecord(formatRecord(record), EXPECTED), { kind: "record", record });
    },
  ));
});

Deno.test("anything else is unreadable, and so is a record of another delegation or session", () => {
  const bad: readonly unknown[] = [
    null,
    [],
    "x",
    {},
    { ...RECORD, status: "done" },
    { ...RECORD, status: undefined },
    { ...RECORD, duration_ms: -1 },
    { ...RECORD, duration_ms: 1.5 },
    { ...RECORD, duration_ms: "7" },
    { ...RECORD, delivered: "true" },
    { ...RECORD, reported_by: "parent" },
    { ...RECORD, workdir: null },
    { ...RECORD, detail: 1 },
    { ...RECORD, delegation_id: "dlg_2" },
    { ...RECORD, session_id: "ses_2" },
  ];
  for (const value of bad) {
    assert.equal(parseRecord(JSON.stringify(value), EXPECTED).kind, "unreadable", JSON.stringify(value));
  }
  assert.equal(parseRecord("{", EXPECTED).kind, "unreadable");
  fc.assert(fc.property(fc.string(), (text) => assert.equal(parseRecord(text, EXPECTED).kind, "unreadable")));
});

Deno.test("the message tells the completion's fields, one a line, and nothing of its delivery", () => {
  assert.equal(
    completionText(completionOf(RECORD)),
    [
      "delegation_id: dlg_1",
      "capsule_name: worker",
      "capsule_version: 1.0.0",
      "session_id: ses_1",
      "status: ok",
      "result_path: /records/out/result.txt",
      "workdir: /w",
      "duration_ms: 7",
    ].join("\n"),
  );
});
