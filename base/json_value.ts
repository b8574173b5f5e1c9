/**
 * Values of JSON, as parsed and read only.
 *
 * @module
 */

/** Any value. */
export type JsonValue = null | boolean | number | string | readonly JsonValue[] | JsonObject;

/** An object. */
export type JsonObject = { readonly [key: string]: JsonValue };

/** Whether a parsed value is an object: neither a list nor `null`. */
export function isJsonObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
