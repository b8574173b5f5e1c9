import assert from "node:assert/strict";
import fc from "fast-check";
import { bodyWithoutEchoedKeys, SHORTEST_ECHO, withoutEchoedKeys } from "./echoed_key.ts";

const KEY = "sk-0123456789/ab+cd";
const stars = (text: string) => "*".repeat(text.length);

function streamOf(pieces: readonly Uint8Array[]): ReadableStream<Uint8Array> {
  return ReadableStream.from(pieces) as ReadableStream<Uint8Array>;
}

async function textOf(body: ReadableStream<Uint8Array>): Promise<string> {
  return await new Response(body).text();
}

Deno.test("a key is blotted out of headers in every spelling, and placeholders are left", () => {
  const encoded = encodeURIComponent(KEY);
  assert.deepEqual(
    withoutEchoedKeys([["x-echo", `Bearer ${KEY}`], ["location", `/?k=${encoded}&k=${KEY}`]], [KEY]),
    [["x-echo", `Bearer ${stars(KEY)}`], ["location", `/?k=${stars(encoded)}&k=${stars(KEY)}`]],
  );
  const headers = [["x-model", "ollama"]] as const;
  assert.equal(withoutEchoedKeys(headers, ["ollama"]), headers);
});

Deno.test("a key is blotted out of a body however the body is cut, and nothing else is", async () => {
  await fc.assert(fc.asyncProperty(
    fc.array(fc.oneof(
      fc.constant(KEY),
      fc.constant(KEY.slice(0, 7)),
      fc.constant(KEY.replaceAll("/", "\\/")),
      fc.string({ unit: "grapheme" }),
    )),
    fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 1 }),
    async (parts, cuts) => {
      const text = parts.join("");
      const bytes = new TextEncoder().encode(text);
      const pieces: Uint8Array[] = [];
      for (let at = 0, i = 0; at < bytes.length; i++) {
        const length = cuts[i % cuts.length]!;
        pieces.push(bytes.subarray(at, at + length));
        at += length;
      }
      const escaped = KEY.replaceAll("/", "\\/");
      const expected = new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes)
        .replaceAll(escaped, stars(escaped)).replaceAll(KEY, stars(KEY));
      const got = new TextDecoder("utf-8", { ignoreBOM: true }).decode(
        new Uint8Array(await new Response(bodyWithoutEchoedKeys(streamOf(pieces), [KEY])).arrayBuffer()),
      );
      assert.equal(got, expected);
    },
  ));
});

Deno.test("only the beginning of a key waits for what follows", async () => {
  let give!: ReadableStreamDefaultController<Uint8Array>;
  const body = new ReadableStream<Uint8Array>({ start: (controller) => void (give = controller) });
  const reader = bodyWithoutEchoedKeys(body, [KEY]).getReader();
  const encoder = new TextEncoder();
  give.enqueue(encoder.encode("data: x\n\n"));
  assert.equal(new TextDecoder().decode((await reader.read()).value), "data: x\n\n");
  give.enqueue(encoder.encode("a sk-01"));
  assert.equal(new TextDecoder().decode((await reader.read()).value), "a ");
  give.enqueue(encoder.encode("!"));
  assert.equal(new TextDecoder().decode((await reader.read()).value), "sk-01!");
  give.close();
  assert.equal((await reader.read()).done, true);
});

Deno.test("keys too short to be any are not looked for", async () => {
  const short = "k".repeat(SHORTEST_ECHO - 1);
  assert.equal(await textOf(bodyWithoutEchoedKeys(streamOf([new TextEncoder().encode(short)]), [short, ""])), short);
});
