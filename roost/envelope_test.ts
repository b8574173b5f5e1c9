import assert from "node:assert/strict";
import fc from "fast-check";
import { installPatternMatches } from "../artifact/install_pattern.ts";
import { CONTAINMENT_CLASSES } from "../artifact/manifest/capsule_manifest.ts";
import { parseCapsuleManifest } from "../artifact/manifest/parse_capsule_manifest.ts";
import { type HttpScheme, networkRuleMatches, parseNetworkRule } from "../artifact/network_rules.ts";
import { ENVELOPE_AXES, envelopeExcess, FURTHER_GRANTS } from "./envelope.ts";
import { type Grants, grantsOf } from "./grants.ts";

/** The grants of a capsule `name` whose manifest has these further lines. */
function grants(lines: string, name = "c"): Grants {
  return grantsOf(parseCapsuleManifest(`name: ${name}\nversion: "1"\n${lines}`, "murmur.yaml").manifest);
}

const capabilities = (block: string) => grants(block === "" ? "" : `capabilities: { ${block} }\n`);

/** Parent, child, and what is refused: key and entry, or nothing. */
const EXAMPLES: readonly (readonly [parent: string, child: string, key?: string, entry?: string])[] = [
  ["network: { allow: [example.com] }", "network: { allow: ['https://example.com'] }"],
  [
    "network: { allow: ['https://example.com'] }",
    "network: { allow: [example.com] }",
    "network.allow",
    "example.com",
  ],
  [
    "network: { allow: ['https://example.com'] }",
    "network: { allow: ['https://example.com:8443'] }",
    "network.allow",
    "https://example.com:8443",
  ],
  ["network: { allow: [localhost] }", "network: { allow: ['localhost:11434'] }"],
  ["network: { allow: [a.test] }", "network: { allow: [A.test, b.test] }", "network.allow", "b.test"],
  ["", "network: { allow: [], unix_sockets: true }", "network.unix_sockets", "true"],
  ["network: { allow: [], unix_sockets: true }", "network: { allow: [], unix_sockets: true }"],
  ["network: { allow: [x.test] }", "peer_fetch: { allow: [x.test] }", "peer_fetch.allow", "x.test"],
  ["peer_fetch: { allow: [x.test] }", "network: { allow: [x.test] }", "network.allow", "x.test"],
  ["peer_fetch: { allow: [x.test] }", "peer_fetch: { allow: ['x.test:80'] }"],
  ["shell: { allow: [bash, jq] }", "shell: { allow: [jq] }"],
  ["shell: { allow: [jq] }", "shell: { allow: [jq, bash] }", "shell.allow", "bash"],
  ["spawn: { allow: [local/a, local/b] }", "spawn: { allow: [local/b] }"],
  ["spawn: { allow: [local/a] }", "spawn: { allow: [local/a] }"],
  ["spawn: { allow: [local/a] }", "spawn: { allow: [other/a] }", "spawn.allow", "other/a"],
  ["env: { allow: [LC_ALL] }", "env: { allow: [LC_ALL, DB_URL] }", "env.allow", "DB_URL"],
  ["env: { allow: [LC_ALL] }", "env: { allow: [lc_all] }", "env.allow", "lc_all"],
  ["", "filesystem: { scope: src }"],
  ["filesystem: { scope: src }", "filesystem: { scope: src/api }"],
  ["filesystem: { scope: src/ }", "filesystem: { scope: ./src }"],
  ["filesystem: { scope: src }", "filesystem: { scope: srcfoo }", "filesystem.scope", "srcfoo"],
  ["filesystem: { scope: src/api }", "filesystem: { scope: src }", "filesystem.scope", "src"],
  ["filesystem: { scope: src }", "filesystem: { scope: src/../etc }", "filesystem.scope", "etc"],
  ["filesystem: { scope: src }", "", "filesystem.scope", "the whole workdir"],
  ["", "filesystem: { workdir_exec: true }", "filesystem.workdir_exec", "true"],
  ["filesystem: { workdir_exec: true }", "filesystem: { workdir_exec: true }"],
  ["install: { skill: ['fmt-*'] }", "install: { skill: [fmt-go] }"],
  ["install: { skill: ['fmt-*'] }", "install: { skill: ['fmt-x*'] }"],
  ["install: { skill: [fmt-go] }", "install: { skill: ['fmt-*'] }", "install.skill", "fmt-*"],
  ["install: { skill: ['l*'] }", "install: { skill: ['local/*'] }", "install.skill", "local/*"],
  ["install: { skill: ['local/*'] }", "install: { skill: ['local/fmt-*'] }"],
  ["install: { skill: ['*'] }", "install: { tool: [grep] }", "install.tool", "grep"],
  ["install: { tool: ['*'] }", "install: { tool: [grep, 'x/y', '*'] }"],
  ["containment: scoped", "containment: sealed"],
  ["containment: scoped", "containment: advisory", "containment", "advisory"],
  ["containment: scoped", "", "containment", "advisory"],
  ["containment: sealed", "containment: scoped", "containment", "scoped"],
  ["", ""],
];

Deno.test("the worked examples of the specification, and what lies beside them", () => {
  for (const [parent, child, key, entry] of EXAMPLES) {
    const expected = key === undefined ? null : { key: `capabilities.${key}`, entry };
    assert.deepEqual(envelopeExcess(capabilities(parent), capabilities(child)), expected, `${parent} / ${child}`);
  }
});

Deno.test("state stores are those the artifacts open, named after the capsule when they name none", () => {
  const tool = (state: string) => `artifacts:\n  - { name: notes, version: "1", capabilities: { state: ${state} } }\n`;
  const named = grants(tool("{ store: notes }"), "p");
  assert.deepEqual(named.stateStores, ["notes"]);
  assert.equal(envelopeExcess(named, grants(tool("{ store: notes }"), "q")), null);
  const refused = envelopeExcess(grants(tool("{}"), "p"), grants(tool("{}"), "q"));
  assert.deepEqual(refused, { key: "capabilities.state.store", entry: "q" });
  assert.equal(envelopeExcess(grants(tool("{}"), "p"), grants(tool("{ store: p }"), "q")), null);
});

const hook = (allow: string, lines = "", name = "h") =>
  grants(
    `artifacts:\n  - { name: ${name}, version: "1", runtime: hook, capabilities: { network: { allow: [${allow}] } } }\n${lines}`,
  );

Deno.test("a hook reaches what its parent's capsule or hooks do, and nothing else", () => {
  const key = "artifacts[].capabilities.network.allow";
  const net = (allow: string) => `capabilities: { network: { allow: [${allow}] } }\n`;
  for (
    const [parent, child, entry] of [
      [grants(""), hook("x.test"), "x.test"],
      [grants(net("x.test")), hook("'https://x.test'"), null],
      [grants(net("'https://x.test'")), hook("x.test"), "x.test"],
      [hook("x.test"), hook("'x.test:8443'", "", "other"), null],
      [hook("x.test"), hook("x.test, y.test"), "y.test"],
      [grants("capabilities: { peer_fetch: { allow: [x.test] } }\n"), hook("x.test"), "x.test"],
      // The twelve speak first.
      [grants(""), hook("x.test", net("y.test")), null],
    ] as const
  ) {
    const excess = envelopeExcess(parent, child);
    if (entry !== null) assert.deepEqual(excess, { key, entry });
    else assert.notEqual(excess?.key, key);
  }
  // What only a hook of the parent reaches, no other part of the child may.
  assert.deepEqual(envelopeExcess(hook("x.test"), grants(net("x.test"))), {
    key: "capabilities.network.allow",
    entry: "x.test",
  });
  // A tool is bounded by its capsule, whatever its entry says.
  const tool =
    'artifacts:\n  - { name: t, version: "1", runtime: tool, capabilities: { network: { allow: [x.test] } } }\n';
  assert.equal(envelopeExcess(grants(""), grants(tool)), null);
  assert.throws(() => hook("'https://x.test/path'"), /E-CAP-001|invalid network/);
});

Deno.test("directories of the host are those of the parent, by their texts", () => {
  const python = (runtime: string) =>
    capabilities(`shell: { allow: [python3, node]${runtime === "" ? "" : `, ${runtime}`} }, containment: sealed`);
  const reading = (path: string, list: boolean, binary = "python3") =>
    python(`interpreter_runtime: [{ binary: ${binary}, dirs: [{ path: ${path}, list_dir: ${list} }] }]`);
  const staged = (path: string) => python(`staged_runtime: [{ binary: python3, source_path: ${path}, pin: "1" }]`);
  const interpreters = "capabilities.shell.interpreter_runtime";
  for (
    const [parent, child, key, entry] of [
      [python(""), reading("/root/.ssh", false), interpreters, "/root/.ssh"],
      [reading("/opt/py", true), reading("/opt/py", true), null, ""],
      [reading("/opt/py", true), reading("/opt/py", false, "node"), null, ""],
      [reading("/opt/py", false), reading("/opt/py", true), interpreters, "/opt/py"],
      [reading("/opt/py", true), reading("/opt/py/link", false), interpreters, "/opt/py/link"],
      [reading("/opt/py", true), reading("/opt/py/../../root", false), interpreters, "/opt/py/../../root"],
      [reading("/", true), reading("/root", false), interpreters, "/root"],
      [python(""), staged("/opt/py"), "capabilities.shell.staged_runtime", "/opt/py"],
      [staged("/opt/py"), staged("/opt/py"), null, ""],
      [reading("/opt/py", true), staged("/opt/py"), "capabilities.shell.staged_runtime", "/opt/py"],
      [reading("/opt/py", true), python(""), null, ""],
    ] as const
  ) assert.deepEqual(envelopeExcess(parent, child), key === null ? null : { key, entry });
});

Deno.test("odd spellings of one grant are that grant, and of a wider one the wider", () => {
  for (
    const [parent, child, admitted] of [
      ["network: { allow: [127.0.0.1] }", "network: { allow: ['127.1', '0x7f.1:80', '2130706433'] }", true],
      ["network: { allow: ['[::1]'] }", "network: { allow: ['[0:0:0:0:0:0:0:1]:80'] }", true],
      ["network: { allow: [127.0.0.1] }", "network: { allow: ['[::ffff:127.0.0.1]'] }", false],
      ["network: { allow: [localhost] }", "network: { allow: [127.0.0.1] }", false],
      ["network: { allow: [127.0.0.1] }", "network: { allow: [localhost] }", false],
      ["network: { allow: [a.test] }", "network: { allow: [a.test.] }", false],
      ["network: { allow: [a.test] }", "network: { allow: [b.a.test] }", false],
      ["network: { allow: ['https://a.test:0443'] }", "network: { allow: ['HTTPS://A.TEST/'] }", true],
      ["network: { allow: ['https://a.test'] }", "network: { allow: ['a.test:443'] }", false],
      ["network: { allow: [a.test, a.test] }", "network: { allow: [a.test, a.test, b.test] }", false],
      ["network: { allow: [münchen.test] }", "network: { allow: [xn--mnchen-3ya.test] }", true],
      ["filesystem: { scope: src }", "filesystem: { scope: 'src/x/../..' }", false],
      ["filesystem: { scope: src }", "filesystem: { scope: '' }", false],
      ["filesystem: { scope: src }", "filesystem: null", false],
      ["filesystem: { scope: src }", "filesystem: { scope: 'SRC' }", false],
      ["filesystem: { scope: src }", "filesystem: { scope: 'src\\..' }", false],
      ["env: { allow: ['*'] }", "env: { allow: [A] }", false],
      ["env: { allow: [A] }", "env: { allow: ['A '] }", false],
      ["", "network: null, shell: null, env: null, spawn: null, peer_fetch: null", true],
      ["containment: scoped", "containment: ''", false],
    ] as const
  ) assert.equal(envelopeExcess(capabilities(parent), capabilities(child)) === null, admitted, `${parent} / ${child}`);
  const twice = "capabilities:\n  shell: { allow: [sh] }\n  shell: { allow: [jq] }\n";
  assert.throws(() => grants(twice), /written twice/);
  const byName = grants("x: &x { allow: [a.test] }\ncapabilities: { network: *x }\n");
  assert.equal(envelopeExcess(capabilities(""), byName)?.entry, "a.test");
});

Deno.test("a manifest whose entries cannot be read has no grants to compare", () => {
  for (const block of ["network: { allow: ['https://a.test/x'] }", "filesystem: { scope: ../x }"]) {
    assert.throws(() => capabilities(block), /E-CAP|invalid/, block);
  }
});

Deno.test("the axes are the twelve of the seed, in its order", () => {
  assert.deepEqual(ENVELOPE_AXES.map(({ key }) => key.replace("capabilities.", "")), [
    "network.allow",
    "network.unix_sockets",
    "peer_fetch.allow",
    "shell.allow",
    "spawn.allow",
    "env.allow",
    "filesystem.scope",
    "filesystem.workdir_exec",
    "state.store",
    "install.skill",
    "install.tool",
    "containment",
  ]);
});

Deno.test("every axis refuses by itself what it is for, and the first of several speaks", () => {
  const parent = capabilities("filesystem: { scope: src }, containment: sealed");
  const child: Grants = {
    ...capabilities("filesystem: { scope: lib }"),
    network: [parseNetworkRule("n.test")],
    unixSockets: true,
    peerFetch: [parseNetworkRule("p.test")],
    shell: ["sh"],
    spawn: ["local/s"],
    env: ["E"],
    workdirExec: true,
    stateStores: ["st"],
    installSkill: ["*"],
    installTool: ["*"],
    hookNetwork: [parseNetworkRule("h.test")],
    interpreterRuntime: [{ path: "/opt/i", list: false }],
    stagedRuntime: [{ path: "/opt/s", list: true }],
  };
  const members: (keyof Grants)[] = [
    "network",
    "unixSockets",
    "peerFetch",
    "shell",
    "spawn",
    "env",
    "scope",
    "workdirExec",
    "stateStores",
    "installSkill",
    "installTool",
    "containment",
    "hookNetwork",
    "interpreterRuntime",
    "stagedRuntime",
  ];
  const axes = [...ENVELOPE_AXES, ...FURTHER_GRANTS];
  assert.equal(axes.length, members.length);
  let asking: Grants = child;
  for (const [index, member] of members.entries()) {
    assert.equal(envelopeExcess(parent, asking)?.key, axes[index]!.key);
    // Taken back to what the parent holds, this axis is content.
    asking = { ...asking, [member]: parent[member] };
  }
  assert.equal(envelopeExcess(parent, asking), null);
});

const HOSTS = ["a.test", "b.test", "[::1]"];
const rules = fc.array(
  fc.tuple(
    fc.constantFrom("", "http://", "https://"),
    fc.constantFrom(...HOSTS),
    fc.constantFrom("", ":80", ":443", ":1"),
  )
    .map((parts) => parseNetworkRule(parts.join(""))),
  { maxLength: 3 },
);
const some = <T>(...values: T[]) => fc.uniqueArray(fc.constantFrom(...values), { maxLength: 3 });
const PATTERNS = ["*", "a*", "ab*", "ab", "a/*", "a/b*", "a/bc", "b-*", "b-c"];
const hostDirectories = fc.array(
  fc.record({ path: fc.constantFrom("/opt", "/opt/x", "/srv"), list: fc.boolean() }, { noNullPrototype: true }),
  { maxLength: 2 },
);
const arbitraryGrants: fc.Arbitrary<Grants> = fc.record({
  network: rules,
  unixSockets: fc.boolean(),
  peerFetch: rules,
  shell: some("bash", "jq", "sh"),
  spawn: some("local/a", "local/b", "x/a"),
  env: some("A", "a", "B"),
  scope: fc.constantFrom(null, ".", "src", "src/api", "srcfoo", "lib"),
  workdirExec: fc.boolean(),
  stateStores: some("n", "m", "o"),
  installSkill: some(...PATTERNS),
  installTool: some(...PATTERNS),
  containment: fc.constantFrom(...CONTAINMENT_CLASSES),
  hookNetwork: rules,
  interpreterRuntime: hostDirectories,
  stagedRuntime: hostDirectories,
}, { noNullPrototype: true });

/** Everything a capsule with these grants may do, of what there is to do in this small world. */
function acts(grants: Grants): Set<string> {
  const acts = new Set<string>();
  // A hook that reaches what its capsule reaches adds nothing.
  const hooks = [...grants.network, ...grants.hookNetwork];
  for (const [list, rules] of [["network", grants.network], ["peer", grants.peerFetch], ["hook", hooks]] as const) {
    for (const scheme of ["http", "https"] as HttpScheme[]) {
      for (const host of HOSTS) {
        for (const port of [1, 80, 443, 8080]) {
          if (rules.some((rule) => networkRuleMatches(rule, { scheme, host, port }))) {
            acts.add(`${list} ${scheme} ${host} ${port}`);
          }
        }
      }
    }
  }
  for (const list of ["interpreterRuntime", "stagedRuntime"] as const) {
    for (const { path, list: listing } of grants[list]) {
      acts.add(`${list} read ${path}`);
      if (listing) acts.add(`${list} list ${path}`);
    }
  }
  if (grants.unixSockets) acts.add("unix sockets");
  if (grants.workdirExec) acts.add("workdir exec");
  for (const list of ["shell", "spawn", "env", "stateStores"] as const) {
    for (const name of grants[list]) acts.add(`${list} ${name}`);
  }
  for (const path of ["", "src/", "src/api/", "srcfoo/", "lib/"]) {
    const { scope } = grants;
    if (scope === null || scope === "." || path.startsWith(`${scope}/`)) acts.add(`file ${path}x`);
  }
  for (const list of ["installSkill", "installTool"] as const) {
    for (const name of ["a", "ab", "abc", "b-c", "a/b", "a/bc", "a/bcd", "x/ab", "x/y"]) {
      if (grants[list].some((pattern) => installPatternMatches(pattern, name))) acts.add(`${list} ${name}`);
    }
  }
  for (const [strength, name] of CONTAINMENT_CLASSES.entries()) {
    if (strength >= CONTAINMENT_CLASSES.indexOf(grants.containment)) acts.add(`run under ${name}`);
  }
  return acts;
}

Deno.test("whom the envelope admits may do nothing that its parent may not, down any chain", () => {
  let admitted = 0;
  fc.assert(
    fc.property(arbitraryGrants, arbitraryGrants, fc.nat(32_767), (parent, wanted, taken) => {
      // Children that take some axes from their parent: two at random hardly ever fit.
      const keys = Object.keys(parent) as (keyof Grants)[];
      const child = Object.fromEntries(
        keys.map((key, index) => [key, (taken >> index & 1) === 1 ? parent[key] : wanted[key]]),
      ) as unknown as Grants;
      const excess = envelopeExcess(parent, child);
      const beyond = [...acts(child)].filter((act) => !acts(parent).has(act));
      if (excess === null) {
        admitted++;
        assert.deepEqual(beyond, []);
      }
    }),
    { numRuns: 2_000 },
  );
  assert.ok(admitted > 40, `${admitted} admitted`);
});

Deno.test("the envelope is transitive: a grandchild fits into whoever its parent fits into", () => {
  fc.assert(
    fc.property(
      arbitraryGrants,
      arbitraryGrants,
      arbitraryGrants,
      fc.nat(32_767),
      fc.nat(32_767),
      (a, b, c, ab, bc) => {
        const mix = (parent: Grants, child: Grants, taken: number) =>
          Object.fromEntries(
            (Object.keys(parent) as (keyof Grants)[])
              .map((key, index) => [key, (taken >> index & 1) === 1 ? parent[key] : child[key]]),
          ) as unknown as Grants;
        const middle = mix(a, b, ab | 0x7fc0);
        const last = mix(middle, c, bc | 0x7fc0);
        if (envelopeExcess(a, middle) === null && envelopeExcess(middle, last) === null) {
          assert.equal(envelopeExcess(a, last), null);
        }
        assert.equal(envelopeExcess(a, { ...a }), null);
      },
    ),
    { numRuns: 1_500 },
  );
});
