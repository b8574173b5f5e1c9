import assert from "node:assert/strict";
import fc from "fast-check";
import { isSecretKey, maskLine } from "./secret_mask.ts";

Deno.test("values of secret keys and user information become asterisks of the same length", () => {
  const rows: [string, string][] = [
    ["api_key: sk-1234", "api_key: *******"],
    ["  api-key: 'a b'", "  api-key: *****"],
    ['{"apiKey": "x\\"y", b: c}', '{"apiKey": ******, b: c}'],
    ["{ endpoint: https://h, api_key: sk-1 }", "{ endpoint: https://h, api_key: ******"],
    ["MY_TOKEN: abc # note", "MY_TOKEN: **********"],
    ["api_key: ab,c}d#e f", "api_key: **********"],
    ["api_key: 'it''s'", "api_key: *******"],
    ["api_key: &k sk-1", "api_key: *******"],
    ["api_key: !!str sk-1", "api_key: **********"],
    ["api_key: ${A} sk-1", "api_key: *********"],
    ["api_key: ${A}sk-1", "api_key: ********"],
    ["{a_token: 'x', b_token: \"y\", c: z}", "{a_token: ***, b_token: ***, c: z}"],
    ["db_password: 'unfinished", "db_password: ***********"],
    ["client_secret:   x", "client_secret:   *"],
    ["endpoint: https://user:pa@ss@host/x", "endpoint: https://**********@host/x"],
  ];
  for (const [line, masked] of rows) {
    assert.equal(maskLine(line), masked);
    assert.equal(maskLine(line).length, line.length);
  }
});

Deno.test("references and ordinary values stay", () => {
  for (
    const line of [
      "api_key: ${NAME}",
      "{ api_key: ${NAME}, model: m }",
      "api_key: ${NAME} # note",
      'api_key: "${NAME}"',
      "max_tokens: 150000",
      "max_session_tokens: 5",
      "secrets: [A, B]",
      "model: gpt",
      "endpoint: https://h/v1",
      "api_key:",
      "key: value",
    ]
  ) assert.equal(maskLine(line), line);
});

Deno.test("characters a terminal acts on are shown as one replacement each", () => {
  assert.equal(maskLine("a\u001b[2J\u202eb\u0000"), "a\ufffd[2J\ufffdb\ufffd");
  assert.equal(maskLine("a\tb"), "a\tb");
});

Deno.test("masking keeps the length of any line and never lets a value of api_key through", () => {
  const value = fc.stringMatching(/^[a-zA-Z0-9+/=_-]{6,30}$/);
  const quote = fc.constantFrom("", "'", '"');
  fc.assert(
    fc.property(value, quote, fc.constantFrom("api_key", "x_token", "PASSWORD", "my-secret"), (secret, q, key) => {
      const line = `  - { name: x, ${key}: ${q}${secret}${q}, y: z }`;
      const masked = maskLine(line);
      assert.equal(masked.length, line.length);
      assert.ok(!masked.includes(secret));
    }),
  );
  fc.assert(fc.property(fc.string(), (line) => {
    assert.equal(maskLine(line).length, line.length);
  }));
});

Deno.test("names of counts and lists are no secret keys", () => {
  for (const key of ["max_tokens", "secrets", "credentials", "tokens"]) assert.ok(!isSecretKey(key), key);
  for (const key of ["api_key", "apikey", "token", "client_secret", "passwd", "password"]) {
    assert.ok(isSecretKey(key), key);
  }
});
