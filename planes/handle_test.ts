import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import fc from "fast-check";
import {
  decodePayloadUnverified,
  handleId,
  type HandlePayload,
  mint,
  newNonce,
  parseHandle,
  PeerMintKey,
  verify,
} from "./handle.ts";

const NOW = 1_755_950_000_000;
const AUDIENCE = "reporter@localhost:41234";
const payload = (more: Partial<HandlePayload> = {}): HandlePayload => ({
  v: 1,
  iss: "ses_01a033ec2c1f7eb2a5922f84e012e89d",
  p: "report.md",
  exp: NOW + 60_000,
  n: newNonce(),
  ...more,
});
const base64url = (text: string) =>
  new TextEncoder().encode(text).toBase64({ alphabet: "base64url", omitPadding: true });
const refusalOf = (result: ReturnType<typeof verify>) => "error" in result ? result.error : "ok";

Deno.test("a token has the seed's form, and its code is what another library computes", async () => {
  const bytes = crypto.getRandomValues(new Uint8Array(32));
  const secret = bytes.slice();
  using key = PeerMintKey.of(bytes);
  for (const [audience, p] of [[AUDIENCE, "report.md"], ["a@[::1]:1", 'dir/ä "quoted" 😀.txt'], ["x", ""]] as const) {
    const minted = payload({ p });
    const token = mint(key, minted, audience);
    const [tag, segment, code, ...rest] = token.split(".");
    assert.equal(tag, "mh1");
    assert.deepEqual(rest, []);
    const json = new TextDecoder().decode(Uint8Array.fromBase64(segment!, { alphabet: "base64url" }));
    assert.equal(json, JSON.stringify({ v: 1, iss: minted.iss, p, exp: minted.exp, n: minted.n }));
    const expected = createHmac("sha256", secret).update(`murmur-peer-handle-v1\x1f${segment}\x1f${audience}`);
    assert.equal(code, expected.digest("base64url"));
    const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(token))).toHex();
    assert.equal(handleId(token), digest.slice(0, 16));
    assert.deepEqual(verify(key, token, audience, NOW), { payload: minted });
    assert.deepEqual(decodePayloadUnverified(token), minted);
  }
});

Deno.test("a token changed in any bit is refused", () => {
  using key = PeerMintKey.generate();
  const token = mint(key, payload(), AUDIENCE);
  const bytes = new TextEncoder().encode(token);
  for (let at = 0; at < bytes.length; at++) {
    for (let bit = 0; bit < 8; bit++) {
      const changed = bytes.slice();
      changed[at]! ^= 1 << bit;
      const text = new TextDecoder("latin1").decode(changed);
      assert.match(
        refusalOf(verify(key, text, AUDIENCE, NOW)),
        /^(malformed_handle|handle_not_valid)$/,
        `${at}.${bit}`,
      );
    }
  }
  assert.equal(refusalOf(verify(key, token, AUDIENCE, NOW)), "ok");
});

Deno.test("whatever is wrong with a code is one refusal, found in a time of one class", () => {
  using key = PeerMintKey.generate();
  using other = PeerMintKey.generate();
  const minted = payload();
  const token = mint(key, minted, AUDIENCE);
  const [, , code] = token.split(".");
  const changed = `mh1.${base64url(JSON.stringify({ ...minted, p: "secret.md" }))}.${code}`;
  const ways: Record<string, () => unknown> = {
    "changed payload": () => verify(key, changed, AUDIENCE, NOW),
    "another instance": () => verify(other, token, AUDIENCE, NOW),
    "another audience": () => verify(key, token, "thief@localhost:41234", NOW),
    "expired besides": () => verify(key, mint(other, payload({ exp: 1 }), AUDIENCE), AUDIENCE, NOW),
    "a code cut short": () => verify(key, token.slice(0, -8), AUDIENCE, NOW),
    "a code of another text for the same bytes": () => verify(key, sameBytesOtherText(token), AUDIENCE, NOW),
  };
  const results = Object.values(ways).map((way) => way());
  for (const result of results) {
    assert.deepEqual(result, { error: "handle_not_valid", message: "the handle is not valid here" });
  }
  // Interleaved, so that what else the machine does hits all of them; the least of each is what the way itself takes.
  const least = Object.fromEntries(Object.keys(ways).map((name) => [name, Infinity]));
  for (let round = 0; round < 2_000; round++) {
    for (const [name, way] of Object.entries(ways)) {
      if (name === "expired besides") continue; // It mints.
      const start = performance.now();
      way();
      least[name] = Math.min(least[name]!, performance.now() - start);
    }
  }
  const times = Object.values(least).filter((time) => time < Infinity);
  assert.ok(Math.max(...times) < 2 * Math.min(...times) + 0.005, JSON.stringify(least));
});

/** The last character of a code holds two bits that no byte takes. */
function sameBytesOtherText(token: string): string {
  const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  return token.slice(0, -1) + alphabet[alphabet.indexOf(token.at(-1)!) ^ 1];
}

Deno.test("what has not the form of a handle is malformed, whatever its code", () => {
  using key = PeerMintKey.generate();
  const signed = (json: string) => {
    const segment = base64url(json);
    return `mh1.${segment}.${key.code(segment, AUDIENCE)}`;
  };
  const token = mint(key, payload(), AUDIENCE);
  for (
    const text of [
      "",
      "mh1",
      "mh1.",
      "mh1..",
      "mh1.a.",
      "mh1.a.b",
      "mh2" + token.slice(3),
      "MH1" + token.slice(3),
      token + ".x",
      token.replace("mh1.", "mh1.."),
      ` ${token}`,
      token + "=",
      token.replaceAll(".", "%2E"),
      signed("no json"),
      signed("null"),
      signed("[1]"),
      signed('"v"'),
      signed("{}"),
      signed('{"v":2,"iss":"s","p":"x","exp":9e15,"n":"n"}'),
      signed('{"v":"1","iss":"s","p":"x","exp":9e15,"n":"n"}'),
      `mh1.${Uint8Array.of(0xff, 0xfe).toBase64({ alphabet: "base64url" })}.AAAA`,
      "mh1." + "A".repeat(50_000) + ".AAAA",
    ]
  ) assert.equal(refusalOf(verify(key, text, AUDIENCE, NOW)), "malformed_handle", text.slice(0, 80));
  // Right in form and code, and yet not of our making.
  assert.equal(refusalOf(verify(key, signed('{"v":1}'), AUDIENCE, NOW)), "handle_not_valid");
});

Deno.test("a handle expires at its time, and only then", () => {
  using key = PeerMintKey.generate();
  const token = mint(key, payload({ exp: NOW }), AUDIENCE);
  assert.equal(refusalOf(verify(key, token, AUDIENCE, NOW - 1)), "ok");
  assert.equal(refusalOf(verify(key, token, AUDIENCE, NOW)), "handle_expired");
  assert.equal(refusalOf(verify(key, token, AUDIENCE, NOW + 1)), "handle_expired");
});

Deno.test("an overwritten key accepts nothing, not even what a key of zeros would", () => {
  const bytes = crypto.getRandomValues(new Uint8Array(32));
  const before = bytes.slice();
  const key = PeerMintKey.of(bytes);
  const token = mint(key, payload(), AUDIENCE);
  key.destroy();
  assert.notDeepEqual(bytes, before);
  assert.equal(refusalOf(verify(key, token, AUDIENCE, NOW)), "handle_not_valid");
  using zeros = PeerMintKey.of(new Uint8Array(32));
  assert.equal(refusalOf(verify(key, mint(zeros, payload(), AUDIENCE), AUDIENCE, NOW)), "handle_not_valid");
  assert.throws(() => PeerMintKey.of(new Uint8Array(31)), RangeError);
  for (const shown of [Deno.inspect(zeros), JSON.stringify(zeros), String(zeros)]) {
    assert.ok(!/0, 0|AAAA|0000/.test(shown), shown);
  }
});

Deno.test("any payload and audience comes back as it was minted, and under no other audience", () => {
  using key = PeerMintKey.generate();
  const text = fc.string({ unit: "grapheme" });
  fc.assert(fc.property(text, text, text, (p, audience, other) => {
    const minted = payload({ p });
    const token = mint(key, minted, audience);
    assert.deepEqual(verify(key, token, audience, NOW), { payload: minted });
    if (other !== audience) assert.equal(refusalOf(verify(key, token, other, NOW)), "handle_not_valid");
  }));
  fc.assert(fc.property(fc.string({ unit: "binary", maxLength: 300 }), (any) => {
    assert.ok("error" in parseHandle(any) || any.startsWith("mh1."));
    assert.notEqual(refusalOf(verify(key, any, AUDIENCE, NOW)), "ok");
  }));
  const tokens = new Set(Array.from({ length: 100 }, () => mint(key, payload(), AUDIENCE)));
  assert.equal(tokens.size, 100);
});
