import assert from "node:assert/strict";
import { withDirectoryLock, writeFileAtomic, writeNewFile } from "./atomic_file.ts";
import { canFillDisk, onSmallDisk } from "../tests/support/full_disk.ts";
import { MurError } from "./errors.ts";

async function withDirectory(work: (directory: string) => Promise<void>) {
  const directory = await Deno.makeTempDir();
  try {
    await work(directory);
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
}

const namesIn = (directory: string) => [...Deno.readDirSync(directory)].map((entry) => entry.name).sort();

Deno.test("an atomic write replaces the file, sets the mode whatever the umask, and leaves no temporary file", async () => {
  await withDirectory(async (directory) => {
    const path = `${directory}/a`;
    await Deno.writeTextFile(path, "old");
    await writeFileAtomic(path, "new", { mode: 0o640 });
    assert.equal(await Deno.readTextFile(path), "new");
    assert.equal((await Deno.stat(path)).mode! & 0o777, 0o640);
    assert.deepEqual(namesIn(directory), ["a"]);
  });
});

Deno.test("an atomic write replaces a symbolic link, not what it points to", async () => {
  await withDirectory(async (directory) => {
    await Deno.writeTextFile(`${directory}/outside`, "kept");
    await Deno.symlink(`${directory}/outside`, `${directory}/a`);
    await writeFileAtomic(`${directory}/a`, "new");
    assert.equal(await Deno.readTextFile(`${directory}/outside`), "kept");
    assert.ok((await Deno.lstat(`${directory}/a`)).isFile);
  });
});

Deno.test("a rename that fails leaves the target and no temporary file", async () => {
  await withDirectory(async (directory) => {
    await Deno.mkdir(`${directory}/a`);
    await assert.rejects(() => writeFileAtomic(`${directory}/a`, "new"));
    assert.deepEqual(namesIn(directory), ["a"]);
  });
});

Deno.test("a temporary name that exists, even as a link, is never written through", async () => {
  await withDirectory(async (directory) => {
    await Deno.writeTextFile(`${directory}/victim`, "kept");
    await Deno.symlink(`${directory}/victim`, `${directory}/t`);
    await assert.rejects(
      () => writeFileAtomic(`${directory}/a`, "x", { temporaryName: "t" }),
      Deno.errors.AlreadyExists,
    );
    await assert.rejects(() => writeNewFile(`${directory}/t`, "x"), Deno.errors.AlreadyExists);
    assert.equal(await Deno.readTextFile(`${directory}/victim`), "kept");
  });
});

Deno.test("a write that fills the disk fails, removes its temporary file and leaves the target", {
  ignore: !canFillDisk(),
}, async () => {
  const output = await onSmallDisk(`
    const { writeFileAtomic } = await import(${JSON.stringify(new URL("./atomic_file.ts", import.meta.url).href)});
    await writeFileAtomic(DIRECTORY + "/a", "old");
    const failure = await writeFileAtomic(DIRECTORY + "/a", new Uint8Array(1_000_000)).catch((error) => error.message);
    const names = [...Deno.readDirSync(DIRECTORY)].map((entry) => entry.name);
    console.log(JSON.stringify({ failure, names, content: await Deno.readTextFile(DIRECTORY + "/a") }));
  `);
  const { failure, names, content } = JSON.parse(output);
  assert.match(failure, /space/i);
  assert.deepEqual(names, ["a"]);
  assert.equal(content, "old");
});

Deno.test("two holders of one directory's lock take turns", async () => {
  await withDirectory(async (directory) => {
    let inside = 0;
    let most = 0;
    await Promise.all(Array.from({ length: 8 }, () =>
      withDirectoryLock(directory, async () => {
        most = Math.max(most, ++inside);
        await new Promise((resolve) => setTimeout(resolve, 2));
        inside--;
      })));
    assert.equal(most, 1);
  });
});

Deno.test("the lock is let go when the work fails, and when its process is killed", async () => {
  await withDirectory(async (directory) => {
    await assert.rejects(() => withDirectoryLock(directory, () => Promise.reject(new MurError("E-IO-003", "x"))));
    const script = `
      const { withDirectoryLock } = await import(${JSON.stringify(new URL("./atomic_file.ts", import.meta.url).href)});
      await withDirectoryLock(${
      JSON.stringify(directory)
    }, async () => { console.log("held"); await new Promise(() => setInterval(() => {}, 1000)); });
    `;
    const child = new Deno.Command(Deno.execPath(), { args: ["eval", script], stdout: "piped" }).spawn();
    const reader = child.stdout.getReader();
    await reader.read();
    await assert.rejects(
      () => withDirectoryLock(directory, () => Promise.resolve(), 50),
      (error) => error instanceof MurError && error.code === "E-IO-003" && /still writing/.test(error.message),
    );
    child.kill("SIGKILL");
    await child.status;
    await reader.cancel();
    assert.equal(await withDirectoryLock(directory, () => Promise.resolve(1)), 1);
  });
});
