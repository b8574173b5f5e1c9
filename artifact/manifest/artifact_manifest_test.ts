import assert from "node:assert/strict";
import fc from "fast-check";
import { MurError } from "../../base/errors.ts";
import { buildDeclaration, judgeHookContract, parseArtifactManifest } from "./artifact_manifest.ts";
import { ARTIFACT, EVERYTHING, EXAMPLE } from "../../tests/support/sample_manifests.ts";

const HEAD = "name: page-tool\nversion: '1'\n";

function parse(text: string) {
  return parseArtifactManifest(text, "murmur.yaml");
}
function refused(text: string): MurError {
  try {
    parse(text);
  } catch (error) {
    assert.ok(error instanceof MurError, String(error));
    return error;
  }
  return assert.fail("was not refused");
}

Deno.test("a tool's manifest is read with its defaults", () => {
  const manifest = parse(`${HEAD}runtime: tool\n`);
  const { place: _, ...values } = manifest;
  assert.deepEqual(values, {
    file: "murmur.yaml",
    text: `${HEAD}runtime: tool\n`,
    name: "page-tool",
    version: "1",
    runtime: "tool",
    role: "tool",
    implementation: "wasm",
    packaging: "wasm",
    requiresFiles: [],
    description: null,
    tags: [],
    inputSchema: { type: "object", properties: {} },
    outputSchema: null,
    hook: { binding: null, executionMode: null, commitPolicy: null },
    upstreamAuth: { kind: "absent" },
    hasInferenceAuth: false,
    build: null,
  });
});

Deno.test("a full manifest arrives", () => {
  const manifest = parse(ARTIFACT);
  assert.equal(manifest.description, "Fetches a page");
  assert.deepEqual(manifest.tags, ["web", "text"]);
  assert.deepEqual(manifest.inputSchema, {
    type: "object",
    required: ["url"],
    properties: { url: { type: "string" } },
  });
  assert.deepEqual(manifest.outputSchema, { type: "string" });
  assert.deepEqual(manifest.upstreamAuth, { kind: "usable", header: "x-api-key", value: "{key}" });
  assert.deepEqual(manifest.place("input_schema.properties.url.type"), {
    file: "murmur.yaml",
    line: 11,
    column: 17,
    text: "    url: {type: string}",
  });
});

Deno.test("roles, packaging and files follow from what is written", () => {
  const derive = (text: string) => {
    const { role, implementation, packaging, requiresFiles } = parse(HEAD + text);
    return [role, implementation, packaging, requiresFiles];
  };
  assert.deepEqual(derive("runtime: skill"), ["skill", "wasm", "static", ["skill.md"]]);
  assert.deepEqual(derive("runtime: skill\nrequires_files: []"), ["skill", "wasm", "static", []]);
  assert.deepEqual(derive("runtime: tool\nimplementation: native"), ["tool", "native", "native", []]);
  assert.deepEqual(derive("runtime: driver\nimplementation: native"), ["driver", "native", "wasm", []]);
  assert.deepEqual(derive("runtime: hook"), ["hook", "wasm", "wasm", []]);
  assert.deepEqual(derive("runtime: native"), ["tool", "wasm", "wasm", []]);
  assert.deepEqual(derive("runtime: capsule\nexecution: STATIC\nrequires_files: [a, b/c]"), ["tool", "wasm", "static", [
    "a",
    "b/c",
  ]]);
  assert.deepEqual(derive("runtime: tool\nimplementation: 5"), ["tool", "wasm", "wasm", []]);
  assert.deepEqual(derive("runtime: tool\nimplementation: native\nexecution: wasm"), ["tool", "native", "wasm", []]);
});

Deno.test("a schema is a mapping or JSON in a string; anything else is the default", () => {
  const schema = (text: string, runtime = "tool") => parse(`${HEAD}runtime: ${runtime}\n${text}`).inputSchema;
  const standard = { type: "object", properties: {} };
  assert.deepEqual(schema("input_schema: {type: object, a: 1.0}"), { type: "object", a: 1 });
  assert.deepEqual(schema(`input_schema: '{"type":"object","b":[1]}'`), { type: "object", b: [1] });
  assert.deepEqual(schema("input: {c: 1}"), { c: 1 });
  assert.deepEqual(schema("input: {c: 1}\ninput_schema: {d: 1}"), { d: 1 });
  for (
    const other of [
      "input_schema: '{'",
      "input_schema: '[1]'",
      "input_schema: 5",
      "input_schema: [1]",
      "input_schema:",
      "input_schema: {1: x}",
      "input_schema: {x: .inf}",
    ]
  ) {
    assert.deepEqual(schema(other), standard, other);
  }
  assert.deepEqual(schema(`input_schema: '${"[".repeat(5000)}${"]".repeat(5000)}'`), standard);
  assert.deepEqual(schema(`input_schema: '{"a":${"[".repeat(100)}${"]".repeat(100)}}'`), standard);
  assert.deepEqual(schema("input_schema: {a: 1}", "skill"), standard);
});

Deno.test("missing fields, wrong types and bad YAML have their codes and places", () => {
  const rows: [string, string, string, number?][] = [
    ["version: '1'\nruntime: tool\n", "E-MAN-001", "murmur.yaml: missing required field 'name'"],
    ["name: a\nruntime: tool\n", "E-MAN-001", "murmur.yaml: missing required field 'version'"],
    [HEAD, "E-MAN-001", "murmur.yaml: missing required field 'runtime'"],
    [
      "name: a\nversion: 1.0\nruntime: tool\n",
      "E-MAN-003",
      "murmur.yaml: field 'version' has invalid type (expected string, got number)",
      2,
    ],
    [
      "name: true\nversion: '1'\nruntime: tool\n",
      "E-MAN-003",
      "murmur.yaml: field 'name' has invalid type (expected string, got boolean)",
      1,
    ],
    [
      `${HEAD}runtime: [tool]\n`,
      "E-MAN-003",
      "murmur.yaml: field 'runtime' has invalid type (expected string, got sequence)",
      3,
    ],
    [
      `${HEAD}runtime: {}\n`,
      "E-MAN-003",
      "murmur.yaml: field 'runtime' has invalid type (expected string, got mapping)",
      3,
    ],
    ["- a\n", "E-MAN-003", "murmur.yaml: field '<root>' has invalid type (expected mapping, got sequence)", 1],
    ["", "E-MAN-003", "murmur.yaml: field '<root>' has invalid type (expected mapping, got null)", 1],
    [
      `${HEAD}runtime: tool\nexecution: jit\n`,
      "E-MAN-003",
      "murmur.yaml: field 'execution' has invalid type (expected one of: wasm, native, static, got string)",
      4,
    ],
    [
      `${HEAD}runtime: tool\nrequires_files: a\n`,
      "E-MAN-003",
      "murmur.yaml: field 'requires_files' has invalid type (expected list of strings, got string)",
      4,
    ],
    [
      `${HEAD}runtime: tool\nrequires_files: [a, 5]\n`,
      "E-MAN-003",
      "murmur.yaml: field 'requires_files[1]' has invalid type (expected string, got number)",
      4,
    ],
    [
      `${HEAD}runtime: tool\nruntime: hook\n`,
      "E-MAN-002",
      "murmur.yaml: YAML syntax error at line 4, column 1: the key 'runtime' is written twice in one block",
      4,
    ],
  ];
  for (const [text, code, message, line] of rows) {
    const error = refused(text);
    assert.equal(error.code, code);
    assert.equal(error.message, message);
    assert.ok(error.place !== undefined);
    if (line !== undefined) assert.equal(error.place.line, line, message);
  }
  assert.equal(parse(`${HEAD}runtime: tool\nexecution:\nrequires_files:\n`).packaging, "wasm");
});

Deno.test("keys that nobody knows are ignored, as are grants", () => {
  assert.doesNotThrow(() => parse(`${HEAD}runtime: tool\nprograms: [x]\ncapabilities: 5\nconfig: 5\ngateway: 5\n`));
});

Deno.test("upstream_auth is usable only in every respect", () => {
  const auth = (block: string) => parse(`${HEAD}runtime: tool\n${block}\n`).upstreamAuth;
  assert.deepEqual(auth("upstream_auth: {header: Authorization, value: 'Bearer {key}'}"), {
    kind: "usable",
    header: "Authorization",
    value: "Bearer {key}",
  });
  const rows: [string, RegExp][] = [
    ["inference_auth: {header: a, value: '{key}'}", /retired name/],
    ["inference_auth:\nupstream_auth: {header: a, value: '{key}'}", /retired name/],
    ["upstream_auth:", /not a mapping/],
    ["upstream_auth: x", /not a mapping/],
    ["upstream_auth: {value: '{key}'}", /header is missing/],
    ["upstream_auth: {header: 5, value: '{key}'}", /header is missing or not a string/],
    ["upstream_auth: {header: a}", /value is missing/],
    ["upstream_auth: {header: 'a b', value: '{key}'}", /not a valid header name/],
    ["upstream_auth: {header: '', value: '{key}'}", /not a valid header name/],
    ["upstream_auth: {header: \"a\\r\\nb\", value: '{key}'}", /not a valid header name/],
    ["upstream_auth: {header: hOsT, value: '{key}'}", /routes or frames/],
    ["upstream_auth: {header: Transfer-Encoding, value: '{key}'}", /routes or frames/],
    ["upstream_auth: {header: Accept-Encoding, value: '{key}'}", /the runtime's own/],
    ["upstream_auth: {header: X-Murmur-Task-Origin, value: '{key}'}", /the runtime's own/],
    ["upstream_auth: {header: x-murmur-task-trust, value: '{key}'}", /the runtime's own/],
    ["upstream_auth: {header: x-murmur-delegation-id, value: '{key}'}", /the runtime's own/],
    ["upstream_auth: {header: x-murmur-completion-session, value: '{key}'}", /the runtime's own/],
    ["upstream_auth: {header: a, value: key}", /exactly once/],
    ["upstream_auth: {header: a, value: '{key}{key}'}", /exactly once/],
    ['upstream_auth: {header: a, value: "{key}\\r\\nx: y"}', /not a valid header value/],
    ["upstream_auth: {header: a, value: ' {key}'}", /not a valid header value/],
    ["upstream_auth: {header: a, value: 'ä{key}'}", /not a valid header value/],
  ];
  for (const [block, reason] of rows) {
    const found = auth(block);
    assert.equal(found.kind, "unusable", block);
    assert.match(found.kind === "unusable" ? found.reason : "", reason, block);
  }
});

const BINDINGS = [
  "on-stage",
  "on-session-start",
  "on-task-start",
  "on-inference",
  "on-tool-call",
  "on-shell",
  "on-compaction",
  "on-task-end",
  "on-session-end",
];
const POLICIES = ["none", "write-manifests", "replace-context", "reopen-task", "seed-context", "deny"];

Deno.test("every combination of a hook contract is accepted or refused as the table says", () => {
  const honoured: Record<string, string> = {
    "on-stage": "write-manifests",
    "on-compaction": "replace-context",
    "on-task-end": "reopen-task",
    "on-task-start": "seed-context",
    "on-shell": "deny",
    "on-tool-call": "deny",
  };
  for (const binding of [null, ...BINDINGS]) {
    for (const mode of ["blocking", "async"]) {
      for (const policy of POLICIES) {
        const manifest = parse(
          `${HEAD}runtime: hook\nbinding: ${binding ?? ""}\nexecution_mode: ${mode}\ncommit_policy: ${policy}\n`,
        );
        const fine = !(mode === "async" && policy !== "none") && !(binding === "on-stage" && mode === "async") &&
          (policy === "none" || (binding === null ? policy !== "deny" : honoured[binding] === policy));
        const title = `${binding} ${mode} ${policy}`;
        if (fine) {
          assert.deepEqual(judgeHookContract(manifest), { binding, executionMode: mode, commitPolicy: policy }, title);
        } else {
          assert.throws(() => judgeHookContract(manifest), {
            code: "E-MAN-003",
            message: /^hook page-tool@1 invalid config: \S/,
          }, title);
        }
      }
    }
  }
});

Deno.test("unknown words of a hook contract are refused listing the accepted ones, other types count as absent", () => {
  const judge = (text: string) => judgeHookContract(parse(`${HEAD}runtime: hook\n${text}\n`));
  assert.throws(
    () => judge("binding: on-everything"),
    /unknown binding 'on-everything' \(expected one of: on-stage, .*on-session-end\)/,
  );
  assert.throws(() => judge("execution_mode: later"), /expected one of: blocking, async/);
  assert.throws(() => judge("commit_policy: maybe"), /expected one of: none, .*deny/);
  // The order of the checks: words first, then async.
  assert.throws(() => judge("execution_mode: async\ncommit_policy: maybe"), /unknown commit_policy/);
  assert.throws(() => judge("binding: on-stage\nexecution_mode: async\ncommit_policy: deny"), /takes no answer/);
  assert.deepEqual(judge("binding: 5\nexecution_mode: [async]\ncommit_policy: {}"), {
    binding: null,
    executionMode: "blocking",
    commitPolicy: "none",
  });
});

Deno.test("a build block names one source file of a component", () => {
  const declare = (text: string) => buildDeclaration(parse(HEAD + text));
  assert.equal(declare("runtime: tool"), null);
  assert.equal(declare("runtime: tool\nbuild:"), null);
  assert.deepEqual(declare("runtime: tool\nbuild: {entry: src/tool.ts}"), { entry: "src/tool.ts" });
  assert.deepEqual(declare("runtime: hook\nbuild: {entry: ./a.js}\nrequires_files: [lib/x.wasm]"), { entry: "./a.js" });
  const rows: [string, string, RegExp][] = [
    ["runtime: tool\nbuild: {}", "E-MAN-003", /for 'build\.entry'/],
    ["runtime: tool\nbuild: {entry: 5}", "E-MAN-003", /for 'build\.entry'/],
    ["runtime: tool\nbuild: {entry: ' '}", "E-MAN-003", /for 'build\.entry'/],
    ["runtime: tool\nbuild: x.ts", "E-MAN-003", /for 'build\.entry'/],
    ["runtime: skill\nbuild: {entry: a.ts}", "E-MAN-003", /for 'build'/],
    ["runtime: tool\nimplementation: native\nbuild: {entry: a.ts}", "E-MAN-003", /for 'build'.*native/],
    ["runtime: tool\nexecution: static\nbuild: {entry: a.ts}", "E-MAN-003", /for 'build'.*static/],
    ["runtime: tool\nrequires_files: [x.wasm]\nbuild: {entry: a.ts}", "E-MAN-003", /for 'build'.*'x\.wasm'/],
    ["runtime: tool\nrequires_files: [./x.wasm]\nbuild: {entry: a.ts}", "E-MAN-003", /for 'build'/],
    ["runtime: tool\nbuild: {entry: /a.ts}", "E-BLD-002", /not a path inside the project/],
    ["runtime: tool\nbuild: {entry: ../a.ts}", "E-BLD-002", /not a path inside/],
    ["runtime: tool\nbuild: {entry: a/../b.ts}", "E-BLD-002", /not a path inside/],
  ];
  for (const [text, code, message] of rows) assert.throws(() => declare(text), { code, message }, text);
});

Deno.test("any bytes, and any damaged manifest, are read or refused with a code", () => {
  const damaged = fc.tuple(
    fc.constantFrom(ARTIFACT, EXAMPLE, EVERYTHING),
    fc.nat(),
    fc.integer({ min: 0, max: 30 }),
    fc.oneof(fc.string(), fc.constantFrom("&a ", "*a", "{", "[", "'", ": ", "\n", "\t", "\u0000")),
  ).map(([text, at, length, put]) => text.slice(0, at % text.length) + put + text.slice(at % text.length + length));
  fc.assert(
    fc.property(fc.oneof(damaged, fc.string({ unit: "binary" }), fc.uint8Array()), (source) => {
      try {
        const manifest = parseArtifactManifest(source, "f");
        judgeHookContract(manifest);
        buildDeclaration(manifest);
      } catch (error) {
        assert.ok(error instanceof MurError && /^E-(MAN-00[123]|BLD-002)$/.test(error.code), String(error));
      }
    }),
    { numRuns: 500 },
  );
});
