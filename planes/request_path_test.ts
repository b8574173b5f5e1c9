import assert from "node:assert/strict";
import fc from "fast-check";
import { judgePath, requestedPath } from "./request_path.ts";

const outcome = (encoded: string) => {
  const requested = requestedPath(encoded);
  return "path" in requested ? requested.path : requested.error;
};

Deno.test("every kind of path has its one outcome, without a look at the file system", () => {
  for (
    const [encoded, expected] of [
      ["report.md", "report.md"],
      ["a/b/c", "a/b/c"],
      ["a%2fb", "a/b"],
      ["...", "..."],
      ["..a/.b", "..a/.b"],
      ["a\\..\\b", "a\\..\\b"],
      ["..%5Ca", "..\\a"],
      ["a%20b", "a b"],
      ["a+b", "a+b"],
      ["%252e%252e/x", "%2e%2e/x"],
      ["caf%C3%A9", "café"],
      // Step 2.
      ["", "outside_root"],
      ["/etc/passwd", "outside_root"],
      ["%2Fetc/passwd", "outside_root"],
      ["a%00b", "outside_root"],
      ["%00", "outside_root"],
      ["..", "outside_root"],
      ["../x", "outside_root"],
      ["a/../b", "outside_root"],
      ["a/..", "outside_root"],
      ["%2e%2e/x", "outside_root"],
      ["a/%2E%2e/%2e./x", "outside_root"],
      ["..%2fx", "outside_root"],
      [".", "outside_root"],
      ["a/./b", "outside_root"],
      ["a//b", "outside_root"],
      ["a/", "outside_root"],
      ["a%2f", "outside_root"],
      // What is no path at all.
      ["a%", "not_found"],
      ["%zz", "not_found"],
      ["%ff", "not_found"],
      ["%c0%ae%c0%ae/x", "not_found"],
    ] as const
  ) assert.equal(outcome(encoded), expected, encoded);
});

Deno.test("a path that passes has only components that name something below", () => {
  const piece = fc.constantFrom(
    "..",
    ".",
    "",
    "a",
    "%2e",
    "%2E%2E",
    "%2f",
    "%00",
    "\\",
    "%",
    "%c0%ae",
    "b.md",
    "%252e",
    "%5c",
    "ä",
  );
  fc.assert(
    fc.property(fc.array(fc.tuple(piece, fc.constantFrom("", "/", "//"))), (pieces) => {
      const requested = requestedPath(pieces.flat().join(""));
      if (!("path" in requested)) return;
      const { path } = requested;
      assert.ok(path !== "" && !path.includes("\0"));
      for (const component of path.split("/")) assert.ok(!["", ".", ".."].includes(component), path);
      assert.equal(judgePath(path), null);
    }),
    { numRuns: 2_000 },
  );
});
