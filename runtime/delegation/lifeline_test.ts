import assert from "node:assert/strict";
import { MurError } from "../../base/errors.ts";
import { AT_FDCWD, cString, FCNTL, FD_CLOEXEC, libc, O } from "../../base/libc.ts";
import { makeLifeline, takeLifeline, watchLifeline } from "./lifeline.ts";

const c = libc();

function refusal(value: string): string {
  try {
    takeLifeline(value);
  } catch (error) {
    assert.ok(error instanceof MurError && error.code === "E-RUN-020", String(error));
    return error.message;
  }
  assert.fail(`taken: ${value}`);
}

/** The read end of a pipe that, like an inherited one, is kept through exec; and its write end. */
function inherited(): { readonly read: number; readonly write: number } {
  const [read, write] = c.pipe() as [number, number];
  c.fcntl(read, FCNTL.SETFD, 0);
  return { read, write };
}

Deno.test("unset and blank are no lifeline", () => {
  for (const value of [undefined, "", "  ", "\t"]) assert.equal(takeLifeline(value), null);
});

Deno.test("the read end of a pipe is taken, and kept from other processes from then on", () => {
  const { read, write } = inherited();
  assert.equal(takeLifeline(String(read)), read);
  assert.equal(c.fcntl(read, FCNTL.GETFD), FD_CLOEXEC);
  for (const fd of [read, write]) c.close(fd);
});

Deno.test("anything but the read end of an open pipe at 3 or above is refused", async () => {
  const { read, write } = inherited();
  const file = await Deno.makeTempFile();
  const opened = (path: string, flags: number) => c.openat(AT_FDCWD, cString(path)!, flags);
  const fifo = `${file}.fifo`;
  await new Deno.Command("mkfifo", { args: [fifo] }).output();
  const both = opened(fifo, O.RDWR);
  const regular = opened(file, O.RDONLY);
  const directory = opened("/", O.RDONLY | O.DIRECTORY);
  const device = opened("/dev/null", O.RDONLY);
  const named = opened(fifo, O.PATH);
  using listener = Deno.listen({ port: 0 });
  using socket = await Deno.connect({ port: (listener.addr as Deno.NetAddr).port });
  const sockets = [...Deno.readDirSync("/proc/self/fd")].map(({ name }) => name)
    .filter((name) => {
      try {
        return Deno.readLinkSync(`/proc/self/fd/${name}`).startsWith("socket:");
      } catch {
        return false;
      }
    });
  assert.ok(sockets.length > 0);
  void socket;
  const closed = 900;
  for (const fd of [write, both, regular, directory, device, named, ...sockets, closed]) refusal(String(fd));
  for (const low of ["0", "1", "2", "00", "002"]) assert.match(refusal(low), /below 3/);
  for (const word of ["x", "-3", "3.0", "+3", "0x3", ` ${read}`, `${read} `, "9999999999", "NaN", "3,4"]) {
    assert.match(refusal(word), /no descriptor's number/);
  }
  assert.match(refusal(String(closed)), /not open/);
  for (const fd of [read, write, both, regular, directory, device, named]) c.close(fd);
  for (const path of [file, fifo]) await Deno.remove(path);
});

Deno.test("its end is told once, when the last other end is closed; bytes before it are nothing", async () => {
  const { read, write } = inherited();
  let told = 0;
  watchLifeline(takeLifeline(String(read))!, () => told++);
  for (let round = 0; round < 3; round++) {
    c.write(write, new Uint8Array(10_000));
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  assert.equal(told, 0);
  c.close(write);
  for (const limit = Date.now() + 5_000; told === 0 && Date.now() < limit;) await new Promise((r) => setTimeout(r, 2));
  await new Promise((resolve) => setTimeout(resolve, 10));
  assert.equal(told, 1);
  assert.ok(c.fcntl(read, FCNTL.GETFD) < 0, "it is closed");
});

Deno.test("a watch that was ended tells nothing", async () => {
  const { read, write } = inherited();
  const stop = watchLifeline(read, () => assert.fail("told"));
  stop();
  stop();
  c.close(write);
  await new Promise((resolve) => setTimeout(resolve, 10));
});

Deno.test("the launcher's ends go with no process that it starts, and each is closed once", async () => {
  const lifeline = makeLifeline();
  const held = Deno.readLinkSync(`/proc/self/fd/${lifeline.childEnd}`);
  const { stdout } = await new Deno.Command("ls", { args: ["-l", "/proc/self/fd"] }).output();
  assert.ok(!new TextDecoder().decode(stdout).includes(held));
  lifeline.closeChildEnd();
  const other = c.openat(AT_FDCWD, cString("/dev/null")!, O.RDONLY);
  assert.equal(other, lifeline.childEnd, "its number is another's by now");
  lifeline.closeChildEnd();
  assert.ok(c.fcntl(other, FCNTL.GETFD) >= 0, "which a second call leaves alone");
  lifeline.release();
  c.close(other);
});
