import assert from "node:assert/strict";
import { pathExists } from "./path_exists.ts";

Deno.test("files, folders and links exist, wherever a link leads; nothing else does, and what cannot be told is no answer", async () => {
  const directory = await Deno.makeTempDir();
  try {
    await Deno.writeTextFile(`${directory}/file`, "");
    await Deno.symlink("nowhere", `${directory}/link`);
    for (const path of [directory, `${directory}/file`, `${directory}/link`]) assert.ok(await pathExists(path), path);
    for (const path of [`${directory}/none`, `${directory}/link/below`]) assert.ok(!await pathExists(path), path);
    await assert.rejects(pathExists(`${directory}/file/below`));
    await assert.rejects(pathExists(`${directory}/${"x".repeat(300)}`));
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
});
