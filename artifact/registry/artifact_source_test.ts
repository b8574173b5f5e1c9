import assert from "node:assert/strict";
import { MurError } from "../../base/errors.ts";
import type { ArtifactMetadata } from "../artifact_metadata.ts";
import { ArtifactStore } from "../store.ts";
import { storeSource } from "./artifact_source.ts";

const utf8 = (text: string) => new TextEncoder().encode(text);
const WANTED = { name: "a", version: "1.0.0", platform: "linux-x86_64" };

function withCode(code: string, pattern: RegExp) {
  return (error: unknown) => {
    assert.ok(error instanceof MurError, String(error));
    assert.equal(error.code, code);
    assert.match(`${error.message}\n${error.hint ?? ""}`, pattern);
    return true;
  };
}

const METADATA: ArtifactMetadata = {
  name: "a",
  version: "1.0.0",
  kind: "native",
  role: "tool",
  platforms: [["linux", "x86_64"]],
  description: null,
  tags: [],
  contracts: null,
};

Deno.test("a store answers for exact versions with verified bytes", async () => {
  const directory = await Deno.makeTempDir();
  try {
    const store = new ArtifactStore(directory);
    const source = storeSource(store, "the global store");
    assert.equal((await source.fetch(WANTED)).kind, "not-found");
    const { path } = await store.put(
      { metadata: METADATA, platform: ["linux", "x86_64"], bytes: utf8("zip") },
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
