import assert from "node:assert/strict";
import {
  isLinkedFor,
  isServedWasi,
  judgeImport,
  judgeMurmurName,
  judgeMurmurNames,
  parseInterfaceName,
  ROLE_EXPORTS,
  SERVED_PACKAGES,
} from "./served_interfaces.ts";

Deno.test("names are taken apart", () => {
  assert.deepEqual(parseInterfaceName("murmur:tool/run@0.1.0"), {
    package: "murmur:tool",
    interface: "run",
    version: "0.1.0",
  });
  assert.deepEqual(parseInterfaceName("a:b/c"), { package: "a:b", interface: "c", version: null });
  assert.deepEqual(parseInterfaceName("init"), { package: "init", interface: "", version: null });
});

Deno.test("murmur names match by package and exact version", () => {
  for (const [name, version] of Object.entries(SERVED_PACKAGES)) {
    assert.equal(judgeMurmurName(`${name}/x@${version}`), null);
    assert.equal(judgeMurmurName(`${name}/x`)?.reason, "no-version");
    assert.equal(judgeMurmurName(`${name}/x@${version}0`)?.reason, "other-version");
    assert.equal(judgeMurmurName(`${name}/x@${version}`.replace("@0", "@0.0"))?.served, version);
  }
  assert.deepEqual(judgeMurmurName("murmur:nothing/x@0.1.0"), {
    name: "murmur:nothing/x@0.1.0",
    reason: "unknown-package",
    served: null,
  });
  assert.equal(judgeMurmurName("murmur:constructor/x@0.1.0")?.reason, "unknown-package");
  assert.equal(judgeMurmurName("wasi:io/poll@0.9.9"), null);
});

Deno.test("exports are reported before imports", () => {
  const found = judgeMurmurNames({
    imports: ["murmur:text/chunks@0.2.0", "wasi:io/poll@0.2.0"],
    exports: ["murmur:hook/lifecycle@0.8.0", "murmur:tool/run@0.1.0"],
  });
  assert.deepEqual(found.map(({ name }) => name), ["murmur:hook/lifecycle@0.8.0", "murmur:text/chunks@0.2.0"]);
});

Deno.test("WASI 0.2 is served in any patch version, but for what no role gets", () => {
  assert.ok(isServedWasi("wasi:io/streams@0.2.0"));
  assert.ok(isServedWasi("wasi:filesystem/types@0.2.99"));
  for (
    const name of [
      "wasi:io/streams",
      "wasi:io/streams@0.3.0",
      "wasi:io/streams@0.2",
      "wasi:io/streams@0.2.0-rc.1",
      "wasi:http/incoming-handler@0.2.0",
      "wasi:nn/tensor@0.2.0",
      "wasi:iox/streams@0.2.0",
    ]
  ) assert.equal(isServedWasi(name), false, name);
});

Deno.test("an import needs someone who serves it, unless it is types only", () => {
  assert.equal(judgeImport("murmur:text/chunks@0.1.0", false), null);
  assert.equal(judgeImport("murmur:shell/execute@0.1.0", false)?.reason, "not-served");
  assert.equal(judgeImport("murmur:shell/execute@0.1.0", true), null);
  assert.equal(judgeImport("murmur:shell/execute@0.2.0", true)?.reason, "other-version");
  assert.equal(judgeImport("acme:db/query@1.0.0", true)?.reason, "not-served");
  assert.equal(judgeImport("wasi:clocks/wall-clock@0.2.3", false), null);
});

Deno.test("each role is linked what the table gives it", () => {
  const invoke = "murmur:tool-registry/invoke@0.1.0";
  assert.deepEqual((["tool", "driver", "capsule"] as const).map((role) => isLinkedFor(role, invoke)), [
    false,
    false,
    true,
  ]);
  const chunks = "murmur:text/chunks@0.1.0";
  assert.deepEqual((["tool", "driver", "capsule"] as const).map((role) => isLinkedFor(role, chunks)), [
    true,
    true,
    false,
  ]);
  assert.ok(isLinkedFor("process-driver", "wasi:io/poll@0.2.0"));
  for (const name of Object.values(ROLE_EXPORTS)) assert.equal(judgeMurmurName(name), null);
});
