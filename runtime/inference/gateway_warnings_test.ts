import assert from "node:assert/strict";
import { lowerCapabilities } from "../../artifact/capability_policy.ts";
import { parseCapsuleManifest } from "../../artifact/manifest/parse_capsule_manifest.ts";
import { type FoundCredential, gatewayWarnings, meteredDrivers } from "./gateway_warnings.ts";

const MANIFEST = `
name: demo
version: "0.1.0"
artifacts:
  - name: murmur/driver-a
    version: "1.0.0"
    runtime: driver
    gateway: { endpoint: "https://api.example.com/v1", api_key: "\${KEY_A}" }
  - name: driver-b
    version: "1.0.0"
    runtime: driver
    gateway: { endpoint: "https://other.example.com", api_key: "\${KEY_B}" }
  - name: fetcher
    version: "1.0.0"
    runtime: tool
    gateway: { endpoint: "http://localhost:8080", keyless: true }
    capabilities: { network: { allow: ["localhost:8080", "api.example.com"] } }
  - name: reader
    version: "1.0.0"
    runtime: hook
    gateway: { endpoint: "https://hooks.example.com", api_key: literal-key }
capabilities: { network: { allow: ["https://api.example.com", "hooks.example.com:444", "localhost:8080", "free.example.com"] } }
inference:
  transport: http
  model: m1
  driver: { artifact: driver-a }
  alternates:
    - { name: second, model: m2, driver: { artifact: driver-b } }
control: { settings: [inference.driver] }
`;

function warningsOf(found: ReadonlyMap<string, FoundCredential>, mode: number | null) {
  const manifest = parseCapsuleManifest(MANIFEST, "murmur.yaml").manifest;
  return gatewayWarnings(manifest, lowerCapabilities(manifest), found, { file: "/home/u/.murmur/config.yaml", mode });
}

const coded = (warnings: ReturnType<typeof warningsOf>, code: string) =>
  warnings.filter((warning) => warning.code === code).map((warning) => warning.message);

Deno.test("the configured driver and its alternates are metered, other gateways warn", () => {
  assert.deepEqual([...meteredDrivers(parseCapsuleManifest(MANIFEST, "murmur.yaml").manifest)], [
    "driver-a",
    "driver-b",
  ]);
  const messages = coded(warningsOf(new Map(), null), "W-SEC-030");
  assert.deepEqual(messages.map((message) => /'([^']*)'/.exec(message)![1]), ["fetcher", "reader"]);
});

Deno.test("entries that lead past a gateway: any artifact's for the capsule, its own for an artifact", () => {
  const messages = coded(warningsOf(new Map(), null), "W-SEC-025");
  assert.deepEqual(
    messages.map((
      message,
    ) => [/allow(?: of artifact '[^']*')? '([^']*)'/.exec(message)![1], / of '([^']*)':/.exec(message)![1]]),
    [
      ["https://api.example.com", "driver-a"],
      ["localhost:8080", "fetcher"],
      ["localhost:8080", "fetcher"],
      ["hooks.example.com:444", "reader"],
    ],
  );
  assert.ok(messages[2]!.includes("of artifact 'fetcher'"));
});

Deno.test("keys that are read once, and a file that others can read", () => {
  const found = new Map<string, FoundCredential>([
    ["driver-a", { kind: "environment", name: "KEY_A" }],
    ["driver-b", { kind: "config", name: "KEY_B" }],
    ["fetcher", { kind: "keyless" }],
    ["reader", { kind: "manifest" }],
  ]);
  const warnings = warningsOf(found, 0o644);
  const once = coded(warnings, "W-SEC-027");
  assert.equal(once.length, 2);
  assert.match(once[0]!, /'driver-a'.*KEY_A.*mur config set -g credentials\.KEY_A -$/);
  assert.match(once[1]!, /'reader'.*manifest/);
  assert.ok(!JSON.stringify(warnings).includes("literal-key"));
  assert.deepEqual(coded(warnings, "W-SEC-028").length, 1);
  assert.match(coded(warnings, "W-SEC-028")[0]!, /0644.*chmod 600 \/home\/u\/\.murmur\/config\.yaml/);
  for (const mode of [0o600, 0o400, null]) assert.deepEqual(coded(warningsOf(found, mode), "W-SEC-028"), []);
  found.delete("driver-b");
  assert.deepEqual(coded(warningsOf(found, 0o644), "W-SEC-028"), []);
});
