import assert from "node:assert/strict";
import { storeNameProblem } from "./store_name.ts";

Deno.test("a store name is one visible path segment", () => {
  for (const good of ["a", "My Store", "a..b", "~", "-x", "ä", "x".repeat(255)]) {
    assert.equal(storeNameProblem(good), null, good);
  }
  for (const bad of ["", ".", "..", ".hidden", "a/b", "/a", "a/", "a\0b", "a\nb", "x".repeat(256), "ä".repeat(128)]) {
    assert.notEqual(storeNameProblem(bad), null, bad);
  }
});
