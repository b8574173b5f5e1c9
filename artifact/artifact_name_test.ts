import assert from "node:assert/strict";
import fc from "fast-check";
import { MurError } from "../base/errors.ts";
import {
  bareHalf,
  bareNameProblem,
  isBareName,
  isReservedVersion,
  parseArtifactName,
  parseReference,
  versionProblem,
} from "./artifact_name.ts";
import { hostPlatformTag, parsePlatform } from "./platform.ts";

Deno.test("a bare name is 1 to 100 of [a-z0-9-] without '-' first or last", () => {
  for (const good of ["a", "0", "page-tool", "a--b", "a".repeat(100)]) assert.equal(bareNameProblem(good), null);
  for (const bad of ["", "-a", "a-", "-", "A", "a_b", "a.b", "a b", "ä", "a/b", "a\n", "..", "a".repeat(101)]) {
    assert.notEqual(bareNameProblem(bad), null, bad);
  }
});

Deno.test("a full name is exactly two bare names around one slash", () => {
  assert.deepEqual(parseArtifactName("local/worker"), { scope: "local", bare: "worker" });
  assert.deepEqual(parseArtifactName("worker"), { scope: null, bare: "worker" });
  for (const bad of ["/a", "a/", "a/b/c", "../a", "A/b", "a/B", "./a", ""]) assert.equal(parseArtifactName(bad), null);
});

Deno.test("any text splits to a name that is safe as a path component or to nothing", () => {
  fc.assert(fc.property(fc.string(), (text) => {
    const name = parseArtifactName(text);
    if (name === null) return;
    assert.match(name.bare, /^[a-z0-9-]+$/);
    assert.equal(bareHalf(text), name.bare);
    assert.ok(isBareName(name.bare));
  }));
});

Deno.test("latest, stable and edge are reserved in any letter case and nothing else is", () => {
  for (const word of ["latest", "LATEST", "Stable", "edge"]) assert.ok(isReservedVersion(word));
  for (const word of ["1.0.0", "latest1", "", " latest"]) assert.ok(!isReservedVersion(word));
});

Deno.test("a version that would leave the store or hide in it is refused", () => {
  for (const good of ["1.0.0", "v2", "1.0.0+build.5", "2024-01-01", "local"]) assert.equal(versionProblem(good), null);
  for (
    const bad of [
      "",
      " ",
      ".",
      "..",
      "../../x",
      "a/b",
      "a\\b",
      "a\0",
      ".hidden",
      "1\n2",
      " 1",
      "1 ",
      "é",
      "x".repeat(101),
    ]
  ) {
    assert.notEqual(versionProblem(bad), null, JSON.stringify(bad));
  }
});

Deno.test("a reference has exactly one @ and two non-empty sides", () => {
  assert.deepEqual(parseReference("a@1"), { name: { scope: null, bare: "a" }, version: "1" });
  assert.deepEqual(parseReference("local/a@1"), { name: { scope: "local", bare: "a" }, version: "1" });
  for (const bad of ["a", "a@", "@1", "a@1@2", "", "@", "a@../x", "A@1", "x/y/z@1"]) {
    assert.throws(() => parseReference(bad), (error) => error instanceof MurError && error.code === "E-IO-003", bad);
  }
});

Deno.test("a refused reference shows no character a terminal acts on", () => {
  for (const bad of ["a@1\n2", "a@\x1b[31m", "\x1b]0;x\x07@1", "a\rb@1", "\u202e@1", "a@\n@\n"]) {
    assert.throws(() => parseReference(bad), (error) => {
      assert.ok(error instanceof MurError);
      assert.doesNotMatch(error.message, /[\p{Cc}\p{Cf}]/u);
      return true;
    });
  }
});

Deno.test("a host that is none of the four platforms is unknown", () => {
  assert.equal(hostPlatformTag({ os: "linux", arch: "x86_64" }), "linux-x86_64");
  assert.equal(hostPlatformTag({ os: "darwin", arch: "aarch64" }), "darwin-aarch64");
  assert.equal(hostPlatformTag({ os: "windows", arch: "x86_64" }), "unknown");
});

Deno.test("a --platform value is split at its first dash and stays one path component", () => {
  assert.deepEqual(parsePlatform("linux-x86_64"), ["linux", "x86_64"]);
  assert.deepEqual(parsePlatform("linux-arm-v7"), ["linux", "arm-v7"]);
  for (const bad of ["linux", "-x", "linux-", "../x-y", "a-b/c", "a-../b", "", "a-" + "b".repeat(60)]) {
    assert.throws(() => parsePlatform(bad), (error) => error instanceof MurError && error.code === "E-IO-003", bad);
  }
});
