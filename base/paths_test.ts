import assert from "node:assert/strict";
import { absolutePath, directoriesBetween, isAtOrBelow, parentDirectory } from "./paths.ts";

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

Deno.test("a path lies in a folder by whole components", () => {
  for (const path of ["/a", "/a/b", "/a/b/c"]) assert.ok(isAtOrBelow(path, "/a"), path);
  for (const path of ["/", "/ab", "/b/a"]) assert.ok(!isAtOrBelow(path, "/a"), path);
  for (const path of ["/", "/a"]) assert.ok(isAtOrBelow(path, "/"), path);
});

Deno.test("the directories between a folder and a path below it leave out both", () => {
  assert.deepEqual(directoriesBetween("/a", "/a/b/c/d"), ["/a/b", "/a/b/c"]);
  assert.deepEqual(directoriesBetween("/a", "/a/b"), []);
  assert.deepEqual(directoriesBetween("/", "/a/b"), ["/a"]);
});
