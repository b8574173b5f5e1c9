import assert from "node:assert/strict";
import { MurError } from "../../base/errors.ts";
import { childArguments, childProgram } from "./child_command.ts";

Deno.test("the arguments are those of the specification, in their order, and hold no token", () => {
  const command = { capsule: "local/w", version: "0.1.0", sha256: "a".repeat(64), workdir: "/c", authenticated: false };
  const expected = `run --capsule local/w --capsule-version 0.1.0 --capsule-sha256 ${"a".repeat(64)} ` +
    "--workdir /c --json --no-env-file --spawn-grant-stdin";
  assert.deepEqual(childArguments(command), expected.split(" "));
  assert.deepEqual(childArguments({ ...command, authenticated: true }), `${expected} --readiness-tokens`.split(" "));
});

Deno.test("children run what MURMUR_MUR_BINARY names, else this program", async () => {
  const program = (binary: string | undefined, PATH = "/nowhere:/usr/bin:/bin") =>
    childProgram({ get: (name) => ({ MURMUR_MUR_BINARY: binary, PATH })[name] }, "/work");
  assert.deepEqual(program("/opt/mur"), { command: "/opt/mur", args: [], env: {} });
  assert.equal(program("bin/mur").command, "/work/bin/mur");
  assert.match(program("sh").command, /^\/(usr\/)?bin\/sh$/);
  const cached = (cache: string) =>
    childProgram({
      get: (name) => ({ MURMUR_MUR_BINARY: "/opt/mur", MURMUR_CACHE_DIR: cache, HOME: "/home/ada" })[name],
    }, "/work").env;
  assert.deepEqual(cached("/c"), { MURMUR_CACHE_DIR: "/c" });
  const own = Deno.build.os === "darwin" ? "Library/Caches" : ".cache";
  assert.deepEqual(cached(`/home/ada/${own}/murmur`), {}, "where its launcher looks by itself");
  assert.throws(() => program("no-such-mur"), (error) => error instanceof MurError && error.code === "E-IO-001");
  for (const unset of [undefined, "", "  "]) {
    const { command, args, env } = program(unset);
    const { success, stdout } = await new Deno.Command(command, {
      args: [...args, "--version"],
      clearEnv: true,
      // Where nothing of a project can configure it.
      cwd: "/",
      env: { HOME: Deno.env.get("HOME")!, PATH: Deno.env.get("PATH")!, ...env },
    }).output();
    assert.ok(success);
    assert.match(new TextDecoder().decode(stdout), /^mur \d/);
  }
});
