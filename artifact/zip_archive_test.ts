import assert from "node:assert/strict";
import { deflateSync } from "fflate";
import fc from "fast-check";
import { MurError } from "../base/errors.ts";
import {
  crc32,
  DEFAULT_MAX_DECOMPRESSED_BYTES,
  isSafeEntryName,
  maxDecompressedBytes,
  openZip,
  readZipEntry,
} from "./zip_archive.ts";
import { writeZip } from "./zip_writer.ts";

const utf8 = new TextEncoder();

/** One entry of a hand-made archive; every field can be made to lie. */
interface RawEntry {
  name: string | Uint8Array;
  content?: Uint8Array;
  packed?: Uint8Array;
  method?: number;
  flags?: number;
  size?: number;
  compressedSize?: number;
  crc?: number;
  mode?: number;
  madeBy?: number;
  local?: { name?: string; method?: number; flags?: number; size?: number; crc?: number };
  offset?: number;
}

interface RawArchive {
  entries: RawEntry[];
  prefix?: Uint8Array;
  comment?: Uint8Array;
  count?: number;
  directoryOffset?: number;
  zip64Locator?: boolean;
}

function rawZip({ entries, prefix, comment, count, directoryOffset, zip64Locator }: RawArchive) {
  const out: number[] = [...(prefix ?? [])];
  const u16 = (n: number) => [n & 0xff, (n >>> 8) & 0xff];
  const u32 = (n: number) => [...u16(n & 0xffff), ...u16(n >>> 16)];
  const central: number[] = [];
  for (const entry of entries) {
    const content = entry.content ?? new Uint8Array();
    const method = entry.method ?? 8;
    const packed = entry.packed ?? (method === 8 ? deflateSync(content) : content);
    const name = typeof entry.name === "string" ? utf8.encode(entry.name) : entry.name;
    const size = entry.size ?? content.length;
    const compressedSize = entry.compressedSize ?? packed.length;
    const crc = entry.crc ?? crc32(content);
    const flags = entry.flags ?? 0;
    const local = entry.local ?? {};
    const localName = local.name === undefined ? name : utf8.encode(local.name);
    const offset = entry.offset ?? out.length;
    if (entry.offset === undefined) {
      out.push(...u32(0x04034b50), ...u16(20), ...u16(local.flags ?? flags), ...u16(local.method ?? method));
      out.push(...u16(0), ...u16(33), ...u32(local.crc ?? crc), ...u32(compressedSize), ...u32(local.size ?? size));
      out.push(...u16(localName.length), ...u16(0), ...localName);
      for (const byte of packed) out.push(byte);
    }
    central.push(...u32(0x02014b50), ...u16(((entry.madeBy ?? 3) << 8) | 20), ...u16(20), ...u16(flags));
    central.push(...u16(method), ...u16(0), ...u16(33), ...u32(crc), ...u32(compressedSize), ...u32(size));
    central.push(...u16(name.length), ...u16(0), ...u16(0), ...u16(0), ...u16(0));
    central.push(...u32(((entry.mode ?? 0o100644) << 16) >>> 0), ...u32(offset), ...name);
  }
  const start = out.length;
  out.push(...central);
  if (zip64Locator) out.push(...u32(0x07064b50), ...new Array(16).fill(0));
  const total = count ?? entries.length;
  out.push(...u32(0x06054b50), ...u16(0), ...u16(0), ...u16(total), ...u16(total));
  out.push(...u32(central.length + (zip64Locator ? 20 : 0)), ...u32(directoryOffset ?? start));
  out.push(...u16(comment?.length ?? 0), ...(comment ?? []));
  return Uint8Array.from(out);
}

const text = (content: string) => utf8.encode(content);

function refused(archive: Uint8Array<ArrayBuffer>, pattern: RegExp) {
  assert.throws(() => openZip(archive, "'x.mur.zip'"), (error) => {
    assert.ok(error instanceof MurError);
    assert.equal(error.code, "E-IO-003");
    assert.match(error.message, pattern);
    return true;
  });
}

async function entryRefused(archive: Uint8Array<ArrayBuffer>, name: string, pattern: RegExp, max = 1e6) {
  const opened = openZip(archive, "'x.mur.zip'");
  const entry = opened.entries.get(name);
  assert.ok(entry !== undefined);
  await assert.rejects(() => readZipEntry(opened, entry, max), (error) => {
    assert.ok(error instanceof MurError);
    assert.equal(error.code, "E-IO-003");
    assert.match(error.message, pattern);
    return true;
  });
}

async function contentOf(archive: Uint8Array<ArrayBuffer>, name: string, max = 1e6) {
  const opened = openZip(archive, "'x.mur.zip'");
  return await readZipEntry(opened, opened.entries.get(name)!, max);
}

Deno.test("what the writer packs, the reader gives back, in the same order", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.uniqueArray(fc.tuple(fc.string({ unit: "grapheme", minLength: 1 }), fc.uint8Array({ maxLength: 3000 })), {
        selector: ([name]) => name,
        maxLength: 12,
      }),
      async (files) => {
        const inputs = files.filter(([name]) => isSafeEntryName(name)).map(([name, bytes]) => ({ name, bytes }));
        const opened = openZip(await writeZip(inputs), "archive");
        assert.deepEqual([...opened.entries.keys()], inputs.map((input) => input.name));
        for (const input of inputs) {
          const content = await readZipEntry(opened, opened.entries.get(input.name)!, 1e6);
          assert.deepEqual(content, Uint8Array.from(input.bytes));
        }
      },
    ),
    { numRuns: 60 },
  );
});

Deno.test("an archive's bytes follow from names and contents alone, whatever the clock and the time zone", async () => {
  const script = `
    const { writeZip } = await import(${JSON.stringify(new URL("./zip_writer.ts", import.meta.url).href)});
    const bytes = await writeZip([{ name: "b", bytes: new Uint8Array(5000).fill(7) }, { name: "1", bytes: new Uint8Array() }]);
    const hash = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
    console.log(Array.from(hash, (byte) => byte.toString(16).padStart(2, "0")).join(""));
  `;
  const hashes = [];
  for (const zone of ["UTC", "America/St_Johns", "Pacific/Kiritimati"]) {
    const { stdout } = await new Deno.Command(Deno.execPath(), {
      args: ["eval", script],
      cwd: new URL("..", import.meta.url),
      env: { TZ: zone },
    }).output();
    hashes.push(new TextDecoder().decode(stdout).trim());
  }
  assert.match(hashes[0]!, /^[0-9a-f]{64}$/);
  assert.deepEqual(new Set(hashes).size, 1);
});

Deno.test("a written entry has no extra field, mode 0644 and the time 1980-01-01 00:00:00", async () => {
  const bytes = await writeZip([{ name: "a", bytes: text("hello") }]);
  const view = new DataView(bytes.buffer);
  assert.deepEqual([view.getUint16(10, true), view.getUint16(12, true), view.getUint16(28, true)], [0, 33, 0]);
  const central = view.getUint32(bytes.length - 22 + 16, true);
  assert.equal(view.getUint32(central + 38, true) >>> 16, 0o100644);
  assert.deepEqual([view.getUint16(central + 30, true), view.getUint16(central + 32, true)], [0, 0]);
});

Deno.test("the writer refuses names and duplicates a reader would not take", async () => {
  for (const names of [["../a"], ["/a"], ["a", "a"], ["a/"], [""]]) {
    await assert.rejects(
      () => writeZip(names.map((name) => ({ name, bytes: new Uint8Array() }))),
      (error) => error instanceof MurError && error.code === "E-IO-003",
    );
  }
});

Deno.test("entries with an absolute name, a '..' component, a backslash or no UTF-8 count as absent", () => {
  const names: (string | Uint8Array)[] = [
    "/etc/passwd",
    "../murmur.yaml",
    "a/../../b",
    "a/..",
    "..\\murmur.yaml",
    "C:/x",
    "a\0b",
    "./murmur.yaml",
    "a//b",
    "folder/",
    Uint8Array.of(0x66, 0xff, 0xfe),
  ];
  const archive = rawZip({
    entries: [...names.map((name) => ({ name })), { name: "murmur.yaml", content: text("x") }],
  });
  assert.deepEqual([...openZip(archive, "a").entries.keys()], ["murmur.yaml"]);
});

Deno.test("symbolic links, devices and folders count as absent", () => {
  const archive = rawZip({
    entries: [
      { name: "link", content: text("/etc/passwd"), mode: 0o120777 },
      { name: "device", mode: 0o020644 },
      { name: "fifo", mode: 0o010644 },
      { name: "directory", mode: 0o040755 },
      { name: "plain", mode: 0o100600 },
      { name: "no-mode", mode: 0 },
    ],
  });
  assert.deepEqual([...openZip(archive, "a").entries.keys()], ["plain", "no-mode"]);
});

Deno.test("two entries of one name refuse the archive, since two readers could take different ones", () => {
  refused(
    rawZip({ entries: [{ name: "a", content: text("1") }, { name: "a", content: text("2") }] }),
    /two entries named 'a'/,
  );
});

Deno.test("an entry that declares more than the ceiling is refused before anything is inflated", async () => {
  const archive = rawZip({ entries: [{ name: "big", content: new Uint8Array(5000) }] });
  assert.equal((await contentOf(archive, "big", 5000)).length, 5000);
  await entryRefused(archive, "big", /more than 4999 bytes/, 4999);
});

Deno.test("a bomb that declares a small size is stopped while it inflates", async () => {
  const packed = deflateSync(new Uint8Array(50_000_000), { level: 9 });
  const archive = rawZip({ entries: [{ name: "bomb", packed, size: 1000, crc: 0 }] });
  await entryRefused(archive, "bomb", /inflates to more than it declares/);
});

Deno.test("a declared size that the compressed bytes cannot reach is refused before memory is taken", () => {
  refused(rawZip({ entries: [{ name: "a", content: text("hello"), size: 400_000_000 }] }), /not one its data can have/);
  refused(
    rawZip({ entries: [{ name: "a", method: 0, content: text("hello"), size: 6 }] }),
    /not one its data can have/,
  );
});

Deno.test("an entry shorter than declared, damaged, with bytes after its end or of another checksum is refused", async () => {
  const content = crypto.getRandomValues(new Uint8Array(3000));
  const packed = deflateSync(content);
  await entryRefused(rawZip({ entries: [{ name: "a", content, size: 3001 }] }), "a", /less than it declares/);
  await entryRefused(rawZip({ entries: [{ name: "a", content, crc: 1 }] }), "a", /checksum/);
  await entryRefused(rawZip({ entries: [{ name: "a", content, method: 0, crc: 1 }] }), "a", /checksum/);
  const cut = packed.slice(0, packed.length - 40);
  await entryRefused(rawZip({ entries: [{ name: "a", content, packed: cut }] }), "a", /less than it declares|damaged/);
  const garbage = Uint8Array.from(packed, () => 0xff);
  await entryRefused(rawZip({ entries: [{ name: "a", content, packed: garbage }] }), "a", /damaged/);
  const longer = new Uint8Array([...packed, 1, 2, 3]);
  await entryRefused(rawZip({ entries: [{ name: "a", content, packed: longer }] }), "a", /damaged|less|more/);
});

Deno.test("bytes after the end of the compressed data are refused wherever the inflater's steps fall", async () => {
  const content = crypto.getRandomValues(new Uint8Array(16 * 1024 - 5));
  const packed = deflateSync(content, { level: 0 });
  for (const extra of [1, 5, 100, 16 * 1024, 40_000]) {
    const longer = new Uint8Array(packed.length + extra);
    longer.set(packed);
    await entryRefused(rawZip({ entries: [{ name: "a", content, packed: longer }] }), "a", /damaged/);
  }
});

Deno.test("an encrypted entry cannot be read", async () => {
  for (const flags of [1, 0x40 | 1, 0x2000]) {
    await entryRefused(rawZip({ entries: [{ name: "a", content: text("x"), flags }] }), "a", /encrypted/);
  }
});

Deno.test("a compression method other than stored and deflate cannot be read", async () => {
  await entryRefused(rawZip({ entries: [{ name: "a", packed: text("xxxx"), method: 93, size: 4 }] }), "a", /method 93/);
});

Deno.test("a stored entry is read", async () => {
  assert.deepEqual(
    await contentOf(rawZip({ entries: [{ name: "a", method: 0, content: text("hi") }] }), "a"),
    text("hi"),
  );
});

Deno.test("a local header that contradicts the directory refuses the archive", () => {
  const content = text("hello");
  refused(rawZip({ entries: [{ name: "a", content, local: { name: "b" } }] }), /contradict/);
  refused(rawZip({ entries: [{ name: "a", content, local: { name: "aa" } }] }), /contradict|reaches/);
  refused(rawZip({ entries: [{ name: "a", content, local: { size: 4 } }] }), /contradict/);
  refused(rawZip({ entries: [{ name: "a", content, local: { crc: 4 } }] }), /contradict/);
  refused(rawZip({ entries: [{ name: "a", content, local: { method: 0 } }] }), /contradict/);
  refused(rawZip({ entries: [{ name: "a", content, local: { flags: 1 } }] }), /contradict/);
});

Deno.test("sizes left out of the local header, as streaming writers do, are taken from the directory", async () => {
  const archive = rawZip({ entries: [{ name: "a", content: text("hello"), flags: 8, local: { size: 0, crc: 0 } }] });
  assert.deepEqual(await contentOf(archive, "a"), text("hello"));
});

Deno.test("entries that share bytes refuse the archive", () => {
  refused(
    rawZip({ entries: [{ name: "a", content: text("x") }, { name: "a", content: text("x"), offset: 0 }] }),
    /two entries|overlap/,
  );
  const inner = rawZip({ entries: [{ name: "b", content: text("y") }] });
  const outer = { name: "a", method: 0, content: inner };
  refused(rawZip({ entries: [outer, { name: "b", content: text("y"), offset: 31 }] }), /overlap/);
});

Deno.test("zip64 archives are refused by name", () => {
  refused(rawZip({ entries: [{ name: "a" }], count: 0xffff }), /zip64/);
  refused(rawZip({ entries: [{ name: "a" }], directoryOffset: 0xffffffff }), /zip64/);
  refused(rawZip({ entries: [{ name: "a", size: 0xffffffff }] }), /zip64/);
  refused(rawZip({ entries: [{ name: "a" }], zip64Locator: true }), /zip64/);
});

Deno.test("more entries than an artifact may have are refused by the count alone", () => {
  refused(rawZip({ entries: [], count: 10_001 }), /10001 entries/);
});

Deno.test("an entry count other than the directory's refuses the archive", () => {
  refused(rawZip({ entries: [{ name: "a" }], count: 2 }), /damaged at entry 2/);
  refused(rawZip({ entries: [{ name: "a" }, { name: "b" }], count: 1 }), /more than its entries/);
});

Deno.test("bytes before the archive, a second end record or bytes after it refuse the archive", () => {
  const entries = [{ name: "a", content: text("x") }];
  const plain = rawZip({ entries });
  refused(new Uint8Array([...text("#!/bin/sh\n"), ...plain]), /does not end at its end record|no local header/);
  refused(new Uint8Array([...plain, 0]), /no end record/);
  refused(rawZip({ entries, comment: new Uint8Array(plain.slice(plain.length - 22)) }), /two end records/);
});

Deno.test("a comment after the end record is allowed", async () => {
  const archive = rawZip({ entries: [{ name: "a", content: text("x") }], comment: text("hello") });
  assert.deepEqual(await contentOf(archive, "a"), text("x"));
});

Deno.test("every truncation of an archive is refused when opened", async () => {
  const whole = await writeZip([{ name: "murmur.yaml", bytes: text("name: a") }, {
    name: "b",
    bytes: new Uint8Array(99),
  }]);
  for (let length = 0; length < whole.length; length++) {
    refused(whole.slice(0, length), /not a usable artifact archive/);
  }
});

Deno.test("any damaged archive is refused with E-IO-003 or reads as exactly the content its checksum names", async () => {
  const whole = await writeZip([
    { name: "murmur.yaml", bytes: text("name: a\nversion: '1'\n") },
    { name: "a.wasm", bytes: new Uint8Array(2000).fill(3) },
  ]);
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.tuple(fc.nat(whole.length - 1), fc.integer({ min: 1, max: 255 })), { minLength: 1, maxLength: 4 }),
      async (flips) => {
        const damaged = whole.slice();
        for (const [at, mask] of flips) damaged[at]! ^= mask;
        try {
          const opened = openZip(damaged, "archive");
          for (const entry of opened.entries.values()) {
            const content = await readZipEntry(opened, entry, 1e6);
            assert.equal(crc32(content), entry.crc32);
            assert.equal(content.length, entry.size);
          }
        } catch (error) {
          assert.ok(error instanceof MurError, String(error));
          assert.equal(error.code, "E-IO-003");
        }
      },
    ),
    { numRuns: 1500 },
  );
});

Deno.test("random bytes are never read as an archive", () => {
  fc.assert(fc.property(fc.uint8Array({ maxLength: 400 }), (bytes) => {
    refused(Uint8Array.from(bytes), /not a usable artifact archive/);
  }));
});

Deno.test("the ceiling comes from MURMUR_MAX_ARTIFACT_DECOMPRESSED_BYTES, and from the default when that is no number", () => {
  const ceiling = (value?: string) => maxDecompressedBytes({ get: () => value });
  assert.equal(ceiling(), DEFAULT_MAX_DECOMPRESSED_BYTES);
  assert.equal(ceiling("1000"), 1000);
  for (const bad of ["", "-1", "1e3", "1Mi", " 5", "99999999999999999999"]) {
    assert.equal(ceiling(bad), DEFAULT_MAX_DECOMPRESSED_BYTES, bad);
  }
});

Deno.test("the checksum is CRC-32", () => {
  assert.equal(crc32(text("123456789")), 0xcbf43926);
});
