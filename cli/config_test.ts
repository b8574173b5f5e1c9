import assert from "node:assert/strict";
import { murmurHomeAt } from "../base/murmur_home.ts";
import { DEFAULT_TIME_BOUNDS } from "../base/time_bounds.ts";
import { configGet, configList, configSet } from "./config.ts";
import type { CliContext, TextOutput } from "./context.ts";
import { schema } from "./schema.ts";
import { readSecret, type SecretInput } from "./secret_input.ts";

function output(): TextOutput & { readonly text: () => string } {
  const parts: string[] = [];
  const write = (text: string): boolean => parts.push(text) > 0;
  return {
    isTerminal: false,
    color: false,
    write,
    writeBytes: () => false,
    line: (text) => write(`${text}\n`),
    text: () => parts.join(""),
  };
}

/** A context over a directory of its own. */
async function withContext(
  run: (context: CliContext, seen: { stdout: () => string; stderr: () => string; root: string }) => Promise<void>,
): Promise<void> {
  const root = await Deno.realPath(await Deno.makeTempDir());
  await Deno.mkdir(`${root}/project`);
  const [stdout, stderr] = [output(), output()];
  const context: CliContext = {
    cwd: `${root}/project`,
    env: { get: () => undefined, toObject: () => ({}) },
    stdout,
    stderr,
    lostOutput: () => null,
    bounds: DEFAULT_TIME_BOUNDS,
    home: () => murmurHomeAt(root),
    absoluteHome: () => murmurHomeAt(root),
    warn: () => assert.fail("warned"),
    progress: () => ({ update: () => {}, done: () => {} }),
  };
  try {
    await run(context, { stdout: stdout.text, stderr: stderr.text, root });
  } finally {
    await Deno.remove(root, { recursive: true });
  }
}

/** Standard input that gives these bytes, in chunks. */
function input(text: string, terminal = false): SecretInput & { readonly raw: boolean[] } {
  const chunks = new TextEncoder().encode(text);
  const raw: boolean[] = [];
  let at = 0;
  return {
    raw,
    isTerminal: () => terminal,
    setRaw: (mode) => void raw.push(mode),
    read(buffer) {
      if (at >= chunks.length) return Promise.resolve(null);
      const part = chunks.subarray(at, at + Math.min(3, buffer.length));
      buffer.set(part);
      at += part.length;
      return Promise.resolve(part.length);
    },
  };
}

Deno.test("set writes the project's file, with -g the global one, and says where", async () => {
  await withContext(async (context, { stdout, root }) => {
    assert.equal(await configSet(context, {}, "registry.default", "mine"), 0);
    assert.equal(await configSet(context, { global: true }, "credentials.A_KEY", "sk-secret"), 0);
    assert.equal(
      stdout(),
      `Set registry.default in ${root}/project/.murmur/config.yaml\nSet credentials.A_KEY in ${root}/.murmur/config.yaml\n`,
    );
    assert.match(await Deno.readTextFile(`${root}/.murmur/config.yaml`), /A_KEY: sk-secret/);
    assert.match(await Deno.readTextFile(`${root}/project/.murmur/config.yaml`), /default: mine/);
  });
});

Deno.test("what cannot be set is refused and nothing is written", async () => {
  await withContext(async (context, { root, stdout }) => {
    await assert.rejects(configSet(context, {}, "credentials.A", "x"), { code: "E-CFG-002" });
    await assert.rejects(configSet(context, {}, "http.proxy", "http://h"), { code: "E-CFG-002" });
    await assert.rejects(configSet(context, { global: true }, "credentials.a", "x"), { code: "E-CFG-002" });
    await assert.rejects(configSet(context, { global: true }, "containment", "scoped"), { code: "E-CFG-002" });
    await assert.rejects(configSet(context, { global: true }, "http.proxy", "h"), { code: "E-IO-003" });
    // The key is judged before its value is asked for.
    await assert.rejects(configSet(context, {}, "nothing", "-", { ...input("x"), read: () => assert.fail("asked") }), {
      code: "E-CFG-002",
    });
    assert.equal(stdout(), "");
    assert.deepEqual([...Deno.readDirSync(root)].map(({ name }) => name), ["project"]);
  });
});

Deno.test("a value of - comes from standard input, without its last line break", async () => {
  await withContext(async (context, { root, stdout, stderr }) => {
    assert.equal(await configSet(context, { global: true }, "credentials.A", "-", input("sk-from-pipe\n")), 0);
    assert.match(await Deno.readTextFile(`${root}/.murmur/config.yaml`), /A: sk-from-pipe\n/);
    assert.doesNotMatch(stdout() + stderr(), /sk-from-pipe/);
    await assert.rejects(configSet(context, { global: true }, "credentials.A", "-", input("two\nlines\n")), {
      code: "E-IO-003",
    });
    await assert.rejects(configSet(context, { global: true }, "credentials.A", "-", input("x".repeat(70_000))), {
      code: "E-IO-003",
    });
  });
});

Deno.test("standard input without a value leaves the key that is set", async () => {
  await withContext(async (context, { root }) => {
    await configSet(context, { global: true }, "credentials.A", "sk-good");
    for (const nothing of ["", "\n"]) {
      await assert.rejects(configSet(context, { global: true }, "credentials.A", "-", input(nothing)), {
        code: "E-IO-003",
        message: /credentials\.A/,
      });
    }
    assert.match(await Deno.readTextFile(`${root}/.murmur/config.yaml`), /A: sk-good\n/);
  });
});

Deno.test("a literal inference key in a project's file is warned of", async () => {
  await withContext(async (context, { stderr }) => {
    await configSet(context, {}, "inference.api_key", "${KEY}");
    assert.equal(stderr(), "");
    await configSet(context, {}, "inference.api_key", "sk-literal");
    assert.match(stderr(), /^warning: .*config\.yaml: inference\.api_key holds a key/);
    assert.doesNotMatch(stderr(), /sk-literal/);
  });
});

Deno.test("get prints the effective value, and on stderr where it comes from", async () => {
  await withContext(async (context, { root, stdout, stderr }) => {
    assert.equal(await configGet(context, {}, "registry.default"), 0);
    assert.deepEqual([stdout(), stderr()], ["official\n", "from built-in default\n"]);
    await configSet(context, { global: true }, "registry.default", "g");
    await configGet(context, {}, "registry.default");
    await configSet(context, {}, "registry.default", "p");
    await configGet(context, {}, "registry.default");
    assert.match(stdout(), /official\nSet .*\ng\nSet .*\np\n$/);
    assert.equal(
      stderr(),
      `from built-in default\nfrom ${root}/.murmur/config.yaml\nfrom ${root}/project/.murmur/config.yaml\n`,
    );
  });
});

Deno.test("get of what is not set prints nothing and is 1; of a secret only whether it is set", async () => {
  await withContext(async (context, { stdout }) => {
    assert.equal(await configGet(context, {}, "inference.model"), 1);
    assert.equal(stdout(), "");
    assert.equal(await configGet(context, {}, "credentials.A"), 1);
    assert.equal(stdout(), "not set\n");
    await configSet(context, { global: true }, "credentials.A", "sk-secret");
    await configSet(context, { global: true }, "inference.api_key", "sk-secret");
    assert.equal(await configGet(context, {}, "credentials.A"), 0);
    assert.equal(await configGet(context, {}, "inference.api_key"), 0);
    assert.ok(stdout().endsWith("set\nset\n"));
    assert.doesNotMatch(stdout(), /sk-secret/);
    for (const key of ["nothing", "credentials.a", "credentials", "registry", "__proto__"]) {
      await assert.rejects(configGet(context, {}, key), { code: "E-CFG-002" }, key);
    }
  });
});

Deno.test("list prints every effective key with its origin, secrets and control characters out of it", async () => {
  await withContext(async (context, { root, stdout }) => {
    await Deno.mkdir(`${root}/.murmur`);
    await Deno.mkdir(`${root}/project/.murmur`);
    await Deno.writeTextFile(
      `${root}/.murmur/config.yaml`,
      "registry: {default: official, index_url: 'https://u:sk-secret@h', sources: [{name: official, type: github, repo: a/b, token: sk-secret}]}\n" +
        "credentials: {B: sk-secret, A: sk-secret}\ninference: {api_key: sk-secret}\ncontainment: sealed\nspend: {machine_tokens_per_day: 5}\n" +
        "http: {proxy: 'http://h'}\nhost_paths: [{path: /srv, access: read}]\nbeta: {enabled: [x]}\n",
    );
    await Deno.writeTextFile(
      `${root}/project/.murmur/config.yaml`,
      'containment: scoped\nspend: {machine_tokens_per_day: 4}\nregistry: {default: official}\ninference: {model: "m@1\\e[2J"}\nbeta: {enabled: [x]}\n',
    );
    assert.equal(await configList(context, { json: true }), 0);
    const settings = JSON.parse(stdout()) as { key: string; value: unknown; origin: string }[];
    assert.deepEqual(settings.map(({ key, origin }) => `${key} ${origin}`), [
      "registry.default project",
      "registry.index_url global",
      "registry.sources global",
      "inference.model project",
      "inference.api_key global",
      "beta.enabled global",
      "containment global",
      "spend.machine_tokens_per_day project",
      "http.proxy global",
      "host_paths global",
      "credentials.A global",
      "credentials.B global",
    ]);
    assert.deepEqual(settings[2]?.value, [{ name: "official", type: "github", repo: "a/b", token: "set" }]);
    await configList(context, {});
    assert.doesNotMatch(stdout(), /sk-secret/);
    // deno-lint-ignore no-control-regex
    assert.doesNotMatch(stdout(), /\u001b/);
    assert.match(stdout(), /^inference\.model {15}m@1/m);
    assert.match(stdout(), /^containment {19}sealed {2}\(global\)$/m);
  });
});

Deno.test("notices about ignored keys go to stderr", async () => {
  await withContext(async (context, { root, stderr }) => {
    await Deno.mkdir(`${root}/.murmur`);
    await Deno.writeTextFile(`${root}/.murmur/config.yaml`, "typo: 1\n");
    await configList(context, {});
    assert.equal(stderr(), `warning: ${root}/.murmur/config.yaml: unknown key: 'typo' is ignored\n`);
  });
});

Deno.test("on a terminal nothing is echoed, erasing works, and Ctrl-C gives up", async () => {
  const typed = async (keys: string) => {
    const stdin = input(keys, true);
    const stderr = output();
    const value = await readSecret("key: ", stderr, stdin);
    assert.deepEqual(stdin.raw, [true, false], "the terminal is put back");
    assert.equal(stderr.text(), "key: \n");
    return value;
  };
  assert.equal(await typed("sk-1\r"), "sk-1");
  assert.equal(await typed("sk-1\n"), "sk-1");
  assert.equal(await typed("ax\u007f\u007f\u007f\u007fb\r"), "b");
  assert.equal(await typed("aé\u0008b\r"), "ab");
  assert.equal(await typed("sk-1\u0004"), "sk-1");
  assert.equal(await typed("sk\u0003"), null);
  assert.equal(await typed("end of input"), "end of input");
  await withContext(async (context, { root }) => {
    assert.equal(await configSet(context, { global: true }, "credentials.A", "-", input("\u0003", true)), 130);
    assert.deepEqual([...Deno.readDirSync(root)].map(({ name }) => name), ["project"]);
  });
});

Deno.test("mur schema prints one JSON document", async () => {
  await withContext(async (context, { stdout }) => {
    assert.equal(await schema(context), 0);
    const document = JSON.parse(stdout()) as { properties: Record<string, unknown> };
    assert.ok("artifacts" in document.properties && "upstream_auth" in document.properties);
  });
});
