import assert from "node:assert/strict";
import { cpuUsage } from "node:process";
import fc from "fast-check";
import { countTokens } from "gpt-tokenizer/encoding/cl100k_base";
import { bpeCounter, LONGEST_PIECE } from "./bpe_counter.ts";
import { CL100K_TABLE } from "./cl100k_table.ts";

const packed = new Blob([Uint8Array.fromBase64(CL100K_TABLE)]).stream();
const table = new Uint8Array(
  await new Response(packed.pipeThrough(new DecompressionStream("deflate-raw"))).arrayBuffer(),
);
const count = bpeCounter(table, LONGEST_PIECE);

/** Milliseconds of processor time, which others on the machine do not lengthen. */
function processorTime(sample: string): number {
  const before = cpuUsage();
  count(sample);
  const { user, system } = cpuUsage(before);
  return (user + system) / 1_000;
}

function libraryCount(text: string): number {
  return countTokens(text, { allowedSpecial: "all" });
}

/** Text without a piece over the limit, where the two must agree. */
const text = fc.array(
  fc.oneof(
    fc.string({ unit: "binary", maxLength: 20 }),
    fc.string({ unit: "grapheme", maxLength: 20 }),
    fc.stringMatching(/^[a-zA-Z]{0,40}$/),
    fc.stringMatching(/^[0-9]{0,20}$/),
    fc.stringMatching(/^[ \t\r\n]{0,20}$/),
    fc.constantFrom(
      "'s",
      "'LL",
      "don't",
      "\u00a0",
      "\u3000",
      "\ud800",
      "\udc00x",
      "漢字",
      "👩‍👩‍👧‍👦",
      "<|",
      "\0",
    ),
  ),
  { maxLength: 12 },
).map((parts) => parts.join(""));

Deno.test("counts are the tokenizer library's, for any text with pieces of ordinary length", () => {
  fc.assert(
    fc.property(text, (sample) => {
      assert.equal(count(sample), libraryCount(sample));
    }),
    { numRuns: 3_000 },
  );
});

Deno.test("known counts", () => {
  assert.equal(count(""), 0);
  assert.equal(count("hello world"), 2);
  // A special token counts as one where the library takes it for one: at the start.
  for (const sample of ["<|endoftext|>", "<|im_start|>user", "<|fim_prefix|>a<|fim_suffix|>", "a<|endoftext|>"]) {
    assert.equal(count(sample), libraryCount(sample));
  }
  assert.equal(count("<|endoftext|>"), 1);
  const source = Deno.readTextFileSync(new URL("./bpe_counter.ts", import.meta.url));
  assert.equal(count(source), libraryCount(source));
});

Deno.test("a piece of the longest length is merged, a longer one counts as a quarter of its bytes", () => {
  for (const unit of ["a", "x", "!", " ", "\n", "é", "漢", "😀"]) {
    const bytes = new TextEncoder().encode(unit).length;
    const fits = unit.repeat(Math.floor(LONGEST_PIECE / bytes));
    assert.equal(count(fits), libraryCount(fits));
    const over = unit.repeat(Math.floor(LONGEST_PIECE / bytes) + 1);
    assert.equal(count(over), Math.ceil(new TextEncoder().encode(over).length / 4));
  }
  // Digits never make a long piece.
  assert.equal(count("1".repeat(3_000)), 1_000);
});

Deno.test("256 KB of anything within 300 ms", async (t) => {
  const size = 256 * 1024;
  let seed = 1;
  const random = (below: number) => {
    seed = (Math.imul(seed, 1_103_515_245) + 12_345) >>> 0;
    return (seed >>> 8) % below;
  };
  const fill = (next: () => string) => {
    let result = "";
    for (let bytes = 0; bytes < size;) {
      const part = next();
      result += part;
      bytes += new TextEncoder().encode(part).length;
    }
    return result;
  };
  const run = (length: number, next: () => string) => {
    let result = "";
    while (result.length < length) result += next();
    return result;
  };
  const letter = () => String.fromCharCode(97 + random(26));
  const samples: Record<string, string> = {
    "one letter": "a".repeat(size),
    "one letter, in the longest pieces that are merged": fill(() => `${"a".repeat(LONGEST_PIECE - 1)} `),
    "random letters in longest pieces": fill(() => `${run(LONGEST_PIECE - 1, letter)} `),
    "random capitals": fill(() => String.fromCharCode(65 + random(26))),
    "digits": fill(() => String(random(10))),
    "letters and digits by turns": fill(() => letter() + random(10)),
    "punctuation in longest pieces": fill(() => `${run(LONGEST_PIECE - 1, () => "!@#$%^&*()-=+[]{};:"[random(19)]!)}a`),
    "spaces": " ".repeat(size),
    "spaces in longest pieces": fill(() => `${" ".repeat(LONGEST_PIECE - 1)}x`),
    "newlines and spaces": fill(() => "\n \t"[random(3)]!),
    "emoji": fill(() => "😀"),
    "emoji in longest pieces": fill(() => `${"😀".repeat(LONGEST_PIECE / 4 - 1)} a`),
    "CJK": fill(() => "漢字仮名交じり文"[random(8)]!),
    "random CJK in longest pieces": fill(() => `${run(169, () => String.fromCharCode(0x4e00 + random(20_000)))} `),
    "any character": fill(() => String.fromCodePoint(random(0xd7ff) + 1)),
    "lone surrogates": fill(() => String.fromCharCode(0xd800 + random(2_048))),
    "random bytes as text": new TextDecoder("latin1").decode(Uint8Array.from({ length: size }, () => random(256))),
    "base64": fill(() => btoa(String.fromCharCode(random(256), random(256), random(256)))),
  };
  for (const [name, sample] of Object.entries(samples)) {
    await t.step(name, () => {
      const time = Math.min(processorTime(sample), processorTime(sample));
      assert.ok(time < 300, `${time.toFixed(0)} ms`);
    });
  }
});

Deno.test("time grows no faster than the text", () => {
  const sample = "Aa1! é漢😀\n".repeat(30_000);
  processorTime(sample);
  const small = Math.min(processorTime(sample), processorTime(sample), processorTime(sample));
  const large = Math.min(processorTime(sample.repeat(8)), processorTime(sample.repeat(8)));
  assert.ok(large < 8 * small * 3, `${small.toFixed(1)} ms, eightfold ${large.toFixed(1)} ms`);
});
