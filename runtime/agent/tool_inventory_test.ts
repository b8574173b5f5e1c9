import assert from "node:assert/strict";
import { parse } from "yaml";
import { RootedDir } from "../../base/rooted_dir.ts";
import { describeTool, installedTools, shellToolManifest, toolInventory } from "./tool_inventory.ts";

async function withTools(
  files: Record<string, string>,
  work: (tools: RootedDir, directory: string) => void,
): Promise<void> {
  const directory = await Deno.makeTempDir();
  try {
    for (const [path, text] of Object.entries(files)) {
      await Deno.mkdir(`${directory}/${path.slice(0, path.lastIndexOf("/"))}`, { recursive: true });
      await Deno.writeTextFile(`${directory}/${path}`, text);
    }
    using tools = RootedDir.open(directory);
    work(tools, directory);
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
}

const manifest = (name: string, runtime: string, more = "") =>
  `name: ${name}\nversion: 1.0.0\nruntime: ${runtime}\n${more}`;
const EMPTY = { type: "object", properties: {} };

Deno.test("tools and skills by name; drivers, hooks, files and unreadable manifests are not offered", () =>
  withTools({
    "zeta/murmur.yaml": manifest("zeta", "tool", "description: '  Last  '\n"),
    "alpha/murmur.yaml": manifest("alpha", "tool", "input_schema: {type: object, required: [a]}\n"),
    "as-json/murmur.yaml": manifest("as-json", "tool", `input_schema: '{"type":"object","properties":{"x":{}}}'\n`),
    "not-json/murmur.yaml": manifest("not-json", "tool", "input_schema: 'no json'\n"),
    "older/murmur.yaml": manifest("older", "tool", "input: {type: object, properties: {y: {}}}\n"),
    "driver/murmur.yaml": manifest("driver", "driver"),
    "hook/murmur.yaml": manifest("hook", "hook"),
    "broken/murmur.yaml": "name: [",
    "empty/other.txt": "",
    "a-file/../stray": "not a directory",
    "guide/murmur.yaml": manifest("guide", "skill", "input_schema: {type: object, required: [a]}\n"),
    "guide/skill.md": "\n  \n# How to  \nmore\n",
    "told/murmur.yaml": manifest("told", "skill", "description: Told\n"),
    "told/skill.md": "First line",
    "bound/murmur.yaml": manifest("bound", "skill"),
    "bound/skill.md": "prompt",
  }, (tools) => {
    const installed = installedTools(tools);
    assert.deepEqual(toolInventory(installed, "bound"), [
      { name: "alpha", parameters: { type: "object", required: ["a"] } },
      { name: "as-json", parameters: { type: "object", properties: { x: {} } } },
      { name: "guide", parameters: EMPTY, description: "# How to" },
      { name: "not-json", parameters: EMPTY },
      { name: "older", parameters: { type: "object", properties: { y: {} } } },
      { name: "told", parameters: EMPTY, description: "Told" },
      { name: "zeta", parameters: EMPTY, description: "Last" },
    ]);
    assert.equal(toolInventory(installed, null).some(({ name }) => name === "bound"), true);
    assert.equal(installed.find(({ name }) => name === "guide")?.skillText, "\n  \n# How to  \nmore\n");
    assert.equal(installed.find(({ name }) => name === "alpha")?.skillText, null);
    assert.ok(installed.some(({ name }) => name === "driver"));
  }));

Deno.test("a manifest behind a link is not read", () =>
  withTools({ "real/murmur.yaml": manifest("real", "tool"), "linked/x": "" }, (tools, directory) => {
    Deno.symlinkSync("../real/murmur.yaml", `${directory}/linked/murmur.yaml`);
    Deno.symlinkSync("real", `${directory}/alias`);
    assert.deepEqual(installedTools(tools).map(({ name }) => name), ["real"]);
  }));

Deno.test("an allowed shell binary becomes a tool with one required command", () =>
  withTools({ "bash/murmur.yaml": shellToolManifest("bash"), "jq/murmur.yaml": shellToolManifest("jq") }, (tools) => {
    const schema = { type: "object", properties: { command: { type: "string" } }, required: ["command"] };
    const [bash, jq] = toolInventory(installedTools(tools), null);
    assert.deepEqual([bash!.name, bash!.parameters, jq!.name, jq!.parameters], ["bash", schema, "jq", schema]);
    assert.match(bash!.description!, /script/);
    assert.match(jq!.description!, /arguments/);
    const { version, runtime, implementation } = parse(shellToolManifest("jq"));
    assert.deepEqual([version, runtime, implementation], ["0.0.0", "tool", "native"]);
    assert.equal(describeTool(installedTools(tools)[0]!)?.name, "bash");
  }));

Deno.test("a binary's name cannot change its manifest", () => {
  for (const name of ["a: b", "x\nruntime: hook", "'", '"', "- x", "#", "on"]) {
    const read = parse(shellToolManifest(name));
    assert.equal(read.name, name);
    assert.equal(read.runtime, "tool");
  }
});
