import assert from "node:assert/strict";
import fc from "fast-check";
import { neglectfulParent } from "../tests/support/neglectful_parent.ts";
import { ownStartToken, parseProcessStat, processExists, readProcess, startToken } from "./process_identity.ts";

Deno.test("the start time is counted after the last parenthesis", () => {
  const rest = "S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 8812345 99 100";
  const hostile = fc.string({ unit: fc.constantFrom("(", ")", " ", "Z", "1", "\n"), maxLength: 15 });
  fc.assert(fc.property(hostile, (name) => {
    assert.deepEqual(parseProcessStat(`42 (${name}) ${rest}\n`), { state: "S", start: "8812345" });
  }));
  for (const text of ["", "42", "42 (x)", "42 (x) S 1 2", "42 (x) S" + " a".repeat(30)]) {
    assert.equal(parseProcessStat(text), null, text);
  }
});

Deno.test("this process is itself and no other", () => {
  const start = ownStartToken();
  assert.match(start, /^\d+$/);
  assert.deepEqual(readProcess(Deno.pid, start), { state: "same" });
  assert.deepEqual(readProcess(Deno.pid, `${start}0`), {
    state: "gone",
    reason: `pid ${Deno.pid} is held by a process that started at another time`,
  });
  assert.deepEqual(readProcess(Deno.pid, ""), {
    state: "unverified",
    reason: `pid ${Deno.pid}'s start time could not be read`,
  });
});

Deno.test("a process of another user exists, nonsense does not", () => {
  assert.ok(processExists(1));
  for (const pid of [0, -1, -Deno.pid, 1.5, NaN, 2 ** 31, 2 ** 40]) {
    assert.equal(processExists(pid), false, String(pid));
  }
});

Deno.test("a zombie is gone, and so is an ended process", async () => {
  await using parent = await neglectfulParent(0.1);
  const pid = parent.child;
  const until = Date.now() + 5_000;
  while (processExists(pid) && Date.now() < until) await new Promise((resolve) => setTimeout(resolve, 5));
  assert.notEqual(startToken(pid), null, "it still has its entry");
  assert.deepEqual(readProcess(pid, startToken(pid)!), { state: "gone", reason: `no process holds pid ${pid}` });
  const start = startToken(parent.pid)!;
  assert.deepEqual(readProcess(parent.pid, start), { state: "same" });
  await parent.end();
  assert.equal(readProcess(parent.pid, start).state, "gone");
});

Deno.test("what somebody else has read of a process is judged alike", () => {
  const start = ownStartToken();
  assert.deepEqual(readProcess(Deno.pid, start, () => ({ state: "S", start })), { state: "same" });
  assert.equal(readProcess(Deno.pid, start, () => ({ state: "Z", start })).state, "gone");
  assert.equal(readProcess(Deno.pid, start, () => ({ state: "S", start: `${start}0` })).state, "gone");
  // That it was not told is no proof of an end while the pid is held.
  assert.equal(readProcess(Deno.pid, start, () => "untold").state, "unverified");
  assert.equal(readProcess(2 ** 22 + 1, start, () => "untold").state, "gone");
  assert.equal(readProcess(0, start, () => ({ state: "S", start })).state, "gone");
});

Deno.test("a process whose facts cannot be read for want of descriptors is not gone", async () => {
  const url = (name: string) => JSON.stringify(new URL(name, import.meta.url).href);
  const program = `
    import { readProcess } from ${url("./process_identity.ts")};
    import { libc } from ${url("./libc.ts")};
    const c = libc();
    // From here on it knows that all processes are shown.
    readProcess(2 ** 22 + 1, "1");
    const held = [];
    for (let fd = c.epollCreate(); fd >= 0; fd = c.epollCreate()) held.push(fd);
    const read = [readProcess(Deno.ppid, "1").state, readProcess(2 ** 22 + 1, "1").state];
    held.forEach((fd) => c.close(fd));
    // What could not be told then is told now.
    read.push(readProcess(Deno.ppid, "1").state);
    console.log(JSON.stringify(read));`;
  const config = new URL("../deno.json", import.meta.url).pathname;
  const { stdout, stderr } = await new Deno.Command("sh", {
    args: ["-c", 'ulimit -n 60 && "$@"; true', "sh", Deno.execPath(), "eval", "--config", config, program],
  }).output();
  assert.equal(new TextDecoder().decode(stdout), '["unverified","gone","gone"]\n', new TextDecoder().decode(stderr));
});
