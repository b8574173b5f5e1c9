import assert from "node:assert/strict";
import { findEngine, loadEngine, makeDeterministic } from "./engine.ts";
import { concat, leb, readSections, redirectCalls, WasmReader, writeSections } from "./wasm_module.ts";

const text = (value: string) => [...leb(value.length), ...new TextEncoder().encode(value)];
const section = (id: number, body: number[]) => [id, ...leb(body.length), ...body];
const vector = (items: number[][]) => [...leb(items.length), ...items.flat()];

/** A module in the engine's likeness: it asks for a seed, the two clocks, and says when it is finished. */
function smallEngine(): Uint8Array<ArrayBuffer> {
  const i32 = 0x7f;
  const i64 = 0x7e;
  const importOf = (module: string, name: string, type: number) => [...text(module), ...text(name), 0x00, type];
  const body = (code: number[]) => [...leb(code.length + 2), 0x00, ...code, 0x0b];
  return new Uint8Array([
    ...[0x00, 0x61, 0x73, 0x6d, 0x01, 0x00, 0x00, 0x00],
    ...section(1, vector([[0x60, 1, i32, 0], [0x60, 0, 1, i64], [0x60, 0, 0]])),
    ...section(
      2,
      vector([
        importOf("wasi:random/insecure-seed@0.2.9", "insecure-seed", 0),
        importOf("wasi:clocks/monotonic-clock@0.2.0", "now", 1),
        importOf("wasi:clocks/wall-clock@0.2.0", "now", 0),
        importOf("wasi_snapshot_preview1", "reset_adapter_state", 2),
        [...text("env"), ...text("memory"), 0x02, 0x00, 0x01],
      ]),
    ),
    ...section(3, vector([[0], [1], [0], [2]])),
    ...section(6, vector([[i32, 0x01, 0x41, 0x05, 0x0b]])),
    ...section(7, vector(["seed", "mono", "wall", "finish"].map((name, index) => [...text(name), 0x00, 4 + index]))),
    ...section(
      10,
      vector([
        body([0x20, 0x00, 0x10, 0x00]),
        body([0x10, 0x01]),
        body([0x20, 0x00, 0x10, 0x02]),
        body([0x10, 0x03]),
      ]),
    ),
  ]);
}

interface Exports {
  seed(address: number): void;
  mono(): bigint;
  wall(address: number): void;
  finish(): void;
}

async function run(module: Uint8Array<ArrayBuffer>) {
  const memory = new WebAssembly.Memory({ initial: 1 });
  const view = new DataView(memory.buffer);
  let finished = 0;
  const { instance } = await WebAssembly.instantiate(module, {
    "wasi:random/insecure-seed@0.2.9": { "insecure-seed": (at: number) => view.setBigUint64(at, 77n, true) },
    "wasi:clocks/monotonic-clock@0.2.0": { now: () => 88n },
    "wasi:clocks/wall-clock@0.2.0": { now: (at: number) => view.setBigUint64(at, 99n, true) },
    wasi_snapshot_preview1: { reset_adapter_state: () => void finished++ },
    env: { memory },
  });
  const exports = instance.exports as unknown as Exports;
  const observe = () => {
    exports.seed(0);
    exports.wall(32);
    return [0, 8, 32].map((at) => view.getBigUint64(at, true)).concat(exports.mono());
  };
  return { observe, exports, finished: () => finished };
}

Deno.test("until it is finished a prepared engine sees fixed clocks and seeds, from then on its host's", async () => {
  const original = await run(smallEngine());
  assert.deepEqual(original.observe(), [77n, 0n, 99n, 88n]);
  const prepared = await run(makeDeterministic(smallEngine()));
  assert.deepEqual(prepared.observe(), [1n, 2n, 1_577_836_800n, 0n]);
  prepared.exports.finish();
  assert.equal(prepared.finished(), 1);
  assert.deepEqual(prepared.observe(), [77n, 2n, 99n, 88n]);
});

Deno.test("an engine of another build is refused, not half prepared", () => {
  const refused = (module: Uint8Array, message: RegExp) =>
    assert.throws(() => makeDeterministic(module), (error: Error) => message.test(error.message));
  const without = (name: string) => {
    const bytes = smallEngine();
    const at = new TextDecoder("latin1").decode(bytes).indexOf(name);
    bytes[at] = "x".charCodeAt(0);
    return bytes;
  };
  refused(without("insecure-seed@"), /imports insecure-seed 0 times/);
  refused(without("reset_adapter"), /imports reset_adapter_state 0 times/);
  // Calls that go elsewhere: the seed is never asked for directly.
  const sections = readSections(smallEngine()).map(({ id, body }) =>
    id === 10
      ? { id, body: Uint8Array.from([1, 4, 0, 0x10, 3, 0x0b]) }
      : id === 3
      ? { id, body: Uint8Array.from([1, 2]) }
      : { id, body }
  ).filter(({ id }) => id !== 7);
  refused(writeSections(sections), /does not call its clocks and seeds directly/);
  assert.throws(() => findEngine(new Uint8Array(100)), /no engine was found/);
});

Deno.test("calls are redirected, and bytes that only look like calls are not", () => {
  const body = Uint8Array.from([
    ...[1, 2, 0x7f], // two locals
    ...[0x41, 0x10, 0x41, 0x00], // i32.const 16, i32.const 0: no calls
    ...[0x10, 0x00, 0x10, 0x81, 0x01], // call 0, call 129
    ...[0x44, 0x10, 0x00, 0x10, 0x00, 0x10, 0x00, 0x10, 0x00], // f64.const of call-like bytes
    ...[0x0e, 0x02, 0x10, 0x00, 0x10], // br_table
    ...[0x28, 0x02, 0x10], // i32.load offset=16
    ...[0xfc, 0x0a, 0x00, 0x00], // memory.copy
    ...[0xfc, 0x02], // i32.trunc_sat_f64_s
    ...[0x10, 0x00, 0x0b],
  ]);
  const told: number[] = [];
  const changed = redirectCalls(body, new Map([[0, 300]]), (target) => told.push(target));
  const expected = concat([
    body.subarray(0, 7),
    [0x10, 0xac, 0x02],
    body.subarray(9, body.length - 3),
    [0x10, 0xac, 0x02, 0x0b],
  ]);
  assert.deepEqual(changed, expected);
  assert.deepEqual(told, [0, 0]);
  assert.equal(redirectCalls(body, new Map([[5, 6]]), () => {}), null);
  // A vector instruction, which this does not know how to walk.
  assert.throws(() => redirectCalls(Uint8Array.from([0, 0xfd, 0x0c, 0x0b]), new Map([[0, 1]]), () => {}), RangeError);
});

Deno.test("sections come back as they were", async () => {
  const engine = await loadEngine();
  assert.deepEqual(writeSections(readSections(engine)), engine);
  assert.deepEqual(leb(300), [0xac, 0x02]);
  assert.equal(new WasmReader(Uint8Array.of(0xac, 0x02)).u32(), 300);
  assert.throws(() => new WasmReader(Uint8Array.of(0x80)).u32(), RangeError);
  assert.throws(() => readSections(new Uint8Array(8)), RangeError);
});
