import assert from "node:assert/strict";

const ROOT = new URL("..", import.meta.url);
/** Rooms whose code ends up in the bundle. */
const ROOMS = ["base", "artifact", "sandbox", "planes", "toolchain", "runtime", "cli", "roost"];

async function* sources(directory: URL): AsyncGenerator<URL> {
  for await (const { name, isDirectory } of Deno.readDir(directory)) {
    const url = new URL(`${name}${isDirectory ? "/" : ""}`, directory);
    if (isDirectory) yield* sources(url);
    else if (name.endsWith(".ts") && !name.endsWith("_test.ts")) yield url;
  }
}

Deno.test("nothing is held by a second name of a variable: the bundler's minifier drops that `using`, and it leaks", async () => {
  const found: string[] = [];
  for (const room of ROOMS) {
    const directory = new URL(`${room}/`, ROOT);
    if (!await Deno.stat(directory).then(() => true, () => false)) continue;
    for await (const url of sources(directory)) {
      const text = await Deno.readTextFile(url);
      for (const [line] of text.matchAll(/^\s*(?:await )?using \w+ = \w+;$/gm)) {
        found.push(`${url.pathname}: ${line.trim()}`);
      }
    }
  }
  assert.deepEqual(found, []);
});
