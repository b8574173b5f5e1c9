import assert from "node:assert/strict";
import fc from "fast-check";
import { GuestOutput, MAX_STDIO_BYTES } from "./guest_output.ts";

const encoder = new TextEncoder();

function linesOf(parts: readonly string[], bounded = true): string[] {
  const lines: string[] = [];
  const output = new GuestOutput((stream, line) => lines.push(`${stream} ${line}`), bounded);
  for (const part of parts) output.write("stdout", encoder.encode(part));
  output.finish();
  return lines;
}

Deno.test("bytes come out as lines, however they were cut", () => {
  fc.assert(fc.property(fc.array(fc.stringMatching(/^[ -~é😀]*$/u)), fc.array(fc.nat()), (lines, cuts) => {
    const bytes = encoder.encode(lines.map((line) => `${line}\n`).join(""));
    const got: string[] = [];
    const output = new GuestOutput((_, line) => got.push(line), true);
    const points = cuts.map((cut) => cut % (bytes.length + 1)).sort((a, b) => a - b);
    let from = 0;
    for (const to of [...points, bytes.length]) {
      output.write("stdout", bytes.subarray(from, to));
      from = to;
    }
    output.finish();
    assert.deepEqual(got, lines);
  }));
});

Deno.test("a line without an end, CRLF, and bytes that are no UTF-8", () => {
  assert.deepEqual(linesOf(["a\r\n\r\nb"]), ["stdout a", "stdout ", "stdout b"]);
  const lines: string[] = [];
  const output = new GuestOutput((_, line) => lines.push(line), true);
  output.write("stderr", new Uint8Array([0x61, 0xff, 0x0a]));
  output.write("stdout", encoder.encode("x"));
  output.write("stderr", encoder.encode("y\n"));
  output.finish();
  assert.deepEqual(lines, ["a\ufffd", "y", "x"]);
});

Deno.test("a line of megabytes comes in pieces; the bound and the rest are told", () => {
  const lines = linesOf(["x".repeat(MAX_STDIO_BYTES + 10)]);
  assert.equal(lines.length, 17);
  assert.equal(lines[16], `stderr (10 bytes of output beyond ${MAX_STDIO_BYTES} were dropped)`);
  assert.equal(linesOf(["x\n".repeat(MAX_STDIO_BYTES)], false).length, MAX_STDIO_BYTES);
});

Deno.test("without a listener nothing is kept", () => {
  const output = new GuestOutput(undefined, true);
  output.write("stdout", encoder.encode("a\nb"));
  output.dropped(3);
  output.finish();
});
