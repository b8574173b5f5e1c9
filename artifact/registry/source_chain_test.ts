import assert from "node:assert/strict";
import type { ArtifactSource, SourceAnswer } from "./artifact_source.ts";
import type { RegistrySource } from "../configuration.ts";
import { chainOrder, declaredSource, fetchFromChain, repositoryToken, sourcesOfScope } from "./source_chain.ts";
import { withCode } from "../../tests/support/error_code.ts";

const WANTED = { name: "a", version: "1.0.0", platform: "linux-x86_64" };

function fixedSource(label: string, answer: SourceAnswer, asked: string[] = []): ArtifactSource {
  return { label, fetch: () => (asked.push(label), Promise.resolve(answer)) };
}

Deno.test("the first source that has the artifact wins and the rest are not asked", async () => {
  const found = { kind: "found" as const, bytes: new Uint8Array([1]), sha256: "x" };
  const asked: string[] = [];
  const sources = [
    fixedSource("one", { kind: "not-found", reason: "no" }, asked),
    fixedSource("two", { kind: "unanswered", reason: "HTTP 500" }, asked),
    fixedSource("three", found, asked),
    fixedSource("four", found, asked),
  ];
  assert.equal((await fetchFromChain(sources, WANTED)).source, "three");
  assert.deepEqual(asked, ["one", "two", "three"]);
});

Deno.test("nothing found is E-REG-001 when every source said so, E-REG-006 when one did not answer, a line for each", async () => {
  const no = fixedSource("one", { kind: "not-found", reason: "no release" });
  const silent = fixedSource("two", { kind: "unanswered", reason: "HTTP 500" });
  await assert.rejects(
    () => fetchFromChain([no], WANTED),
    withCode("E-REG-001", /^no source has 'a@1\.0\.0'\n {2}one — no release\n/),
  );
  await assert.rejects(
    () => fetchFromChain([silent, no], WANTED),
    withCode("E-REG-006", /\n {2}two — HTTP 500\n {2}one — no release\n/),
  );
  await assert.rejects(
    () => fetchFromChain([], { ...WANTED, version: null }),
    withCode("E-REG-001", /no source to ask for 'a'/),
  );
});

const declaration = (name: string, repo: string | null, more: Partial<RegistrySource> = {}): RegistrySource => ({
  name,
  type: "github",
  repo,
  url: null,
  token: null,
  ...more,
});

Deno.test("the default source is asked first, the others in their order", () => {
  const sources = ["a", "b", "c"].map((name) => declaration(name, "o/r"));
  assert.deepEqual(chainOrder(sources, "b").map(({ name }) => name), ["b", "a", "c"]);
  assert.deepEqual(chainOrder(sources, "x").map(({ name }) => name), ["a", "b", "c"]);
  assert.deepEqual(chainOrder(sources, null).map(({ name }) => name), ["a", "b", "c"]);
});

Deno.test("a scope admits the sources of its owner alone; local admits none, murmur the default repository", () => {
  const sources = [
    declaration("official", "murmur-nexus/default-artifacts"),
    declaration("mine", "Acme/tools"),
    declaration("fake", "murmur/default-artifacts"),
    declaration("bad", null),
  ];
  const names = (scope: string | null) => sourcesOfScope(sources, scope).map(({ name }) => name);
  assert.deepEqual(names(null), ["official", "mine", "fake", "bad"]);
  assert.deepEqual(names("acme"), ["mine"]);
  assert.deepEqual(names("local"), []);
  assert.deepEqual(names("murmur"), ["official"]);
});

Deno.test("a bad source entry counts as one that does not answer", async () => {
  const access = {
    send: () => Promise.reject(new Error("not asked")),
    apiBase: "http://127.0.0.1:1",
    bounds: { registryRequest: 1_000 },
  };
  const env = { get: () => undefined };
  for (const bad of [declaration("x", null), declaration("x", "a/b/c")]) {
    const source = declaredSource(bad, access, env);
    assert.equal(source.label, "x");
    assert.equal((await source.fetch(WANTED)).kind, "unanswered");
  }
});

Deno.test("a repository's token is its source's variable or word, else GITHUB_TOKEN", () => {
  const token = (declared: string | null, env: Record<string, string>, repo = "o/r") =>
    repositoryToken(repo, [declaration("x", "O/R", { token: declared })], { get: (name) => env[name] });
  assert.equal(token("${MY_TOKEN}", { MY_TOKEN: "x", GITHUB_TOKEN: "g" }), "x");
  assert.equal(token("${MY_TOKEN}", {}), null);
  assert.equal(token("MY_TOKEN", { MY_TOKEN: "x" }), "x");
  assert.equal(token("ghp_literal", {}), "ghp_literal");
  assert.equal(token(null, { GITHUB_TOKEN: "g" }), "g");
  assert.equal(token(null, { GITHUB_TOKEN: "" }), null);
  assert.equal(token("MY_TOKEN", { MY_TOKEN: "x", GITHUB_TOKEN: "g" }, "other/repo"), "g");
  assert.equal(repositoryToken("o/r", [declaration("x", "o/r", { token: "literal=text" })], Deno.env), "literal=text");
});
