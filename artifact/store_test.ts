import assert from "node:assert/strict";
import { MurError } from "../base/errors.ts";
import { canMount, onSmallDisk } from "../tests/support/own_mounts.ts";
import type { ArtifactMetadata } from "./artifact_metadata.ts";
import { formatMetadata, parseMetadata } from "./artifact_metadata.ts";
import { sha256Hex } from "./sha256.ts";
import { ArtifactStore, unplatformedNativeWarning } from "./store.ts";

const STORE_MODULE = new URL("./store.ts", import.meta.url).href;
const REPOSITORY = new URL("..", import.meta.url);

async function withStore(work: (store: ArtifactStore) => Promise<void>) {
  const directory = await Deno.makeTempDir();
  try {
    await work(new ArtifactStore(`${directory}/artifacts`));
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
}

function metadata(name = "a", version = "1.0.0", more: Partial<ArtifactMetadata> = {}): ArtifactMetadata {
  return {
    name,
    version,
    kind: "wasm",
    role: "tool",
    platforms: [],
    description: null,
    tags: [],
    contracts: null,
    ...more,
  };
}

const bytesOf = (text: string) => new TextEncoder().encode(text);
const put = (store: ArtifactStore, text: string, more: { name?: string; platform?: readonly [string, string] } = {}) =>
  store.put({
    metadata: metadata(more.name, "1.0.0", more.platform ? { kind: "native", platforms: [more.platform] } : {}),
    platform: more.platform ?? null,
    bytes: bytesOf(text),
  }, "install");

async function textIn(store: ArtifactStore, name = "a", platform: string | null = "linux-x86_64") {
  const loaded = await store.load(name, "1.0.0", platform);
  return loaded === null ? null : new TextDecoder().decode(loaded.bytes);
}

const hasCode = (code: string) => (error: unknown) => error instanceof MurError && error.code === code;
const filesOf = (store: ArtifactStore, name = "a") =>
  [...Deno.readDirSync(`${store.root}/${name}/1.0.0`)].map((entry) => entry.name).sort();

Deno.test("what is put is found, verified and described again", async () => {
  await withStore(async (store) => {
    const described = metadata("a", "1.0.0", {
      description: "does things",
      tags: ["x"],
      contracts: { exports: ["murmur:tool/run@0.1.0"], imports: [] },
    });
    const stored = await store.put({ metadata: described, platform: null, bytes: bytesOf("zip") }, "publish");
    assert.equal(stored.path, `${store.root}/a/1.0.0/a-1.0.0.mur.zip`);
    const loaded = await store.load("a", "1.0.0", "linux-x86_64");
    assert.deepEqual(loaded, { artifact: stored, bytes: bytesOf("zip") });
    assert.equal(stored.sha256, await sha256Hex(bytesOf("zip")));
    assert.deepEqual(filesOf(store), ["a-1.0.0.meta.json", "a-1.0.0.mur.zip", "a-1.0.0.sha256"]);
  });
});

Deno.test("a store that does not exist, a missing version and another platform are not found", async () => {
  await withStore(async (store) => {
    assert.equal(await store.resolve("a", "1.0.0", null), null);
    assert.deepEqual(await store.list(), []);
    await put(store, "native", { platform: ["darwin", "aarch64"] });
    assert.equal(await store.load("a", "2.0.0", null), null);
    assert.equal(await store.load("a", "1.0.0", "linux-x86_64"), null);
    assert.equal(await store.load("a", "1.0.0", null), null);
  });
});

Deno.test("the platform's archive wins only when its hash file is there too", async () => {
  await withStore(async (store) => {
    await put(store, "generic");
    const tagged = await put(store, "tagged", { platform: ["linux", "x86_64"] });
    assert.equal(await textIn(store), "tagged");
    assert.equal(await textIn(store, "a", "linux-aarch64"), "generic");
    await Deno.remove(tagged.path.replace(".mur.zip", ".sha256"));
    assert.equal(await textIn(store), "generic");
  });
});

Deno.test("an archive without a hash file is not found, one with an empty or malformed hash file is E-IO-003", async () => {
  await withStore(async (store) => {
    const { path } = await put(store, "zip");
    const hash = path.replace(".mur.zip", ".sha256");
    const recorded = await Deno.readTextFile(hash);
    for (const bad of ["", " \n", "abc", recorded.toUpperCase()]) {
      await Deno.writeTextFile(hash, bad);
      await assert.rejects(() => store.resolve("a", "1.0.0", null), hasCode("E-IO-003"));
    }
    await Deno.writeTextFile(hash, ` ${recorded.trim()} \n\n`);
    assert.equal(await textIn(store), "zip");
    await Deno.remove(hash);
    assert.equal(await store.resolve("a", "1.0.0", null), null);
  });
});

Deno.test("bytes that do not have the recorded hash are never handed out", async () => {
  await withStore(async (store) => {
    const { path } = await put(store, "zip");
    await Deno.writeTextFile(path, "zip changed");
    await assert.rejects(() => store.load("a", "1.0.0", null), (error) => {
      assert.ok(hasCode("E-REG-002")(error));
      assert.match((error as MurError).message, /expected [0-9a-f]{64}\n {2}actual {3}[0-9a-f]{64}$/);
      return true;
    });
  });
});

Deno.test("an archive without metadata is a component of unknown role, with damaged metadata E-IO-003", async () => {
  await withStore(async (store) => {
    const { path } = await put(store, "zip");
    const meta = path.replace(".mur.zip", ".meta.json");
    for (const bad of ["{", "[]", "{}", '{"meta":{"name":"a","version":"1","runtime":"other"}}']) {
      await Deno.writeTextFile(meta, bad);
      await assert.rejects(() => store.resolve("a", "1.0.0", null), hasCode("E-IO-003"));
      assert.equal((await store.list()).length, 1);
    }
    await Deno.remove(meta);
    const artifact = await store.resolve("a", "1.0.0", null);
    assert.deepEqual([artifact?.metadata.kind, artifact?.metadata.role], ["wasm", ""]);
  });
});

Deno.test("metadata survives its text form, and wit_contracts is read outside meta too", () => {
  const full = metadata("a", "1", {
    kind: "native",
    platforms: [["linux", "x86_64"]],
    description: "d",
    tags: ["t"],
    contracts: { exports: ["a:b/c@1.0.0"], imports: ["d:e/f@2.0.0"] },
  });
  assert.deepEqual(parseMetadata(formatMetadata(full), "f"), full);
  assert.ok(!formatMetadata(metadata()).includes("wit_contracts"));
  const outer = '{"meta":{"name":"a","version":"1","runtime":"wasm"},"wit_contracts":{"exports":["x:y/z@1"]}}';
  assert.deepEqual(parseMetadata(outer, "f").contracts, { exports: ["x:y/z@1"], imports: [] });
});

Deno.test("names and versions that would leave the store are refused before any file is touched", async () => {
  await withStore(async (store) => {
    for (
      const [name, version] of [["../a", "1"], ["a", ".."], ["a", "../../x"], ["a", "1/2"], ["a/b", "1"], ["a", ""]]
    ) {
      await assert.rejects(() => store.resolve(name!, version!, null), hasCode("E-IO-003"));
      const entry = { metadata: metadata(name, version), platform: null, bytes: bytesOf("x") };
      await assert.rejects(() => store.put(entry, "install"), hasCode("E-IO-003"));
    }
    await assert.rejects(() => Deno.stat(store.root), Deno.errors.NotFound);
  });
});

Deno.test("nothing is stored, found or listed under a reserved version", async () => {
  await withStore(async (store) => {
    const entry = { metadata: metadata("a", "Latest"), platform: null, bytes: bytesOf("x") };
    for (const mode of ["install", "publish"] as const) {
      await assert.rejects(store.put(entry, mode), hasCode("E-IO-003"));
    }
    await put(store, "x");
    await Deno.rename(`${store.root}/a/1.0.0`, `${store.root}/a/latest`);
    for (const suffix of [".mur.zip", ".sha256", ".meta.json"]) {
      await Deno.rename(`${store.root}/a/latest/a-1.0.0${suffix}`, `${store.root}/a/latest/a-latest${suffix}`);
    }
    assert.equal(await store.resolve("a", "latest", null), null);
    assert.deepEqual(await store.list(), []);
  });
});

Deno.test("publishing refuses when the archive or its hash is there, installing replaces", async () => {
  await withStore(async (store) => {
    const { path } = await put(store, "first");
    const entry = { metadata: metadata(), platform: null, bytes: bytesOf("second") };
    await assert.rejects(() => store.put(entry, "publish"), hasCode("E-REG-003"));
    assert.equal(await textIn(store), "first");
    await Deno.remove(path);
    await assert.rejects(() => store.put(entry, "publish"), hasCode("E-REG-003"));
    await store.put(entry, "install");
    assert.equal(await textIn(store), "second");
    const platform = ["linux", "x86_64"] as const;
    await store.put({ ...entry, platform }, "publish");
  });
});

Deno.test("a write that fails half-way takes every rename back", async () => {
  await withStore(async (store) => {
    const { path } = await put(store, "first");
    const before = await Promise.all(filesOf(store).map((file) => Deno.readTextFile(`${store.root}/a/1.0.0/${file}`)));
    const hash = path.replace(".mur.zip", ".sha256");
    const kept = await Deno.readTextFile(hash);
    // A folder in the place of the last file: the first two renames succeed, the third cannot.
    await Deno.remove(hash);
    await Deno.mkdir(`${hash}/full`, { recursive: true });
    await assert.rejects(() => put(store, "second"), hasCode("E-IO-003"));
    await Deno.remove(hash, { recursive: true });
    await Deno.writeTextFile(hash, kept);
    assert.equal(await textIn(store), "first");
    const after = await Promise.all(filesOf(store).map((file) => Deno.readTextFile(`${store.root}/a/1.0.0/${file}`)));
    assert.deepEqual(after, before);
  });
});

Deno.test("a listing shows each artifact once with its platforms, sorted, and skips what has no archive", async () => {
  await withStore(async (store) => {
    await put(store, "1", { name: "b", platform: ["linux", "x86_64"] });
    await put(store, "2", { name: "b", platform: ["darwin", "aarch64"] });
    await put(store, "3", { name: "a-b" });
    await put(store, "4", { name: "a" });
    await Deno.mkdir(`${store.root}/empty/1.0.0`, { recursive: true });
    await Deno.mkdir(`${store.root}/Not-A-Name/1.0.0`, { recursive: true });
    await Deno.writeTextFile(`${store.root}/a/1.0.0/other-1.0.0.mur.zip`, "x");
    await Deno.writeTextFile(`${store.root}/file`, "x");
    const rows = await store.list();
    assert.deepEqual(rows.map((row) => [row.name, row.kind, row.platforms.map((platform) => platform.join("-"))]), [
      ["a", "wasm", []],
      ["a-b", "wasm", []],
      ["b", "native", ["darwin-aarch64", "linux-x86_64"]],
    ]);
    assert.deepEqual(await store.versions("b"), ["1.0.0"]);
    assert.deepEqual(await store.versions("empty"), []);
    assert.deepEqual(await store.versions("../a"), []);
  });
});

Deno.test("a native artifact filed without a platform warns W-REG-001, every other does not", async () => {
  await withStore(async (store) => {
    const native = metadata("n", "1.0.0", { kind: "native" });
    const untagged = await store.put({ metadata: native, platform: null, bytes: bytesOf("x") }, "install");
    assert.equal(unplatformedNativeWarning(untagged)?.code, "W-REG-001");
    assert.equal(unplatformedNativeWarning(await put(store, "x", { platform: ["linux", "x86_64"] })), null);
    assert.equal(unplatformedNativeWarning(await put(store, "x")), null);
  });
});

/** A process that writes contents in turn until it is stopped, announcing itself first. */
function writerProcess(store: ArtifactStore, contents: readonly string[], mode: "install" | "publish", id: string) {
  const script = `
    const { ArtifactStore } = await import(${JSON.stringify(STORE_MODULE)});
    const store = new ArtifactStore(${JSON.stringify(store.root)});
    const meta = ${JSON.stringify(metadata())};
    const put = (text, version, mode) => store.put({ metadata: { ...meta, version }, platform: null, bytes: new TextEncoder().encode(text.repeat(5000)) }, mode);
    for (let i = 0; ; i++) {
      await put(${JSON.stringify(contents)}[i % ${contents.length}], ${
    mode === "install" ? '"1.0.0"' : `"${id}-" + i`
  }, ${JSON.stringify(mode)});
      if (i === 0) console.log("ready");
      // The lock is not fair: a writer that never rests would keep others out.
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
  `;
  return new Deno.Command(Deno.execPath(), { args: ["eval", script], cwd: REPOSITORY, stdout: "piped" }).spawn();
}

async function ready(child: Deno.ChildProcess) {
  const reader = child.stdout.getReader();
  const { value } = await reader.read();
  assert.match(new TextDecoder().decode(value), /ready/);
  await reader.cancel();
}

async function stop(child: Deno.ChildProcess) {
  child.kill("SIGKILL");
  await child.status;
}

Deno.test("two installers at once: a reader gets one of the two artifacts whole, always", async () => {
  await withStore(async (store) => {
    const children = [writerProcess(store, ["A"], "install", ""), writerProcess(store, ["B"], "install", "")];
    try {
      await Promise.all(children.map(ready));
      const seen = new Set<string>();
      const end = Date.now() + 20_000;
      for (let reads = 0; (seen.size < 2 || reads < 300) && Date.now() < end; reads++) {
        const text = await textIn(store);
        assert.ok(text === "A".repeat(5000) || text === "B".repeat(5000), "neither of the two");
        seen.add(text[0]!);
      }
      assert.deepEqual([...seen].sort(), ["A", "B"]);
    } finally {
      await Promise.all(children.map(stop));
    }
  });
});

Deno.test("an installer killed at any moment leaves an artifact whole, a mismatch or nothing, and the next one mends it", async () => {
  await withStore(async (store) => {
    const whole = ["A", "B"].map((text) => text.repeat(5000));
    for (let round = 0; round < 12; round++) {
      const child = writerProcess(store, ["A", "B"], "install", "");
      await ready(child);
      await new Promise((resolve) => setTimeout(resolve, Math.random() * 25));
      await stop(child);
      try {
        const text = await textIn(store);
        assert.ok(text === null || whole.includes(text));
      } catch (error) {
        assert.ok(hasCode("E-REG-002")(error), String(error));
      }
      await put(store, "mended");
      assert.equal(await textIn(store), "mended");
      assert.deepEqual(filesOf(store), ["a-1.0.0.meta.json", "a-1.0.0.mur.zip", "a-1.0.0.sha256"]);
    }
  });
});

Deno.test("a publisher killed at any moment has published, or the same version can be published again", async () => {
  await withStore(async (store) => {
    for (let round = 0; round < 12; round++) {
      const child = writerProcess(store, ["A"], "publish", `r${round}`);
      await ready(child);
      await new Promise((resolve) => setTimeout(resolve, Math.random() * 25));
      await stop(child);
      const versions = [...Deno.readDirSync(`${store.root}/a`)].map((entry) => entry.name);
      for (const version of versions.filter((name) => name.startsWith(`r${round}-`))) {
        const loaded = await store.load("a", version, null);
        const again = { metadata: metadata("a", version), platform: null, bytes: bytesOf("again") };
        if (loaded === null) {
          await store.put(again, "publish");
          assert.deepEqual((await store.load("a", version, null))?.bytes, bytesOf("again"));
        } else {
          assert.equal(loaded.bytes.length, 5000);
          await assert.rejects(() => store.put(again, "publish"), hasCode("E-REG-003"));
        }
        assert.equal([...Deno.readDirSync(`${store.root}/a/${version}`)].length, 3);
      }
    }
  });
});

Deno.test("every point at which a writer can die is taken back or finished by the next one", async () => {
  // The file states a writer passes through, made by hand: after each step of a replacement of "old" by "new".
  const id = "0123456789abcdef0123456789abcdef";
  const suffixes = [".meta.json", ".mur.zip", ".sha256"];
  const files = (text: string) => [formatMetadata(metadata()), text, `hash of ${text}\n`];
  for (const old of [null, "old"]) {
    for (let step = 1; step <= 9; step++) {
      await withStore(async (store) => {
        const directory = `${store.root}/a/1.0.0`;
        await Deno.mkdir(directory, { recursive: true });
        const stem = "a-1.0.0";
        const set = async (name: string, text: string) => await Deno.writeTextFile(`${directory}/${name}`, text);
        for (const [index, suffix] of suffixes.entries()) {
          const beside = `.${stem}${suffix}.${id}`;
          const renamed = step > 6 + index;
          if (old !== null && !renamed) await set(`${stem}${suffix}`, files(old)[index]!);
          if (renamed) await set(`${stem}${suffix}`, files("new")[index]!);
          if (!renamed && step > index) await set(`${beside}.staged`, files("new")[index]!);
          if (old !== null && step > 3 + index) await set(`${beside}.before`, files(old)[index]!);
        }
        const complete = step > 8;
        const present = complete ? "new" : old;
        const entry = { metadata: metadata(), platform: null, bytes: bytesOf("again") };
        if (present === null) {
          await store.put(entry, "publish");
          assert.equal(await textIn(store), "again");
        } else {
          await assert.rejects(() => store.put(entry, "publish"), hasCode("E-REG-003"));
          for (const [index, suffix] of suffixes.entries()) {
            assert.equal(
              await Deno.readTextFile(`${directory}/${stem}${suffix}`),
              files(present)[index],
              `step ${step}`,
            );
          }
        }
        assert.equal(filesOf(store).length, 3, `step ${step}`);
      });
    }
  }
});

Deno.test(
  "a full disk fails the write with E-IO-003 and keeps the artifact that was there",
  { ignore: !canMount() },
  async () => {
    const output = await onSmallDisk(`
    const { ArtifactStore } = await import(${JSON.stringify(STORE_MODULE)});
    const store = new ArtifactStore(DIRECTORY + "/artifacts");
    const metadata = ${JSON.stringify(metadata())};
    const put = (bytes) => store.put({ metadata, platform: null, bytes }, "install");
    await put(new TextEncoder().encode("old"));
    const code = await put(new Uint8Array(1_000_000)).catch((error) => error.code);
    const loaded = await store.load("a", "1.0.0", null);
    const names = [...Deno.readDirSync(DIRECTORY + "/artifacts/a/1.0.0")].length;
    console.log(JSON.stringify({ code, names, text: new TextDecoder().decode(loaded.bytes) }));
  `);
    assert.deepEqual(JSON.parse(output), { code: "E-IO-003", names: 3, text: "old" });
  },
);

Deno.test("a store that may not be written is E-IO-002", { ignore: Deno.uid() === 0 }, async () => {
  await withStore(async (store) => {
    await Deno.mkdir(store.root);
    await Deno.chmod(store.root, 0o500);
    await assert.rejects(() => put(store, "x"), hasCode("E-IO-002"));
    await Deno.chmod(store.root, 0o700);
  });
});
