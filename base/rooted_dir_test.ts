import assert from "node:assert/strict";
import fc from "fast-check";
import { type BeneathResolver, KernelResolver, WalkResolver } from "./beneath.ts";
import { AT_FDCWD, cString, libc, O } from "./libc.ts";
import { RootedDir, sameFile } from "./rooted_dir.ts";
import { RootedError, type RootedErrorKind } from "./rooted_error.ts";

const RESOLVERS: Readonly<Record<string, BeneathResolver>> = {
  openat2: new KernelResolver(libc()),
  walk: new WalkResolver(libc()),
};

/** Runs one test for each way of opening paths, in a directory of its own. */
function eachWay(name: string, body: (box: { dir: string; resolver: BeneathResolver }) => void | Promise<void>): void {
  for (const [way, resolver] of Object.entries(RESOLVERS)) {
    Deno.test(`${name} (${way})`, async () => {
      const dir = await Deno.makeTempDir();
      try {
        await body({ dir, resolver });
      } finally {
        await Deno.remove(dir, { recursive: true });
      }
    });
  }
}

function kindOf(act: () => unknown): RootedErrorKind | "no error" {
  try {
    const result = act();
    if (typeof result === "object" && result !== null && Symbol.dispose in result) {
      (result as Disposable)[Symbol.dispose]();
    }
    return "no error";
  } catch (error) {
    if (error instanceof RootedError) return error.kind;
    throw error;
  }
}

function text(root: RootedDir, path: string): string {
  using file = root.openFile(path);
  return new TextDecoder().decode(file.readAll(1 << 20));
}

function bytes(content: string): Uint8Array<ArrayBuffer> {
  return new TextEncoder().encode(content);
}

/** `root/` with files and links of every sort, `outside/` beside it. */
function layOut(dir: string): void {
  Deno.mkdirSync(`${dir}/root/a/b/c`, { recursive: true });
  Deno.mkdirSync(`${dir}/outside`);
  Deno.writeTextFileSync(`${dir}/outside/secret`, "outside");
  Deno.writeTextFileSync(`${dir}/root/file`, "inside");
  Deno.writeTextFileSync(`${dir}/root/a/b/c/deep`, "deep");
  const links: Record<string, string> = {
    "to-file": "file",
    "to-dir": "a/b",
    "a/up": "../file",
    "a/b/around": "../../a/b/c/deep",
    "out-relative": "../outside/secret",
    "out-absolute": `${dir}/outside/secret`,
    "in-absolute": `${dir}/root/file`,
    "out-dir": "../outside",
    "out-dir-absolute": `${dir}/outside`,
    "out-and-in": "../root/file",
    "dangling": "nothing",
    "loop": "loop",
    "loop-a": "loop-b",
    "loop-b": "loop-a",
    "proc": "/proc/self/root",
  };
  for (const [name, target] of Object.entries(links)) Deno.symlinkSync(target, `${dir}/root/${name}`);
}

eachWay("paths stay below the root", ({ dir, resolver }) => {
  layOut(dir);
  using root = RootedDir.open(`${dir}/root`, { resolver });
  const reads: Record<string, string> = {
    "file": "inside",
    "./file": "inside",
    ".//file": "inside",
    "a/../file": "inside",
    "a/b/../../file": "inside",
    "to-file": "inside",
    "a/up": "inside",
    "a/b/around": "deep",
    "to-dir/c/deep": "deep",
    "to-dir/../up": "inside",
    "a/b/c/deep": "deep",
  };
  for (const [path, content] of Object.entries(reads)) assert.equal(text(root, path), content, path);
  const refused: Record<string, RootedErrorKind> = {
    "": "no-entry",
    "/": "not-permitted",
    "/file": "not-permitted",
    "//file": "not-permitted",
    "..": "not-permitted",
    "../root/file": "not-permitted",
    "a/../../root/file": "not-permitted",
    "a/b/../../../outside/secret": "not-permitted",
    "./../outside/secret": "not-permitted",
    "out-relative": "not-permitted",
    "out-absolute": "not-permitted",
    "in-absolute": "not-permitted",
    "out-dir/secret": "not-permitted",
    "out-dir-absolute/secret": "not-permitted",
    "out-and-in": "not-permitted",
    "proc/etc/passwd": "not-permitted",
    "dangling": "no-entry",
    "nothing": "no-entry",
    "nothing/file": "no-entry",
    "loop": "loop",
    "loop-a": "loop",
    "file/": "not-directory",
    "file/x": "not-directory",
    "file/..": "not-directory",
    "a": "is-directory",
    "a/.": "is-directory",
    ".": "is-directory",
    "to-dir": "is-directory",
    "x\0y": "illegal-byte-sequence",
    "\ud800": "illegal-byte-sequence",
    [`${"n".repeat(300)}`]: "name-too-long",
    ["../".repeat(50) + "etc/passwd"]: "not-permitted",
    // Not separators, not escapes: names.
    "..\\outside\\secret": "no-entry",
    "%2e%2e/outside": "no-entry",
    "...": "no-entry",
  };
  for (const [path, kind] of Object.entries(refused)) {
    assert.equal(kindOf(() => root.openFile(path)), kind, JSON.stringify(path));
  }
  // Every other operation on a path that leaves goes the same way.
  for (const path of ["../x", "out-dir/x", "out-dir-absolute/x", "/x", "a/../../x"]) {
    const operations: Record<string, () => unknown> = {
      write: () => root.openFile(path, { write: true, create: true }),
      createNew: () => root.openFile(path, { write: true, createNew: true }),
      openDir: () => root.openDir(path),
      makeAll: () => root.openDir(path, { create: true }),
      mkdir: () => root.mkdir(path),
      unlink: () => root.unlink(path),
      rmdir: () => root.rmdir(path),
      removeAll: () => root.removeAll(path),
      renameFrom: () => root.rename(path, root, "new"),
      renameTo: () => root.rename("file", root, path),
      linkFrom: () => root.link(path, root, "new"),
      linkTo: () => root.link("file", root, path),
      symlink: () => root.symlink("file", path),
      readlink: () => root.readlink(path),
      stat: () => root.stat(path),
      lstat: () => root.stat(path, { follow: false }),
      readDir: () => root.readDir(path),
      setTimes: () => root.setTimes(path, { mtime: 0n }),
    };
    for (const [name, act] of Object.entries(operations)) {
      assert.equal(kindOf(act), "not-permitted", `${name} ${path}`);
    }
  }
  assert.equal(kindOf(() => root.symlink("/etc/passwd", "absolute")), "not-permitted");
  assert.equal(kindOf(() => root.setTimes("out-relative", { mtime: 0n })), "not-permitted");
  assert.equal(kindOf(() => root.openFile("out-relative", { write: true, truncate: true })), "not-permitted");
  assert.deepEqual([...Deno.readDirSync(`${dir}/outside`)].map((entry) => entry.name), ["secret"]);
  assert.equal(Deno.readTextFileSync(`${dir}/outside/secret`), "outside");
  assert.notEqual(Deno.statSync(`${dir}/outside/secret`).mtime?.getTime(), 0);
});

eachWay("a write through a dangling link stays below the root", ({ dir, resolver }) => {
  Deno.mkdirSync(`${dir}/root`);
  Deno.symlinkSync("target", `${dir}/root/inward`);
  Deno.symlinkSync("../made", `${dir}/root/outward`);
  using root = RootedDir.open(`${dir}/root`, { resolver });
  root.openFile("inward", { write: true, create: true }).close();
  assert.ok(root.exists("target"));
  assert.equal(kindOf(() => root.openFile("outward", { write: true, create: true })), "not-permitted");
  assert.equal(kindOf(() => root.openFile("inward", { write: true, createNew: true })), "exist");
  assert.deepEqual([...Deno.readDirSync(dir)].map((entry) => entry.name), ["root"]);
});

eachWay("no symbolic link where the runtime writes for itself", ({ dir, resolver }) => {
  layOut(dir);
  using root = RootedDir.open(`${dir}/root`, { resolver, symlinks: "refuse" });
  assert.equal(text(root, "a/b/c/deep"), "deep");
  for (
    const path of ["to-file", "to-dir/c/deep", "a/up", "out-relative", "dangling", "in-absolute", "out-dir/secret"]
  ) {
    assert.throws(() => root.openFile(path), (error) => {
      assert.ok(error instanceof RootedError);
      return error.kind === "loop" && error.code === "E-IO-003";
    }, path);
    assert.equal(kindOf(() => root.openFile(path, { write: true, create: true })), "loop", path);
  }
  assert.equal(kindOf(() => root.openDir("to-dir")), "loop");
  assert.equal(kindOf(() => root.openDir("to-dir/new", { create: true })), "loop");
  assert.equal(kindOf(() => root.mkdir("to-dir/new")), "loop");
  assert.equal(kindOf(() => root.stat("to-file")), "loop");
  assert.equal(kindOf(() => root.setTimes("to-file", { mtime: 0n })), "loop");
  assert.equal(kindOf(() => root.openFile("file/x")), "not-directory");
  // The link itself is an entry like any other.
  assert.equal(root.stat("to-file", { follow: false }).kind, "symlink");
  assert.equal(root.readlink("to-file"), "file");
  root.unlink("to-file");
  assert.ok(root.exists("file"));
});

eachWay("files are read, written, cut and appended to at offsets", ({ dir, resolver }) => {
  using root = RootedDir.open(dir, { resolver });
  {
    using file = root.openFile("f", { read: true, write: true, createNew: true, mode: 0o640 });
    file.write(3, bytes("def"));
    file.write(0, bytes("abc"));
    const buffer = new Uint8Array(4);
    assert.equal(file.read(1, buffer), 4);
    assert.equal(new TextDecoder().decode(buffer), "bcde");
    assert.equal(file.read(6, buffer), 0);
    file.truncate(4);
    file.sync();
    assert.equal(file.stat().size, 4);
    assert.equal(file.stat().mode & 0o700, 0o600);
    file.setTimes({ mtime: -1_500_000_000n, atime: 1n });
    assert.equal(file.stat().mtime, -1_500_000_000n);
    assert.equal(file.stat().atime, 1n);
    file.close();
    assert.equal(kindOf(() => file.read(0, buffer)), "bad-descriptor");
  }
  {
    using file = root.openFile("f", { append: true });
    file.append(bytes("+1"));
    file.write(0, bytes("+2"));
    assert.equal(kindOf(() => file.readAll(100)), "bad-descriptor");
  }
  assert.equal(text(root, "f"), "abcd+1+2");
  using file = root.openFile("f", { write: true, read: true, truncate: true });
  assert.equal(file.readAll(0).length, 0);
  file.write(0, new Uint8Array(200_000).fill(7));
  assert.equal(file.readAll(200_000).length, 200_000);
  assert.equal(kindOf(() => file.readAll(199_999)), "file-too-large");
  assert.equal(kindOf(() => root.openFile("f", { truncate: true })), "invalid");
  // A file that tells no size is read to its end as well.
  using proc = RootedDir.open("/proc/self", { resolver });
  using status = proc.openFile("status");
  assert.match(new TextDecoder().decode(status.readAll(1 << 20)), /^Name:/);
});

eachWay("entries are made, moved, linked and removed", ({ dir, resolver }) => {
  using root = RootedDir.open(dir, { resolver });
  root.mkdir("d");
  root.mkdir("e/");
  assert.equal(kindOf(() => root.mkdir("d")), "exist");
  assert.equal(kindOf(() => root.mkdir(".")), "exist");
  assert.equal(kindOf(() => root.mkdir("d/..")), "exist");
  using made = root.openDir("p/q/r", { create: true, mode: 0o700 });
  assert.equal(made.path, `${dir}/p/q/r`);
  assert.ok(sameFile(made.identity, root.stat("p/q/r")));
  assert.equal(root.stat("p/q").mode, 0o700);
  root.openFile("f", { write: true, create: true }).close();
  root.link("f", root, "d/g");
  assert.equal(root.stat("f").nlink, 2);
  assert.ok(sameFile(root.stat("f"), root.stat("d/g")));
  root.symlink("f", "l");
  root.rename("l", made, "m");
  assert.equal(made.readlink("m"), "f");
  assert.equal(kindOf(() => root.rename("f", root, "d/g", { noReplace: true })), "exist");
  assert.equal(kindOf(() => root.rename("f", root, "new/")), "not-directory");
  assert.equal(kindOf(() => root.rename("f/", root, "new")), "not-directory");
  assert.equal(kindOf(() => root.rename("gone", root, "new")), "no-entry");
  assert.equal(kindOf(() => root.rename(".", root, "new")), "busy");
  assert.equal(kindOf(() => root.rename("d", root, "d/../e/..")), "busy");
  assert.equal(kindOf(() => root.rename("d", root, "d/x")), "invalid");
  assert.equal(kindOf(() => root.unlink("f/")), "not-directory");
  assert.equal(kindOf(() => root.unlink("d")), "is-directory");
  assert.equal(kindOf(() => root.unlink("d/.")), "is-directory");
  assert.equal(kindOf(() => root.rmdir("d")), "not-empty");
  assert.equal(kindOf(() => root.rmdir("d/.")), "invalid");
  assert.equal(kindOf(() => root.rmdir("f")), "not-directory");
  assert.equal(kindOf(() => root.readlink("f")), "invalid");
  root.rmdir("e/");
  const names = root.readDir().map((entry) => `${entry.kind} ${entry.name}`).sort();
  assert.deepEqual(names, ["directory d", "directory p", "file f"]);
  assert.ok(root.openEntry("d") instanceof RootedDir);
  root.setTimes("d", { mtime: 5n });
  assert.equal(root.stat("d").mtime, 5n);
  // A name that is no UTF-8 is not listed, and goes with its directory.
  const c = libc();
  const odd = c.openat(root.fd, Uint8Array.of(0x70, 0x2f, 0xff, 0), O.WRONLY | O.CREAT, 0o600);
  assert.ok(odd >= 0);
  c.close(odd);
  assert.deepEqual(root.readDir("p").map((entry) => entry.name), ["q"]);
  root.removeAll("p");
  root.removeAll("p");
  root.removeAll("f");
  assert.equal(kindOf(() => root.removeAll("d/..")), "invalid");
  assert.deepEqual(root.readDir().map((entry) => entry.name), ["d"]);
  root.close();
  assert.equal(kindOf(() => root.stat("d")), "bad-descriptor");
  assert.equal(kindOf(() => root.readDir()), "bad-descriptor");
});

eachWay("removing a tree does not go through links", ({ dir, resolver }) => {
  layOut(dir);
  using root = RootedDir.open(dir, { resolver });
  root.removeAll("root");
  assert.equal(text(root, "outside/secret"), "outside");
  assert.deepEqual(root.readDir().map((entry) => entry.name), ["outside"]);
});

eachWay("a tree is removed however deep it is, with what bears the names it is moved under", ({ dir, resolver }) => {
  const DEPTH = 3_000;
  const c = libc();
  Deno.mkdirSync(`${dir}/deep`);
  Deno.writeTextFileSync(`${dir}/deep/moved-1`, "");
  Deno.mkdirSync(`${dir}/deep/moved-2/full`, { recursive: true });
  Deno.mkdirSync(`${dir}/deep/moved-3`);
  const name = cString("d")!;
  let at = c.openat(AT_FDCWD, cString(`${dir}/deep`)!, O.PATH | O.DIRECTORY);
  for (let depth = 0; depth < DEPTH; depth++) {
    // A file stands beside each, and the owner closed some of them.
    assert.equal(c.mkdirat(at, name, 0o700), 0);
    c.close(c.openat(at, cString("f")!, O.WRONLY | O.CREAT, 0o600));
    const below = c.openat(at, name, O.PATH | O.DIRECTORY);
    if (depth % 100 === 27) assert.equal(c.chmodPath(at, 0o500), 0);
    c.close(at);
    at = below;
  }
  c.close(at);
  using root = RootedDir.open(dir, { resolver });
  root.removeAll("deep");
  assert.deepEqual(root.readDir(), []);
});

eachWay("fifos, sockets and devices are refused at once", async ({ dir, resolver }) => {
  assert.ok((await new Deno.Command("mkfifo", { args: [`${dir}/fifo`] }).output()).success);
  const listener = Deno.listen({ transport: "unix", path: `${dir}/socket` });
  try {
    using root = RootedDir.open(dir, { resolver });
    for (const path of ["fifo", "socket"]) {
      assert.equal(kindOf(() => root.openFile(path)), "not-permitted", path);
      assert.equal(kindOf(() => root.openFile(path, { write: true })), "not-permitted", path);
      assert.equal(kindOf(() => root.openFile(path, { read: true, write: true })), "not-permitted", path);
      assert.equal(kindOf(() => root.openEntry(path)), "not-permitted", path);
    }
    assert.equal(root.stat("fifo").kind, "fifo");
    assert.equal(root.stat("socket").kind, "socket");
    using devices = RootedDir.open("/dev", { resolver });
    assert.equal(kindOf(() => devices.openFile("null", { write: true })), "not-permitted");
    assert.equal(kindOf(() => devices.openFile("zero")), "not-permitted");
  } finally {
    listener.close();
  }
});

eachWay("a lock is exclusive between two openings", ({ dir, resolver }) => {
  using root = RootedDir.open(dir, { resolver });
  using first = root.openFile(".lock", { write: true, create: true });
  using second = root.openFile(".lock", { write: true });
  assert.ok(first.tryLock());
  assert.equal(second.tryLock(), false);
  first.close();
  assert.ok(second.tryLock());
});

Deno.test("both ways agree about every path, and neither opens anything outside", async () => {
  const dir = await Deno.makeTempDir();
  try {
    const names = ["a", "b", "c"];
    const piece = fc.constantFrom(...names, "..", ".", "", "zz");
    const path = fc.array(piece, { minLength: 1, maxLength: 7 }).map((pieces) => pieces.join("/"));
    const entry = fc.record({
      at: fc.array(fc.constantFrom(...names), { minLength: 1, maxLength: 3 }).map((pieces) => pieces.join("/")),
      make: fc.oneof(
        fc.constant({ kind: "file" as const }),
        fc.constant({ kind: "directory" as const }),
        path.map((target) => ({ kind: "link" as const, target })),
        path.map((target) => ({ kind: "link" as const, target: `../${target}` })),
        fc.constant({ kind: "link" as const, target: dir }),
      ),
    });
    const flags = fc.constantFrom(
      O.RDONLY,
      O.PATH,
      O.PATH | O.NOFOLLOW,
      O.RDONLY | O.NOFOLLOW,
      O.RDONLY | O.DIRECTORY,
      O.PATH | O.DIRECTORY | O.NOFOLLOW,
      O.WRONLY,
    );
    let round = 0;
    fc.assert(
      fc.property(
        fc.array(entry, { maxLength: 12 }),
        fc.array(fc.tuple(path, flags, fc.constantFrom("inside" as const, "refuse" as const)), { minLength: 12 }),
        (entries, questions) => {
          const base = `${dir}/${round++}`;
          Deno.mkdirSync(`${base}/root`, { recursive: true });
          // What an escape would find: the same names, one level up.
          for (const name of names) Deno.writeTextFileSync(`${base}/${name}`, "outside");
          for (const { at, make } of entries) {
            const full = `${base}/root/${at}`;
            try {
              if (make.kind === "directory") Deno.mkdirSync(full);
              else if (make.kind === "link") Deno.symlinkSync(make.target || ".", full);
              else Deno.writeTextFileSync(full, "inside", { createNew: true });
            } catch {
              // Its place is taken or missing.
            }
          }
          const c = libc();
          using root = RootedDir.open(`${base}/root`);
          const inside = new Set<string>([`${root.identity.dev}:${root.identity.ino}`]);
          const collect = (below: RootedDir) => {
            for (const { name, kind } of below.readDir()) {
              const stat = below.stat(name, { follow: false });
              inside.add(`${stat.dev}:${stat.ino}`);
              if (kind === "directory") {
                using next = below.openDir(name, { follow: false });
                collect(next);
              }
            }
          };
          collect(root);
          const answer = (resolver: BeneathResolver, at: string, how: number, policy: "inside" | "refuse"): string => {
            const fd = resolver.open(root.fd, cString(at)!, how, 0, policy);
            if (fd < 0) return String(fd);
            const stat = c.fstat(fd);
            c.close(fd);
            assert.ok(typeof stat !== "number");
            const identity = `${stat.dev}:${stat.ino}`;
            assert.ok(inside.has(identity), `${at} led outside`);
            return identity;
          };
          for (const [at, how, policy] of questions) {
            const [kernel, walk] = Object.values(RESOLVERS).map((way) => answer(way, at, how, policy));
            assert.equal(walk, kernel, `${JSON.stringify(at)} ${how.toString(8)} ${policy}`);
          }
          Deno.removeSync(base, { recursive: true });
        },
      ),
      { numRuns: 300 },
    );
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
});

/** Swaps two names as fast as it can until it is killed. */
const SWAPPER = `
const { libc, cString, AT_FDCWD } = await import(Deno.args[0]);
const c = libc(), a = cString(Deno.args[1]), b = cString(Deno.args[2]);
console.log("ready");
for (;;) c.renameat2(AT_FDCWD, a, AT_FDCWD, b, 2);
`;

eachWay("100,000 opens while a directory is swapped for a link to outside", async ({ dir, resolver }) => {
  Deno.mkdirSync(`${dir}/root/spot`, { recursive: true });
  Deno.mkdirSync(`${dir}/outside/spot`, { recursive: true });
  Deno.writeTextFileSync(`${dir}/root/spot/file`, "inside");
  Deno.writeTextFileSync(`${dir}/outside/file`, "OUTSIDE");
  Deno.writeTextFileSync(`${dir}/root/other`, "inside");
  Deno.writeTextFileSync(`${dir}/other`, "OUTSIDE");
  Deno.symlinkSync("../outside", `${dir}/root/link`);
  Deno.writeTextFileSync(`${dir}/swap.js`, SWAPPER);
  const swapper = new Deno.Command(Deno.execPath(), {
    args: [
      "run",
      "-A",
      "--no-config",
      `${dir}/swap.js`,
      import.meta.resolve("./libc.ts"),
      `${dir}/root/spot`,
      `${dir}/root/link`,
    ],
    stdout: "piped",
    stderr: "null",
    stdin: "null",
  }).spawn();
  const reader = swapper.stdout.getReader();
  try {
    assert.match(new TextDecoder().decode((await reader.read()).value), /ready/);
    using root = RootedDir.open(`${dir}/root`, { resolver });
    const buffer = new Uint8Array(16);
    const paths = ["spot/file", "link/file", "spot/../other", "spot/../spot/file"];
    let served = 0;
    let refused = 0;
    for (let round = 0; round < 100_000; round++) {
      try {
        using file = root.openFile(paths[round % paths.length]!);
        const length = file.read(0, buffer);
        assert.equal(new TextDecoder().decode(buffer.subarray(0, length)), "inside");
        served++;
      } catch (error) {
        if (!(error instanceof RootedError)) throw error;
        refused++;
      }
    }
    assert.ok(served > 1_000 && refused > 1_000, `served ${served}, refused ${refused}: there was no race`);
  } finally {
    swapper.kill("SIGKILL");
    await reader.cancel();
    await swapper.status;
  }
});

eachWay("a piece is read in another thread as in this one", async ({ dir, resolver }) => {
  Deno.writeTextFileSync(`${dir}/f`, "0123456789");
  using root = RootedDir.open(dir, { resolver });
  using file = root.openFile("f");
  const buffer = new Uint8Array(4);
  assert.equal(await file.readElsewhere(3, buffer), 4);
  assert.equal(new TextDecoder().decode(buffer), "3456");
  assert.equal(await file.readElsewhere(8, buffer), 2);
  assert.equal(await file.readElsewhere(10, buffer), 0);
  file.close();
  await assert.rejects(file.readElsewhere(0, buffer), { kind: "bad-descriptor" });
});
