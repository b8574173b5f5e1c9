import assert from "node:assert/strict";
import { CL100K_TABLE } from "../runtime/agent/cl100k_table.ts";
import { packRanks } from "./build_token_table.ts";

Deno.test("the committed table holds the ranks of the tokenizer library", async () => {
  const packed = new Blob([Uint8Array.fromBase64(CL100K_TABLE)]).stream();
  const inflated = packed.pipeThrough(new DecompressionStream("deflate-raw"));
  assert.deepEqual(new Uint8Array(await new Response(inflated).arrayBuffer()), packRanks());
});
