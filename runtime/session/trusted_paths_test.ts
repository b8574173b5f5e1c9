import assert from "node:assert/strict";
import { parseCapsuleManifest } from "../../artifact/manifest/parse_capsule_manifest.ts";
import { trustedPaths } from "./trusted_paths.ts";

const MANIFEST = parseCapsuleManifest(
  `name: desk
version: "1.0"
artifacts:
  - { name: guide, runtime: skill, source: skills/guide }
  - { name: driver, version: "1", runtime: driver, gateway: { endpoint: "http://localhost:1", keyless: true } }
inference:
  model: m
  driver: { artifact: driver }
  system_prompt_file: prompts/main.md
`,
  "murmur.yaml",
).manifest;

Deno.test("every name a later launch reads is trusted in each directory it is read from", () => {
  const paths = trustedPaths(MANIFEST, {
    manifest: "/p/agent.yaml",
    manifestDir: "/p",
    workspaceRoot: "/w",
    storeRoot: null,
    cwd: "/p",
    searched: ["/w/a", "/"],
    components: ["/p/capsule.wasm"],
    murmurHome: "/home/me/.murmur",
    program: [],
  }).map(({ path }) => path);
  for (const directory of ["/p", "/w"]) {
    for (const name of ["murmur.yaml", "murmur.lock", "roster.yaml", ".env", ".murmur"]) {
      assert.ok(paths.includes(`${directory}/${name}`), `${directory}/${name}`);
    }
  }
  // A manifest there would make it the project's root; nothing else is read there as long as there is none.
  assert.deepEqual(paths.filter((path) => path.startsWith("/w/a")), ["/w/a/murmur.yaml"]);
  assert.ok(paths.includes("/murmur.yaml"));
  for (const path of ["/p/agent.yaml", "/p/capsule.wasm", "/p/prompts/main.md", "/p/skills/guide"]) {
    assert.ok(paths.includes(path), path);
  }
});

Deno.test("a path that is trusted for two reasons is named once, with all that is in it when one reason says so", () => {
  const twice = parseCapsuleManifest(
    `name: desk
version: "1.0"
artifacts:
  - { name: driver, version: "1", runtime: driver, gateway: { endpoint: "http://localhost:1", keyless: true } }
  - { name: guide, runtime: skill, source: guide.md }
inference: { model: m, driver: { artifact: driver }, system_prompt_file: guide.md }
`,
    "murmur.yaml",
  ).manifest;
  const paths = trustedPaths(twice, {
    manifest: "/p/murmur.yaml",
    manifestDir: "/p",
    workspaceRoot: "/p",
    storeRoot: "/p",
    cwd: "/p",
    searched: ["/p"],
    components: [],
    murmurHome: "/home/me/.murmur",
    program: [],
  });
  assert.deepEqual(paths.map(({ path }) => path).sort(), [...new Set(paths.map(({ path }) => path))].sort());
  assert.equal(paths.find(({ path }) => path === "/p/guide.md")?.tree, true);
});

Deno.test("directories are trusted with all that is in them", () => {
  const trees = trustedPaths(MANIFEST, {
    manifest: null,
    manifestDir: "/p",
    workspaceRoot: null,
    storeRoot: "/s",
    cwd: "/c",
    searched: [],
    components: [],
    murmurHome: "/home/me/.murmur",
    program: [],
  }).filter(({ tree }) => tree).map(({ path }) => path);
  assert.deepEqual(trees, ["/home/me/.murmur", "/p/.murmur", "/s/.murmur", "/c/.murmur", "/p/skills/guide"]);
});

Deno.test("the root directory gives paths with one slash", () => {
  const paths = trustedPaths(MANIFEST, {
    manifest: null,
    manifestDir: "/",
    workspaceRoot: null,
    storeRoot: null,
    cwd: "/",
    searched: [],
    components: [],
    murmurHome: "/home/me/.murmur",
    program: [],
  });
  assert.ok(paths.some(({ path }) => path === "/murmur.yaml"));
});

Deno.test("the home of keys and records is hidden, also where it is trusted for another reason", () => {
  const home = trustedPaths(MANIFEST, {
    manifest: null,
    manifestDir: "/home/me",
    workspaceRoot: null,
    storeRoot: null,
    cwd: "/home/me",
    searched: [],
    components: [],
    murmurHome: "/home/me/.murmur",
    program: [],
  }).filter(({ path }) => path === "/home/me/.murmur");
  assert.deepEqual(home, [{ path: "/home/me/.murmur", tree: true, hidden: true }]);
});

Deno.test("what the program itself runs from is trusted", () => {
  const program = [{ path: "/home/me/.cache/murmur", tree: true }, { path: "/home/me/.local/bin/mur" }];
  const paths = trustedPaths(MANIFEST, {
    manifest: null,
    manifestDir: "/p",
    workspaceRoot: null,
    storeRoot: null,
    cwd: "/home/me",
    searched: [],
    components: [],
    murmurHome: "/home/me/.murmur",
    program,
  });
  for (const place of program) assert.ok(paths.includes(place), place.path);
});
