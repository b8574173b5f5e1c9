import assert from "node:assert/strict";
import fc from "fast-check";
import { structuredClone } from "./structured_clone.ts";

Deno.test("data is copied deeply, with its kinds and shared parts", () => {
  const buffer = Uint8Array.of(1, 2, 3, 4).buffer;
  const shared = { x: 1 };
  const value = {
    date: new Date(5),
    pattern: /a+/gi,
    map: new Map<unknown, unknown>([[shared, new Set([shared])]]),
    view: new Uint16Array(buffer, 2, 1),
    same: buffer,
    error: new RangeError("far", { cause: shared }),
    boxed: Object("text"),
    holes: [1, , 3], // deno-lint-ignore no-sparse-arrays
    big: 5n,
  };
  const copy = structuredClone(value);
  assert.deepEqual(copy, value);
  assert.notEqual(copy.map, value.map);
  const [[key, set]] = [...copy.map] as [[unknown, Set<unknown>]];
  assert.ok(set.has(key), "a shared object was copied twice");
  assert.equal(copy.view.buffer, copy.same);
  assert.ok(copy.error instanceof RangeError && !(1 in copy.holes));
});

Deno.test("JSON values survive, and what is no data is refused", () => {
  fc.assert(fc.property(fc.jsonValue(), (value) => assert.deepEqual(structuredClone(value), value)));
  fc.assert(
    fc.property(fc.object(), (value) => assert.deepEqual(structuredClone(value), globalThis.structuredClone(value))),
  );
  for (const value of [() => 1, Symbol("s"), new WeakMap(), Promise.resolve(), { deep: [() => 1] }]) {
    assert.throws(() => structuredClone(value), (error: Error) => error.name === "DataCloneError");
  }
});
