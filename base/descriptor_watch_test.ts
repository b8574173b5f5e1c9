import assert from "node:assert/strict";
import { descriptorWatch } from "./descriptor_watch.ts";
import { libc, POLL } from "./libc.ts";

function pipe(): { readonly read: number; readonly write: number } {
  const pair = libc().pipe();
  assert.ok(typeof pair !== "number");
  return { read: pair[0], write: pair[1] };
}

/** The next events of a descriptor. */
function next(fd: number, events: number): Promise<number> {
  return new Promise((resolve) => {
    descriptorWatch().watch(fd, events, (came) => {
      descriptorWatch().unwatch(fd);
      resolve(came);
    });
  });
}

const BYTE = Uint8Array.of(1);

Deno.test("what is watched while another wait is under way is seen, and so is what comes for the first", async () => {
  const [one, two] = [pipe(), pipe()];
  const first = next(one.read, POLL.IN);
  await new Promise((resolve) => setTimeout(resolve, 5));
  const second = next(two.read, POLL.IN);
  libc().write(two.write, BYTE);
  assert.equal(await second, POLL.IN);
  libc().write(one.write, BYTE);
  assert.equal(await first, POLL.IN);
  for (const fd of [one.read, one.write, two.read, two.write]) libc().close(fd);
});

Deno.test("events are told until nobody watches; the end of the other side is one", async () => {
  const { read, write } = pipe();
  let told = 0;
  const end = new Promise<void>((resolve) => {
    descriptorWatch().watch(read, POLL.IN, (events) => {
      told++;
      if ((events & POLL.HUP) === 0) return void libc().read(read, new Uint8Array(1));
      descriptorWatch().close(read);
      resolve();
    });
  });
  for (let round = 0; round < 3; round++) {
    libc().write(write, BYTE);
    while (told <= round) await new Promise((resolve) => setTimeout(resolve, 1));
  }
  libc().close(write);
  await end;
  assert.equal(told, 4);
});

Deno.test("a descriptor closed during a wait never stands for one opened after it", async () => {
  const kept = pipe();
  const never = next(kept.read, POLL.IN);
  for (let round = 0; round < 50; round++) {
    const old = pipe();
    let wrong = 0;
    descriptorWatch().watch(old.read, POLL.IN, () => wrong++);
    await new Promise((resolve) => setTimeout(resolve, round % 3 === 0 ? 1 : 0));
    descriptorWatch().close(old.read);
    const fresh = pipe();
    const came = next(fresh.read, POLL.IN);
    libc().write(fresh.write, BYTE);
    assert.equal(await came, POLL.IN);
    assert.equal(wrong, 0);
    for (const fd of [old.write, fresh.read, fresh.write]) libc().close(fd);
  }
  libc().write(kept.write, BYTE);
  await never;
  for (const fd of [kept.read, kept.write]) libc().close(fd);
});
