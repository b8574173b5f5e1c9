import assert from "node:assert/strict";
import { parse } from "yaml";
import type { JsonObject } from "../../base/json_value.ts";
import { delegationWorld } from "../support/delegation_world.ts";

const EXAMPLE = new URL("../../examples/orchestrator/", import.meta.url);

async function example(path: string): Promise<JsonObject> {
  return parse(await Deno.readTextFile(new URL(path, EXAMPLE)));
}

Deno.test("the orchestrator of the example shows depth, envelope and outcomes, as its page says", async () => {
  const others = ["surveyor", "reader", "publisher"].map((name) => example(`${name}/murmur.yaml`));
  await using world = await delegationWorld(await example("murmur.yaml"), await Promise.all(others), [
    "--max-depth",
    "1",
  ]);
  const workdir = `${world.project.root}/work`;
  await Deno.mkdir(workdir);
  await Deno.writeTextFile(`${workdir}/README.md`, "# Title\n\nFirst words.\nMore.\n");
  await Deno.writeTextFile(`${workdir}/one.txt`, "");
  const run = await world.project.run({ task: "Look at this folder.", workdir, env: world.env });
  assert.equal(run.status, 0, run.stderr);
  assert.match(run.result!, /^Both are back\.\n/);
  assert.match(
    run.result!,
    /\nstatus: ok\n[^]*result:\nThere are 2 files\. Handing on: delegation depth bound reached: /,
  );
  assert.match(run.result!, /\nstatus: ok\n[^]*result:\nIt begins:\n# Title\n\nFirst words\.\n<\/untrusted-content>/);
  assert.deepEqual(run.events("delegation").map(({ outcome }) => outcome).sort(), ["ok", "ok", "refused"]);
  const refused = run.events("delegation").find(({ outcome }) => outcome === "refused")!;
  assert.match(String(refused.reason), /^capabilities\.network\.allow: the child declares 'https:\/\/example\.com'/);
});
