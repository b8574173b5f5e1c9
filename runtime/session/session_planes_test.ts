import assert from "node:assert/strict";
import { importsOf } from "../../scripts/check_layers.ts";

const ROOT = new URL("../../", import.meta.url);

/** Everything that is loaded when a module is. */
async function loadedWith(entry: string): Promise<ReadonlySet<string>> {
  const loaded = new Set<string>();
  const pending = [entry];
  for (let path = pending.pop(); path !== undefined; path = pending.pop()) {
    if (loaded.has(path)) continue;
    loaded.add(path);
    for (const { to, dynamic, typeOnly } of importsOf(path, await Deno.readTextFile(new URL(path, ROOT)))) {
      if (!dynamic && !typeOnly) pending.push(to);
    }
  }
  return loaded;
}

Deno.test("a capsule that declares no plane loads nothing of them", async () => {
  const ofPlanes = (path: string) =>
    /^planes\/|^runtime\/peer_files\/|\/(session_planes|plane_endpoint)\.ts$/.test(path);
  for (const entry of ["runtime/session/run_session.ts", "cli/main.ts", "cli/run_capsule.ts"]) {
    const loaded = await loadedWith(entry);
    assert.ok(loaded.size > 5);
    assert.deepEqual([...loaded].filter(ofPlanes), [], entry);
  }
  assert.ok([...await loadedWith("runtime/session/session_planes.ts")].filter(ofPlanes).length > 10);
});
