import assert from "node:assert/strict";
import { absolutePath, parentDirectory } from "./paths.ts";

Deno.test("a path is taken against the current directory and resolved as text", () => {
  for (
    const [path, expected] of [
      ["a", "/w/a"],
      ["./a//b/", "/w/a/b"],
      ["../a", "/a"],
      ["../../../a", "/a"],
      ["/x/./y/../z", "/x/z"],
      [".", "/w"],
      ["", "/w"],
      ["..", "/"],
    ]
  ) assert.equal(absolutePath("/w", path!), expected, path);
});

Deno.test("the parent of an entry of the root is the root", () => {
  assert.equal(parentDirectory("/a/b"), "/a");
  assert.equal(parentDirectory("/a"), "/");
});
