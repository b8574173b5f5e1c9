import assert from "node:assert/strict";
import { startToken } from "./process_identity.ts";
import { parseProcessStat } from "./process_identity.ts";
import { openSmallFileReader } from "./small_file.ts";

Deno.test("small files are read whole, and everything else is left to others", async () => {
  const read = openSmallFileReader()!;
  const dir = await Deno.makeTempDir();
  try {
    const path = `${dir}/file`;
    for (const text of ["a", "ä\u{1f600}\n", "x".repeat(16_383)]) {
      await Deno.writeTextFile(path, text);
      assert.equal(read(path), text);
    }
    for (const text of ["", "x".repeat(16_384), "x".repeat(100_000)]) {
      await Deno.writeTextFile(path, text);
      assert.equal(read(path), null);
    }
    await Deno.writeTextFile(path, "a");
    await Deno.symlink(path, `${dir}/link`);
    const { success } = await new Deno.Command("mkfifo", { args: [`${dir}/pipe`] }).output();
    assert.ok(success);
    for (const other of ["link", "pipe", "none", "file/below", "\0", "."]) {
      assert.equal(read(`${dir}/${other}`), null, other);
    }
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
  assert.equal(parseProcessStat(read(`/proc/${Deno.pid}/stat`)!)?.start, startToken(Deno.pid));
});

Deno.test("no descriptor stays open", () => {
  const read = openSmallFileReader()!;
  const count = () => [...Deno.readDirSync("/proc/self/fd")].length;
  read("/proc/self/stat");
  const before = count();
  for (let round = 0; round < 100; round++) read("/proc/self/stat");
  assert.equal(count(), before);
});
