/**
 * YAML nodes as JSON: key order kept, YAML types kept (spec manifest 8.4). What JSON has no form for is a reason, not a
 * guess.
 *
 * @module
 */
import type { JsonValue } from "../../base/json_value.ts";
import { isMap, isScalar, isSeq } from "yaml";
import { scalarText, type YamlNode, type YamlSource } from "./yaml_source.ts";

/** A value, or why there is none. */
export type JsonForm = { readonly value: JsonValue } | { readonly problem: string };

class NoJson extends Error {}

/**
 * The JSON value of a node. Integers beyond 2^53 keep their nearest double, as every JSON reader would give them.
 */
export function yamlToJson(source: YamlSource, node: YamlNode | null): JsonForm {
  const convert = (each: YamlNode): JsonValue => {
    if (isScalar(each)) {
      const value = each.value;
      switch (typeof value) {
        case "string":
        case "boolean":
          return value;
        case "number":
          if (!Number.isFinite(value)) throw new NoJson(`the number ${scalarText(each)} has no JSON form`);
          return value;
        default:
          if (value === null) return null;
          throw new NoJson("a value has no JSON form");
      }
    }
    if (isSeq(each)) return source.items(each).map(convert);
    if (!isMap(each)) throw new NoJson("a value has no JSON form");
    const pairs: [string, JsonValue][] = [];
    for (const entry of source.entries(each)) {
      if (entry.key === null || !entry.stringKey) throw new NoJson("a key is not a string");
      pairs.push([entry.key, entry.value === null ? null : convert(entry.value)]);
    }
    // Defines own properties: `__proto__` is a key like any other.
    return Object.fromEntries(pairs);
  };
  try {
    return { value: node === null ? null : convert(node) };
  } catch (error) {
    if (error instanceof NoJson) return { problem: error.message };
    throw error;
  }
}

/**
 * Compact JSON text in the order the keys are written. `JSON.stringify` alone would move keys that look like numbers to
 * the front.
 */
export function yamlToJsonText(
  source: YamlSource,
  node: YamlNode,
): { readonly text: string } | { readonly problem: string } {
  const form = yamlToJson(source, node);
  if ("problem" in form) return form;
  const write = (each: YamlNode | null): string => {
    if (each === null || isScalar(each)) return JSON.stringify(each === null ? null : each.value);
    if (isSeq(each)) return `[${source.items(each).map(write).join(",")}]`;
    if (!isMap(each)) return "null";
    return `{${source.entries(each).map((entry) => `${JSON.stringify(entry.key)}:${write(entry.value)}`).join(",")}}`;
  };
  return { text: write(node) };
}
