import assert from "node:assert/strict";
import fc from "fast-check";
import { MurError } from "../base/errors.ts";
import { murmurHomeAt } from "../base/murmur_home.ts";
import {
  type ConfigurationFile,
  mergeConfiguration,
  parseConfiguration,
  parseProxy,
  readConfiguration,
  sourceToken,
} from "./configuration.ts";
import { CONTAINMENT_CLASSES } from "./manifest/capsule_manifest.ts";

const FULL = `registry:
  default: mine
  index_url: https://index.example
  sources:
    - {name: official, type: github, repo: acme/artifacts, token: GH}
    - {name: mine, type: github, url: https://git.example}
inference: {provider: p, model: m, endpoint: https://h, api_key: sk-inference}
credentials:
  A_KEY: sk-a
  EMPTY: ''
  NULL:
  _B: ' sk-b '
beta: {enabled: [mur-new, mur-new, x]}
containment: scoped
spend: {machine_tokens_per_day: 1000}
http: {proxy: 'http://Proxy.example:3128/'}
host_paths:
  - {path: ~/data, access: read}
  - {path: /srv/models/, access: read-write}
`;

function parse(text: string, scope: "global" | "project" = "global") {
  return parseConfiguration(text, "config.yaml", scope, "/home/u");
}
function file(text: string, scope: "global" | "project" = "global"): ConfigurationFile | null {
  return parse(text, scope).values;
}

Deno.test("every key of the global file is read", () => {
  const { values, notices } = parse(FULL);
  assert.deepEqual(notices, []);
  assert.deepEqual(values, {
    file: "config.yaml",
    registryDefault: "mine",
    registryIndexUrl: "https://index.example",
    sources: [
      { name: "official", type: "github", repo: "acme/artifacts", url: null, token: "GH" },
      { name: "mine", type: "github", repo: null, url: "https://git.example", token: null },
    ],
    inferenceProvider: "p",
    inferenceModel: "m",
    inferenceEndpoint: "https://h",
    inferenceApiKey: "sk-inference",
    credentials: new Map([["A_KEY", "sk-a"], ["_B", "sk-b"]]),
    betaEnabled: ["mur-new", "x"],
    containment: "scoped",
    machineTokensPerDay: 1000,
    httpProxy: "http://proxy.example:3128",
    hostPaths: [
      { written: "~/data", path: "/home/u/data", access: "read" },
      { written: "/srv/models/", path: "/srv/models", access: "read-write" },
    ],
  });
});

Deno.test("an empty file is no file", () => {
  for (const text of ["", "\n# comment\n", "~", "---\n"]) assert.equal(file(text), null, text);
});

Deno.test("a project's file may not hold credentials, name a proxy or widen the host", () => {
  const { values, notices } = parse(FULL, "project");
  assert.deepEqual([values?.credentials.size, values?.httpProxy, values?.hostPaths], [0, null, []]);
  assert.equal(values?.containment, "scoped");
  assert.deepEqual(notices.map((line) => /'([\w.]+)' is ignored|inference\.api_key/.exec(line)?.[0]), [
    "inference.api_key",
    "'credentials' is ignored",
    "'http.proxy' is ignored",
    "'host_paths' is ignored",
  ]);
  for (const line of notices) {
    assert.match(line, /^warning: config\.yaml: /);
    assert.doesNotMatch(line, /sk-/);
  }
  assert.deepEqual(
    parse("credentials: {}\nhost_paths: []\nhttp: {proxy: ''}\ninference: {api_key: '${X}'}\n", "project").notices,
    [],
  );
});

Deno.test("unknown keys and names that are none are ignored with a line each", () => {
  assert.deepEqual(
    parse(
      "a: 1\nregistry: {b: 1}\ncredentials: {lower: x, A: y}\nspend: {c: 1}\nhost_paths: [{path: /x, access: read, d: 1}]\n",
    ).notices,
    [
      "warning: config.yaml: unknown key: 'a' is ignored",
      "warning: config.yaml: unknown key: 'registry.b' is ignored",
      "warning: config.yaml: not the name of a credential: 'credentials.lower' is ignored",
      "warning: config.yaml: unknown key: 'spend.c' is ignored",
      "warning: config.yaml: unknown key: 'host_paths[0].d' is ignored",
    ],
  );
});

Deno.test("what cannot be used is E-IO-003, and no error shows the text of the file", () => {
  const rows: [string, RegExp][] = [
    ["registry: {default: [sk-x]}", /^config\.yaml:1: 'registry\.default' is not a string$/],
    ["registry: sk-x", /'registry' is not a mapping/],
    ["registry: {sources: {a: b}}", /'registry\.sources' is not a list/],
    ["registry: {sources: [sk-x]}", /'registry\.sources\[0\]' is not a mapping/],
    ["registry: {sources: [{type: github}]}", /has no name/],
    ["registry: {sources: [{name: a}]}", /type' must be github/],
    ["registry: {sources: [{name: a, type: gitlab}]}", /type' must be github/],
    ["credentials: [sk-x]", /'credentials' is not a mapping/],
    ["credentials: {A: [sk-x]}", /'credentials\.A' is not a string/],
    ["beta: {enabled: sk-x}", /'beta\.enabled' is not a list/],
    ["beta: {enabled: [[sk]]}", /'beta\.enabled\[0\]' is not a string/],
    [
      "\n\ncontainment: strict",
      /^config\.yaml:3: 'containment' must be one of: advisory, scoped, sealed; got 'strict'$/,
    ],
    ["spend: {machine_tokens_per_day: 0}", /'spend\.machine_tokens_per_day' must be a whole number of at least 1/],
    ["spend: {machine_tokens_per_day: '5'}", /must be a whole number/],
    ["spend: {machine_tokens_per_day: -5}", /must be a whole number/],
    ["http: {proxy: proxy.example}", /'http\.proxy' must be/],
    ["http: {proxy: 'http://u:sk-x@h'}", /'http\.proxy' must be/],
    ["http: {proxy: 'socks5://h'}", /'http\.proxy' must be/],
    ["http: {proxy: 'http://h/p'}", /'http\.proxy' must be/],
    ["host_paths: {path: /x}", /'host_paths' is not a list/],
    ["host_paths: [/x]", /'host_paths\[0\]' is not a mapping/],
    ["host_paths: [{access: read}]", /'host_paths\[0\]' has no path/],
    ["host_paths: [{path: /x}]", /'host_paths\[0\]' , '\/x', has an access other than/],
    ["host_paths: [{path: /x, access: write}]", /access other than/],
    ["host_paths: [{path: x, access: read}]", /'x', is not absolute/],
    ["host_paths: [{path: /, access: read}]", /is the root directory/],
    ["host_paths: [{path: //, access: read}]", /is the root directory/],
    ["host_paths: [{path: /.., access: read}]", /is the root directory/],
    ["host_paths: [{path: /x, access: read}, {path: /x/, access: read}]", /'host_paths\[1\]'.*is listed twice/],
    ["- sk-x", /the file is not a mapping/],
    ["a: [sk-x", /^failed to parse config\.yaml:\d+:\d+: /],
    ["credentials: {A: sk-x: sk-y: z}", /^failed to parse/],
    ["a: 1\na: 2", /failed to parse config\.yaml:2:1: the key 'a' is written twice/],
    ["---\na: 1\n---\nb: 1", /more than one document/],
  ];
  for (const [text, message] of rows) {
    assert.throws(() => parse(text), (error) => {
      assert.ok(error instanceof MurError, String(error));
      assert.equal(error.code, "E-IO-003");
      assert.match(error.message, message);
      assert.doesNotMatch(error.message, /sk-/);
      assert.equal(error.place, undefined);
      return true;
    }, text);
  }
});

Deno.test("without a global file the built-in base holds, with one it is the whole base", () => {
  const none = mergeConfiguration(null, null);
  assert.equal(none.registryDefault, "official");
  assert.deepEqual(none.sources.map(({ name, repo }) => [name, repo]), [[
    "official",
    "murmur-nexus/default-artifacts",
  ]]);
  const bare = mergeConfiguration(file("containment: scoped\n"), null);
  assert.deepEqual([bare.registryDefault, bare.sources, bare.containment], [null, [], "scoped"]);
});

Deno.test("each key merges by its own rule", () => {
  const merged = mergeConfiguration(
    file(FULL),
    file(
      "registry: {default: p, sources: [{name: official, type: github, repo: p/x}, {name: extra, type: github}]}\n" +
        "inference: {model: pm, api_key: sk-project}\nbeta: {enabled: [x, y]}\ncontainment: advisory\n" +
        "spend: {machine_tokens_per_day: 5000}\n",
      "project",
    ),
  );
  assert.equal(merged.registryDefault, "p");
  assert.equal(merged.registryIndexUrl, "https://index.example");
  assert.deepEqual(merged.sources.map(({ name, repo }) => [name, repo]), [["official", "p/x"], ["mine", null], [
    "extra",
    null,
  ]]);
  assert.deepEqual([merged.inferenceProvider, merged.inferenceModel, merged.inferenceApiKey], [
    "p",
    "pm",
    "sk-inference",
  ]);
  assert.deepEqual(merged.betaEnabled, ["mur-new", "x", "y"]);
  assert.equal(merged.containment, "scoped");
  assert.equal(merged.machineTokensPerDay, 1000);
  assert.equal(merged.credentials.get("A_KEY"), "sk-a");
});

Deno.test("the stronger class and the lower ceiling win, whoever asks", () => {
  const classes = [null, ...CONTAINMENT_CLASSES];
  const rank = (each: string | null) => classes.indexOf(each as never);
  const of = (containment: string | null, tokens: number | null, scope: "global" | "project") =>
    file(
      `x: 1\n${containment === null ? "" : `containment: ${containment}\n`}${
        tokens === null ? "" : `spend: {machine_tokens_per_day: ${tokens}}\n`
      }`,
      scope,
    );
  for (const a of classes) {
    for (const b of classes) {
      const { containment } = mergeConfiguration(of(a, null, "global"), of(b, null, "project"));
      assert.equal(rank(containment), Math.max(rank(a), rank(b)));
    }
  }
  for (const [a, b, least] of [[1, 2, 1], [2, 1, 1], [null, 3, 3], [3, null, 3], [null, null, null]] as const) {
    assert.equal(mergeConfiguration(of(null, a, "global"), of(null, b, "project")).machineTokensPerDay, least);
  }
});

Deno.test("a proxy is an origin and nothing more", () => {
  assert.equal(parseProxy("http://h"), "http://h");
  assert.equal(parseProxy("https://h:443"), "https://h");
  assert.equal(parseProxy("http://[::1]:3128"), "http://[::1]:3128");
  for (const bad of ["h:80", "", "http://", "http://u@h", "http://h?x", "ftp://h"]) {
    assert.equal(parseProxy(bad), null, bad);
  }
});

Deno.test("a token is a reference, the name of a set variable, or itself", () => {
  const env = new Map([["GH", "from-env"], ["EMPTY", ""]]);
  const token = (text: string | null) =>
    sourceToken({ name: "a", type: "github", repo: null, url: null, token: text }, env);
  assert.equal(token("${GH}"), "from-env");
  assert.equal(token("${NONE}"), null);
  assert.equal(token("GH"), "from-env");
  assert.equal(token("ghp_literal"), "ghp_literal");
  assert.equal(token("EMPTY"), null);
  assert.equal(token(null), null);
});

Deno.test("both files are read from their places, and a project in the home directory has none of its own", async () => {
  const root = await Deno.realPath(await Deno.makeTempDir());
  const notices: string[] = [];
  const read = (cwd: string) =>
    readConfiguration({ home: murmurHomeAt(`${root}/home`), cwd, notice: (line) => notices.push(line) });
  try {
    await Deno.mkdir(`${root}/home/.murmur`, { recursive: true });
    await Deno.mkdir(`${root}/project/.murmur`, { recursive: true });
    await Deno.mkdir(`${root}/project/below`);
    assert.equal((await read(`${root}/project`)).registryDefault, "official");
    await Deno.writeTextFile(
      `${root}/home/.murmur/config.yaml`,
      "credentials: {A: sk}\nhost_paths: [{path: ~/d, access: read}]\n",
    );
    await Deno.writeTextFile(`${root}/project/.murmur/config.yaml`, "containment: sealed\n");
    const both = await read(`${root}/project/`);
    assert.deepEqual([both.containment, both.credentials.get("A"), both.hostPaths[0]?.path], [
      "sealed",
      "sk",
      `${root}/home/d`,
    ]);
    assert.equal(both.project?.file, `${root}/project/.murmur/config.yaml`);
    assert.equal((await read(`${root}/project/below`)).containment, null, "directories above are not searched");
    // The same file is not read as a project's, so its credentials are no finding.
    assert.equal((await read(`${root}/home`)).project, null);
    await Deno.symlink(`${root}/home`, `${root}/link`);
    assert.equal((await read(`${root}/link`)).project, null);
    assert.deepEqual(notices, []);
    await Deno.remove(`${root}/project/.murmur/config.yaml`);
    await Deno.mkdir(`${root}/project/.murmur/config.yaml`);
    await assert.rejects(read(`${root}/project`), { code: "E-IO-003", message: /^failed to read / });
  } finally {
    await Deno.remove(root, { recursive: true });
  }
});

Deno.test("any text is read or E-IO-003", () => {
  const damaged = fc.tuple(
    fc.nat(),
    fc.integer({ min: 0, max: 20 }),
    fc.oneof(fc.string(), fc.constantFrom("{", "[", "'", ": ", "\n", "&a ", "*a")),
  )
    .map(([at, length, put]) => FULL.slice(0, at % FULL.length) + put + FULL.slice(at % FULL.length + length));
  fc.assert(
    fc.property(
      fc.oneof(damaged, fc.string({ unit: "binary" })),
      fc.constantFrom("global" as const, "project" as const),
      (text, scope) => {
        try {
          parse(text, scope);
        } catch (error) {
          assert.ok(error instanceof MurError && error.code === "E-IO-003", String(error));
          assert.doesNotMatch(error.message, /sk-(a|b|inference)/);
        }
      },
    ),
    { numRuns: 500 },
  );
});
