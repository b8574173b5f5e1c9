import assert from "node:assert/strict";
import fc from "fast-check";
import {
  BadBody,
  MAX_SESSION_ID,
  readDeregisterRequest,
  readRegisterRequest,
  readSpawnRequest,
} from "./request_body.ts";

const bytes = (value: unknown) => new TextEncoder().encode(typeof value === "string" ? value : JSON.stringify(value));

function refusal(read: (bytes: Uint8Array) => unknown, value: unknown): string {
  try {
    read(bytes(value));
  } catch (error) {
    assert.ok(error instanceof BadBody);
    return error.message;
  }
  assert.fail(`${JSON.stringify(value)} was taken`);
}

Deno.test("keys that are not asked for change nothing", () => {
  const more = { capabilities: {}, depth: 9, envelope: {}, manifest: "", spawned_by: "x" };
  assert.deepEqual(readSpawnRequest(bytes({ name: "local/a", version: "1", ...more })), {
    name: "local/a",
    version: "1",
  });
  const session = { session_id: "ses_1", name: "local/a", version: "1" };
  assert.deepEqual(readRegisterRequest(bytes({ ...session, ...more })), session);
  assert.deepEqual(readDeregisterRequest(bytes({ outcome: "failed", ...more })), { outcome: "failed" });
});

Deno.test("a body that is none says why", () => {
  for (const text of ["", "{", "nul", '{"name":"local/a",}', "\uFEFFx"]) {
    assert.match(refusal(readSpawnRequest, text), /^invalid JSON: /, text);
  }
  for (const value of ["null", "[]", '"x"', "7"]) {
    assert.equal(refusal(readSpawnRequest, value), "invalid JSON: the body is not an object");
  }
  assert.throws(() => readSpawnRequest(Uint8Array.of(0x7b, 0xff, 0x7d)), /invalid JSON/);
  assert.equal(refusal(readSpawnRequest, {}), "missing field 'name'");
  assert.equal(refusal(readSpawnRequest, { name: 7 }), "field 'name' is not a string");
  assert.equal(refusal(readSpawnRequest, { name: "local/a" }), "missing field 'version'");
  assert.equal(refusal(readSpawnRequest, { name: "local/a", version: 1 }), "field 'version' is not a string");
  assert.equal(refusal(readSpawnRequest, '{"__proto__":{"name":"local/a"},"version":"1"}'), "missing field 'name'");
  const named = { name: "local/a", version: "1" };
  assert.equal(refusal(readRegisterRequest, named), "missing field 'session_id'");
  assert.equal(refusal(readRegisterRequest, { ...named, session_id: "" }), "field 'session_id' is empty");
  assert.match(refusal(readRegisterRequest, { ...named, session_id: "x".repeat(MAX_SESSION_ID + 1) }), /longer than/);
  assert.match(refusal(readRegisterRequest, '{"name":"local/a","version":"1","session_id":"\\ud800"}'), /not Unicode/);
  for (const outcome of ["done", "", "Complete", null, 1]) refusal(readDeregisterRequest, { outcome });
});

Deno.test("a name that is not a full one is refused", () => {
  for (
    const name of ["worker", "local/", "/worker", "a/b/c", "Local/worker", "local/worker ", "local/-x", "local//x", ""]
  ) {
    assert.match(
      refusal(readSpawnRequest, { name, version: "1" }),
      /^field 'name' is not a full name, <scope>\/<name>/,
      name,
    );
  }
});

Deno.test("no bytes make a reader fail in another way", () => {
  fc.assert(fc.property(fc.oneof(fc.uint8Array(), fc.json().map(bytes)), (content) => {
    for (const read of [readSpawnRequest, readRegisterRequest, readDeregisterRequest]) {
      try {
        read(content);
      } catch (error) {
        assert.ok(error instanceof BadBody, String(error));
      }
    }
  }));
});
