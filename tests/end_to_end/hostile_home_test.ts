/**
 * A work folder that holds the home of keys and records, or lies in it (spec components 5, session 4.2, 4.7).
 *
 * @module
 */
import type { JsonObject } from "../../base/json_value.ts";
import assert from "node:assert/strict";
import { agentProject, capsule, shownResults, toolEntry } from "../support/agent_project.ts";

Deno.test("a component gets nothing of ~/.murmur, whatever the work folder is", async () => {
  await using project = await agentProject(capsule({ artifacts: [toolEntry("probe-tool")] }));
  const config = `${project.murmur}/config.yaml`;
  const kept = `credentials: { SOME_KEY: "sk-0123456789abcdef" }\n`;
  await Deno.writeTextFile(config, kept, { mode: 0o600 });
  await Deno.writeTextFile(`${project.home}/notes.txt`, "mine");
  const probe = (operation: string, path: string): JsonObject => ({
    name: "probe-tool",
    input: { operation, path, to: "taken", text: "changed" },
  });
  const run = await project.run({
    workdir: project.home,
    task: {
      turns: [{
        calls: [
          probe("read", "notes.txt"),
          probe("read", ".murmur/config.yaml"),
          probe("write", ".murmur/config.yaml"),
          probe("rename", ".murmur/config.yaml"),
          probe("rename", ".murmur"),
          probe("list", ".murmur"),
          probe("list", ".murmur/records"),
          probe("write", ".murmur/compiled/new"),
          probe("remove", ".murmur"),
        ],
      }, { show: "results" }],
    },
  });
  assert.equal(run.status, 0, run.stderr);
  const [notes, ...others] = shownResults(run);
  assert.match(notes!.text, /mine/);
  assert.equal(others.length, 8);
  for (const { error, text } of others) assert.ok(error, text);
  assert.equal(await Deno.readTextFile(config), kept);

  for (const workdir of [project.murmur, `${project.murmur}/sessions`]) {
    const refused = await project.run({ workdir, task: "x" });
    assert.equal(refused.status, 1);
    assert.match(refused.stderr, /error\[E-IO-003\]: the work folder .* lies in .*\.murmur/);
  }
});
