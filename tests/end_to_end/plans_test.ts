/**
 * Plans of a run: their steps with real tools and commands, what they may not do, and how they end (spec components 12).
 *
 * @module
 */
import type { JsonObject } from "../../base/json_value.ts";
import assert from "node:assert/strict";
import {
  agentProject,
  type AgentRun,
  callsThenResults,
  capsule,
  shownResults,
  toolEntry,
} from "../support/agent_project.ts";

Deno.test("smoke", async () => {
  await using project = await agentProject(capsule({
    capabilities: { shell: { allow: ["sh", "echo"] }, plan: { submit: true } },
    artifacts: [toolEntry("probe-tool")],
  }));
  const run = await project.run({
    task: callsThenResults({
      name: "submit-plan",
      input: {
        id: "p1",
        steps: [
          { id: "a", shell: "echo 'hello world'" },
          {
            id: "b",
            tool: "probe-tool",
            input: { operation: "write", path: "x", text: "$a.output" },
            depends_on: ["a"],
            if: "$a.status == 'success'",
          },
          { id: "c", tool: "probe-tool", input: { operation: "read", path: "x" }, depends_on: ["b"] },
          { id: "d", capsule: "worker", input: "do", on_error: "continue" },
        ],
      },
    }),
  });
  console.log(run.stderr, run.result);
  console.log(run.trace.map((l) => JSON.stringify(l)).slice(2).join("\n"));
});
