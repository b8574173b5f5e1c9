import assert from "node:assert/strict";
import fc from "fast-check";
import { nativePlatforms } from "./native_platform.ts";
import { hostPlatformTag } from "./platform.ts";

function header(...parts: [at: number, bytes: number[]][]) {
  const bytes = new Uint8Array(128);
  for (const [at, values] of parts) bytes.set(values, at);
  return bytes;
}

const ELF = [0x7f, 0x45, 0x4c, 0x46, 2, 1, 1, 0];

Deno.test("the program running this test is identified as this host's", {
  ignore: hostPlatformTag() === "unknown",
}, async () => {
  const file = await Deno.open(Deno.execPath());
  const bytes = new Uint8Array(4096);
  await file.read(bytes);
  file.close();
  assert.deepEqual(nativePlatforms(bytes), [hostPlatformTag()]);
});

Deno.test("ELF binaries are identified by class, byte order, ABI and machine", () => {
  assert.deepEqual(nativePlatforms(header([0, ELF], [18, [62, 0]])), ["linux-x86_64"]);
  assert.deepEqual(nativePlatforms(header([0, ELF], [18, [183, 0]])), ["linux-aarch64"]);
  assert.deepEqual(nativePlatforms(header([0, ELF], [7, [3]], [18, [62, 0]])), ["linux-x86_64"]);
  assert.deepEqual(nativePlatforms(header([0, ELF], [18, [243, 0]])), []);
  assert.deepEqual(nativePlatforms(header([0, ELF], [4, [1]], [18, [62, 0]])), []);
  assert.deepEqual(nativePlatforms(header([0, ELF], [7, [9]], [18, [62, 0]])), [], "FreeBSD");
});

Deno.test("Mach-O binaries are identified by processor, universal ones by every slice", () => {
  assert.deepEqual(nativePlatforms(header([0, [0xcf, 0xfa, 0xed, 0xfe, 0x0c, 0, 0, 1]])), ["darwin-aarch64"]);
  const fat = header([0, [0xca, 0xfe, 0xba, 0xbe, 0, 0, 0, 2]], [8, [1, 0, 0, 7]], [28, [1, 0, 0, 12]]);
  assert.deepEqual(nativePlatforms(fat), ["darwin-x86_64", "darwin-aarch64"]);
});

Deno.test("scripts, Java classes, Windows programs and short files are not identified", () => {
  assert.deepEqual(nativePlatforms(new TextEncoder().encode("#!/bin/sh\necho a long enough script\n")), []);
  assert.deepEqual(nativePlatforms(header([0, [0xca, 0xfe, 0xba, 0xbe, 0, 0, 0, 52]])), []);
  assert.deepEqual(nativePlatforms(header([0, [0x4d, 0x5a]])), []);
  assert.deepEqual(nativePlatforms(new Uint8Array(ELF)), []);
});

Deno.test("no bytes whatever make the reader fail", () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 200 }), fc.constantFrom(ELF, [0xca, 0xfe, 0xba, 0xbe], []), (tail, head) => {
      assert.ok(Array.isArray(nativePlatforms(Uint8Array.from([...head, ...tail]))));
    }),
  );
});
