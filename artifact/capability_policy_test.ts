import assert from "node:assert/strict";
import fc from "fast-check";
import { MurError } from "../base/errors.ts";
import { EVERYTHING, EXAMPLE } from "../tests/support/sample_manifests.ts";
import {
  artifactNetworkRules,
  artifactPreopen,
  artifactStateStore,
  judgeCapabilities,
  judgeForScopeReport,
  judgePeerFileLife,
  judgeRecordName,
  lowerCapabilities,
  recordStoreName,
} from "./capability_policy.ts";
import { parseCapsuleManifest } from "./manifest/parse_capsule_manifest.ts";
import { networkRuleMatches, parseNetworkRule, targetOf } from "./network_rules.ts";

const HEAD = "name: desk\nversion: '1.0'\n";
const DRIVER = "  - {name: d, version: '1', runtime: driver, gateway: {endpoint: 'https://h', keyless: true}}\n";
const AGENT = `artifacts:\n${DRIVER}inference: {model: m, driver: {artifact: d}}\n`;

function read(text: string) {
  return parseCapsuleManifest(text, "murmur.yaml").manifest;
}

/** A judgement that refuses: title, manifest, code, message, line. */
const ROWS: readonly (readonly [string, string, string, RegExp, number])[] = [
  [
    "a network entry",
    `${HEAD}capabilities: {network: {allow: [ok, h/p]}}\n`,
    "E-CAP-001",
    /^invalid network allow entry 'h\/p': a path is not allowed$/,
    3,
  ],
  [
    "a network entry of an artifact",
    `${HEAD}artifacts:\n  - name: a\n    version: '1'\n    capabilities:\n      network: {allow: ['*.h']}\n`,
    "E-CAP-001",
    /'\*\.h'/,
    7,
  ],
  [
    "an absolute scope",
    `${HEAD}capabilities: {filesystem: {scope: /etc}}\n`,
    "E-CAP-002",
    /^invalid filesystem scope '\/etc': scope must be relative to the workdir$/,
    3,
  ],
  [
    "a scope that climbs",
    `${HEAD}capabilities: {filesystem: {scope: a/../../b}}\n`,
    "E-CAP-002",
    /^invalid filesystem scope 'a\/\.\.\/\.\.\/b': scope cannot escape the workdir via '\.\.'$/,
    3,
  ],
  [
    "a scope of a hook that climbs",
    `${HEAD}artifacts:\n  - {name: a, version: '1', runtime: hook, capabilities: {filesystem: {scope: ..}}}\n`,
    "E-CAP-002",
    /cannot escape/,
    4,
  ],
  [
    "an absolute read-only path",
    `${HEAD}capabilities: {filesystem: {read_only: [' ', a, /b]}}\n`,
    "E-CAP-012",
    /^invalid read-only path '\/b': read-only path must be relative to the workdir$/,
    3,
  ],
  [
    "a read-only path that climbs",
    `${HEAD}capabilities:\n  filesystem:\n    read_only:\n      - ''\n      - ../x\n`,
    "E-CAP-012",
    /^invalid read-only path '\.\.\/x': read-only path cannot escape the workdir via '\.\.'$/,
    7,
  ],
  [
    "a store that is a path",
    `${HEAD}artifacts:\n  - {name: a, version: '1', capabilities: {state: {store: a/b}}}\n`,
    "E-CAP-009",
    /^invalid state store 'a\/b' of artifact 'a': it is not a single path segment$/,
    4,
  ],
  [
    "an empty store",
    `${HEAD}artifacts:\n  - {name: a, version: '1', capabilities: {state: {store: ''}}}\n`,
    "E-CAP-009",
    /it is empty/,
    4,
  ],
  [
    "a capsule name that is no store",
    `name: my/desk\nversion: '1'\nartifacts:\n  - {name: a, version: '1', capabilities: {state: {}}}\n`,
    "E-CAP-009",
    /'my\/desk'/,
    4,
  ],
  [
    "a config that is a list",
    `${HEAD}artifacts:\n  - {name: a, version: '1', config: [1]}\n`,
    "E-CAP-010",
    /^invalid config of artifact 'a': expected a mapping, got sequence$/,
    4,
  ],
  ["a null config", `${HEAD}artifacts:\n  - name: a\n    version: '1'\n    config:\n`, "E-CAP-010", /got null/, 6],
  [
    "a record store that hides",
    `${HEAD}${AGENT}context: {record_store: .x}\n`,
    "E-CAP-011",
    /^invalid record store '\.x': it starts with '\.'$/,
    6,
  ],
  ["a capsule name that is no record store", `name: a/b\nversion: '1'\n${AGENT}`, "E-CAP-011", /'a\/b'/, 1],
  [
    "a reserved name",
    `${HEAD}artifacts:\n  - {name: acme/share-file, version: '1'}\n`,
    "E-CAP-013",
    /^artifact 'acme\/share-file' has the name of a tool the runtime provides: 'share-file'$/,
    4,
  ],
  [
    "a name the backstop strips",
    `${HEAD}capabilities:\n  env: {allow: [LANG, AWS_X, A_API_KEY, AWS_X, CI_1]}\n  shell: {allow: [jq], strip_env: ['CI_*']}\n`,
    "E-CAP-016",
    /^capabilities\.env\.allow names what never reaches a component: 'AWS_X' \(matches 'AWS_\*' of the credential backstop\), 'A_API_KEY' \(matches '\*_API_KEY' of the credential backstop\), 'CI_1' \(matches 'CI_\*' of the capabilities\.shell\.strip_env\)$/,
    4,
  ],
  [
    "peer files of a sleeping capsule without max_ttl",
    `${HEAD}lifecycle: {after_task: sleep}\nexports: {peer_files: {root: out}}\n`,
    "E-CAP-008",
    /declares no max_ttl/,
    4,
  ],
  [
    "peer files of a sleeping capsule with a long max_ttl",
    `${HEAD}lifecycle: {after_task: sleep}\nexports: {peer_files: {root: out, max_ttl: 16m}}\n`,
    "E-CAP-008",
    /max_ttl of 960 seconds, above 15m/,
    4,
  ],
];

for (const [title, text, code, message, line] of ROWS) {
  Deno.test(`refused at staging: ${title}`, () => {
    assert.throws(() => judgeCapabilities(read(text)), (error) => {
      assert.ok(error instanceof MurError, String(error));
      assert.equal(error.code, code);
      assert.match(error.message, message);
      assert.equal(error.place?.line, line, JSON.stringify(error.place));
      return true;
    });
  });
}

Deno.test("the checks run in the order of the specification", () => {
  // Each line is one more thing that is wrong, from the last check to the first.
  const wrong: [string, string][] = [
    ["E-CAP-008", "lifecycle: {after_task: sleep}\nexports: {peer_files: {root: out}}\n"],
    ["E-CAP-016", "env: {allow: [AWS_X]}"],
    ["E-CAP-013", "  - {name: share-file, version: '1'}\n"],
    ["E-CAP-011", "context: {record_store: a/b}\n"],
    ["E-CAP-010", "  - {name: b, version: '1', config: 1}\n"],
    ["E-CAP-009", "  - {name: c, version: '1', capabilities: {state: {store: .x}}}\n"],
    ["E-CAP-012", "filesystem: {read_only: [/x]}"],
    ["E-CAP-002", "  - {name: e, version: '1', capabilities: {filesystem: {scope: /x}}}\n"],
    ["E-CAP-001", "  - {name: f, version: '1', capabilities: {network: {allow: ['*']}}}\n"],
  ];
  const blocks: string[] = [];
  const entries: string[] = [];
  const capabilities: string[] = [];
  for (const [code, text] of wrong) {
    (text.startsWith("  -") ? entries : text.endsWith("\n") ? blocks : capabilities).push(text);
    const manifest = read(
      `${HEAD}artifacts:\n${DRIVER}${entries.join("")}inference: {model: m, driver: {artifact: d}}\n` +
        `capabilities: {${capabilities.join(", ")}}\n${blocks.join("")}`,
    );
    assert.throws(() => judgeCapabilities(manifest), { code });
  }
});

Deno.test("what is fine passes, and what is inert is not judged", () => {
  judgeCapabilities(read(EXAMPLE), { afterTask: "exit" });
  judgeCapabilities(read(EVERYTHING));
});

Deno.test("the effective lifecycle decides about peer files", () => {
  const manifest = read(`${HEAD}exports: {peer_files: {root: out}}\n`);
  judgePeerFileLife(manifest);
  assert.throws(() => judgePeerFileLife(manifest, { afterTask: "sleep" }), { code: "E-CAP-008" });
  judgePeerFileLife(read(`${HEAD}exports: {peer_files: {root: out, max_ttl: 15m}}\n`), { afterTask: "sleep" });
});

Deno.test("the record store is the capsule's name unless written, and none where nothing is recorded", () => {
  assert.equal(recordStoreName(read(HEAD)), null);
  assert.equal(recordStoreName(read(`${HEAD}${AGENT}`)), "desk");
  assert.equal(recordStoreName(read(`${HEAD}${AGENT}context: {record_store: ' x '}\n`)), "x");
  assert.equal(recordStoreName(read(`${HEAD}${AGENT}context: {record: off, record_store: a/b}\n`)), null);
  judgeCapabilities(read(`${HEAD}${AGENT}context: {record: off, record_store: a/b}\n`));
  judgeCapabilities(read(`${HEAD}context: {record_store: a/b}\n`));
  assert.throws(() => judgeRecordName("../x", "context id"), {
    code: "E-CAP-011",
    message: "invalid context id '../x': it is not a single path segment",
  });
});

Deno.test("the scope report is refused for stores, configs, reserved names and stripped names only", () => {
  const fails = (text: string) => {
    try {
      judgeForScopeReport(read(text));
      return null;
    } catch (error) {
      return error instanceof MurError ? error.code : String(error);
    }
  };
  for (const [, text, code] of ROWS) {
    const expected = ["E-CAP-009", "E-CAP-010", "E-CAP-013", "E-CAP-016"].includes(code) ? code : null;
    assert.equal(fails(text), expected, text);
  }
});

Deno.test("lowering parses every rule once and freezes them", () => {
  const policy = lowerCapabilities(read(EVERYTHING));
  assert.deepEqual(policy.network.map(({ scheme, host, port }) => [scheme, host, port]), [
    ["https", "a.example", 443],
    [null, "h", 80],
  ]);
  assert.deepEqual(policy.peerFetch.map(({ host }) => host), ["peer.example"]);
  assert.ok(Object.isFrozen(policy) && Object.isFrozen(policy.network));
});

Deno.test("an artifact's rules: the ceiling, what both share, or a hook's own list", () => {
  const manifest = read(
    `${HEAD}artifacts:\n  - {name: plain, version: '1'}\n` +
      "  - {name: scoped, version: '1', capabilities: {filesystem: {scope: s}}}\n" +
      "  - {name: narrow, version: '1', capabilities: {network: {allow: ['https://a.example', a.example, b.example, 'c.example:1']}}}\n" +
      "  - {name: closed, version: '1', capabilities: {network: {allow: []}}}\n" +
      "  - {name: hook, version: '1', runtime: hook, capabilities: {network: {allow: [z.example]}}}\n" +
      "  - {name: bare, version: '1', runtime: hook}\n" +
      "  - {name: quiet, version: '1', runtime: hook, capabilities: {network: {}}}\n" +
      "capabilities: {network: {allow: ['https://a.example', c.example]}}\n",
  );
  const policy = lowerCapabilities(manifest);
  const of = (name: string) => {
    const { rules, dropped } = artifactNetworkRules(manifest.artifacts.find((entry) => entry.name === name)!, policy);
    return [rules.map(({ entry }) => entry), dropped];
  };
  assert.deepEqual(of("plain"), [["https://a.example", "c.example"], []]);
  assert.deepEqual(of("scoped"), [["https://a.example", "c.example"], []]);
  assert.deepEqual(of("narrow"), [["https://a.example", "c.example:1"], ["a.example", "b.example"]]);
  assert.deepEqual(of("closed"), [[], []]);
  assert.deepEqual(of("hook"), [["z.example"], []]);
  assert.deepEqual(of("bare"), [[], []]);
  assert.deepEqual(of("quiet"), [[], []]);
});

Deno.test("no tool or driver reaches what the ceiling does not allow", () => {
  const entry = fc.tuple(
    fc.constantFrom("", "http://", "https://"),
    fc.constantFrom("a.example", "b.example"),
    fc.constantFrom("", ":80", ":8443"),
  )
    .map((parts) => parts.join(""));
  fc.assert(
    fc.property(
      fc.array(entry, { maxLength: 3 }),
      fc.array(entry, { maxLength: 4 }),
      entry,
      (ceiling, own, request) => {
        const quoted = (list: string[]) => list.map((each) => `'${each}'`).join(", ");
        const manifest = read(
          `${HEAD}artifacts: [{name: t, version: '1', capabilities: {network: {allow: [${quoted(own)}]}}}]\n` +
            `capabilities: {network: {allow: [${quoted(ceiling)}]}}\n`,
        );
        const policy = lowerCapabilities(manifest);
        const { rules, dropped } = artifactNetworkRules(manifest.artifacts[0]!, policy);
        const target = targetOf(new URL(request.includes("://") ? request : `https://${request}`));
        if (rules.some((rule) => networkRuleMatches(rule, target))) {
          assert.ok(policy.network.some((rule) => networkRuleMatches(rule, target)));
          assert.ok(own.some((each) => networkRuleMatches(parseNetworkRule(each), target)));
        }
        assert.equal(rules.length + dropped.length, own.length);
      },
    ),
    { numRuns: 150 },
  );
});

Deno.test("what an artifact gets as its directory", () => {
  const manifest = read(
    `${HEAD}artifacts:\n  - {name: a, version: '1'}\n  - {name: b, version: '1', capabilities: {filesystem: {scope: ./x//y/}}}\n` +
      "  - {name: c, version: '1', runtime: hook}\n  - {name: d, version: '1', runtime: hook, capabilities: {filesystem: {records: true}}}\n" +
      "  - {name: e, version: '1', runtime: hook, capabilities: {filesystem: {scope: .}}}\n  - {name: f, runtime: skill, version: '1'}\n" +
      "  - {name: g, version: '1', capabilities: {state: {store: s}}}\n",
  );
  assert.deepEqual(manifest.artifacts.map(artifactPreopen), [
    { surface: "whole-workdir", scope: null, folder: "." },
    { surface: "scoped-subtree", scope: "./x//y/", folder: "x/y" },
    { surface: "nothing", scope: null, folder: null },
    { surface: "records", scope: null, folder: null },
    { surface: "scoped-subtree", scope: ".", folder: "." },
    { surface: "nothing", scope: null, folder: null },
    { surface: "whole-workdir", scope: null, folder: "." },
  ]);
  assert.deepEqual(manifest.artifacts.map((entry) => artifactStateStore(entry, "desk")), [
    null,
    null,
    null,
    null,
    null,
    null,
    "s",
  ]);
});
