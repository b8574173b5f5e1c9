import assert from "node:assert/strict";
import { MurError } from "../../base/errors.ts";
import { RootedDir } from "../../base/rooted_dir.ts";
import type { SnapshotReport } from "./snapshot_report.ts";
import { removeFolder, type SnapshotRequest, takeSnapshot } from "./workdir_snapshot.ts";

/** A parent's work folder and a child's empty one. */
async function box(body: (places: { dir: string; source: string; target: string }) => Promise<void>): Promise<void> {
  const dir = await Deno.realPath(await Deno.makeTempDir());
  const places = { dir, source: `${dir}/parent`, target: `${dir}/children/worker-1` };
  Deno.mkdirSync(places.source);
  Deno.mkdirSync(places.target, { recursive: true, mode: 0o700 });
  try {
    await body(places);
  } finally {
    await removeFolder(dir);
  }
}

function snapshot(
  places: { readonly source: string; readonly target: string },
  more: Partial<SnapshotRequest> = {},
): Promise<SnapshotReport> {
  return takeSnapshot({
    child: "worker",
    ...places,
    runtimeDirectories: [],
    maxBytes: 10 * 1024 ** 3,
    signal: new AbortController().signal,
    ...more,
  });
}

async function run(script: string, ...args: string[]): Promise<string> {
  const { success, stdout, stderr } = await new Deno.Command("sh", { args: ["-ec", script, "sh", ...args] }).output();
  assert.ok(success, new TextDecoder().decode(stderr));
  return new TextDecoder().decode(stdout);
}

const ROOT = Deno.uid() === 0;

/** One entry of the torture tree and what the table of the seed makes of it. */
type Expected =
  | { readonly file: string; readonly mode: string }
  | { readonly directory: true; readonly mode: string }
  | { readonly link: string }
  | "absent";

Deno.test("every kind of entry becomes what the table says, entry by entry", () =>
  box(async ({ dir, source, target }) => {
    await run(
      `
      cd "$1"
      echo plain > file; chmod 4755 file
      echo locked > readonly; chmod 0444 readonly
      echo sticky > sticky; chmod 1604 sticky
      : > empty; chmod 600 empty
      mkdir dir; echo deep > dir/deep; chmod 2750 dir; chmod 640 dir/deep
      mkdir closed; echo in > closed/in; chmod 0555 closed
      ln file hard; ln file dir/hard 2>/dev/null || true
      truncate -s 3M sparse; printf end >> sparse
      mkfifo pipe dir/pipe
      ln -s file rel; ln -s ../outside up; ln -s /etc/hosts abs
      ln -s "$1/dir/deep" inside; ln -s "$1" self; ln -s "$1/../elsewhere" out-again; ln -s nowhere dangling
      ln -s loop loop
      mkdir peer-in out dir/out; echo x > peer-in/x; echo x > out/x; echo kept > dir/out/kept
      mkdir .murmur; echo project > .murmur/lock
      echo 'name: x' > murmur.yaml
      mkdir runtime; echo key > runtime/key
      touch -d '2003-04-05 06:07:08.9' file dir/deep; touch -d '2004-05-06 07:08:09' dir closed
      `,
      source,
    );
    using listener = Deno.listen({ transport: "unix", path: `${source}/socket` });
    let device = false;
    if (ROOT) {
      const made = await new Deno.Command("mknod", { args: [`${source}/null`, "c", "1", "3"], stderr: "null" })
        .output();
      device = made.success;
    }
    await run(
      `echo secret > "$1/secret"; chmod 000 "$1/secret"; mkdir "$1/shut"; echo s > "$1/shut/s"; chmod 000 "$1/shut"`,
      source,
    );
    void listener;

    const report = await snapshot({ source, target }, {
      runtimeDirectories: [`${source}/runtime`, `${dir}/not-there`],
    });

    const expected: Record<string, Expected> = {
      file: { file: "plain\n", mode: "755" },
      hard: { file: "plain\n", mode: "755" },
      "dir/hard": { file: "plain\n", mode: "755" },
      readonly: { file: "locked\n", mode: "444" },
      sticky: { file: "sticky\n", mode: "604" },
      empty: { file: "", mode: "600" },
      dir: { directory: true, mode: "750" },
      "dir/deep": { file: "deep\n", mode: "640" },
      closed: { directory: true, mode: "555" },
      "closed/in": { file: "in\n", mode: "644" },
      sparse: { file: `${"\0".repeat(3 << 20)}end`, mode: "644" },
      rel: { link: "file" },
      up: { link: "../outside" },
      abs: { link: "/etc/hosts" },
      inside: { link: `${target}/dir/deep` },
      self: { link: target },
      "out-again": { link: `${source}/../elsewhere` },
      dangling: { link: "nowhere" },
      loop: { link: "loop" },
      "peer-in": "absent",
      out: "absent",
      "dir/out": { directory: true, mode: "755" },
      "dir/out/kept": { file: "kept\n", mode: "644" },
      ".murmur": { directory: true, mode: "755" },
      ".murmur/lock": { file: "project\n", mode: "644" },
      "murmur.yaml": { file: "name: x\n", mode: "644" },
      runtime: "absent",
      pipe: "absent",
      "dir/pipe": "absent",
      socket: "absent",
      null: "absent",
      ...(ROOT
        ? {
          secret: { file: "secret\n", mode: "0" },
          shut: { directory: true, mode: "0" },
          "shut/s": { file: "s\n", mode: "644" },
        } as const
        : { secret: "absent", shut: "absent" } as const),
    };
    const there = (await run(`cd "$1" && find . -mindepth 1 -printf '%P\\n'`, target)).trim().split("\n").sort();
    const wanted = Object.entries(expected).filter(([, what]) => what !== "absent").map(([path]) => path).sort();
    assert.deepEqual(there, wanted);
    for (const [path, what] of Object.entries(expected)) {
      if (what === "absent") continue;
      if ("link" in what) {
        assert.equal(Deno.readLinkSync(`${target}/${path}`), what.link, path);
        continue;
      }
      const { mode } = Deno.lstatSync(`${target}/${path}`);
      assert.equal((mode! & 0o7777).toString(8), what.mode, path);
      if ("file" in what) assert.equal(Deno.readTextFileSync(`${target}/${path}`), what.file, path);
    }
    for (const path of ["file", "dir/deep", "dir", "closed", "readonly", "sparse"]) {
      const time = `stat -c %.Y "$1/${path}"`;
      assert.equal(await run(time, target), await run(time, source), path);
    }
    // Names of one file are files of their own: what one child's tool writes to one leaves the other alone.
    assert.equal(Deno.statSync(`${target}/file`).nlink, 1);
    assert.ok(Deno.statSync(`${target}/sparse`).blocks! * 512 < 1 << 20, "the hole takes no space");

    const skipped = Object.fromEntries(report.skipped.map(({ path, reason }) => [path, reason]));
    assert.deepEqual(skipped, {
      pipe: "fifo",
      "dir/pipe": "fifo",
      socket: "socket",
      "peer-in": "runtime-owned",
      out: "runtime-owned",
      runtime: "runtime-owned",
      ...(device ? { null: "device" } : {}),
      ...(ROOT ? {} : { secret: "unreadable", shut: "unreadable" }),
    });
    const kinds = Object.values(expected).filter((what) => what !== "absent");
    const files = kinds.filter((what) => "file" in what);
    assert.deepEqual({ ...report, skipped: [] }, {
      source,
      files: files.length,
      directories: kinds.filter((what) => "directory" in what).length,
      links: kinds.filter((what) => "link" in what).length,
      bytes: files.reduce((sum, { file }) => sum + file.length, 0),
      skipped: [],
    });
    // The child's folder itself keeps its mode.
    assert.equal(Deno.statSync(target).mode! & 0o777, 0o700);
  }));

Deno.test("the child's own folder and the runtime's are left out wherever they lie, under any name", () =>
  box(async ({ dir, source }) => {
    const records = `${source}/home/.murmur/records/x/ses_1`;
    const target = `${records}/children/worker-2`;
    Deno.mkdirSync(target, { recursive: true });
    Deno.mkdirSync(`${source}/scratch/runtime`, { recursive: true });
    Deno.writeTextFileSync(`${source}/home/.murmur/config.yaml`, "key");
    Deno.writeTextFileSync(`${source}/home/kept`, "kept");
    Deno.writeTextFileSync(`${source}/scratch/runtime/MURMUR.md`, "x");
    // Named through a link that leads there.
    Deno.symlinkSync(`${source}/scratch`, `${dir}/way`);
    const report = await snapshot({ source, target }, {
      runtimeDirectories: [`${source}/home/.murmur`, records, `${dir}/way`],
    });
    assert.deepEqual([...Deno.readDirSync(target)].map(({ name }) => name), ["home"]);
    assert.deepEqual([...Deno.readDirSync(`${target}/home`)].map(({ name }) => name), ["kept"]);
    assert.deepEqual(report.skipped.toSorted((a, b) => a.path < b.path ? -1 : 1), [
      { path: "home/.murmur", reason: "runtime-owned" },
      { path: "scratch", reason: "runtime-owned" },
    ]);
    // Without that list its own folder is still left out: a copy of a copy would never end.
    const again = `${source}/again`;
    Deno.mkdirSync(again);
    const own = await snapshot({ source, target: again });
    assert.ok(own.skipped.some(({ path, reason }) => path === "again" && reason === "runtime-owned"));
  }));

Deno.test("a folder named through a link: links to either name lead into the copy", () =>
  box(async ({ dir, source, target }) => {
    Deno.symlinkSync(source, `${dir}/alias`);
    Deno.symlinkSync(`${source}/a`, `${source}/by-real`);
    Deno.symlinkSync(`${dir}/alias/a`, `${source}/by-alias`);
    const report = await snapshot({ source: `${dir}/alias`, target });
    assert.equal(report.source, `${dir}/alias`);
    for (const name of ["by-real", "by-alias"]) assert.equal(Deno.readLinkSync(`${target}/${name}`), `${target}/a`);
  }));

Deno.test("too large: the folder is gone, and the message names child, ceiling and key", () =>
  box(async ({ source, target }) => {
    await run(
      `cd "$1"; mkdir a; chmod 0700 a; head -c 4000 /dev/zero > a/1; head -c 4000 /dev/zero > a/2; chmod 0500 a`,
      source,
    );
    await assert.rejects(snapshot({ source, target }, { maxBytes: 7_999 }), (error) => {
      assert.ok(error instanceof MurError);
      for (const part of ["'worker'", "7999", "capabilities.resources.workdir_max_bytes"]) {
        assert.ok(error.message.includes(part), error.message);
      }
      return true;
    });
    assert.throws(() => Deno.lstatSync(target), Deno.errors.NotFound);
    Deno.mkdirSync(target);
    assert.equal((await snapshot({ source, target }, { maxBytes: 8_000 })).bytes, 8_000);
  }));

Deno.test("given up, or a folder that is not there: nothing is left", async () => {
  await box(async ({ source, target }) => {
    await run(`head -c 80M /dev/zero | tr '\\0' x > "$1/big"`, source);
    const given = new AbortController();
    const taking = snapshot({ source, target }, { signal: given.signal });
    setTimeout(() => given.abort(new Error("given up")), 3);
    await assert.rejects(taking, /given up/);
    assert.throws(() => Deno.lstatSync(target), Deno.errors.NotFound);
    await assert.rejects(snapshot({ source, target }, { signal: given.signal }), /given up/);
  });
  await box(async ({ dir, target }) => {
    await assert.rejects(snapshot({ source: `${dir}/missing`, target }), (error) => error instanceof MurError);
    assert.throws(() => Deno.lstatSync(target), Deno.errors.NotFound);
  });
});

Deno.test("what was copied of a large folder is removed while other work goes on", () =>
  box(async ({ source, target }) => {
    await run('cd "$1"; seq 8000 | xargs touch', source);
    let turns = 0;
    const others = setInterval(() => turns++, 1);
    await snapshot({ source, target });
    turns = 0;
    await removeFolder(target);
    clearInterval(others);
    assert.throws(() => Deno.lstatSync(target), Deno.errors.NotFound);
    assert.ok(turns > 2, `${turns}`);
  }));

Deno.test("a disk that is full fails the copy, and leaves the disk as it was", async () => {
  await box(async ({ source }) => {
    await run(`head -c 6M /dev/zero | tr '\\0' x > "$1/big"; echo small > "$1/a"`, source);
    // A file system of 4 MB of its own, inside a namespace of its own.
    const test = new URL("./testing/full_disk.ts", import.meta.url).pathname;
    const { stdout, stderr } = await new Deno.Command("unshare", {
      args: ["--user", "--map-root-user", "--mount", Deno.execPath(), "run", "-A", "--quiet", test, source],
      cwd: new URL("../..", import.meta.url).pathname,
    }).output();
    const said = new TextDecoder().decode(stdout);
    assert.match(said, /^no space is left on .*E-IO-003.*no space is left\n$/, said + new TextDecoder().decode(stderr));
  });
});

Deno.test("later changes on either side are not seen by the other", () =>
  box(async ({ source, target }) => {
    Deno.writeTextFileSync(`${source}/a`, "before");
    await snapshot({ source, target });
    Deno.writeTextFileSync(`${source}/a`, "parent");
    Deno.writeTextFileSync(`${target}/b`, "child");
    assert.equal(Deno.readTextFileSync(`${target}/a`), "before");
    Deno.writeTextFileSync(`${target}/a`, "child");
    assert.equal(Deno.readTextFileSync(`${source}/a`), "parent");
    assert.throws(() => Deno.statSync(`${source}/b`), Deno.errors.NotFound);
  }));

Deno.test("a report lists a bounded part of what was skipped, and counts the rest", () =>
  box(async ({ source, target }) => {
    await run(`cd "$1"; for i in $(seq 300); do echo p$i; done | xargs mkfifo`, source);
    const report = await snapshot({ source, target });
    assert.equal(report.skipped.length, 256);
    assert.equal(report.skipped_unlisted, 44);
    assert.ok(JSON.stringify(report).length < 100_000);
  }));

Deno.test("copies wait for each other, and one that fails does not keep the next one", () =>
  box(async ({ dir, source }) => {
    Deno.writeTextFileSync(`${source}/a`, "a");
    const targets = ["1", "2", "3"].map((name) => `${dir}/children/${name}`);
    for (const target of targets) Deno.mkdirSync(target);
    const results = await Promise.allSettled(
      targets.map((target, index) => snapshot({ source, target }, { maxBytes: index === 1 ? 0 : 10 })),
    );
    assert.deepEqual(results.map(({ status }) => status), ["fulfilled", "rejected", "fulfilled"]);
    using root = RootedDir.open(`${dir}/children`);
    assert.deepEqual(root.readDir().map(({ name }) => name).sort(), ["1", "3", "worker-1"]);
  }));
