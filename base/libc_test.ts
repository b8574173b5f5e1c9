import assert from "node:assert/strict";
import { AT_FDCWD, cString, ERRNO, FCNTL, FD_CLOEXEC, kindOfMode, libc, O, POLL } from "./libc.ts";

Deno.test("failed calls answer with negative error numbers", () => {
  const c = libc();
  assert.equal(c.openat(AT_FDCWD, cString("/nothing/here")!, O.RDONLY), -ERRNO.ENOENT);
  assert.equal(c.read(-1, new Uint8Array(1)), -ERRNO.EBADF);
  assert.equal(c.fstat(-1), -ERRNO.EBADF);
  assert.equal(c.close(-1), -ERRNO.EBADF);
  assert.equal(c.kill(2 ** 22 + 1, 0), -ERRNO.ESRCH);
  assert.equal(c.kill(Deno.pid, 0), 0);
});

Deno.test("descriptors are close-on-exec, and a pipe tells its hang-up", () => {
  const c = libc();
  const pipe = c.pipe();
  assert.ok(typeof pipe !== "number");
  const [read, write] = pipe;
  assert.equal(c.fcntl(read, FCNTL.GETFD), FD_CLOEXEC);
  assert.equal(c.poll(read, POLL.IN, 0), 0);
  assert.equal(c.write(write, new Uint8Array([1, 2, 3])), 3);
  assert.equal(c.poll(read, POLL.IN, 0), POLL.IN);
  c.close(write);
  assert.equal(c.poll(read, 0, 1_000), POLL.HUP);
  const buffer = new Uint8Array(8);
  assert.equal(c.read(read, buffer), 3);
  assert.equal(c.read(read, buffer), 0);
  c.close(read);
});

Deno.test("close-on-exec can be set on every inherited descriptor", () => {
  const c = libc();
  const fd = c.openat(AT_FDCWD, cString("/")!, O.PATH);
  assert.equal(c.fcntl(fd, FCNTL.SETFD, 0), 0);
  assert.equal(c.fcntl(fd, FCNTL.GETFD), 0);
  assert.equal(c.closeOnExecFrom(fd), 0);
  assert.equal(c.fcntl(fd, FCNTL.GETFD), FD_CLOEXEC);
  c.close(fd);
});

Deno.test("facts about a file agree with Deno's", () => {
  const path = Deno.makeTempFileSync();
  try {
    Deno.writeTextFileSync(path, "12345");
    const stat = libc().statx(AT_FDCWD, cString(path)!, 0);
    assert.ok(typeof stat !== "number");
    const told = Deno.statSync(path);
    assert.equal(stat.size, 5);
    assert.equal(stat.kind, "file");
    assert.equal(stat.mode, told.mode! & 0o7777);
    assert.equal(stat.uid, told.uid);
    assert.equal(stat.gid, told.gid);
    assert.equal(stat.nlink, told.nlink);
    assert.equal(Number(stat.ino), told.ino);
    assert.equal(Number(stat.mtime / 1_000_000n), told.mtime!.getTime());
  } finally {
    Deno.removeSync(path);
  }
});

Deno.test("every entry of a large directory is read once", () => {
  const dir = Deno.makeTempDirSync();
  try {
    const c = libc();
    for (let index = 0; index < 500; index++) Deno.writeTextFileSync(`${dir}/${"n".repeat(60)}${index}`, "");
    const fd = c.openat(AT_FDCWD, cString(dir)!, O.RDONLY | O.DIRECTORY);
    const names = new Set<string>();
    const buffer = new Uint8Array(4096);
    for (;;) {
      const block = c.getdents(fd, buffer);
      assert.ok(typeof block !== "number");
      if (block.length === 0) break;
      for (const entry of block) names.add(new TextDecoder().decode(entry.name));
    }
    c.close(fd);
    assert.equal(names.size, 500);
  } finally {
    Deno.removeSync(dir, { recursive: true });
  }
});

Deno.test("texts that name no file have no C form", () => {
  assert.equal(cString("a\0b"), null);
  assert.equal(cString("\udc00"), null);
  assert.deepEqual(cString("ä"), Uint8Array.of(0xc3, 0xa4, 0));
});

Deno.test("kinds come from the mode", () => {
  assert.equal(kindOfMode(0o100644), "file");
  assert.equal(kindOfMode(0o040755), "directory");
  assert.equal(kindOfMode(0o120777), "symlink");
  assert.equal(kindOfMode(0o010644), "fifo");
  assert.equal(kindOfMode(0o140644), "socket");
  assert.equal(kindOfMode(0o020644), "character-device");
  assert.equal(kindOfMode(0o060644), "block-device");
  assert.equal(kindOfMode(0), "unknown");
});
