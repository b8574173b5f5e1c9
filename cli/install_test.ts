import { denoDirectory } from "../base/program.ts";
import assert from "node:assert/strict";
import { readLock, updateLock } from "../artifact/lockfile.ts";
import { hostPlatformTag } from "../artifact/platform.ts";
import { sha256Hex } from "../artifact/sha256.ts";
import { ArtifactStore } from "../artifact/store.ts";
import { MurError } from "../base/errors.ts";
import { type TestContext, testContext, withTempDir, writeFiles } from "../tests/support/cli_context.ts";
import { type LocalAnswer, type LocalServer, withLocalServer } from "../tests/support/local_server.ts";
import { packedArtifact, packedNativeTool } from "../tests/support/packed_artifact.ts";
import { install, type InstallFlags, type Precompile } from "./install.ts";
import { publish } from "./publish.ts";
import { UsageError } from "./usage_error.ts";

const HOST = hostPlatformTag();
const SESSION = "ses_0190a1b2c3d44e5f8a9b0c1d2e3f4a5b";
const TOKEN = "ghp_secretsecretsecret";

/** A project, a home and an install source that has what `assets` maps from release tag to files. */
interface World {
  readonly project: string;
  readonly home: string;
  readonly server: LocalServer;
  readonly store: ArtifactStore;
  readonly globalStore: ArtifactStore;
  readonly lock: string;
  context(more?: { readonly cwd?: string; readonly env?: Record<string, string> }): TestContext;
}

type Releases = Record<string, Record<string, Uint8Array>>;

const missing = () => Response.json({ message: "Not Found" }, { status: 404 });

/** Serves the releases of `murmur-nexus/default-artifacts`; the tag `latest` is the latest one. */
function releaseServer(releases: Releases): LocalAnswer {
  const files = Object.values(releases).flatMap((assets) => Object.entries(assets));
  return (path) => {
    const match = /^\/repos\/[^/]+\/[^/]+\/releases\/(.*)$/.exec(path);
    if (match === null) return missing();
    const [kind, id] = match[1]!.split("/").slice(-2);
    if (kind === "assets") return new Response(files[Number(id)]![1] as Uint8Array<ArrayBuffer>);
    const tag = decodeURIComponent(match[1]!.replace(/^tags\//, ""));
    const assets = releases[tag];
    if (assets === undefined) return missing();
    const listed = Object.keys(assets).map((name) => ({ id: files.findIndex(([file]) => file === name), name }));
    return Response.json({ tag_name: tag, assets: listed });
  };
}

async function withWorld(
  releases: Releases | LocalAnswer,
  manifest: string | null,
  work: (world: World) => Promise<void>,
) {
  await withTempDir(async (directory) => {
    const answer = typeof releases === "function" ? releases : releaseServer(releases);
    await withLocalServer(answer, async (server) => {
      const project = `${directory}/project`;
      const home = `${directory}/home`;
      await Deno.mkdir(project);
      await Deno.mkdir(home);
      if (manifest !== null) await writeFiles(project, { "murmur.yaml": manifest });
      await work({
        project,
        home,
        server,
        store: new ArtifactStore(`${project}/.murmur/artifacts`),
        globalStore: new ArtifactStore(`${home}/.murmur/artifacts`),
        lock: `${project}/murmur.lock`,
        context: ({ cwd = project, env = {} } = {}) =>
          testContext(cwd, { HOME: home, MUR_GITHUB_API_BASE: server.url, ...env }, { registryRequest: 5_000 }),
      });
    });
  });
}

const MANIFEST = "name: c\nversion: '1'\n";
const declaring = (...lines: string[]) => `${MANIFEST}artifacts:\n${lines.map((line) => `  - ${line}\n`).join("")}`;
const quick: InstallFlags = { precompile: false };

async function refused(run: Promise<number>, code: string, pattern: RegExp) {
  await assert.rejects(run, (error) => {
    assert.ok(error instanceof MurError, String(error));
    assert.equal(error.code, code, error.message);
    assert.match(`${error.message}\n${error.hint ?? ""}`, pattern);
    return true;
  });
}

async function holds(store: ArtifactStore, name: string, version = "1.0.0", platform: string | null = HOST) {
  return await store.load(name, version, platform) !== null;
}

Deno.test("a name installs the latest release into the project store and pins it", async () => {
  const bytes = await packedArtifact({ name: "notes", version: "2.1.0" });
  await withWorld({ latest: { "notes-2.1.0.mur.zip": bytes } }, MANIFEST, async ({ context, store, lock }) => {
    const at = context();
    assert.equal(await install(at, quick, "notes"), 0);
    assert.equal(at.out(), "Installed notes@2.1.0 from github:murmur-nexus/default-artifacts\n");
    assert.ok(await holds(store, "notes", "2.1.0"));
    assert.deepEqual((await readLock(lock))?.entries, [{
      name: "notes",
      version: "2.1.0",
      hashes: { kind: "any", sha256: await sha256Hex(bytes) },
      origin: "operator",
      session: null,
    }]);
  });
});

Deno.test("an exact version comes from the global store first, and no source is asked", async () => {
  const bytes = await packedArtifact({ name: "notes" });
  await withWorld({}, MANIFEST, async ({ context, store, project, server }) => {
    await Deno.writeFile(`${project}/notes.mur.zip`, bytes);
    await publish(context(), {}, "notes.mur.zip");
    const at = context();
    assert.equal(await install(at, quick, "notes@1.0.0"), 0);
    assert.equal(at.out(), `Installed notes@1.0.0 → ${store.root}/notes/1.0.0/notes-1.0.0.mur.zip\n`);
    assert.equal(server.seen.length, 0);
  });
});

Deno.test("a damaged copy in the global store is mended by a source, and E-REG-002 when none has it", async () => {
  const bytes = await packedArtifact({ name: "notes" });
  const other = await packedArtifact({ name: "other" });
  await withWorld(
    { "1.0.0": { "notes-1.0.0.mur.zip": bytes } },
    MANIFEST,
    async ({ context, project, globalStore }) => {
      await writeFiles(project, { "notes.mur.zip": bytes, "other.mur.zip": other });
      await publish(context(), {}, "notes.mur.zip");
      await publish(context(), {}, "other.mur.zip");
      for (const name of ["notes", "other"]) {
        await writeFiles(globalStore.root, {
          [`${name}/1.0.0/${name}-1.0.0.mur.zip`]: "damaged",
        });
      }
      assert.equal(await install(context(), { ...quick, global: true }, "notes@1.0.0"), 0);
      assert.ok(await holds(globalStore, "notes"));
      await refused(install(context(), quick, "other@1.0.0"), "E-REG-002", /expected [0-9a-f]{64}/);
    },
  );
});

Deno.test("a scope asks only the sources of its owner, and local asks none", async () => {
  const bytes = await packedArtifact({ name: "notes" });
  const config =
    "registry:\n  sources:\n    - { name: acme, type: github, repo: Acme/tools, token: MY_TOKEN }\n    - { name: other, type: github, repo: other/tools }\n";
  await withWorld({ "1.0.0": { "notes-1.0.0.mur.zip": bytes } }, MANIFEST, async ({ context, home, server, store }) => {
    await writeFiles(home, { ".murmur/config.yaml": config });
    await refused(install(context(), quick, "local/notes@1.0.0"), "E-REG-001", /no source to ask/);
    await refused(install(context(), quick, "unknown/notes"), "E-REG-001", /no source to ask/);
    assert.equal(server.seen.length, 0);
    assert.equal(await install(context({ env: { MY_TOKEN: TOKEN } }), quick, "acme/notes@1.0.0"), 0);
    assert.ok(
      server.seen.every(({ path, authorization }) =>
        path.startsWith("/repos/Acme/tools/") && authorization === `Bearer ${TOKEN}`
      ),
    );
    assert.ok(await holds(store, "notes"));
  });
});

Deno.test("a release installs every archive in it, native ones under the platform of their name", async () => {
  const linux = await packedNativeTool("git-tool", "linux binary");
  const mac = await packedNativeTool("git-tool", "mac binary");
  const skill = await packedArtifact({ name: "notes", version: "3" });
  const assets = {
    "git-tool-1.0.0-linux-x86_64.mur.zip": linux,
    "git-tool-1.0.0-darwin-aarch64.mur.zip": mac,
    "notes-3.mur.zip": skill,
    "readme.txt": new Uint8Array(),
  };
  await withWorld({ v7: assets }, MANIFEST, async ({ context, store, lock }) => {
    const at = context();
    assert.equal(await install(at, quick, "github:acme/tools@v7"), 0);
    assert.equal(
      at.out(),
      "Installed git-tool@1.0.0 from github:acme/tools@v7\n".repeat(2) +
        "Installed notes@3 from github:acme/tools@v7\n",
    );
    assert.ok(await holds(store, "git-tool", "1.0.0", "linux-x86_64"));
    assert.ok(await holds(store, "git-tool", "1.0.0", "darwin-aarch64"));
    assert.ok(!await holds(store, "git-tool", "1.0.0", null));
    const entries = (await readLock(lock))?.entries;
    assert.deepEqual(entries?.map((entry) => [entry.name, entry.hashes.kind]), [["git-tool", "platforms"], [
      "notes",
      "any",
    ]]);
    assert.equal(entries?.[0]?.hashes.kind === "platforms" && entries[0].hashes.sha256.size, 2);
  });
});

Deno.test("a github: reference borrows the token of the configured source with that repository", async () => {
  const config = "registry:\n  sources:\n    - { name: acme, type: github, repo: Acme/tools, token: '${ACME}' }\n";
  await withWorld(
    { v1: { "notes-1.0.0.mur.zip": await packedArtifact({ name: "notes" }) } },
    MANIFEST,
    async ({ context, home, server }) => {
      await writeFiles(home, { ".murmur/config.yaml": config });
      await install(context({ env: { ACME: TOKEN, GITHUB_TOKEN: "other" } }), quick, "github:acme/tools@v1");
      assert.ok(server.seen.every(({ authorization }) => authorization === `Bearer ${TOKEN}`));
    },
  );
});

Deno.test("a local file is installed by its own name, without a lock entry and without a registry", async () => {
  await withWorld(
    {},
    `${MANIFEST}registry: { default: remote }\n`,
    async ({ context, project, store, lock, server }) => {
      await Deno.writeFile(`${project}/any.mur.zip`, await packedArtifact({ name: "notes" }));
      const at = context();
      assert.equal(await install(at, quick, "./any.mur.zip"), 0);
      assert.equal(at.out(), "Installed notes@1.0.0 from ./any.mur.zip\n");
      assert.ok(await holds(store, "notes"));
      assert.equal(await readLock(lock), null);
      assert.equal(server.seen.length, 0);
      await refused(install(context(), quick, "./gone.mur.zip"), "E-IO-001", /no artifact archive at \.\/gone/);
    },
  );
});

Deno.test("-g installs into the global store without a project and without a lock, and closes the home", async () => {
  const bytes = await packedArtifact({ name: "notes" });
  await withWorld(
    { latest: { "notes-1.0.0.mur.zip": bytes } },
    null,
    async ({ context, home, project, globalStore }) => {
      await Deno.mkdir(`${home}/.murmur`, { mode: 0o755 });
      await Deno.chmod(`${home}/.murmur`, 0o755);
      assert.equal(await install(context(), { ...quick, global: true }, "notes"), 0);
      assert.ok(await holds(globalStore, "notes"));
      assert.equal((await Deno.stat(`${home}/.murmur`)).mode! & 0o777, 0o700);
      assert.deepEqual([...Deno.readDirSync(project)], []);
      await refused(install(context(), quick, "notes"), "E-IO-001", /-g/);
    },
  );
});

Deno.test("inside a folder of the project its root's store and lock are used", async () => {
  const bytes = await packedArtifact({ name: "notes" });
  await withWorld({ latest: { "notes-1.0.0.mur.zip": bytes } }, MANIFEST, async ({ context, project, store, lock }) => {
    await Deno.mkdir(`${project}/a/b`, { recursive: true });
    await install(context({ cwd: `${project}/a/b` }), quick, "notes");
    assert.ok(await holds(store, "notes"));
    assert.notEqual(await readLock(lock), null);
  });
});

Deno.test("an archive that is not what was asked for, or no archive, is refused and nothing is written", async () => {
  const cases: [Uint8Array, string, RegExp][] = [
    [await packedArtifact({ name: "other" }), "E-IO-003", /holds 'other', asked for was 'notes'/],
    [
      await packedArtifact({ name: "notes", version: "1.0.1" }),
      "E-IO-003",
      /holds notes@1\.0\.1, asked for was 1\.0\.0/,
    ],
    [await packedArtifact({ name: "notes", runtime: "tool", files: {} }), "E-BLD-003", /missing root \.wasm/],
    [await packedArtifact({ name: "notes", files: {} }), "E-IO-003", /no 'skill\.md'/],
    [await packedArtifact({ name: "notes", manifest: "tags: [" }), "E-MAN-002", /./],
    [new TextEncoder().encode("<html>not found</html>"), "E-IO-003", /not a usable artifact archive/],
    [new Uint8Array(), "E-IO-003", /not a usable artifact archive/],
  ];
  for (const [bytes, code, pattern] of cases) {
    await withWorld({ "1.0.0": { "notes-1.0.0.mur.zip": bytes } }, MANIFEST, async ({ context, project }) => {
      await refused(install(context(), quick, "notes@1.0.0"), code, pattern);
      assert.deepEqual([...Deno.readDirSync(project)].map((entry) => entry.name), ["murmur.yaml"]);
    });
  }
});

Deno.test("an archive whose own name would leave the store is refused", async () => {
  for (
    const [name, version] of [["../../evil", "1"], ["a/b", "1"], ["notes", "../../../evil"], ["notes", "a/b"], [
      "Notes",
      "1",
    ]]
  ) {
    await withWorld({}, MANIFEST, async ({ context, project, home }) => {
      await Deno.writeFile(`${project}/x.mur.zip`, await packedArtifact({ name: name!, version: version! }));
      await refused(install(context(), quick, "./x.mur.zip"), "E-IO-003", /./);
      assert.deepEqual([...Deno.readDirSync(project)].map((entry) => entry.name).sort(), ["murmur.yaml", "x.mur.zip"]);
      assert.deepEqual([...Deno.readDirSync(home)], []);
    });
  }
});

Deno.test("a pin that disagrees is E-REG-005, and store and lock stay as they were", async () => {
  const bytes = await packedArtifact({ name: "notes" });
  await withWorld(
    { "1.0.0": { "notes-1.0.0.mur.zip": bytes } },
    MANIFEST,
    async ({ context, project, store, lock }) => {
      const pinned =
        `lock_version: 2\nartifacts:\n  - name: notes\n    resolved_version: 1.0.0\n    sha256:\n      any: ${
          "a".repeat(64)
        }\n    origin: operator\n`;
      await writeFiles(project, { "murmur.lock": pinned });
      await refused(install(context(), quick, "notes@1.0.0"), "E-REG-005", /another hash[^]*remove the entry/);
      await writeFiles(project, { "murmur.lock": pinned.replace("1.0.0", "0.9.0") });
      await refused(install(context(), quick, "notes@1.0.0"), "E-REG-005", /at 0\.9\.0/);
      assert.ok(!await holds(store, "notes"));
      assert.equal(await Deno.readTextFile(lock), pinned.replace("1.0.0", "0.9.0"));
      await writeFiles(project, { "murmur.lock": "lock_version: 1\nartifacts: []\n" });
      await refused(install(context(), quick, "notes@1.0.0"), "E-RUN-003", /lock_version 1/);
    },
  );
});

Deno.test("installing a pulled artifact adopts its pin and says so after the lock is written", async () => {
  const bytes = await packedArtifact({ name: "notes" });
  const sha256 = await sha256Hex(bytes);
  await withWorld({ "1.0.0": { "notes-1.0.0.mur.zip": bytes } }, MANIFEST, async ({ context, lock }) => {
    await updateLock(lock, () => ({
      entries: [{
        name: "notes",
        version: "1.0.0",
        hashes: { kind: "any", sha256 },
        origin: "runtime",
        session: SESSION,
      }],
    }));
    const at = context();
    await install(at, quick, "notes@1.0.0");
    assert.equal(
      at.out(),
      "Installed notes@1.0.0 from github:murmur-nexus/default-artifacts\n" +
        `Adopted notes@1.0.0 as operator-declared (it was pulled at runtime by session ${SESSION})\n`,
    );
    assert.equal((await readLock(lock))?.entries[0]?.origin, "operator");
  });
});

Deno.test("the manifest's artifacts are installed together, those with a source left out", async () => {
  const releases: Releases = { latest: {} };
  for (const name of ["a", "b", "c", "d", "e", "f", "g", "h"]) {
    releases.latest![`${name}-1.0.0.mur.zip`] = await packedArtifact({ name });
  }
  const names = Object.keys(releases.latest!).map((file) => file[0]!);
  const manifest = declaring(
    ...names.map((name) => `{ name: ${name}, version: 1.0.0, runtime: skill }`),
    "{ name: mine, source: ./mine, runtime: skill }",
  );
  await withWorld(releases, manifest, async ({ context, store, lock }) => {
    const at = context();
    assert.equal(await install(at, quick), 0);
    assert.equal(
      at.out(),
      names.map((name) => `Installed ${name}@1.0.0 from github:murmur-nexus/default-artifacts\n`).join(""),
    );
    assert.deepEqual((await readLock(lock))?.entries.map((entry) => entry.name), names);
    for (const name of names) assert.ok(await holds(store, name));
  });
});

Deno.test("failures of a manifest install are listed on stdout, what succeeded is stored and pinned, the status is 1", async () => {
  const releases = {
    "1.0.0": { "a-1.0.0.mur.zip": await packedArtifact({ name: "a" }), "b-1.0.0.mur.zip": new Uint8Array([1]) },
  };
  const manifest = declaring(
    "{ name: b, version: 1.0.0, runtime: skill }",
    "{ name: a, version: 1.0.0, runtime: skill }",
    "{ name: murmur/gone, version: 2.0.0, runtime: skill }",
  );
  await withWorld(releases, manifest, async ({ context, lock, store }) => {
    const at = context();
    assert.equal(await install(at, quick), 1);
    const [head, ...rest] = at.out().split("\n\n");
    assert.equal(head, "2 of 3 artifact(s) failed to install:");
    assert.match(rest[0]!, /^ {2}b@1\.0\.0\n {4}error\[E-IO-003\]: .*not a usable artifact archive/);
    assert.match(
      rest[1]!,
      /^ {2}murmur\/gone@2\.0\.0\n {4}error\[E-REG-001\]: no source has 'gone@2\.0\.0'\n {6}github:\S+ — .*\n {6}hint: /,
    );
    assert.equal(rest[2], "installed a@1.0.0\n");
    assert.equal(at.err(), "");
    assert.deepEqual((await readLock(lock))?.entries.map((entry) => entry.name), ["a"]);
    assert.ok(await holds(store, "a"));
  });
});

Deno.test("a manifest without artifacts says so", async () => {
  await withWorld({}, MANIFEST, async ({ context, lock }) => {
    const at = context();
    assert.equal(await install(at, quick), 0);
    assert.equal(at.out(), "No artifacts in manifest.\n");
    assert.equal(await readLock(lock), null);
  });
});

Deno.test("--all-platforms files each platform's asset under its tag in the global store and warns for the rest", async () => {
  const assets: Record<string, Uint8Array> = {};
  for (const tag of ["linux-x86_64", "darwin-aarch64"]) {
    assets[`git-tool-1.0.0-${tag}.mur.zip`] = await packedNativeTool("git-tool", `for ${tag}`);
  }
  await withWorld({ "v1.0.0": assets }, MANIFEST, async ({ context, globalStore, store, lock }) => {
    const at = context();
    assert.equal(await install(at, { ...quick, "all-platforms": true }, "git-tool@1.0.0"), 0);
    assert.equal(
      at.err(),
      "warning: no asset of git-tool@1.0.0 for linux-aarch64\nwarning: no asset of git-tool@1.0.0 for darwin-x86_64\n",
    );
    assert.deepEqual((await globalStore.list()).map((row) => row.platforms.map((platform) => platform.join("-"))), [[
      "darwin-aarch64",
      "linux-x86_64",
    ]]);
    assert.deepEqual(await store.list(), []);
    assert.equal(await readLock(lock), null);
    await refused(
      install(context(), { ...quick, "all-platforms": true }, "gone@1.0.0"),
      "E-REG-001",
      /for any platform/,
    );
    await assert.rejects(install(context(), { ...quick, "all-platforms": true }, "git-tool"), UsageError);
    await assert.rejects(install(context(), { ...quick, "all-platforms": true }), UsageError);
  });
});

Deno.test("--all-platforms files a platform-independent artifact once and takes no binary of another platform", async () => {
  const elf = new Uint8Array(64);
  elf.set([0x7f, 0x45, 0x4c, 0x46, 2, 1, 1, 0]);
  elf.set([62, 0], 18);
  const assets = {
    "notes-1.0.0.mur.zip": await packedArtifact({ name: "notes" }),
    "git-tool-1.0.0.mur.zip": await packedNativeTool("git-tool", elf),
  };
  await withWorld({ "1.0.0": assets }, MANIFEST, async ({ context, globalStore }) => {
    const at = context();
    assert.equal(await install(at, { ...quick, "all-platforms": true }, "notes@1.0.0"), 0);
    assert.equal(at.err(), "");
    assert.equal(await install(at, { ...quick, "all-platforms": true }, "git-tool@1.0.0"), 0);
    assert.equal(at.err().match(/warning: /g)?.length, 3);
    assert.deepEqual((await globalStore.list()).map((row) => [row.name, row.platforms]), [["git-tool", [[
      "linux",
      "x86_64",
    ]]], ["notes", []]]);
  });
});

Deno.test("--all-platforms without a source chain is E-REG-001", async () => {
  await withWorld({}, MANIFEST, async ({ context, home }) => {
    await writeFiles(home, { ".murmur/config.yaml": "spend: { machine_tokens_per_day: 5 }\n" });
    await refused(install(context(), { ...quick, "all-platforms": true }, "a@1"), "E-REG-001", /no source to ask/);
  });
});

Deno.test("sources that do not answer are E-REG-006 with a line for each", async () => {
  await withWorld(() => Response.json({}, { status: 503 }), MANIFEST, async ({ context }) => {
    await refused(
      install(context(), quick, "notes"),
      "E-REG-006",
      /\n {2}github:murmur-nexus\/default-artifacts — HTTP 503/,
    );
  });
});

Deno.test("a reserved version is refused before anything is asked", async () => {
  await withWorld({}, MANIFEST, async ({ context, server }) => {
    await refused(install(context(), quick, "notes@latest"), "E-IO-003", /mur install notes/);
    assert.equal(server.seen.length, 0);
  });
});

Deno.test("a file whose own version is reserved is not filed", async () => {
  await withWorld({}, MANIFEST, async ({ context, project, lock }) => {
    await writeFiles(project, { "l.mur.zip": await packedArtifact({ name: "notes", version: "Edge" }) });
    await refused(install(context(), quick, "./l.mur.zip"), "E-IO-003", /the version 'Edge' is reserved/);
    assert.equal(await readLock(lock), null);
  });
});

Deno.test("tools, drivers and hooks are translated after they are installed; a failure is a warning", async () => {
  const tool = await packedArtifact({ name: "t", runtime: "tool" });
  const releases = {
    latest: {
      "t-1.0.0.mur.zip": tool,
      "h-1.0.0.mur.zip": await packedArtifact({ name: "h", runtime: "hook" }),
      "s-1.0.0.mur.zip": await packedArtifact({ name: "s" }),
      "c-1.0.0.mur.zip": await packedArtifact({ name: "c", runtime: "capsule" }),
      "n-1.0.0.mur.zip": await packedNativeTool("n", "x"),
    },
  };
  const names = ["t", "h", "s", "c", "n"];
  await withWorld(
    releases,
    declaring(...names.map((name) => `{ name: ${name}, version: 1.0.0 }`)),
    async ({ context, store }) => {
      const translated: string[] = [];
      const precompile: Precompile = (_, metadata) => {
        translated.push(metadata.name);
        return metadata.name === "t" ? Promise.reject(new MurError("E-RUN-001", "no good")) : Promise.resolve();
      };
      const at = context();
      assert.equal(await install(at, {}, undefined, precompile), 0);
      assert.deepEqual(translated, ["t", "h"]);
      assert.equal(at.err(), "warning: t@1.0.0 is installed but does not compile: no good\n");
      assert.ok(await holds(store, "t"));
      translated.length = 0;
      await install(context(), quick, undefined, precompile);
      assert.deepEqual(translated, []);
    },
  );
});

/** The API of a remote registry over one artifact, checking the key. */
function nexus(name: string, bytes: Uint8Array<ArrayBuffer>, published: Uint8Array[] = []): LocalAnswer {
  return async (path, request) => {
    if (request.headers.get("authorization") !== "Bearer nexus-key") {
      return Response.json({ error: "no" }, { status: 401 });
    }
    if (request.method === "POST") {
      if (published.length > 0) return Response.json({ error: "exists" }, { status: 409 });
      published.push(bytes);
      return Response.json({ artifact_id: `${name}@1.0.0`, sha256: await sha256Hex(bytes) }, { status: 201 });
    }
    if (path !== `/v1/artifacts/${name}/1.0.0?platform=${HOST}`) return missing();
    return new Response(bytes, { headers: { "x-murmur-sha256": await sha256Hex(bytes) } });
  };
}

Deno.test("--registry and registry.remote_url install from and publish to a remote registry with its key", async () => {
  const bytes = await packedArtifact({ name: "notes" });
  const published: Uint8Array[] = [];
  await withWorld(nexus("notes", bytes, published), MANIFEST, async ({ context, project, server, store }) => {
    const env = { NEXUS_API_KEY: "nexus-key" };
    const at = context({ env });
    await install(at, { ...quick, registry: `${server.url}/` }, "notes@1.0.0");
    assert.match(at.out(), /^Installed notes@1\.0\.0 → \//);
    assert.ok(await holds(store, "notes"));
    await writeFiles(project, {
      "murmur.yaml": `${MANIFEST}registry: { remote_url: '${server.url}' }\n`,
      "notes.mur.zip": bytes,
    });
    const second = context({ env });
    await publish(second, {}, "notes.mur.zip");
    assert.equal(second.out(), "Published notes@1.0.0\n");
    assert.equal(server.seen.at(-1)?.path, "/v1/artifacts?name=notes&version=1.0.0&runtime=static");
    assert.deepEqual(server.seen.at(-1)?.body, bytes);
    await refused(publish(context({ env }), {}, "notes.mur.zip"), "E-REG-003", /./);
    await refused(publish(context(), {}, "notes.mur.zip"), "E-IO-003", /NEXUS_API_KEY/);
    await refused(
      publish(context({ env: { NEXUS_API_KEY: "wrong" } }), {}, "notes.mur.zip"),
      "E-IO-003",
      /NEXUS_API_KEY/,
    );
  });
});

Deno.test("publishing files the archive in the global store once; reserved versions and missing files are refused", async () => {
  await withWorld({}, null, async ({ context, project, globalStore }) => {
    await refused(publish(context(), {}), "E-IO-001", /murmur\.yaml not found/);
    await writeFiles(project, { "murmur.yaml": "name: notes\nversion: '1.0.0'\nruntime: skill\n" });
    await refused(publish(context(), {}), "E-IO-001", /no artifact archive at .*notes-1\.0\.0\.mur\.zip[^]*mur build/);
    await writeFiles(project, {
      "notes-1.0.0.mur.zip": await packedArtifact({ name: "notes", manifest: "description: d\n" }),
    });
    const at = context();
    assert.equal(await publish(at, {}), 0);
    assert.equal(at.out(), "Published notes@1.0.0\n");
    assert.equal((await globalStore.resolve("notes", "1.0.0", null))?.metadata.description, "d");
    await refused(publish(context(), {}), "E-REG-003", /already published/);
    await writeFiles(project, { "l.mur.zip": await packedArtifact({ name: "notes", version: "Latest" }) });
    await refused(publish(context(), {}, "l.mur.zip"), "E-REG-004", /reserved artifact version 'Latest'/);
    await refused(publish(context(), { platform: "nonsense" }, "l.mur.zip"), "E-IO-003", /platform/);
  });
});

Deno.test("a native artifact is published for the host, told so, or for the named platform", {
  ignore: HOST === "unknown",
}, async () => {
  await withWorld({}, null, async ({ context, project, globalStore }) => {
    await writeFiles(project, { "t.mur.zip": await packedNativeTool("t", "x") });
    const at = context();
    await publish(at, {}, "t.mur.zip");
    assert.equal(at.out(), `Platform: ${HOST} (auto-detected)\nPublished t@1.0.0\n`);
    const second = context();
    await publish(second, { platform: "darwin-aarch64" }, "t.mur.zip");
    assert.equal(second.out(), "Published t@1.0.0\n");
    assert.equal((await globalStore.resolve("t", "1.0.0", "darwin-aarch64"))?.platform, "darwin-aarch64");
    assert.equal((await globalStore.resolve("t", "1.0.0", HOST))?.metadata.kind, "native");
  });
});

Deno.test("two installs at once leave both artifacts stored and both pinned", async () => {
  const releases = {
    latest: {
      "a-1.0.0.mur.zip": await packedArtifact({ name: "a" }),
      "b-1.0.0.mur.zip": await packedArtifact({ name: "b" }),
    },
  };
  await withWorld(releases, MANIFEST, async ({ project, home, server, lock, store }) => {
    const script = (name: string) => `
      const { install } = await import(${JSON.stringify(new URL("./install.ts", import.meta.url).href)});
      const { processContext } = await import(${JSON.stringify(new URL("./context.ts", import.meta.url).href)});
      await install({ ...processContext(), cwd: ${JSON.stringify(project)} }, { precompile: false }, ${
      JSON.stringify(name)
    });
    `;
    const children = ["a", "b", "a", "b"].map((name) =>
      new Deno.Command(Deno.execPath(), {
        args: ["eval", script(name)],
        cwd: new URL("..", import.meta.url),
        env: { HOME: home, MUR_GITHUB_API_BASE: server.url, DENO_DIR: denoDirectory()! },
      }).output()
    );
    for (const output of await Promise.all(children)) {
      assert.ok(output.success, new TextDecoder().decode(output.stderr));
    }
    assert.deepEqual((await readLock(lock))?.entries.map((entry) => entry.name).sort(), ["a", "b"]);
    assert.ok(await holds(store, "a") && await holds(store, "b"));
  });
});
