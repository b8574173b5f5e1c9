/**
 * A call of a WASM tool through the whole dispatch path (host process without permissions, frames, a fresh instance) against
 * the same component instantiated and called bare in one process; what a kill costs the next call; memory.
 *
 * @module
 */
import { checkoutHelper } from "../sandbox/confine_helper.ts";
import { loadComponent, type LoadedComponent } from "../runtime/component/host/instance.ts";
import { InputStream, IoError, OutputStream, poll, Pollable } from "../runtime/component/host/streams.ts";
import { Descriptor, DirectoryEntryStream } from "../runtime/component/host/filesystem.ts";
import * as http from "../runtime/component/host/http.ts";
import { systemInterfaces } from "../runtime/component/host/system.ts";
import type { Pipe } from "../runtime/component/host/pipe.ts";
import { componentHostScript } from "../runtime/component/host_program.ts";
import { residentBytes } from "../runtime/component/resident_memory.ts";
import { javascriptGuest } from "../runtime/component/testing/guests.ts";
import { everythingTool, Harness } from "../runtime/component/testing/harness.ts";
import { translate } from "../runtime/component/translate.ts";
import { type BenchResult, median } from "./result.ts";

const ROUNDS = 200;
const BLOCK = 20;
const KILLS = 12;
/** A hook that has nothing to say. */
const HOOK = `const none = () => ({ tag: "none" });
export const lifecycle = {
  onStage: none, onSessionStart: none, onTaskStart: none, onInference: none, onToolCall: none, onShell: none,
  onCompaction: none, onTaskEnd: none, onSessionEnd: none,
};`;
const EVENT = { turn: 0, toolName: "t", inputBytes: 500, input: "x".repeat(500), outcome: null };
const INPUT = { op: "echo", value: "x".repeat(500) };

async function timed(work: () => unknown): Promise<number> {
  const from = performance.now();
  await work();
  return performance.now() - from;
}

/** Instantiates and calls in this process, with the host's own WASI and nothing between. */
function bareCall(component: LoadedComponent): void {
  const nothing = {} as Pipe;
  const exports = component.instantiate(
    (name) => component.modules.get(name)!,
    {
      ...systemInterfaces(nothing, { environment: [], ownsStdio: false }, { sent: 0, dropped: 0 }),
      "murmur:text/chunks": { emitChunk() {}, emitThinkingChunk() {} },
      "murmur:task/task": { requestInput: () => "" },
      "wasi:io/error": { Error: IoError },
      "wasi:io/poll": { Pollable, poll },
      "wasi:io/streams": { InputStream, OutputStream },
      "wasi:filesystem/types": { Descriptor, DirectoryEntryStream, filesystemErrorCode: () => undefined },
      "wasi:filesystem/preopens": { getDirectories: () => [] },
      "wasi:http/types": http,
      "wasi:http/outgoing-handler": { handle: http.handle },
    },
    (module, imports) => new WebAssembly.Instance(module, imports ?? {}),
  );
  exports["murmur:tool/run@0.1.0"]!.run!({ data: JSON.stringify(INPUT), logPath: undefined });
}

export async function run(): Promise<BenchResult> {
  const bytes = await everythingTool();
  const translation = await translate(bytes);
  const modules = new Map(translation.modules.map(({ name, bytes }) => [name, new WebAssembly.Module(bytes)]));
  const bare = loadComponent(new TextDecoder().decode(translation.glue), modules);
  const [confineHelper, hostScript] = await Promise.all([checkoutHelper(), componentHostScript()]);

  await using harness = new Harness({ confineHelper, hostScript });
  const spec = await harness.spec(bytes);
  const call = () => harness.call(spec, INPUT);

  const fresh: number[] = [];
  for (let round = 0; round < 5; round++) {
    await using other = new Harness({ confineHelper, hostScript });
    const otherSpec = await other.spec(bytes);
    await other.runtime.warmed();
    for (const pid of other.runtime.pids) Deno.kill(pid, "SIGKILL");
    fresh.push(await timed(() => other.call(otherSpec, INPUT)));
  }

  for (let round = 0; round < 30; round++) {
    await call();
    bareCall(bare);
  }
  const hookSpec = await harness.spec(await javascriptGuest("hook", HOOK), { name: "hook", role: "hook" });
  const hook = await harness.runtime.openInstance(hookSpec, {});
  const event = () => hook.call("onToolCall", EVENT, {});
  for (let round = 0; round < 30; round++) await event();
  await harness.runtime.warmed();
  const told: number[] = [];
  const dispatched: number[] = [];
  const bared: number[] = [];
  // A block of each in turn, so that what else runs on the machine meets both alike.
  for (let round = 0; round < ROUNDS; round += BLOCK) {
    for (let i = 0; i < BLOCK; i++) dispatched.push(await timed(call));
    for (let i = 0; i < BLOCK; i++) told.push(await timed(event));
    for (let i = 0; i < BLOCK; i++) bared.push(await timed(() => bareCall(bare)));
  }

  hook.close();

  const afterKill: number[] = [];
  for (let round = 0; round < KILLS; round++) {
    await harness.runtime.warmed();
    await harness.call(spec, { op: "fail" }).catch(() => {});
    afterKill.push(await timed(call));
    for (let i = 0; i < 3; i++) await call();
  }
  await harness.runtime.warmed();
  const resident = harness.runtime.pids.map((pid) => (residentBytes(pid) ?? 0) / 1024 / 1024);
  const warm = median(dispatched);
  return {
    name: `component call (QuickJS tool, fresh instance a call, ${ROUNDS} rounds)`,
    figures: [
      { what: "bare instantiate and call in one process", value: median(bared), unit: "ms" },
      { what: "whole dispatch path, warm process", value: warm, unit: "ms" },
      { what: "ratio", value: warm / median(bared), unit: "x", atMost: 1.4 },
      { what: "event of a hook, whose instance stays", value: median(told), unit: "ms" },
      { what: "ratio to a tool call", value: median(told) / warm, unit: "x", atMost: 0.5 },
      { what: "fresh process to first answer", value: median(fresh), unit: "ms" },
      { what: "first call after a kill, above a warm one", value: median(afterKill) - warm, unit: "ms", atMost: 60 },
      { what: "resident memory of the fullest host, with its guard", value: Math.max(...resident), unit: "MB" },
      { what: "resident memory of the reserve, with its guard", value: Math.min(...resident), unit: "MB" },
    ],
  };
}
