import assert from "node:assert/strict";
import { MurError } from "../../base/errors.ts";
import { ledgerExpired, ledgerTokens, openSpendLedger } from "./spend_ledger.ts";
import { createSpendMeter } from "./spend_meter.ts";

const NOON = Date.parse("2026-03-10T12:00:00Z");

async function withDirectory(use: (directory: string) => Promise<void>): Promise<void> {
  const root = await Deno.makeTempDir();
  try {
    await use(`${root}/spend`);
  } finally {
    await Deno.remove(root, { recursive: true });
  }
}

const lines = async (path: string) =>
  (await Deno.readTextFile(path)).trimEnd().split("\n").map((line) => JSON.parse(line));

Deno.test("directory and file are the owner's alone, and a line has the agreed form", async () => {
  await withDirectory(async (directory) => {
    const ledger = await openSpendLedger(directory, () => NOON);
    await ledger.append("ses_1", 10, 2);
    assert.equal(await ledger.today(), 12);
    ledger.close();
    assert.equal((await Deno.stat(directory)).mode! & 0o777, 0o700);
    assert.equal((await Deno.stat(`${directory}/2026-03-10.jsonl`)).mode! & 0o777, 0o600);
    assert.equal(
      await Deno.readTextFile(`${directory}/2026-03-10.jsonl`),
      `{"ts":${NOON},"session_id":"ses_1","input_tokens":10,"output_tokens":2}\n`,
    );
  });
});

Deno.test("sessions see each other's lines, also those written at the same time", async () => {
  await withDirectory(async (directory) => {
    const ledgers = await Promise.all(Array.from({ length: 4 }, () => openSpendLedger(directory, () => NOON)));
    await Promise.all(
      ledgers.flatMap((ledger, index) => Array.from({ length: 25 }, () => ledger.append(`ses_${index}`, 3, 1))),
    );
    for (const ledger of ledgers) assert.equal(await ledger.today(), 400);
    assert.equal((await lines(`${directory}/2026-03-10.jsonl`)).length, 100);
    for (const ledger of ledgers) ledger.close();
  });
});

Deno.test("a torn line costs nobody the next one, and foreign lines count nothing", async () => {
  await withDirectory(async (directory) => {
    await Deno.mkdir(directory);
    const file = `${directory}/2026-03-10.jsonl`;
    await Deno.writeTextFile(
      file,
      '{"input_tokens":5,"output_tokens":5}\nnot json\n[1]\n{"input_tokens":-4,"output_tokens":1e300}\n{"input_tok',
    );
    const ledger = await openSpendLedger(directory, () => NOON);
    assert.equal(await ledger.today(), 10);
    await ledger.append("ses_1", 1, 1);
    assert.equal(await ledger.today(), 12);
    ledger.close();
    assert.ok(
      (await Deno.readTextFile(file)).endsWith(
        '{"input_tok\n' + `{"ts":${NOON},"session_id":"ses_1","input_tokens":1,"output_tokens":1}\n`,
      ),
    );
  });
});

Deno.test("at midnight UTC a new day begins", async () => {
  await withDirectory(async (directory) => {
    let now = Date.parse("2026-03-10T23:59:59.999Z");
    const ledger = await openSpendLedger(directory, () => now);
    await ledger.append("ses_1", 7, 0);
    now += 1;
    assert.equal(await ledger.today(), 0);
    await ledger.append("ses_1", 4, 0);
    assert.equal(await ledger.today(), 4);
    ledger.close();
    assert.equal((await lines(`${directory}/2026-03-11.jsonl`)).length, 1);
  });
});

Deno.test("old files are removed, everything else is left", async () => {
  await withDirectory(async (directory) => {
    await Deno.mkdir(directory);
    const names = ["2026-02-07.jsonl", "2026-02-08.jsonl", "2025-01-01.jsonl", "notes.txt", "2026-99-99.jsonl"];
    for (const name of names) await Deno.writeTextFile(`${directory}/${name}`, "");
    (await openSpendLedger(directory, () => NOON)).close();
    const left = [...Deno.readDirSync(directory)].map((entry) => entry.name).sort();
    assert.deepEqual(left, ["2026-02-08.jsonl", "2026-03-10.jsonl", "2026-99-99.jsonl", "notes.txt"]);
  });
  assert.ok(!ledgerExpired("2026-03-10.jsonl.bak", NOON));
});

Deno.test("an unusable directory or file is E-RUN-026", async () => {
  await withDirectory(async (directory) => {
    const unusable = (promise: Promise<unknown>) =>
      assert.rejects(promise, (error) => error instanceof MurError && error.code === "E-RUN-026");
    await Deno.writeTextFile(directory, "");
    await unusable(openSpendLedger(directory, () => NOON));
    await Deno.remove(directory);
    await Deno.mkdir(`${directory}/2026-03-10.jsonl`, { recursive: true });
    await unusable(openSpendLedger(directory, () => NOON));
  });
});

Deno.test("tokens of a line", () => {
  assert.equal(ledgerTokens('{"input_tokens":1,"output_tokens":2}'), 3);
  for (const line of ["", "null", "3", '{"input_tokens":"9"}', '{"input_tokens":1.5}']) {
    assert.equal(ledgerTokens(line), 0);
  }
});

Deno.test("the meter charges the ledger once per call, a failed one with its input only", async () => {
  await withDirectory(async (directory) => {
    const ledger = await openSpendLedger(directory, () => NOON);
    const meter = createSpendMeter({ sessionId: "ses_1", sessionCeiling: 1_000, machine: { ceiling: 150, ledger } });
    assert.equal(meter.open, false);
    const first = await meter.admit(20, 80);
    assert.ok(first.admitted);
    assert.equal(meter.open, true);
    const refused = await meter.admit(1, 50);
    assert.ok(!refused.admitted && refused.limit === "machine");
    assert.deepEqual([refused.used, refused.requested], [100, 51]);
    await first.settle(20, 30);
    await first.settle(20, 30);
    assert.equal(meter.open, false);
    assert.equal(meter.used, 50);
    const second = await meter.admit(20, 80);
    assert.ok(second.admitted);
    await second.settle(20, 0);
    assert.deepEqual(
      (await lines(`${directory}/2026-03-10.jsonl`)).map((line) => [line.input_tokens, line.output_tokens]),
      [[20, 30], [20, 0]],
    );
    // What another session spends is seen at the next call.
    const other = await openSpendLedger(directory, () => NOON);
    await other.append("ses_2", 100, 0);
    other.close();
    const third = await meter.admit(1, 1);
    assert.ok(!third.admitted && third.limit === "machine" && third.used === 170);
    ledger.close();
  });
});

Deno.test("without ceilings every call is admitted and nothing is written", async () => {
  const meter = createSpendMeter({ sessionId: "ses_1", sessionCeiling: null, machine: null });
  const call = await meter.admit(Number.MAX_SAFE_INTEGER / 2, 1);
  assert.ok(call.admitted && meter.open);
  await call.settle(5, 5);
  assert.equal(meter.used, 10);
});
