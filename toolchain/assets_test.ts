import assert from "node:assert/strict";
import { assets, AUTHOR_MODULES, collectAssets, useAssets } from "./assets.ts";
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
    assert.ok(!text.includes(Deno.cwd()), "a path of this machine");
  }
  assert.ok(Object.keys(carried.types).every((name) => !name.endsWith("_test.ts")));
  assert.match(carried.wit["murmur-runtime-guest"] ?? "", /world driver/);

  useAssets(carried);
  assert.equal(await assets(), carried);
  const directory = await Deno.makeTempDir({ prefix: "murmur-assets-" });
  try {
    const entry = `${directory}/tool.ts`;
    await Deno.writeTextFile(
      entry,
      'import { defineTool } from "murmur/tool";\nexport default defineTool({ run: async () => "x" });\n',
    );
    await checkTypes(entry, carried.types, carried.lib);
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

Deno.test("a program in one file can carry the engine too", async () => {
  const { engine = "" } = await collectAssets(true);
  assert.deepEqual(Uint8Array.fromBase64(engine), await loadEngine());
});
