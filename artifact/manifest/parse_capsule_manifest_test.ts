import assert from "node:assert/strict";
import { cpuUsage } from "node:process";
import fc from "fast-check";
import { formatError, MurError } from "../../base/errors.ts";
import {
  murVersionNotice,
  parseCapsuleManifest,
  type ParseOptions,
  readCapsuleManifest,
} from "./parse_capsule_manifest.ts";
import { ARTIFACT, EVERYTHING, EXAMPLE } from "../../tests/support/sample_manifests.ts";

const HEAD = "name: desk\nversion: '1.0'\n";

function parse(text: string | Uint8Array, options: ParseOptions = {}) {
  return parseCapsuleManifest(text, "murmur.yaml", options);
}
function read(text: string) {
  return parse(text).manifest;
}

Deno.test("the least manifest has every default", () => {
  const { manifest, warnings, notices } = parse(HEAD);
  assert.deepEqual([warnings, notices], [[], []]);
  const { place: _, ...values } = manifest;
  assert.deepEqual(values, {
    file: "murmur.yaml",
    text: HEAD,
    name: "desk",
    version: "1.0",
    murVersion: null,
    artifacts: [],
    capabilities: {
      networkAllow: [],
      unixSockets: false,
      peerFetch: null,
      scope: null,
      workdirExec: false,
      readOnly: [],
      shellAllow: [],
      stripEnv: [],
      baselineEnv: [],
      interpreterRuntime: [],
      stagedRuntime: [],
      spawnAllow: [],
      workdirSnapshot: [],
      envAllow: [],
      limits: {
        memoryBytes: 536870912,
        tableElements: 100000,
        instances: 1000,
        deadlineSeconds: 600,
        deadlineDeclared: false,
      },
      resources: {
        maxProcesses: 128,
        maxOpenFiles: 1024,
        maxFileSizeBytes: 4294967296,
        cpuSeconds: 3600,
        memoryBytes: 2147483648,
        cgroupMemoryBytes: 4294967296,
        cgroupPidsMax: 256,
        cgroupCpuPercent: 200,
        cgroupIoBytesPerSec: 104857600,
        workdirMaxBytes: 10737418240,
        declared: new Set(),
      },
      stateDeclared: false,
      conversationDeclared: false,
      planSubmit: false,
      installSkill: [],
      installTool: [],
      installDeclared: false,
      containment: null,
    },
    network: { internalPort: null, authentication: null, hosts: [], origins: [], a2aCompat: [] },
    inference: null,
    context: {
      maxTokens: null,
      record: true,
      recordStore: null,
      seedBudget: 0.1,
      seedOverflowMargin: 0.1,
      retain: null,
    },
    lifecycle: {
      taskAcceptance: "single",
      afterTask: "exit",
      queueDepth: 1,
      inputTimeoutSecs: null,
      conversation: "stateless",
      maxTaskReopens: 1,
      shellGraceSecs: 10,
      delegationDeadlineSecs: 600,
    },
    exports: { files: null, peerFiles: null, peerTasks: false },
    control: null,
    observability: { otelEndpoint: null, evalConfig: null, datasetId: null },
    trace: { capture: "meta", retain: null },
    registry: { remoteUrl: null, default: null },
  });
});

Deno.test("the example of the specification is read without a word", () => {
  const { manifest, warnings, notices } = parse(EXAMPLE);
  assert.deepEqual([warnings, notices], [[], []]);
  assert.equal(manifest.version, "1.4.0");
  assert.deepEqual(manifest.artifacts[0]?.gateway, {
    endpoint: "https://api.provider.example/v1",
    credential: { kind: "reference", name: "PROVIDER_KEY" },
    olderForm: false,
  });
  assert.deepEqual(manifest.artifacts[1]?.grant, {
    networkAllow: ["https://ledger.acme.example"],
    scope: "ledger",
    records: false,
    state: { store: null },
    taskIoRead: false,
    conversationRead: false,
    inert: [],
  });
  assert.equal(manifest.artifacts[1]?.configJson, '{"currency":"EUR"}');
  assert.deepEqual(manifest.inference?.driver, {
    artifact: "murmur-driver-anthropic",
    configJson: '{"max_retries":3}',
  });
  assert.deepEqual(manifest.exports, {
    files: { root: "out/", maxBytes: 5 * 1024 * 1024 },
    peerFiles: { root: "out/handoff", maxTtlSeconds: 600, maxBytes: 10 * 1024 * 1024 },
    peerTasks: true,
  });
  assert.deepEqual(manifest.trace, { capture: "content", retain: { maxCount: 50, maxAgeSeconds: 14 * 86400 } });
});

Deno.test("a manifest with every key is read, and every value arrives", () => {
  const { manifest, warnings, notices } = parse(EVERYTHING);
  assert.deepEqual([warnings, notices], [[], []]);
  assert.equal(manifest.murVersion, "0.1.0");
  assert.deepEqual(manifest.registry, { remoteUrl: "https://registry.example", default: "local" });
  assert.deepEqual(
    manifest.artifacts.map((
      { name, bareName, role, version, source, promptPayload, onOverflow },
    ) => [name, bareName, role, version, source, promptPayload, onOverflow]),
    [
      ["acme/primary", "primary", "driver", "1", null, false, "drop"],
      ["acme/second", "second", "driver", "1", null, false, "drop"],
      ["acme/audit", "audit", "hook", "1", null, false, "block"],
      ["acme/tool", "tool", "tool", "1", null, false, "drop"],
      ["style", "style", "skill", "local", "./style", true, "drop"],
    ],
  );
  const hook = manifest.artifacts[2]!;
  assert.deepEqual(hook.grant, {
    networkAllow: [],
    scope: null,
    records: true,
    state: null,
    taskIoRead: true,
    conversationRead: false,
    inert: ["limits"],
  });
  assert.equal(hook.configJson, '{"level":3,"nested":{"list":[1,2.5,true,null]}}');
  assert.deepEqual(manifest.artifacts[0]?.grant?.state, { store: "shared" });
  assert.equal(manifest.artifacts[1]?.gateway?.credential, null);
  assert.deepEqual(manifest.capabilities.readOnly, ["reference"]);
  assert.deepEqual(manifest.capabilities.interpreterRuntime, [{
    binary: "bash",
    dirs: [{ path: "/usr/lib", listDir: false }],
  }]);
  assert.deepEqual(manifest.capabilities.stagedRuntime, [{ binary: "jq", sourcePath: "/opt/jq", pin: "1.7" }]);
  assert.deepEqual(manifest.capabilities.limits, {
    memoryBytes: 1,
    tableElements: 2,
    instances: 3,
    deadlineSeconds: 4,
    deadlineDeclared: true,
  });
  const { declared, ...resources } = manifest.capabilities.resources;
  assert.deepEqual(Object.values(resources), [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
  assert.equal(declared.size, 10);
  // Key order is the order written, numbers included.
  assert.equal(manifest.inference?.driver?.configJson, '{"b":1,"a":{"x":"y"},"2":"z"}');
  assert.deepEqual(manifest.inference?.compaction, {
    threshold: 0.5,
    model: "m0",
    systemPrompt: " keep ",
    systemPromptFile: null,
    dumpSummaries: true,
  });
  assert.deepEqual(manifest.inference?.alternates, [{ name: "fast", model: "m2", artifact: "acme/second" }]);
  assert.deepEqual(manifest.context, {
    maxTokens: 9,
    record: false,
    recordStore: "other",
    seedBudget: 0,
    seedOverflowMargin: 1,
    retain: { maxCount: 2, maxAgeSeconds: 60 },
  });
  assert.equal(
    JSON.stringify(manifest.observability.evalConfig),
    '{"dataset_id":"d","scorers":[{"type":"exit_ok","name":"exit_ok"},{"type":"max_turns","name":"turns","max":5},' +
      '{"type":"max_tokens","name":"max_tokens","max":100000},' +
      '{"type":"tool_sequence","name":"tool_sequence","expected":["jq"]},{"type":"llm_judge","name":"llm_judge"}]}',
  );
  assert.deepEqual(manifest.network, {
    internalPort: 0,
    authentication: null,
    hosts: ["desk.example", "[::1]"],
    origins: ["https://app.example", "http://localhost:5173"],
    a2aCompat: ["v0.3", "rest"],
  });
  assert.equal(manifest.lifecycle.maxTaskReopens, 0);
  assert.equal(manifest.lifecycle.inputTimeoutSecs, 0);
  assert.deepEqual(manifest.exports.peerFiles, { root: "./out", maxTtlSeconds: 900, maxBytes: 2048 });
  assert.deepEqual(manifest.control, {
    settings: ["inference.max_tokens", "inference.driver"],
    secrets: ["T_KEY"],
    agentSettings: ["inference.driver"],
  });
});

Deno.test("strings are their source text, whatever YAML would make of them", () => {
  const manifest = read(
    "name: 007\nversion: 1.10\nmur_version: 1e3\ncapabilities: {env: {allow: [true, 0x10, ~x, .5]}}\n",
  );
  assert.deepEqual([manifest.name, manifest.version, manifest.murVersion], ["007", "1.10", "1e3"]);
  assert.deepEqual(manifest.capabilities.envAllow, ["true", "0x10", "~x", ".5"]);
  // YAML 1.2: these are strings, and a boolean is only true or false.
  assert.deepEqual(read(`${HEAD}capabilities: {env: {allow: [on, off, yes, no, y]}}\n`).capabilities.envAllow, [
    "on",
    "off",
    "yes",
    "no",
    "y",
  ]);
  assert.equal(read(`${HEAD}capabilities: {network: {unix_sockets: TRUE}}\n`).capabilities.unixSockets, true);
  assert.equal(read(`${HEAD}context: {max_tokens: 0x10}\n`).context.maxTokens, 16);
  assert.equal(read(`${HEAD}context: {max_tokens: 0o17}\n`).context.maxTokens, 15);
  assert.equal(read(`${HEAD}context: {max_tokens: 010}\n`).context.maxTokens, 10);
});

Deno.test("a key with nothing under it is absent", () => {
  const nulls = [
    "artifacts:",
    "capabilities:",
    "capabilities: {network: , shell: , spawn: null, filesystem: ~, limits: , task_io: , state: , install: , containment: }",
    "network:",
    "network: {authentication: , hosts: , internal_port: }",
    "inference:",
    "context: {max_tokens: , record: , record_store: }",
    "lifecycle: {task_acceptance: , queue_depth: }",
    "exports: {files: , peer_files: , peer_tasks: }",
    "control: {settings: , secrets: , agent_settings: }",
    "observability: {eval: }",
    "trace: {capture: }",
    "mur_version:",
  ];
  const { place: _, text: __, ...least } = read(HEAD);
  for (const line of nulls) {
    const { place: _, text: __, ...values } = read(`${HEAD}${line}\n`);
    assert.deepEqual(values, least, line);
  }
});

Deno.test("blank strings count as absent where they may", () => {
  const { place: _, text: __, ...least } = read(HEAD);
  for (
    const line of [
      "mur_version: ' '",
      "capabilities: {filesystem: {scope: ''}, containment: ' '}",
      "observability: {otel_endpoint: ' '}",
    ]
  ) {
    const { place: _, text: __, ...values } = read(`${HEAD}${line}\n`);
    assert.deepEqual(values, least, line);
  }
  const inference = read(
    `${HEAD}inference: {transport: ' ', model: m, command: '', system_prompt: ' ', system_prompt_file: '', endpoint: ' ', api_key: '', driver: {artifact: ' '}}\n`,
  ).inference;
  assert.equal(inference?.transport, "http");
  assert.equal(inference?.driver, null);
  assert.equal(inference?.systemPrompt, null);
  // Kept, and refused at staging.
  assert.equal(read(`${HEAD}context: {record_store: ' '}\n`).context.recordStore, "");
  assert.deepEqual(
    read(`${HEAD}artifacts: [{name: a, version: '1', capabilities: {state: {store: ''}}}]\n`).artifacts[0]?.grant
      ?.state,
    { store: "" },
  );
});

Deno.test("anchors and aliases work, and << is a key like any other", () => {
  const text = `${HEAD}artifacts:\n  - &a {name: x, version: '1', capabilities: &c {filesystem: {scope: s}}}\n` +
    "  - {name: y, version: '1', capabilities: *c}\n  - {<<: *a, name: z, version: '2'}\n";
  const { manifest, warnings } = parse(text);
  assert.deepEqual(manifest.artifacts.map((entry) => entry.grant?.scope), ["s", "s", undefined]);
  assert.equal(manifest.artifacts[2]?.version, "2");
  assert.deepEqual(warnings.map(({ message }) => message), [
    "unrecognized key '<<' in artifacts[2]: it has no effect; it may come from a newer mur",
  ]);
});

Deno.test("the older gateway form lowers onto the driver's entry", () => {
  const older = (key: string) =>
    parse(
      `${HEAD}artifacts:\n  - {name: murmur-driver-openai, version: '1', runtime: driver}\ninference:\n` +
        `  endpoint: https://llm.example/v1\n${key}  model: m1\n  driver: {artifact: murmur-driver-openai}\n`,
    );
  const { manifest, notices } = older("  api_key: ${LLM_KEY}\n");
  assert.deepEqual(manifest.artifacts[0]?.gateway, {
    endpoint: "https://llm.example/v1",
    credential: { kind: "reference", name: "LLM_KEY" },
    olderForm: true,
  });
  assert.equal(notices.length, 1);
  assert.match(notices[0]!, /older spelling/);
  for (const keyless of ["", "  api_key:\n", "  api_key: ' '\n"]) {
    assert.equal(older(keyless).manifest.artifacts[0]?.gateway?.credential, null, keyless);
  }
  assert.deepEqual(older("  api_key: sk-x\n").manifest.artifacts[0]?.gateway?.credential, {
    kind: "literal",
    value: "sk-x",
  });
  // A driver from elsewhere is found missing at staging, not here.
  const absent = read(`${HEAD}inference: {endpoint: 'https://h', model: m, driver: {artifact: d}}\n`);
  assert.deepEqual([absent.artifacts, absent.inference?.driver?.artifact], [[], "d"]);
});

Deno.test("other older spellings lower, each with a line", () => {
  const drv =
    "artifacts: [{name: d, version: '1', runtime: driver, gateway: {endpoint: 'https://h', keyless: true}}]\n";
  const provider = parse(
    `${HEAD}${drv}inference: {model: m, provider: {artifact: d, config: {a: 1}}, max_task_reopens: 4}\n`,
  );
  assert.deepEqual(provider.manifest.inference?.driver, { artifact: "d", configJson: '{"a":1}' });
  assert.equal(provider.manifest.lifecycle.maxTaskReopens, 4);
  assert.equal(provider.notices.length, 2);
  const both = parse(`${HEAD}${drv}inference: {model: m, provider: {artifact: gone}, driver: {artifact: d}}\n`);
  assert.equal(both.manifest.inference?.driver?.artifact, "d");
  assert.equal(read(`${HEAD}trace: {include_tool_output: true}\n`).trace.capture, "content");
  assert.equal(read(`${HEAD}trace: {include_tool_output: false}\n`).trace.capture, "meta");
  assert.equal(parse(`${HEAD}trace: {include_tool_output: false}\n`).notices.length, 1);
  const process = read(`${HEAD}inference: {transport: process, command: codex}\n`);
  assert.deepEqual([process.inference?.command, process.inference?.driver, process.inference?.model], [
    "codex",
    null,
    null,
  ]);
});

Deno.test("a local source makes the version local and says so", () => {
  const { manifest, notices } = parse(`${HEAD}artifacts: [{name: s, runtime: skill, source: ./s, version: '3'}]\n`);
  assert.equal(manifest.artifacts[0]?.version, "local");
  assert.equal(notices.length, 1);
});

Deno.test("door credentials and their scopes are read, older names as the newer ones", () => {
  const { network } = read(
    `${HEAD}network:\n  authentication:\n    scheme: bearer\n    credentials:\n` +
      "      ci: {scopes: [SendMessage, stream/watch]}\n      ops_2: {scopes: [session/stop, resources/files]}\n",
  );
  assert.deepEqual([...network.authentication!.credentials], [
    ["ci", ["SendMessage", "murmur.WatchStream"]],
    ["ops_2", ["murmur.StopSession", "resources/files"]],
  ]);
  assert.equal(
    read(`${HEAD}network: {authentication: {scheme: bearer}}\n`).network.authentication?.credentials.size,
    0,
  );
});

Deno.test("a reference is exactly ${NAME}; anything else is a literal", () => {
  const credential = (key: string) =>
    read(
      `${HEAD}artifacts: [{name: t, version: '1', gateway: {endpoint: 'https://h', api_key: ${
        JSON.stringify(key)
      }}}]\n`,
    )
      .artifacts[0]?.gateway?.credential;
  assert.deepEqual(credential("${A_1}"), { kind: "reference", name: "A_1" });
  assert.deepEqual(credential("  ${_A} "), { kind: "reference", name: "_A" });
  for (const literal of ["${my_key}", "x${A}", "$A", "${A", "${}", "${1A}", "${A}${B}"]) {
    assert.deepEqual(credential(literal), { kind: "literal", value: literal });
  }
});

Deno.test("a reader that only needs grants gets no literal key", () => {
  const text = `${HEAD}artifacts: [{name: t, version: '1', gateway: {endpoint: 'https://h', api_key: sk-literal}}]\n`;
  const { manifest } = parse(text, { dropLiteralKeys: true });
  assert.deepEqual(manifest.artifacts[0]?.gateway?.credential, { kind: "literal", value: "" });
});

Deno.test("a refused config is kept for staging with its reason", () => {
  const problem = (config: string) =>
    read(`${HEAD}artifacts: [{name: t, version: '1', config: ${config}}]\n`).artifacts[0]?.configProblem;
  assert.equal(problem("{}"), null);
  assert.match(problem("")!, /got null/);
  assert.match(problem("[1]")!, /got sequence/);
  assert.match(problem("5")!, /got number/);
  assert.match(problem("{1: a}")!, /not a string/);
  assert.match(problem("{[a]: b}")!, /not a string/);
  assert.match(problem("{a: .nan}")!, /no JSON form/);
  assert.match(problem(`{a: ${"x".repeat(65_530)}}`)!, /is 65538 bytes as JSON, over the limit of 65536/);
  assert.equal(problem(`{a: ${"x".repeat(65_528)}}`), null);
});

Deno.test("places are found by path, values where they are and blocks at their key", () => {
  const manifest = read(EXAMPLE);
  const at = (path: string) => {
    const place = manifest.place(path);
    return place === undefined ? undefined : [place.line, place.column];
  };
  assert.deepEqual(at("name"), [1, 7]);
  assert.deepEqual(at("artifacts[1].capabilities.filesystem.scope"), [12, 28]);
  assert.deepEqual(at("capabilities.network.allow[1]"), [16, 51]);
  assert.deepEqual(at("inference"), [22, 1]);
  assert.deepEqual(at("artifacts[1]"), [8, 5]);
  for (const path of ["nothing", "artifacts[9]", "name.x", "artifacts.x", "inference[0]"]) {
    assert.equal(at(path), undefined, path);
  }
});

Deno.test("an error shows the line with its secrets masked", () => {
  const error = (() => {
    try {
      parse(
        `${HEAD}artifacts: [{name: X, version: '1', gateway: {endpoint: 'https://h', api_key: "sk-live-123456"}}]\n`,
      );
    } catch (caught) {
      return caught;
    }
  })();
  assert.ok(error instanceof MurError);
  const shown = formatError(error);
  assert.doesNotMatch(shown, /sk-live/);
  assert.match(shown, /--> murmur\.yaml:3:20\n {3}\| artifacts: \[\{name: X, .*api_key: \*+\}\}\]\n {3}\| {20}\^$/m);
});

Deno.test("a mur_version that differs is told, once", () => {
  assert.equal(murVersionNotice(read(HEAD)), null);
  assert.equal(murVersionNotice(read(`${HEAD}mur_version: 9.9.9\n`), "9.9.9"), null);
  assert.equal(
    murVersionNotice(read(`${HEAD}mur_version: 9.9.9\n`), "0.1.0"),
    "warning: manifest requires mur 9.9.9 but you are running mur 0.1.0",
  );
});

Deno.test("bytes are UTF-8, with or without a byte order mark", () => {
  const encoder = new TextEncoder();
  assert.equal(parse(encoder.encode(`\ufeff${HEAD}`)).manifest.name, "desk");
  assert.equal(parse(`\ufeff${HEAD}`).manifest.name, "desk");
  assert.equal(parse(encoder.encode(HEAD.replaceAll("\n", "\r\n"))).manifest.version, "1.0");
  assert.throws(() => parse(Uint8Array.of(0x6e, 0xff, 0xfe)), {
    code: "E-MAN-002",
    message: "murmur.yaml: YAML syntax error: the file is not UTF-8",
  });
  assert.throws(() => parse(Uint8Array.of(...encoder.encode(HEAD), 0xc3)), { code: "E-MAN-002" });
});

Deno.test("a file that is absent, unreadable or a directory has its own code", async () => {
  const directory = await Deno.makeTempDir();
  try {
    await assert.rejects(readCapsuleManifest(`${directory}/murmur.yaml`), {
      code: "E-IO-001",
      message: `murmur.yaml not found at ${directory}/murmur.yaml`,
    });
    await assert.rejects(readCapsuleManifest(directory), {
      code: "E-IO-003",
      message: /^failed to read murmur\.yaml at /,
    });
    await assert.rejects(readCapsuleManifest(`${directory}/a\0b`), { code: "E-IO-003" });
    await Deno.writeTextFile(`${directory}/murmur.yaml`, EXAMPLE);
    const { manifest } = await readCapsuleManifest(`${directory}/murmur.yaml`);
    assert.equal(manifest.file, `${directory}/murmur.yaml`);
    assert.equal(manifest.name, "desk");
    // A pipe has no size, and as much is read from it as from a file.
    const pipe = `${directory}/pipe`;
    assert.ok((await new Deno.Command("mkfifo", { args: [pipe] }).output()).success);
    const long = `${EXAMPLE}\n# ${"x".repeat(100_000)}\n`;
    await Deno.writeTextFile(`${directory}/long.yaml`, long);
    const writer = new Deno.Command("/bin/sh", { args: ["-c", `cat ${directory}/long.yaml > ${pipe}`] }).spawn();
    assert.equal((await readCapsuleManifest(pipe)).manifest.name, "desk");
    await writer.status;
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
});

/** Hostile texts: what they are, and the text. Each is refused, and soon. */
const HOSTILE: readonly (readonly [string, string])[] = [
  ["deep flow lists", "a: " + "[".repeat(20_000)],
  ["deep flow maps", "a: " + "{a: ".repeat(10_000)],
  ["deep block lists", "- ".repeat(20_000)],
  ["deep block maps", Array.from({ length: 700 }, (_, depth) => `${" ".repeat(depth)}a:`).join("\n")],
  ["a billion laughs", laughs(12)],
  [
    "a billion laughs in a config",
    `${HEAD}artifacts:\n - name: x\n   version: 1\n   config:\n    ${laughs(12).replaceAll("\n", "\n    ")}`,
  ],
  ["many aliases of a large list", `${HEAD}x: &a [${"1,".repeat(5000)}]\ny: [${"*a,".repeat(5000)}]\n`],
  ["an alias chain in a circle", "a: &a {b: &b {c: *a}}"],
  ["many documents", "---\n".repeat(20_000)],
  ["many anchors", "&a ".repeat(20_000)],
  ["many tags", "!!str ".repeat(20_000)],
  ["many directives", "%YAML 1.2\n".repeat(20_000)],
  ["brackets the wrong way", "]".repeat(20_000)],
  ["many keys", Array.from({ length: 20_000 }, (_, key) => `k${key}: 1`).join("\n")],
  ["a file that is too large", `${HEAD}# ${"x".repeat(600_000)}\n`],
  ["a long line with an error", `${HEAD}context: {max_tokens: "${"x".repeat(400_000)}"}\n`],
  ["a long number", `${HEAD}context: {max_tokens: ${"9".repeat(400_000)}}\n`],
  ["a quote that never ends", `name: '${"\n".repeat(100_000)}`],
  [
    "prototype keys",
    `${HEAD}__proto__: {a: 1}\nconstructor: {}\ncapabilities: {__proto__: x, toString: y}\nname: twice\n`,
  ],
];

function laughs(levels: number): string {
  const lines = ['a0: &a0 ["lol"]'];
  for (let level = 1; level < levels; level++) {
    lines.push(`a${level}: &a${level} [${Array(10).fill(`*a${level - 1}`).join(", ")}]`);
  }
  return lines.join("\n");
}

for (const [title, text] of HOSTILE) {
  Deno.test(`hostile: ${title}`, () => {
    const before = cpuUsage();
    assert.throws(() => parse(text), (error) => {
      assert.ok(error instanceof MurError, String(error));
      assert.ok(error.message.length < 1000, error.message.slice(0, 300));
      assert.ok((error.place?.text.length ?? 0) < 1000);
      return true;
    });
    const { user, system } = cpuUsage(before);
    const took = (user + system) / 1_000;
    // Processor time, which others that use the machine hardly lengthen. Quick machines need a tenth of it.
    assert.ok(took < 5_000, `${took} ms`);
  });
}

Deno.test("__proto__ is a key like any other", () => {
  const text =
    `${HEAD}artifacts: [{name: t, version: '1', config: {__proto__: {x: 1}, a: 2}}]\n__proto__: {polluted: 1}\n`;
  const { manifest, warnings } = parse(text);
  assert.equal(manifest.artifacts[0]?.configJson, '{"__proto__":{"x":1},"a":2}');
  assert.match(warnings[0]!.message, /'__proto__' at the top level/);
  assert.equal((({}) as { polluted?: number }).polluted, undefined);
});

/** Ways to damage a text. */
const mutation = fc.oneof(
  fc.record({
    kind: fc.constant("delete" as const),
    at: fc.nat(),
    length: fc.integer({ min: 1, max: 40 }),
    text: fc.constant(""),
  }),
  fc.record({
    kind: fc.constant("insert" as const),
    at: fc.nat(),
    length: fc.constant(0),
    text: fc.oneof(
      fc.constantFrom(..."{}[],:&*!|>'\"%@`#?-~\n\t \u0000\u00a0\ufeff"),
      fc.constantFrom(
        "&a ",
        "*a",
        "<<: ",
        "null",
        "true",
        "-1",
        "1e99",
        ".nan",
        "!!binary x",
        "---\n",
        "...\n",
        "? ",
        "\\",
        "${X}",
      ),
      fc.string({ unit: "binary", maxLength: 10 }),
    ),
  }),
  fc.record({
    kind: fc.constant("replace" as const),
    at: fc.nat(),
    length: fc.integer({ min: 1, max: 10 }),
    text: fc.constantFrom(
      "0",
      "''",
      "[]",
      "{}",
      "~",
      "-5",
      "x/y",
      "..",
      "/",
      "99999999999999999999",
      "é",
      "*a",
      "a: b",
    ),
  }),
);

function mutate(text: string, mutations: readonly { at: number; length: number; text: string }[]): string {
  let damaged = text;
  for (const { at, length, text: put } of mutations) {
    const from = damaged.length === 0 ? 0 : at % damaged.length;
    damaged = damaged.slice(0, from) + put + damaged.slice(from + length);
  }
  return damaged;
}

/** How long one reading takes, in milliseconds; the least of three when the first is slow, for others use the machine. */
function timeToRead(text: string): number {
  const once = (): number => {
    const start = performance.now();
    try {
      parse(text);
    } catch {
      // The verdict is judged elsewhere.
    }
    return performance.now() - start;
  };
  const first = once();
  return first < 200 ? first : Math.min(once(), once());
}

Deno.test("a damaged manifest is read or refused with a code, quickly, whatever the damage", () => {
  // The first readings compile the code they take.
  for (let i = 0; i < 20; i++) parse(EVERYTHING);
  const seen = new Set<string>();
  fc.assert(
    fc.property(
      fc.constantFrom(EXAMPLE, EVERYTHING, ARTIFACT),
      fc.array(mutation, { minLength: 1, maxLength: 6 }),
      (text, mutations) => {
        const damaged = mutate(text, mutations);
        try {
          parse(damaged);
          seen.add("read");
        } catch (error) {
          assert.ok(error instanceof MurError, `${error}\n${error instanceof Error ? error.stack : ""}`);
          assert.match(error.code, /^E-(?:MAN-00[123]|CAP-018)$/);
          // deno-lint-ignore no-control-regex
          assert.doesNotMatch(formatError(error), /[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/);
          seen.add(error.code);
        }
        assert.ok(timeToRead(damaged) < 200, "within 200 ms");
      },
    ),
    { numRuns: 500 },
  );
  // The property saw both sides.
  assert.ok(seen.has("read") && seen.has("E-MAN-002") && seen.has("E-MAN-003"), [...seen].join());
});

Deno.test("any bytes at all are read or refused with a code", () => {
  fc.assert(
    fc.property(fc.oneof(fc.uint8Array({ maxLength: 200 }), fc.string({ unit: "binary" }), fc.json()), (bytes) => {
      try {
        parse(bytes);
      } catch (error) {
        assert.ok(error instanceof MurError && /^E-MAN-00[123]$/.test(error.code), String(error));
      }
    }),
    { numRuns: 1000 },
  );
});

Deno.test("a missing field whose name is misspelt is refused where it stands, with the name it was meant to have", () => {
  const refusal = (text: string) => {
    try {
      parseCapsuleManifest(text, "murmur.yaml");
    } catch (error) {
      assert.ok(error instanceof MurError, String(error));
      return { code: error.code, hint: error.hint, line: error.place?.line, column: error.place?.column };
    }
    assert.fail("not refused");
  };
  const driver = 'artifacts: [{ name: d, version: "1", runtime: driver }]\n';
  assert.deepEqual(refusal(`name: a\nversion: "1"\n${driver}inference:\n  modle: m\n  driver: { artifact: d }\n`), {
    code: "E-MAN-003",
    hint: "'inference.modle' is not known; did you mean 'inference.model'?",
    line: 5,
    column: 10,
  });
  assert.deepEqual(refusal('nmae: a\nversion: "1"\n'), {
    code: "E-MAN-001",
    hint: "'nmae' is not known; did you mean 'name'?",
    line: 1,
    column: 7,
  });
  // Neither when the field is written and refused, nor for a key that is like another one.
  assert.equal(refusal('name: a\nnmae: b\nversion: " "\n').hint, undefined);
  assert.equal(refusal('name: a\nverse: "1"\ninferrence: {}\n').hint, undefined);
});

Deno.test("an unknown key of any characters is named in a refusal", () => {
  for (const key of ["na]me", "na[me", "nam.e", "[name", "]", "name]", "n[0]ame"]) {
    assert.throws(
      () => parseCapsuleManifest(`${JSON.stringify(key)}: a\nversion: "0.1.0"\n`, "murmur.yaml"),
      { code: "E-MAN-001" },
      key,
    );
  }
});
