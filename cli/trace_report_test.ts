import assert from "node:assert/strict";
import fc from "fast-check";
import { murmurHomeAt, recordsGroup } from "../base/murmur_home.ts";
import { testContext, withTempDir } from "../tests/support/cli_context.ts";
import { recordedTrace, recordSession, sessionIdAt } from "../tests/support/recorded_session.ts";
import { main } from "./main.ts";
import { chosenSessions, spread } from "./trace_report.ts";

const NOW = Date.parse("2026-02-01T00:00:00Z");
const HOUR = 3_600_000;

async function withHome(
  work: (
    home: string,
    report: (...args: string[]) => Promise<{ status: number; out: string; err: string }>,
  ) => Promise<void>,
): Promise<void> {
  await withTempDir(async (home) => {
    await work(home, async (...args) => {
      const context = testContext(home, { HOME: home });
      const status = await main(["trace", "report", ...args], context);
      return { status, out: context.out(), err: context.err() };
    });
  });
}

Deno.test("sessions one by one, then what they have in common", () =>
  withHome(async (home, report) => {
    const workdir = `${home}/workdir`;
    const first = sessionIdAt(NOW, 1);
    await recordSession(home, workdir, sessionIdAt(NOW, 2), {
      turns: [{}, {}, {}],
      durationMs: 1_500,
      tokens: [3_000, 20],
      exitStatus: "failed",
    });
    await recordSession(home, workdir, first, {
      turns: [
        { tools: [[100, "ok", "a"], [200, "ok", "a"], [264, "error"]], shells: [[0, 30], [2, 42]] },
      ],
      durationMs: 500,
      tokens: [1_000, 10],
      tasks: [[1, 100], [3, 300]],
    });
    await recordSession(home, workdir, sessionIdAt(NOW, 3), { ended: false });
    const script = `${recordsGroup(murmurHomeAt(home), workdir)}/${sessionIdAt(NOW, 4)}`;
    await Deno.mkdir(script);
    const { status, out, err } = await report();
    assert.equal(err, "note: skipped 2 incomplete session(s)\n");
    assert.equal(status, 0);
    assert.equal(
      out,
      `Session ${first.slice(0, 12)}...  500ms  1 turns

  Tool calls:    3  (2 ok, 1 error)
  Shell calls:   2  exit codes: 1 ok, 1 failed (exit 2)
  Redundant calls: 1
  Avg latency:   tool 188ms  shell 36ms

Session ${first.slice(0, 12)}...  1.5s  3 turns

  Tool calls:    0

Sessions: 2  (${workdir})

Metric                Mean          Std dev       Min           Max
──────────────────────────────────────────────────────────────────────────────
turns                 2.0           1.0           1             3
duration (ms)         1,000.0       500.0         500           1,500
input tokens          2,000.0       1,000.0       1,000         3,000
output tokens         15.0          5.0           10            20
tool calls            1.5           1.5           0             3
tool success (%)      66.7          0.0           66.7          66.7
shell calls           1.0           1.0           0             2
redundant calls       0.5           0.5           0             1

Exit status:
  failed                   1  (50.0%)
  ok                       1  (50.0%)

── Per-task averages (multi-task sessions only) ─
Metric                Mean          Std dev       Min           Max
──────────────────────────────────────────────────────────────────────────────
task turns            2.0           1.0           1             3
task input tokens     50.0          0.0           50            50
task output tokens    5.0           0.0           5             5
task duration (ms)    200.0         100.0         100           300

Tasks: 2
`,
    );
    const one = await report(first);
    assert.match(one.out, /^Sessions: 1 /m);
    assert.equal(one.err, "");
    assert.equal((await report(first, "@4")).out, one.out, "one session named twice");
    assert.match((await report("@1")).err, /E-IO-001/);
    assert.match((await report("--last", "2")).err, /skipped 2.*\nerror\[E-TRC-001\]: no complete session/);
    assert.match((await report("--last", "3")).out, /^Sessions: 1 /m);
  }));

Deno.test("which sessions the flags choose", () => {
  const sessions = [3, 2, 1].map((hours) => {
    const id = sessionIdAt(NOW - (4 - hours) * HOUR);
    return { id, directory: `/r/${id}` };
  });
  const chosen = (flags: { last?: string; since?: string }) =>
    chosenSessions(sessions, flags, NOW, "/w").map((session) => sessions.indexOf(session));
  assert.deepEqual(chosen({}), [0, 1, 2]);
  assert.deepEqual(chosen({ last: "2" }), [0, 1]);
  assert.deepEqual(chosen({ last: "99" }), [0, 1, 2]);
  assert.deepEqual(chosen({ since: "60m" }), [0]);
  assert.deepEqual(chosen({ since: "2h" }), [0, 1]);
  assert.deepEqual(chosen({ since: "1d", last: "1" }), [0]);
  for (const last of ["0", "00", "-1", "x", "1.5", ""]) {
    assert.throws(() => chosen({ last }), { code: "E-TRC-002" }, last);
  }
  for (const since of ["", "1", "h", "1w", "-1h", "1.5h", "1h "]) {
    assert.throws(() => chosen({ since }), { code: "E-TRC-002" }, since);
  }
  assert.throws(() => chosen({ since: "0m" }), { code: "E-TRC-002" });
  assert.throws(() => chosenSessions([], {}, NOW, "/w"), { code: "E-TRC-002" });
  const named = [{ id: "ses_of-another-make", directory: "/r/x" }];
  assert.throws(() => chosenSessions(named, { since: "1d" }, NOW, "/w"), { code: "E-TRC-002" });
});

Deno.test("a bad line names its place; sessions and flags exclude each other", () =>
  withHome(async (home, report) => {
    assert.match((await report()).err, /E-TRC-002\]: no sessions found in workdir/);
    const directory = await recordSession(home, `${home}/workdir`, sessionIdAt(NOW));
    assert.equal((await report("@1", "--last", "1")).status, 2);
    assert.equal((await report("@1", "--since", "1h")).status, 2);
    await Deno.writeTextFile(`${directory}/trace.jsonl`, `${recordedTrace(sessionIdAt(NOW))}no json\n`);
    assert.match((await report()).err, /E-TRC-001\]: .*trace\.jsonl:3: not a JSON object/);
    await Deno.writeTextFile(`${directory}/trace.jsonl`, "");
    assert.match((await report()).err, /E-TRC-001\]: no complete session/);
  }));

Deno.test("mean and spread lie within the values", () => {
  fc.assert(fc.property(fc.array(fc.nat(1_000_000), { minLength: 1 }), (values) => {
    const { mean, deviation, min, max } = spread(values);
    assert.ok(min <= mean + 1e-6 && mean <= max + 1e-6);
    assert.ok(deviation >= 0 && deviation <= (max - min) / 2 + 1e-6);
  }));
});
