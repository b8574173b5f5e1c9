import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import fc from "fast-check";
import { exportFolder } from "../tests/support/export_folder.ts";
import { comparePaths, type ListedFile, listExported } from "./listing.ts";

const sha256 = (bytes: Uint8Array | string) => createHash("sha256").update(bytes).digest("hex");

function files(result: Awaited<ReturnType<typeof listExported>>): readonly ListedFile[] {
  assert.ok(!("error" in result), JSON.stringify(result));
  return result;
}

Deno.test("every regular file below is listed once, in the order of its path's bytes, with what one open of it told", async () => {
  using folder = exportFolder();
  const { out } = folder;
  Deno.mkdirSync(`${out}/b/c`, { recursive: true });
  Deno.mkdirSync(`${out}/empty`);
  const texts: Record<string, string> = {
    "b/c/deep.txt": "deep",
    "b.txt": "b",
    "b/a": "ba",
    "B": "upper",
    "a-": "dash",
    "ä": "umlaut",
    "\u{1F600}": "beyond",
    "\uFFFD": "below",
    ".hidden": "",
    "with space": "s",
    "back\\slash": "bs",
    "per%2fcent": "pc",
  };
  for (const [path, text] of Object.entries(texts)) Deno.writeTextFileSync(`${out}/${path}`, text);
  Deno.utimeSync(`${out}/B`, 0, 1_787_577_327.015);
  const listed = files(await listExported(folder.root(), 60_000));
  const encoder = new TextEncoder();
  const byBytes = (a: string, b: string) => {
    const [x, y] = [encoder.encode(a), encoder.encode(b)];
    const at = x.findIndex((byte, index) => byte !== y[index]);
    return at < 0 ? x.length - y.length : at >= y.length ? 1 : x[at]! - y[at]!;
  };
  assert.deepEqual(listed.map(({ path }) => path), Object.keys(texts).sort(byBytes));
  for (const { path, size_bytes, sha256: hash } of listed) {
    assert.equal(size_bytes, encoder.encode(texts[path]).length, path);
    assert.equal(hash, sha256(texts[path]!), path);
  }
  assert.equal(listed.find(({ path }) => path === "B")!.mtime_ms, 1_787_577_327_015);
});

Deno.test("links to files inside are listed where links are followed; nothing behind links to folders is, nor what leads out", async () => {
  using folder = exportFolder();
  const { out, work } = folder;
  Deno.mkdirSync(`${out}/dir`);
  Deno.writeTextFileSync(`${out}/dir/f`, "f");
  const links: Record<string, string> = {
    near: "dir/f",
    "absolute": `${out}/dir/f`,
    "out": "../secret.txt",
    "out-abs": `${work}/secret.txt`,
    "folder": "dir",
    "cycle": ".",
    "dir/up": "..",
    "dangling": "nothing",
    "loop": "loop",
  };
  for (const [name, target] of Object.entries(links)) Deno.symlinkSync(target, `${out}/${name}`);
  await new Deno.Command("mkfifo", { args: [`${out}/fifo`] }).output();
  const paths = async (symlinks: "refused" | "followed-inside") =>
    files(await listExported(folder.root(symlinks), 60_000)).map(({ path }) => path);
  assert.deepEqual(await paths("followed-inside"), ["absolute", "dir/f", "near"]);
  assert.deepEqual(await paths("refused"), ["dir/f"]);
});

Deno.test("a root that is not there is empty, one that leads out is refused", async () => {
  using folder = exportFolder();
  assert.deepEqual(await listExported(folder.root("followed-inside", 1, "nothing"), 1_000), []);
  assert.deepEqual(await listExported(folder.root("followed-inside", 1, "secret.txt"), 1_000), []);
  Deno.removeSync(folder.out);
  Deno.symlinkSync("..", folder.out);
  for (const [symlinks, error] of [["followed-inside", "outside_root"], ["refused", "symlink_refused"]] as const) {
    const listed = await listExported(folder.root(symlinks), 1_000);
    assert.equal("error" in listed && listed.error, error);
  }
});

Deno.test("a file above the limit is listed with its real size and hash; one too long to hash ends the listing", async () => {
  using folder = exportFolder();
  const bytes = new Uint8Array(700_000).fill(7);
  Deno.writeFileSync(`${folder.out}/large`, bytes);
  const [large] = files(await listExported(folder.root("followed-inside", 10), 60_000));
  assert.deepEqual([large!.size_bytes, large!.sha256], [700_000, sha256(bytes)]);
  // A hole of a terabyte.
  using file = Deno.openSync(`${folder.out}/hole`, { write: true, create: true });
  file.truncateSync(1e12);
  let turns = 0;
  const timer = setInterval(() => turns++, 1);
  const listed = await listExported(folder.root("followed-inside", 10), 300);
  clearInterval(timer);
  assert.deepEqual(listed, { error: "io_error", message: "the listing took longer than 0 s" });
  assert.ok(turns > 5, `others had ${turns} turns meanwhile`);
});

Deno.test("a listing longer than is held in memory is refused, and lets go of everything", async () => {
  using folder = exportFolder();
  Deno.mkdirSync(`${folder.out}/dir`);
  for (let i = 0; i < 10; i++) Deno.writeTextFileSync(`${folder.out}/dir/\x1b${i}`, "");
  const open = () => [...Deno.readDirSync("/proc/self/fd")].length;
  const root = folder.root();
  const before = open();
  // Each path is `dir/`, a character that JSON writes with six, a digit and the quotes.
  const needed = 10 * (150 + 13);
  assert.equal(files(await listExported(root, 60_000, needed)).length, 10);
  assert.deepEqual(await listExported(root, 60_000, needed - 1), {
    error: "io_error",
    message: `the listing is longer than ${needed - 1} characters: the folder holds too many files or directories`,
  });
  assert.equal(open(), before);

  // Directories that wait to be read are held as well, and only while they wait.
  for (let i = 0; i < 9; i++) Deno.mkdirSync(`${folder.out}/dir${i}`);
  Deno.mkdirSync(`${folder.out}/dir1/deeper`);
  const held = 9 * (50 + 4) + (50 + 3);
  Deno.removeSync(`${folder.out}/dir`, { recursive: true });
  Deno.mkdirSync(`${folder.out}/dir`);
  assert.deepEqual(await listExported(root, 60_000, held), []);
  assert.equal("error" in await listExported(root, 60_000, held - 1), true);
  assert.equal(open(), before);
});

Deno.test("what is no file takes time as well: a listing of directories lets others have their turn and gives up in time", async () => {
  using folder = exportFolder();
  for (let i = 0; i < 5_000; i++) Deno.mkdirSync(`${folder.out}/${i}`);
  let turns = 0;
  const timer = setInterval(() => turns++, 1);
  const listed = await listExported(folder.root(), 1);
  clearInterval(timer);
  assert.equal("error" in listed && listed.error, "io_error");
  assert.ok(turns > 0, "nobody else had a turn");
});

Deno.test("paths are ordered as their UTF-8 bytes are", () => {
  const encoder = new TextEncoder();
  const text = fc.string({ unit: "binary" }).filter((each) => each.isWellFormed());
  fc.assert(fc.property(text, text, (a, b) => {
    const [x, y] = [encoder.encode(a).toHex(), encoder.encode(b).toHex()];
    assert.equal(Math.sign(comparePaths(a, b)), x < y ? -1 : x > y ? 1 : 0);
  }));
});
