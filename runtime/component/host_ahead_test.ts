import assert from "node:assert/strict";
import { checkoutHelper } from "../../sandbox/confine_helper.ts";
import { startHostAhead, takeHostAhead } from "./host_ahead.ts";
import { componentHostScript } from "./host_program.ts";
import { textTool } from "./testing/guests.ts";
import { Harness } from "./testing/harness.ts";

Deno.test("the host started ahead runs the first call; there is one, for one taker", async () => {
  const componentHost = await componentHostScript();
  assert.ok(componentHost !== null);
  assert.equal(takeHostAhead(), null);
  startHostAhead({ hostScript: componentHost, confineHelper: await checkoutHelper() });
  const ahead = takeHostAhead();
  assert.ok(ahead !== null);
  assert.equal(takeHostAhead(), null);
  await using harness = new Harness({ ahead });
  assert.deepEqual(harness.runtime.pids, [ahead.pid]);
  const spec = await harness.spec(await textTool("(i32.const 1024)"));
  assert.equal((await harness.call(spec, null)).status, "passed");
  assert.equal(ahead.loaded, 1);
});

Deno.test("a host that can't be started ahead is started, or its failure told, later", async () => {
  startHostAhead({ hostScript: "", confineHelper: "/nowhere/mur-confine" });
  const ahead = takeHostAhead();
  assert.equal(ahead, null);
  await using harness = new Harness({ ahead });
  const spec = await harness.spec(await textTool("(i32.const 1024)"));
  assert.equal((await harness.call(spec, null)).status, "passed");
});

Deno.test("a host that died before it was taken costs the first call a start and nothing else", async () => {
  const componentHost = await componentHostScript();
  startHostAhead({ hostScript: componentHost, confineHelper: await checkoutHelper() });
  const ahead = takeHostAhead()!;
  Deno.kill(ahead.pid, "SIGKILL");
  await using harness = new Harness({ ahead });
  const spec = await harness.spec(await textTool("(i32.const 1024)"));
  assert.equal((await harness.call(spec, null)).status, "passed");
  assert.ok(!harness.runtime.pids.includes(ahead.pid));
});
