import assert from "node:assert/strict";
import { RootedDir } from "../base/rooted_dir.ts";
import { heldBytes, namelessOfThisProcess } from "./held_files.ts";
import { breachError, breachRefusal, directorySize, type WorkdirBreach, WorkdirBudget } from "./workdir_budget.ts";

const NOTHING: ReadonlySet<string> = new Set();

function inTempDir(body: (dir: string) => Promise<void>): () => Promise<void> {
  return async () => {
    const dir = await Deno.makeTempDir();
    try {
      await body(dir);
    } finally {
      await new Deno.Command("rm", { args: ["-rf", dir] }).output();
    }
  };
}

Deno.test(
  "sizes are summed without leaving the folder",
  inTempDir(async (dir) => {
    await Deno.mkdir(`${dir}/work/a/b`, { recursive: true });
    await Deno.mkdir(`${dir}/tmp`);
    await Deno.mkdir(`${dir}/outside`);
    await Deno.writeFile(`${dir}/outside/large`, new Uint8Array(1_000_000));
    await Deno.writeFile(`${dir}/work/one`, new Uint8Array(1_000));
    await Deno.writeFile(`${dir}/work/a/b/two`, new Uint8Array(500));
    await Deno.writeFile(`${dir}/tmp/three`, new Uint8Array(7));
    await Deno.symlink("../outside", `${dir}/work/link`);
    await Deno.symlink(`${dir}/outside/large`, `${dir}/work/a/far`);
    await Deno.truncate(`${dir}/work/one`, 5_000_000_000);
    await new Deno.Command("mkfifo", { args: [`${dir}/work/fifo`] }).output();
    using work = RootedDir.open(`${dir}/work`);
    using tmp = RootedDir.open(`${dir}/tmp`);
    const links = "../outside".length + `${dir}/outside/large`.length;
    assert.equal(await directorySize([work, tmp]), 5_000_000_000 + 500 + 7 + links);
  }),
);

Deno.test(
  "depth, odd names and unreadable places hide nothing that can be read",
  inTempDir(async (dir) => {
    // Deeper than any path the kernel takes, with a name that is no UTF-8 on the way.
    const made = await new Deno.Command("sh", {
      args: [
        "-c",
        `cd "$0" && mkdir "$(printf '\\377')" && cd "$(printf '\\377')" &&
         i=0; while [ $i -lt 120 ]; do n=$(printf '%0100d' $i); mkdir $n && cd -P $n || exit 1; i=$((i+1)); done;
         head -c 12345 /dev/zero > deep`,
        dir,
      ],
    }).output();
    assert.ok(made.success, new TextDecoder().decode(made.stderr));
    await Deno.mkdir(`${dir}/listed/below`, { recursive: true });
    await Deno.mkdir(`${dir}/closed/below/deep`, { recursive: true });
    for (const path of ["listed/below/a", "closed/a", "closed/below/a", "closed/below/deep/a"]) {
      await Deno.writeFile(`${dir}/${path}`, new Uint8Array(100));
    }
    const modes = {
      "closed/below/deep": 0,
      "closed/below": 0o400,
      closed: 0o200,
      "listed/below": 0o300,
      listed: 0o400,
    };
    for (const [path, mode] of Object.entries(modes)) await Deno.chmod(`${dir}/${path}`, mode);
    using root = RootedDir.open(dir);
    assert.equal(await directorySize([root]), 12_345 + 400);
    for (const [path, mode] of Object.entries(modes).reverse()) {
      assert.equal((await Deno.stat(`${dir}/${path}`)).mode! & 0o777, mode, `${path} is as it was`);
      await Deno.chmod(`${dir}/${path}`, 0o700);
    }
  }),
);

Deno.test(
  "what is held without a name counts, whoever of this process's tree holds it",
  inTempDir(async (dir) => {
    using root = RootedDir.open(dir);
    const before = await heldBytes([root], NOTHING);
    const file = Deno.openSync(`${dir}/own`, { write: true, createNew: true });
    file.writeSync(new Uint8Array(1 << 20));
    Deno.removeSync(`${dir}/own`);
    assert.equal(await heldBytes([root], NOTHING) - before, 1 << 20);
    assert.equal(await directorySize([root]), 0);
    const child = new Deno.Command("sh", {
      args: ["-c", "exec 3>other; head -c 2097152 /dev/zero >&3; rm other; echo held; cat"],
      cwd: dir,
      stdin: "piped",
      stdout: "piped",
    }).spawn();
    const reader = child.stdout.getReader();
    assert.equal(new TextDecoder().decode((await reader.read()).value), "held\n");
    assert.equal(await heldBytes([root], NOTHING) - before, 3 << 20, "the shell and its child hold one file");
    assert.equal(await heldBytes([], NOTHING), 0, "on other disks it is nobody's here");
    assert.equal(
      await heldBytes([root], namelessOfThisProcess()),
      2 << 20,
      "what this process held before commands ran is not theirs, what its children hold is",
    );
    await child.stdin.close();
    await child.status;
    reader.releaseLock();
    await child.stdout.cancel();
    file.close();
    assert.equal(await heldBytes([root], NOTHING), before);
  }),
);

/** What fills a disk with files whose sizes sum up to next to nothing: a script, and the least room it takes. */
const ROOM: Readonly<Record<string, readonly [string, number]>> = {
  "behind a file's end": [`touch file && fallocate -n -l ${20 << 20} file`, 20 << 20],
  "in many small files": ["seq 5000 | xargs sh -c 'for i; do echo x > $i; done' sh", 20_000_000],
  "in many folders": ["seq 5000 | xargs mkdir", 20_000_000],
};

for (const [what, [script, room]] of Object.entries(ROOM)) {
  Deno.test(
    `what is taken of the disk counts where sizes do not tell it: ${what}`,
    inTempDir(async (dir) => {
      const made = await new Deno.Command("sh", { args: ["-c", script], cwd: dir }).output();
      assert.ok(made.success, new TextDecoder().decode(made.stderr));
      using root = RootedDir.open(dir);
      const size = await directorySize([root]);
      assert.ok(size >= room - (1 << 20), `${size}`);
    }),
  );
}

Deno.test(
  "a large tree lets other work go on",
  inTempDir(async (dir) => {
    for (let index = 0; index < 200; index++) {
      await Deno.mkdir(`${dir}/${index}`);
      for (let file = 0; file < 50; file++) Deno.writeTextFileSync(`${dir}/${index}/${file}`, "1234");
    }
    using root = RootedDir.open(dir);
    let ticks = 0;
    const timer = setInterval(() => ticks++, 1);
    const size = await directorySize([root]);
    assert.ok(size >= 40_000);
    clearInterval(timer);
    assert.ok(ticks >= 1);
    const stop = AbortSignal.abort();
    assert.ok(await directorySize([root], stop) < size);
  }),
);

Deno.test(
  "the first breach is latched and nothing is looked at afterwards",
  inTempDir(async (dir) => {
    using root = RootedDir.open(dir);
    const breaches: WorkdirBreach[] = [];
    await Deno.writeFile(`${dir}/f`, new Uint8Array(100));
    const budget = new WorkdirBudget({
      roots: [root],
      maxBytes: 100,
      interval: 20,
      onBreach: (breach) => breaches.push(breach),
    });
    const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));
    assert.equal(budget.breach, null);
    await pause(100);
    assert.equal(budget.breach, null, "the ceiling itself may be reached");
    await Deno.writeFile(`${dir}/g`, new Uint8Array(1));
    await pause(200);
    assert.deepEqual(budget.breach, { bytes: 101, maxBytes: 100 });
    await Deno.remove(`${dir}/g`);
    await Deno.writeFile(`${dir}/h`, new Uint8Array(1_000));
    await pause(100);
    assert.deepEqual(breaches, [{ bytes: 101, maxBytes: 100 }]);
    budget.stop();
    assert.equal(
      breachRefusal(budget.breach!),
      "workdir grew to 101 bytes, past the 100 byte ceiling (capabilities.resources.workdir_max_bytes)",
    );
    const error = breachError(budget.breach!);
    assert.equal(error.code, "E-RUN-013");
    assert.equal(error.message, `session ${breachRefusal(budget.breach!)}`);
  }),
);

Deno.test(
  "a stopped watch finds nothing more",
  inTempDir(async (dir) => {
    using root = RootedDir.open(dir);
    await Deno.writeFile(`${dir}/f`, new Uint8Array(100));
    const budget = new WorkdirBudget({ roots: [root], maxBytes: 1, interval: 20, onBreach: () => assert.fail() });
    budget.stop();
    await new Promise((resolve) => setTimeout(resolve, 80));
    assert.equal(budget.breach, null);
  }),
);
