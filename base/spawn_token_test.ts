import assert from "node:assert/strict";
import fc from "fast-check";
import type { JsonObject } from "./json_value.ts";
import { mintToken, newTokenKey } from "./mac_token.ts";
import { mintApproval, mintCredential, openApproval, openCredential, type SpawnApproval } from "./spawn_token.ts";

const KEY = new Uint8Array(32).fill(3);
const APPROVAL: SpawnApproval = {
  sessionId: "ses_1",
  name: "local/worker-a",
  version: "0.1.0",
  sha256: "5b".repeat(32),
  depth: 2,
  expiresAtMs: 1_793_000_060_000,
  id: "91".repeat(16),
};

/** The payload of a token as its text. */
function payloadOf(token: string): string {
  return new TextDecoder().decode(Uint8Array.fromBase64(token.split(".")[1]!, { alphabet: "base64url" }));
}

Deno.test("the payloads have the published keys in their order", () => {
  assert.match(payloadOf(mintCredential(KEY, "ses_1")), /^\{"v":1,"sid":"ses_1","n":"[0-9a-f]{32}"\}$/);
  assert.equal(
    payloadOf(mintApproval(KEY, APPROVAL)),
    `{"v":1,"sid":"ses_1","name":"local/worker-a","version":"0.1.0","digest":"${"5b".repeat(32)}","depth":2,` +
      `"exp":1793000060000,"jti":"${"91".repeat(16)}"}`,
  );
  assert.match(mintCredential(KEY, "ses_1"), /^msc1\.[\w-]+\.[\w-]{43}$/);
  assert.match(mintApproval(KEY, APPROVAL), /^msa1\.[\w-]+\.[\w-]{43}$/);
});

Deno.test("what was minted opens to what it was minted for, with its own key and as its own kind alone", () => {
  const approvals = fc.record({
    sessionId: fc.string(),
    name: fc.string(),
    version: fc.string(),
    sha256: fc.string(),
    depth: fc.nat(),
    expiresAtMs: fc.nat(),
    id: fc.string(),
  }, { noNullPrototype: true });
  fc.assert(fc.property(approvals, (approval) => {
    const token = mintApproval(KEY, approval);
    assert.deepEqual(openApproval(KEY, token), approval);
    assert.equal(openApproval(newTokenKey(), token), null);
    assert.equal(openCredential(KEY, token), null);
    assert.equal(openCredential(KEY, token.replace("msa1", "msc1")), null);
    const credential = mintCredential(KEY, approval.sessionId);
    assert.equal(openCredential(KEY, credential), approval.sessionId);
    assert.equal(openCredential(newTokenKey(), credential), null);
    assert.equal(openApproval(KEY, credential), null);
    assert.equal(openApproval(KEY, credential.replace("msc1", "msa1")), null);
  }));
});

Deno.test("a token with the right code and another payload is none", () => {
  const credential = (payload: JsonObject) =>
    openCredential(KEY, mintToken({ tag: "msc1", domain: "murmur-spawn-credential-v1" }, KEY, payload));
  assert.equal(credential({ v: 1, sid: "ses_1" }), "ses_1");
  const others: JsonObject[] = [{}, { v: 2, sid: "ses_1" }, { v: "1", sid: "ses_1" }, { v: 1 }, { v: 1, sid: 7 }];
  for (const payload of others) {
    assert.equal(credential(payload), null, JSON.stringify(payload));
  }
  const whole = { v: 1, sid: "s", name: "n", version: "v", digest: "d", depth: 1, exp: 2, jti: "j" };
  const approval = (payload: JsonObject) =>
    openApproval(KEY, mintToken({ tag: "msa1", domain: "murmur-spawn-approval-v1" }, KEY, payload));
  assert.notEqual(approval(whole), null);
  assert.equal(approval({ ...whole, v: 2 }), null);
  for (const key of ["sid", "name", "version", "digest", "depth", "exp", "jti"]) {
    assert.equal(approval({ ...whole, [key]: null }), null, key);
    const { [key]: _, ...rest } = whole as JsonObject;
    assert.equal(approval(rest), null, key);
  }
});

Deno.test("two credentials of one session differ", () => {
  assert.notEqual(mintCredential(KEY, "ses_1"), mintCredential(KEY, "ses_1"));
});
