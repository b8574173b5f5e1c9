import assert from "node:assert/strict";
import { readRegistryBlock, selectRegistry } from "./registry_selection.ts";
import { withCode } from "../../tests/support/error_code.ts";

Deno.test("the registry is the flag's, else remote_url's, else the default's, else the global store", () => {
  const none = { remoteUrl: null, default: null };
  assert.deepEqual(selectRegistry("LOCAL", { ...none, remoteUrl: "http://a" }), { kind: "local" });
  assert.deepEqual(selectRegistry("http://x/", null), { kind: "remote", url: "http://x" });
  assert.deepEqual(selectRegistry(undefined, { remoteUrl: " http://a/ ", default: "local" }), {
    kind: "remote",
    url: "http://a",
  });
  assert.deepEqual(selectRegistry(undefined, { ...none, default: "remote" }), {
    kind: "remote",
    url: "http://localhost:7800",
  });
  assert.deepEqual(selectRegistry(undefined, { remoteUrl: "  ", default: "local" }), { kind: "local" });
  assert.deepEqual(selectRegistry(undefined, null), { kind: "local" });
  assert.throws(
    () => selectRegistry(undefined, { ...none, default: "elsewhere" }),
    withCode("E-IO-003", /registry\.default is 'elsewhere'/),
  );
  assert.throws(() => selectRegistry("nonsense", null), withCode("E-IO-003", /'nonsense'/));
});

Deno.test("the registry block is read from a manifest of either kind", async () => {
  const directory = await Deno.makeTempDir();
  const path = `${directory}/murmur.yaml`;
  try {
    assert.equal(await readRegistryBlock(path), null);
    for (const text of ["", "name: a\nversion: 1.0\nruntime: tool\n", "registry: []\n"]) {
      await Deno.writeTextFile(path, text);
      assert.deepEqual(await readRegistryBlock(path), { remoteUrl: null, default: null });
    }
    await Deno.writeTextFile(path, "registry: { remote_url: ' http://x ', default: local }\n");
    assert.deepEqual(await readRegistryBlock(path), { remoteUrl: "http://x", default: "local" });
    await Deno.writeTextFile(path, "registry: [");
    await assert.rejects(() => readRegistryBlock(path), withCode("E-MAN-002", /line 1/));
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
});
