import assert from "node:assert/strict";
import { MurError } from "../base/errors.ts";
import { RoostHome } from "./testing/daemon.ts";
import { type JudgedArtifact, StoreRegistry } from "./registry.ts";

let moment = 0;
const settle = () => new Promise((resolve) => setTimeout(resolve, 150));

Deno.test("an artifact is read again whenever its files changed, and not while they did not", async () => {
  await using home = new RoostHome();
  const registry = new StoreRegistry(home.store.root);
  const first = await home.install("a", "capabilities: { env: { allow: [LC_ALL] } }\n");
  await settle();
  const read = await registry.resolve("local/a", "1.0.0", moment++);
  assert.deepEqual([read.sha256, read.grants.env], [first, ["LC_ALL"]]);
  // At once, and the same object.
  assert.equal(registry.resolve("local/a", "1.0.0", moment++), read);
  const second = await home.install("a", "capabilities: { env: { allow: [LANG] } }\n");
  for (const wait of [0, 150]) {
    await new Promise((resolve) => setTimeout(resolve, wait));
    const again = await registry.resolve("local/a", "1.0.0", moment++);
    assert.deepEqual([again.sha256, again.grants.env], [second, ["LANG"]]);
  }
  await Deno.remove(`${home.store.root}/a`, { recursive: true });
  await assert.rejects(async () => await registry.resolve("local/a", "1.0.0", moment++), { code: "E-REG-001" });
});

Deno.test("an artifact that was changed just now is never taken from memory", async () => {
  await using home = new RoostHome();
  const registry = new StoreRegistry(home.store.root);
  for (let round = 0; round < 10; round++) {
    const sha256 = await home.install("a", `# ${round}\n`);
    assert.equal((await registry.resolve("local/a", "1.0.0", moment++)).sha256, sha256);
  }
});

Deno.test("names and versions that no store holds are refused, and lead nowhere else", async () => {
  await using home = new RoostHome();
  await home.install("a");
  const registry = new StoreRegistry(`${home.store.root}/../artifacts`);
  assert.match((await registry.resolve("any/a", "1.0.0", moment++)).sha256, /^[0-9a-f]{64}$/);
  for (
    const [name, version] of [
      ["local/a", "latest"],
      ["local/a", "../1.0.0"],
      ["local/a", ".."],
      ["local/a", ""],
      ["local/a", "1.0.0\0"],
      ["local/a", "x".repeat(10_000)],
      ["local/b", "1.0.0"],
    ] as const
  ) {
    await assert.rejects(
      async () => await registry.resolve(name, version, moment++),
      MurError,
      `${name}@${version.slice(0, 20)}`,
    );
  }
});

Deno.test("what is no capsule, or another one, is refused", async () => {
  await using home = new RoostHome();
  const registry = new StoreRegistry(home.store.root);
  await home.install("bad", "capabilities: { filesystem: { scope: ../x } }\n");
  await assert.rejects(async () => await registry.resolve("local/bad", "1.0.0", moment++), { code: "E-CAP-002" });
  await home.install("broken", "capabilities: [\n");
  await assert.rejects(async () => await registry.resolve("local/broken", "1.0.0", moment++), MurError);
  await home.install("a");
  await Deno.mkdir(`${home.store.root}/other/1.0.0`, { recursive: true });
  for (const suffix of [".mur.zip", ".sha256"]) {
    await Deno.copyFile(
      `${home.store.root}/a/1.0.0/a-1.0.0${suffix}`,
      `${home.store.root}/other/1.0.0/other-1.0.0${suffix}`,
    );
  }
  await assert.rejects(async () => await registry.resolve("local/other", "1.0.0", moment++), /holds 'a'/);
});

Deno.test("many that ask for one artifact at once get the same reading", async () => {
  await using home = new RoostHome();
  await home.install("a");
  await settle();
  const registry = new StoreRegistry(home.store.root);
  const read = await Promise.all(Array.from({ length: 50 }, () => registry.resolve("local/a", "1.0.0", moment++)));
  assert.equal(new Set<JudgedArtifact>(read).size, 1);
});
