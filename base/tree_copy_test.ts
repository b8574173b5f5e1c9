import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { AT_FDCWD, cString, libc, O } from "./libc.ts";
import { RootedDir } from "./rooted_dir.ts";
import { RootedError } from "./rooted_error.ts";
import { type CopiedTree, copyTree, type LeftOutReason, MAX_TREE_DEPTH, TreeTooLarge } from "./tree_copy.ts";

/** Two directories on one file system, `from` and `to`. */
async function box(body: (dir: string) => Promise<void>, parent?: string): Promise<void> {
  const dir = await Deno.makeTempDir(parent === undefined ? {} : { dir: parent });
  Deno.mkdirSync(`${dir}/from`);
  Deno.mkdirSync(`${dir}/to`);
  try {
    await body(dir);
  } finally {
    using root = RootedDir.open(dir);
    for (const { name } of root.readDir()) root.removeAll(name);
    Deno.removeSync(dir);
  }
}

interface Copied extends CopiedTree {
  readonly leftOut: readonly (readonly [string, LeftOutReason])[];
}

async function copied(
  from: string,
  to: string,
  { maxBytes = 1 << 30, signal = new AbortController().signal }: { maxBytes?: number; signal?: AbortSignal } = {},
): Promise<Copied> {
  const leftOut: [string, LeftOutReason][] = [];
  using source = RootedDir.open(from);
  using target = RootedDir.open(to);
  const tree = await copyTree(source, target, {
    excludedNames: new Set(["left"]),
    excludedDirectories: [],
    linkTarget: (text) => text,
    maxBytes,
    leftOut: (path, reason) => leftOut.push([path, reason]),
    signal,
  });
  return { ...tree, leftOut: leftOut.sort() };
}

const read = (path: string) => Deno.readFileSync(path);

function pattern(length: number, seed = 1): Uint8Array {
  const bytes = new Uint8Array(length);
  for (let at = 0; at < length; at++) bytes[at] = (at * 31 + (at >> 10) + seed) & 0xff;
  return bytes;
}

function same(a: Uint8Array, b: Uint8Array): boolean {
  return Buffer.compare(a, b) === 0;
}

Deno.test("files of every size around the steps of copying arrive as they were", () =>
  box(async (dir) => {
    const sizes = [0, 1, 4_095, 65_536, (4 << 20) - 1, 4 << 20, (4 << 20) + 1, (16 << 20) + 7];
    for (const size of sizes) Deno.writeFileSync(`${dir}/from/${size}`, pattern(size));
    const tree = await copied(`${dir}/from`, `${dir}/to`);
    assert.deepEqual(
      { ...tree },
      { files: sizes.length, directories: 0, links: 0, bytes: sizes.reduce((sum, size) => sum + size, 0), leftOut: [] },
    );
    for (const size of sizes) assert.ok(same(read(`${dir}/to/${size}`), pattern(size)), String(size));
  }));

Deno.test("holes stay holes, wherever they are, and count as content", () =>
  box(async (dir) => {
    const MB = 1 << 20;
    const layouts: Record<string, [size: number, content: [at: number, length: number][]]> = {
      "empty of content": [8 * MB, []],
      "content in front": [8 * MB, [[0, 70_000]]],
      "content behind": [8 * MB, [[8 * MB - 70_000, 70_000]]],
      "content between": [8 * MB, [[2 * MB, MB], [5 * MB, 3]]],
    };
    for (const [name, [size, content]] of Object.entries(layouts)) {
      using file = Deno.openSync(`${dir}/from/${name}`, { write: true, create: true });
      file.truncateSync(size);
      for (const [at, length] of content) {
        file.seekSync(at, Deno.SeekMode.Start);
        file.writeSync(pattern(length));
      }
    }
    const { bytes } = await copied(`${dir}/from`, `${dir}/to`);
    assert.equal(bytes, 4 * 8 * MB);
    for (const [name, [size]] of Object.entries(layouts)) {
      const copy = Deno.statSync(`${dir}/to/${name}`);
      assert.equal(copy.size, size, name);
      assert.ok(
        copy.blocks! * 512 <= Deno.statSync(`${dir}/from/${name}`).blocks! * 512 + MB,
        `${name}: ${copy.blocks}`,
      );
      assert.ok(same(read(`${dir}/to/${name}`), read(`${dir}/from/${name}`)), name);
    }
  }));

Deno.test("between two file systems, where the kernel may not copy by itself", async () => {
  const shared = "/dev/shm";
  const other = Deno.statSync(shared).dev !== Deno.statSync(await Deno.makeTempDir()).dev;
  assert.ok(other, "no second file system to try it with");
  await box(async (from) =>
    await box(async (to) => {
      for (const size of [3, 70_000, 9_000_001]) Deno.writeFileSync(`${from}/from/${size}`, pattern(size));
      await copied(`${from}/from`, `${to}/to`);
      for (const size of [3, 70_000, 9_000_001]) assert.ok(same(read(`${to}/to/${size}`), pattern(size)), String(size));
    }, shared)
  );
});

Deno.test("names that are no UTF-8, the longest names, and names that look like flags", () =>
  box(async (dir) => {
    const c = libc();
    const names = [[0xff, 0xfe], [0x2d, 0x72, 0x66], [0x20], [0x0a], Array(255).fill(0x61), [0xc3, 0x28]];
    const root = c.openat(AT_FDCWD, cString(`${dir}/from`)!, O.RDONLY | O.DIRECTORY);
    for (const name of names) {
      const bytes = Uint8Array.from([...name, 0]);
      const fd = c.openat(root, bytes, O.WRONLY | O.CREAT | O.EXCL, 0o600);
      c.write(fd, Uint8Array.from(name));
      c.close(fd);
      c.mkdirat(root, Uint8Array.from([0x64, ...name.slice(0, 250), 0]), 0o755);
      c.symlinkat(Uint8Array.from([...name, 0]), root, Uint8Array.from([0x6c, ...name.slice(0, 250), 0]));
    }
    c.close(root);
    // A name that is excluded only without its byte order mark, and one that is.
    for (const name of ["\ufeffleft", "left"]) Deno.writeTextFileSync(`${dir}/from/${name}`, name);
    const { files, directories, links, leftOut } = await copied(`${dir}/from`, `${dir}/to`);
    assert.deepEqual([files, directories, links, leftOut], [7, 6, 6, [["left", "excluded"]]]);
    Deno.removeSync(`${dir}/from/left`);
    const listed = async (path: string) => {
      const script =
        'cd "$1" && ls -a --quoting-style=c-maybe --zero | od -An -tx1; find . -type f -print0 | sort -z | xargs -0 cat -- | od -An -tx1';
      const { stdout } = await new Deno.Command("sh", { args: ["-c", script, "sh", path] }).output();
      return new TextDecoder().decode(stdout);
    };
    assert.equal(await listed(`${dir}/to`), await listed(`${dir}/from`));
  }));

Deno.test("modes without setuid, setgid and sticky bits, and times to the nanosecond", () =>
  box(async (dir) => {
    const modes = [0o4755, 0o2750, 0o1777, 0o000, 0o444, 0o640, 0o7777];
    for (const mode of modes) {
      Deno.writeTextFileSync(`${dir}/from/f${mode}`, "x");
      Deno.mkdirSync(`${dir}/from/d${mode}`);
      Deno.writeTextFileSync(`${dir}/from/d${mode}/inside`, "x");
      for (const kind of ["f", "d"]) {
        const { success } = await new Deno.Command("touch", {
          args: ["-d", "2001-02-03 04:05:06.123456789", `${dir}/from/${kind}${mode}`],
        }).output();
        assert.ok(success);
        Deno.chmodSync(`${dir}/from/${kind}${mode}`, mode);
      }
    }
    // What an ordinary user cannot read is not copied; the rest is.
    const closed = Deno.uid() === 0 ? [] : [0o000];
    const { leftOut } = await copied(`${dir}/from`, `${dir}/to`);
    const unreadable = closed.flatMap((mode) => [`d${mode}`, `f${mode}`]);
    // Directories that it may list, and not pass through.
    const passed = closed.length === 0 ? [] : [0o444, 0o640].map((mode) => `d${mode}/inside`);
    assert.deepEqual(leftOut, [...unreadable, ...passed].sort().map((path) => [path, "unreadable"]));
    for (const mode of modes.filter((each) => !closed.includes(each))) {
      for (const kind of ["f", "d"]) {
        using root = RootedDir.open(`${dir}/to`);
        using original = RootedDir.open(`${dir}/from`);
        const { mode: copy, mtime } = root.stat(`${kind}${mode}`);
        assert.equal(copy, mode & 0o777, `${kind}${mode.toString(8)}`);
        assert.equal(mtime, original.stat(`${kind}${mode}`).mtime);
        assert.equal(mtime % 1_000_000_000n, 123_456_789n);
      }
    }
    // The tree can be taken away again, closed directories and all: `box` does.
  }));

Deno.test("the ceiling is judged before each file, to the byte", () =>
  box(async (dir) => {
    for (const name of ["a", "b", "c"]) Deno.writeFileSync(`${dir}/from/${name}`, pattern(1_000));
    assert.equal((await copied(`${dir}/from`, `${dir}/to`, { maxBytes: 3_000 })).bytes, 3_000);
    Deno.mkdirSync(`${dir}/again`);
    await assert.rejects(copied(`${dir}/from`, `${dir}/again`, { maxBytes: 2_999 }), TreeTooLarge);
    assert.ok([...Deno.readDirSync(`${dir}/again`)].length <= 2, "it stopped at the file that was too much");
    // Content that takes no space counts, as the child's own ceiling will count it.
    Deno.truncateSync(`${dir}/from/a`, 2 ** 40);
    Deno.mkdirSync(`${dir}/sparse`);
    await assert.rejects(copied(`${dir}/from`, `${dir}/sparse`, { maxBytes: 1 << 30 }), TreeTooLarge);
  }));

Deno.test("a file that grows all the while counts and is copied as what it was", () =>
  box(async (dir) => {
    const size = 9_000_000;
    Deno.writeFileSync(`${dir}/from/log`, pattern(size));
    using log = Deno.openSync(`${dir}/from/log`, { append: true });
    let writing = true;
    const writer = (async () => {
      while (writing) {
        log.writeSync(new Uint8Array(100_000));
        await new Promise((resolve) => setTimeout(resolve, 0));
      }
    })();
    for (let round = 0; round < 5; round++) {
      const { bytes } = await copied(`${dir}/from`, `${dir}/to`);
      assert.ok(bytes >= size && bytes === Deno.statSync(`${dir}/to/log`).size);
      assert.ok(same(read(`${dir}/to/log`).subarray(0, size), pattern(size)));
      Deno.removeSync(`${dir}/to/log`);
    }
    writing = false;
    await writer;
  }));

Deno.test("a file that is cut while it is copied comes as short as it became", () =>
  box(async (dir) => {
    Deno.writeFileSync(`${dir}/from/f`, pattern(64 << 20));
    const copying = copied(`${dir}/from`, `${dir}/to`);
    await new Promise((resolve) => setTimeout(resolve, 2));
    Deno.truncateSync(`${dir}/from/f`, 1_000);
    const { bytes } = await copying;
    assert.equal(bytes, Deno.statSync(`${dir}/to/f`).size);
    assert.ok(same(read(`${dir}/to/f`).subarray(0, 1_000), pattern(1_000)));
  }));

/** A tree of directories, one in another. */
function deep(c: ReturnType<typeof libc>, root: string, levels: number): void {
  let fd = c.openat(AT_FDCWD, cString(root)!, O.PATH | O.DIRECTORY);
  const name = cString("d")!;
  for (let level = 0; level < levels; level++) {
    assert.equal(c.mkdirat(fd, name, 0o755), 0);
    const next = c.openat(fd, name, O.PATH | O.DIRECTORY);
    c.close(fd);
    fd = next;
  }
  c.close(fd);
}

Deno.test("a tree as deep as the bound is copied, a deeper one is refused, whatever its paths are long", () =>
  box(async (dir) => {
    deep(libc(), `${dir}/from`, MAX_TREE_DEPTH);
    assert.equal((await copied(`${dir}/from`, `${dir}/to`)).directories, MAX_TREE_DEPTH);
    Deno.mkdirSync(`${dir}/deeper`);
    Deno.mkdirSync(`${dir}/deeper/top`);
    deep(libc(), `${dir}/deeper/top`, MAX_TREE_DEPTH);
    Deno.mkdirSync(`${dir}/refused`);
    await assert.rejects(
      copied(`${dir}/deeper`, `${dir}/refused`),
      (error) => error instanceof RootedError && error.kind === "name-too-long",
    );
  }));

Deno.test("an abort stops it between two pieces", () =>
  box(async (dir) => {
    Deno.writeFileSync(`${dir}/from/f`, pattern(64 << 20));
    const given = new AbortController();
    const copying = copied(`${dir}/from`, `${dir}/to`, { signal: given.signal });
    setTimeout(() => given.abort(new Error("given up")), 0);
    await assert.rejects(copying, /given up/);
    assert.ok(Deno.statSync(`${dir}/to/f`).size < 64 << 20);
  }));

Deno.test("no descriptor is left open, whether it works or fails", () =>
  box(async (dir) => {
    for (const sub of ["a/b/c", "a/d"]) Deno.mkdirSync(`${dir}/from/${sub}`, { recursive: true });
    for (const name of ["a/1", "a/b/2", "a/b/c/3"]) Deno.writeFileSync(`${dir}/from/${name}`, pattern(600_000));
    const open = () => [...Deno.readDirSync("/proc/self/fd")].length;
    await copied(`${dir}/from`, `${dir}/to`);
    const before = open();
    for (let round = 0; round < 4; round++) {
      Deno.mkdirSync(`${dir}/to${round}`);
      const copying = copied(`${dir}/from`, `${dir}/to${round}`, { maxBytes: round * 600_000 });
      if (round === 3) await copying;
      else await assert.rejects(copying, TreeTooLarge);
    }
    assert.equal(open(), before);
  }));

Deno.test("a folder whose entries change their kind all the while: nothing outside is read or written", () =>
  box(async (dir) => {
    Deno.mkdirSync(`${dir}/outside`);
    Deno.writeTextFileSync(`${dir}/outside/secret`, "outside");
    Deno.mkdirSync(`${dir}/from/a/sub`, { recursive: true });
    Deno.writeTextFileSync(`${dir}/from/a/sub/secret`, "inside");
    // A shell that swaps files and directories for links, fifos and back as fast as it can.
    const script = `
      cd "$1/from"; ln -s ../outside link; ln -s ../outside/secret flink; mkdir real; echo inside > real/secret
      echo inside > plain; mkfifo pipe; echo ready
      while :; do
        mv -T a/sub a/kept 2>/dev/null; mv -T link a/sub 2>/dev/null; mv -T a/sub link 2>/dev/null; mv -T a/kept a/sub 2>/dev/null
        mv -T plain p2 2>/dev/null; mv -T flink plain 2>/dev/null; mv -T plain flink 2>/dev/null
        mv -T pipe plain 2>/dev/null; mv -T plain pipe 2>/dev/null; mv -T p2 plain 2>/dev/null
      done`;
    const racer = new Deno.Command("sh", { args: ["-c", script, "sh", dir], stdout: "piped", stderr: "null" }).spawn();
    try {
      await racer.stdout.getReader().read();
      for (let round = 0; round < 100; round++) {
        const to = `${dir}/copy${round}`;
        Deno.mkdirSync(to);
        await copied(`${dir}/from`, to);
        for (const path of filesBelow(to)) assert.equal(Deno.readTextFileSync(path).trim(), "inside", path);
      }
    } finally {
      racer.kill("SIGKILL");
      await racer.status;
    }
    assert.deepEqual([...Deno.readDirSync(`${dir}/outside`)].map(({ name }) => name), ["secret"]);
    assert.equal(Deno.readTextFileSync(`${dir}/outside/secret`), "outside");
  }));

/** Regular files of a tree; links are not followed. */
function* filesBelow(dir: string): Generator<string> {
  for (const { name, isDirectory, isFile } of Deno.readDirSync(dir)) {
    if (isDirectory) yield* filesBelow(`${dir}/${name}`);
    else if (isFile) yield `${dir}/${name}`;
  }
}
