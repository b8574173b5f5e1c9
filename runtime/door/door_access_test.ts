import assert from "node:assert/strict";
import { authenticate, PUBLIC_CALLER, refuseScope, requestClass } from "./door_access.ts";
import { DoorTokens } from "./door_token.ts";

const tokens = new DoorTokens(new Map([["ci", ["SendMessage"]]]));
const access = (authorization: string | null) => authenticate(authorization, "desk", (token) => tokens.holderOf(token));

Deno.test("without a token the door says that it wants one", () => {
  assert.deepEqual(access(null), {
    refusal: {
      status: 401,
      error: "unauthenticated",
      message: "this door takes calls with a bearer token",
      headers: [["www-authenticate", 'Bearer realm="desk"']],
    },
  });
});

Deno.test("every wrong credential gets the same answer, which does not say why", () => {
  const token = tokens.operator();
  const texts = [
    "",
    "Bearer",
    "Bearer ",
    token,
    `Basic ${token}`,
    `Bearer ${token} more`,
    `Bearer ${token}, Bearer ${token}`,
    `Bearer ${token},`,
    `Bearer x${token}`,
    "Bearer mft1.eyJmb3JtYXRpb24iOiJmcm1fMSJ9.AAAA",
    `Bearer ${new DoorTokens(new Map()).operator()}`,
    `Bearer=${token}`,
  ];
  const answers = new Set(texts.map((text) => JSON.stringify(access(text))));
  assert.deepEqual([...answers].map((answer) => JSON.parse(answer)), [{
    refusal: {
      status: 401,
      error: "invalid_token",
      message: "the token is not one of this session",
      headers: [["www-authenticate", 'Bearer realm="desk", error="invalid_token"']],
    },
  }]);
});

Deno.test("a token lets in whatever the letters of its scheme, and reaches its scopes", () => {
  for (const scheme of ["Bearer", "bearer", "BEARER"]) {
    const allowed = access(`${scheme} ${tokens.credentials().get("ci")}`);
    assert.ok("caller" in allowed);
    const { caller } = allowed;
    assert.deepEqual([caller.credential, caller.tokenPresented, caller.viewer], ["ci", true, null]);
    assert.equal(refuseScope(caller, "SendMessage", "desk"), null);
    assert.equal(refuseScope(caller, null, "desk"), null);
    assert.deepEqual(refuseScope(caller, "resources/files", "desk"), {
      status: 403,
      error: "insufficient_scope",
      message: "credential 'ci' does not reach resources/files",
      headers: [["www-authenticate", 'Bearer realm="desk", error="insufficient_scope", scope="resources/files"']],
    });
  }
  assert.equal(refuseScope(PUBLIC_CALLER, "murmur.StopSession", "desk"), null);
});

Deno.test("a request is a peer's or a completion only when its header says exactly that", () => {
  for (const origin of ["peer", "PEER", "Peer"]) assert.equal(requestClass(origin), "peer");
  for (const origin of ["completion", "Completion"]) assert.equal(requestClass(origin), "completion");
  for (const origin of [null, "", "peers", "user", "schedule", "system", "event", "peer, peer", "peer;q=1"]) {
    assert.equal(requestClass(origin), "event", String(origin));
  }
});
