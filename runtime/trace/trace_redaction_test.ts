import assert from "node:assert/strict";
import fc from "fast-check";
import { mint, newNonce, PeerMintKey } from "../../planes/handle.ts";
import {
  cutBytes,
  redactJson,
  redactPeerTokens,
  redactReason,
  redactValues,
  sha256Hex,
  tokenId,
} from "./trace_redaction.ts";

const TOKEN = "mh1.eyJ2IjoxfQ.c2lnbmF0dXJl";

Deno.test("SHA-256 is that of the platform", async () => {
  for (const text of ["", "abc", "ä😀", "x".repeat(100_000)]) {
    const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text)));
    assert.equal(sha256Hex(text), digest.toHex());
  }
});

Deno.test("a peer-file token is replaced by its handle id, wherever it stands", () => {
  const id = tokenId(TOKEN);
  assert.match(id, /^[0-9a-f]{16}$/);
  assert.equal(redactPeerTokens(`a ${TOKEN}, "${TOKEN}" b`), `a <handle:${id}>, "<handle:${id}>" b`);
  assert.equal(redactPeerTokens(`${TOKEN}\n${TOKEN}`), `<handle:${id}>\n<handle:${id}>`);
  assert.equal(redactPeerTokens("mh1 is a format; mh2.a.b is none"), "mh1 is a format; mh2.a.b is none");
});

Deno.test("a token that was cut, or glued to other text, does not get through", () => {
  for (const text of ["mh1.eyJ2IjoxfQ", "mh1.eyJ2IjoxfQ.", `x${TOKEN}`, `${TOKEN}.more`, `path/${TOKEN}/file`]) {
    assert.ok(!redactPeerTokens(text).includes("eyJ2IjoxfQ"), text);
  }
});

Deno.test("a token that was split, or whose dots are written in another way, leaves nothing to make it from again", () => {
  using key = PeerMintKey.generate();
  const token = mint(key, { v: 1, iss: "ses_1", p: "a", exp: 1, n: newNonce() }, "a@h:1");
  const [, payload, code] = token.split(".");
  const headless = `${payload}.${code}`;
  for (
    const text of [
      headless,
      `mh1 ${headless}`,
      `mh1%2E${payload}%2E${code}`,
      `mh1\u2024${payload}\u2024${code}`,
      payload!,
    ]
  ) {
    assert.ok(!redactPeerTokens(text).includes(payload!), text);
  }
  assert.equal(redactPeerTokens(`"${headless}"`), `"<handle:${tokenId(headless)}>"`);
});

Deno.test("credential values are struck out of a failure text, longer ones first", () => {
  assert.equal(
    redactValues("key sk-abc-def and sk-abc", ["sk-abc", "sk-abc-def", ""]),
    "key [redacted] and [redacted]",
  );
  assert.equal(redactReason("bad a.b*c", ["a.b*c"]), "bad [redacted]");
  assert.equal(redactReason("cost is $&", ["$&"]), "cost is [redacted]");
});

Deno.test("no failure text holds a credential, is longer than 2,000 bytes or ends inside a character", () => {
  fc.assert(fc.property(
    fc.array(fc.string({ unit: "grapheme", minLength: 3, maxLength: 12 }), { maxLength: 4 }),
    fc.array(fc.string({ unit: "grapheme", maxLength: 600 }), { maxLength: 8 }),
    (credentials, parts) => {
      const text = parts.map((part, index) => part + (credentials[index % Math.max(1, credentials.length)] ?? "")).join(
        "",
      );
      const shown = redactReason(text, credentials);
      // The mark itself could hold a credential such as "red".
      const rest = shown.replaceAll("[redacted]", "\u0000");
      for (const credential of credentials) assert.ok(!rest.includes(credential));
      assert.ok(new TextEncoder().encode(shown).length <= 2_000);
      assert.equal(shown.isWellFormed(), true);
    },
  ));
});

Deno.test("a cut text is the longest prefix that fits", () => {
  assert.equal(cutBytes("aä😀", 7), "aä😀");
  assert.equal(cutBytes("aä😀", 6), "aä");
  assert.equal(cutBytes("aä😀", 3), "aä");
  assert.equal(cutBytes("aä😀", 2), "a");
  assert.equal(cutBytes("a", 0), "");
});

Deno.test("a JSON value is redacted in strings and keys at any depth; short values are left alone", () => {
  const secret = "s3cret-value";
  const value = { [`k ${secret}`]: [1, null, true, { deep: `x${secret}y`, token: TOKEN }], short: "abc" };
  assert.deepEqual(redactJson(value, [secret, "abc"]), {
    "k [redacted]": [1, null, true, { deep: "x[redacted]y", token: `<handle:${tokenId(TOKEN)}>` }],
    short: "abc",
  });
});
