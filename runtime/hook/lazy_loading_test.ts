import assert from "node:assert/strict";
import { modulesLoadedBy } from "../../tests/support/loaded_modules.ts";

Deno.test("a session loads the modules of hooks only when it has one", async () => {
  const loaded = await modulesLoadedBy(new URL("../session/run_session.ts", import.meta.url));
  assert.ok(loaded.some((module) => module.endsWith("/runtime/agent/turn_loop.ts")));
  assert.deepEqual(loaded.filter((module) => module.includes("/runtime/hook/")), []);
});
