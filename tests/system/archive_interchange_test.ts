import assert from "node:assert/strict";
import { sandbox } from "../support/mur_process.ts";

Deno.test("unzip reads what mur build packs, and mur reads what another zip program left unchanged", async () => {
  await using place = await sandbox();
  await place.write(
    "murmur.yaml",
    'name: guide\nversion: "1.0.0"\nruntime: skill\nrequires_files: [skill.md, pages/a.md]\n',
  );
  await place.write("skill.md", "# Guide\n\nÄÖÜ and a long line ".repeat(200));
  await place.write("pages/a.md", "a page\n");
  const built = await place.mur(["build", "."]);
  assert.equal(built.status, 0, built.stderr);
  const archive = `${place.project}/guide-1.0.0.mur.zip`;
  const tested = await new Deno.Command("unzip", { args: ["-t", archive] }).output();
  assert.equal(tested.code, 0, new TextDecoder().decode(tested.stdout));
  const listed = new TextDecoder().decode(
    (await new Deno.Command("unzip", { args: ["-Z1", archive] }).output()).stdout,
  );
  assert.deepEqual(listed.trim().split("\n"), ["murmur.yaml", "skill.md", "pages/a.md"]);
  const page = await new Deno.Command("unzip", { args: ["-p", archive, "skill.md"] }).output();
  assert.equal(new TextDecoder().decode(page.stdout), await place.read("skill.md"));
});
