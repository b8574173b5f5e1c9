import type { JsonValue } from "../../base/json_value.ts";
import assert from "node:assert/strict";
import { checkRequiredInput, uncheckedInputWarning } from "./required_input.ts";

const schema = (required: JsonValue, more: Record<string, JsonValue> = {}): JsonValue => ({
  type: "object",
  required,
  ...more,
});

Deno.test("all that is missing is named, in schema order", () => {
  const finding = checkRequiredInput("edit", schema(["path", "text", "mode"]), { text: "" });
  assert.deepEqual(finding, {
    kind: "missing",
    missing: ["path", "mode"],
    reason: "tool 'edit' was not called: missing required input 'path', 'mode'",
  });
});

Deno.test("a key that is there is enough, whatever its value", () => {
  for (const value of [null, "", 0, false, {}]) {
    assert.equal(checkRequiredInput("t", schema(["a"]), { a: value }).kind, "complete");
  }
});

Deno.test("names every object has are not taken for given", () => {
  const finding = checkRequiredInput("t", schema(["toString", "constructor", "__proto__"]), {});
  assert.deepEqual(finding.kind === "missing" && finding.missing, ["toString", "constructor", "__proto__"]);
});

Deno.test("a name listed twice is missing once", () => {
  const finding = checkRequiredInput("t", schema(["a", "a"]), {});
  assert.deepEqual(finding.kind === "missing" && finding.missing, ["a"]);
});

Deno.test("no schema, or nothing required: complete", () => {
  for (const usable of [undefined, {}, { type: "object" }, { properties: { a: {} } }, { type: ["object", "null"] }]) {
    assert.equal(checkRequiredInput("t", usable as JsonValue, {}).kind, "complete");
  }
});

Deno.test("a schema that cannot be checked against leaves the calls unchecked, with a warning", () => {
  const unusable: JsonValue[] = [
    "text",
    [],
    null,
    7,
    { type: "string" },
    { type: ["string", "array"] },
    schema("a"),
    schema(["a", 1]),
    schema({ a: true }),
    schema(null),
  ];
  for (const value of unusable) {
    assert.equal(checkRequiredInput("t", value, {}).kind, "unusable", JSON.stringify(value));
  }
  const warning = uncheckedInputWarning("t", "why");
  assert.equal(warning.code, "W-RUN-004");
  assert.match(warning.message, /'t'.*why.*unchecked/);
});
