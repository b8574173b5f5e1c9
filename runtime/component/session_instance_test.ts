/**
 * Instances that live as long as the session, in processes of their own (spec components 3.2, 3.9).
 *
 * @module
 */
import assert from "node:assert/strict";
import type { JsonValue } from "../../base/json_value.ts";
import { type CallContext, ComponentFailure, type SessionInstance } from "./component_runtime.ts";
import { javascriptGuest } from "./testing/guests.ts";
import { eventually, everythingTool, Harness, hostileHarness, isAlive, LIMITS } from "./testing/harness.ts";

/** A hook whose tool events are commands. */
const SOURCE = `
import * as preopens from "wasi:filesystem/preopens";
import * as stdout from "wasi:cli/stdout";
import * as tokens from "murmur:runtime/tokens";
import * as clock from "wasi:clocks/monotonic-clock@0.1.10";
import * as http from "wasi:http/types";
import * as handler from "wasi:http/outgoing-handler";
import * as io from "wasi:io/poll@0.1.10";
const none = () => ({ tag: "none" });
let count = 0, file = null, held = [];
const commands = {
  count: () => ++count,
  open: () => {
    const [[root]] = preopens.getDirectories();
    file = root.openAt({}, "log", { create: true }, { write: true });
    return "opened";
  },
  append: () => file.write(new Uint8Array([65 + count++]), count - 1),
  print: () => { const out = stdout.getStdout(); for (let i = 0; i < 20; i++) out.blockingWriteAndFlush(new Uint8Array(4096).fill(120)); },
  tokens: () => tokens.count("x"),
  grow: () => { try { for (;;) held.push(new Uint8Array(8 << 20).fill(1)); } catch { held = []; return "survived"; } },
  spin: () => { for (;;); },
  ask: () => {
    const request = new http.OutgoingRequest(new http.Fields());
    request.setAuthority("host.example");
    request.setPathWithQuery("/");
    const future = handler.handle(request, null);
    const [answer, late] = [future.subscribe(), clock.subscribeDuration(500e6)];
    const first = io.poll([answer, late])[0];
    for (const each of [answer, late, future]) each[Symbol.dispose]();
    return first;
  },
  wait: () => {
    const late = clock.subscribeDuration(1000e6);
    late.block();
    late[Symbol.dispose]();
    return "waited";
  },
  bad: () => { throw { not: "a string" }; },
  shape: () => null,
};
export const lifecycle = {
  onStage: none, onSessionStart: none, onTaskStart: none, onInference: none, onShell: none, onCompaction: none,
  onTaskEnd: none, onSessionEnd: none,
  onToolCall(event) {
    if (event.input === "shape") return { tag: "unheard-of" };
    return { tag: "deny", val: String(commands[event.input]()) };
  },
};`;

let guest: Promise<Uint8Array<ArrayBuffer>> | undefined;

const event = (input: string): JsonValue => ({ turn: 0, toolName: "t", inputBytes: 0, input, outcome: null });

async function open(
  harness: Harness,
  changes: Parameters<Harness["spec"]>[1] = {},
  context: CallContext = {},
): Promise<{ readonly instance: SessionInstance; readonly do: (command: string) => Promise<unknown> }> {
  const spec = await harness.spec(await (guest ??= javascriptGuest("hook", SOURCE)), {
    name: "h",
    role: "hook",
    ...changes,
  });
  const instance = await harness.runtime.openInstance(spec, context);
  return {
    instance,
    do: async (command) => {
      const { ok } = await instance.call("onToolCall", event(command), context) as { ok: { val: string } };
      return ok.val;
    },
  };
}

const failed = (work: Promise<unknown>) =>
  work.then(() => assert.fail("it gave an answer"), (error) => {
    assert.ok(error instanceof ComponentFailure, String(error));
    return error;
  });

Deno.test("variables, open files and the pipe live from call to call; output is bounded per call", async () => {
  await using harness = new Harness();
  let printed = 0;
  const context: CallContext = {
    output: (_stream, line) => void (printed += line.length),
    hookImport: (name) => Promise.resolve(name === "count-tokens" ? 7 : undefined),
  };
  const hook = await open(harness, { preopens: [harness.preopen(".")] }, context);
  assert.deepEqual([...hook.instance.functions].sort().slice(0, 3), ["onCompaction", "onInference", "onSessionEnd"]);
  assert.equal(await hook.do("count"), "1");
  assert.equal(await hook.do("count"), "2");
  assert.equal(await hook.do("open"), "opened");
  await hook.do("append");
  await hook.do("append");
  assert.deepEqual([...Deno.readFileSync(`${harness.work}/log`)].slice(-2), [67, 68]);
  assert.equal(await hook.do("tokens"), "7");
  for (let i = 0; i < 20; i++) await hook.do("print");
  assert.equal(printed, 20 * 20 * 4_096);
  hook.instance.close();
});

Deno.test("a timer that a call left running is no timer of the next one", async () => {
  await using harness = new Harness();
  const hook = await open(harness, { limits: { ...LIMITS, deadlineSeconds: 15 } });
  // The refusal of the request comes before the timer runs out.
  assert.equal(await hook.do("ask"), "0");
  assert.equal(await hook.do("wait"), "waited");
});

Deno.test("its process serves nothing else, stays while the rest is let go, and ends when it is closed", async () => {
  await using harness = new Harness({ bounds: { componentIdle: 50 } });
  await harness.runtime.warmed();
  const before = new Set(harness.runtime.pids);
  const hook = await open(harness);
  const [own] = harness.runtime.pids.filter((pid) => !before.has(pid));
  assert.ok(own !== undefined);
  const tool = await harness.spec(await everythingTool());
  await Promise.all([1, 2, 3].map(() => harness.do(tool, "environment")));
  harness.runtime.letGoWhenIdle();
  await eventually(() => harness.runtime.pids.length === 1);
  assert.deepEqual(harness.runtime.pids, [own]);
  // The code of tools was put away meanwhile.
  await harness.do(tool, "environment");
  assert.equal(await hook.do("count"), "1");
  hook.instance.close();
  await eventually(() => !isAlive(own));
  assert.ok(hook.instance.lost);
});

Deno.test("two hooks of one component share no process and no state", async () => {
  await using harness = new Harness();
  const [first, second] = await Promise.all([open(harness), open(harness)]);
  await first.do("count");
  assert.equal(await first.do("count"), "2");
  assert.equal(await second.do("count"), "1");
  await failed(first.do("bad"));
  assert.equal(await second.do("count"), "2");
});

Deno.test("a deadline, a trap, an answer of no type and a kill from outside lose it for good", async () => {
  await using harness = new Harness();
  for (
    const [command, kind, text] of [
      ["spin", "deadline", /^hook 'h' on-tool-call exceeded its 1s execution deadline/],
      ["shape", "trap", /^hook 'h' on-tool-call trapped: /],
      ["bad", "trap", /^hook 'h' on-tool-call trapped: /],
    ] as const
  ) {
    const hook = await open(harness, { limits: { ...LIMITS, deadlineSeconds: 1 } });
    const failure = await failed(hook.do(command));
    assert.equal(failure.kind, kind, command);
    assert.match(failure.message, text);
    assert.ok(hook.instance.lost);
    assert.equal((await failed(hook.do("count"))).kind, "crashed");
  }
  const before = new Set(harness.runtime.pids);
  const hook = await open(harness);
  for (const pid of harness.runtime.pids) if (!before.has(pid)) Deno.kill(pid, "SIGKILL");
  await eventually(() => hook.instance.lost);
  assert.equal((await failed(hook.do("count"))).kind, "crashed");
});

Deno.test("growth that a call survived is not held against the next one", async () => {
  await using harness = new Harness();
  const hook = await open(harness, { limits: { ...LIMITS, memoryBytes: 64 << 20 } });
  assert.equal(await hook.do("grow"), "survived");
  assert.equal((await failed(hook.do("shape"))).kind, "trap");
});

Deno.test("a component of another role is no hook", async () => {
  await using harness = new Harness();
  const spec = await harness.spec(await everythingTool(), { role: "hook", name: "h" });
  const failure = await failed(harness.runtime.openInstance(spec, {}));
  assert.equal(failure.kind, "missing-export");
  assert.match(failure.message, /hook 'h' does not export 'murmur:hook\/lifecycle@0\.9\.0'/);
  const tool = await harness.spec(await (guest ??= javascriptGuest("hook", SOURCE)), { name: "t" });
  assert.equal((await failed(harness.call(tool, {}))).kind, "missing-export");
});

for (
  const behaviour of [
    "hook-list-of-numbers",
    "hook-no-list",
    "hook-answers-unentered",
    "hook-answers-unasked",
    "hook-answers-twice",
    "hook-asks-unknown",
    "hook-no-json",
    "hook-dies",
  ]
) {
  Deno.test(`a host that does not keep to the protocol decides nothing: ${behaviour}`, async () => {
    await using harness = hostileHarness(behaviour);
    const spec = await harness.spec(await (guest ??= javascriptGuest("hook", SOURCE)), { name: "h", role: "hook" });
    const context: CallContext = { hookImport: () => Promise.resolve(undefined) };
    const answers: unknown[] = [];
    const end = await (async () => {
      const instance = await harness.runtime.openInstance(spec, context);
      for (let i = 0; i < 3; i++) {
        answers.push(await instance.call("onToolCall", event("x"), context));
        // What it sends unasked has time to arrive.
        await new Promise((resolve) => setTimeout(resolve, 100));
      }
    })().catch((error: unknown) => error);
    assert.ok(end instanceof ComponentFailure, String(end));
    assert.equal(end.kind, "crashed", end.message);
    assert.ok(!JSON.stringify(answers).includes("none"), JSON.stringify(answers));
  });
}
