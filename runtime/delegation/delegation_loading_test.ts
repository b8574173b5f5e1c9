import assert from "node:assert/strict";
import { modulesLoadedBy } from "../../tests/support/loaded_modules.ts";

const ROOT = new URL("../../", import.meta.url);
const DELEGATION = new URL("runtime/delegation/", ROOT).href;

Deno.test("a capsule that neither delegates nor was delegated loads nothing of delegation", async () => {
  const entries = ["cli/main.ts", "cli/run_capsule.ts", "runtime/session/run_session.ts"];
  const loaded = await Promise.all(entries.map((entry) => modulesLoadedBy(new URL(entry, ROOT))));
  for (const [index, modules] of loaded.entries()) {
    assert.deepEqual(modules.filter((module) => module.startsWith(DELEGATION)), [], entries[index]);
  }
  // The way this looks finds what there is.
  const opened = await modulesLoadedBy(new URL("open_delegations.ts", DELEGATION));
  assert.ok(opened.includes(`${DELEGATION}launch_child.ts`));
});
