import assert from "node:assert/strict";
import { FileStamp } from "./file_stamp.ts";

/** A time at which the last change is long past, on the clock of the files. */
const LATER = () => Date.now() + 10_000;

for (const askKernel of [true, false]) {
  const way = askKernel ? "through the kernel" : "through Deno";

  Deno.test(`every change of a file shows, ${way}`, async () => {
    const dir = await Deno.makeTempDir();
    try {
      const path = `${dir}/file`;
      await Deno.writeTextFile(path, "one");
      const stamp = new FileStamp(path, askKernel);
      const changes: Record<string, () => void> = {
        "other bytes of the same length": () => Deno.writeTextFileSync(path, "two"),
        "another length": () => Deno.writeTextFileSync(path, "four"),
        "another mode": () => Deno.chmodSync(path, 0o600),
        "another file in its place": () => {
          Deno.writeTextFileSync(`${path}.new`, "five");
          Deno.renameSync(`${path}.new`, path);
        },
        "a link in its place": () => {
          Deno.renameSync(path, `${path}.moved`);
          Deno.symlinkSync(`${path}.moved`, path);
        },
        "nothing in its place": () => Deno.removeSync(path),
      };
      for (const [what, change] of Object.entries(changes)) {
        assert.equal(stamp.look(), "there", what);
        assert.ok(stamp.keep(LATER()), what);
        assert.ok(stamp.isUnchanged(), what);
        // Past the granularity of the kernel's clock.
        await new Promise((resolve) => setTimeout(resolve, 20));
        assert.ok(stamp.isUnchanged(), what);
        change();
        assert.ok(!stamp.isUnchanged(), what);
      }
      assert.equal(stamp.look(), "absent");
    } finally {
      await Deno.remove(dir, { recursive: true });
    }
  });

  Deno.test(`an entry that comes or goes changes its directory, ${way}`, async () => {
    const dir = await Deno.makeTempDir();
    try {
      const stamp = new FileStamp(dir, askKernel);
      for (const change of [() => Deno.writeTextFileSync(`${dir}/a`, ""), () => Deno.removeSync(`${dir}/a`)]) {
        assert.equal(stamp.look(), "there");
        assert.ok(stamp.keep(LATER()));
        await new Promise((resolve) => setTimeout(resolve, 20));
        change();
        assert.ok(!stamp.isUnchanged());
      }
    } finally {
      await Deno.remove(dir, { recursive: true });
    }
  });

  Deno.test(`a change that is too late to be told from the next one is not kept, ${way}`, async () => {
    const path = await Deno.makeTempFile();
    try {
      const stamp = new FileStamp(path, askKernel);
      await Deno.writeTextFile(path, "now");
      assert.equal(stamp.look(), "there");
      assert.ok(!stamp.keep(Date.now()));
      assert.ok(!stamp.isUnchanged());
    } finally {
      await Deno.remove(path);
    }
  });

  Deno.test(`what is not there, or lies below a file, is not unchanged, ${way}`, async () => {
    const path = await Deno.makeTempFile();
    try {
      assert.equal(new FileStamp(`${path}.none`, askKernel).look(), "absent");
      assert.equal(new FileStamp(`${path}/below`, askKernel).look(), "unreadable");
      assert.ok(!new FileStamp(`${path}.none`, askKernel).isUnchanged());
    } finally {
      await Deno.remove(path);
    }
  });
}
