import assert from "node:assert/strict";
import type { ArtifactMetadata } from "../artifact/artifact_metadata.ts";
import { ArtifactStore } from "../artifact/store.ts";
import { testContext, withTempDir, writeFiles } from "../tests/support/cli_context.ts";
import { list } from "./list.ts";
import { UsageError } from "./usage_error.ts";

const BASE: ArtifactMetadata = {
  name: "",
  version: "1.0.0",
  kind: "wasm",
  role: "tool",
  platforms: [],
  description: null,
  tags: [],
  contracts: null,
};

async function put(store: ArtifactStore, name: string, more: Partial<ArtifactMetadata> = {}) {
  const metadata = { ...BASE, name, ...more };
  const platform = metadata.platforms[0] ?? null;
  await store.put({ metadata, platform, bytes: new TextEncoder().encode(name) }, "install");
}

async function withStores(work: (at: { project: string; home: string; outside: string }) => Promise<void>) {
  await withTempDir(async (directory) => {
    const [project, home, outside] = ["project", "home", "outside"].map((name) => `${directory}/${name}`) as [
      string,
      string,
      string,
    ];
    await writeFiles(directory, {
      "project/murmur.yaml": "name: c\nversion: '1'\n",
      "project/sub/x": "",
      "outside/x": "",
      "home/x": "",
    });
    const projectStore = new ArtifactStore(`${project}/.murmur/artifacts`);
    await put(projectStore, "page-tool", {
      contracts: { exports: ["murmur:tool/run@0.1.0"], imports: ["wasi:http/types@0.2.10"] },
    });
    await put(projectStore, "git-tool", { kind: "native", platforms: [["linux", "x86_64"]] });
    await put(projectStore, "git-tool", { kind: "native", platforms: [["darwin", "aarch64"]] });
    await put(new ArtifactStore(`${home}/.murmur/artifacts`), "notes", { kind: "static", role: "skill" });
    await work({ project, home, outside });
  });
}

const PROJECT_TABLE = `NAME       VERSION  RUNTIME  PLATFORMS
git-tool   1.0.0    tool     darwin-aarch64, linux-x86_64
page-tool  1.0.0    tool     —
`;

Deno.test("inside a project its store is listed, outside and with -g the global one", async () => {
  await withStores(async ({ project, home, outside }) => {
    for (const cwd of [project, `${project}/sub`]) {
      const context = testContext(cwd, { HOME: home });
      assert.equal(await list(context, {}), 0);
      assert.equal(context.out(), PROJECT_TABLE);
    }
    for (const [cwd, flags] of [[outside, {}], [project, { global: true }]] as const) {
      const context = testContext(cwd, { HOME: home });
      await list(context, flags);
      assert.equal(context.out(), "NAME   VERSION  RUNTIME  PLATFORMS\nnotes  1.0.0    skill    —\n");
    }
  });
});

Deno.test("--all lists both with their scope, the project's first, and does not go with -g", async () => {
  await withStores(async ({ project, home, outside }) => {
    const context = testContext(project, { HOME: home });
    await list(context, { all: true });
    assert.deepEqual(context.out().split("\n").map((line) => line.split(/ {2,}/)[0]), [
      "SCOPE",
      "project",
      "project",
      "global",
      "",
    ]);
    const away = testContext(outside, { HOME: home });
    await list(away, { all: true });
    assert.match(away.out(), /^SCOPE .*\nglobal {2}notes /);
    await assert.rejects(list(context, { all: true, global: true }), UsageError);
  });
});

Deno.test("--contract keeps what exports or imports an interface of that prefix, and shows which", async () => {
  await withStores(async ({ project, home }) => {
    const context = testContext(project, { HOME: home });
    await list(context, { contract: "wasi:http" });
    assert.match(
      context.out(),
      /^NAME +VERSION +RUNTIME +PLATFORMS +CONTRACTS\npage-tool +1\.0\.0 +tool +— +wasi:http\/types@0\.2\.10\n$/,
    );
    const none = testContext(project, { HOME: home });
    assert.equal(await list(none, { contract: "murmur:hook" }), 0);
    assert.equal(none.out(), "No artifacts found.\n");
  });
});

Deno.test("an empty or missing store has no artifacts, and that is no failure", async () => {
  await withTempDir(async (directory) => {
    const context = testContext(directory, { HOME: directory });
    assert.equal(await list(context, {}), 0);
    assert.equal(context.out(), "No artifacts found.\n");
  });
});

Deno.test("control characters in stored metadata never reach the terminal", async () => {
  await withStores(async ({ home, outside }) => {
    const store = new ArtifactStore(`${home}/.murmur/artifacts`);
    await put(store, "evil", { role: "tool\x1b[2J", contracts: { exports: ["a:b/c\x07"], imports: [] } });
    const context = testContext(outside, { HOME: home });
    await list(context, { contract: "a:b" });
    // deno-lint-ignore no-control-regex -- control characters are what is looked for
    assert.ok(!/[\x00-\x09\x0b-\x1f]/.test(context.out()));
  });
});
