import assert from "node:assert/strict";
import fc from "fast-check";
import { RootedDir } from "../../base/rooted_dir.ts";
import { TrustedFiles } from "../../base/trusted_files.ts";
import { ComponentFiles, MAX_HANDLES } from "./component_files.ts";
import { ProtocolViolation } from "./host_messages.ts";
import { everythingTool, Harness } from "./testing/harness.ts";

Deno.test("a guest reads, writes, lists, moves and removes files below its preopen", async () => {
  await using harness = new Harness();
  const spec = await harness.spec(await everythingTool(), { preopens: [harness.preopen(".")] });
  const act = (op: string, args: Record<string, unknown>) => harness.try(spec, op, args);

  assert.deepEqual(await act("preopens", {}), ["."]);
  assert.equal(await act("write", { path: "a.txt", text: "hello" }), null);
  assert.equal(Deno.readTextFileSync(`${harness.work}/a.txt`), "hello");
  assert.equal(await act("write", { path: "a.txt", text: "hi" }), null);
  assert.equal(await act("write", { path: "a.txt", text: ", there", append: true }), null);
  assert.equal(await act("read", { path: "a.txt" }), "hi, there");
  assert.equal(await act("write", { path: "a.txt", text: "x", exclusive: true }), "exist");
  assert.deepEqual(await act("pread", { path: "a.txt", offset: 4, length: 100 }), ["there", false]);
  assert.deepEqual(await act("pread", { path: "a.txt", offset: 9, length: 100 }), ["", true]);
  assert.equal(await act("mkdir", { path: "d" }), null);
  assert.equal(await act("mkdir", { path: "d" }), "exist");
  assert.equal(await act("write", { path: "d/b.txt", text: "b" }), null);
  assert.deepEqual(await act("list", { path: "d" }), [["b.txt", "regular-file"]]);
  assert.equal(await act("rmdir", { path: "d" }), "not-empty");
  assert.equal(await act("rename", { path: "a.txt", newPath: "d/a.txt" }), null);
  assert.equal(await act("read", { path: "a.txt" }), "no-entry");
  assert.equal(await act("link", { path: "d/a.txt", newPath: "second" }), null);
  assert.deepEqual(await act("same", { path: "second", other: "d/a.txt" }), [true, true]);
  assert.deepEqual(await act("same", { path: "second", other: "d/b.txt" }), [false, false]);
  assert.equal(await act("truncate", { path: "second", size: 2 }), null);
  assert.equal(await act("touch", { path: "second", seconds: 1_000_000_000 }), null);
  assert.deepEqual(await act("stat", { path: "second" }), {
    type: "regular-file",
    size: 2,
    links: 2,
    modified: 1_000_000_000,
  });
  assert.equal(await act("sync", { path: "second" }), null);
  assert.equal(await act("symlink", { target: "d/b.txt", path: "inside" }), null);
  assert.equal(await act("readlink", { path: "inside" }), "d/b.txt");
  assert.equal(await act("read", { path: "inside" }), "b");
  assert.equal(await act("read", { path: "inside", follow: false }), "loop");
  assert.equal((await act("stat", { path: "inside", follow: false }) as { type: string }).type, "symbolic-link");
  assert.equal(await act("unlink", { path: "inside" }), null);
  assert.equal(await act("unlink", { path: "d" }), "is-directory");
  assert.equal(await act("rmdir", { path: "second" }), "not-directory");
  assert.equal(await act("writeReadOnly", { path: "second" }), "not-permitted");
  assert.deepEqual([...Deno.readDirSync(harness.work)].map(({ name }) => name).sort(), ["d", "second"]);
});

Deno.test("nothing outside the preopen is reached, by no way", async () => {
  await using harness = new Harness();
  Deno.writeTextFileSync(`${harness.directory}/secret`, "secret");
  Deno.mkdirSync(`${harness.work}/sub`);
  Deno.symlinkSync("../secret", `${harness.work}/link`);
  Deno.symlinkSync(harness.directory, `${harness.work}/absolute`);
  Deno.symlinkSync("../..", `${harness.work}/sub/up`);
  const spec = await harness.spec(await everythingTool(), { preopens: [harness.preopen(".")] });
  for (const path of ["../secret", "link", "absolute/secret", "sub/../../secret", "sub/up/secret", "/etc/hostname"]) {
    assert.equal(await harness.try(spec, "read", { path }), "not-permitted", path);
    assert.equal(await harness.try(spec, "write", { path, text: "x" }), "not-permitted", path);
  }
  for (const path of ["../new", "/tmp/new", "absolute/new", "sub/up/new"]) {
    assert.equal(await harness.try(spec, "write", { path, text: "x" }), "not-permitted", path);
    assert.equal(await harness.try(spec, "mkdir", { path }), "not-permitted", path);
    assert.equal(await harness.try(spec, "rename", { path: "sub", newPath: path }), "not-permitted", path);
  }
  assert.equal(await harness.try(spec, "symlink", { target: "/etc", path: "out" }), "not-permitted");
  assert.equal(await harness.try(spec, "symlink", { target: "../secret", path: "out" }), null);
  assert.equal(await harness.try(spec, "read", { path: "out" }), "not-permitted");
  assert.equal(await harness.try(spec, "read", { path: "a\0b" }), "illegal-byte-sequence");
  assert.equal(await harness.try(spec, "read", { path: "x".repeat(5_000) }), "name-too-long");
  assert.equal(Deno.readTextFileSync(`${harness.directory}/secret`), "secret");
  assert.deepEqual([...Deno.readDirSync(harness.directory)].map(({ name }) => name).sort(), ["secret", "work"]);
});

Deno.test("a read-only preopen refuses every change, also into and out of it", async () => {
  await using harness = new Harness();
  const fixed = `${harness.directory}/fixed`;
  Deno.mkdirSync(fixed);
  Deno.writeTextFileSync(`${fixed}/f`, "content");
  const spec = await harness.spec(await everythingTool(), {
    preopens: [harness.preopen("."), harness.preopen("murmur-runtime", fixed, false)],
  });
  await harness.do(spec, "write", { path: "mine", text: "m" });
  const at = "murmur-runtime";
  assert.equal(await harness.try(spec, "read", { at, path: "f" }), "content");
  const refused: [string, Record<string, unknown>][] = [
    ["write", { at, path: "f", text: "x" }],
    ["write", { at, path: "new", text: "x" }],
    ["mkdir", { at, path: "d" }],
    ["unlink", { at, path: "f" }],
    ["rmdir", { at, path: "f" }],
    ["rename", { at, path: "f", to: ".", newPath: "f" }],
    ["rename", { at: ".", path: "mine", to: at, newPath: "mine" }],
    ["link", { at, path: "f", to: ".", newPath: "f" }],
    ["link", { at: ".", path: "mine", to: at, newPath: "mine" }],
    ["symlink", { at, target: "f", path: "l" }],
    ["touch", { at, path: "f", seconds: 1 }],
    ["truncate", { at, path: "f", size: 0 }],
  ];
  for (const [op, args] of refused) assert.equal(await harness.try(spec, op, args), "read-only", op);
  assert.equal(Deno.readTextFileSync(`${fixed}/f`), "content");
  assert.equal([...Deno.readDirSync(fixed)].length, 1);
});

Deno.test("files a later launch trusts can be read and not changed", async () => {
  await using harness = new Harness();
  Deno.writeTextFileSync(`${harness.work}/murmur.yaml`, "name: x");
  const root = RootedDir.open(harness.work, {
    trusted: new TrustedFiles([{ path: `${harness.work}/murmur.yaml` }]),
  });
  const spec = await harness.spec(await everythingTool(), { preopens: [{ guestPath: ".", root, writable: true }] });
  assert.equal(await harness.try(spec, "read", { path: "murmur.yaml" }), "name: x");
  assert.equal(await harness.try(spec, "write", { path: "murmur.yaml", text: "y" }), "not-permitted");
  assert.equal(await harness.try(spec, "unlink", { path: "murmur.yaml" }), "not-permitted");
  await harness.do(spec, "write", { path: "other", text: "o" });
  assert.equal(await harness.try(spec, "rename", { path: "other", newPath: "murmur.yaml" }), "not-permitted");
  assert.equal(Deno.readTextFileSync(`${harness.work}/murmur.yaml`), "name: x");
  root.close();
});

Deno.test("an instance has at most 256 handles, and gives back what it drops", async () => {
  await using harness = new Harness();
  Deno.writeTextFileSync(`${harness.work}/f`, "x");
  const spec = await harness.spec(await everythingTool(), { preopens: [harness.preopen(".")] });
  assert.equal(await harness.try(spec, "openMany", { path: "f", count: MAX_HANDLES - 1 }), MAX_HANDLES - 1);
  assert.equal(await harness.try(spec, "openMany", { path: "f", count: MAX_HANDLES }), "insufficient-memory");
  assert.equal(await harness.try(spec, "openAndDrop", { path: "f", count: 1_000 }), 1_000);
});

Deno.test("a directory of thousands of entries is listed whole", async () => {
  await using harness = new Harness();
  for (let i = 0; i < 3_000; i++) Deno.writeTextFileSync(`${harness.work}/${"n".repeat(200)}${i}`, "");
  const spec = await harness.spec(await everythingTool(), { preopens: [harness.preopen(".")] });
  const entries = await harness.do(spec, "list", { path: "." }) as [string, string][];
  assert.equal(new Set(entries.map(([name]) => name)).size, 3_000);
});

Deno.test("requests of a hostile host are answered or end it, and never touch what is outside", () => {
  const directory = Deno.makeTempDirSync();
  try {
    Deno.mkdirSync(`${directory}/in`);
    Deno.writeTextFileSync(`${directory}/out`, "out");
    using root = RootedDir.open(`${directory}/in`);
    const field = fc.oneof(
      fc.constantFrom(
        0,
        1,
        2,
        -1,
        1.5,
        2 ** 60,
        null,
        true,
        false,
        "",
        ".",
        "..",
        "../out",
        "/etc",
        "f",
        "d",
        "d/..",
        "a\0",
      ),
      fc.jsonValue(),
    );
    const ops = [
      ...[
        "read",
        "write",
        "append",
        "open",
        "stat",
        "stat-at",
        "set-size",
        "set-times",
        "set-times-at",
        "sync",
        "list",
      ],
      ...[
        "next-entries",
        "make-directory",
        "remove-directory",
        "unlink",
        "rename",
        "link",
        "symlink",
        "read-link",
        "x",
      ],
    ];
    const names = [
      ...["fd", "path", "to", "newPath", "target", "offset", "length", "size", "follow", "create", "exclusive"],
      ...["truncate", "read", "write", "directory", "mutate", "accessed", "modified", "dataOnly"],
    ];
    fc.assert(
      fc.property(
        fc.array(
          fc.record({
            op: fc.constantFrom(...ops),
            args: fc.record(Object.fromEntries(names.map((name) => [name, field]))),
            plausible: fc.boolean(),
          }),
          { maxLength: 12 },
        ),
        (requests) => {
          using files = new ComponentFiles([{ guestPath: ".", root, writable: true }]);
          for (const { op, args, plausible } of requests) {
            const given = plausible
              ? { ...args, fd: 0, to: 0, follow: true, create: true, write: true, read: true, directory: false }
              : args;
            try {
              const answer = files.handle(op, given, new Uint8Array([1, 2, 3]));
              assert.equal(typeof answer.header, "object");
            } catch (error) {
              assert.ok(error instanceof ProtocolViolation, String(error));
            }
            assert.ok(files.size <= MAX_HANDLES);
          }
        },
      ),
      { numRuns: 300 },
    );
    assert.equal(Deno.readTextFileSync(`${directory}/out`), "out");
    assert.deepEqual([...Deno.readDirSync(directory)].map(({ name }) => name).sort(), ["in", "out"]);
  } finally {
    Deno.removeSync(directory, { recursive: true });
  }
});
