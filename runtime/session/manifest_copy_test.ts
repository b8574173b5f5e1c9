import assert from "node:assert/strict";
import { parse } from "yaml";
import { parseCapsuleManifest } from "../../artifact/manifest/parse_capsule_manifest.ts";
import { withoutLiteralKeys } from "./manifest_copy.ts";

const HEAD = "name: probe\nversion: 0.1.0\n";
const entry = (key: string) =>
  `artifacts:\n  - name: a-tool\n    version: 1.0.0\n    gateway: { endpoint: "https://a.example", api_key: ${key} }\n`;

function copyOf(text: string): string {
  return withoutLiteralKeys(parseCapsuleManifest(text, "murmur.yaml").manifest);
}

Deno.test("a manifest without a literal key is copied byte for byte", () => {
  const text = `${HEAD}${entry('"${NAME}"')}# ***\n`;
  assert.equal(copyOf(text), text);
});

Deno.test("a literal key is withheld however it is written, and the rest stays", () => {
  const key = "sk-abc'def\"0123456789";
  const written = [
    JSON.stringify(key),
    `'${key.replaceAll("'", "''")}'`,
    '"\\x73k-abc\\u0027def\\"0123456789"',
    `" ${key.replaceAll('"', '\\"')} "`,
  ];
  for (const form of written) {
    const copy = copyOf(`${HEAD}${entry(form)}# the key is ${key}\nlifecycle: { queue_depth: 3 }\n`);
    assert.ok(!copy.includes("abc") && !copy.includes("0123456789"), copy);
    const value = parse(copy);
    assert.equal(value.artifacts[0].gateway.api_key, "***");
    assert.equal(value.lifecycle.queue_depth, 3);
    assert.ok(copy.endsWith("# the key is ***\nlifecycle: { queue_depth: 3 }\n"));
  }
});

Deno.test("a key behind an anchor or in several lines is withheld too", () => {
  const anchored = copyOf(`${HEAD}description: &k sk-anchored-key\n${entry("*k")}`);
  assert.ok(!anchored.includes("sk-anchored"), anchored);
  const folded =
    `${HEAD}artifacts:\n  - name: a-tool\n    version: 1.0.0\n    gateway:\n      endpoint: "https://a.example"\n` +
    "      api_key: >-\n        sk-first\n        second\nlifecycle: { queue_depth: 3 }\n";
  const copy = copyOf(folded);
  assert.ok(!copy.includes("sk-first") && !copy.includes("second"), copy);
  assert.equal(parse(copy).lifecycle.queue_depth, 3);
});
