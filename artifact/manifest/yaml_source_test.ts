import assert from "node:assert/strict";
import { isMap } from "yaml";
import { MAX_YAML_BYTES, MAX_YAML_DEPTH, readYamlSource, YamlProblem } from "./yaml_source.ts";
import { yamlToJson, yamlToJsonText } from "./yaml_json.ts";

function source(text: string) {
  return readYamlSource(text, "f.yaml");
}

Deno.test("places count lines and columns from 1 and show the line without its ending", () => {
  const yaml = source("a: 1\r\nb:\r\n  - x\r\n  - {c: y}\r\n");
  assert.deepEqual(yaml.place("b[1].c"), { file: "f.yaml", line: 4, column: 9, text: "  - {c: y}" });
  assert.deepEqual(yaml.place("b"), { file: "f.yaml", line: 2, column: 1, text: "b:" });
  assert.equal(yaml.place("b[2]"), undefined);
  assert.deepEqual(yaml.placeAt(0), { file: "f.yaml", line: 1, column: 1, text: "a: 1" });
  assert.equal(yaml.placeAt(10_000).line, 5);
});

Deno.test("the place of an alias is where it is used, of what it holds where that is written", () => {
  const yaml = source("a: &x {c: y}\nb: *x\n");
  assert.equal(yaml.place("b.c")?.line, 1);
  assert.equal(yaml.place("b")?.line, 2);
});

Deno.test("the last anchor before an alias counts", () => {
  const yaml = source("a: &x 1\nb: *x\nc: &x 2\nd: *x\n");
  assert.ok(isMap(yaml.root));
  const form = yamlToJson(yaml, yaml.root);
  assert.deepEqual(form, { value: { a: 1, b: 1, c: 2, d: 2 } });
});

Deno.test("depth counts through aliases", () => {
  const nest = (depth: number, inner: string) => "[".repeat(depth) + inner + "]".repeat(depth);
  assert.doesNotThrow(() => source(`- &a ${nest(30, "1")}\n- ${nest(30, "*a")}\n`));
  assert.throws(() => source(`- &a ${nest(40, "1")}\n- ${nest(40, "*a")}\n`), YamlProblem);
  assert.doesNotThrow(() => source(nest(MAX_YAML_DEPTH - 1, "1")));
  assert.throws(() => source(nest(MAX_YAML_DEPTH, "1")), /nested more than 64 levels deep/);
});

Deno.test("size is bounded in bytes", () => {
  const text = `a: "${"x".repeat(MAX_YAML_BYTES)}"`;
  assert.throws(() => source(text), { message: `the file is larger than ${MAX_YAML_BYTES} bytes` });
  assert.throws(() => readYamlSource(new TextEncoder().encode(text), "f"), YamlProblem);
});

Deno.test("a quote that is never closed is told where it opens, its line shown and masked", () => {
  const rows: [string, number, number, string][] = [
    ['a: 1\nb: "x\nc: 1\nd: 2\n', 2, 4, 'b: "x'],
    ["a: 1\nb: 'x\nc: 1\n", 2, 4, "b: 'x"],
    ['a: ["x, y]\nb: 1\n', 1, 5, 'a: ["x, y]'],
    ['a: {b: "c}\nd: "e"\n', 1, 8, 'a: {b: "c}'],
    ['- "abc\n- d "e"\n', 1, 3, '- "abc'],
    ['"k: 1\nb: 2\n', 1, 1, '"k: 1'],
    ['x: "fine"\na: &x "q\nb: it\'s\n', 2, 7, 'a: &x "q'],
    ['a: "x\n---\nb: 1\n', 1, 4, 'a: "x'],
    ['a: 1\napi_key: "sk-live-1\nb: 1\n', 2, 10, "api_key: **********"],
  ];
  for (const [text, line, column, shown] of rows) {
    assert.throws(() => source(text), (error) => {
      assert.ok(error instanceof YamlProblem);
      assert.equal(error.reason, "the quote that opens here is never closed", text);
      assert.deepEqual(error.place, { file: "f.yaml", line, column, text: shown }, text);
      return true;
    }, text);
  }
});

Deno.test("what the library quotes of a file is left out of its messages", () => {
  for (
    const text of [
      "a: | sk-secret\n  x\n",
      "a: sk-secret: sk-secret: b\n",
      "a: 'x' sk-secret\n",
      "sk-secret\nb: 1\n",
      "a: [x] sk-secret\n",
      "a: !<sk-secret x\n",
      "a: !sk-secret!x y\n",
      "a: @sk-secret\n",
    ]
  ) {
    assert.throws(() => source(text), (error) => {
      assert.ok(error instanceof YamlProblem);
      assert.doesNotMatch(error.reason, /sk-secret/, error.reason);
      return true;
    }, text);
  }
});

Deno.test("a secret is masked on every line it stands on, also behind an alias and beside an error", () => {
  const shown = (text: string, line: number) => {
    try {
      const yaml = source(text);
      return yaml.placeAt(text.split("\n").slice(0, line - 1).join("\n").length + (line > 1 ? 1 : 0)).text;
    } catch (error) {
      assert.ok(error instanceof YamlProblem);
      return error.place?.text;
    }
  };
  assert.equal(shown("api_key:\n  sk-live-1\nb: 1\n", 2), "  *********");
  assert.equal(shown("api_key: |\n  sk-live-1\n  more\nb: 1\n", 3), "  ****");
  assert.equal(shown("x: &k sk-live-1\napi_key: *k\n", 1), "x: &k *********");
  assert.equal(shown("api_key: >-\n  ${NAME}\n", 2), "  ${NAME}");
  assert.equal(shown("a: {api_key:\n  sk-live-1, b: *none}\n", 2), "  *********, b: *none}");
});

Deno.test("JSON text keeps the order and the types that are written", () => {
  const yaml = source("{z: 1, '10': a, '9': b, n: null, t: true, f: 1.50, l: [~, 'x'], o: {}, e: }");
  assert.ok(isMap(yaml.root));
  assert.deepEqual(yamlToJsonText(yaml, yaml.root), {
    text: '{"z":1,"10":"a","9":"b","n":null,"t":true,"f":1.5,"l":[null,"x"],"o":{},"e":null}',
  });
  const negative = source("[.inf]");
  assert.ok("problem" in yamlToJson(negative, negative.root));
});
