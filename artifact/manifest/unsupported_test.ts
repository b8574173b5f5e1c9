import assert from "node:assert/strict";
import { parseCapsuleManifest } from "./parse_capsule_manifest.ts";
import { EXAMPLE } from "../../tests/support/sample_manifests.ts";
import { refuseUnsupported } from "./unsupported.ts";

const HEAD = "name: desk\nversion: '1.0'\n";
const DRIVER =
  "artifacts: [{name: d, version: '1', runtime: driver, gateway: {endpoint: 'https://h', keyless: true}}]\n";

function read(text: string) {
  return parseCapsuleManifest(text, "murmur.yaml").manifest;
}

/** What is not served, with the field that is named. */
const ROWS: readonly (readonly [string, string])[] = [
  ["artifact declaration at index 0", `${HEAD}artifacts: [{name: h, version: '1', runtime: hook}]\n`],
  ["inference.transport", `${HEAD}inference: {transport: process, command: codex}\n`],
  [
    "inference.alternates",
    `${HEAD}${DRIVER}inference: {model: m, driver: {artifact: d}, alternates: [{name: a, model: n, driver: {artifact: d}}]}\ncontrol: {settings: [inference.driver]}\n`,
  ],
  ["capabilities.install", `${HEAD}capabilities: {install: {tool: ['*']}}\n`],
  ["context.retain", `${HEAD}context: {retain: {max_age: 1d}}\n`],
  ["trace.retain", `${HEAD}trace: {retain: {max_age: 1d}}\n`],
  ["observability.otel_endpoint", `${HEAD}observability: {otel_endpoint: 'http://h'}\n`],
  ["observability.eval", `${HEAD}observability: {eval: {}}\n`],
  [
    "control",
    `${HEAD}${DRIVER}inference: {model: m, driver: {artifact: d}}\ncontrol: {settings: [inference.max_tokens]}\n`,
  ],
];

for (const [field, text] of ROWS) {
  Deno.test(`not served yet, and said so: ${field}`, () => {
    assert.throws(() => refuseUnsupported(read(text)), (error) => {
      assert.ok(error instanceof Error && "code" in error && error.code === "E-MAN-003");
      assert.match(
        error.message,
        /^murmur\.yaml: invalid .+: this version of mur does not .+ yet$/,
      );
      assert.ok(error.message.includes(field.includes(" ") ? field : `'${field}'`), error.message);
      assert.ok("place" in error && error.place !== undefined);
      return true;
    });
  });
}

Deno.test("what is served passes, and so does what is written and asks for nothing", () => {
  const texts = [
    HEAD,
    `${HEAD}${DRIVER}inference: {model: m, driver: {artifact: d}, compaction: {threshold: 0.5}}\ncontext: {max_tokens: 5}\n`,
    `${HEAD}artifacts: [{name: d, version: '1', runtime: driver, gateway: {endpoint: 'https://h', keyless: true}}, {name: h, version: '1', runtime: hook}]\ninference: {model: m, driver: {artifact: d}}\n`,
    `${HEAD}artifacts: [{name: t, version: '1', capabilities: {state: {}, filesystem: {scope: a}}}]\n`,
    `${HEAD}capabilities: {plan: {submit: true}, spawn: {allow: []}, shell: {allow: [jq]}, filesystem: {read_only: [a]}, limits: {instances: 1}, resources: {max_processes: 5}, containment: advisory}\n`,
    `${HEAD}exports: {peer_tasks: {accept: true}}\ncontrol: {settings: []}\nnetwork: {hosts: [h], origins: ['https://h'], authentication: {scheme: bearer}, a2a_compat: [v0.3, rest], internal_port: 8080}\n`,
    `${HEAD}lifecycle: {task_acceptance: queue, after_task: sleep, input_timeout_secs: 5}\n`,
    `${HEAD}context: {record: off}\ntrace: {capture: content}\n`,
  ];
  for (const text of texts) assert.doesNotThrow(() => refuseUnsupported(read(text)), text);
  assert.throws(() => refuseUnsupported(read(EXAMPLE)));
});
