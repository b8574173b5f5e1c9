import assert from "node:assert/strict";
import { judgeHookContract, parseArtifactManifest } from "../artifact/manifest/artifact_manifest.ts";
import { parseCapsuleManifest } from "../artifact/manifest/parse_capsule_manifest.ts";
import { testContext, withTempDir, writeFiles } from "../tests/support/cli_context.ts";
import { main } from "./main.ts";
import { CAPSULE_PROVIDERS, capsuleFiles } from "./templates/capsule_template.ts";

async function withProject(
  config: string | null,
  work: (
    run: (...args: string[]) => Promise<{ status: number; out: string; err: string }>,
    project: string,
  ) => Promise<void>,
): Promise<void> {
  await withTempDir(async (root) => {
    const project = `${root}/project`;
    await Deno.mkdir(project);
    if (config !== null) await writeFiles(root, { ".murmur/config.yaml": config });
    await work(async (...args) => {
      const context = testContext(project, { HOME: root });
      const status = await main(["new", ...args], context);
      return { status, out: context.out(), err: context.err() };
    }, project);
  });
}

const entries = (directory: string) => [...Deno.readDirSync(directory)].map(({ name }) => name).sort();

Deno.test("a capsule for the provider that is configured, Anthropic without one", async () => {
  await withProject(null, async (run, project) => {
    const { status, out, err } = await run("capsule", "helper");
    assert.deepEqual([status, err], [0, ""]);
    assert.deepEqual(entries(`${project}/helper`), [".gitignore", "murmur.yaml", "prompt.md"]);
    assert.deepEqual(entries(project), ["helper"]);
    const text = await Deno.readTextFile(`${project}/helper/murmur.yaml`);
    const { manifest, warnings, notices } = parseCapsuleManifest(text, "murmur.yaml");
    assert.deepEqual([warnings, notices], [[], []]);
    assert.equal(manifest.name, "helper");
    assert.match(text, /murmur-driver-anthropic[^]*https:\/\/api\.anthropic\.com[^]*\$\{ANTHROPIC_API_KEY\}/);
    assert.match(out, /^helper\/murmur\.yaml\nhelper\/prompt\.md\nhelper\/\.gitignore\n\nnext:\n/);
    assert.match(
      out,
      /mur config set -g credentials\.ANTHROPIC_API_KEY -\n {2}cd helper\n {2}mur install \S+\n {2}mur run/,
    );
  });
  await withProject(
    "inference: { provider: openai, model: qwen3, endpoint: 'http://localhost:11434' }\ncredentials: { OPENAI_API_KEY: k }\n",
    async (run, project) => {
      const { out } = await run("capsule", "helper");
      const text = await Deno.readTextFile(`${project}/helper/murmur.yaml`);
      assert.match(
        text,
        /murmur-driver-openai[^]*"http:\/\/localhost:11434"[^]*\$\{OPENAI_API_KEY\}[^]*model: "qwen3"/,
      );
      assert.ok(!out.includes("credentials."), "the key is there already");
      assert.ok(!out.includes("k}") && !text.includes('"k"'));
      await run("capsule", "other", "--provider", "anthropic");
      const other = await Deno.readTextFile(`${project}/other/murmur.yaml`);
      assert.ok(!other.includes("qwen3") && !other.includes("11434"), "another provider's settings are no use");
    },
  );
});

Deno.test("every template is read without a warning, whatever model and endpoint are configured", () => {
  for (const provider of CAPSULE_PROVIDERS) {
    for (const model of [null, 'a "quoted" # model: {x}', "ä\\n"]) {
      for (const endpoint of [null, "https://proxy.example/v1"]) {
        const files = capsuleFiles({ name: "a-1", provider, endpoint, model });
        const { manifest, warnings, notices } = parseCapsuleManifest(files["murmur.yaml"]!, "murmur.yaml");
        assert.deepEqual([warnings, notices], [[], []]);
        if (model !== null && provider !== "scripted") assert.equal(manifest.inference?.model, model);
      }
    }
  }
});

Deno.test("a tool", () =>
  withProject(null, async (run, project) => {
    const { status, out, err } = await run("tool", "word-count");
    assert.deepEqual([status, err], [0, ""]);
    assert.deepEqual(entries(`${project}/word-count`), [".gitignore", "murmur.yaml", "tool.ts"]);
    const manifest = parseArtifactManifest(await Deno.readTextFile(`${project}/word-count/murmur.yaml`), "murmur.yaml");
    assert.deepEqual([manifest.name, manifest.role], ["word-count", "tool"]);
    assert.match(out, /mur build word-count\n {2}mur install \.\/word-count\/word-count-0\.1\.0\.mur\.zip/);
  }));

Deno.test("a hook", () =>
  withProject(null, async (run, project) => {
    const { status, out, err } = await run("hook", "gatekeeper");
    assert.deepEqual([status, err], [0, ""]);
    assert.deepEqual(entries(`${project}/gatekeeper`), [".gitignore", "hook.ts", "murmur.yaml"]);
    const text = await Deno.readTextFile(`${project}/gatekeeper/murmur.yaml`);
    const manifest = parseArtifactManifest(text, "murmur.yaml");
    assert.deepEqual([manifest.name, manifest.role], ["gatekeeper", "hook"]);
    assert.deepEqual(judgeHookContract(manifest), {
      binding: "on-tool-call",
      executionMode: "blocking",
      commitPolicy: "deny",
    });
    assert.match(out, /mur build gatekeeper\n {2}mur install \.\/gatekeeper\/gatekeeper-0\.1\.0\.mur\.zip/);
    assert.match(out, /- \{ name: gatekeeper, version: "0\.1\.0", runtime: hook \}\n$/);
  }));

Deno.test("what cannot be made is refused, and nothing is left", () =>
  withProject(null, async (run, project) => {
    for (const kind of ["capsule", "tool", "hook"]) {
      for (const name of ["Helper", "a_b", "-a", "a-", "../x", "a/b", "", "a".repeat(101), "ä"]) {
        const { status, out, err } = await run(kind, "--", name);
        assert.deepEqual([status, out], [1, ""], name);
        assert.match(err, /^error\[E-NEW-002\]: /, name);
      }
    }
    assert.match(
      (await run("capsule", "x", "--provider", "gemini")).err,
      /E-NEW-004\].*'gemini'[^]*anthropic, openai, scripted/,
    );
    assert.deepEqual(entries(project), []);
    assert.equal((await run("capsule")).status, 2);
    assert.equal((await run("an agent that reads my mail")).status, 2);

    await Deno.writeTextFile(`${project}/file`, "");
    await Deno.mkdir(`${project}/directory`);
    await Deno.symlink("/nowhere", `${project}/link`);
    for (const name of ["file", "directory", "link"]) {
      for (const kind of ["capsule", "tool", "hook"]) {
        assert.match((await run(kind, name)).err, /E-NEW-003\].*already exists/, name);
      }
    }
    assert.deepEqual(entries(project), ["directory", "file", "link"]);
  }));

Deno.test("a configured provider without a template, and an endpoint that is none", async () => {
  await withProject("inference: { provider: gemini }\n", async (run, project) => {
    assert.match((await run("capsule", "a")).err, /E-NEW-004/);
    assert.equal((await run("capsule", "b", "--provider", "scripted")).status, 0);
    assert.deepEqual(entries(project), ["b"]);
  });
  for (const endpoint of ["http://example.com", "nonsense", "https://u:p@example.com"]) {
    await withProject(`inference: { endpoint: '${endpoint}' }\n`, async (run, project) => {
      assert.match((await run("capsule", "a")).err, /E-MAN-003\]: inference\.endpoint of .*config\.yaml /, endpoint);
      assert.deepEqual(entries(project), []);
    });
  }
});

Deno.test("a directory that cannot be written keeps its refusal and no leftovers", async (t) => {
  await t.step({
    name: "as another than root",
    ignore: Deno.uid() === 0,
    fn: () =>
      withProject(null, async (run, project) => {
        await Deno.chmod(project, 0o500);
        try {
          assert.match((await run("tool", "a")).err, /E-IO-002/);
        } finally {
          await Deno.chmod(project, 0o700);
        }
        assert.deepEqual(entries(project), []);
      }),
  });
});
