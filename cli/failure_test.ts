import assert from "node:assert/strict";
import { MurError } from "../base/errors.ts";
import { testContext, withTempDir } from "../tests/support/cli_context.ts";
import { murCommand, murEnvironment } from "../tests/support/mur_process.ts";
import { reportFailure } from "./failure.ts";
import { UsageError } from "./usage_error.ts";

function reported(error: unknown): { status: number; err: string } {
  const context = testContext("/");
  return { status: reportFailure(error, context), err: context.err() };
}

Deno.test("usage errors are 2, coded ones 1, with the error as the last thing on stderr", () => {
  assert.deepEqual(reported(new UsageError("--a needs --b")), { status: 2, err: "mur: --a needs --b\n" });
  assert.deepEqual(reported(new MurError("E-CFG-002", "no such key", { hint: "another" })), {
    status: 1,
    err: "error[E-CFG-002]: no such key\n  hint: another\n",
  });
});

Deno.test("what the operating system refuses is no defect of mur, anything else unforeseen is", async () => {
  await withTempDir((directory) => {
    const refusal = (action: () => unknown) => {
      try {
        action();
      } catch (error) {
        return reported(error).err;
      }
      assert.fail("not refused");
    };
    assert.match(refusal(() => Deno.readDirSync(`${directory}/x`)), /^error\[E-IO-001\]: .*readdir '.*\/x'\n$/);
    Deno.writeTextFileSync(`${directory}/file`, "");
    assert.match(refusal(() => Deno.readDirSync(`${directory}/file`)), /^error\[E-IO-003\]: .*readdir '.*\/file'\n$/);
    return Promise.resolve();
  });
  for (const error of [new TypeError("x is undefined"), Object.assign(new Error("odd"), { code: "ERR_ODD" })]) {
    assert.match(reported(error).err, /^error\[E-IO-003\]: unexpected failure: .*\n {2}hint: this is a defect of mur/);
  }
});

Deno.test({
  name: "a result that does not reach the disk fails its command; a reader that went away does not",
  ignore: Deno.build.os !== "linux",
  fn: () =>
    withTempDir(async (home) => {
      const run = async (redirection: string, ...args: string[]) => {
        const script = `"$@" ${redirection}`;
        const { code, stderr } = await new Deno.Command("sh", {
          args: ["-c", script, "sh", ...murCommand(args)],
          cwd: home,
          clearEnv: true,
          env: murEnvironment({ home }),
        }).output();
        return { code, err: new TextDecoder().decode(stderr) };
      };
      for (const args of [["schema"], ["config", "list"], ["--help"]]) {
        const { code, err } = await run("> /dev/full", ...args);
        assert.equal(code, 1, args.join(" "));
        assert.match(err, /^error\[E-IO-003\]: cannot write standard output: No space left/);
      }
      assert.deepEqual(await run("| true", "schema"), { code: 0, err: "" });
    }),
});
