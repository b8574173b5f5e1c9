/**
 * JSON Schema of `murmur.yaml` for editors: both manifests in one, generated from the table of blocks (spec manifest
 * 20.6). It says what an editor can know; what depends on another value is judged when the manifest is read.
 *
 * @module
 */
import { type Block, type JsonSchema, type Key, MANIFEST_BLOCK, type Shape } from "./manifest_blocks.ts";

/** A key with nothing under it reads as absent, so every value may be null. */
function nullable(schema: JsonSchema): JsonSchema {
  if (Array.isArray(schema.enum)) {
    return schema.enum.includes(null) ? schema : { ...schema, enum: [...schema.enum, null] };
  }
  if (typeof schema.type === "string") return { ...schema, type: [schema.type, "null"] };
  if (Array.isArray(schema.type)) {
    return schema.type.includes("null") ? schema : { ...schema, type: [...schema.type, "null"] };
  }
  return { anyOf: [schema, { type: "null" }] };
}

function shapeSchema(shape: Shape): JsonSchema {
  switch (shape.kind) {
    case "string":
      // Any scalar is read as its text.
      return shape.choices === undefined ? { type: ["string", "number", "boolean"] } : { enum: [...shape.choices] };
    case "integer":
      return {
        type: "integer",
        minimum: shape.min ?? 0,
        ...(shape.max === Number.MAX_SAFE_INTEGER ? {} : { maximum: shape.max }),
      };
    case "float":
      return { type: "number", minimum: shape.min, maximum: shape.max };
    case "boolean":
      return { type: "boolean" };
    case "word":
      return { enum: [...shape.words] };
    case "list":
      return { type: "array", items: shapeSchema(shape.item) };
    case "block":
      return blockSchema(shape.block);
    case "names":
      return { type: "object", additionalProperties: shapeSchema(shape.value) };
    case "judged":
    case "ignored":
      return shape.schema;
  }
}

function keySchema(key: Key): JsonSchema {
  return { description: key.about, ...nullable(shapeSchema(key.shape)) };
}

function blockSchema(block: Block): JsonSchema {
  return {
    type: "object",
    properties: Object.fromEntries(block.keys.map((key) => [key.name, keySchema(key)])),
    ...(block.required === undefined ? {} : { required: [...block.required] }),
    additionalProperties: false,
  };
}

/** The whole schema, keys in the order of spec manifest 4. */
export function manifestSchema(): JsonSchema {
  return {
    $schema: "https://json-schema.org/draft/2020-12/schema",
    title: "murmur.yaml",
    description: "Capsule manifest and artifact manifest of Murmur",
    ...blockSchema(MANIFEST_BLOCK),
  };
}
