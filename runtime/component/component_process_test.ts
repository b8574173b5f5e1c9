import assert from "node:assert/strict";
import { MurError } from "../../base/errors.ts";
import { type CallContext, ComponentFailure } from "./component_runtime.ts";
import { textTool } from "./testing/guests.ts";
import { eventually, Harness, hostileHarness, isAlive } from "./testing/harness.ts";

let tool: Promise<Uint8Array<ArrayBuffer>> | undefined;

async function callOf(harness: Harness, context: CallContext = {}): Promise<unknown> {
  const spec = await harness.spec(await (tool ??= textTool("(i32.const 1024)")));
  return await harness.call(spec, null, context).catch((error: unknown) => error);
}

const VIOLATIONS = [
  ...["unknown-type", "runtime-type", "garbage", "huge-frame", "huge-message", "second-greeting"],
  ...["result-before-entry", "second-entry", "unknown-end", "unknown-status", "result-no-json", "negative-count"],
  ...["bad-utf8-chunk", "unknown-request", "unknown-file-request", "two-requests", "old-id", "foreign-handle"],
  ...["input-of-a-tool", "unknown-stream"],
];

for (const behaviour of VIOLATIONS) {
  Deno.test(`a host that breaks the protocol is killed: ${behaviour}`, async () => {
    await using harness = hostileHarness(behaviour);
    let chunks = 0;
    const context: CallContext = {
      emitChunk: () => chunks++,
      requestInput: () => new Promise(() => {}),
    };
    const end = await callOf(harness, context);
    assert.ok(end instanceof ComponentFailure, JSON.stringify(end));
    assert.equal(end.kind, "crashed", end.message);
    assert.match(end.message, /^tool 'probe' crashed: it broke the protocol \(/);
    assert.equal(chunks, 0);
  });
}

Deno.test("a host that asks for files and reads no answer is killed before they fill the runtime's memory", async () => {
  await using harness = hostileHarness("unread-answers");
  Deno.writeFileSync(`${harness.work}/big`, new Uint8Array(1 << 19));
  const spec = await harness.spec(await (tool ??= textTool("(i32.const 1024)")), { preopens: [harness.preopen(".")] });
  const before = Deno.memoryUsage().rss;
  const end = await harness.call(spec, null).catch((error: unknown) => error);
  assert.ok(end instanceof ComponentFailure, JSON.stringify(end));
  assert.match(end.message, /broke the protocol \(it does not read its answers\)/);
  assert.ok(Deno.memoryUsage().rss - before < 1 << 30, String(Deno.memoryUsage().rss - before));
});

Deno.test("an orderly host of another program is as good", async () => {
  await using harness = hostileHarness("orderly");
  assert.equal((await callOf(harness) as { status: string }).status, "passed");
});

Deno.test("a host that ends by itself is told apart by how", async () => {
  await using harness = hostileHarness("exit");
  const end = await callOf(harness);
  assert.ok(end instanceof ComponentFailure);
  assert.equal(end.message, "tool 'probe' crashed: exit code 3");
});

Deno.test("a host that closes its output and stays is killed", async () => {
  const greeting = String.raw`\011\000\000\000\100\000\000\000\000\000\000\000\000`;
  await using harness = new Harness({
    startOverride: (memoryBytes) => ({
      command: "/bin/sh",
      args: ["-c", `printf '${greeting}'; exec sleep 1000 >&- 2>&-`],
      env: { PATH: "/usr/bin:/bin" },
      preamble: null,
      memoryBytes,
    }),
  });
  await harness.runtime.warmed();
  const pids = harness.runtime.pids;
  const end = await callOf(harness);
  assert.ok(end instanceof ComponentFailure);
  assert.equal(end.kind, "crashed");
  await eventually(() => !pids.some(isAlive));
});

Deno.test("a host that never greets is given up", async () => {
  await using harness = hostileHarness("silent", 1_500);
  const end = await callOf(harness);
  assert.ok(end instanceof ComponentFailure);
  assert.equal(end.message, "tool 'probe' crashed: the host process did not start");
  await eventually(() => harness.runtime.pids.every(isAlive));
});

Deno.test("a host that speaks before or after its call is killed, and not used again", async () => {
  await using early = hostileHarness("early-frame");
  const [first] = early.runtime.pids;
  await eventually(() => !isAlive(first!));

  await using late = hostileHarness("frame-after-result");
  // The one that serves the call; soon after, another one is there in its place.
  const [pid] = late.runtime.pids;
  const chunks: string[] = [];
  assert.equal((await callOf(late, { emitChunk: (text) => chunks.push(text) }) as { status: string }).status, "passed");
  await eventually(() => !isAlive(pid!));
  assert.deepEqual(chunks, []);
});

Deno.test("a host that does not bound its guest's output is bounded here", async () => {
  await using harness = hostileHarness("output-flood");
  let bytes = 0;
  const lines: string[] = [];
  await callOf(harness, {
    output: (_, line) => {
      bytes += line.length;
      lines.push(line);
    },
  });
  assert.ok(bytes <= (1 << 20) + 200, String(bytes));
  assert.match(lines.at(-1)!, new RegExp(`^\\(${10_000_000 - (1 << 20)} bytes`));
});

Deno.test("a host that can't be started is an error of the launch, and later of the call", async () => {
  const start = (memoryBytes: number) => ({
    command: "/nonexistent/deno",
    args: [],
    env: {},
    preamble: null,
    memoryBytes,
  });
  assert.throws(
    () => new Harness({ startOverride: start }),
    (error: unknown) =>
      error instanceof MurError && error.code === "E-RUN-001" && /can't be started/.test(error.message),
  );
  let broken = false;
  await using harness = new Harness({
    startOverride: (memoryBytes) =>
      broken ? start(memoryBytes) : { ...start(memoryBytes), command: "/bin/sh", args: ["-c", "exit 1"] },
  });
  broken = true;
  const end = await callOf(harness);
  assert.ok(end instanceof ComponentFailure);
  assert.equal(end.kind, "crashed");
  assert.match(end.message, /can't be started/);
});
