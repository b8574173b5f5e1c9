import type { JsonObject, JsonValue } from "../base/json_value.ts";
import assert from "node:assert/strict";
import fc from "fast-check";
import { ReadOnlyPaths } from "./read_only_rules.ts";
import { refuseToolWrite, unannotatedProperties, unannotatedSchemaWarning } from "./read_only_tool_input.ts";
import { normalWorkdirPath, workdirPathProblem } from "./workdir_path.ts";

const PATHS = new ReadOnlyPaths(
  ["ref"],
  (path) => path.startsWith("/") || workdirPathProblem(path) !== null ? null : normalWorkdirPath(path),
);

function signal(input: JsonValue, schema: JsonObject | null = null): string | null {
  return refuseToolWrite(PATHS, input, schema)?.signal ?? null;
}

function object(properties: JsonObject, more: JsonObject = {}): JsonObject {
  return { type: "object", properties, ...more };
}
const STRING = { type: "string" };

Deno.test("destination keys are checked at any depth, whatever their case and hyphens", () => {
  for (
    const key of [
      "dest",
      "dest_path",
      "destination",
      "destination_path",
      "target_path",
      "output_path",
      "out_path",
      "new_path",
      "to",
      "Dest",
      "OUTPUT-PATH",
      "new-Path",
    ]
  ) {
    assert.equal(signal({ [key]: "ref/a" }), `key ${key}`);
    assert.equal(signal({ a: [{ b: { [key]: "./ref/../ref/a" } }] }), `key ${key}`);
    assert.equal(signal({ [key]: "free/a" }), null);
    assert.equal(signal({ [key]: ["ref/a"] }), null, "only a string is a path");
  }
  for (const key of ["source", "from", "too", "dest2", "outputpath", "path"]) {
    assert.equal(signal({ [key]: "ref/a" }), null, key);
  }
});

Deno.test("path keys are checked beside content in the same object", () => {
  const contents = [
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
    "New-String",
  ];
  for (const path of ["path", "file_path", "filepath", "filename", "file", "File-Path"]) {
    for (const content of contents) {
      assert.equal(signal({ [path]: "ref/a", [content]: null }), `key ${path}`);
      assert.equal(signal({ edits: [{ [content]: "x", [path]: "ref/a" }] }), `key ${path}`);
    }
    assert.equal(signal({ [path]: "ref/a" }), null);
    assert.equal(signal({ [path]: "ref/a", nested: { content: "x" } }), null, "not the same object");
  }
});

Deno.test("an annotated destination is always checked, a list's items included", () => {
  const schema = object({
    where: { type: "string", format: "murmur-destination" },
    many: { type: "array", items: { type: "string", format: "murmur-destination" } },
    blob: {
      type: "object",
      format: "murmur-opaque",
      properties: { inner: { type: "string", format: "murmur-destination" } },
    },
  });
  assert.equal(signal({ where: "ref" }, schema), "murmur-destination");
  assert.equal(signal({ many: ["free", "ref/x"] }, schema), "murmur-destination");
  assert.equal(signal({ blob: { inner: "ref/x" } }, schema), "murmur-destination");
  assert.equal(signal({ where: "free", many: [], blob: { inner: "x", dest: "ref" } }, schema), null);
  // Not where the schema does not say it.
  assert.equal(signal({ other: "ref" }, schema), null);
});

Deno.test("inside an opaque object, array or root key names mean nothing; on a string opaque means nothing", () => {
  assert.equal(signal({ data: { dest: "ref" } }, object({ data: { format: "murmur-opaque" } })), null);
  assert.equal(signal({ list: [{ dest: "ref" }] }, object({ list: { type: "array", format: "murmur-opaque" } })), null);
  assert.equal(signal({ dest: "ref" }, object({}, { format: "murmur-opaque" })), null);
  assert.equal(signal({ dest: "ref" }, object({ dest: { type: "string", format: "murmur-opaque" } })), "key dest");
  assert.equal(signal({ data: {}, dest: "ref" }, object({ data: { format: "murmur-opaque" } })), "key dest");
});

Deno.test("enumerated destinations are checked with their suffix and replace the key names", () => {
  const properties = { a: object({ b: { type: "array", items: object({ c: STRING }) } }), dir: STRING, dest: STRING };
  const list = (...entries: JsonValue[]) => object(properties, { "murmur-destinations": entries });
  assert.equal(signal({ a: { b: [{ c: "free" }, { c: "ref" }] } }, list("{a.b[].c}")), "murmur-destinations");
  assert.equal(signal({ dir: "ref/.." }, list("{dir}/ref/x")), "murmur-destinations");
  assert.equal(signal({ dir: "." }, list("{dir}/ref")), "murmur-destinations");
  assert.equal(signal({ dir: "" }, list("{dir}/ref")), "murmur-destinations");
  assert.equal(signal({ dir: "free" }, list("{dir}/ref")), null);
  assert.equal(signal({ dest: "ref" }, list("{dir}")), null);
  assert.equal(
    signal({ dest: "ref", path: "ref", content: "" }, list()),
    null,
    "[] writes nothing derived from the input",
  );
});

Deno.test("one bad entry discards the whole list, and key names count again", () => {
  const properties = { dir: STRING, n: { type: "integer" }, ref: { $ref: "#/x" }, l: { type: "array", items: STRING } };
  const discards = (entry: JsonValue) =>
    signal({ dest: "ref" }, object(properties, { "murmur-destinations": ["{dir}", entry] })) === "key dest";
  for (
    const bad of [
      5,
      "dir",
      "{}",
      "{dir",
      "{dir}x",
      "{none}",
      "{dir.x}",
      "{dir[]}",
      "{n}",
      "{l}",
      "{ref.x}",
      "{dir}/",
      "{dir}//a",
      "{dir}/a/",
      "{dir}/./a",
      "{dir}/../a",
      "{dir}/a\\b",
      "{.dir}",
      "{dir.}",
      "{[]}",
    ]
  ) assert.ok(discards(bad), JSON.stringify(bad));
  for (const good of ["{dir}", "{dir}/a", "{dir}/a/b.txt", "{l[]}", "{l[]}/x"]) assert.ok(!discards(good), good);
  // Anything but a list is no list.
  assert.equal(signal({ dest: "ref" }, object({}, { "murmur-destinations": "{dir}" })), "key dest");
});

Deno.test("annotations behind $ref, and keys of prototypes, are not followed", () => {
  const schema = object({ a: { $ref: "#/$defs/d" } }, {
    $defs: { d: { type: "string", format: "murmur-destination" } },
  });
  assert.equal(signal({ a: "ref" }, schema), null);
  assert.equal(signal({ constructor: "ref", toString: "ref" }, object({})), null);
  assert.equal(signal(JSON.parse('{"__proto__": {"dest": "ref"}}'), object({})), "key dest");
});

Deno.test("unannotated path and destination properties are found wherever they stand", () => {
  const schema = object({
    path: STRING,
    File: {},
    dest: { type: "string", format: "murmur-destination" },
    count: { type: "integer" },
    filename: { type: "integer" },
    edits: { type: "array", items: object({ new_path: STRING, text: STRING }) },
    raw: { type: "object", format: "murmur-opaque", properties: { path: STRING } },
    options: object({ to: { type: ["string", "null"] } }),
  });
  assert.deepEqual(unannotatedProperties(schema), ["path", "File", "edits[].new_path", "options.to"]);
  assert.deepEqual(unannotatedProperties({ ...schema, "murmur-destinations": [] }), []);
  assert.deepEqual(unannotatedProperties({ ...schema, "murmur-destinations": ["{bad"] }).length, 4);
  assert.deepEqual(unannotatedProperties({ ...schema, format: "murmur-opaque" }), []);
  const warning = unannotatedSchemaWarning("edit", schema);
  assert.equal(warning?.code, "W-SEC-018");
  assert.match(warning!.message, /'path', 'File', 'edits\[\]\.new_path', 'options\.to'/);
  assert.equal(unannotatedSchemaWarning("edit", object({ url: STRING })), null);
});

Deno.test("an input nested as deep as a model may make it is judged", () => {
  let input: JsonValue = { dest: "ref/a" };
  for (let depth = 0; depth < 50_000; depth++) input = depth % 2 === 0 ? [input] : { x: input };
  assert.equal(signal(input), "key dest");
});

Deno.test("any input under any schema is judged", () => {
  fc.assert(
    fc.property(
      fc.jsonValue(),
      fc.object({ withNullPrototype: true }),
      fc.array(fc.string()),
      (input, schema, list) => {
        const json = JSON.parse(JSON.stringify({ ...schema, "murmur-destinations": list }) ?? "{}") as JsonObject;
        refuseToolWrite(PATHS, input as JsonValue, json);
        unannotatedProperties(json);
      },
    ),
    { numRuns: 1000 },
  );
});
