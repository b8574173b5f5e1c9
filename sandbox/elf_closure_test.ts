import assert from "node:assert/strict";
import fc from "fast-check";
import { elfClosure, parseElf, type ReadAt } from "./elf_closure.ts";

/** An ELF64 with an interpreter, two libraries and a search path, of either byte order. */
function elf(little: boolean): Uint8Array {
  const bytes = new Uint8Array(1_024);
  const view = new DataView(bytes.buffer);
  bytes.set([0x7f, 0x45, 0x4c, 0x46, 2, little ? 1 : 2, 1]);
  const wide = (at: number, value: number) => view.setBigUint64(at, BigInt(value), little);
  wide(32, 64);
  view.setUint16(54, 56, little);
  view.setUint16(56, 3, little);
  const header = (index: number, type: number, offset: number, address: number, size: number) => {
    const at = 64 + index * 56;
    view.setUint32(at, type, little);
    wide(at + 8, offset);
    wide(at + 16, address);
    wide(at + 32, size);
  };
  header(0, 1, 0, 0x400000, 1_024);
  header(1, 2, 512, 0x400200, 96);
  header(2, 3, 300, 0x40012c, 20);
  const put = (at: number, text: string) => bytes.set(new TextEncoder().encode(`${text}\0`), at);
  put(300, "/lib/ld.so");
  put(700, "");
  put(701, "liba.so");
  put(709, "libb.so");
  put(717, "/opt/lib:$ORIGIN/x");
  const entries = [[1, 1], [1, 9], [29, 17], [5, 0x400000 + 700], [0, 0]] as const;
  entries.forEach(([tag, value], index) => {
    wide(512 + index * 16, tag);
    wide(520 + index * 16, value);
  });
  return bytes;
}

function reader(bytes: Uint8Array): ReadAt {
  return (offset, length) => bytes.subarray(offset, offset + length);
}

Deno.test("an ELF file tells its interpreter, libraries and search path", () => {
  for (const little of [true, false]) {
    assert.deepEqual(parseElf(reader(elf(little))), {
      interpreter: "/lib/ld.so",
      needed: ["liba.so", "libb.so"],
      searchPath: ["/opt/lib", "$ORIGIN/x"],
    });
  }
});

Deno.test("damaged files are understood as far as they go and never throw", () => {
  const good = elf(true);
  assert.equal(parseElf(reader(new Uint8Array())), null);
  assert.equal(parseElf(reader(new TextEncoder().encode("#!/bin/sh\n" + "x".repeat(100)))), null);
  fc.assert(
    fc.property(fc.array(fc.tuple(fc.nat(1_023), fc.nat(255)), { maxLength: 20 }), fc.nat(1_024), (edits, end) => {
      const bytes = good.slice(0, end);
      for (const [at, value] of edits) if (at < end) bytes[at] = value;
      parseElf(reader(bytes));
    }),
  );
});

Deno.test("the closure of a program holds what the loader opens", async () => {
  const closure = elfClosure("/bin/sh");
  assert.equal(closure[0], Deno.realPathSync("/bin/sh"));
  assert.equal(new Set(closure).size, closure.length);
  const maps = await new Deno.Command("/bin/sh", { args: ["-c", "cat /proc/$$/maps"], stdin: "null" }).output();
  for (const line of new TextDecoder().decode(maps.stdout).split("\n")) {
    const path = /\s(\/\S+)$/.exec(line)?.[1];
    if (path !== undefined) assert.ok(closure.includes(Deno.realPathSync(path)), `${path} is missing`);
  }
  assert.deepEqual(elfClosure("/nothing/here"), []);
  const script = Deno.makeTempFileSync();
  Deno.writeTextFileSync(script, "#!/bin/sh\n");
  assert.deepEqual(elfClosure(script), [Deno.realPathSync(script)]);
  Deno.removeSync(script);
});
