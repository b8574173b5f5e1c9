import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { exportFolder } from "../tests/support/export_folder.ts";
import { judgeExportRoot } from "./export_root.ts";
import { type Admit, readExported, type ReadFile } from "./file_reader.ts";

const ADMIT: Admit = () => true;
const hashOf = (bytes: Uint8Array) => createHash("sha256").update(bytes).digest("hex");

function readFile(result: Awaited<ReturnType<typeof readExported>>): ReadFile {
  assert.ok("bytes" in result, JSON.stringify(result));
  return result;
}

Deno.test("bytes, time and hash are those of the file, at every size around a limit", async () => {
  using folder = exportFolder();
  const root = folder.root("followed-inside", 3 << 20);
  for (const size of [0, 1, 4_096, (64 << 10) - 1, 64 << 10, (64 << 10) + 1, (1 << 20) + 7, 3 << 20]) {
    const bytes = crypto.getRandomValues(new Uint8Array(Math.min(size, 65_536)));
    const whole = new Uint8Array(size);
    for (let at = 0; at < size; at += bytes.length) whole.set(bytes.subarray(0, Math.min(bytes.length, size - at)), at);
    Deno.writeFileSync(`${folder.out}/f`, whole);
    Deno.utimeSync(`${folder.out}/f`, 1_787_577_327, 1_787_577_327.015);
    const file = readFile(await readExported(root, "f", ADMIT));
    assert.equal(file.sha256, hashOf(whole), String(size));
    assert.deepEqual(hashOf(file.bytes), file.sha256);
    assert.equal(file.bytes.length, size);
    assert.equal(file.mtimeMs, 1_787_577_327_015);
  }
  Deno.writeFileSync(`${folder.out}/f`, new Uint8Array((3 << 20) + 1));
  const large = await readExported(root, "f", () => assert.fail("no room is taken for what is not served"));
  assert.deepEqual(large, {
    error: "too_large",
    message: `the file has ${(3 << 20) + 1} bytes, more than the ${3 << 20} that are served`,
  });
});

Deno.test("a file that grows or shrinks while it is read gives a body that its hash and length describe", async () => {
  using folder = exportFolder();
  const root = folder.root("followed-inside", 8 << 20);
  const path = `${folder.out}/f`;
  Deno.writeFileSync(path, new Uint8Array(5 << 20).fill(1));
  // The first piece is being read elsewhere; the file changes under it.
  let reading = readExported(root, "f", ADMIT);
  await new Promise((resolve) => setTimeout(resolve, 0));
  Deno.truncateSync(path, 1 << 20);
  const shrunk = readFile(await reading);
  assert.ok(shrunk.bytes.length >= 1 << 20 && shrunk.bytes.length <= 5 << 20);
  assert.equal(hashOf(shrunk.bytes), shrunk.sha256);

  reading = readExported(root, "f", ADMIT);
  await new Promise((resolve) => setTimeout(resolve, 0));
  Deno.writeFileSync(path, new Uint8Array(2 << 20).fill(2), { append: true });
  const grown = readFile(await reading);
  assert.ok(grown.bytes.length === 1 << 20 || grown.bytes.length === 3 << 20, String(grown.bytes.length));
  assert.equal(hashOf(grown.bytes), grown.sha256);
});

Deno.test("large files take room before they are read, hold no file while they wait, and are judged anew after it", async () => {
  using folder = exportFolder();
  const root = folder.root("followed-inside", 1 << 20);
  const path = `${folder.out}/f`;
  Deno.writeFileSync(path, new Uint8Array(100_000).fill(1));
  const asked: number[] = [];
  const openFiles = () => [...Deno.readDirSync("/proc/self/fd")].length;
  const before = openFiles();
  const room = Promise.withResolvers<boolean>();
  const waiting = readExported(root, "f", (bytes) => {
    asked.push(bytes);
    return asked.length === 1 ? room.promise : true;
  });
  await new Promise((resolve) => setTimeout(resolve, 20));
  assert.equal(openFiles(), before);
  Deno.writeFileSync(path, new Uint8Array(200_000).fill(2));
  room.resolve(true);
  const file = readFile(await waiting);
  assert.deepEqual(asked, [100_000, 200_000]);
  assert.equal(file.bytes.length, 200_000);
  assert.equal(hashOf(file.bytes), hashOf(new Uint8Array(200_000).fill(2)));

  for (const none of [false, Promise.resolve(false)]) {
    const refused = await readExported(root, "f", () => none);
    assert.equal("error" in refused && refused.error, "too_many_answers");
  }
  Deno.writeFileSync(path, new Uint8Array(64 << 10));
  readFile(await readExported(root, "f", () => assert.fail("a small file takes no room")));
  assert.equal(openFiles(), before);
});

Deno.test("what may not be opened is an error of the reader", { ignore: Deno.uid() === 0 }, async () => {
  using folder = exportFolder();
  Deno.writeTextFileSync(`${folder.out}/f`, "x", { mode: 0o000 });
  assert.deepEqual(await readExported(folder.root(), "f", ADMIT), {
    error: "io_error",
    message: "the file cannot be read: permission denied",
  });
  // A root that nobody may enter leads nowhere: no launch is refused for it, but what is asked of it.
  Deno.chmodSync(folder.out, 0o000);
  try {
    const closed = folder.root();
    judgeExportRoot(closed.options.workdir, "out/", "exports.files.root", undefined);
    const told = await readExported(closed, "f", ADMIT);
    assert.equal("error" in told && told.error, "io_error");
  } finally {
    Deno.chmodSync(folder.out, 0o700);
  }
});
