import assert from "node:assert/strict";
import { importsOf } from "../../scripts/check_layers.ts";

const ROOT = new URL("../..", import.meta.url).pathname;

/** What a module of the product loads as soon as it is loaded itself, whatever is below it. */
async function loadedBy(entry: string): Promise<ReadonlySet<string>> {
  const loaded = new Set<string>();
  const open = [entry];
  for (let path = open.pop(); path !== undefined; path = open.pop()) {
    if (loaded.has(path)) continue;
    loaded.add(path);
    for (const { to, dynamic, typeOnly } of importsOf(path, await Deno.readTextFile(`${ROOT}/${path}`))) {
      if (!dynamic && !typeOnly) open.push(to);
    }
  }
  return loaded;
}

Deno.test("a capsule that neither delegates nor was delegated loads nothing of delegation", async () => {
  for (const entry of ["cli/main.ts", "cli/run_capsule.ts", "runtime/session/run_session.ts"]) {
    const loaded = await loadedBy(entry);
    assert.deepEqual([...loaded].filter((path) => path.startsWith("runtime/delegation/")), [], entry);
  }
  // The way this looks finds what there is.
  assert.ok((await loadedBy("runtime/delegation/open_delegations.ts")).has("runtime/delegation/launch_child.ts"));
});
