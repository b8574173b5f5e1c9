import assert from "node:assert/strict";
import { ArtifactStore } from "../store.ts";
import { storeSource } from "./artifact_source.ts";
import { withCode } from "../../tests/support/error_code.ts";
import { NATIVE_METADATA } from "../../tests/support/packed_artifact.ts";

const utf8 = (text: string) => new TextEncoder().encode(text);
const WANTED = { name: "a", version: "1.0.0", platform: "linux-x86_64" };

Deno.test("a store answers for exact versions with verified bytes", async () => {
  const directory = await Deno.makeTempDir();
  try {
    const store = new ArtifactStore(directory);
    const source = storeSource(store, "the global store");
    assert.equal((await source.fetch(WANTED)).kind, "not-found");
    const { path } = await store.put(
      { metadata: NATIVE_METADATA, platform: ["linux", "x86_64"], bytes: utf8("zip") },
      "publish",
    );
    assert.equal((await source.fetch(WANTED)).kind, "found");
    assert.equal((await source.fetch({ ...WANTED, version: null })).kind, "not-found");
    await Deno.writeTextFile(path, "zap");
    await assert.rejects(() => source.fetch(WANTED), withCode("E-REG-002", /./));
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
});
