import assert from "node:assert/strict";
import { openZip, readZipEntry } from "../artifact/zip_archive.ts";
import { writeZip } from "../artifact/zip_writer.ts";
import { MurError } from "../base/errors.ts";
import { type TestContext, testContext, withTempDir, writeFiles } from "../tests/support/cli_context.ts";
import { build, type BuildFlags } from "./build.ts";
import { buildSkill, inferName } from "./build_skill.ts";
import { UsageError } from "./usage_error.ts";

const TOOL = "name: page-tool\nversion: '0.3.0'\nruntime: tool\nrequires_files: [page.wasm]\n";

async function entriesOf(path: string): Promise<Record<string, string>> {
  const archive = openZip(await Deno.readFile(path), path);
  const entries: Record<string, string> = {};
  for (const entry of archive.entries.values()) {
    entries[entry.name] = new TextDecoder().decode(await readZipEntry(archive, entry, 1e7));
  }
  return entries;
}

async function refused(
  directory: string,
  code: string,
  pattern: RegExp,
  flags: BuildFlags = {},
  source?: string,
): Promise<TestContext> {
  const before = namesIn(directory);
  const context = testContext(directory);
  await assert.rejects(() => build(context, flags, source), (error) => {
    assert.ok(error instanceof MurError, String(error));
    assert.equal(error.code, code, error.message);
    assert.match(error.message, pattern);
    return true;
  });
  assert.deepEqual(namesIn(directory), before, "a refused build wrote something");
  return context;
}

const namesIn = (directory: string) => [...Deno.readDirSync(directory)].map((entry) => entry.name).sort();

async function withProject(files: Record<string, string>, work: (directory: string) => Promise<void>) {
  await withTempDir(async (directory) => {
    await writeFiles(directory, files);
    await work(directory);
  });
}

Deno.test("murmur.yaml is packed first as it is, then the declared files in order and nothing else", async () => {
  const manifest = "# comment\nname: a\nversion: '1'\nruntime: tool\nrequires_files: [z.txt, dir/b.txt, a.wasm]\n";
  const files = {
    "murmur.yaml": manifest,
    "a.wasm": "w",
    "z.txt": "z",
    "dir/b.txt": "b",
    "other.txt": "no",
    ".env": "no",
  };
  await withProject(files, async (directory) => {
    const context = testContext(directory);
    assert.equal(await build(context, {}), 0);
    assert.equal(context.out(), "Built artifact: a-1.mur.zip\n");
    assert.equal(context.err(), "");
    const entries = await entriesOf(`${directory}/a-1.mur.zip`);
    assert.deepEqual(Object.entries(entries), [["murmur.yaml", manifest], ["z.txt", "z"], ["dir/b.txt", "b"], [
      "a.wasm",
      "w",
    ]]);
  });
});

Deno.test("flags of a generated manifest are refused where none is generated", async () => {
  await withProject({ "murmur.yaml": TOOL, "page.wasm": "wasm" }, async (directory) => {
    for (const flags of [{ version: "2.0.0" }, { summary: "does it" }]) {
      await assert.rejects(() => build(testContext(directory), flags), UsageError);
    }
    assert.deepEqual(namesIn(directory), ["murmur.yaml", "page.wasm"]);
  });
});

Deno.test("two builds of the same files are byte-identical, whatever their times and modes", async () => {
  await withProject({ "murmur.yaml": TOOL, "page.wasm": "wasm" }, async (directory) => {
    await build(testContext(directory), { output: "one.mur.zip" });
    await Deno.utime(`${directory}/page.wasm`, 1, 1);
    await Deno.chmod(`${directory}/page.wasm`, 0o755);
    await build(testContext(directory), { output: "two.mur.zip" });
    assert.deepEqual(await Deno.readFile(`${directory}/one.mur.zip`), await Deno.readFile(`${directory}/two.mur.zip`));
  });
});

Deno.test("the output goes into a named folder under its default name, or to the named file", async () => {
  await withProject({ "src/murmur.yaml": TOOL, "src/page.wasm": "w", "out/keep": "" }, async (directory) => {
    const context = testContext(directory);
    await build(context, { output: "out" }, "src");
    await build(context, { output: "named.mur.zip" }, "./src/");
    await build(context, {}, `${directory}/src`);
    assert.equal(
      context.out(),
      "Built artifact: out/page-tool-0.3.0.mur.zip\nBuilt artifact: named.mur.zip\nBuilt artifact: src/page-tool-0.3.0.mur.zip\n",
    );
    await refused(directory, "E-IO-003", /does not end in \.mur\.zip/, { output: "named.zip" }, "src");
    await refused(directory, "E-IO-001", /cannot write .*missing/, { output: "missing/x.mur.zip" }, "src");
  });
});

Deno.test("a missing or broken manifest is refused with its code and place", async () => {
  await withProject({}, async (directory) => {
    await refused(directory, "E-IO-001", /^murmur\.yaml not found at \//);
    await writeFiles(directory, { "murmur.yaml": "name: [" });
    await refused(directory, "E-MAN-002", /line 1/);
    await writeFiles(directory, { "murmur.yaml": "name: a\nversion: '1'\n" });
    await refused(directory, "E-MAN-001", /'runtime'/);
    await writeFiles(directory, { "murmur.yaml": "name: a\nversion: 1.0\nruntime: tool\n" });
    await refused(directory, "E-MAN-003", /'version' has invalid type \(expected string, got number\)/);
    await Deno.remove(`${directory}/murmur.yaml`);
    await Deno.mkdir(`${directory}/murmur.yaml`);
    await refused(directory, "E-IO-003", /^failed to read murmur\.yaml at /);
  });
});

Deno.test("the retired inference_auth block is E-BLD-004 before anything else is judged", async () => {
  await withProject(
    { "murmur.yaml": "name: Bad Name\nversion: '1'\nruntime: tool\ninference_auth: {}\n" },
    async (directory) => {
      await refused(directory, "E-BLD-004", /upstream_auth/);
    },
  );
});

Deno.test("a name that is no bare name is E-BLD-001 with its line", async () => {
  for (
    const [name, reason] of [["''", /empty/], ["Bad", /'B'/], ["a_b", /'_'/], ["-a", /'-'/], [
      "x".repeat(101),
      /longer/,
    ]] as const
  ) {
    await withProject({ "murmur.yaml": `version: '1'\nname: ${name}\nruntime: tool\n` }, async (directory) => {
      await refused(directory, "E-BLD-001", reason);
    });
  }
});

Deno.test("declared paths that leave the folder or pass a link are E-BLD-002", async () => {
  const manifest = (file: string) =>
    `name: a\nversion: '1'\nruntime: tool\nexecution: static\nrequires_files: [${JSON.stringify(file)}]\n`;
  for (const file of ["/etc/passwd", "../secret", "a/../../secret", "a/..", "..\\secret", "\\x", "C:\\x", "a\u0000b"]) {
    await withProject({ "murmur.yaml": manifest(file) }, async (directory) => {
      await refused(directory, "E-BLD-002", /requires_files\[0\]/);
    });
  }
  await withProject({ "murmur.yaml": manifest("link"), "real": "x" }, async (directory) => {
    await Deno.symlink("real", `${directory}/link`);
    await refused(directory, "E-BLD-002", /'link' is a symbolic link/);
    await writeFiles(directory, { "murmur.yaml": manifest("folder/passwd") });
    await Deno.symlink("/etc", `${directory}/folder`);
    await refused(directory, "E-BLD-002", /'folder' is a symbolic link/);
  });
});

Deno.test("the checks come in their order: unsafe path, missing file, link, collision, output name, payload", async () => {
  const manifest = (...files: string[]) =>
    `name: a\nversion: '1'\nruntime: tool\nrequires_files: ${JSON.stringify(files)}\n`;
  const other = { output: "x.zip" };
  await withProject({ "murmur.yaml": manifest("gone", "link", "../x"), "b/c": "1", "b\\c": "2" }, async (directory) => {
    await Deno.symlink("b", `${directory}/link`);
    await refused(directory, "E-BLD-002", /'\.\.\/x'/, other);
    await writeFiles(directory, { "murmur.yaml": manifest("gone", "link") });
    await refused(directory, "E-IO-003", /^missing required file 'gone' in /, other);
    await writeFiles(directory, { "murmur.yaml": manifest("link", "b/c", "b\\c") });
    await refused(directory, "E-BLD-002", /symbolic link/, other);
    await writeFiles(directory, { "murmur.yaml": manifest("b/c", "b\\c") });
    await refused(directory, "E-BLD-002", /two files would be packed as 'b\/c'/, other);
    await writeFiles(directory, { "murmur.yaml": manifest("b/c") });
    await refused(directory, "E-IO-003", /does not end in/, other);
    await refused(directory, "E-BLD-003", /^missing root \.wasm file \(expected capsule\.wasm or one root \*\.wasm\)$/);
  });
});

Deno.test("a folder is no file to pack", async () => {
  await withProject({ "murmur.yaml": TOOL, "page.wasm/x": "" }, async (directory) => {
    await refused(directory, "E-IO-003", /not a regular file/);
  });
});

Deno.test("several root components need a capsule.wasm among them", async () => {
  const manifest = (...files: string[]) =>
    `name: a\nversion: '1'\nruntime: tool\nrequires_files: ${JSON.stringify(files)}\n`;
  const files = {
    "murmur.yaml": manifest("b.wasm", "a.wasm"),
    "a.wasm": "",
    "b.wasm": "",
    "capsule.wasm": "",
    "d/c.wasm": "",
  };
  await withProject(files, async (directory) => {
    await refused(directory, "E-BLD-003", /^multiple root \.wasm files found: a\.wasm, b\.wasm$/);
    await writeFiles(directory, { "murmur.yaml": manifest("a.wasm", "d/c.wasm") });
    assert.equal(await build(testContext(directory), {}), 0);
    await writeFiles(directory, { "murmur.yaml": manifest("a.wasm", "capsule.wasm") });
    const context = testContext(directory);
    assert.equal(await build(context, {}), 0);
    assert.match(context.err(), /^warning\[W-BLD-002\]: 'a\.wasm' beside 'capsule\.wasm' never runs\n {2}→ /);
  });
});

Deno.test("a file declared twice is packed once; a slot that is filled already warns W-BLD-001", async () => {
  const manifest =
    "name: a\nversion: '1'\nruntime: tool\nrequires_files: [murmur.yaml, capsule.wasm, ./capsule.wasm, b, b]\n";
  await withProject({ "murmur.yaml": manifest, "capsule.wasm": "w", "b": "b" }, async (directory) => {
    const context = testContext(directory);
    await build(context, {});
    assert.deepEqual(Object.keys(await entriesOf(`${directory}/a-1.mur.zip`)), ["murmur.yaml", "capsule.wasm", "b"]);
    assert.deepEqual(context.err().match(/warning\[W-BLD-001\]: requires_files\[\d\] names '[^']+'/g), [
      "warning[W-BLD-001]: requires_files[0] names 'murmur.yaml'",
      "warning[W-BLD-001]: requires_files[2] names 'capsule.wasm'",
    ]);
  });
});

Deno.test("the output file is never packed into itself", async () => {
  const manifest = "name: a\nversion: '1'\nruntime: tool\nexecution: static\nrequires_files: [a-1.mur.zip]\n";
  await withProject({ "murmur.yaml": manifest, "a-1.mur.zip": "old" }, async (directory) => {
    await build(testContext(directory), {});
    assert.deepEqual(Object.keys(await entriesOf(`${directory}/a-1.mur.zip`)), ["murmur.yaml"]);
  });
});

Deno.test("build inputs in a compiled artifact warn W-BLD-003, in a static one they do not", async () => {
  const files = ["Cargo.toml", "src/lib.rs", "target/x", "my-target", "rs"];
  const manifest = (more: string) =>
    `name: a\nversion: '1'\nruntime: tool\n${more}requires_files: ${JSON.stringify([...files, "a.wasm"])}\n`;
  const content = Object.fromEntries([...files, "a.wasm"].map((file) => [file, ""]));
  await withProject({ ...content, "murmur.yaml": manifest("") }, async (directory) => {
    const context = testContext(directory);
    await build(context, {});
    assert.match(
      context.err(),
      /W-BLD-003\]: a compiled artifact packs build inputs: 'Cargo\.toml', 'src\/lib\.rs', 'target\/x'\n/,
    );
    await writeFiles(directory, { "murmur.yaml": manifest("execution: static\n") });
    const second = testContext(directory);
    await build(second, {});
    assert.equal(second.err(), "");
  });
});

Deno.test("a literal secret warns W-SEC-004 per field and does not stop the build", async () => {
  const manifest =
    "name: a\nversion: '1'\nruntime: tool\nexecution: static\nx: { api_key: sk-verysecret, my_token: 123456789x }\n";
  await withProject({ "murmur.yaml": manifest }, async (directory) => {
    const context = testContext(directory);
    assert.equal(await build(context, {}), 0);
    assert.equal(context.err().match(/warning\[W-SEC-004\]/g)?.length, 2);
    assert.ok(!context.err().includes("verysecret"));
  });
});

Deno.test("static artifacts, skills and manifests alone need no component; a native one is told what it runs", async () => {
  await withProject(
    { "murmur.yaml": "name: a\nversion: '1'\nruntime: capsule\nexecution: static\n" },
    async (directory) => {
      assert.equal(await build(testContext(directory), {}), 0);
    },
  );
  await withProject(
    { "murmur.yaml": "name: a\nversion: '1'\nruntime: skill\n", "skill.md": "# x" },
    async (directory) => {
      assert.equal(await build(testContext(directory), {}), 0);
      assert.deepEqual(Object.keys(await entriesOf(`${directory}/a-1.mur.zip`)), ["murmur.yaml", "skill.md"]);
    },
  );
  await withProject({ "murmur.yaml": "name: a\nversion: '1'\nruntime: skill\n" }, async (directory) => {
    await refused(directory, "E-IO-003", /missing required file 'skill\.md'/);
  });
  const native = "name: a\nversion: '1'\nruntime: tool\nimplementation: native\nrequires_files: [bin/a]\n";
  await withProject({ "murmur.yaml": native, "bin/a": "x" }, async (directory) => {
    const context = testContext(directory);
    assert.equal(await build(context, {}), 0);
    assert.equal(context.err(), "");
  });
});

Deno.test("a version that would leave the folder cannot name the output", async () => {
  await withProject(
    { "murmur.yaml": "name: a\nversion: ../../x\nruntime: tool\nexecution: static\n" },
    async (directory) => {
      await refused(directory, "E-IO-003", /cannot be part of a file name/);
    },
  );
});

const BUILT =
  "name: my-tool\nversion: '1'\nruntime: tool\nbuild: { entry: src/tool.ts }\nrequires_files: [notes.txt]\n";

Deno.test("a build block packs the component it makes behind the declared files, and no source", async () => {
  await withProject({ "murmur.yaml": BUILT, "src/tool.ts": "source", "notes.txt": "n" }, async (directory) => {
    const asked: unknown[] = [];
    await build(testContext(directory), {}, ".", (source) => {
      asked.push(source);
      return Promise.resolve({ wasm: new TextEncoder().encode("component") });
    });
    assert.deepEqual(asked, [{ entry: `${directory}/src/tool.ts`, role: "tool", name: "my-tool", version: "1" }]);
    assert.deepEqual(Object.entries(await entriesOf(`${directory}/my-tool-1.mur.zip`)), [
      ["murmur.yaml", BUILT],
      ["notes.txt", "n"],
      ["my-tool.wasm", "component"],
    ]);
  });
});

Deno.test("a build block that cannot be, an entry that is missing or leaves the folder, a failing build: nothing written", async () => {
  await withProject({ "murmur.yaml": BUILT, "notes.txt": "n" }, async (directory) => {
    await refused(directory, "E-IO-003", /missing build entry 'src\/tool\.ts'/);
    await writeFiles(directory, { "murmur.yaml": BUILT.replace("src/tool.ts", "../tool.ts") });
    await refused(directory, "E-BLD-002", /\.\.\/tool\.ts/);
    await writeFiles(directory, {
      "murmur.yaml": BUILT.replace("runtime: tool", "runtime: tool\nimplementation: native"),
    });
    await refused(directory, "E-MAN-003", /'build'/);
    await writeFiles(directory, { "src/tool.ts": "" });
    await Deno.remove(`${directory}/src/tool.ts`);
    await Deno.symlink("/etc/passwd", `${directory}/src/tool.ts`);
    await writeFiles(directory, { "murmur.yaml": BUILT });
    await refused(directory, "E-BLD-002", /symbolic link/);
    await Deno.remove(`${directory}/src/tool.ts`);
    await writeFiles(directory, { "src/tool.ts": "" });
    const failing = () => Promise.reject(new MurError("E-BLD-005", "src/tool.ts does not type-check"));
    await assert.rejects(() => build(testContext(directory), {}, ".", failing), /does not type-check/);
    assert.ok(!namesIn(directory).some((name) => name.endsWith(".mur.zip")));
  });
});

Deno.test("a skill is packed from a folder: manifest, skill.md in any case, the rest of the root sorted", async () => {
  const files = {
    "my-skill/SKILL.md": "# x",
    "my-skill/b.txt": "b",
    "my-skill/a.txt": "a",
    "my-skill/sub/c": "c",
    "my-skill/.env": "no",
  };
  await withProject(files, async (directory) => {
    const context = testContext(directory);
    assert.equal(await build(context, { skill: "", summary: "does: it" }, "my-skill"), 0);
    assert.equal(context.out(), "Built artifact: my-skill-0.1.0.mur.zip\n");
    const entries = await entriesOf(`${directory}/my-skill-0.1.0.mur.zip`);
    assert.deepEqual(Object.keys(entries), ["murmur.yaml", "skill.md", "a.txt", "b.txt"]);
    assert.equal(
      entries["murmur.yaml"],
      'name: "my-skill"\nversion: "0.1.0"\nruntime: skill\ndescription: "does: it"\n',
    );
    const first = await Deno.readFile(`${directory}/my-skill-0.1.0.mur.zip`);
    await buildSkill(testContext(`${directory}/my-skill`), { skill: "", summary: "does: it" });
    await buildSkill(testContext(`${directory}/my-skill`), { skill: "", summary: "does: it" });
    assert.deepEqual(await Deno.readFile(`${directory}/my-skill/my-skill-0.1.0.mur.zip`), first);
  });
});

Deno.test("the value of --skill is a path when it looks like one, else the name", async () => {
  await withProject({ "s/skill.md": "x" }, async (directory) => {
    const context = testContext(directory);
    await buildSkill(context, { skill: "./s", version: "2" });
    await buildSkill(context, { skill: "other-name" }, "s");
    assert.equal(context.out(), "Built artifact: s-2.mur.zip\nBuilt artifact: other-name-0.1.0.mur.zip\n");
    await assert.rejects(() => buildSkill(context, { skill: "Bad_Name" }, "s"), /invalid artifact name 'Bad_Name'/);
    await assert.rejects(() => buildSkill(context, { skill: "./s" }, "t"), /another one follows/);
  });
});

Deno.test("a skill's name is inferred from where it lies", () => {
  assert.equal(inferName("/x/My Skill (v2).zip"), "my_skill_v2");
  assert.equal(inferName("/x/already-good"), "already-good");
  assert.equal(inferName("/x/__a--b__"), "a--b");
  assert.equal(inferName("/x/Ünï"), "n");
  assert.equal(inferName("/x/日本"), "skill");
  assert.equal(inferName("/"), "skill");
});

Deno.test("an inferred name that no store takes is built with a warning that says so", async () => {
  await withProject({ "my skill/skill.md": "x" }, async (directory) => {
    const context = testContext(directory);
    await buildSkill(context, { skill: "" }, "my skill");
    assert.match(context.out(), /my_skill-0\.1\.0\.mur\.zip/);
    assert.match(context.err(), /^warning: 'my_skill' is no artifact name/);
  });
});

Deno.test("a skill's own manifest is packed unchanged and has to say runtime: skill", async () => {
  const manifest = "# mine\nname: own\nversion: '3'\nruntime: skill\n";
  await withProject({ "s/skill.md": "x", "s/murmur.yaml": manifest }, async (directory) => {
    const context = testContext(directory);
    await buildSkill(context, { skill: "other", version: "9" }, "s");
    assert.equal((await entriesOf(`${directory}/own-3.mur.zip`))["murmur.yaml"], manifest);
    assert.match(context.err(), /^warning: the name and --version not used/);
    await writeFiles(directory, { "s/murmur.yaml": manifest.replace("skill\n", "tool\n") });
    await assert.rejects(
      () => buildSkill(context, { skill: "" }, "s"),
      (error) => error instanceof MurError && error.code === "E-MAN-003",
    );
    await writeFiles(directory, { "s/murmur.yaml": "name: [" });
    await assert.rejects(
      () => buildSkill(context, { skill: "" }, "s"),
      (error) => error instanceof MurError && error.code === "E-MAN-002",
    );
  });
});

Deno.test("a skill is packed from a zip file's root; links and folders in it do not count", async () => {
  await withTempDir(async (directory) => {
    const utf8 = (text: string) => new TextEncoder().encode(text);
    await Deno.writeFile(
      `${directory}/From Zip.zip`,
      await writeZip([{ name: "Skill.MD", bytes: utf8("# z") }, { name: "sub/skill.md", bytes: utf8("no") }, {
        name: "b",
        bytes: utf8("b"),
      }]),
    );
    const context = testContext(directory);
    await buildSkill(context, { skill: "zipped" }, "From Zip.zip");
    assert.deepEqual(Object.keys(await entriesOf(`${directory}/zipped-0.1.0.mur.zip`)), [
      "murmur.yaml",
      "skill.md",
      "b",
    ]);
  });
});

Deno.test("no SKILL.md, two of them, or no such folder: refused", async () => {
  await withProject({ "s/readme.md": "x", "two/SKILL.md": "1", "two/skill.md": "2" }, async (directory) => {
    const context = testContext(directory);
    const code = (expected: string) => (error: unknown) => error instanceof MurError && error.code === expected;
    await assert.rejects(() => buildSkill(context, { skill: "" }, "s"), code("E-IO-001"));
    await assert.rejects(() => buildSkill(context, { skill: "" }, "gone"), code("E-IO-001"));
    await assert.rejects(() => buildSkill(context, { skill: "" }, "gone.zip"), code("E-IO-001"));
    await assert.rejects(() => buildSkill(context, { skill: "" }, "two"), code("E-BLD-002"));
    await Deno.symlink("/etc/passwd", `${directory}/s/SKILL.md`);
    await assert.rejects(() => buildSkill(context, { skill: "" }, "s"), code("E-IO-001"));
    assert.deepEqual(namesIn(directory), ["s", "two"]);
  });
});
