import { parse } from "@bytecodealliance/jco-transpile/wasm-tools";
import assert from "node:assert/strict";
import fc from "fast-check";
import { capModule, CoreModuleError, recordDenials } from "./core_module.ts";
import { DENIED_MEMORY, DENIED_TABLE } from "./growth_globals.ts";
import { javascriptGuest } from "./testing/guests.ts";
import { translate } from "./translate.ts";

const EVERYTHING = 1 << 30;

function instantiate(bytes: Uint8Array, imports: WebAssembly.Imports = {}): WebAssembly.Exports {
  const copy = new Uint8Array(bytes);
  assert.ok(WebAssembly.validate(copy));
  return new WebAssembly.Instance(new WebAssembly.Module(copy), imports).exports;
}

function joined(pieces: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(pieces.flatMap((piece) => [...piece]));
}

function capped(bytes: Uint8Array, memoryBytes: number, tableElements: number): Uint8Array<ArrayBuffer> {
  const result = capModule(bytes, memoryBytes, tableElements);
  assert.ok(!("what" in result));
  return joined(result);
}

const GROWS = `(module
  (import "m" "f" (func $f (param i32) (result i32)))
  (import "m" "g" (global $g i32))
  (global $own (mut i32) (i32.const 7))
  (memory (export "memory") 1 100)
  (table $t (export "table") 2 funcref)
  (func (export "grow") (param i32) (result i32) (memory.grow (local.get 0)))
  (func (export "growTable") (param i32) (result i32) (table.grow $t (ref.null func) (local.get 0)))
  (func (export "other") (result i32) (i32.add (global.get $own) (call $f (global.get $g))))
  (func (export "lookalike") (result i64)
    ;; the opcode's byte as an operand and in constants
    (local i64)
    (local.set 0 (i64.const 0x4040404040404040))
    (drop (f64.const 2.0000152587890625))
    (block (block (br_table 0 1 0 (i32.const 64))))
    (i64.add (local.get 0) (i64.load offset=64 (i32.const 64))))
  (elem (i32.const 0) $f))`;

Deno.test("refused growth is recorded once, and nothing else of a module changes", async () => {
  const module = recordDenials(await parse(GROWS));
  const imports = { m: { f: (value: number) => value * 2, g: 5 } };
  const exports = instantiate(capped(module, 3 * 65_536, 5), imports);
  const call = (name: string, ...args: number[]) => (exports[name] as (...args: number[]) => number)(...args);
  const denied = (name: string) => (exports[name] as WebAssembly.Global).value;
  assert.deepEqual([denied(DENIED_MEMORY), denied(DENIED_TABLE)], [0n, 0n]);
  assert.equal(call("grow", 2), 1);
  assert.equal(call("growTable", 3), 2);
  assert.deepEqual([denied(DENIED_MEMORY), denied(DENIED_TABLE)], [0n, 0n]);
  assert.equal(call("grow", 4), -1);
  assert.equal(call("grow", 9), -1);
  assert.equal(call("growTable", 1), -1);
  assert.deepEqual([denied(DENIED_MEMORY), denied(DENIED_TABLE)], [7n, 6n]);
  assert.equal(call("grow", 0), 3);
  assert.equal(call("other"), 17);
  assert.equal(call("lookalike"), 0x4040404040404040n as unknown as number);
  assert.equal((exports.memory as WebAssembly.Memory).buffer.byteLength, 3 * 65_536);
});

Deno.test("declared maxima are lowered to the limits, never raised", async () => {
  const bytes = await parse(`(module (memory (export "m") 2 10) (table (export "t") 3 20 externref))`);
  const grow = (memoryPages: number, tableElements: number) => {
    const { m, t } = instantiate(capped(bytes, memoryPages * 65_536, tableElements));
    let pages = 2;
    let elements = 3;
    try {
      for (; pages < 50; pages++) (m as WebAssembly.Memory).grow(1);
    } catch {
      // The maximum.
    }
    try {
      for (; elements < 50; elements++) (t as WebAssembly.Table).grow(1);
    } catch {
      // The maximum.
    }
    return [pages, elements];
  };
  assert.deepEqual(grow(40, 40), [10, 20]);
  assert.deepEqual(grow(5, 7), [5, 7]);
  assert.deepEqual(grow(2, 3), [2, 3]);
  assert.deepEqual(capModule(bytes, 65_536, 7), { what: "memory", asked: 2 * 65_536 });
  assert.deepEqual(capModule(bytes, 5 * 65_536, 2), { what: "table", asked: 3 });
});

Deno.test("memories of 64 bits and several memories are recorded too", async () => {
  const module = recordDenials(
    await parse(`(module
      (memory $a 1) (memory $b i64 1)
      (func (export "a") (param i32) (result i32) (memory.grow $a (local.get 0)))
      (func (export "b") (param i64) (result i64) (memory.grow $b (local.get 0))))`),
  );
  const exports = instantiate(capped(module, 4 * 65_536, 10));
  assert.equal((exports.b as (delta: bigint) => bigint)(2n), 1n);
  assert.equal((exports.b as (delta: bigint) => bigint)(9n), -1n);
  assert.equal((exports[DENIED_MEMORY] as WebAssembly.Global).value, 12n);
  assert.equal((exports.a as (delta: number) => number)(9), -1);
  assert.equal((exports[DENIED_MEMORY] as WebAssembly.Global).value, 12n, "the first one counts");
});

Deno.test("modules without growth, and those not understood, come back as they were", async () => {
  for (
    const text of [
      "(module)",
      `(module (memory 1) (func (export "f")))`,
      `(module (type (struct (field i32))) (memory 1) (func (export "f") (drop (memory.grow (i32.const 1)))))`,
    ]
  ) {
    const bytes = await parse(text);
    assert.deepEqual(recordDenials(bytes), bytes, text);
    instantiate(capped(bytes, EVERYTHING, 100));
  }
});

Deno.test("a whole engine survives the rewriting", async () => {
  const source = "export const run = { run() { return { status: 'passed', truncated: false, metadata: [] }; } };";
  const { modules } = await translate(await javascriptGuest("tool", source));
  assert.ok(modules.length > 3);
  let recorded = 0;
  for (const { bytes } of modules) {
    const cap = capped(bytes, EVERYTHING, 1 << 20);
    assert.ok(WebAssembly.validate(new Uint8Array(cap)));
    const names = WebAssembly.Module.exports(new WebAssembly.Module(bytes)).map(({ name }) => name);
    if (names.includes(DENIED_MEMORY)) recorded++;
  }
  assert.ok(recorded >= 1);
});

Deno.test("arbitrary and damaged bytes give a module or a CoreModuleError", async () => {
  const good = await parse(GROWS);
  const tryBoth = (bytes: Uint8Array) => {
    for (const rewrite of [recordDenials, (bytes: Uint8Array) => capModule(bytes, EVERYTHING, 100)]) {
      try {
        rewrite(bytes);
      } catch (error) {
        assert.ok(error instanceof CoreModuleError, String(error));
      }
    }
  };
  fc.assert(fc.property(fc.uint8Array({ maxLength: 200 }), tryBoth));
  fc.assert(
    fc.property(
      fc.array(fc.tuple(fc.nat(good.length - 1), fc.nat(255)), { minLength: 1, maxLength: 5 }),
      (changes) => {
        const damaged = good.slice();
        for (const [at, byte] of changes) damaged[at] = byte;
        tryBoth(damaged);
      },
    ),
    { numRuns: 2_000 },
  );
});
