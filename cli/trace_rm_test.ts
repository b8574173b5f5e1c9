import assert from "node:assert/strict";
import { AT_FDCWD, cString, libc, O } from "../base/libc.ts";
import { pathExists } from "../base/path_exists.ts";
import { murmurHomeAt, recordsGroup } from "../base/murmur_home.ts";
import { writeRunningRecord } from "../base/write_running_record.ts";
import { testContext, withTempDir } from "../tests/support/cli_context.ts";
import { recordSession, sessionIdAt } from "../tests/support/recorded_session.ts";
import { runningRecord } from "../tests/support/scripted_door.ts";
import { main } from "./main.ts";

const NOW = 1_767_225_600_000;

async function withHome(
  work: (
    home: string,
    rm: (...args: string[]) => Promise<{ status: number; out: string; err: string }>,
  ) => Promise<void>,
): Promise<void> {
  await withTempDir(async (home) => {
    await work(home, async (...args) => {
      const context = testContext(home, { HOME: home });
      const status = await main(["trace", "rm", ...args], context);
      return { status, out: context.out(), err: context.err() };
    });
  });
}

/** Every file and directory below a directory, sorted. */
function below(directory: string, prefix = ""): string[] {
  return [...Deno.readDirSync(directory)].flatMap(({ name, isDirectory }) => [
    `${prefix}${name}`,
    ...(isDirectory ? below(`${directory}/${name}`, `${prefix}${name}/`) : []),
  ]).sort();
}

/** A session, a child it delegated to, and that child's child. */
async function family(home: string) {
  const workdir = `${home}/workdir`;
  const parent = await recordSession(home, workdir, sessionIdAt(NOW, 1));
  const childWork = `${parent}/children/worker-0011223344556677`;
  await Deno.mkdir(childWork, { recursive: true });
  const child = await recordSession(home, childWork, sessionIdAt(NOW, 2));
  const grandchildWork = `${child}/children/helper-8899aabbccddeeff`;
  await Deno.mkdir(grandchildWork, { recursive: true });
  const grandchild = await recordSession(home, grandchildWork, sessionIdAt(NOW, 3));
  const other = await recordSession(home, workdir, sessionIdAt(NOW, 9));
  return { parent, child, grandchild, other };
}

Deno.test("a session goes with its delegated children and theirs, and nothing else", () =>
  withHome(async (home, rm) => {
    const { parent, other } = await family(home);
    await Deno.writeTextFile(`${parent}/logs.txt`, "x");
    await Deno.mkdir(`${parent}/home/deep`, { recursive: true });
    await Deno.symlink(other, `${parent}/tmp`);
    const { status, out, err } = await rm(sessionIdAt(NOW, 1));
    assert.deepEqual([status, err], [0, ""]);
    assert.equal(out, [3, 2, 1].map((tail) => `removed: ${sessionIdAt(NOW, tail)}\n`).join(""));
    const records = murmurHomeAt(home).records;
    const left = below(records);
    assert.deepEqual(left.filter((path) => path.includes("ses_")), [
      other.slice(records.length + 1),
      `${other.slice(records.length + 1)}/trace.jsonl`,
    ]);
    assert.ok(!left.some((path) => path.includes("children")), "no empty groups are left");
  }));

Deno.test("several addresses; one that is refused keeps all", () =>
  withHome(async (home, rm) => {
    const workdir = `${home}/workdir`;
    for (const tail of [1, 2, 3]) await recordSession(home, workdir, sessionIdAt(NOW, tail));
    const group = recordsGroup(murmurHomeAt(home), workdir);
    for (const bad of ["@9", "zzzz", "@0", `${group}/${sessionIdAt(NOW, 1)}`, "trace.jsonl", "./x"]) {
      const { status, out, err } = await rm("@1", bad);
      assert.deepEqual([status, out], [1, ""], bad);
      assert.match(err, /^error\[E-TRC-002\]: /, bad);
    }
    assert.equal((await rm()).status, 2);
    assert.equal([...Deno.readDirSync(group)].length, 3);
    assert.equal(
      (await rm("@1", sessionIdAt(NOW, 3), "@3")).out,
      `removed: ${sessionIdAt(NOW, 3)}\nremoved: ${sessionIdAt(NOW, 1)}\n`,
    );
    assert.deepEqual([...Deno.readDirSync(group)].map(({ name }) => name), [sessionIdAt(NOW, 2)]);
  }));

Deno.test("folders that a command closed, or nested past what a path can name, do not keep the records", () =>
  withHome(async (home, rm) => {
    const c = libc();
    const name = cString("d".repeat(200))!;
    const records = await recordSession(home, `${home}/workdir`, sessionIdAt(NOW, 1));
    for (const folder of ["tmp", "home"]) {
      await Deno.mkdir(`${records}/${folder}/closed/below`, { recursive: true });
      await Deno.chmod(`${records}/${folder}/closed`, 0);
      let at = c.openat(AT_FDCWD, cString(`${records}/${folder}`)!, O.PATH | O.DIRECTORY);
      for (let depth = 0; depth < 30; depth++) {
        assert.equal(c.mkdirat(at, name, 0o700), 0);
        const below = c.openat(at, name, O.PATH | O.DIRECTORY);
        c.close(at);
        at = below;
      }
      c.close(at);
    }
    const { status, out, err } = await rm(sessionIdAt(NOW, 1));
    assert.deepEqual([status, out, err], [0, `removed: ${sessionIdAt(NOW, 1)}\n`, ""]);
    assert.ok(!await pathExists(records));
  }));

Deno.test("a running session, one that cannot be told from it, or one with a running descendant stays", () =>
  withHome(async (home, rm) => {
    await family(home);
    const running = murmurHomeAt(home).running;
    const before = below(murmurHomeAt(home).records);
    for (const tail of [1, 3]) {
      for (const more of [{}, { process_start: "" }]) {
        const record = runningRecord({ session_id: sessionIdAt(NOW, tail), ...more });
        writeRunningRecord(running, record);
        const { status, out, err } = await rm(sessionIdAt(NOW, 1), sessionIdAt(NOW, 9));
        assert.deepEqual([status, out], [1, ""]);
        assert.match(err, new RegExp(`E-TRC-002\\]: ${record.session_id} is running; nothing was removed`));
        assert.deepEqual(below(murmurHomeAt(home).records), before);
        await Deno.remove(`${running}/${record.session_id}.json`);
      }
    }
    // One that is being launched, or could not write its record, holds its scratch directory.
    const scratch = `${murmurHomeAt(home).sessions}/${sessionIdAt(NOW, 3)}`;
    await Deno.mkdir(scratch, { recursive: true });
    {
      using lock = await Deno.open(`${scratch}/.lock`, { write: true, create: true });
      lock.lockSync(true);
      const { status, err } = await rm(sessionIdAt(NOW, 1));
      assert.equal(status, 1);
      assert.match(err, new RegExp(`E-TRC-002\\]: ${sessionIdAt(NOW, 3)} is running; nothing was removed`));
      assert.deepEqual(below(murmurHomeAt(home).records), before);
    }
    writeRunningRecord(running, runningRecord({ session_id: sessionIdAt(NOW, 1), process_start: "1" }));
    assert.equal((await rm(sessionIdAt(NOW, 1))).status, 0, "the record of a dead process keeps nothing");
  }));

Deno.test("a work folder that looks like an older session is not a record", () =>
  withHome(async (home, rm) => {
    const workFolder = `${home}/workdir/${sessionIdAt(NOW)}`;
    await Deno.mkdir(workFolder, { recursive: true });
    await Deno.writeTextFile(`${workFolder}/trace.jsonl`, "{}\n");
    assert.match((await rm(sessionIdAt(NOW))).err, /E-TRC-002/);
    assert.match((await rm("@1")).err, /E-TRC-002/);
    assert.ok(Deno.statSync(`${workFolder}/trace.jsonl`).isFile);
  }));

Deno.test("a session that worked in the folder of another is none of that one's records", () =>
  withHome(async (home, rm) => {
    const workdir = `${home}/workdir`;
    const outer = await recordSession(home, workdir, sessionIdAt(NOW, 1));
    // The same folder once without a session of that name: only its group is there.
    for (const [tail, below] of [[1, ""], [1, "/tmp/deep"], [4, ""]] as const) {
      const folder = `${workdir}/${sessionIdAt(NOW, tail)}${below}`;
      const inner = await recordSession(home, folder, sessionIdAt(NOW, 7));
      const { status, out, err } = await rm(sessionIdAt(NOW, tail));
      assert.deepEqual([status, out], [1, ""], folder);
      assert.ok(err.includes(`hint: mur trace rm --workdir ${folder} ${sessionIdAt(NOW, 7)} `), err);
      assert.ok(Deno.statSync(`${inner}/trace.jsonl`).isFile);
      assert.ok(Deno.statSync(`${outer}/trace.jsonl`).isFile);
      assert.equal((await rm("--workdir", folder, sessionIdAt(NOW, 7))).out, `removed: ${sessionIdAt(NOW, 7)}\n`);
    }
    assert.equal((await rm(sessionIdAt(NOW, 1))).out, `removed: ${sessionIdAt(NOW, 1)}\n`);
    assert.throws(() => Deno.statSync(outer), Deno.errors.NotFound);
  }));

Deno.test("a link among the children leads nowhere", () =>
  withHome(async (home, rm) => {
    const workdir = `${home}/workdir`;
    const outside = await recordSession(home, `${home}/elsewhere`, sessionIdAt(NOW, 5));
    const session = await recordSession(home, workdir, sessionIdAt(NOW, 1));
    await Deno.mkdir(`${session}/children`);
    await Deno.symlink(`${home}/elsewhere`, `${session}/children/worker-1`);
    assert.equal((await rm("@1")).out, `removed: ${sessionIdAt(NOW, 1)}\n`);
    assert.ok(Deno.statSync(`${outside}/trace.jsonl`).isFile);
  }));
