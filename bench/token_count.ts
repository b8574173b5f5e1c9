/**
 * Counting tokens: our counter against the library whose counts it gives, and against the bound of 300 ms for 256 KB of
 * anything (spec session 9.3).
 *
 * The peer is asked for ordinary text only: 256 KB of one letter or of emoji takes it minutes.
 *
 * @module
 */
import { LONGEST_PIECE } from "../runtime/agent/bpe_counter.ts";
import { TokenCounter } from "../runtime/agent/token_count.ts";
import { type BenchResult, type Figure, median } from "./result.ts";

const SIZE = 256 * 1024;
const BOUND = 300;

/** The same pseudo-random text in every run. */
function source(): (below: number) => number {
  let seed = 1;
  return (below) => {
    seed = (Math.imul(seed, 1_103_515_245) + 12_345) >>> 0;
    return (seed >>> 8) % below;
  };
}

function fill(bytes: number, next: () => string): string {
  const parts: string[] = [];
  for (let length = 0; length < bytes;) {
    const part = next();
    parts.push(part);
    length += new TextEncoder().encode(part).length;
  }
  return parts.join("");
}

function hostileTexts(): Record<string, string> {
  const random = source();
  const piece = (next: () => string) => fill(LONGEST_PIECE - 8, next);
  return {
    "one letter": "a".repeat(SIZE),
    "one letter in long pieces": fill(SIZE, () => `${piece(() => "a")} `),
    "random letters in long pieces": fill(SIZE, () => `${piece(() => String.fromCharCode(97 + random(26)))} `),
    "digits": fill(SIZE, () => String(random(10))),
    "emoji in long pieces": fill(SIZE, () => `${piece(() => "😀")} a`),
    "CJK in long pieces": fill(SIZE, () => `${piece(() => String.fromCharCode(0x4e00 + random(20_000)))} `),
    "white space in long pieces": fill(SIZE, () => `${piece(() => " ")}x`),
    "random bytes as text": new TextDecoder("latin1").decode(Uint8Array.from({ length: SIZE }, () => random(256))),
    "any character": fill(SIZE, () => String.fromCodePoint(random(0xd7ff) + 1)),
  };
}

function ordinaryText(): string {
  const words = "the of and to in is you that it he was for on are as with his they at be this from I have or by".split(
    " ",
  );
  const random = source();
  return fill(SIZE, () => `${words[random(words.length)]}${random(12) === 0 ? ".\n" : " "}`);
}

async function timed(work: () => unknown): Promise<number> {
  const before = performance.now();
  await work();
  return performance.now() - before;
}

async function medianOf(count: number, work: () => unknown): Promise<number> {
  const samples: number[] = [];
  for (let i = 0; i < count; i++) samples.push(await timed(work));
  return median(samples);
}

/** Resident memory in MB; the kernel's figure, so that a worker's is in it. */
function residentMb(): number {
  return Deno.memoryUsage().rss / 1e6;
}

/** What the library takes in a process of its own, without a worker. */
async function peerMemoryMb(): Promise<number> {
  const script = `const before = Deno.memoryUsage().rss;
    const { countTokens } = await import("gpt-tokenizer/encoding/cl100k_base");
    countTokens("x");
    console.log((Deno.memoryUsage().rss - before) / 1e6);`;
  const command = new Deno.Command(Deno.execPath(), {
    args: ["eval", "--quiet", script],
    cwd: new URL("..", import.meta.url),
    stderr: "inherit",
  });
  return Number(new TextDecoder().decode((await command.output()).stdout));
}

/** Runs the benchmark. */
export async function run(): Promise<BenchResult> {
  const figures: Figure[] = [];
  const ordinary = ordinaryText();
  const before = residentMb();
  const counter = new TokenCounter({
    report: (text) => {
      throw new Error(text);
    },
  });
  figures.push({
    what: "first count, the worker's start in it",
    value: await timed(() => counter.text("x")),
    unit: "ms",
  });
  figures.push({ what: "resident memory of worker and table", value: residentMb() - before, unit: "MB" });
  const ours = await medianOf(9, () => counter.text(ordinary));
  figures.push({ what: "256 KB of English", value: ours, unit: "ms", atMost: BOUND });
  for (const [name, text] of Object.entries(hostileTexts())) {
    figures.push({
      what: `256 KB: ${name}`,
      value: await medianOf(5, () => counter.text(text)),
      unit: "ms",
      atMost: BOUND,
    });
  }
  counter.close();

  let countTokens: (text: string) => number = () => 0;
  const load = await timed(async () => ({ countTokens } = await import("gpt-tokenizer/encoding/cl100k_base")));
  figures.push({ what: "gpt-tokenizer: load", value: load, unit: "ms" });
  figures.push({ what: "gpt-tokenizer: resident memory", value: await peerMemoryMb(), unit: "MB" });
  const theirs = await medianOf(9, () => countTokens(ordinary));
  figures.push({ what: "gpt-tokenizer: 256 KB of English, on the event loop", value: theirs, unit: "ms" });
  figures.push({ what: "256 KB of English against gpt-tokenizer", value: ours / theirs, unit: "x" });
  return { name: "token-count", figures };
}
