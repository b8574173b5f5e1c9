import assert from "node:assert/strict";
import { type HookJob, HookQueue, MAX_QUEUED } from "./hook_queue.ts";

const job = (taskId: string): HookJob => ({ event: "on-task-end", payload: { taskId, exitStatus: "ok" } });
const nameOf = ({ payload }: HookJob) => (payload as { taskId: string }).taskId;

/** A queue whose hook waits until it is let go. */
function heldQueue(onOverflow: "drop" | "block") {
  const told: string[] = [];
  const dropped: string[] = [];
  const gate = Promise.withResolvers<void>();
  const queue = new HookQueue({
    onOverflow,
    run: async (each) => {
      await gate.promise;
      told.push(nameOf(each));
    },
    dropped: (each) => void dropped.push(nameOf(each)),
  });
  return { queue, told, dropped, letGo: () => gate.resolve() };
}

Deno.test("events are told in order, one at a time", async () => {
  const { queue, told, letGo } = heldQueue("drop");
  for (const name of ["a", "b", "c"]) await queue.add(job(name));
  assert.equal(queue.length, 3);
  letGo();
  await queue.drained(new AbortController().signal);
  assert.deepEqual(told, ["a", "b", "c"]);
});

Deno.test("a full queue drops what comes next, and no more", async () => {
  const { queue, told, dropped, letGo } = heldQueue("drop");
  for (let i = 0; i < MAX_QUEUED + 3; i++) await queue.add(job(String(i)));
  assert.deepEqual(dropped, [String(MAX_QUEUED + 1), String(MAX_QUEUED + 2)]);
  letGo();
  await queue.drained(new AbortController().signal);
  assert.equal(told.length, MAX_QUEUED + 1);
});

Deno.test("a full queue that blocks makes the session wait for room, and loses nothing", async () => {
  const { queue, told, dropped, letGo } = heldQueue("block");
  for (let i = 0; i < MAX_QUEUED + 1; i++) await queue.add(job(String(i)));
  let added = false;
  const waiting = queue.add(job("last")).then(() => added = true);
  await new Promise((resolve) => setTimeout(resolve, 5));
  assert.equal(added, false);
  letGo();
  await waiting;
  await queue.drained(new AbortController().signal);
  assert.deepEqual([told.length, told.at(-1), dropped], [MAX_QUEUED + 2, "last", []]);
});

Deno.test("large events fill a queue before their number does", async () => {
  const { queue, dropped, letGo } = heldQueue("drop");
  const large = "x".repeat(30 << 20);
  for (const name of ["a", "b", "c", "d"]) {
    await queue.add({ event: "on-task-end", payload: { taskId: name, exitStatus: large } });
  }
  assert.deepEqual(dropped, ["d"]);
  letGo();
  await queue.drained(new AbortController().signal);
});

Deno.test("a drain that is given up leaves the rest, and takes nothing more", async () => {
  const { queue, told, letGo } = heldQueue("drop");
  await queue.add(job("a"));
  await queue.add(job("b"));
  await queue.drained(AbortSignal.abort());
  assert.equal(queue.length, 1);
  await queue.add(job("c"));
  letGo();
  await new Promise((resolve) => setTimeout(resolve, 5));
  assert.deepEqual(told, ["a"]);
});
