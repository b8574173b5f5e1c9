import assert from "node:assert/strict";
import { canMount, onSmallDisk } from "../tests/support/own_mounts.ts";
import { StagedFile, writeAtomically, writeAtomicallyIn } from "./atomic_file.ts";
import { RootedDir } from "./rooted_dir.ts";

function inTempDir(body: (dir: string) => void): () => void {
  return () => {
    const dir = Deno.makeTempDirSync();
    try {
      body(dir);
      const left = [...Deno.readDirSync(dir)].filter((entry) => entry.name.endsWith(".tmp"));
      assert.deepEqual(left, [], "a staging file was left");
    } finally {
      Deno.removeSync(dir, { recursive: true });
    }
  };
}

function mode(path: string): number {
  return Deno.statSync(path).mode! & 0o777;
}

Deno.test(
  "a file is written whole, with its mode",
  inTempDir((dir) => {
    const path = `${dir}/f.json`;
    const umask = Deno.umask(0o022);
    try {
      writeAtomically(path, "one");
      assert.equal(mode(path), 0o644);
      writeAtomically(path, "two", { mode: 0o600 });
      assert.equal(mode(path), 0o600);
      // The mode of the file that is replaced stays.
      writeAtomically(path, new TextEncoder().encode("three"), { durable: false });
      assert.equal(mode(path), 0o600);
      assert.equal(Deno.readTextFileSync(path), "three");
      writeAtomically(path, "open", { mode: 0o666 });
      assert.equal(mode(path), 0o666);
    } finally {
      Deno.umask(umask);
    }
  }),
);

Deno.test(
  "exclusive writing does not replace",
  inTempDir((dir) => {
    writeAtomically(`${dir}/f`, "first", { exclusive: true, mode: 0o400 });
    assert.throws(() => writeAtomically(`${dir}/f`, "second", { exclusive: true }), { kind: "exist" });
    assert.throws(() => writeAtomically(`${dir}/f`, "second", { exclusive: true, mode: 0o600 }), { kind: "exist" });
    assert.equal(Deno.readTextFileSync(`${dir}/f`), "first");
    assert.equal(mode(`${dir}/f`), 0o400);
  }),
);

Deno.test(
  "what can't be written leaves the old file",
  inTempDir((dir) => {
    Deno.writeTextFileSync(`${dir}/target`, "kept");
    Deno.symlinkSync("target", `${dir}/link`);
    Deno.mkdirSync(`${dir}/sub`);
    assert.throws(() => writeAtomically(`${dir}/link`, "x"), { kind: "loop", code: "E-IO-003" });
    assert.throws(() => writeAtomically(`${dir}/link`, "x", { mode: 0o600 }), { kind: "loop" });
    assert.throws(() => writeAtomically(`${dir}/sub`, "x"), { kind: "is-directory" });
    assert.throws(() => writeAtomically(`${dir}/missing/f`, "x"), {
      kind: "no-entry",
      code: "E-IO-001",
      message: `cannot write ${dir}/missing/f: there is no directory ${dir}/missing`,
    });
    assert.equal(Deno.readTextFileSync(`${dir}/target`), "kept");
    using root = RootedDir.open(dir, { symlinks: "refuse" });
    writeAtomicallyIn(root, "sub/f", "below");
    assert.equal(Deno.readTextFileSync(`${dir}/sub/f`), "below");
    assert.throws(() => writeAtomicallyIn(root, "../f", "x"), { kind: "not-permitted" });
  }),
);

Deno.test({
  name: "a full disk is told with the name of the file that was to be written",
  ignore: !canMount(),
  fn: async () => {
    const module = JSON.stringify(new URL("atomic_file.ts", import.meta.url).href);
    const told = await onSmallDisk(`
      const { writeAtomically } = await import(${module});
      try {
        writeAtomically(DIRECTORY + "/settings.yaml", "x".repeat(1_000_000));
      } catch (error) {
        console.log(error.message.replace(DIRECTORY, "<dir>"), [...Deno.readDirSync(DIRECTORY)].length);
      }
    `);
    assert.equal(told.trim(), "cannot write <dir>/settings.yaml: no space is left 0");
  },
});

Deno.test("a reader never sees a part", async () => {
  const dir = Deno.makeTempDirSync();
  try {
    const path = `${dir}/f`;
    const contents = ["a".repeat(100_000), "b".repeat(150_000)];
    writeAtomically(path, contents[0]!, { durable: false });
    let done = false;
    const reader = (async () => {
      let reads = 0;
      while (!done) {
        assert.ok(contents.includes(await Deno.readTextFile(path)), "a part was read");
        reads++;
      }
      return reads;
    })();
    for (let round = 0; round < 300; round++) {
      writeAtomically(path, contents[round % 2]!, { durable: false });
      await new Promise((resolve) => setTimeout(resolve, 0));
    }
    done = true;
    assert.ok(await reader > 10);
  } finally {
    Deno.removeSync(dir, { recursive: true });
  }
});

Deno.test(
  "a file written piece by piece appears whole or not at all, in the place of a link and not behind it",
  inTempDir((dir) => {
    const bytes = (text: string) => new TextEncoder().encode(text);
    using root = RootedDir.open(dir);
    Deno.writeTextFileSync(`${dir}/elsewhere`, "untouched");
    Deno.symlinkSync("elsewhere", `${dir}/f`);
    {
      using file = StagedFile.create(root, "f", { mode: 0o640 });
      file.write(bytes("one, "));
      file.write(bytes("two"));
      assert.equal(file.length, 8);
      assert.equal(Deno.readLinkSync(`${dir}/f`), "elsewhere");
      file.publish();
    }
    assert.equal(Deno.readTextFileSync(`${dir}/f`), "one, two");
    assert.ok(Deno.lstatSync(`${dir}/f`).isFile);
    assert.equal(Deno.readTextFileSync(`${dir}/elsewhere`), "untouched");
    {
      using file = StagedFile.create(root, "f");
      file.write(bytes("given up"));
    }
    assert.equal(Deno.readTextFileSync(`${dir}/f`), "one, two");
    Deno.mkdirSync(`${dir}/folder`);
    using file = StagedFile.create(root, "folder");
    assert.throws(() => file.publish(), { kind: "is-directory", path: "folder" });
  }),
);
