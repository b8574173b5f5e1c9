import assert from "node:assert/strict";
import { importsOf, modules } from "../../scripts/check_layers.ts";

Deno.test("nothing outside loads a module of plans but when it is needed: a capsule without plans has none of it", async () => {
  const root = new URL("../..", import.meta.url).pathname;
  const found: string[] = [];
  let lazy = 0;
  for (const room of ["base", "artifact", "sandbox", "runtime", "cli"]) {
    for await (const path of modules(root, room)) {
      if (path.startsWith("runtime/plan/") || path.endsWith("_test.ts")) continue;
      for (const { to, dynamic, typeOnly } of importsOf(path, await Deno.readTextFile(`${root}/${path}`))) {
        if (!to.startsWith("runtime/plan/") || typeOnly) continue;
        if (dynamic) lazy++;
        else found.push(`${path} imports ${to}`);
      }
    }
  }
  assert.deepEqual(found, []);
  assert.ok(lazy > 0, "it is loaded from somewhere");
});
