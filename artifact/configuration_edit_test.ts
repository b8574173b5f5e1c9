import assert from "node:assert/strict";
import fc from "fast-check";
import { parse } from "yaml";
import { MurError } from "../base/errors.ts";
import { judgeConfigValue, setConfigValue, setInConfigText } from "./configuration_edit.ts";

const SETTABLE = [
  "registry.default",
  "registry.index_url",
  "inference.provider",
  "inference.model",
  "inference.api_key",
  "inference.endpoint",
];

Deno.test("a value is set where it belongs, and comments and order stay", () => {
  const text =
    "# head\nregistry:\n  default: official # which\n  # chain\n  sources:\n    - { name: official, type: github } # one\n";
  assert.equal(
    setInConfigText(text, "registry.default", "mine", "f"),
    text.replace("default: official", "default: mine"),
  );
  assert.equal(setInConfigText("", "registry.default", "mine", "f"), "registry:\n  default: mine\n");
  assert.match(
    setInConfigText("# only a comment\n", "registry.default", "mine", "f"),
    /^# *only a comment\n\n?registry:\n {2}default: mine\n$/,
  );
  assert.equal(
    setInConfigText("credentials:\nother: 1\n", "credentials.A", "x", "f"),
    "credentials:\n  A: x\nother: 1\n",
  );
  assert.equal(setInConfigText("a: 1\n", "http.proxy", "http://h", "f"), "a: 1\nhttp:\n  proxy: http://h\n");
});

Deno.test("any value reads back as the string it was, next to what was there", () => {
  const value = fc.string({ unit: "grapheme" }).filter((text) => !/\p{Cc}/u.test(text));
  fc.assert(
    fc.property(
      fc.oneof(
        value,
        fc.constantFrom("true", "null", "1", "~", "- a", "a: b", "# x", "'", '"', "*a", "&a", "!x", "${A}", " "),
      ),
      (text) => {
        const changed = setInConfigText("credentials:\n  A: old\n  B: keep\nx: 1\n", "credentials.A", text, "f");
        assert.deepEqual(parse(changed), { credentials: { A: text, B: "keep" }, x: 1 });
      },
    ),
  );
});

Deno.test("a file that has something else there is refused, and so is one that does not parse", () => {
  for (
    const text of [
      "registry: text\n",
      "registry: [a]\n",
      "- a\n",
      "just text\n",
      "registry: *a\n",
      "a: [\n",
      "x: &a {b: 1}\nregistry: *a\n",
    ]
  ) {
    assert.throws(() => setInConfigText(text, "registry.default", "sk-x", "f.yaml"), (error) => {
      assert.ok(error instanceof MurError && error.code === "E-IO-003", String(error));
      assert.doesNotMatch(error.message, /sk-x/);
      return true;
    }, text);
  }
});

Deno.test("keys, scopes and values are judged before anything is touched", () => {
  for (const key of SETTABLE) {
    judgeConfigValue(key, "x", "project");
    judgeConfigValue(key, "x", "global");
  }
  judgeConfigValue("credentials.A_1", "x", "global");
  judgeConfigValue("http.proxy", "http://h:1", "global");
  judgeConfigValue("http.proxy", "", "global");
  const refused = (key: string, value: string, scope: "global" | "project", code: string) =>
    assert.throws(() => judgeConfigValue(key, value, scope), { code }, `${key} ${scope}`);
  for (
    const key of [
      "",
      "registry",
      "registry.sources",
      "containment",
      "spend.machine_tokens_per_day",
      "beta.enabled",
      "host_paths",
      "credentials",
      "x.y",
      "__proto__.x",
    ]
  ) {
    refused(key, "x", "global", "E-CFG-002");
  }
  for (const name of ["", "a", "1A", "A-B", "A.B", "A B"]) refused(`credentials.${name}`, "x", "global", "E-CFG-002");
  refused("credentials.A", "x", "project", "E-CFG-002");
  refused("http.proxy", "http://h", "project", "E-CFG-002");
  refused("http.proxy", "h:1", "global", "E-IO-003");
  refused("credentials.A", "a\nb", "global", "E-IO-003");
});

Deno.test("the file is made owner-only, replaced whole, and nothing is left beside it", async () => {
  const root = await Deno.realPath(await Deno.makeTempDir());
  const file = `${root}/home/.murmur/config.yaml`;
  const mode = async (path: string) => ((await Deno.stat(path)).mode ?? 0) & 0o777;
  try {
    await setConfigValue(file, "credentials.A", "sk-1", "global");
    assert.equal(await Deno.readTextFile(file), "credentials:\n  A: sk-1\n");
    assert.equal(await mode(file), 0o600);
    assert.equal(await mode(`${root}/home/.murmur`), 0o700);
    // Modes that were widened are set again.
    await Deno.chmod(file, 0o644);
    await Deno.chmod(`${root}/home/.murmur`, 0o755);
    await setConfigValue(file, "registry.default", "mine", "global");
    assert.equal(await mode(file), 0o600);
    assert.equal(await mode(`${root}/home/.murmur`), 0o700);
    assert.deepEqual(parse(await Deno.readTextFile(file)), {
      credentials: { A: "sk-1" },
      registry: { default: "mine" },
    });
    assert.deepEqual([...Deno.readDirSync(`${root}/home/.murmur`)].map(({ name }) => name), ["config.yaml"]);
    // A project's directory keeps its mode, its file is the owner's.
    await Deno.mkdir(`${root}/p/.murmur`, { recursive: true, mode: 0o755 });
    await setConfigValue(`${root}/p/.murmur/config.yaml`, "inference.model", "m", "project");
    assert.equal(await mode(`${root}/p/.murmur/config.yaml`), 0o600);
    assert.notEqual(await mode(`${root}/p/.murmur`) & 0o055, 0);
  } finally {
    await Deno.remove(root, { recursive: true });
  }
});

Deno.test("a refused change leaves the file byte for byte", async () => {
  const root = await Deno.makeTempDir();
  const file = `${root}/config.yaml`;
  try {
    for (const text of ["a: [\n", "registry: 5\n", "containment: strict\n"]) {
      await Deno.writeTextFile(file, text);
      await assert.rejects(setConfigValue(file, "registry.default", "x", "global"), { code: "E-IO-003" });
      assert.equal(await Deno.readTextFile(file), text);
    }
    assert.deepEqual([...Deno.readDirSync(root)].map(({ name }) => name), ["config.yaml"]);
  } finally {
    await Deno.remove(root, { recursive: true });
  }
});

Deno.test("what a killed writer left is removed by the next one, and nothing else", async () => {
  const root = await Deno.makeTempDir();
  const file = `${root}/config.yaml`;
  try {
    const kept = ["config.yaml", ".mur-notes.tmp", "a.tmp", ".mur-0123456789abcdeg.tmp"];
    for (const name of kept) await Deno.writeTextFile(`${root}/${name}`, "registry: {default: a}\n");
    await Deno.mkdir(`${root}/.mur-00000000000000aa.tmp`);
    // The writer stops where the content is written and has no name yet.
    const script = `
      const { writeAtomically } = await import(${JSON.stringify(import.meta.resolve("../base/atomic_file.ts"))});
      const { RootedDir } = await import(${JSON.stringify(import.meta.resolve("../base/rooted_dir.ts"))});
      RootedDir.prototype.rename = () => Deno.kill(Deno.pid, "SIGKILL");
      writeAtomically(${JSON.stringify(file)}, "credentials: {A: sk-1}", { mode: 0o600 });
    `;
    const { signal } = await new Deno.Command(Deno.execPath(), {
      args: ["eval", "--config", decodeURIComponent(new URL("../deno.json", import.meta.url).pathname), script],
      stdout: "null",
      stderr: "null",
    }).output();
    assert.equal(signal, "SIGKILL");
    const left = [...Deno.readDirSync(root)].filter(({ isFile, name }) => isFile && !kept.includes(name));
    assert.equal(left.length, 1);
    assert.equal(await Deno.readTextFile(`${root}/${left[0]!.name}`), "credentials: {A: sk-1}");

    await setConfigValue(file, "registry.default", "b", "global");
    assert.deepEqual(
      [...Deno.readDirSync(root)].map(({ name }) => name).sort(),
      [...kept, ".mur-00000000000000aa.tmp"].sort(),
    );
    assert.deepEqual(parse(await Deno.readTextFile(file)), { registry: { default: "b" } });
  } finally {
    await Deno.remove(root, { recursive: true });
  }
});

Deno.test("a file that is a link is changed where it lies", async () => {
  const root = await Deno.realPath(await Deno.makeTempDir());
  try {
    await Deno.mkdir(`${root}/dotfiles`);
    await Deno.mkdir(`${root}/.murmur`);
    await Deno.writeTextFile(`${root}/dotfiles/config.yaml`, "registry: {default: a}\n");
    await Deno.symlink("../dotfiles/config.yaml", `${root}/.murmur/config.yaml`);
    await setConfigValue(`${root}/.murmur/config.yaml`, "registry.default", "b", "global");
    assert.ok((await Deno.lstat(`${root}/.murmur/config.yaml`)).isSymlink);
    assert.deepEqual(parse(await Deno.readTextFile(`${root}/dotfiles/config.yaml`)), { registry: { default: "b" } });
  } finally {
    await Deno.remove(root, { recursive: true });
  }
});

Deno.test("writers at the same time lose nothing", async () => {
  const root = await Deno.makeTempDir();
  const file = `${root}/.murmur/config.yaml`;
  try {
    await Promise.all(
      Array.from({ length: 12 }, (_, index) => setConfigValue(file, `credentials.K_${index}`, `v${index}`, "global")),
    );
    const { credentials } = parse(await Deno.readTextFile(file));
    assert.deepEqual(
      credentials,
      Object.fromEntries(Array.from({ length: 12 }, (_, index) => [`K_${index}`, `v${index}`])),
    );
  } finally {
    await Deno.remove(root, { recursive: true });
  }
});
