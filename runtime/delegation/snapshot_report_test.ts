import assert from "node:assert/strict";
import fc from "fast-check";
import { MurError } from "../../base/errors.ts";
import { parseSnapshotReport, type SnapshotReport } from "./snapshot_report.ts";

const REPORT: SnapshotReport = {
  source: "/home/ada/project",
  files: 212,
  directories: 31,
  links: 2,
  bytes: 1_048_211,
  skipped: [{ path: "run.sock", reason: "socket" }],
};

Deno.test("a report is read as it was written, and what is not known is not kept", () => {
  assert.deepEqual(parseSnapshotReport(JSON.stringify(REPORT)), REPORT);
  const more = { ...REPORT, skipped_unlisted: 4 };
  assert.deepEqual(parseSnapshotReport(JSON.stringify(more)), more);
  assert.deepEqual(parseSnapshotReport(JSON.stringify({ ...REPORT, restriction: "absent", x: 1 })), REPORT);
});

Deno.test("what is no report is refused by the field that is wrong", () => {
  const bad: [string, unknown][] = [
    ["source", "project"],
    ["source", 3],
    ["files", -1],
    ["files", 1.5],
    ["directories", "3"],
    ["links", null],
    ["bytes", undefined],
    ["skipped", {}],
    ["skipped", [{ path: "a" }]],
    ["skipped", [{ path: "a", reason: "dull" }]],
    ["skipped", ["a"]],
    ["skipped_unlisted", "many"],
  ];
  for (const [field, value] of bad) {
    assert.throws(
      () => parseSnapshotReport(JSON.stringify({ ...REPORT, [field]: value })),
      (error) => error instanceof MurError && error.code === "E-RUN-020" && error.message.includes(`'${field}'`),
      `${field} ${JSON.stringify(value)}`,
    );
  }
  fc.assert(fc.property(fc.oneof(fc.string(), fc.json()), (text) => {
    assert.throws(() => parseSnapshotReport(text), (error) => error instanceof MurError && error.code === "E-RUN-020");
  }));
});
