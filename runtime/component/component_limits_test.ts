import assert from "node:assert/strict";
import { ComponentFailure, type ComponentFailureKind } from "./component_runtime.ts";
import { textTool } from "./testing/guests.ts";
import { eventually, everythingTool, Harness, isAlive, LIMITS } from "./testing/harness.ts";

async function failsWith(call: Promise<unknown>, kind: ComponentFailureKind, message: RegExp | string): Promise<void> {
  const error = await call.then(() => null, (error: unknown) => error);
  assert.ok(error instanceof ComponentFailure, `it did not fail with a ComponentFailure: ${error}`);
  if (typeof message === "string") assert.equal(error.message, message);
  else assert.match(error.message, message);
  assert.equal(error.kind, kind, error.message);
}

Deno.test("a trap ends the process and costs the next call nothing but a new one", async () => {
  await using harness = new Harness();
  const spec = await harness.spec(await everythingTool());
  assert.equal(await harness.do(spec, "echo", { value: 1 }), 1);
  const before = new Set(harness.runtime.pids);
  const lines: string[] = [];
  const output = (_: string, line: string) => lines.push(line);
  await failsWith(harness.do(spec, "fail", {}, { output }), "trap", /^tool 'probe' trapped: .*unreachable/);
  assert.ok(lines.some((line) => line.includes("on purpose")), "what the guest said of it reaches the output");
  assert.equal(await harness.do(spec, "echo", { value: 2 }), 2);
  await eventually(() => [...before].filter(isAlive).length < before.size);
});

Deno.test("a guest that never ends is killed at its deadline", async () => {
  await using harness = new Harness();
  const spec = await harness.spec(await everythingTool(), { limits: { ...LIMITS, deadlineSeconds: 0.4 } });
  const from = performance.now();
  await failsWith(
    harness.do(spec, "spin"),
    "deadline",
    "tool 'probe' exceeded its 0.4s execution deadline (capabilities.limits.deadline_seconds) and was interrupted",
  );
  const took = performance.now() - from;
  assert.ok(took >= 390 && took < 5_000, `${took} ms`);
  assert.equal(await harness.do(spec, "echo", { value: 2 }), 2);
});

Deno.test("a deadline also ends a guest that waits for the runtime", async () => {
  await using harness = new Harness();
  const spec = await harness.spec(await everythingTool(), { limits: { ...LIMITS, deadlineSeconds: 0.3 } });
  await failsWith(harness.do(spec, "sleep", { ms: 60_000 }), "deadline", /exceeded its 0.3s execution deadline/);
});

Deno.test("the clock stands still while the guest waits for a person", async () => {
  await using harness = new Harness();
  const spec = await harness.spec(await everythingTool(), { limits: { ...LIMITS, deadlineSeconds: 0.5 } });
  const prompts: string[] = [];
  const reply = await harness.do(spec, "ask", { prompt: "Proceed?" }, {
    requestInput: async (prompt) => {
      prompts.push(prompt);
      await new Promise((resolve) => setTimeout(resolve, 900));
      return "yes, gerne ✓";
    },
  });
  assert.equal(reply, "yes, gerne ✓");
  assert.deepEqual(prompts, ["Proceed?"]);
});

Deno.test("input that is not available, or runs out of time, traps the guest with the reason", async () => {
  await using harness = new Harness();
  const spec = await harness.spec(await everythingTool());
  await failsWith(harness.do(spec, "ask", { prompt: "?" }), "trap", /request-input is not available/);
  const requestInput = () => Promise.reject(new Error("input-timeout"));
  await failsWith(harness.do(spec, "ask", { prompt: "?" }, { requestInput }), "trap", /input-timeout/);
});

Deno.test("a guest that eats memory is refused more than its limit, and the refusal wins over its trap", async () => {
  await using harness = new Harness();
  const memoryBytes = 64 << 20;
  const spec = await harness.spec(await everythingTool(), { limits: { ...LIMITS, memoryBytes } });
  await failsWith(
    harness.do(spec, "eat"),
    "limit",
    /^tool 'probe' exceeded its configured resource limits: linear memory growth to \d+ bytes exceeds capabilities\.limits\.memory_bytes \(67108864\)$/,
  );
  assert.equal(await harness.do(spec, "echo", { value: 2 }), 2);
});

const GROW_MEMORY = `(if (i32.eq (memory.grow (i32.const 100)) (i32.const -1)) (then unreachable)) (i32.const 1024)`;

Deno.test("memory limits hold to the page, for growth and for the declared minimum", async () => {
  await using harness = new Harness();
  const bytes = await textTool(GROW_MEMORY);
  const spec = (pages: number) => harness.spec(bytes, { limits: { ...LIMITS, memoryBytes: pages * 65_536 + 65_535 } });
  assert.equal((await harness.call(await spec(102), null)).status, "passed");
  await failsWith(
    harness.call(await spec(101), null),
    "limit",
    `tool 'probe' exceeded its configured resource limits: linear memory growth to ${102 * 65_536} bytes exceeds ` +
      `capabilities.limits.memory_bytes (${101 * 65_536 + 65_535})`,
  );
  await failsWith(
    harness.call(await spec(1), null),
    "limit",
    `tool 'probe' exceeded its configured resource limits: linear memory growth to ${2 * 65_536} bytes exceeds ` +
      `capabilities.limits.memory_bytes (${65_536 + 65_535})`,
  );
});

Deno.test("a guest that lives with a refusal keeps its answer; its own declared maximum is not the limit's", async () => {
  await using harness = new Harness();
  const copes = await harness.spec(await textTool("(drop (memory.grow (i32.const 60000))) (i32.const 1024)"));
  assert.equal((await harness.call(copes, null)).status, "passed");
  const own = await harness.spec(await textTool(GROW_MEMORY, { memory: "2 10" }));
  await failsWith(harness.call(own, null), "trap", /unreachable/);
});

Deno.test("what a guest keeps resident beside its limit per memory is bounded too", async () => {
  await using harness = new Harness();
  const names = Array.from({ length: 9 }, (_, index) => `$m${index}`);
  const bytes = await textTool(
    `${names.map((name) => `(memory.fill ${name} (i32.const 0) (i32.const 1) (i32.const 65536000))`).join(" ")}
    (loop (br 0)) (i32.const 1024)`,
    { more: names.map((name) => `(memory ${name} 1000)`).join(" ") },
  );
  const spec = await harness.spec(bytes, { limits: { ...LIMITS, memoryBytes: 64 << 20, deadlineSeconds: 30 } });
  await failsWith(
    harness.call(spec, null),
    "limit",
    /resident memory of \d+ bytes exceeds .*memory_bytes \(67108864\)/,
  );
});

Deno.test("table growth has its limit", async () => {
  await using harness = new Harness();
  const bytes = await textTool(
    `(if (i32.eq (table.grow $t (ref.null func) (i32.const 500)) (i32.const -1)) (then unreachable)) (i32.const 1024)`,
    { more: "(table $t 10 funcref)" },
  );
  const spec = (tableElements: number) => harness.spec(bytes, { limits: { ...LIMITS, tableElements } });
  assert.equal((await harness.call(await spec(510), null)).status, "passed");
  await failsWith(
    harness.call(await spec(509), null),
    "limit",
    "tool 'probe' exceeded its configured resource limits: table growth to 510 elements exceeds " +
      "capabilities.limits.table_elements (509)",
  );
  await failsWith(harness.call(await spec(9), null), "limit", /table growth to 10 elements exceeds .* \(9\)$/);
});

Deno.test("the instances of a component are counted", async () => {
  await using harness = new Harness();
  const spec = await harness.spec(await everythingTool(), { limits: { ...LIMITS, instances: 3 } });
  await failsWith(
    harness.do(spec, "echo", { value: 1 }),
    "limit",
    "tool 'probe' exceeded its configured resource limits: instance count 4 exceeds capabilities.limits.instances (3)",
  );
});

Deno.test("an instance that never comes to its function is ended too", async () => {
  await using harness = new Harness({ bounds: { componentHostStart: 400 } });
  await harness.runtime.warmed();
  const spec = await harness.spec(
    await textTool("(i32.const 1024)", { more: "(func $spin (loop (br 0))) (start $spin)" }),
  );
  await failsWith(harness.call(spec, null), "deadline", /execution deadline/);
});

Deno.test("bad UTF-8 and unknown discriminants from a guest end the call", async () => {
  await using harness = new Harness();
  const result = (stores: string) => textTool(`${stores} (i32.const 1024)`);
  const text = `(i32.store8 (i32.const 1040) (i32.const 1)) (i32.store (i32.const 1044) (i32.const 2048))
    (i32.store (i32.const 1048) (i32.const 2))`;
  const bad = await harness.spec(await result(`${text} (i32.store16 (i32.const 2048) (i32.const 0x28c3))`));
  await failsWith(harness.call(bad, null), "trap", /encoded data (is|was) not valid/);
  const good = await harness.spec(await result(`${text} (i32.store16 (i32.const 2048) (i32.const 0xa9c3))`));
  assert.equal((await harness.call(good, null)).data, "é");
  const status = await harness.spec(await result(`(i32.store8 (i32.const 1024) (i32.const 3))`));
  await failsWith(harness.call(status, null), "trap", /discriminant/);
  const outside = await harness.spec(await textTool("(i32.const -4)"));
  await failsWith(harness.call(outside, null), "trap", /trapped: /);
});

Deno.test("a guest gone from outside is told apart; the next call pays a new process and nothing else", async () => {
  await using harness = new Harness();
  const spec = await harness.spec(await everythingTool());
  await harness.runtime.warmed();
  const { ended } = await harness.spin(spec);
  for (const pid of harness.runtime.pids) Deno.kill(pid, "SIGKILL");
  await failsWith(ended, "crashed", "tool 'probe' crashed: signal SIGKILL");

  assert.equal(await harness.do(spec, "echo", { value: 1 }), 1);
  // Idle ones die unnoticed: the call that meets them is made again.
  for (let round = 0; round < 5; round++) {
    await harness.runtime.warmed();
    for (const pid of harness.runtime.pids) Deno.kill(pid, "SIGKILL");
    assert.equal(await harness.do(spec, "echo", { value: round }), round);
  }
});

Deno.test("an aborted call ends with its process", async () => {
  await using harness = new Harness();
  const spec = await harness.spec(await everythingTool());
  const abort = new AbortController();
  const { ended } = await harness.spin(spec, abort.signal);
  abort.abort();
  await failsWith(ended, "aborted", "tool 'probe' was aborted");
  await failsWith(harness.do(spec, "echo", { value: 1 }, { signal: abort.signal }), "aborted", /aborted/);
  assert.equal(await harness.do(spec, "echo", { value: 1 }), 1);
});

Deno.test("closing ends everything, also a guest that spins", async () => {
  const harness = new Harness();
  const spec = await harness.spec(await everythingTool());
  const { ended } = await harness.spin(spec);
  const pids = harness.runtime.pids;
  assert.ok(pids.length >= 1);
  await harness[Symbol.asyncDispose]();
  await assert.rejects(ended, ComponentFailure);
  assert.deepEqual(pids.filter(isAlive), []);
  await failsWith(harness.runtime.callTool(spec, { data: null, logPath: null }, {}), "aborted", /aborted/);
  assert.deepEqual(harness.runtime.pids, []);
});

Deno.test("a flood of chunks arrives whole and in order; text and thinking are told apart", async () => {
  await using harness = new Harness();
  const spec = await harness.spec(await everythingTool());
  let count = 0;
  let bytes = 0;
  await harness.do(spec, "chunks", { count: 2_000, size: 5_000 }, {
    emitChunk: (text) => {
      count++;
      bytes += text.length;
    },
  });
  assert.deepEqual([count, bytes], [2_000, 10_000_000]);
  const thoughts: string[] = [];
  await harness.do(spec, "thinking", {}, { emitThinkingChunk: (text) => thoughts.push(text) });
  assert.deepEqual(thoughts, ["hm"]);
  // Nobody listens: the guest goes on.
  await harness.do(spec, "thinking");
});

Deno.test("a flood of output is cut at 1 MiB and counted", async () => {
  await using harness = new Harness();
  const spec = await harness.spec(await everythingTool());
  const lines: [string, string][] = [];
  await harness.do(spec, "print", { count: 3_000, text: "x".repeat(999) + "\n" }, {
    output: (stream, line) => lines.push([stream, line]),
  });
  const passed = lines.filter(([stream]) => stream === "stdout").reduce((sum, [, line]) => sum + line.length + 1, 0);
  assert.ok(passed <= (1 << 20) + 1 && passed > 1_000_000, String(passed));
  const [stream, last] = lines.at(-1)!;
  assert.equal(stream, "stderr");
  assert.match(last, new RegExp(`^\\(${3_000_000 - (1 << 20)} bytes of output`));
  const more: [string, string][] = [];
  await harness.do(spec, "print", { count: 2, text: "a\r\nb", error: true }, { output: (...line) => more.push(line) });
  assert.deepEqual(more, [["stderr", "a"], ["stderr", "ba"], ["stderr", "b"]]);
});

Deno.test("every instance is fresh, and its randomness too", async () => {
  await using harness = new Harness();
  const spec = await harness.spec(await everythingTool());
  assert.deepEqual(await harness.do(spec, "remember", { value: 1 }), [1]);
  assert.deepEqual(await harness.do(spec, "remember", { value: 2 }), [2]);
  const [a, b] = [await harness.do(spec, "random"), await harness.do(spec, "random")];
  assert.notDeepEqual(a, b);
});

Deno.test("a result of megabytes goes over many frames; one beyond 64 MiB is the guest's fault", async () => {
  await using harness = new Harness();
  const spec = await harness.spec(await everythingTool());
  assert.equal((await harness.do(spec, "big", { size: 5_000_000 }) as string).length, 5_000_000);
  const text = "i".repeat(3_000_000);
  assert.equal(await harness.do(spec, "echo", { value: text }), text);
  const huge = await harness.spec(
    await textTool(
      `(i32.store8 (i32.const 1040) (i32.const 1)) (i32.store (i32.const 1044) (i32.const 8192))
      (i32.store (i32.const 1048) (i32.const 70000000))
      (memory.fill (i32.const 8192) (i32.const 32) (i32.const 70000000)) (i32.const 1024)`,
      { memory: "1200" },
    ),
  );
  await failsWith(harness.call(huge, null), "trap", /longer than 67108864/);
});
