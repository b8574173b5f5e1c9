import assert from "node:assert/strict";
import { parseCapsuleManifest } from "../../artifact/manifest/parse_capsule_manifest.ts";
import { componentEnvironment } from "./component_environment.ts";

function manifest(env: string) {
  return parseCapsuleManifest(
    `name: desk
version: "1.0"
artifacts:
  - { name: driver, version: "1", runtime: driver, gateway: { endpoint: "http://localhost:1/v1", keyless: true } }
capabilities:
  env: { allow: [${env}] }
  shell: { allow: [bash], strip_env: ["CI_*"] }
inference:
  model: m
  driver: { artifact: driver, config: { a: 1 } }
`,
    "murmur.yaml",
  ).manifest;
}

const HOST: Record<string, string> = {
  LANG: "C",
  CI_JOB: "7",
  OPENAI_API_KEY: "sk-secret",
  MURMUR_SESSION_ID: "ses_forged",
  MURMUR_GATEWAY_ENDPOINT: "http://evil.example",
  UNLISTED: "x",
};
const host = { get: (name: string) => HOST[name] };
const SESSION = { sessionId: "ses_1", url: "localhost:7" };
const PLAIN = { configJson: null, gatewayEndpoint: null, isDriver: false };

Deno.test("only allowed names come from the host, and none the backstop strips", () => {
  const env = componentEnvironment(manifest("LANG, CI_JOB, OPENAI_API_KEY, NOT_SET"), host, SESSION, PLAIN);
  assert.equal(env.LANG, "C");
  for (const name of ["CI_JOB", "OPENAI_API_KEY", "NOT_SET", "UNLISTED", "PATH", "HOME"]) {
    assert.ok(!(name in env), name);
  }
});

Deno.test("the runtime's own names cannot be taken from the host", () => {
  const env = componentEnvironment(manifest("MURMUR_SESSION_ID, MURMUR_GATEWAY_ENDPOINT"), host, SESSION, PLAIN);
  assert.equal(env.MURMUR_SESSION_ID, "ses_1");
  assert.ok(!("MURMUR_GATEWAY_ENDPOINT" in env));
});

Deno.test("config and gateway are the declaring artifact's alone; the driver's endpoint is its gateway", () => {
  const tool = componentEnvironment(manifest(""), host, SESSION, PLAIN);
  assert.equal(tool.MURMUR_INFERENCE_ENDPOINT, "");
  assert.ok(!("MURMUR_ARTIFACT_CONFIG" in tool));
  const driver = componentEnvironment(manifest(""), host, SESSION, {
    configJson: '{"a":1}',
    gatewayEndpoint: "http://127.0.0.1:9/v1",
    isDriver: true,
  });
  assert.equal(driver.MURMUR_INFERENCE_ENDPOINT, "http://127.0.0.1:9/v1");
  assert.equal(driver.MURMUR_GATEWAY_ENDPOINT, "http://127.0.0.1:9/v1");
  assert.equal(driver.MURMUR_ARTIFACT_CONFIG, '{"a":1}');
  assert.equal(driver.MURMUR_INFERENCE_DRIVER_CONFIG, '{"a":1}');
  assert.equal(driver.MURMUR_CAPSULE_URL, "localhost:7");
});
