import assert from "node:assert/strict";
import { locate } from "./files.ts";

Deno.test("a path lies in the preopen with the longest matching name", () => {
  const preopens = [".", "state", "murmur-runtime/"];
  const cases: [string, number, string][] = [
    ["a.txt", 0, "a.txt"],
    [".", 0, "."],
    ["./", 0, "."],
    ["./a//b/", 0, "a/b"],
    ["state", 1, "."],
    ["state/x", 1, "x"],
    ["./state/./x/y", 1, "x/y"],
    ["statement", 0, "statement"],
    ["murmur-runtime/delegations/a", 2, "delegations/a"],
    // What `..` may do is the host's decision, on the descriptor of the preopen.
    ["state/../a", 1, "../a"],
    ["../a", 0, "../a"],
    ["a/../state/x", 0, "a/../state/x"],
  ];
  for (const [path, index, rest] of cases) assert.deepEqual(locate(path, preopens), { index, rest }, path);
});

Deno.test("a path outside every preopen is in none", () => {
  assert.equal(locate("/etc/passwd", ["."]), null);
  assert.equal(locate("a\0b", ["."]), null);
  assert.equal(locate("a", ["state"]), null);
  assert.equal(locate("a", []), null);
});
