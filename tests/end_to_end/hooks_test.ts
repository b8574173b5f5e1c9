import assert from "node:assert/strict";
import {
  agentProject,
  callsThenResults,
  capsule,
  hookEntry,
  shownResults,
  toolEntry,
} from "../support/agent_project.ts";

Deno.test("a hook is told of everything in order", async () => {
  await using project = await agentProject(capsule({
    artifacts: [
      toolEntry("probe-tool"),
      hookEntry("hook-all", { record: true }, { capabilities: { filesystem: { records: true } } }),
    ],
  }));
  const run = await project.run({
    task: callsThenResults({ name: "probe-tool", input: { operation: "echo", text: "x" } }),
  });
  console.log(run.stderr, run.stdout, run.traceText);
  console.log(shownResults(run));
  console.log(await Deno.readTextFile(`${run.records}/hooks/events.jsonl`));
});
