import assert from "node:assert/strict";
import { readHostRoot, syntheticAccounts } from "./composed_root.ts";
import { SYSTEM_DIRECTORIES } from "./system_directories.ts";

Deno.test("no account of the host's is in the synthetic files", () => {
  assert.deepEqual(syntheticAccounts(1000, 100, "/h"), {
    passwd: "root:x:0:0:root:/root:/bin/sh\ncapsule:x:1000:100:capsule:/h:/bin/sh\n",
    group: "root:x:0:\ncapsule:x:100:\n",
  });
  assert.deepEqual(syntheticAccounts(0, 0, "/h"), { passwd: "root:x:0:0:root:/h:/bin/sh\n", group: "root:x:0:\n" });
  assert.deepEqual(syntheticAccounts(0, 5, "/h"), { passwd: "root:x:0:5:root:/h:/bin/sh\n", group: "" });
});

Deno.test("a home that would make another line or field is refused", () => {
  for (const home of ["/h:0:0", "/h\nroot::0:0::/:/bin/sh"]) {
    assert.throws(() => syntheticAccounts(1000, 1000, home), { code: "E-IO-003" });
  }
});

Deno.test("of this host only what is allowed and there is read, links as links", () => {
  const host = readHostRoot();
  assert.ok(host.runtime.some(({ path, kind }) => path === "/usr" && kind === "directory"));
  for (const { path, kind } of host.runtime) {
    assert.ok(SYSTEM_DIRECTORIES.some((each) => each === path));
    assert.equal(kind === "symlink", Deno.lstatSync(path).isSymlink);
  }
  for (const { path, kind } of host.etc) {
    assert.match(path, /^\/etc\/[a-z.-]+$/);
    assert.ok(!/passwd|group|shadow/.test(path));
    assert.equal(kind === "directory", Deno.statSync(path).isDirectory);
  }
  assert.ok(host.devices.includes("/dev/null"));
  for (const base of host.bases) assert.ok(!Deno.lstatSync(base).isSymlink);
});
