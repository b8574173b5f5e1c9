import assert from "node:assert/strict";
import fc from "fast-check";
import { RootedDir } from "../base/rooted_dir.ts";
import { CommandOutput } from "./command_output.ts";

Deno.test("whatever the pieces, the head is the beginning and the copy is the whole", () => {
  const dir = Deno.makeTempDirSync();
  using root = RootedDir.open(dir);
  let count = 0;
  try {
    const pieces = fc.array(fc.uint8Array({ maxLength: 40 }), { maxLength: 12 });
    fc.assert(fc.property(pieces, fc.integer({ min: 1, max: 60 }), (chunks, keep) => {
      const output = new CommandOutput(keep, root);
      for (const chunk of chunks) output.write(new Uint8Array(chunk));
      const whole = new Uint8Array(chunks.flatMap((chunk) => [...chunk]));
      assert.deepEqual(output.head, whole.subarray(0, keep));
      assert.equal(output.total, whole.length);
      assert.equal(output.overflowed, whole.length > keep);
      using file = root.openFile(`copy-${count++}`, { read: true, write: true, createNew: true });
      file.write(0, new Uint8Array(3));
      assert.equal(output.copyTo(file, 3), whole.length + 3);
      assert.deepEqual(file.readAll(10_000).subarray(3), whole);
      output.close();
    }));
    assert.ok([...Deno.readDirSync(dir)].every(({ name }) => name.startsWith("copy-")), "a spool has a name");
  } finally {
    Deno.removeSync(dir, { recursive: true });
  }
});

Deno.test("what can't be kept is counted and said", () => {
  const dir = Deno.makeTempDirSync();
  using root = RootedDir.open(dir);
  const copied = (output: CommandOutput) => {
    const name = crypto.randomUUID();
    using file = root.openFile(name, { read: true, write: true, createNew: true });
    output.copyTo(file, 0);
    return new TextDecoder().decode(file.readAll(10_000));
  };
  try {
    const bytes = (text: string) => new TextEncoder().encode(text);
    const dropped = new CommandOutput(4, null);
    dropped.write(bytes("0123456789"));
    assert.equal(copied(dropped), "0123\n[6 more bytes could not be kept]");
    const limited = new CommandOutput(4, root, 8);
    for (const part of ["012", "345", "6789"]) limited.write(bytes(part));
    assert.equal(copied(limited), "01234567\n[2 more bytes could not be kept]");
    assert.equal(limited.text(), "0123");
    limited.close();
  } finally {
    Deno.removeSync(dir, { recursive: true });
  }
});
