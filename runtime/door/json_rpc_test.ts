import assert from "node:assert/strict";
import fc from "fast-check";
import {
  exceedsBounds,
  isServedVersion,
  MAX_JSON_DEPTH,
  MAX_JSON_VALUES,
  parseRpcRequest,
  resultAnswer,
  resultTextAnswer,
} from "./json_rpc.ts";

function depthOf(value: unknown): number {
  if (typeof value !== "object" || value === null) return 0;
  return 1 + Math.max(0, ...Object.values(value).map(depthOf));
}

const nestsDeeperThan = (text: string, depth: number) => exceedsBounds(text, { depth, values: Infinity });

/** Values of a value, itself included; keys are none. */
function valuesOf(value: unknown): number {
  if (typeof value !== "object" || value === null) return 1;
  return Object.values(value).reduce((sum: number, each) => sum + valuesOf(each), 1);
}

/** Lists and objects in it that are empty. */
function emptyOf(value: unknown): number {
  if (typeof value !== "object" || value === null) return 0;
  const members = Object.values(value);
  return members.length === 0 ? 1 : members.reduce((sum: number, each) => sum + emptyOf(each), 0);
}

function anyJson() {
  return fc.letrec((tie) => ({
    value: fc.oneof(
      { maxDepth: 8 },
      fc.oneof(fc.string(), fc.constantFrom('"', "\\", '\\"', "[[[", "}}}{", '"[')),
      fc.array(tie("value"), { maxLength: 3 }),
      fc.dictionary(fc.oneof(fc.string(), fc.constantFrom("[", '"{', "\\")), tie("value"), { maxKeys: 3 }),
    ),
  })).value;
}

Deno.test("nesting is measured as a parser would, whatever strings hold", () => {
  fc.assert(fc.property(anyJson(), fc.nat(9), fc.constantFrom(undefined, 2), (value, limit, indent) => {
    assert.equal(nestsDeeperThan(JSON.stringify(value, null, indent), limit), depthOf(value) > limit);
  }));
});

Deno.test("values are counted as a parser would, an empty list or object as two at most", () => {
  fc.assert(fc.property(anyJson(), fc.constantFrom(undefined, 2), (value, indent) => {
    const text = JSON.stringify(value, null, indent);
    const count = valuesOf(value);
    if (count > 1) assert.ok(exceedsBounds(text, { depth: Infinity, values: count - 1 }));
    assert.ok(!exceedsBounds(text, { depth: Infinity, values: count + emptyOf(value) }));
  }));
});

Deno.test("a body holds so many values and no more, whatever they are", () => {
  const holding = (value: string, count: number) =>
    `{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"a":[${Array(count).fill(value).join(",")}]}}`;
  for (const value of ["1", '""', "null"]) assert.ok(parseRpcRequest(holding(value, MAX_JSON_VALUES - 10)).ok, value);
  for (const value of ["1", "{}", "[]", '""', "null", '{"a":1}', "[[[0]]]"]) {
    const parsed = parseRpcRequest(holding(value, MAX_JSON_VALUES));
    assert.ok(!parsed.ok && parsed.error.code === -32700, value);
  }
  // What strings hold is no value.
  assert.ok(parseRpcRequest(holding(`"${"[,{".repeat(MAX_JSON_VALUES)}"`, 1)).ok);
});

Deno.test("a text of any depth is measured without a stack, and so is one that is no JSON", () => {
  assert.ok(nestsDeeperThan("[".repeat(5_000_000), 64));
  assert.ok(!nestsDeeperThan('"' + "[".repeat(1_000_000), 64));
  assert.ok(!nestsDeeperThan('"\\', 0));
});

const deep = (levels: number) =>
  `{"jsonrpc":"2.0","id":1,"method":"GetTask","params":${"[".repeat(levels - 1)}${"]".repeat(levels - 1)}}`;

Deno.test("a body is JSON of bounded depth, or -32700 without an id", () => {
  assert.ok(parseRpcRequest(deep(MAX_JSON_DEPTH)).ok);
  for (const text of ["", "{", "nope", "{}x", "\u0000", '{"a":01}', "{'a':1}", deep(MAX_JSON_DEPTH + 1)]) {
    assert.deepEqual(parseRpcRequest(text), {
      ok: false,
      id: null,
      error: { code: -32700, message: "Invalid JSON payload" },
    });
  }
});

Deno.test("a body that is no JSON-RPC 2.0 request is -32600, with its id when that is one", () => {
  const error = { code: -32600, message: "Request payload validation error" };
  const cases: [unknown, unknown][] = [
    [[], null],
    [[{ jsonrpc: "2.0", id: 1, method: "GetTask" }], null],
    ["text", null],
    [null, null],
    [5, null],
    [{}, null],
    [{ jsonrpc: "2.0", method: "GetTask" }, null],
    [{ jsonrpc: "2.0", id: null, method: "GetTask" }, null],
    [{ jsonrpc: "2.0", id: 1.5, method: "GetTask" }, null],
    [{ jsonrpc: "2.0", id: true, method: "GetTask" }, null],
    [{ jsonrpc: "2.0", id: [1], method: "GetTask" }, null],
    [{ jsonrpc: "1.0", id: 1, method: "GetTask" }, 1],
    [{ id: "a", method: "GetTask" }, "a"],
    [{ jsonrpc: 2.0, id: 1, method: "GetTask" }, 1],
    [{ jsonrpc: "2.0", id: 7 }, 7],
    [{ jsonrpc: "2.0", id: 7, method: 5 }, 7],
  ];
  for (const [body, id] of cases) {
    assert.deepEqual(parseRpcRequest(JSON.stringify(body)), { ok: false, id, error }, JSON.stringify(body));
  }
});

Deno.test("a request keeps its id, its method as written and its parameters; more members do not matter", () => {
  for (const id of ["", "a", 0, -3, 1e15]) {
    const body = { jsonrpc: "2.0", id, method: " gettask ", params: [1], more: true };
    assert.deepEqual(parseRpcRequest(JSON.stringify(body)), {
      ok: true,
      request: { id, method: " gettask ", params: [1] },
    });
  }
});

Deno.test("the version is 1.0 or a patch of it, on one line", () => {
  for (const served of ["1.0", " 1.0 ", "1.0.0", "1.0.17"]) assert.ok(isServedVersion(served), served);
  for (
    const refused of [
      null,
      "",
      " ",
      "0.3",
      "1",
      "1.1",
      "2.0",
      "1.0x",
      "1.0.",
      "1.0.x",
      "01.0",
      "1.0, 1.0",
      "1.0,1.0",
      "v1.0",
    ]
  ) assert.ok(!isServedVersion(refused), String(refused));
});

Deno.test("property: an answer made of a result's text is the one made of the result", () => {
  fc.assert(fc.property(fc.oneof(fc.string({ unit: "binary" }), fc.maxSafeInteger()), fc.jsonValue(), (id, result) => {
    assert.equal(resultTextAnswer(id, JSON.stringify(result)), resultAnswer(id, result));
  }));
});
