import assert from "node:assert/strict";
import { testContext, withTempDir } from "../tests/support/cli_context.ts";
import { type RecordedSession, recordSession, sessionIdAt } from "../tests/support/recorded_session.ts";
import { main } from "./main.ts";

const BEFORE = sessionIdAt(1_767_225_600_000);
const AFTER = sessionIdAt(1_767_225_700_000);
const HASH = (letter: string) => letter.repeat(64);

async function withSessions(
  before: RecordedSession,
  after: RecordedSession,
  work: (diff: (...args: string[]) => Promise<{ status: number; out: string; err: string }>) => Promise<void>,
): Promise<void> {
  await withTempDir(async (home) => {
    await recordSession(home, `${home}/workdir`, BEFORE, before);
    await recordSession(home, `${home}/workdir`, AFTER, after);
    await work(async (...args) => {
      const context = testContext(home, { HOME: home });
      const status = await main(["trace", "diff", ...args], context);
      return { status, out: context.out(), err: context.err() };
    });
  });
}

const A: RecordedSession = {
  turns: [
    {
      hashes: [HASH("a"), HASH("b"), HASH("1"), HASH("2")],
      tools: [[100, "ok"], [300, "error"]],
      shells: [[0, 40]],
    },
    { hashes: [HASH("a"), HASH("b"), HASH("1"), HASH("2"), HASH("3")] },
    { hashes: [HASH("a"), HASH("b"), HASH("1")] },
  ],
  durationMs: 2_500,
  tokens: [12_000, 300],
  compactionAtTurn: 1,
};
const B: RecordedSession = {
  turns: [
    { hashes: [HASH("a"), HASH("c"), HASH("1"), HASH("2")], tools: [[100, "ok"]] },
    { hashes: [HASH("a"), HASH("c"), HASH("1"), HASH("9"), HASH("3")] },
  ],
  durationMs: 2_500,
  tokens: [8_000, 400],
  exitStatus: "failed",
};

Deno.test("two sessions side by side, and where their requests part", () =>
  withSessions(A, B, async (diff) => {
    const { status, out, err } = await diff();
    assert.deepEqual([status, err], [0, ""]);
    assert.equal(
      out,
      `Metric                Run A           Run B           Delta
────────────────────────────────────────────────────────────────────────────────
turns                 3               2               -1 (B better)
duration              2.5s            2.5s            =
input tokens          12,000          8,000           -4,000 (B better)
output tokens         300             400             +100 (A better)
input/turn (avg)      4,000           4,000           =
output/turn (avg)     100             200             +100 (A better)
tool calls            2               1               -1 (B better)
tool success rate     50.0%           100.0%          +50.0% (B better)
avg tool latency      200ms           100ms           -100ms (B better)
skill calls           0               0               =
shell calls           1               0               -1 (B better)
avg shell latency     40ms            —               —
compaction            turn 1          none            —
exit status           ok              failed          —

── Prefix divergence ────────────────────────────
system prompt: identical
tool schemas:  differs  A bbbbbbbbbbbb… B cccccccccccc…
turn 0:  identical  (2 messages)
turn 1:  diverges at message 1  A 222222222222… B 999999999999…
turn 2:  only in run A
`,
    );
    assert.equal((await diff(BEFORE, AFTER)).out, out);
    const turned = await diff("@1", "@2");
    assert.match(turned.out, /^turns +2 +3 +\+1 \(A better\)$/m);
    assert.match(turned.out, /^tool success rate +100\.0% +50\.0% +-50\.0% \(A better\)$/m);
    assert.match(turned.out, /^turn 2: {2}only in run B$/m);
  }));

Deno.test("a list of messages that the other continues, and runs without hashes", async () => {
  const one: RecordedSession = { turns: [{ hashes: [HASH("a"), HASH("b"), HASH("1")] }] };
  const two: RecordedSession = { turns: [{ hashes: [HASH("a"), HASH("b"), HASH("1"), HASH("2")] }] };
  await withSessions(one, two, async (diff) => {
    assert.match((await diff()).out, /^turn 0: {2}diverges at message 1 {2}A 1 messages {2}B 2 messages$/m);
  });
  await withSessions({ turns: [{}] }, two, async (diff) => {
    assert.match((await diff()).out, /─\nrun A recorded no hashes: it ran under trace\.capture: none\n$/);
  });
  await withSessions({}, {}, async (diff) => {
    const { out } = await diff();
    assert.match(out, /run A recorded no hashes.*\nrun B recorded no hashes/);
    assert.match(out, /^input\/turn \(avg\) +— +— +—$/m);
  });
});

Deno.test("none or two addresses; both failures are told; a run that has not ended is refused", async () => {
  await withSessions(A, { ...B, ended: false }, async (diff) => {
    const one = await diff("@1");
    assert.equal(one.status, 1);
    assert.match(one.err, /E-TRC-002\]: mur trace diff expects 0 or 2 arguments, got 1/);
    assert.match((await diff("@1", "@2", "@1")).err, /got 3/);
    assert.match((await diff("@7", "zzzz")).err, /E-TRC-002\]: before: @7 is out of range .*\nafter: no session found/);
    assert.match((await diff("@2", "@7")).err, /E-TRC-002\]: after: @7/);
    const { status, out, err } = await diff();
    assert.deepEqual([status, out], [1, ""]);
    assert.match(err, new RegExp(`E-TRC-001\\]: .*${AFTER}/trace\\.jsonl: no session_end`));
  });
});
