import assert from "node:assert/strict";
import fc from "fast-check";
import { normalWorkdirPath, workdirPathCovers, workdirPathProblem } from "./workdir_path.ts";

Deno.test("a path may go up only as far as it came down", () => {
  for (const good of ["a", ".", "./a", "a/..", "a/../b", "a//b", "a/b/../../c", "...", "..a", "a/..b", ""]) {
    assert.equal(workdirPathProblem(good), null, good);
  }
  for (const bad of ["..", "../a", "a/../..", "./..", "a/../../a", ".//..", "a/b/../../../a/b/c/d"]) {
    assert.equal(workdirPathProblem(bad), "escapes", bad);
  }
  for (const bad of ["/", "/a", "//a", "/.."]) assert.equal(workdirPathProblem(bad), "absolute", bad);
});

Deno.test("the normal form has no empty, . and .. components", () => {
  assert.equal(normalWorkdirPath("./a//b/../c/"), "a/c");
  assert.equal(normalWorkdirPath("a/.."), ".");
  assert.equal(normalWorkdirPath(""), ".");
});

Deno.test("covering goes by components", () => {
  assert.ok(workdirPathCovers("tests", "tests") && workdirPathCovers("tests", "tests/a/b"));
  assert.ok(workdirPathCovers(".", "x") && workdirPathCovers(".", "."));
  for (const other of ["tests2", "test", "a/tests", ".", "tests.bak"]) {
    assert.ok(!workdirPathCovers("tests", other), other);
  }
});

Deno.test("a path that is accepted never resolves outside", () => {
  const path = fc.array(fc.constantFrom("a", "b", ".", "..", ""), { maxLength: 8 }).map((parts) => parts.join("/"));
  fc.assert(fc.property(path, (text) => {
    const root = "/r/o/o/t";
    const resolved = new URL(`file://${root}/${text}`).pathname.replace(/\/+/g, "/");
    if (workdirPathProblem(text) !== null) return;
    assert.ok(!normalWorkdirPath(text).split("/").includes(".."));
    assert.ok(`${resolved}/`.startsWith(`${root}/`) || text.includes("//"));
  }));
});
