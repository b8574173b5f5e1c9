import assert from "node:assert/strict";
import { componentize } from "componentize-qjs";
import fc from "fast-check";
import { componentNames, isComponent } from "./component_names.ts";

const PREAMBLE = [0x00, 0x61, 0x73, 0x6d, 0x0d, 0x00, 0x01, 0x00];

const text = (value: string) => [value.length, ...new TextEncoder().encode(value)];
const leb = (value: number): number[] => value < 128 ? [value] : [(value & 127) | 128, ...leb(value >>> 7)];
const component = (...sections: [id: number, body: number[]][]) =>
  Uint8Array.from([...PREAMBLE, ...sections.flatMap(([id, body]) => [id, ...leb(body.length), ...body])]);

Deno.test("a real component's interfaces are read in the order they stand, plain functions left out", async () => {
  const directory = await Deno.makeTempDir();
  try {
    await Deno.writeTextFile(
      `${directory}/world.wit`,
      `package test:sample@1.2.0;
      interface run { record input { x: u32 } run: func(i: string) -> result<string, string>; }
      interface host { type id = u64; say: func(i: id); resource r { constructor(); go: func(); } }
      world sample { import host; import plain: func(x: string); export run; export extra: func() -> string; }`,
    );
    const { component } = await componentize({
      witPath: `${directory}/world.wit`,
      world: "sample",
      jsSource: "export const run = { run: (i) => i }; export function extra() { return 'x'; }",
      sync: true,
    });
    const names = componentNames(component);
    assert.deepEqual(names?.exports, ["test:sample/run@1.2.0"]);
    assert.ok(names?.imports.includes("test:sample/host@1.2.0"));
    assert.ok(names?.imports.some((name) => name.startsWith("wasi:io/streams@0.2.")));
    assert.ok(names?.imports.every((name) => name.includes("/")));
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
});

Deno.test("every sort of import and export is stepped over to reach the next name", () => {
  const imports = [
    9,
    ...[0x00, ...text("plain-fn"), 0x01, 3],
    ...[0x00, ...text("a:b/module"), 0x00, 0x11, 0],
    ...[0x01, ...text("a:b/one@1.0.0"), 0x05, 0x80, 0x01],
    ...[0x00, ...text("value"), 0x02, 0x01, 0x7f],
    ...[0x00, ...text("value-eq"), 0x02, 0x00, 4],
    ...[0x00, ...text("type-eq"), 0x03, 0x00, 4],
    ...[0x00, ...text("type-sub"), 0x03, 0x01],
    ...[0x02, ...text("a:b/two@1"), 1, 0x01, ...text(".2.3"), 0x05, 0],
    ...[0x00, ...text("murmur:tool/run"), 0x04, 0],
  ];
  const exports = [3, ...[0x00, ...text("x"), 0x00, 0x11, 0, 0x00]];
  exports.push(...[0x00, ...text("a:b/out@0.1.0"), 0x05, 2, 0x01, 0x05, 1], ...[0x00, ...text("f"), 0x01, 0, 0x00]);
  const names = componentNames(component([1, [1, 2, 3]], [10, imports], [0, text("custom")], [11, exports]));
  assert.deepEqual(names, {
    imports: ["a:b/module", "a:b/one@1.0.0", "a:b/two@1", "murmur:tool/run"],
    exports: ["a:b/out@0.1.0"],
  });
});

Deno.test("core modules, other files and cut sections have no names", () => {
  assert.equal(componentNames(Uint8Array.of(0x00, 0x61, 0x73, 0x6d, 0x01, 0x00, 0x00, 0x00)), null);
  assert.equal(componentNames(new Uint8Array()), null);
  assert.ok(isComponent(component()));
  assert.deepEqual(componentNames(component()), { exports: [], imports: [] });
  const whole = component([10, [1, 0x00, ...text("a:b/c@1"), 0x05, 0]]);
  assert.deepEqual(componentNames(whole)?.imports, ["a:b/c@1"]);
  for (let length = 9; length < whole.length; length++) assert.equal(componentNames(whole.slice(0, length)), null);
});

Deno.test("sections that lie about lengths and counts end as no names, quickly", () => {
  assert.equal(componentNames(Uint8Array.from([...PREAMBLE, 10, 0xff, 0xff, 0xff, 0xff, 0x0f])), null);
  assert.equal(componentNames(component([10, [0xff, 0xff, 0xff, 0xff, 0x0f]])), null);
  assert.equal(componentNames(component([10, [1, 0x00, 0xff, 0xff, 0xff, 0xff, 0x0f, 0x61]])), null);
  assert.equal(componentNames(component([10, [1, 0x02, 1, 0x61, 0xff, 0xff, 0xff, 0xff, 0x0f]])), null);
});

Deno.test("no bytes whatever make the reader fail", () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 300 }), fc.constantFrom(10, 11, 0), (body, id) => {
      componentNames(Uint8Array.from([...PREAMBLE, id, ...leb(body.length), ...body]));
      componentNames(Uint8Array.from([...PREAMBLE, ...body]));
    }),
    { numRuns: 2000 },
  );
});
