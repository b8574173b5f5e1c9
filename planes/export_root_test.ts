import assert from "node:assert/strict";
import { RootedDir } from "../base/rooted_dir.ts";
import { TrustedFiles } from "../base/trusted_files.ts";
import { withCode } from "../tests/support/error_code.ts";
import { exportFolder, SECRET } from "../tests/support/export_folder.ts";
import { ExportRoot, judgeExportRoot } from "./export_root.ts";
import { readExported } from "./file_reader.ts";
import { resolveShared } from "./peer_plane.ts";
import { isRefusal } from "./plane_refusal.ts";

const ADMIT = () => true;
const decoder = new TextDecoder();

async function read(root: ExportRoot, path: string): Promise<string> {
  const file = await readExported(root, path, ADMIT);
  return "error" in file ? file.error : decoder.decode(file.bytes);
}

Deno.test("links are followed inside the root and refused by class, wherever they stand and however they are written", async () => {
  using folder = exportFolder();
  const { out, work, outer } = folder;
  Deno.mkdirSync(`${out}/dir`);
  Deno.writeTextFileSync(`${out}/file`, "inside");
  Deno.writeTextFileSync(`${out}/dir/deep`, "deep");
  const links: Record<string, string> = {
    relative: "file",
    "dir/up": "../file",
    absolute: `${out}/file`,
    "out-and-in": "../out/file",
    "far-and-in": "../../work/out/dir/deep",
    "to-dir": "dir",
    "abs-dir": `${out}/dir`,
    "to-root": ".",
    chain: "absolute",
    "proc-in": `/proc/self/cwd/../../../../../../../../..${out}/file`,
    // Those that lead out, or nowhere.
    "secret-rel": "../secret.txt",
    "secret-abs": `${work}/secret.txt`,
    "secret-far": `${outer}/secret.txt`,
    "dir-out": "..",
    "dir-abs": outer,
    "chain-out": "secret-abs",
    "magic": "/proc/self/exe",
    "dangling": "nothing",
    "dangling-out": "/nothing/at/all",
    "loop": "loop",
  };
  for (const [name, target] of Object.entries(links)) Deno.symlinkSync(target, `${out}/${name}`);

  const following = folder.root();
  for (
    const [path, text] of Object.entries({
      file: "inside",
      relative: "inside",
      "dir/up": "inside",
      absolute: "inside",
      "out-and-in": "inside",
      "far-and-in": "deep",
      "to-dir/deep": "deep",
      "abs-dir/deep": "deep",
      "to-root/file": "inside",
      "to-root/to-root/to-dir/deep": "deep",
      chain: "inside",
      "proc-in": "inside",
      "secret-rel": "outside_root",
      "secret-abs": "outside_root",
      "secret-far": "outside_root",
      "dir-out/secret.txt": "outside_root",
      "dir-abs/secret.txt": "outside_root",
      "dir-abs/work/out/file": "inside",
      "chain-out": "outside_root",
      magic: "outside_root",
      dangling: "not_found",
      "dangling-out": "outside_root",
      loop: "not_found",
      "to-dir": "not_a_regular_file",
      "dir": "not_a_regular_file",
      "dir-out": "outside_root",
      "file/x": "not_found",
      ["n".repeat(300)]: "not_found",
      [Array(2_000).fill("nn").join("/")]: "not_found",
    })
  ) assert.equal(await read(following, path), text, path);

  const refusing = folder.root("refused");
  assert.equal(await read(refusing, "file"), "inside");
  assert.equal(await read(refusing, "dir/deep"), "deep");
  for (const name of Object.keys(links)) assert.equal(await read(refusing, name), "symlink_refused", name);
  assert.equal(await read(refusing, "to-dir/deep"), "symlink_refused");
  assert.equal(await read(refusing, "dir-out/secret.txt"), "symlink_refused");
});

Deno.test("a name that ends as the kernel marks a removed file is a name like any other", async () => {
  using folder = exportFolder();
  const marked = `${folder.out}/dir (deleted)`;
  Deno.mkdirSync(marked);
  Deno.writeTextFileSync(`${marked}/file (deleted)`, "inside");
  Deno.symlinkSync(`${marked}/file (deleted)`, `${marked}/absolute`);
  assert.equal(await read(folder.root(), "dir (deleted)/absolute"), "inside");
  assert.deepEqual(resolveShared(folder.root(), "dir (deleted)/absolute"), { path: "dir (deleted)/file (deleted)" });
  const root = folder.root("followed-inside", 1_000, "out/dir (deleted)");
  assert.equal(await read(root, "absolute"), "inside");
  assert.deepEqual(resolveShared(root, "absolute"), { path: "file (deleted)" });

  // One that was removed is nowhere, also when another took the name with the mark.
  const opened = root.open();
  assert.ok(opened !== null && "folder" in opened);
  using held = opened.folder;
  const file = held.openFile("file (deleted)");
  assert.ok(!isRefusal(file));
  using _file = file;
  assert.equal(held.canonicalPath(file), "file (deleted)");
  Deno.removeSync(`${marked}/file (deleted)`);
  assert.equal(held.canonicalPath(file), null);
  Deno.writeTextFileSync(`${marked}/file (deleted) (deleted)`, "another");
  assert.equal(held.canonicalPath(file), null);
});

Deno.test("what is no regular file neither blocks nor serves", async () => {
  using folder = exportFolder();
  const { out } = folder;
  const made = await new Deno.Command("mkfifo", { args: [`${out}/fifo`] }).output();
  assert.ok(made.success);
  using _socket = Deno.listen({ transport: "unix", path: `${out}/socket` });
  Deno.symlinkSync("fifo", `${out}/to-fifo`);
  Deno.symlinkSync("/dev/zero", `${out}/device`);
  const root = folder.root();
  for (
    const [path, outcome] of Object.entries({
      fifo: "not_a_regular_file",
      socket: "not_a_regular_file",
      "to-fifo": "not_a_regular_file",
      device: "outside_root",
    })
  ) assert.equal(await read(root, path), outcome, path);
  const node = await new Deno.Command("mknod", { args: [`${out}/null`, "c", "1", "3"], stderr: "null" }).output();
  if (node.success) assert.equal(await read(root, "null"), "not_a_regular_file");
});

Deno.test("the root is what the work folder holds at that moment", async () => {
  using folder = exportFolder();
  const { out, work, outer } = folder;
  const [root, strict] = [folder.root(), folder.root("refused")];
  Deno.writeTextFileSync(`${out}/a`, "first");
  assert.equal(await read(root, "a"), "first");
  Deno.renameSync(out, `${work}/old`);
  assert.equal(await read(root, "a"), "not_found");
  Deno.mkdirSync(out);
  Deno.writeTextFileSync(`${out}/a`, "second");
  assert.equal(await read(root, "a"), "second");
  // The agent puts a link in its place.
  Deno.removeSync(out, { recursive: true });
  Deno.symlinkSync("old", out);
  assert.equal(await read(root, "a"), "first");
  assert.equal(await read(strict, "a"), "symlink_refused");
  Deno.removeSync(out);
  Deno.symlinkSync(`${work}/old`, out);
  assert.equal(await read(root, "a"), "first");
  for (const target of [outer, "..", "/", "/proc/self/root"]) {
    Deno.removeSync(out);
    Deno.symlinkSync(target, out);
    assert.equal(await read(root, "secret.txt"), "outside_root", target);
    assert.equal(await read(strict, "secret.txt"), "symlink_refused", target);
  }
  Deno.removeSync(out);
  Deno.writeTextFileSync(out, SECRET);
  assert.equal(await read(root, "a"), "not_found");
  // A root may be the work folder itself.
  assert.equal(await read(folder.root("followed-inside", 1 << 20, "."), "secret.txt"), SECRET);
});

Deno.test("what is hidden from components is hidden from the planes", async () => {
  using folder = exportFolder();
  const { out, work } = folder;
  Deno.mkdirSync(`${out}/home`);
  Deno.writeTextFileSync(`${out}/home/key`, SECRET);
  Deno.symlinkSync("home/key", `${out}/link`);
  Deno.writeTextFileSync(`${out}/plain`, "plain");
  using workdir = RootedDir.open(work, {
    trusted: new TrustedFiles([{ path: `${out}/home`, tree: true, hidden: true }]),
  });
  const root = new ExportRoot({ workdir, root: "out", maxBytes: 1 << 20, symlinks: "followed-inside" });
  assert.equal(await read(root, "plain"), "plain");
  for (const path of ["home/key", "link"]) assert.equal(await read(root, path), "outside_root", path);
  assert.notEqual(await read(root, "home"), SECRET);
});

Deno.test("a root that leads out of the work folder refuses the launch, one that is not there does not", () => {
  using folder = exportFolder();
  const { out, work, outer } = folder;
  using workdir = RootedDir.open(work);
  const judge = (root: string) => judgeExportRoot(workdir, root, "exports.files.root", undefined);
  for (const [name, target] of [["in", "out"], ["in-abs", out], ["around", "../work/out"], ["self", "."]] as const) {
    Deno.symlinkSync(target, `${work}/${name}`);
    judge(name);
  }
  for (const root of ["out", "out/", "./out", "nothing", "nothing/below", "secret.txt", "."]) judge(root);
  for (const [name, target] of [["up", ".."], ["abs", outer], ["root", "/"], ["chain", "up"]] as const) {
    Deno.symlinkSync(target, `${work}/${name}`);
    assert.throws(
      () => judge(name),
      withCode("E-CAP-007", /exports\.files\.root '.+' leads out of the work folder/),
      name,
    );
  }
  judge("up/work");
});
