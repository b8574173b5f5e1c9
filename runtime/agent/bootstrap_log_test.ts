import assert from "node:assert/strict";
import { RootedDir } from "../../base/rooted_dir.ts";
import { BootstrapLog } from "./bootstrap_log.ts";

Deno.test("lines are appended, controls escaped, nothing made before the first", async () => {
  const directory = await Deno.makeTempDir();
  using records = RootedDir.open(directory);
  try {
    const log = new BootstrapLog(records);
    assert.deepEqual([...Deno.readDirSync(directory)], []);
    log.line("first");
    log.line("two\nlines \x1b[1m");
    log.close();
    const again = new BootstrapLog(records);
    again.line("later");
    again.close();
    assert.equal(
      await Deno.readTextFile(`${directory}/logs/bootstrap.log`),
      "first\ntwo\nlines \\x1b[1m\nlater\n",
    );
    assert.equal((await Deno.stat(`${directory}/logs`)).mode! & 0o777, 0o700);
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
});

Deno.test("a log that cannot be written is no failure, and a link is not followed", async () => {
  const directory = await Deno.makeTempDir();
  using records = RootedDir.open(directory);
  try {
    await Deno.mkdir(`${directory}/elsewhere`);
    await Deno.symlink("elsewhere", `${directory}/logs`);
    const log = new BootstrapLog(records);
    log.line("dropped");
    log.close();
    assert.deepEqual([...Deno.readDirSync(`${directory}/elsewhere`)], []);
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
});

Deno.test("a handle for a peer file is named and not written", async () => {
  const directory = await Deno.makeTempDir();
  using records = RootedDir.open(directory);
  try {
    const log = new BootstrapLog(records);
    log.line("no file for mh1.eyJ2IjoxfQ.c2lnbmF0dXJl here");
    log.close();
    assert.match(
      await Deno.readTextFile(`${directory}/logs/bootstrap.log`),
      /^no file for <handle:[0-9a-f]{16}> here\n$/,
    );
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
});
