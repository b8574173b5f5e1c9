import assert from "node:assert/strict";
import { temporaryDirectory } from "./temporary_directory.ts";

Deno.test("the session's folder is /tmp wherever it can be", () => {
  const where = (...given: Parameters<typeof temporaryDirectory>) => {
    const { mapped, variable } = temporaryDirectory(...given);
    return `${mapped} ${variable}`;
  };
  for (
    const [tier, mounts, workdir, expected] of [
      ["sealed", true, "/w", "true /tmp"],
      ["sealed", true, "/tmp", "true /tmp"],
      ["full", true, "/w", "true /tmp"],
      ["full", true, "/tmp/w", "true /tmp"],
      ["full", true, "/tmp", "false /r/tmp"],
      ["full", false, "/w", "false /r/tmp"],
      ["seccomp", true, "/w", "true /tmp"],
      ["seccomp", true, "/tmp", "false /r/tmp"],
      ["seccomp", false, "/w", "false /r/tmp"],
      ["env", true, "/w", "false /r/tmp"],
      ["env", false, "/w", "false /r/tmp"],
    ] as const
  ) assert.equal(where(tier, mounts, workdir, "/r/tmp"), expected, `${tier} ${mounts} ${workdir}`);
});
