import assert from "node:assert/strict";
import { agentProject } from "../support/agent_project.ts";

Deno.test("the example of a plan runs as its documentation says", async () => {
  const manifest = await Deno.readTextFile(new URL("../../examples/plan/murmur.yaml", import.meta.url));
  await using project = await agentProject(manifest);
  await project.write("folder/one.md", "");
  await project.write("folder/two.md", "");
  const run = await project.run({ workdir: `${project.project}/folder`, task: "Count the pages." });
  assert.equal(run.status, 0, run.stderr);
  assert.match(run.result!, /^There are 2\s+pages, and no licence\.$/);
  assert.equal((await project.read("folder/pages.txt")).trim(), "2");
  assert.deepEqual(
    run.events("plan_step").map(({ step_id, status }) => `${status} ${step_id}`).toSorted(),
    ["failed licence", "success files", "success read", "success report"],
  );
});
