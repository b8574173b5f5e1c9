import assert from "node:assert/strict";
import { withTempDir } from "../tests/support/cli_context.ts";
import { canonicalPlace } from "./canonical_place.ts";

Deno.test("a place is canonical as far as it exists", async () => {
  await withTempDir(async (made) => {
    const root = await Deno.realPath(made);
    await Deno.mkdir(`${root}/real`);
    await Deno.symlink("real", `${root}/link`);
    await Deno.symlink("nowhere", `${root}/broken`);
    assert.equal(canonicalPlace(`${root}/link/a/b`), `${root}/real/a/b`);
    assert.equal(canonicalPlace(`${root}/link`), `${root}/real`);
    assert.equal(canonicalPlace(`${root}/broken/x`), `${root}/broken/x`);
    assert.equal(canonicalPlace("/absent-for-sure/x"), "/absent-for-sure/x");
    assert.equal(canonicalPlace("/"), "/");
  });
});
