import assert from "node:assert/strict";
import { newId } from "../base/ids.ts";
import { readProcess, startToken } from "../base/process_identity.ts";
import type { RunningRecord } from "../base/running_record.ts";
import type { TimeBounds } from "../base/time_bounds.ts";
import { testContext, withTempDir } from "../tests/support/cli_context.ts";
import { type DoorAnswer, runningRecord, type ScriptedDoor, scriptedDoor } from "../tests/support/scripted_door.ts";
import { writeRunningRecord } from "../base/write_running_record.ts";
import { reportFailure } from "./failure.ts";
import { endedTasks, stop } from "./stop.ts";

/** A process that stands for a session's; `obeys` says whether SIGTERM ends it. */
async function startProcess(obeys: boolean): Promise<Deno.ChildProcess> {
  const script = obeys ? "echo ready; exec sleep 60" : 'trap "" TERM; echo ready; while :; do sleep 0.05; done';
  const child = new Deno.Command("sh", { args: ["-c", script], stdout: "piped", stderr: "null", stdin: "null" })
    .spawn();
  // The trap is set once it has said so.
  const reader = child.stdout.getReader();
  await reader.read();
  reader.releaseLock();
  return child;
}

interface Scene {
  readonly directory: string;
  readonly running: string;
  /** Starts a process and writes its record. */
  session(options?: { obeys?: boolean; door?: ScriptedDoor; more?: Partial<RunningRecord> }): Promise<RunningRecord>;
  stop(
    address: string,
    flags?: { timeout?: number },
    bounds?: Partial<TimeBounds>,
  ): Promise<{ status: number; out: string; err: string }>;
}

async function withScene(work: (scene: Scene) => Promise<void>): Promise<void> {
  await withTempDir(async (directory) => {
    const running = `${directory}/.murmur/running`;
    const children: Deno.ChildProcess[] = [];
    try {
      await work({
        directory,
        running,
        async session({ obeys = true, door, more = {} } = {}) {
          const child = await startProcess(obeys);
          children.push(child);
          const record = runningRecord({
            pid: child.pid,
            process_start: startToken(child.pid)!,
            records_dir: `${directory}/records`,
            ...(door === undefined ? {} : { session_id: door.sessionId, url: door.url }),
            ...more,
          });
          writeRunningRecord(running, record);
          return record;
        },
        async stop(address, flags = {}, bounds = {}) {
          const context = testContext(directory, { HOME: directory }, { stopPoll: 10, stopTaskEnds: 300, ...bounds });
          const status = await stop(context, flags, address).catch((error) => reportFailure(error, context));
          return { status, out: context.out(), err: context.err() };
        },
      });
    } finally {
      for (const child of children) {
        try {
          child.kill("SIGKILL");
        } catch {
          // It has ended, as it should.
        }
        await child.stdout.cancel();
        await child.status;
      }
    }
  });
}

const records = (running: string) => [...Deno.readDirSync(running)].map(({ name }) => name);

Deno.test("a session is asked through its door, its process ended, its record removed", () =>
  withScene(async (scene) => {
    const trace = `${scene.directory}/records/trace.jsonl`;
    await Deno.mkdir(`${scene.directory}/records`);
    // What ended earlier is no ending of this stop's tasks.
    await Deno.writeTextFile(trace, '{"event_type":"task_end","task_id":"tsk_lost"}\n');
    await using door = scriptedDoor({
      answer: ({ method }): DoorAnswer | null => {
        if (method !== "murmur.StopSession") return null;
        setTimeout(() => {
          Deno.writeTextFileSync(
            trace,
            '{"event_type":"task_end","task_id":"tsk_run"}\n' +
              '{"event_type":"task_canceled","task_id":"tsk_turn","phase":"turn"}\n' +
              '{"event_type":"task_canceled","task_id":"tsk_wait","phase":"queued"}\n{"event_type":"task_e',
            { append: true },
          );
        }, 30);
        return {
          result: {
            session_id: door.sessionId,
            canceled: ["tsk_lost", "tsk_run", "tsk_turn", "tsk_wait"],
            residue: [
              { kind: "detached_shell", work_id: "wrk_1", binary: "sleep", command: "sleep\n90", started_at_ms: 1 },
              { kind: "delegation", delegation_id: "dlg_1", capsule: "worker", version: "0.1.0" },
            ],
          },
        };
      },
    });
    const record = await scene.session({ door });
    const stopped = await scene.stop(record.session_id.slice(-8).toUpperCase());
    assert.deepEqual(stopped, {
      status: 0,
      err: "",
      out: `stopped: ${record.session_id}
capsule: demo@1.0.0
signal:  SIGTERM
canceled: tsk_lost
canceled: tsk_run
canceled: tsk_turn
canceled: tsk_wait
unended: tsk_lost  the trace does not record how this task ended
unended: tsk_turn  the trace does not record how this task ended
running: wrk_1  detached shell  sleep 90
running: dlg_1  delegation  worker@0.1.0
`,
    });
    assert.deepEqual(records(scene.running), []);
  }));

Deno.test("nothing was running: no wait, one line", () =>
  withScene(async (scene) => {
    await using door = scriptedDoor({
      token: "mdt1.x",
      answer: () => ({ result: { session_id: door.sessionId, canceled: [], residue: [] } }),
    });
    const record = await scene.session({ door, more: { door_token: "mdt1.x" } });
    const before = performance.now();
    const { out } = await scene.stop("@1", {}, { stopTaskEnds: 60_000 });
    assert.ok(performance.now() - before < 10_000);
    assert.equal(
      out,
      `stopped: ${record.session_id}\ncapsule: demo@1.0.0\nsignal:  SIGTERM\nresidue: nothing else was left running\n`,
    );
  }));

Deno.test("a process that does not obey is killed when the time is over, at once with 0", () =>
  withScene(async (scene) => {
    for (const timeout of [0, 1]) {
      const record = await scene.session({ obeys: false });
      const before = performance.now();
      const { status, out } = await scene.stop(record.session_id, { timeout });
      const took = performance.now() - before;
      assert.equal(status, 0);
      assert.match(out, /^signal: {2}SIGKILL$/m);
      assert.match(out, /^residue: unknown — the capsule could not be asked: a script capsule has no door$/m);
      assert.ok(took >= timeout * 1_000 && took < timeout * 1_000 + 3_000, `${took} ms`);
      assert.equal(readProcess(record.pid, record.process_start).state, "gone");
      assert.deepEqual(records(scene.running), []);
    }
  }));

Deno.test("a door that is silent, somebody else's, or gone does not keep the session alive", () =>
  withScene(async (scene) => {
    const never = Promise.withResolvers<null>();
    await using silent = scriptedDoor({ answer: () => never.promise });
    await scene.session({ door: silent });
    const unanswered = await scene.stop("@1", {}, { doorCard: 100 });
    never.resolve(null);
    assert.match(unanswered.out, /^residue: unknown — the capsule could not be asked: .*said nothing for 100 ms$/m);
    assert.equal(unanswered.status, 0);

    let asked = 0;
    await using impostor = scriptedDoor({
      answer: () => {
        asked++;
        return { result: { session_id: "x", canceled: [], residue: [] } };
      },
    });
    await scene.session({ more: { url: impostor.url } });
    const robbed = await scene.stop("@1");
    assert.match(robbed.out, /^residue: unknown — .*answers for session/m);
    assert.equal(asked, 0, "another's session was asked to stop");

    await scene.session({ more: { url: "localhost:1" } });
    assert.match((await scene.stop("@1")).out, /^residue: unknown — .*refused the connection$/m);
    await using old = scriptedDoor();
    await scene.session({ door: old });
    assert.match((await scene.stop("@1")).out, /^residue: unknown — .*does not serve that method$/m);
  }));

Deno.test("a process that ends by itself meanwhile needs no signal", () =>
  withScene(async (scene) => {
    await using door = scriptedDoor({
      answer: async () => {
        Deno.kill(record.pid, "SIGKILL");
        while (startToken(record.pid) !== null) {
          if (/\) Z /.test(await Deno.readTextFile(`/proc/${record.pid}/stat`).catch(() => ") Z "))) break;
        }
        return { result: { session_id: door.sessionId, canceled: ["tsk_1"], residue: [] } };
      },
    });
    const record: RunningRecord = await scene.session({ door });
    await Deno.mkdir(`${scene.directory}/records`);
    await Deno.writeTextFile(`${scene.directory}/records/trace.jsonl`, "");
    const before = performance.now();
    const { out } = await scene.stop("@1", {}, { stopTaskEnds: 60_000 });
    assert.ok(performance.now() - before < 10_000, "nothing more is written by a process that is gone");
    assert.match(out, /^signal: {2}none — the process had already exited$/m);
    assert.match(out, /^unended: tsk_1 /m);
  }));

Deno.test("what is not running is not stopped, and nothing is signalled that could be another", () =>
  withScene(async (scene) => {
    assert.match((await scene.stop("@1")).err, /^error\[E-RUN-022\]: no capsule is running on this machine/);
    const reused = await scene.session({ more: { process_start: "1" } });
    const gone = await scene.stop(reused.session_id);
    assert.match(
      gone.err,
      new RegExp(`E-RUN-022\\]: ${reused.session_id} is not running: pid ${reused.pid} is held by`),
    );
    assert.deepEqual(records(scene.running), []);
    assert.notEqual(startToken(reused.pid), null, "the other process was left alone");

    const unverified = await scene.session({ more: { process_start: "" } });
    assert.match(
      (await scene.stop(unverified.session_id)).err,
      /E-RUN-024\]: ses_\w+ could not be ended: pid \d+'s start time could not be read/,
    );
    assert.match((await scene.stop("@1")).err, /E-RUN-022\]: no capsule is running/);
    assert.deepEqual(records(scene.running), [`${unverified.session_id}.json`]);
    assert.notEqual(startToken(unverified.pid), null);

    for (const address of ["./x", "localhost:80", "trace.jsonl", "abc", ""]) {
      assert.match((await scene.stop(address)).err, /E-RUN-022\]: '.*' is not a session address/, address);
    }
    assert.match((await scene.stop(newId("ses"))).err, /E-RUN-022\]: ses_\w+ is not running on this machine/);
    assert.match((await scene.stop("frm_x")).err, /E-RUN-022\]: 'frm_x' is a formation/);
  }));

Deno.test("an address with several sessions lists them and stops none", () =>
  withScene(async (scene) => {
    const tail = "0123456789abcdef0123456789ab";
    for (const head of ["1111", "2222"]) await scene.session({ more: { session_id: `ses_${head}${tail}` } });
    const { status, err } = await scene.stop("6789ab");
    assert.equal(status, 1);
    assert.match(err, /matches 2 sessions — provide more characters\n {2}ses_2222\w+\n {2}ses_1111\w+/);
    assert.equal(records(scene.running).length, 2);
    assert.match((await scene.stop("@3")).err, /@3 is out of range — 2 capsule\(s\) run on this machine/);
    assert.match((await scene.stop("@0")).err, /ordinal must be @1 or higher/);
    assert.match((await scene.stop("@x")).err, /invalid ordinal '@x'/);
  }));

Deno.test("which tasks a piece of a trace tells the end of", () => {
  assert.deepEqual(
    endedTasks(
      [
        '{"event_type":"task_end","task_id":"a"}',
        '{"event_type":"task_start","task_id":"b"}',
        '{"event_type":"task_canceled","task_id":"c","phase":"inference"}',
        '{"event_type":"task_canceled","task_id":"d","phase":"queued"}',
        '{"event_type":"task_end"}',
        "null",
        "[]",
        "",
        '{"event_type":"task_end","task_id":"e"',
      ].join("\n"),
    ),
    ["a", "d"],
  );
});
