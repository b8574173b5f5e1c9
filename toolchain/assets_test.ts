import assert from "node:assert/strict";
import { setEmbeddedPrograms } from "../base/program.ts";
import { assets, AUTHOR_MODULES, CARRIED_ASSETS, collectAssets } from "./assets.ts";
import { bundleComponent } from "./bundle.ts";
import { loadEngine } from "./engine.ts";
import { checkTypes } from "./type_check.ts";

Deno.test("the assets are plain JSON, complete and the same every time", async () => {
  const collected = await collectAssets();
  const carried = JSON.parse(JSON.stringify(collected)) as typeof collected;
  assert.deepEqual(carried, await collectAssets());
  for (const name of AUTHOR_MODULES) assert.ok(carried.library[`${name}.js`] !== undefined, name);
  for (const text of Object.values(carried.library)) {
    assert.ok(
      !/\basync (?:function|\()|\bawait\b/.test(text.replace(/"[^"\n]*"|`[^`]*`/g, "")),
      "async code was not lowered",
    );
    assert.ok(!/^\/\/ \.\.\//m.test(text) && !text.includes(Deno.cwd()), "a path of this machine");
  }
  assert.ok(Object.keys(carried.types).every((name) => !name.endsWith("_test.ts")));
  assert.match(carried.wit["murmur-runtime-guest"] ?? "", /world driver/);

  const directory = await Deno.makeTempDir({ prefix: "murmur-assets-" });
  try {
    await Deno.mkdir(`${directory}/toolchain`);
    await Deno.writeTextFile(`${directory}/${CARRIED_ASSETS}`, JSON.stringify(collected));
    setEmbeddedPrograms({ componentHost: "", bundle: `file://${directory}/entry.js` });
    assert.deepEqual(await assets(), carried);
    const entry = `${directory}/tool.ts`;
    await Deno.writeTextFile(
      entry,
      'import { defineTool } from "murmur/tool";\nexport default defineTool({ run: async () => "x" });\n',
    );
    await checkTypes(entry, "tool", carried.types, carried.lib);
    const { code } = await bundleComponent(entry, "tool", carried.library);
    assert.ok(
      !code.includes(directory) && !code.includes(directory.slice(1)),
      "the place of the source is in the code",
    );
    assert.match(code, /import \* as task from "murmur:task\/task"/);
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
});

Deno.test("files of the current directory do not stand in for the guest library", async () => {
  const directory = await Deno.makeTempDir({ prefix: "murmur-assets-" });
  try {
    for (const name of ["library", ...AUTHOR_MODULES]) {
      await Deno.writeTextFile(`${directory}/${name}.ts`, "export default 1;\n");
    }
    await Deno.writeTextFile(`${directory}/component`, "not the entry\n");
    await Deno.writeTextFile(`${directory}/tool.ts`, 'import { defineTool } from "murmur/tool";\ndefineTool;\n');
    const module = (name: string) => JSON.stringify(new URL(name, import.meta.url).href);
    const script = `
      import { collectAssets } from ${module("assets.ts")};
      import { bundleComponent } from ${module("bundle.ts")};
      const { library } = await collectAssets();
      const { code } = await bundleComponent("tool.ts", "tool", library);
      console.log(JSON.stringify({ library, code }));
    `;
    await Deno.writeTextFile(`${directory}/main.ts`, script);
    const { code: status, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
      args: ["run", "-A", "--quiet", "--config", new URL("../deno.json", import.meta.url).pathname, "main.ts"],
      cwd: directory,
    }).output();
    assert.equal(status, 0, new TextDecoder().decode(stderr));
    const { library, code } = JSON.parse(new TextDecoder().decode(stdout)) as { library: unknown; code: string };
    assert.deepEqual(library, (await collectAssets()).library);
    assert.match(code, /murmur:task\/task/);
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
});

Deno.test("a program in one file can carry the engine too", async () => {
  const { engine = "" } = await collectAssets(true);
  assert.deepEqual(Uint8Array.fromBase64(engine), await loadEngine());
});
