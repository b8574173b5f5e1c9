import assert from "node:assert/strict";
import { newId } from "../base/ids.ts";
import { ownStartToken, startToken } from "../base/process_identity.ts";
import type { RunningRecord } from "../base/running_record.ts";
import type { TimeBounds } from "../base/time_bounds.ts";
import { writeRunningRecord } from "../base/write_running_record.ts";
import { type TestContext, testContext, withTempDir } from "../tests/support/cli_context.ts";
import { runningRecord, scriptedDoor } from "../tests/support/scripted_door.ts";
import { modulesLoadedBy } from "../tests/support/loaded_modules.ts";
import { main } from "./main.ts";
import { ps, uptime } from "./ps.ts";

const NOW = Date.parse("2026-01-01T00:01:05Z");

/** A home, its running directory, and `mur ps` in it. */
async function withHome(
  work: (home: {
    readonly running: string;
    record(more?: Partial<RunningRecord>): RunningRecord;
    ps(flags?: { json?: boolean }, bounds?: Partial<TimeBounds>): Promise<TestContext>;
  }) => Promise<void>,
): Promise<void> {
  await withTempDir(async (directory) => {
    const running = `${directory}/.murmur/running`;
    await work({
      running,
      record(more) {
        const record = runningRecord(more);
        writeRunningRecord(running, record);
        return record;
      },
      async ps(flags = {}, bounds = {}) {
        const context = testContext(directory, { HOME: directory }, bounds);
        assert.equal(await ps(context, flags, NOW), 0);
        return context;
      },
    });
  });
}

const files = (running: string) => [...Deno.readDirSync(running)].map(({ name }) => name).sort();

Deno.test("nothing runs", () =>
  withHome(async (home) => {
    const context = await home.ps();
    assert.deepEqual([context.out(), context.err()], ["no running capsules\n", ""]);
    assert.equal(Deno.statSync(home.running).mode! & 0o777, 0o700);
    assert.equal((await home.ps({ json: true })).out(), '{"sessions":[],"pruned":[]}\n');
  }));

Deno.test("a live door, a closed one and a script capsule, newest first", () =>
  withHome(async (home) => {
    await using door = scriptedDoor();
    door.record(home.running, { outlives_launcher: true });
    const script = home.record({ capsule_name: "script", started_at: "2025-12-29T22:59:00Z" });
    const closed = home.record({ url: "localhost:1", capsule_name: "a-name-that-is-longer-than-its-column" });
    const context = await home.ps();
    const url = `localhost:${door.port}`;
    assert.equal(
      context.out(),
      [
        `${"SESSION".padEnd(36)}  ${"CAPSULE".padEnd(24)}  ${"STATUS".padEnd(12)}  DETACHED  UPTIME     URL`,
        `${closed.session_id}  a-name-that-is-longer-than-its-column@1.0.0  unreachable   no        00:01:05   localhost:1`,
        `${script.session_id}  ${"script@1.0.0".padEnd(24)}  running       no        2d 01:02:05  -`,
        `${door.sessionId}  ${"demo@1.0.0".padEnd(24)}  running       yes       00:01:05   ${url}`,
        "",
      ].join("\n"),
    );
    assert.match(
      context.err(),
      new RegExp(`^unreachable: ${closed.session_id} — localhost:1 refused the connection\n$`),
    );
    assert.equal(files(home.running).length, 3);
  }));

Deno.test("delegated sessions stand below the one they work for; programs get the flat list", () =>
  withHome(async (home) => {
    const name = (capsule_name: string, more: Partial<RunningRecord> = {}) => home.record({ capsule_name, ...more });
    const boss = name("boss");
    const first = name("first", { spawned_by: boss.session_id });
    const other = name("other");
    const deep = name("deep", { spawned_by: first.session_id });
    const second = name("second", { spawned_by: boss.session_id });
    const orphan = name("orphan", { spawned_by: newId("ses") });
    const rows = (await home.ps()).out().trimEnd().split("\n").slice(1);
    assert.deepEqual(rows.map((row) => [row.slice(0, 36), row.slice(38, 62).trimEnd()]), [
      [orphan.session_id, "orphan@1.0.0"],
      [other.session_id, "other@1.0.0"],
      [boss.session_id, "boss@1.0.0"],
      [second.session_id, "├─ second@1.0.0"],
      [first.session_id, "└─ first@1.0.0"],
      [deep.session_id, "   └─ deep@1.0.0"],
    ]);
    assert.ok(rows.every((row) => row.slice(64, 71) === "running"), "the columns keep their places");
    const { sessions } = JSON.parse((await home.ps({ json: true })).out());
    assert.deepEqual(
      sessions.map(({ session_id, spawned_by }: RunningRecord) => [session_id, spawned_by]),
      [orphan, second, deep, other, first, boss].map(({ session_id, spawned_by }) => [session_id, spawned_by]),
    );
  }));

Deno.test("a record whose process is gone is removed with its control token, and named", () =>
  withHome(async (home) => {
    const child = new Deno.Command("true").spawn();
    const gone = home.record({ pid: child.pid, url: "localhost:1" });
    await child.status;
    await Deno.writeTextFile(`${home.running}/${gone.session_id}.control`, "token");
    const other = home.record({ process_start: `${ownStartToken()}1` });
    const unknown = home.record({ process_start: "", url: "localhost:1" });
    const context = await home.ps();
    assert.deepEqual(context.err().split("\n").sort(), [
      "",
      `pruned: ${gone.session_id} — no process holds pid ${child.pid}`,
      `pruned: ${other.session_id} — pid ${Deno.pid} is held by a process that started at another time`,
      `unreachable: ${unknown.session_id} — pid ${Deno.pid}'s start time could not be read`,
    ]);
    assert.deepEqual(files(home.running), [`${unknown.session_id}.json`]);
    assert.match(context.out(), new RegExp(`^${unknown.session_id} .* unreachable `, "m"));
  }));

Deno.test("of many records those of dead processes are removed, too", () =>
  withHome(async (home) => {
    const child = new Deno.Command("sleep", { args: ["60"] }).spawn();
    try {
      const alive = home.record({ pid: child.pid, process_start: startToken(child.pid)! });
      for (let count = 0; count < 60; count++) home.record({ pid: 2 ** 22 + count, process_start: "1" });
      const context = await home.ps({ json: true });
      const { sessions, pruned } = JSON.parse(context.out());
      assert.deepEqual(sessions.map(({ session_id: id }: { session_id: string }) => id), [alive.session_id]);
      assert.equal(pruned.length, 60);
      assert.deepEqual(files(home.running), [`${alive.session_id}.json`]);
    } finally {
      child.kill("SIGKILL");
      await child.status;
    }
  }));

Deno.test("a record of an older build is not listed; it goes once its process is gone", () =>
  withHome(async (home) => {
    for (const process_start of [ownStartToken(), "1"]) {
      const { records_dir: _, ...older } = runningRecord({ process_start });
      await home.ps();
      await Deno.writeTextFile(`${home.running}/${older.session_id}.json`, JSON.stringify(older));
      assert.equal((await home.ps()).out(), "no running capsules\n");
      assert.equal(files(home.running).includes(`${older.session_id}.json`), process_start !== "1");
    }
  }));

Deno.test("a door that answers for another session, for none, or with rubbish is unreachable", () =>
  withHome(async (home) => {
    await using impostor = scriptedDoor();
    const robbed = home.record({ url: impostor.url });
    await using old = scriptedDoor({ card: () => Response.json({ name: "demo", url: "http://x" }) });
    old.record(home.running);
    await using broken = scriptedDoor({ card: () => new Response("<html>", { status: 502 }) });
    broken.record(home.running);
    const context = await home.ps();
    assert.equal(context.out().match(/ unreachable /g)?.length, 3);
    const err = context.err();
    assert.ok(
      err.includes(`${robbed.session_id} — the capsule at ${impostor.url} answers for session ${impostor.sessionId}`),
    );
    assert.ok(err.includes(`${old.sessionId} — the agent card from ${old.url} names no session`));
    assert.ok(err.includes(`${broken.sessionId} — it answered 502`));
    assert.equal(files(home.running).length, 3);
  }));

Deno.test("an authenticated door is asked with its token, which nobody sees", () =>
  withHome(async (home) => {
    await using door = scriptedDoor({ token: "mdt1.secret" });
    door.record(home.running, { credentials: { ci: "mdt1.other" } });
    const wrong = home.record({ url: door.url, door_token: "mdt1.wrong" });
    const table = await home.ps();
    const json = await home.ps({ json: true });
    assert.match(table.out(), new RegExp(`^${door.sessionId} .* running `, "m"));
    assert.match(table.err(), new RegExp(`^unreachable: ${wrong.session_id} — it answered 401 invalid_token`));
    for (const text of [table.out(), table.err(), json.out(), json.err()]) assert.ok(!text.includes("mdt1"), text);
    const { sessions } = JSON.parse(json.out());
    assert.deepEqual(sessions[1], {
      session_id: door.sessionId,
      capsule_name: "demo",
      capsule_version: "1.0.0",
      status: "running",
      reason: null,
      detached: false,
      started_at: "2026-01-01T00:00:00Z",
      uptime_seconds: 65,
      url: door.url,
      pid: Deno.pid,
      workdir: "/w",
      records_dir: "/r",
    });
    assert.equal(sessions[0].status, "unreachable");
    assert.match(sessions[0].reason, /^it answered 401/);
  }));

Deno.test("slow doors are asked together: the bound is for all of them", () =>
  withHome(async (home) => {
    const never = Promise.withResolvers<Response>();
    await using slow = scriptedDoor({ card: () => never.promise });
    await using quick = scriptedDoor();
    quick.record(home.running);
    for (let count = 0; count < 20; count++) home.record({ session_id: newId("ses"), url: slow.url });
    const before = performance.now();
    const context = await home.ps({}, { listedDoors: 300 });
    const took = performance.now() - before;
    never.resolve(new Response());
    assert.ok(took >= 290 && took < 2_000, `${took} ms`);
    assert.equal(context.out().match(/ unreachable /g)?.length, 20);
    assert.match(context.out(), new RegExp(`^${quick.sessionId} .* running `, "m"));
    assert.match(context.err(), /did not answer in time/);
  }));

Deno.test("many doors are asked, and told, as few are", () =>
  withHome(async (many) => {
    await using open = scriptedDoor();
    await using authenticated = scriptedDoor({ token: "mdt1.secret" });
    await using refusing = scriptedDoor({ token: "mdt1.secret" });
    await using nameless = scriptedDoor({ card: () => Response.json({ name: "demo" }) });
    await using broken = scriptedDoor({ card: () => new Response("<html>", { status: 502 }) });
    await using rubbish = scriptedDoor({ card: () => new Response("no JSON") });
    const records = [
      open.record(many.running),
      authenticated.record(many.running),
      refusing.record(many.running, { door_token: "mdt1.wrong" }),
      nameless.record(many.running),
      broken.record(many.running),
      rubbish.record(many.running),
      many.record({ url: open.url }),
      many.record({ url: authenticated.url, door_token: "mdt1.secret" }),
      many.record({ url: "localhost:1" }),
      many.record({ url: "[::1]:1" }),
      many.record({ url: "no-such-name.invalid:80" }),
      many.record({ url: "nonsense" }),
      many.record({ url: null }),
      many.record({ url: open.url, process_start: "" }),
    ];
    const few = new Map<string, [string, string | null]>();
    for (const record of records) {
      await withHome(async (home) => {
        writeRunningRecord(home.running, record);
        const [{ session_id, status, reason }] = JSON.parse((await home.ps({ json: true })).out()).sessions;
        few.set(session_id, [status, reason]);
      });
    }
    // Doors that answer for another session, with or without records of dead processes between them.
    for (let count = 0; count < 40; count++) many.record({ url: open.url });
    for (let count = 0; count < 40; count++) many.record({ pid: 2 ** 22 + count, process_start: "1" });
    const { sessions, pruned } = JSON.parse((await many.ps({ json: true })).out());
    assert.deepEqual([sessions.length, pruned.length], [records.length + 40, 40]);
    const found = new Map<string, [string, string | null]>(
      sessions.map((each: { session_id: string; status: string; reason: string | null }) =>
        [each.session_id, [each.status, each.reason]] as const
      ),
    );
    for (const { session_id } of records) assert.deepEqual(found.get(session_id), few.get(session_id));
    assert.deepEqual(new Set([...few.values()].map(([status]) => status)), new Set(["running", "unreachable"]));
    const ids = sessions.map(({ session_id }: { session_id: string }) => session_id);
    assert.deepEqual(ids, ids.toSorted().reverse());
    const text = await many.ps();
    for (const shown of [text.out(), text.err()]) assert.ok(!shown.includes("mdt1"));
  }));

Deno.test("many slow doors share the bound", () =>
  withHome(async (home) => {
    const never = Promise.withResolvers<Response>();
    await using slow = scriptedDoor({ card: () => never.promise });
    await using quick = scriptedDoor();
    quick.record(home.running);
    for (let count = 0; count < 80; count++) home.record({ url: slow.url });
    const before = performance.now();
    const context = await home.ps({}, { listedDoors: 300 });
    const took = performance.now() - before;
    never.resolve(new Response());
    assert.ok(took >= 290 && took < 5_000, `${took} ms`);
    assert.equal(context.out().match(/ unreachable /g)?.length, 80);
    assert.match(context.out(), new RegExp(`^${quick.sessionId} .* running `, "m"));
    assert.equal(context.err().match(/ did not answer in time/g)?.length, 80);
  }));

Deno.test("a directory nobody can read is E-RUN-028, from the program too", () =>
  withTempDir(async (directory) => {
    await Deno.mkdir(`${directory}/.murmur`);
    await Deno.writeTextFile(`${directory}/.murmur/running`, "");
    for (const args of [["ps"], ["ps", "--json"]]) {
      const context = testContext(directory, { HOME: directory });
      assert.equal(await main(args, context), 1);
      assert.equal(context.out(), "");
      assert.match(context.err(), /^error\[E-RUN-028\]: /);
    }
  }));

Deno.test("arguments it does not have are refused as by every command", () =>
  withTempDir(async (directory) => {
    const context = testContext(directory, { HOME: directory });
    assert.equal(await main(["ps", "x"], context), 2);
    assert.equal(await main(["ps", "--nope"], context), 2);
    assert.equal(await main(["ps", "--json", "--help"], context), 0);
    assert.match(context.out(), /mur ps \[--json\]/);
  }));

Deno.test("time since the start", () => {
  const at = (seconds: number) => uptime("2026-01-01T00:00:00Z", Date.parse("2026-01-01T00:00:00Z") + seconds * 1_000);
  assert.deepEqual([0, 59, 3_599, 86_399, 86_400, 1_000_000].map(at), [
    "00:00:00",
    "00:00:59",
    "00:59:59",
    "23:59:59",
    "1d 00:00:00",
    "11d 13:46:40",
  ]);
  assert.equal(at(-5), "00:00:00");
  assert.equal(uptime("yesterday", 0), "-");
});

Deno.test("nothing is loaded for it but modules of this program", async () => {
  const loaded = await modulesLoadedBy(new URL("./quick_ps.ts", import.meta.url));
  for (const specifier of loaded) assert.match(specifier, /^file:/);
  const names = loaded.map((specifier) => specifier.replace(/^.*\//, ""));
  assert.ok(names.includes("running_record.ts") && names.includes("plain_http.ts"));
  for (const name of ["libc.ts", "rooted_dir.ts", "application.ts"]) assert.ok(!names.includes(name), name);
});
