import assert from "node:assert/strict";
import { modulesLoadedBy } from "../tests/support/loaded_modules.ts";

Deno.test("the start loads a few modules of this program and nothing else", async () => {
  const root = new URL("..", import.meta.url).href;
  const modules = await modulesLoadedBy(new URL("main.ts", import.meta.url));
  assert.ok(modules.length > 10 && modules.length < 30, modules.join("\n"));
  for (const specifier of modules) {
    // No package, no module of Node's, no parser of manifests, nothing that decides. The kernel is called to listen.
    assert.ok(specifier.startsWith(`${root}base/`) || specifier.startsWith(`${root}roost/`), specifier);
    assert.doesNotMatch(specifier, /\/(mac_token|referee|find_artifact|ledger)\.ts$/);
  }
});
