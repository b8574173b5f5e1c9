import assert from "node:assert/strict";
import fc from "fast-check";
import { codeLink, formatWarning } from "../../base/errors.ts";
import { parseCapsuleManifest } from "./parse_capsule_manifest.ts";
import { alignmentDistance, isNewerVersion, nearestKey, unknownKeyWarnings } from "./unknown_keys.ts";

const HEAD = "name: desk\nversion: '1.0'\n";

const LINK = ` (${codeLink("W-SEC-019")})`;

/** The warnings of a manifest as they are printed, without the address each ends with. */
function lines(text: string, runningVersion = "1.2.3"): string[] {
  return parseCapsuleManifest(text, "murmur.yaml", { runningVersion }).warnings.map((warning) => {
    const line = formatWarning(warning);
    assert.ok(line.endsWith(LINK), line);
    return line.slice(0, -LINK.length);
  });
}

Deno.test("an unknown key is reported with its block and the nearest known key", () => {
  assert.deepEqual(lines(`${HEAD}capabilties: {}\n`), [
    "[murmur-artifact] warning[W-SEC-019]: unrecognized key 'capabilties' at the top level: did you mean 'capabilities'? " +
    "as it is spelled it has no effect",
  ]);
  assert.deepEqual(
    lines(
      `${HEAD}capabilities:\n  filesystem: {readonly: [a]}\n  shell:\n    allow: [jq]\n    interpreter_runtime:\n` +
        "      - {binary: jq, dirs: [{path: /a, list_dir: true}, {path: /b, list_dir: true, listdir: true}]}\n",
    ).map((line) => line.replace(/^.*unrecognized key /, "")),
    [
      "'readonly' in capabilities.filesystem: did you mean 'read_only'? as it is spelled it has no effect",
      "'listdir' in capabilities.shell.interpreter_runtime[0].dirs[1]: did you mean 'list_dir'? as it is spelled it has no effect",
    ],
  );
  assert.match(
    lines(`${HEAD}artifacts: [{name: a, version: '1', capabilities: {shell: {allow: [x], bogus_thing: 1}}}]\n`)[0]!,
    /'bogus_thing' in artifacts\[0\]\.capabilities\.shell: it has no effect; it may come from a newer mur/,
  );
});

Deno.test("own unknown keys come alphabetically, then those of child blocks in table order", () => {
  const text =
    `${HEAD}zzz: 1\ncontext: {qqq: 1}\nartifacts:\n  - {name: a, version: '1', zz1: 1, gateway: {endpoint: 'https://h', keyless: true, zz2: 1}}\n  - {name: b, version: '1', zz3: 1}\nyyy: 1\n`;
  assert.deepEqual(lines(text).map((line) => /key '(\w+)'/.exec(line)?.[1]), [
    "yyy",
    "zzz",
    "zz1",
    "zz2",
    "zz3",
    "qqq",
  ]);
});

Deno.test("contents of configs and keys of an artifact manifest that a capsule ignores", () => {
  assert.deepEqual(
    lines(
      `${HEAD}runtime: tool\nimplementation: x\nexecution: 5\nrequires_files: no\nbuild: no\nartifacts: [{name: a, version: '1', config: {any: {thing: 1}}}]\n`,
    ),
    [],
  );
  assert.equal(lines(`${HEAD}build: {entry: a.ts, target: b}\n`).length, 1);
  for (const key of ["description", "tags", "input_schema", "upstream_auth", "binding"]) {
    assert.equal(lines(`${HEAD}${key}: x\n`).length, 1, key);
  }
});

Deno.test("one more line tells of a manifest pinned to a newer version, only beside unknown keys", () => {
  const pinned = (pin: string, keys: string) => lines(`${HEAD}mur_version: ${pin}\n${keys}`);
  assert.deepEqual(pinned("1.3.0", ""), []);
  assert.equal(
    pinned("1.3.0", "xyz1: 1\n").at(-1),
    "[murmur-artifact] warning[W-SEC-019]: this manifest pins mur 1.3.0, you are running 1.2.3; 1 key in it is not " +
      "recognized by this build",
  );
  assert.match(pinned("1.10.0", "xyz1: 1\nxyz2: 1\n").at(-1)!, /; 2 keys in it are not recognized by this build$/);
  for (const pin of ["1.2.3", "1.2.2", "0.9.9", "v1.3.0", "1.3", "1.3.0-rc1", "latest"]) {
    assert.equal(pinned(pin, "xyz1: 1\n").length, 1, pin);
  }
});

Deno.test("a file of unknown keys does not give a line for each of thousands", () => {
  const unknown = Array.from({ length: 250 }, (_, index) => ({ key: `k${index}`, path: "", known: [] }));
  const warnings = unknownKeyWarnings(unknown, null, "1.0.0");
  assert.equal(warnings.length, 101);
  assert.equal(warnings.at(-1)?.message, "150 more unrecognized keys");
});

Deno.test("distance counts insertions, deletions, substitutions and swaps of neighbours", () => {
  const distance = (a: string, b: string) => alignmentDistance(a, b, 99);
  assert.equal(distance("", ""), 0);
  assert.equal(distance("abc", ""), 3);
  assert.equal(distance("allow", "alow"), 1);
  assert.equal(distance("allow", "alolw"), 1);
  assert.equal(distance("ca", "abc"), 3);
  assert.equal(distance("kitten", "sitting"), 3);
  assert.equal(distance("ä", "a"), 1);
  assert.equal(alignmentDistance("abcdefgh", "zzzzzzzz", 2), 3);
});

Deno.test("distance is a symmetric zero for equal texts only, and never more than the longer text", () => {
  const word = fc.string({ unit: fc.constantFrom("a", "b", "c", "_"), maxLength: 8 });
  fc.assert(fc.property(word, word, (a, b) => {
    const there = alignmentDistance(a, b, 99);
    assert.equal(there, alignmentDistance(b, a, 99));
    assert.equal(there === 0, a === b);
    assert.ok(there <= Math.max(a.length, b.length) && there >= Math.abs(a.length - b.length));
    assert.equal(alignmentDistance(a, b, 2), Math.min(there, 3));
  }));
});

Deno.test("nearness is a third of the longer key, at least one; ties go to the first", () => {
  assert.equal(nearestKey("envv", ["env", "even"]), "env");
  assert.equal(nearestKey("x", ["env"]), null);
  assert.equal(nearestKey("e", ["a", "b"]), "a");
  assert.equal(nearestKey("netwrok", ["network", "networ"]), "network");
  assert.equal(nearestKey("storage", ["store"]), "store");
  assert.equal(nearestKey("storages", ["store"]), null);
});

Deno.test("versions compare by number", () => {
  assert.ok(
    isNewerVersion("0.10.0", "0.9.9") && isNewerVersion("1.0.1", "1.0.0") && isNewerVersion("2.0.0", "1.99.99"),
  );
  assert.ok(!isNewerVersion("1.0.0", "1.0.0") && !isNewerVersion("1.0.0", "1.0.1") && !isNewerVersion("1.0", "0.1.0"));
});
