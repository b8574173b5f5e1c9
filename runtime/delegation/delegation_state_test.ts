import assert from "node:assert/strict";
import fc from "fast-check";
import type { CompletionRecord, ReadRecord } from "./completion_record.ts";
import {
  type DelegationState,
  end,
  type EndCause,
  type ExitEvidence,
  hold,
  type Outcome,
  outcomeAtExit,
  type Receipt,
  receive,
  settle,
  STARTING,
} from "./delegation_state.ts";

const RUNNING = hold(STARTING);

const RECORD: CompletionRecord = {
  delegation_id: "dlg_1",
  capsule_name: "worker",
  capsule_version: "1.0.0",
  session_id: "ses_1",
  status: "ok",
  workdir: "/w",
  duration_ms: 7,
  reported_by: "child",
  delivered: true,
};

function evidence(more: Partial<ExitEvidence> = {}): ExitEvidence {
  return {
    exit: { code: 0, signal: null },
    stderrTail: [],
    record: { kind: "record", record: RECORD },
    ranMs: 9,
    ...more,
  };
}

Deno.test("a child that reported and is gone ends as it said, in its own time", () => {
  for (const status of ["ok", "error"] as const) {
    const record = { ...RECORD, status, detail: "not told" };
    const outcome = outcomeAtExit(receive(RUNNING).state, evidence({ record: { kind: "record", record } }));
    assert.deepEqual(outcome, { status, reason: null, detail: null, durationMs: 7, report: { kind: "none" } });
  }
});

Deno.test("a record that did not reach the parent's door is delivered by the launcher, whatever the exit status", () => {
  const record: ReadRecord = { kind: "record", record: { ...RECORD, delivered: false, delivery_error: "refused" } };
  const outcome = outcomeAtExit(RUNNING, evidence({ record, exit: { code: 1, signal: null } }));
  assert.deepEqual([outcome.status, outcome.report], ["ok", { kind: "deliver" }]);
  assert.equal(receive(settle(RUNNING, outcome)).receipt, "received");
});

Deno.test("a child that is gone without a record crashed; the launcher says how, with its last lines", () => {
  for (const record of [{ kind: "missing" }, { kind: "unreadable", reason: "torn" }] as const) {
    const killed = outcomeAtExit(
      RUNNING,
      evidence({ record, exit: { code: null, signal: "SIGKILL" }, stderrTail: ["one", "two"] }),
    );
    const detail =
      "the sub-capsule's process was ended by SIGKILL without a report; its last lines on stderr:\none\ntwo";
    assert.deepEqual(killed, {
      status: "crashed",
      reason: detail,
      detail,
      durationMs: 9,
      report: { kind: "launcher", status: "crashed", detail, delivered: true },
    });
  }
  const exited = outcomeAtExit(RUNNING, evidence({ record: { kind: "missing" }, exit: { code: 3, signal: null } }));
  assert.equal(exited.detail, "the sub-capsule's process ended with exit status 3 without a report");
});

Deno.test("a completion without a readable record is an unknown end, and nothing is written for the child", () => {
  const { state } = receive(RUNNING);
  const missing = outcomeAtExit(state, evidence({ record: { kind: "missing" } }));
  assert.deepEqual([missing.status, missing.report], ["unknown", { kind: "none" }]);
  assert.match(missing.reason!, /it is not there$/);
  const unreadable = outcomeAtExit(state, evidence({ record: { kind: "unreadable", reason: "it is no JSON" } }));
  assert.match(unreadable.reason!, /it is no JSON$/);
});

const BY_TASK: readonly (readonly [EndCause, string])[] = [
  [{ kind: "canceled" }, "the delegating task was cancelled"],
  [{ kind: "no-turn" }, "the delegating task had no inference turn left to read this outcome"],
  [
    { kind: "task-ended", exitStatus: "spend_ceiling_reached" },
    "the delegating task ended spend_ceiling_reached before this sub-capsule finished",
  ],
  [
    { kind: "backstop", seconds: 630 },
    "no outcome reached the delegating task within 630s of this sub-capsule starting",
  ],
];

Deno.test("whatever a child recorded, one that its task ended is terminated, for the task's reason, and posted to nobody", () => {
  for (const [cause, reason] of BY_TASK) {
    const outcome = outcomeAtExit(end(RUNNING, cause), evidence());
    assert.deepEqual([outcome.status, outcome.reason], ["terminated", reason]);
    assert.deepEqual(outcome.report, {
      kind: "launcher",
      status: "terminated",
      detail: "the parent ended this delegation",
      delivered: false,
    });
  }
  assert.equal(
    outcomeAtExit(end(RUNNING, { kind: "backstop", seconds: 2 }), evidence()).detail,
    "no outcome reached the delegating task within 2s of this sub-capsule starting",
  );
});

Deno.test("a child that outran its watch is terminated with the bound named, and the task is told", () => {
  const state = end(RUNNING, { kind: "watch", seconds: 600 });
  const outcome = outcomeAtExit(state, evidence({ exit: { code: null, signal: "SIGKILL" }, stderrTail: ["busy"] }));
  const detail =
    "the sub-capsule was still running 600s after it was ready, and its parent ended it; its process was " +
    "ended by SIGKILL; its last lines on stderr:\nbusy";
  assert.deepEqual(outcome, {
    status: "terminated",
    reason: detail,
    detail,
    durationMs: 9,
    report: { kind: "launcher", status: "terminated", detail, delivered: true },
  });
});

Deno.test("a child that reported in time keeps what it reported, though it must be killed to go", () => {
  const { state } = receive(RUNNING);
  for (
    const cause of [{ kind: "lingering" }, { kind: "watch", seconds: 1 }, { kind: "backstop", seconds: 1 }] as const
  ) {
    const ending = end(state, cause);
    assert.equal(ending.phase, "ending");
    assert.equal(outcomeAtExit(ending, evidence()).status, "ok");
    // Only a task that ends meanwhile takes that from it.
    assert.equal(outcomeAtExit(end(ending, { kind: "canceled" }), evidence()).status, "terminated");
  }
});

Deno.test("the child of a plan's step keeps its own record; one killed before it wrote any gets its parent's", () => {
  const state = end(RUNNING, { kind: "step-over" });
  const record: ReadRecord = {
    kind: "record",
    record: { ...RECORD, delivered: false, delivery_error: "no parent door" },
  };
  assert.deepEqual(outcomeAtExit(state, evidence({ record })).report, { kind: "none" });
  assert.deepEqual(outcomeAtExit(state, evidence({ record: { kind: "missing" } })).report, {
    kind: "launcher",
    status: "terminated",
    detail: "the parent ended this delegation",
    delivered: false,
  });
});

const causes: fc.Arbitrary<EndCause> = fc.oneof(
  ...BY_TASK.map(([cause]) => fc.constant(cause)),
  fc.constant<EndCause>({ kind: "watch", seconds: 5 }),
  fc.constant<EndCause>({ kind: "lingering" }),
);

type Event =
  | { readonly kind: "hold" | "receive" | "exit" }
  | { readonly kind: "end"; readonly cause: EndCause };

const events: fc.Arbitrary<Event> = fc.oneof(
  { weight: 3, arbitrary: fc.constantFrom<Event>({ kind: "hold" }, { kind: "receive" }, { kind: "exit" }) },
  { weight: 2, arbitrary: causes.map((cause): Event => ({ kind: "end", cause })) },
);

const records: fc.Arbitrary<ReadRecord> = fc.oneof(
  fc.constant<ReadRecord>({ kind: "missing" }),
  fc.constant<ReadRecord>({ kind: "unreadable", reason: "it is no JSON" }),
  fc.record({ status: fc.constantFrom("ok", "error"), delivered: fc.boolean() })
    .map((more): ReadRecord => ({ kind: "record", record: { ...RECORD, ...more } as CompletionRecord })),
);

Deno.test("in whatever order things happen, a delegation has one outcome, its cause stands and no completion counts twice", () => {
  fc.assert(fc.property(fc.array(events, { maxLength: 12 }), records, (happened, record) => {
    let state: DelegationState = STARTING;
    let outcome: Outcome | null = null;
    const receipts: Receipt[] = [];
    for (const event of happened) {
      const before: DelegationState = state;
      switch (event.kind) {
        case "hold":
          state = hold(state);
          // What is being ended or has ended does not run again.
          if (before.phase !== "starting") assert.equal(state, before);
          break;
        case "receive": {
          const answer = receive(state);
          state = answer.state;
          receipts.push(answer.receipt);
          assert.equal(state.phase, before.phase);
          break;
        }
        case "end":
          state = end(state, event.cause);
          assert.equal(state.received, before.received);
          if (before.phase === "ended") assert.equal(state, before);
          else assert.equal(state.phase, "ending");
          break;
        case "exit":
          if (outcome !== null || state.phase === "starting") break;
          outcome = outcomeAtExit(state, evidence({ record }));
          state = settle(state, outcome);
          assert.equal(state.phase, "ended");
          // A task's own ending is always its own outcome.
          if (state.cause !== null && state.cause.kind !== "lingering") assert.equal(outcome.status, "terminated");
          else if (outcome.status === "terminated") assert.fail("terminated by nobody");
          // Who reads only the door's answers and the record knows of exactly one report.
          if (outcome.report.kind === "deliver") assert.equal(record.kind, "record");
          if (outcome.report.kind === "launcher" && record.kind === "record") {
            assert.equal(outcome.report.status, "terminated");
          }
      }
    }
    // Once received, always received; what is refused while it is ended never counts later.
    const first = receipts.indexOf("received");
    if (first >= 0) assert.ok(receipts.slice(first).every((receipt) => receipt === "received"));
  }));
});
