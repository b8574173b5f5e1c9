import assert from "node:assert/strict";
import { type PathResolver, readOnlyInterpreters, ReadOnlyPaths } from "./read_only_rules.ts";
import { parseCapsuleManifest } from "./manifest/parse_capsule_manifest.ts";
import { normalWorkdirPath, workdirPathProblem } from "./workdir_path.ts";

/** A resolver over a map of symbolic links, the work folder being /work. */
function resolver(links: Readonly<Record<string, string>> = {}): PathResolver {
  const resolve: PathResolver = (path) => {
    const relative = path.startsWith("/work/") ? path.slice(6) : path === "/work" ? "." : path;
    if (relative.startsWith("/") || workdirPathProblem(relative) !== null) return null;
    const parts: string[] = [];
    for (const part of relative.split("/")) {
      if (part === "..") parts.pop();
      else if (part !== "" && part !== ".") {
        parts.push(part);
        const target = links[parts.join("/")];
        if (target !== undefined) {
          const resolved = resolve(target.startsWith("/") ? target : [...parts.slice(0, -1), target].join("/"));
          if (resolved === null) return null;
          parts.splice(0, parts.length, ...(resolved === "." ? [] : resolved.split("/")));
        }
      }
    }
    return normalWorkdirPath(parts.join("/"));
  };
  return resolve;
}

Deno.test("an entry covers itself and what is below, by component", () => {
  const paths = new ReadOnlyPaths(["tests/", "./a/../docs//x"], resolver());
  const rule = (path: string) => paths.find(path)?.rule ?? null;
  assert.equal(rule("tests"), "tests/");
  assert.equal(rule("./tests/a/b"), "tests/");
  assert.equal(rule("/work/tests/a"), "tests/");
  assert.equal(rule("x/../tests/a"), "tests/");
  assert.equal(rule("docs/x/y"), "./a/../docs//x");
  for (const other of ["tests2", "docs", ".", "atests", "/tests", "/etc/tests", "../tests", "docs/xy"]) {
    assert.equal(rule(other), null, other);
  }
});

Deno.test("symbolic links are followed in candidates and in entries, and the link itself is covered too", () => {
  const links = { alias: "tests", out: "/elsewhere", "tests/inner": "../free", entry: "data/real" };
  const paths = new ReadOnlyPaths(["tests", "entry"], resolver(links));
  assert.equal(paths.find("alias/a")?.path, "tests/a");
  assert.equal(paths.find("out/x"), null);
  // What an entry leads to is as protected as its name.
  assert.equal(paths.find("data/real/x")?.rule, "entry");
  assert.equal(paths.find("entry/x")?.rule, "entry");
  // Replacing a link below a covered folder changes that folder.
  assert.equal(paths.find("tests/inner")?.rule, "tests");
  assert.equal(paths.find("free/x"), null);
});

Deno.test("taking a folder away takes what it holds", () => {
  const paths = new ReadOnlyPaths(["docs/ref"], resolver());
  assert.equal(paths.find("docs"), null);
  assert.equal(paths.find("docs", true)?.path, "docs/ref");
  assert.equal(paths.find(".", true)?.path, "docs/ref");
  assert.equal(paths.find("docs2", true), null);
});

Deno.test("a whole work folder can be read-only", () => {
  const paths = new ReadOnlyPaths(["."], resolver());
  assert.equal(paths.find("anything")?.rule, ".");
  assert.equal(paths.find("/elsewhere"), null);
});

Deno.test("the refusal names path, rule and signal", () => {
  const refusal = new ReadOnlyPaths(["tests"], resolver()).judge("tests/a", "rm");
  assert.deepEqual(refusal, {
    path: "tests/a",
    rule: "tests",
    signal: "rm",
    reason:
      "'tests/a' is read-only: capabilities.filesystem.read_only has 'tests', and this call would write there (rm)",
  });
});

Deno.test("interpreters are told only beside read_only, each once", () => {
  const read = (shell: string, readOnly: string) =>
    readOnlyInterpreters(
      parseCapsuleManifest(
        `name: a\nversion: '1'\ncapabilities: {shell: {allow: ${shell}}, filesystem: {read_only: ${readOnly}}}\n`,
        "m",
      )
        .manifest.capabilities,
    );
  assert.deepEqual(read("[jq, python3, bash, python3, Rscript, python3.11]", "[a]"), ["python3", "bash", "Rscript"]);
  assert.deepEqual(read("[bash]", "[' ']"), []);
});
