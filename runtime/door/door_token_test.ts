import assert from "node:assert/strict";
import { DOOR_SCOPES } from "../../artifact/manifest/door_scopes.ts";
import { mintToken, newTokenKey } from "../../base/mac_token.ts";
import { DoorTokens } from "./door_token.ts";

const DECLARED = new Map([["watcher", ["murmur.WatchStream", "GetTask"]], ["ci", ["SendMessage"]]]);

Deno.test("the operator holds every scope, each declared credential exactly its own", () => {
  const tokens = new DoorTokens(DECLARED);
  const operator = tokens.holderOf(tokens.operator())!;
  assert.equal(operator.credential, "operator");
  assert.deepEqual([...operator.scopes], [...DOOR_SCOPES]);
  const credentials = tokens.credentials();
  assert.deepEqual([...credentials.keys()], ["ci", "watcher"]);
  for (const [name, token] of credentials) {
    for (let asked = 0; asked < 2; asked++) {
      const holder = tokens.holderOf(token)!;
      assert.equal(holder.credential, name);
      assert.deepEqual([...holder.scopes], DECLARED.get(name));
    }
  }
});

Deno.test("nothing else opens the door: not another session's token, another family's, or a changed one", () => {
  const tokens = new DoorTokens(DECLARED);
  const token = tokens.operator();
  const [tag, payload, code] = token.split(".");
  const widened = new TextEncoder().encode(JSON.stringify({ credential: "ci", scopes: DOOR_SCOPES })).toBase64({
    alphabet: "base64url",
    omitPadding: true,
  });
  for (
    const text of [
      "",
      "mdt1",
      new DoorTokens(DECLARED).operator(),
      `ctl1.${payload}.${code}`,
      `mft1.${payload}.${code}`,
      `${tag}.${widened}.${code}`,
      `${tag}.${payload}.${code}x`,
      `${tag}.${payload}.`,
      `${tag}.${payload}`,
      ` ${token}`,
      token.toUpperCase(),
      mintToken({ tag: "mdt1", domain: "murmur-door-token-v1" }, newTokenKey(), { credential: "operator", scopes: [] }),
    ]
  ) assert.equal(tokens.holderOf(text), null, text.slice(0, 60));
});
