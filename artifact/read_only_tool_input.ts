/**
 * Which tool calls are writes to a `filesystem.read_only` path (spec manifest 9.3): by the names of input keys, refined by
 * what the tool's own `input_schema` says.
 *
 * | In the schema | Effect |
 * |---|---|
 * | `"format": "murmur-destination"` on a string | it is always judged |
 * | `"format": "murmur-opaque"` on an object, an array or the root | key names mean nothing inside |
 * | `"murmur-destinations": [...]` at the root | these are all the destinations; key names mean nothing at all |
 *
 * @module
 */
import { isJsonObject, type JsonObject, type JsonValue } from "../base/json_value.ts";
import type { Warning } from "../base/errors.ts";
import { shownValue } from "./manifest/shown_value.ts";
import type { ReadOnlyPaths, ReadOnlyRefusal } from "./read_only_rules.ts";

const DESTINATION_KEYS = new Set([
  "dest",
  "dest_path",
  "destination",
  "destination_path",
  "target_path",
  "output_path",
  "out_path",
  "new_path",
  "to",
]);
const PATH_KEYS = new Set(["path", "file_path", "filepath", "filename", "file"]);
const CONTENT_KEYS = new Set([
  "content",
  "contents",
  "text",
  "data",
  "body",
  "new_str",
  "new_string",
  "replacement",
  "patch",
  "diff",
]);

/** Keys compare case-insensitively with `-` as `_`. */
function keyName(key: string): string {
  return key.toLowerCase().replaceAll("-", "_");
}

function isList(value: JsonValue | undefined): value is readonly JsonValue[] {
  return Array.isArray(value);
}

function own(object: JsonObject, key: string): JsonValue | undefined {
  return Object.hasOwn(object, key) ? object[key] : undefined;
}

/** The schema of a property; nothing behind `$ref` is followed. */
function propertySchema(schema: JsonObject | null, key: string): JsonObject | null {
  const properties = schema === null ? undefined : own(schema, "properties");
  const found = isJsonObject(properties) ? own(properties, key) : undefined;
  return isJsonObject(found) ? found : null;
}

function itemSchema(schema: JsonObject | null): JsonObject | null {
  const items = schema === null ? undefined : own(schema, "items");
  return isJsonObject(items) ? items : null;
}

function hasFormat(schema: JsonObject | null, format: string): boolean {
  return schema !== null && own(schema, "format") === format;
}

/** Whether a schema is for strings, as far as it says. */
function allowsString(schema: JsonObject): boolean {
  const type = own(schema, "type");
  return type === undefined || type === "string" || (isList(type) && type.includes("string"));
}

/** One entry of `murmur-destinations`. */
interface DestinationTemplate {
  /** Property names, `null` for the items of a list. */
  readonly steps: readonly (string | null)[];
  readonly suffix: string;
}

function parseTemplate(text: JsonValue, schema: JsonObject): DestinationTemplate | null {
  if (typeof text !== "string") return null;
  const match = /^\{([^{}]+)\}(?:\/(.*))?$/s.exec(text);
  if (match === null) return null;
  const suffix = match[2] ?? "";
  if (match[2] !== undefined) {
    if (suffix.includes("\\") || suffix.includes("\0")) return null;
    if (suffix.split("/").some((part) => part === "" || part === "." || part === "..")) return null;
  }
  const steps: (string | null)[] = [];
  let at: JsonObject | null = schema;
  for (const part of match[1]!.split(".")) {
    const lists = /(?:\[\])*$/.exec(part)![0].length / 2;
    const name = part.slice(0, part.length - lists * 2);
    if (name === "" || /[[\]]/.test(name)) return null;
    steps.push(name);
    at = propertySchema(at, name);
    for (let i = 0; i < lists; i++) {
      steps.push(null);
      at = itemSchema(at);
    }
    if (at === null) return null;
  }
  return allowsString(at!) ? { steps, suffix } : null;
}

/** The destinations a schema enumerates; `null` when it does not, or when an entry is no location of the schema. */
function declaredDestinations(schema: JsonObject): readonly DestinationTemplate[] | null {
  const list = own(schema, "murmur-destinations");
  if (!isList(list)) return null;
  const templates = list.map((entry) => parseTemplate(entry, schema));
  return templates.every((template) => template !== null) ? templates : null;
}

/** The strings at a location of the input. */
function stringsAt(input: JsonValue, steps: readonly (string | null)[]): string[] {
  let values: JsonValue[] = [input];
  for (const step of steps) {
    values = values.flatMap((value): readonly JsonValue[] => {
      if (step === null) return isList(value) ? value : [];
      const found = isJsonObject(value) ? own(value, step) : undefined;
      return found === undefined ? [] : [found];
    });
  }
  return values.filter((value) => typeof value === "string");
}

/** A key and the string at it that the key names make a destination. */
function namedDestinations(object: JsonObject): [string, string][] {
  const keys = Object.keys(object);
  const hasContent = keys.some((key) => CONTENT_KEYS.has(keyName(key)));
  return keys.flatMap((key): [string, string][] => {
    const value = object[key];
    if (typeof value !== "string") return [];
    const name = keyName(key);
    return DESTINATION_KEYS.has(name) || (hasContent && PATH_KEYS.has(name)) ? [[key, value]] : [];
  });
}

/**
 * The refusal of a tool call, or `null` when its input is not seen to name a covered path as a destination.
 *
 * @param schema The tool's `input_schema`, `null` when it has none.
 */
export function refuseToolWrite(
  paths: ReadOnlyPaths,
  input: JsonValue,
  schema: JsonObject | null,
): ReadOnlyRefusal | null {
  if (paths.isEmpty) return null;
  const declared = schema === null ? null : declaredDestinations(schema);
  for (const { steps, suffix } of declared ?? []) {
    for (const value of stringsAt(input, steps)) {
      const path = suffix === "" ? value : `${value === "" ? "." : value}/${suffix}`;
      const refusal = paths.judge(path, "murmur-destinations");
      if (refusal !== null) return refusal;
    }
  }
  // A stack of our own: the input comes from a model and may be nested as deep as it likes.
  const pending: { value: JsonValue; schema: JsonObject | null; opaque: boolean }[] = [
    { value: input, schema, opaque: declared !== null },
  ];
  while (pending.length > 0) {
    const { value, schema: own, opaque } = pending.pop()!;
    if (typeof value === "string") {
      if (!hasFormat(own, "murmur-destination")) continue;
      const refusal = paths.judge(value, "murmur-destination");
      if (refusal !== null) return refusal;
      continue;
    }
    const closed = opaque || hasFormat(own, "murmur-opaque");
    if (isList(value)) {
      const items = itemSchema(own);
      for (const item of value) pending.push({ value: item, schema: items, opaque: closed });
    } else if (isJsonObject(value)) {
      if (!closed) {
        for (const [key, path] of namedDestinations(value)) {
          const refusal = paths.judge(path, `key ${shownValue(key)}`);
          if (refusal !== null) return refusal;
        }
      }
      for (const key of Object.keys(value)) {
        pending.push({ value: value[key]!, schema: propertySchema(own, key), opaque: closed });
      }
    }
  }
  return null;
}

/** Deepest schema that is looked through. */
const MAX_DEPTH = 64;

/**
 * Properties of a schema that look like paths or destinations and are not annotated, by dotted location, in the order of
 * the schema (`W-SEC-018`).
 */
export function unannotatedProperties(schema: JsonObject): string[] {
  if (declaredDestinations(schema) !== null) return [];
  const found: string[] = [];
  const walk = (at: JsonObject, location: string, depth: number): void => {
    if (depth > MAX_DEPTH || hasFormat(at, "murmur-opaque")) return;
    const items = itemSchema(at);
    if (items !== null) walk(items, `${location}[]`, depth + 1);
    const properties = own(at, "properties");
    if (!isJsonObject(properties)) return;
    for (const key of Object.keys(properties)) {
      const property = propertySchema(at, key);
      if (property === null) continue;
      const name = keyName(key);
      const place = location === "" ? key : `${location}.${key}`;
      const shaped = PATH_KEYS.has(name) || DESTINATION_KEYS.has(name);
      if (shaped && allowsString(property) && !hasFormat(property, "murmur-destination")) found.push(place);
      walk(property, place, depth + 1);
    }
  };
  walk(schema, "", 0);
  return found;
}

/** `W-SEC-018` of one installed tool, `null` when there is nothing to say. */
export function unannotatedSchemaWarning(tool: string, schema: JsonObject): Warning | null {
  const properties = unannotatedProperties(schema);
  if (properties.length === 0) return null;
  return {
    code: "W-SEC-018",
    source: "capsule-runtime",
    message:
      `tool '${shownValue(tool)}' takes ${properties.map((each) => `'${shownValue(each)}'`).join(", ")} and its ` +
      "input_schema does not say whether it writes there: beside capabilities.filesystem.read_only, annotate them with " +
      '"format": "murmur-destination", or list every destination in "murmur-destinations"',
  };
}
