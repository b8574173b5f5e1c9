import assert from "node:assert/strict";
import { withDirectoryLock } from "./directory_lock.ts";
import { MurError } from "./errors.ts";

async function withDirectory(work: (directory: string) => Promise<void>) {
  const directory = await Deno.makeTempDir();
  try {
    await work(directory);
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
}

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
      const { withDirectoryLock } = await import(${
      JSON.stringify(new URL("./directory_lock.ts", import.meta.url).href)
    });
      await withDirectoryLock(${
      JSON.stringify(directory)
    }, async () => { console.log("held"); await new Promise(() => setInterval(() => {}, 1000)); });
    `;
    const child = new Deno.Command(Deno.execPath(), { args: ["eval", script], stdout: "piped" }).spawn();
    const reader = child.stdout.getReader();
    await reader.read();
    await assert.rejects(
      () => withDirectoryLock(directory, () => Promise.resolve(), { timeout: 50 }),
      (error) => error instanceof MurError && error.code === "E-IO-003" && /still writing/.test(error.message),
    );
    child.kill("SIGKILL");
    await child.status;
    await reader.cancel();
    assert.equal(await withDirectoryLock(directory, () => Promise.resolve(1)), 1);
  });
});

Deno.test("shared holders hold it together and keep a writer out", async () => {
  await withDirectory(async (directory) => {
    const shared = { shared: true, timeout: 50 };
    await withDirectoryLock(directory, async () => {
      assert.equal(await withDirectoryLock(directory, () => Promise.resolve(1), shared), 1);
      await assert.rejects(withDirectoryLock(directory, () => Promise.resolve(), { timeout: 50 }), MurError);
    }, shared);
    await withDirectoryLock(directory, async () => {
      await assert.rejects(withDirectoryLock(directory, () => Promise.resolve(), shared), MurError);
    });
  });
});
