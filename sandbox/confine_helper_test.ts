import assert from "node:assert/strict";
import { buildConfine, confineBinaryName } from "./confine_build.ts";
import { checkoutHelper, confineHelper, isTrustedCopy, layDown } from "./confine_helper.ts";

function inTempDir(body: (dir: string) => Promise<void>): () => Promise<void> {
  return async () => {
    const dir = await Deno.makeTempDir();
    try {
      await body(dir);
    } finally {
      await Deno.remove(dir, { recursive: true });
    }
  };
}

Deno.test("a checkout builds its helper once and finds it again", async () => {
  const helper = await checkoutHelper();
  const { ino } = Deno.statSync(helper);
  assert.equal(await checkoutHelper(), helper);
  assert.equal(Deno.statSync(helper).ino, ino);
  assert.equal(await confineHelper(), helper);
  assert.ok((await new Deno.Command(helper, { args: ["harden-check"] }).output()).success);
});

Deno.test("the name follows the source", async () => {
  const one = await confineBinaryName(new TextEncoder().encode("a"));
  assert.match(one, /^mur-confine-[0-9a-f]{16}-(x86_64|aarch64)$/);
  assert.notEqual(await confineBinaryName(new TextEncoder().encode("b")), one);
});

Deno.test(
  "builders at once leave one whole binary, a failed build leaves none",
  inTempDir(async (dir) => {
    await Deno.writeTextFile(`${dir}/ok.c`, "int main(void) { return 7; }\n");
    await Promise.all([1, 2, 3].map(() => buildConfine([`${dir}/ok.c`], `${dir}/program`)));
    assert.equal((await new Deno.Command(`${dir}/program`).output()).code, 7);
    await Deno.writeTextFile(`${dir}/bad.c`, "int main(void) { int unused; return 7; }\n");
    await assert.rejects(buildConfine([`${dir}/bad.c`], `${dir}/other`), { code: "E-IO-003", message: /unused/ });
    assert.deepEqual([...Deno.readDirSync(dir)].map((entry) => entry.name).sort(), ["bad.c", "ok.c", "program"]);
  }),
);

Deno.test(
  "a carried helper is laid down once, and again when its bytes were changed",
  inTempDir(async (dir) => {
    await Deno.writeTextFile(`${dir}/carried`, "#!/bin/sh\nexit 5\n");
    const place = await layDown(`${dir}/carried`, `${dir}/home/compiled`);
    assert.equal(Deno.statSync(place).mode! & 0o777, 0o700);
    assert.equal((await new Deno.Command(place).output()).code, 5);
    await Deno.writeTextFile(place, "#!/bin/sh\nexit 6\n");
    assert.equal(await layDown(`${dir}/carried`, `${dir}/home/compiled`), place);
    assert.equal((await new Deno.Command(place).output()).code, 5);
    await assert.rejects(layDown(`${dir}/missing`, dir), { code: "E-IO-001" });
  }),
);

Deno.test(
  "another's helper is used only when root owns it and it is ours",
  inTempDir(async (dir) => {
    await Deno.mkdir(`${dir}/lib`, { mode: 0o755 });
    await Deno.writeTextFile(`${dir}/own`, "same");
    const path = `${dir}/lib/mur-confine`;
    assert.equal(await isTrustedCopy(path, `${dir}/own`), false);
    await Deno.writeTextFile(path, "same");
    await Deno.chmod(path, 0o755);
    assert.equal(await isTrustedCopy(path, `${dir}/own`), Deno.uid() === 0);
    for (const place of [path, `${dir}/lib`]) {
      await Deno.chmod(place, 0o775);
      assert.equal(await isTrustedCopy(path, `${dir}/own`), false, "others may write");
      await Deno.chmod(place, 0o755);
    }
    await Deno.writeTextFile(path, "other");
    assert.equal(await isTrustedCopy(path, `${dir}/own`), false);
    await Deno.remove(path);
    await Deno.symlink("../own", path);
    assert.equal(await isTrustedCopy(path, `${dir}/own`), false);
  }),
);
