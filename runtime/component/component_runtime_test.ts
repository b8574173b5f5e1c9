import assert from "node:assert/strict";
import { MurError } from "../../base/errors.ts";
import type { CallContext, ToolInput, ToolResult } from "./component_runtime.ts";
import { ComponentFailure } from "./component_runtime.ts";
import { javascriptGuest, textGuest, textTool } from "./testing/guests.ts";
import { eventually, everythingTool, Harness, isAlive, LIMITS } from "./testing/harness.ts";

Deno.test("a tool answers, and sees its environment, its clock and nothing else", async () => {
  await using harness = new Harness();
  const spec = await harness.spec(await everythingTool(), { environment: { MURMUR_SESSION_ID: "ses_1", EMPTY: "" } });
  const result = await harness.call(spec, { op: "echo", value: { text: "grüße 😀", list: [1, null] } });
  assert.deepEqual(result, {
    status: "passed",
    summary: null,
    data: JSON.stringify({ text: "grüße 😀", list: [1, null] }),
    dataPath: null,
    truncated: false,
    metadata: [["op", "echo"]],
  });
  assert.deepEqual(await harness.do(spec, "environment"), [["MURMUR_SESSION_ID", "ses_1"], ["EMPTY", ""]]);
  assert.deepEqual(await harness.do(spec, "preopens"), []);
  assert.deepEqual(await harness.do(spec, "input"), { error: "closed" });
  const slept = await harness.do(spec, "sleep", { ms: 60 }) as number;
  assert.ok(slept >= 59 && slept < 5_000, String(slept));
  assert.deepEqual(await harness.do(spec, "pollTwo", { ms: 30 }), [1]);
});

Deno.test("what is no component, or does not translate, is refused with its reason", async () => {
  await using harness = new Harness();
  const refuse = async (bytes: Uint8Array, message: RegExp) => {
    const error = await harness.runtime.compile(bytes, "tool 'x'").then(() => null, (error: unknown) => error);
    assert.ok(error instanceof MurError, String(error));
    assert.equal(error.code, "E-RUN-001");
    assert.match(error.message, message);
  };
  await refuse(new TextEncoder().encode("#!/bin/sh\n"), /^tool 'x' is not a WebAssembly component$/);
  await refuse(new Uint8Array(0), /is not a WebAssembly component$/);
  await refuse(new Uint8Array([0, 0x61, 0x73, 0x6d, 1, 0, 0, 0]), /is a core WebAssembly module, not a component$/);
  const good = await textTool("(i32.const 1024)");
  await refuse(good.slice(0, good.length >> 1), /^tool 'x' does not compile: /);
  const broken = good.slice();
  broken.fill(0xff, 200, 260);
  await refuse(broken, /^tool 'x' does not compile: /);
});

Deno.test("a function imported outside any interface is refused with its name", async () => {
  await using harness = new Harness();
  const bytes = await textGuest({
    world: "world tool { import now: func(); export murmur:tool/run@0.1.0; }",
    module: `(module (import "$root" "now" (func $now)) (memory (export "memory") 1)
      (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) i32.const 0)
      (func (export "murmur:tool/run@0.1.0#run") (param i32 i32 i32 i32 i32 i32) (result i32) call $now i32.const 0))`,
  });
  const error = await harness.runtime.compile(bytes, "tool 'x'").then(() => null, (error: unknown) => error);
  assert.ok(error instanceof MurError, String(error));
  assert.equal(error.code, "E-RUN-002", error.message);
  assert.match(error.message, /imports 'now', which the runtime does not serve/);
  assert.match(error.hint!, /rebuild tool 'x'/);
});

Deno.test("versions of murmur interfaces match as text, those of WASI as semantic versions", async () => {
  await using harness = new Harness();
  const rename = (bytes: Uint8Array, from: string, to: string) => {
    assert.equal(from.length, to.length);
    const text = Array.from(bytes, (byte) => String.fromCharCode(byte)).join("").replaceAll(from, to);
    return Uint8Array.from(text, (char) => char.charCodeAt(0));
  };
  const chunks = await textTool("(call $emit (i32.const 0) (i32.const 0)) (i32.const 1024)", {
    imports: ["murmur:text/chunks@0.1.0"],
    declarations: `(import "murmur:text/chunks@0.1.0" "emit-chunk" (func $emit (param i32 i32)))`,
  });
  await harness.runtime.compile(chunks, "tool 'x'");
  const refused = async (to: string, message: RegExp) => {
    const error = await harness.runtime.compile(rename(chunks, "murmur:text/chunks@0.1.0", to), "tool 'x'")
      .then(() => null, (error: unknown) => error);
    assert.ok(error instanceof MurError && error.code === "E-RUN-002", String(error));
    assert.match(error.message, message);
  };
  await refused("murmur:text/chunks@0.1.1", /imports 'murmur:text\/chunks@0\.1\.1', the runtime serves .*@0\.1\.0'/);
  await refused("murmur:text/chunkz@0.1.0", /imports 'murmur:text\/chunkz@0\.1\.0', which the runtime does not serve/);
  await refused("murmur:tex2/chunks@0.1.0", /which the runtime does not serve/);

  const clock = await textTool("(drop (call $now)) (i32.const 1024)", {
    imports: ["wasi:clocks/monotonic-clock@0.2.10"],
    declarations: `(import "wasi:clocks/monotonic-clock@0.2.10" "now" (func $now (result i64)))`,
  });
  for (const version of ["0.2.10", "0.2.99"]) {
    const spec = await harness.spec(rename(clock, "clock@0.2.10", `clock@${version}`));
    assert.equal((await harness.call(spec, null)).status, "passed");
  }
  await assert.rejects(
    harness.runtime.compile(rename(clock, "clock@0.2.10", "clock@0.3.10"), "tool 'x'"),
    /imports 'wasi:clocks\/monotonic-clock@0\.3\.10', which the runtime does not serve/,
  );
});

Deno.test("a component without the export of its role, or with an import of another role, is not called", async () => {
  await using harness = new Harness();
  const tool = await textTool("(i32.const 1024)");
  const asCapsule = await harness.spec(tool, { role: "capsule" });
  await assert.rejects(harness.runtime.runCapsule(asCapsule, {}), (error: unknown) => {
    assert.ok(error instanceof ComponentFailure);
    assert.equal(error.kind, "missing-export");
    assert.match(error.message, /capsule 'probe' does not export 'murmur:capsule\/run@0\.1\.0#run'; rebuild/);
    return true;
  });
  const invokes = await harness.spec(
    await textTool("(i32.const 1024)", {
      imports: ["murmur:tool-registry/invoke@0.1.0"],
      declarations: `(import "murmur:tool-registry/invoke@0.1.0" "invoke"
        (func (param i32 i32 i32 i32 i32 i32 i32 i32 i32)))`,
    }),
  );
  await assert.rejects(harness.call(invokes, null), (error: unknown) => {
    assert.ok(error instanceof ComponentFailure);
    assert.equal(error.kind, "missing-import");
    assert.match(error.message, /imports 'murmur:tool-registry\/invoke@0\.1\.0', which a tool is not given/);
    return true;
  });
});

const CAPSULE = `
import registry from "murmur:tool-registry/invoke@0.1.0";
import stdin from "wasi:cli/stdin@0.2.10";
import stdout from "wasi:cli/stdout@0.2.10";
const bytesOf = (text) => Uint8Array.from(text, (char) => char.charCodeAt(0));
export const run = { run() {
  const out = stdout.getStdout();
  const say = (text) => out.blockingWriteAndFlush(bytesOf(text + "\\n"));
  const input = stdin.getStdin();
  let text = "";
  for (;;) {
    try { text += String.fromCharCode(...input.blockingRead(4)); } catch { break; }
  }
  say("read " + text);
  for (const name of ["everything", "unknown"]) {
    try {
      const result = registry.invoke(name, { data: JSON.stringify({ op: "echo", value: text }), logPath: null });
      say(name + " " + result.status + " " + result.data + " " + JSON.stringify(result.metadata));
    } catch (error) {
      say(name + " failed: " + error.payload);
    }
  }
  if (text === "fail") throw new Error("asked to");
} };`;

Deno.test("a script capsule reads its input, invokes tools and writes; its calls nest", async () => {
  await using harness = new Harness();
  const capsule = await harness.spec(await javascriptGuest("capsule", CAPSULE), { role: "capsule", name: "script" });
  const tool = await harness.spec(await everythingTool(), { name: "everything" });
  const lines: string[] = [];
  const context = (input: string): CallContext => {
    const parts = [...input];
    return {
      output: (stream, line) => lines.push(`${stream}: ${line}`),
      readStdin: () => Promise.resolve(parts.length > 0 ? new TextEncoder().encode(parts.shift()!) : null),
      invoke: (name: string, input: ToolInput): Promise<ToolResult> =>
        name === "everything"
          ? harness.runtime.callTool(tool, input, {})
          : Promise.reject(`tool '${name}' is not declared in manifest allowlist`),
    };
  };
  await harness.runtime.runCapsule(capsule, context("abc"));
  assert.deepEqual(lines, [
    "stdout: read abc",
    'stdout: everything passed "abc" [["op","echo"]]',
    "stdout: unknown failed: tool 'unknown' is not declared in manifest allowlist",
  ]);
  await assert.rejects(harness.runtime.runCapsule(capsule, context("fail")), (error: unknown) => {
    assert.ok(error instanceof ComponentFailure);
    assert.equal(error.kind, "trap");
    assert.match(error.message, /^capsule execution trapped: /);
    return true;
  });
  const spins = await harness.spec(
    await javascriptGuest("capsule", "export const run = { run() { for (;;); } };"),
    { role: "capsule", limits: { ...LIMITS, deadlineSeconds: 0.3 } },
  );
  await assert.rejects(
    harness.runtime.runCapsule(spins, {}),
    /^ComponentFailure: capsule execution exceeded its 0\.3s deadline and was interrupted/,
  );
});

Deno.test("calls run beside each other, each in a process of its own", async () => {
  await using harness = new Harness();
  const spec = await harness.spec(await everythingTool());
  const from = performance.now();
  const slept = await Promise.all(Array.from({ length: 5 }, () => harness.do(spec, "sleep", { ms: 1_000 })));
  assert.equal(slept.length, 5);
  assert.ok(performance.now() - from < 4_500, `${performance.now() - from} ms`);
  assert.ok(harness.runtime.pids.length >= 5);
});

Deno.test("artifacts that don't share keep their processes to themselves; others take turns in one", async () => {
  await using harness = new Harness();
  const bytes = await everythingTool();
  /** The processes before and during a call of an artifact that was called before. */
  const processesOf = async (name: string, sharesProcess: boolean) => {
    const spec = await harness.spec(bytes, { name, sharesProcess });
    await harness.do(spec, "echo", { value: 1 });
    await harness.runtime.warmed();
    const before = harness.runtime.pids;
    const running = harness.do(spec, "sleep", { ms: 100 });
    const during = harness.runtime.pids;
    await running;
    return { before, during };
  };
  const first = await processesOf("a", true);
  assert.equal(first.during.length, first.before.length, "the second call of an artifact needs no new process");
  const shared = await processesOf("b", true);
  assert.deepEqual(shared.before, first.before, "another that shares needs none either");
  const alone = await processesOf("c", false);
  assert.equal(alone.before.length, first.before.length + 1, "one that does not share gets its own");
  const again = await processesOf("c", false);
  assert.deepEqual(again.before, alone.before, "and keeps it");
  const other = await processesOf("d", false);
  assert.equal(other.before.length, alone.before.length + 1);
});

Deno.test("the next reserve is begun some time after a call, and at once for whoever waits for it", async () => {
  await using harness = new Harness({ bounds: { componentReserve: 1_000 } });
  const spec = await harness.spec(await everythingTool());
  const { runtime } = harness;
  await harness.do(spec, "echo", { value: 1 });
  const begun = performance.now();
  const [first] = runtime.pids;
  await harness.do(spec, "echo", { value: 2 });
  assert.deepEqual(runtime.pids, [first], "the one that is left takes the next call");
  await eventually(() => runtime.pids.length === 2);
  assert.ok(performance.now() - begun >= 900);
  await using other = new Harness({ bounds: { componentReserve: 60_000 } });
  await other.do(await other.spec(await everythingTool()), "echo", { value: 1 });
  assert.equal(other.runtime.pids.length, 1);
  await other.runtime.warmed();
  assert.equal(other.runtime.pids.length, 2);
});

Deno.test("the next reserve is begun at once when a call has left no process", async () => {
  await using harness = new Harness({ bounds: { componentReserve: 60_000 } });
  const spec = await harness.spec(await everythingTool(), { limits: { ...LIMITS, deadlineSeconds: 1 } });
  const [first] = harness.runtime.pids;
  await assert.rejects(harness.do(spec, "sleep", { ms: 60_000 }));
  await eventually(() => harness.runtime.pids.length === 1 && harness.runtime.pids[0] !== first);
});

Deno.test("idle processes are let go, the reserve last; the next call starts one", async () => {
  // Long enough that none is let go while the others are still being started on a busy machine.
  await using harness = new Harness({ bounds: { componentIdle: 2_000 } });
  const spec = await harness.spec(await everythingTool());
  await Promise.all([1, 2, 3].map((value) => harness.do(spec, "echo", { value })));
  await harness.runtime.warmed();
  assert.ok(harness.runtime.pids.length >= 3);
  const pids = harness.runtime.pids;
  await eventually(() => harness.runtime.pids.length === 0);
  await eventually(() => pids.filter(isAlive).length === 0);
  assert.equal(await harness.do(spec, "echo", { value: 4 }), 4);
});

Deno.test("calls around the moment everything is let go find their code", async () => {
  await using harness = new Harness({ bounds: { componentIdle: 60 } });
  const spec = await harness.spec(await everythingTool());
  for (let value = 0; value < 12; value++) {
    assert.equal(await harness.do(spec, "echo", { value }), value);
    await new Promise((resolve) => setTimeout(resolve, 50 + value * 5));
  }
});

Deno.test("a translation changed while the session slept is not run", async () => {
  const compiledDirectory = Deno.makeTempDirSync({ prefix: "murmur-compiled-" });
  try {
    await using harness = new Harness({
      bounds: { componentIdle: 50 },
      compiledDirectory,
    });
    const spec = await harness.spec(await textTool("(i32.const 1024)"));
    harness.runtime.letGoWhenIdle();
    await eventually(() => harness.runtime.pids.length === 0);
    for (const { name } of Deno.readDirSync(compiledDirectory)) Deno.truncateSync(`${compiledDirectory}/${name}`, 100);
    await assert.rejects(
      () => harness.call(spec, {}),
      (error: unknown) =>
        error instanceof ComponentFailure && error.kind === "crashed" &&
        error.message === "tool 'probe' crashed: its translation was changed while the session slept",
    );
  } finally {
    Deno.removeSync(compiledDirectory, { recursive: true });
  }
});

Deno.test("a reserve that no call needed is let go once the launch is over, and not while a call runs", async () => {
  await using harness = new Harness({ bounds: { componentIdle: 300 } });
  const spec = await harness.spec(await everythingTool());
  const running = harness.do(spec, "sleep", { ms: 700 });
  harness.runtime.letGoWhenIdle();
  await running;
  assert.ok(harness.runtime.pids.length > 0);
  await eventually(() => harness.runtime.pids.length === 0);
  await using unused = new Harness({ bounds: { componentIdle: 300 } });
  assert.equal(unused.runtime.pids.length, 1);
  unused.runtime.letGoWhenIdle();
  await eventually(() => unused.runtime.pids.length === 0);
});

Deno.test("the host process has no permission, no environment and no file of its own", async () => {
  await using harness = new Harness();
  await harness.runtime.warmed();
  const [pid] = harness.runtime.pids;
  const environment = Deno.readTextFileSync(`/proc/${pid}/environ`).split("\0").filter((entry) => entry !== "");
  assert.deepEqual(environment.map((entry) => entry.split("=")[0]).sort(), [
    "DENO_DIR",
    "DENO_NO_PROMPT",
    "DENO_NO_UPDATE_CHECK",
    "NO_COLOR",
  ]);
  const command = Deno.readTextFileSync(`/proc/${pid}/cmdline`).split("\0");
  assert.deepEqual(command.filter((argument) => argument.startsWith("--allow") || argument === "-A"), []);
  assert.ok(command.includes("--deny-import"));
});

Deno.test("socket interfaces link, every socket and every lookup is refused", async () => {
  await using harness = new Harness();
  const bytes = await textGuest({
    world: `world tool {
      import wasi:sockets/instance-network@0.2.10;
      import wasi:sockets/ip-name-lookup@0.2.10;
      import wasi:sockets/tcp-create-socket@0.2.10;
      export murmur:tool/run@0.1.0;
    }
    package wasi:sockets@0.2.10 {
      interface network {
        resource network;
        enum error-code { unknown, access-denied, not-supported }
        enum ip-address-family { ipv4, ipv6 }
      }
      interface instance-network { use network.{network}; instance-network: func() -> network; }
      interface ip-name-lookup {
        use network.{network, error-code};
        resource resolve-address-stream { }
        resolve-addresses: func(network: borrow<network>, name: string)
          -> result<resolve-address-stream, error-code>;
      }
      interface tcp { resource tcp-socket { } }
      interface tcp-create-socket {
        use network.{error-code, ip-address-family};
        use tcp.{tcp-socket};
        create-tcp-socket: func(address-family: ip-address-family) -> result<tcp-socket, error-code>;
      }
    }`,
    module: `(module
      (import "wasi:sockets/instance-network@0.2.10" "instance-network" (func $network (result i32)))
      (import "wasi:sockets/ip-name-lookup@0.2.10" "resolve-addresses" (func $resolve (param i32 i32 i32 i32)))
      (import "wasi:sockets/tcp-create-socket@0.2.10" "create-tcp-socket" (func $tcp (param i32 i32)))
      (memory (export "memory") 1)
      (data (i32.const 0) "localhost")
      (func $denied
        (if (i32.ne (i32.load8_u (i32.const 64)) (i32.const 1)) (then unreachable))
        (if (i32.ne (i32.load8_u (i32.const 68)) (i32.const 1)) (then unreachable)))
      (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) i32.const 0)
      (func (export "murmur:tool/run@0.1.0#run") (param i32 i32 i32 i32 i32 i32) (result i32)
        (call $resolve (call $network) (i32.const 0) (i32.const 9) (i32.const 64))
        (call $denied)
        (i64.store (i32.const 64) (i64.const 0))
        (call $tcp (i32.const 0) (i32.const 64))
        (call $denied)
        (i32.const 1024)))`,
  });
  assert.equal((await harness.call(await harness.spec(bytes), null)).status, "passed");
});
