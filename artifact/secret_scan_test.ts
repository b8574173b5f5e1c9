import assert from "node:assert/strict";
import fc from "fast-check";
import { formatWarning } from "../base/errors.ts";
import { findLiteralSecrets, secretWarnings } from "./secret_scan.ts";

Deno.test("a key that names a secret and holds more than 8 characters, or starts sk-, is found with its path and line", () => {
  const text = [
    "name: a",
    "inference:",
    "  api_key: sk-1",
    "  model: a-very-long-model-name",
    "artifacts:",
    "  - name: x",
    "    config: { DB_PassWord: 'correct horse', list: [{ my_token_name: 123456789a }] }",
  ].join("\n");
  assert.deepEqual(findLiteralSecrets(text), [
    { field: "inference.api_key", line: 3, shown: "****" },
    { field: "artifacts[0].config.DB_PassWord", line: 7, shown: "corr****" },
    { field: "artifacts[0].config.list[0].my_token_name", line: 7, shown: "1234****" },
  ]);
});

Deno.test("references, short values, numbers and other keys are not found", () => {
  for (
    const line of [
      "api_key: ${API_KEY}",
      "api_key: ' ${API_KEY} '",
      "token: 12345678",
      "token: short",
      "max_tokens: 100000000000",
      "password: [not, a, string, here]",
      "description: sk-this is no secret key",
      "secret:",
    ]
  ) assert.deepEqual(findLiteralSecrets(line), [], line);
  for (const line of ["api_key: ${api_key_x}", "api_key: x${API_KEY}", "secret: $SECRET_VALUE"]) {
    assert.equal(findLiteralSecrets(line).length, 1, line);
  }
});

Deno.test("no warning shows more than the first four characters of a value", () => {
  fc.assert(fc.property(fc.stringMatching(/^[a-z0-9]{9,40}$/), (secret) => {
    const [warning] = secretWarnings(JSON.stringify({ name: "a", api_key: secret }), "murmur.yaml");
    assert.ok(warning !== undefined);
    assert.equal(warning.code, "W-SEC-004");
    assert.ok(!formatWarning(warning).includes(secret.slice(0, 5)));
  }));
});

Deno.test("text that is no YAML has no findings and no failure", () => {
  fc.assert(fc.property(fc.string(), (text) => void findLiteralSecrets(text)));
  assert.deepEqual(findLiteralSecrets("a: [\napi_key: 123456789"), []);
});
