import assert from "node:assert/strict";
import fc from "fast-check";
import { MurError } from "../../base/errors.ts";
import { newId } from "../../base/ids.ts";
import { formatSpawnerHandle, parseSpawnerHandle, type SpawnerHandle } from "./spawner_handle.ts";

const HANDLE: SpawnerHandle = {
  url: "http://localhost:41873",
  sessionId: newId("ses"),
  contextId: newId("ctx"),
  delegationId: newId("dlg"),
};

function refusal(value: string): MurError {
  try {
    parseSpawnerHandle(value);
  } catch (error) {
    assert.ok(error instanceof MurError, String(error));
    assert.equal(error.code, "E-RUN-020");
    return error;
  }
  assert.fail(`taken: ${value}`);
}

Deno.test("a handle is compact JSON with the keys of the seed, and is read as it was written", () => {
  const text = formatSpawnerHandle(HANDLE);
  assert.deepEqual(Object.keys(JSON.parse(text)), ["url", "session_id", "context_id", "delegation_id"]);
  assert.equal(text, JSON.stringify(JSON.parse(text)));
  assert.deepEqual(parseSpawnerHandle(text), HANDLE);
  const step = { ...HANDLE, url: null };
  assert.ok(!formatSpawnerHandle(step).includes("url"), "a plan's step names no door");
  assert.deepEqual(parseSpawnerHandle(formatSpawnerHandle(step)), step);
});

Deno.test("unset and blank are no handle", () => {
  for (const value of [undefined, "", "  ", "\n"]) assert.equal(parseSpawnerHandle(value), null);
});

Deno.test("what is no handle is refused, each field by its name, and nothing of it is shown", () => {
  const wire = JSON.parse(formatSpawnerHandle(HANDLE)) as Record<string, unknown>;
  for (
    const [field, values] of Object.entries({
      url: [
        "",
        1,
        "localhost:1",
        "https://localhost:1",
        "http://localhost",
        "http://u:p@localhost:1",
        "http://h:1/x",
        "http://h:1?q",
      ],
      session_id: [undefined, null, 7, "", "ses_1", HANDLE.delegationId, `${HANDLE.sessionId}x`],
      context_id: [undefined, null, 7, "", "a\nb", "a\u0000b"],
      delegation_id: [undefined, null, 7, "", "dlg_1", HANDLE.sessionId],
    })
  ) {
    for (const value of values) {
      assert.match(
        refusal(JSON.stringify({ ...wire, [field]: value })).message,
        new RegExp(`'${field}'`),
        String(value),
      );
    }
  }
  for (const value of ["secret-words", "[]", "null", '"text"', "{", `{"a":"${"x".repeat(5_000)}"}`]) {
    const { message, hint } = refusal(value);
    assert.ok(!`${message}${hint}`.includes("secret-words"));
  }
});

Deno.test("any text is a handle, none, or refused with its code", () => {
  fc.assert(fc.property(fc.oneof(fc.string(), fc.json()), (text) => {
    try {
      const handle = parseSpawnerHandle(text);
      assert.ok(handle === null ? text.trim() === "" : formatSpawnerHandle(handle) !== "");
    } catch (error) {
      assert.ok(error instanceof MurError && error.code === "E-RUN-020");
    }
  }));
});
