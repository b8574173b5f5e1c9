/**
 * Writes `runtime/agent/cl100k_table.ts`: the ranks of `cl100k_base` from the tokenizer library, packed for
 * `runtime/agent/bpe_counter.ts`. Run it after the library's version changed; a test compares the two.
 *
 * @module
 */
import ranks from "gpt-tokenizer/bpeRanks/cl100k_base";

/** The table as `bpeCounter` reads it. */
export function packRanks(): Uint8Array<ArrayBuffer> {
  const encoder = new TextEncoder();
  const tokens = ranks.map((token) => typeof token === "string" ? encoder.encode(token) : Uint8Array.from(token));
  const total = tokens.reduce((sum, token) => sum + token.length, 0);
  const table = new Uint8Array(4 + tokens.length + total);
  new DataView(table.buffer).setUint32(0, tokens.length, true);
  let at = 4 + tokens.length;
  tokens.forEach((token, rank) => {
    table[4 + rank] = token.length;
    table.set(token, at);
    at += token.length;
  });
  return table;
}

async function main(): Promise<void> {
  const stream = new Blob([packRanks()]).stream().pipeThrough(new CompressionStream("deflate-raw"));
  const packed = new Uint8Array(await new Response(stream).arrayBuffer());
  const text = `/**
 * The ranks of \`cl100k_base\`, made by \`scripts/build_token_table.ts\` from gpt-tokenizer (MIT): raw deflate, base64.
 *
 * @module
 */

/** Inflated: what \`bpeCounter\` takes. */
export const CL100K_TABLE =
  "${packed.toBase64()}";
`;
  await Deno.writeTextFile(new URL("../runtime/agent/cl100k_table.ts", import.meta.url), text);
}

if (import.meta.main) await main();
