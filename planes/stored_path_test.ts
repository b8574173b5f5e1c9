import assert from "node:assert/strict";
import fc from "fast-check";
import { storedPathFor } from "./stored_path.ts";

const ID = "3f2a91c40b7e5d68";

Deno.test("a fetched file lands under its handle's id and a harmless name", () => {
  for (
    const [path, name] of [
      ["report.md", "report.md"],
      ["a/b/report.md", "report.md"],
      ["../../etc/passwd", "passwd"],
      ["..", "file"],
      ["", "file"],
      ["a/", "file"],
      [".", "file"],
      ["---", "file"],
      [".bashrc", ".bashrc"],
      ["a b\n$(x).sh", "a_b___x_.sh"],
      ["ä😀.md", "__.md"],
      ["a\\b", "a_b"],
      ["x".repeat(300) + ".tar.gz", "x".repeat(113) + ".tar.gz"],
    ] as const
  ) assert.equal(storedPathFor(ID, path), `peer-in/${ID}-${name}`);
});

Deno.test("no path leads anywhere else", () => {
  fc.assert(fc.property(fc.string({ unit: "binary" }), (path) => {
    assert.match(storedPathFor(ID, path), /^peer-in\/3f2a91c40b7e5d68-[A-Za-z0-9._-]{1,120}$/);
  }));
});
