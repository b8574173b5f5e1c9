import assert from "node:assert/strict";
import { startToken } from "./process_identity.ts";
import { type NotedProcess, ProcessWatch, watchableDescriptors } from "./process_watch.ts";

function sleeper(): { readonly child: Deno.ChildProcess; readonly noted: NotedProcess } {
  const child = new Deno.Command("sleep", { args: ["60"], stdin: "null", stdout: "null", stderr: "null" }).spawn();
  return { child, noted: { pid: child.pid, start: startToken(child.pid)! } };
}

async function kill({ child }: ReturnType<typeof sleeper>): Promise<void> {
  child.kill("SIGKILL");
  await child.status;
}

for (const useDescriptors of [true, false]) {
  const way = useDescriptors ? "by descriptor" : "one by one";

  Deno.test(`processes are gone once they have ended, ${way}`, async () => {
    using watch = new ProcessWatch(useDescriptors);
    assert.deepEqual(watch.gone(), []);
    const [first, second, third] = [sleeper(), sleeper(), sleeper()];
    watch.watch("first", first.noted);
    watch.watch("second", second.noted);
    watch.watch("third", third.noted);
    assert.deepEqual(watch.gone(), []);
    await kill(second);
    assert.deepEqual(watch.gone(), ["second"]);
    assert.deepEqual(watch.gone(), []);
    watch.forget("third");
    await kill(first);
    await kill(third);
    assert.deepEqual(watch.gone(), ["first"]);
  });

  Deno.test(`a process that ended but was not waited for is gone, ${way}`, async () => {
    // The shell's child ends while the shell, which became another program, never waits for it.
    const script = "sleep 60 & echo $!; exec sleep 60";
    const parent = new Deno.Command("sh", { args: ["-c", script], stdin: "null", stdout: "piped" }).spawn();
    const reader = parent.stdout.getReader();
    const pid = Number(new TextDecoder().decode((await reader.read()).value));
    using watch = new ProcessWatch(useDescriptors);
    watch.watch("child", { pid, start: startToken(pid)! });
    assert.deepEqual(watch.gone(), []);
    Deno.kill(pid, "SIGKILL");
    let gone: readonly string[] = [];
    for (let wait = 0; gone.length === 0 && wait < 500; wait++) {
      gone = watch.gone();
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
    assert.deepEqual(gone, ["child"]);
    parent.kill("SIGKILL");
    await parent.status;
    await reader.cancel();
  });

  Deno.test(`a pid that another process holds, or nobody, is gone at once, ${way}`, async () => {
    using watch = new ProcessWatch(useDescriptors);
    watch.watch("other", { pid: Deno.pid, start: "1" });
    const ended = sleeper();
    await kill(ended);
    watch.watch("ended", ended.noted);
    for (const pid of [0, -1, 2 ** 31, 1.5]) watch.watch(`pid ${pid}`, { pid, start: "1" });
    assert.deepEqual(
      new Set(watch.gone()),
      new Set(["other", "ended", "pid 0", "pid -1", `pid ${2 ** 31}`, "pid 1.5"]),
    );
  });

  Deno.test(`a process whose start was never read is watched until nobody holds its pid, ${way}`, async () => {
    using watch = new ProcessWatch(useDescriptors);
    const one = sleeper();
    watch.watch("unverified", { pid: one.noted.pid, start: "" });
    assert.deepEqual(watch.gone(), []);
    await kill(one);
    assert.deepEqual(watch.gone(), ["unverified"]);
  });
}

Deno.test("watching again under a key forgets the process of before", async () => {
  using watch = new ProcessWatch();
  const [first, second] = [sleeper(), sleeper()];
  watch.watch("key", first.noted);
  watch.watch("key", second.noted);
  await kill(first);
  assert.deepEqual(watch.gone(), []);
  await kill(second);
  assert.deepEqual(watch.gone(), ["key"]);
});

Deno.test("more processes than descriptors are meant for are watched all the same", async () => {
  using watch = new ProcessWatch();
  const one = sleeper();
  for (let count = 0; count < 1_100; count++) watch.watch(`key ${count}`, one.noted);
  assert.deepEqual(watch.gone(), []);
  await kill(one);
  assert.equal(watch.gone().length, 1_100);
});

Deno.test("watching takes a part of the descriptors there are", () => {
  assert.deepEqual([256, 1_024, 1_048_576, Infinity].map(watchableDescriptors), [64, 256, 1_024, 1_024]);
});
