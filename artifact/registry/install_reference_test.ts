import assert from "node:assert/strict";
import fc from "fast-check";
import { MurError } from "../../base/errors.ts";
import { parseInstallReference } from "./install_reference.ts";
import { withCode } from "../../tests/support/error_code.ts";

Deno.test("an install reference is a file, a release, or an artifact, told apart in that order", () => {
  for (const path of ["./x", "../x", "/x", "./github:a/b@c", "dir/x.mur.zip", "github:a/b@c.mur.zip"]) {
    assert.deepEqual(parseInstallReference(path), { kind: "file", path });
  }
  assert.deepEqual(parseInstallReference("github:Acme/tools@v1"), {
    kind: "release",
    repository: { owner: "Acme", name: "tools" },
    tag: "v1",
  });
  assert.deepEqual(parseInstallReference("github:a/b@pkg@1"), {
    kind: "release",
    repository: { owner: "a", name: "b" },
    tag: "pkg@1",
  });
  assert.deepEqual(parseInstallReference("acme/tool"), {
    kind: "artifact",
    name: { scope: "acme", bare: "tool" },
    version: null,
  });
  assert.deepEqual(parseInstallReference("acme/tool@1"), {
    kind: "artifact",
    name: { scope: "acme", bare: "tool" },
    version: "1",
  });
  assert.deepEqual(parseInstallReference("tool"), {
    kind: "artifact",
    name: { scope: null, bare: "tool" },
    version: null,
  });
  assert.deepEqual(parseInstallReference("tool@1"), {
    kind: "artifact",
    name: { scope: null, bare: "tool" },
    version: "1",
  });
  for (
    const bad of [
      "",
      "npm:x@1",
      "github:a@1",
      "github:a/b",
      "github:a/b@",
      "github:/b@1",
      "a@",
      "@1",
      "a@1@2",
      "A",
      "a/b/c",
      "a@../x",
    ]
  ) {
    assert.throws(() => parseInstallReference(bad), withCode("E-IO-003", /invalid artifact/), bad);
  }
});

Deno.test("a file named without its folder is told how to be written", () => {
  assert.throws(
    () => parseInstallReference("word-count-0.1.0.mur.zip"),
    withCode("E-IO-003", /write \.\/word-count-0\.1\.0\.mur\.zip/),
  );
});

Deno.test("no text whatever makes the reference parser fail otherwise than by E-IO-003", () => {
  fc.assert(fc.property(fc.string(), (text) => {
    try {
      parseInstallReference(text);
    } catch (error) {
      assert.ok(error instanceof MurError && error.code === "E-IO-003");
    }
  }));
});
