import assert from "node:assert/strict";
import { sha256Hex } from "../artifact/sha256.ts";
import { TranspileCache } from "../runtime/component/transpile_cache.ts";
import { testContext, withTempDir, writeFiles } from "../tests/support/cli_context.ts";
import { EMPTY_COMPONENT, packedArtifact } from "../tests/support/packed_artifact.ts";
import { precompile } from "./precompile.ts";

Deno.test("components of tools, drivers and hooks are translated once; the rest is told apart", async () => {
  await withTempDir(async (directory) => {
    await writeFiles(directory, {
      "t.mur.zip": await packedArtifact({ name: "t", runtime: "tool", files: { "capsule.wasm": EMPTY_COMPONENT } }),
      "s.mur.zip": await packedArtifact({ name: "s" }),
      "c.mur.zip": await packedArtifact({ name: "c", runtime: "capsule" }),
      "bad.mur.zip": await packedArtifact({ name: "bad", runtime: "hook", files: { "capsule.wasm": "no component" } }),
      "broken.mur.zip": "x",
      "home/x": "",
    });
    const context = () => testContext(directory, { HOME: `${directory}/home` });
    const first = context();
    assert.equal(await precompile(first, {}, "t.mur.zip", "s.mur.zip", "c.mur.zip"), 0);
    assert.equal(first.out(), "compiled        t@1.0.0\nnot wasm        s@1.0.0\nnot wasm        c@1.0.0\n");
    // A launch finds the translation by the archive alone.
    const archive = await sha256Hex(await Deno.readFile(`${directory}/t.mur.zip`));
    const cache = new TranspileCache(`${directory}/home/.murmur/compiled`);
    assert.equal(cache.remembered("archive", archive), await sha256Hex(EMPTY_COMPONENT));
    const second = context();
    assert.equal(
      await precompile(second, { json: true }, "./t.mur.zip", "bad.mur.zip", "broken.mur.zip", "gone.mur.zip"),
      1,
    );
    assert.deepEqual(JSON.parse(second.out()), {
      mur_version: "0.1.0",
      decompression_ceiling: 524288000,
      artifacts: [
        { path: "./t.mur.zip", name: "t", version: "1.0.0", outcome: "already_stored" },
        { path: "bad.mur.zip", name: "bad", version: "1.0.0", outcome: "failed" },
        { path: "broken.mur.zip", name: null, version: null, outcome: "failed" },
        { path: "gone.mur.zip", name: null, version: null, outcome: "failed" },
      ],
    });
    assert.equal(second.err().match(/^warning: /gm)?.length, 3);
    assert.equal((await Deno.stat(`${directory}/home/.murmur`)).mode! & 0o777, 0o700);
  });
});

Deno.test("nothing is stored when the home lies inside the work folder", async () => {
  await withTempDir(async (directory) => {
    await writeFiles(directory, { "t.mur.zip": await packedArtifact({ name: "t", runtime: "tool" }), "home/x": "" });
    await Deno.symlink(directory, `${directory}/home/link`);
    for (const workdir of [".", "home", "home/link"]) {
      const context = testContext(directory, { HOME: `${directory}/home` });
      assert.equal(await precompile(context, { workdir }, "t.mur.zip"), 1);
      assert.match(context.err(), /lies inside the work folder/);
      await assert.rejects(() => Deno.stat(`${directory}/home/.murmur`), Deno.errors.NotFound);
    }
    const context = testContext(directory, { HOME: `${directory}/home` });
    assert.equal(await precompile(context, { workdir: "elsewhere" }, "t.mur.zip"), 0);
  });
});
