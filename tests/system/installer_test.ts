import assert from "node:assert/strict";
import { declareInstallerTests } from "../support/installer_suite.ts";

// The shells that /bin/sh is on Debian, Alpine (with tools of its own) and everywhere else.
declareInstallerTests([["dash"], ["busybox", "ash"], ["bash", "--posix"]]);

Deno.test("shellcheck finds nothing in the installer", async () => {
  const { success, stdout } = await new Deno.Command("shellcheck", {
    args: [decodeURIComponent(new URL("../../install.sh", import.meta.url).pathname)],
  }).output();
  assert.ok(success, new TextDecoder().decode(stdout));
});
