import assert from "node:assert/strict";
import { neglectfulParent } from "../tests/support/neglectful_parent.ts";
import { libc } from "./libc.ts";
import { type NotedInstance, processInstance, runningInstances } from "./process_instance.ts";

const c = libc();
/** Kernels count processes since 6.9: there everything here is to be true. */
const [major, minor] = Deno.osRelease().split(".").map(Number) as [number, number];
const counted = major > 6 || (major === 6 && minor >= 9);

function sleeper(): Deno.ChildProcess {
  return new Deno.Command("sleep", { args: ["60"], stdin: "null", stdout: "null", stderr: "null" }).spawn();
}

/** A process as its own record would name it. */
function noted(pid: number): NotedInstance {
  return { pid, process_instance: processInstance(c, pid)! };
}

function openDescriptors(): number {
  return [...Deno.readDirSync("/proc/self/fd")].length;
}

Deno.test("an older kernel tells of no process", { ignore: counted }, () => {
  assert.equal(processInstance(c, Deno.pid), null);
  assert.deepEqual(runningInstances(c, [{ pid: Deno.pid, process_instance: "boot:1" }]), [false]);
});

Deno.test("a process has one instance, and each another", { ignore: !counted }, async () => {
  const own = processInstance(c, Deno.pid);
  assert.match(own!, /^[0-9a-f-]{36}:\d+$/);
  assert.equal(processInstance(c, Deno.pid), own);
  const [a, b] = [sleeper(), sleeper()];
  assert.equal(new Set([own, processInstance(c, a.pid), processInstance(c, b.pid)]).size, 3);
  assert.deepEqual(runningInstances(c, [noted(a.pid), noted(Deno.pid), noted(b.pid)]), [true, true, true]);
  for (const each of [a, b]) each.kill("SIGKILL");
  for (const each of [a, b]) await each.status;
});

Deno.test("of more processes than are looked at in one go each is told", { ignore: !counted }, async () => {
  const children = Array.from({ length: 35 }, sleeper);
  const all = children.map(({ pid }) => noted(pid));
  const ended = new Set([0, 15, 16, 17, 33]);
  for (const index of ended) {
    children[index]!.kill("SIGKILL");
    await children[index]!.status;
  }
  const before = openDescriptors();
  // Among others that nothing is known of.
  const mixed = all.flatMap((each) => [each, { pid: each.pid }]);
  assert.deepEqual(
    runningInstances(c, mixed),
    all.flatMap((_, index) => [!ended.has(index), false]),
  );
  assert.equal(openDescriptors(), before);
  for (const [index, child] of children.entries()) {
    if (ended.has(index)) continue;
    child.kill("SIGKILL");
    await child.status;
  }
});

Deno.test("a process that has ended does not run, waited for or not", { ignore: !counted }, async () => {
  await using parent = await neglectfulParent(0.2);
  const zombie = noted(parent.child);
  assert.deepEqual(runningInstances(c, [zombie]), [true]);
  const until = Date.now() + 10_000;
  while (runningInstances(c, [zombie])[0] && Date.now() < until) {
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  assert.equal(processInstance(c, zombie.pid), zombie.process_instance, "its entry is still there");
  assert.deepEqual(runningInstances(c, [zombie]), [false]);
  const dead = noted(parent.pid);
  await parent.end();
  assert.deepEqual(runningInstances(c, [dead]), [false]);
  assert.equal(processInstance(c, dead.pid), null);
});

Deno.test(
  "another process under the pid, another boot and nonsense are not the noted one",
  { ignore: !counted },
  () => {
    const own = noted(Deno.pid);
    const [boot, inode] = own.process_instance!.split(":") as [string, string];
    const before = openDescriptors();
    const others = [
      { pid: 1, process_instance: own.process_instance! },
      { pid: Deno.pid, process_instance: `${boot}:${Number(inode) - 1}` },
      { pid: Deno.pid, process_instance: `${boot.replaceAll(/[0-9]/g, "a")}:${inode}` },
      { pid: Deno.pid, process_instance: `${boot}:${inode}0` },
      { pid: Deno.pid, process_instance: inode },
      { pid: Deno.pid, process_instance: "" },
      ...[0, -1, -Deno.pid, 1.5, NaN, 2 ** 31, 2 ** 32 + Deno.pid].map((pid) => ({ ...own, pid })),
    ];
    assert.deepEqual(runningInstances(c, others), others.map(() => false));
    for (const pid of [0, -1, 1.5, NaN, 2 ** 31, 2 ** 32 + Deno.pid]) assert.equal(processInstance(c, pid), null);
    assert.equal(openDescriptors(), before);
    assert.deepEqual(runningInstances(c, []), []);
  },
);
