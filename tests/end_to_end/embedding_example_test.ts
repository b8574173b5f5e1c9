import assert from "node:assert/strict";
import { agentProject, capsule } from "../support/agent_project.ts";

const EXAMPLE = new URL("../../examples/embedding/", import.meta.url);

Deno.test("the example of a capsule in a program of one's own runs as its documentation says", async () => {
  await using project = await agentProject(capsule());
  // A launch pins what it found in a lock beside the manifest; the checkout's example stays as it is.
  const source = await Deno.readTextFile(new URL("main.ts", EXAMPLE));
  const library = new URL("../../mod.ts", import.meta.url).href;
  const program = `${project.root}/example/main.ts`;
  await Deno.mkdir(`${project.root}/example`);
  await Deno.writeTextFile(program, source.replace("../../mod.ts", library));
  await Deno.copyFile(new URL("murmur.yaml", EXAMPLE), `${project.root}/example/murmur.yaml`);
  await project.write("one", "");
  const { success, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", "--quiet", "--config", new URL("../../deno.json", import.meta.url).pathname, program],
    cwd: project.project,
    env: { HOME: project.home },
    stdout: "piped",
    stderr: "piped",
  }).output();
  const said = new TextDecoder().decode(stdout);
  assert.ok(success, new TextDecoder().decode(stderr));
  assert.match(said, /^embedded serves on localhost:\d+$/m);
  assert.equal(said.match(/ {2}sh was called/g)?.length, 2);
  assert.match(said, /^What is here\? There are 2 entries/m);
  assert.match(said, /^The trace is in .+\/ses_[0-9a-f]{32}$/m);
});
