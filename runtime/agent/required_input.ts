/**
 * Gate 0 before every dispatch: a tool call must give the inputs its schema requires (spec components 8.3).
 *
 * @module
 */
import { isJsonObject, type JsonObject, type JsonValue } from "../../base/json_value.ts";
import type { Warning } from "../../base/errors.ts";

/** What the gate found. */
export type RequiredInputFinding =
  | { readonly kind: "complete" }
  /** Names in schema order, and the text the model is answered with. */
  | { readonly kind: "missing"; readonly missing: readonly string[]; readonly reason: string }
  /** The schema cannot be checked against: `W-RUN-004`, once per tool and session. */
  | { readonly kind: "unusable"; readonly why: string };

/** Whether a schema's root describes an object: it says so, or says nothing of the type. */
function isObjectSchema(schema: JsonObject): boolean {
  const { type } = schema;
  return type === undefined || type === "object" || (Array.isArray(type) && type.includes("object"));
}

/** Judges the input of one call by the root `required` of the tool's schema. */
export function checkRequiredInput(
  tool: string,
  schema: JsonValue | undefined,
  input: JsonObject,
): RequiredInputFinding {
  if (schema === undefined) return { kind: "complete" };
  if (!isJsonObject(schema) || !isObjectSchema(schema)) {
    return { kind: "unusable", why: "its root is not an object schema" };
  }
  const { required } = schema;
  if (required === undefined) return { kind: "complete" };
  if (!Array.isArray(required) || !required.every((name): name is string => typeof name === "string")) {
    return { kind: "unusable", why: "its 'required' is not a list of strings" };
  }
  const missing = [...new Set(required)].filter((name) => !Object.hasOwn(input, name));
  if (missing.length === 0) return { kind: "complete" };
  const names = missing.map((name) => `'${name}'`).join(", ");
  return {
    kind: "missing",
    missing,
    reason: `tool '${tool}' was not called: missing required input ${names}`,
  };
}

/** `W-RUN-004` for a tool whose calls run unchecked. */
export function uncheckedInputWarning(tool: string, why: string): Warning {
  return {
    code: "W-RUN-004",
    source: "capsule-runtime",
    message: `the input_schema of tool '${tool}' cannot be checked: ${why}; its calls run unchecked`,
  };
}
