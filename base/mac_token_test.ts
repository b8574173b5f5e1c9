import assert from "node:assert/strict";
import fc from "fast-check";
import type { JsonObject } from "./json_value.ts";
import { mintToken, newTokenKey, openToken, type TokenFamily } from "./mac_token.ts";

const DOOR: TokenFamily = { tag: "mdt1", domain: "murmur-door-token-v1" };
const CONTROL: TokenFamily = { tag: "ctl1", domain: "murmur-control-token-v1" };
const KEY = new Uint8Array(32).fill(7);

Deno.test("a token has the published form", () => {
  const token = mintToken(DOOR, KEY, { credential: "ci", scopes: ["GetTask"] });
  const [tag, payload, code] = token.split(".");
  assert.equal(tag, "mdt1");
  assert.equal(payload, "eyJjcmVkZW50aWFsIjoiY2kiLCJzY29wZXMiOlsiR2V0VGFzayJdfQ");
  // HMAC-SHA256(07 × 32, "murmur-door-token-v1" ‖ 1f ‖ payload), from another implementation.
  assert.equal(code, "euyxFKIuhgLON7GLBjJ9KZRiW33vuos2Fa8r507RlKE");
});

Deno.test("what was minted opens to its payload, with its own key and family alone", () => {
  fc.assert(fc.property(fc.dictionary(fc.string(), fc.jsonValue(), { noNullPrototype: true }), (payload) => {
    const token = mintToken(DOOR, KEY, payload as JsonObject);
    assert.deepEqual(openToken(DOOR, KEY, token), JSON.parse(JSON.stringify(payload)));
    assert.equal(openToken(DOOR, newTokenKey(), token), null);
    assert.equal(openToken(CONTROL, KEY, token), null);
    assert.equal(openToken(CONTROL, KEY, token.replace("mdt1", "ctl1")), null);
    assert.equal(openToken({ ...CONTROL, tag: "mdt1" }, KEY, token), null);
  }));
});

Deno.test("no other text opens, not even one whose code decodes to the same bytes", () => {
  const token = mintToken(DOOR, KEY, { credential: "operator" });
  fc.assert(fc.property(fc.nat(token.length - 1), fc.constantFrom(..."Aa0-_.=+/ \0é"), (at, letter) => {
    const changed = token.slice(0, at) + letter + token.slice(at + 1);
    assert.equal(openToken(DOOR, KEY, changed) === null, changed !== token);
  }));
  for (
    const text of ["", ".", "..", "mdt1", "mdt1..", `${token}.`, ` ${token}`, `${token}=`, "mdt1." + "x".repeat(9_000)]
  ) {
    assert.equal(openToken(DOOR, KEY, text), null, text.slice(0, 40));
  }
  // The last letter of 43 carries two bits that no byte uses.
  const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  const last = alphabet.indexOf(token.at(-1)!);
  const twin = token.slice(0, -1) + alphabet[last ^ 1];
  assert.equal(openToken(DOOR, KEY, twin), null);
});
