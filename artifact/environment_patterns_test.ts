import assert from "node:assert/strict";
import {
  CREDENTIAL_PATTERNS,
  environmentPatternMatches,
  looksLikeCredential,
  strippedBy,
} from "./environment_patterns.ts";

Deno.test("a pattern is exact, a prefix, a suffix or a middle", () => {
  const matches = environmentPatternMatches;
  assert.ok(matches("A", "A") && !matches("A", "AB") && !matches("A", "a"));
  assert.ok(matches("AWS_*", "AWS_") && matches("AWS_*", "AWS_X") && !matches("AWS_*", "XAWS_X"));
  assert.ok(matches("*_API_KEY", "MY_API_KEY") && matches("*_API_KEY", "_API_KEY") && !matches("*_API_KEY", "API_KEY"));
  assert.ok(matches("*MID*", "AMIDB") && matches("*MID*", "MID") && !matches("*MID*", "MI"));
  assert.ok(matches("*", "ANY") && matches("**", "ANY"));
  // A star inside is a character, as are the characters of regular expressions.
  assert.ok(!matches("A*B", "AXB") && matches("A*B", "A*B") && !matches("A.*", "AXB"));
});

Deno.test("every built-in pattern strips, and strip_env adds to them", () => {
  for (const pattern of CREDENTIAL_PATTERNS) {
    assert.equal(strippedBy(pattern.replaceAll("*", "X"), [])?.source, "credential backstop", pattern);
  }
  assert.deepEqual(strippedBy("CI_X", ["CI_*"]), { pattern: "CI_*", source: "capabilities.shell.strip_env" });
  assert.equal(strippedBy("ANTHROPIC_API_KEY", ["*"])?.source, "credential backstop");
  for (const name of ["LANG", "API_KEY", "aws_x", "anthropic_api_key"]) assert.equal(strippedBy(name, []), null, name);
});

Deno.test("names with the words and segments of credentials look like them", () => {
  for (
    const name of [
      "MY_TOKEN",
      "mytokens",
      "Secret",
      "DB_PASSWORD",
      "api_key",
      "SSH_KEY",
      "X-PASS",
      "db.dsn",
      "GIT_AUTH_1",
      "PAT",
      "cookie",
      "CREDS",
    ]
  ) assert.ok(looksLikeCredential(name), name);
  for (const name of ["LANG", "KEYBOARD", "PATH", "AUTHOR", "MONKEY", "COMPASS", "DSNX", ""]) {
    assert.ok(!looksLikeCredential(name), name);
  }
});
