import assert from "node:assert/strict";
import { denoDirectory, hiddenModeOf } from "../base/program.ts";
import { VERSION } from "../base/version.ts";
import { textTool } from "../runtime/component/testing/guests.ts";
import { Harness } from "../runtime/component/testing/harness.ts";
import { TRANSLATED } from "../runtime/component/translation_version.ts";
import { bundleMur } from "./bundle.ts";

const HIDDEN = "--murmur-hidden-mode";

Deno.test("the bundle answers its version, serves components and translates them in its hidden modes", async (t) => {
  const entry = await bundleMur();
  const folder = entry.slice(0, entry.lastIndexOf("/"));
  const run = ["run", "--quiet", "--no-prompt", "--no-lock", "--cached-only"];
  const env = { DENO_DIR: denoDirectory()!, NO_COLOR: "1" };
  const tool = await textTool("(i32.const 1024)");

  await t.step("version", async () => {
    const command = new Deno.Command(Deno.execPath(), {
      args: [...run, "--no-config", entry, "--version"],
      clearEnv: true,
      env,
    });
    const { stdout } = await command.output();
    assert.equal(new TextDecoder().decode(stdout), `mur ${VERSION}\n`);
  });

  await t.step("list of running capsules, by a program of its own or the whole one", async () => {
    const home = await Deno.makeTempDir();
    try {
      for (
        const [args, shown] of [[["ps"], /^no running capsules\n$/], [["ps", "--help"], /mur ps \[--json\]/]] as const
      ) {
        const command = new Deno.Command(Deno.execPath(), {
          args: [...run, "--no-config", "-A", entry, ...args],
          clearEnv: true,
          env: { ...env, HOME: home },
        });
        const { stdout, stderr } = await command.output();
        assert.match(new TextDecoder().decode(stdout), shown, new TextDecoder().decode(stderr));
      }
    } finally {
      await Deno.remove(home, { recursive: true });
    }
  });

  await t.step("component host", async () => {
    const hidden = [HIDDEN, "component-host"];
    assert.equal(hiddenModeOf(hidden), "component-host");
    await using harness = new Harness({
      startOverride: (memoryBytes) => ({
        command: Deno.execPath(),
        // Its own code is all it may read, and it gives that up before it serves.
        args: [...run, "--no-config", `--allow-read=${folder}`, entry, ...hidden],
        env,
        preamble: null,
        memoryBytes,
      }),
    });
    const spec = await harness.spec(tool);
    assert.equal((await harness.call(spec, {})).status, "passed");
    assert.equal((await harness.call(spec, {})).status, "passed");
  });

  await t.step("translator", async () => {
    const child = new Deno.Command(Deno.execPath(), {
      args: [...run, "--allow-read", "--allow-env", entry, HIDDEN, "translate-component"],
      clearEnv: true,
      env,
      stdin: "piped",
      stdout: "piped",
      stderr: "piped",
    }).spawn();
    const writer = child.stdin.getWriter();
    await writer.write(tool);
    await writer.close();
    const { stdout, stderr } = await child.output();
    assert.equal(stdout[0], TRANSLATED, new TextDecoder().decode(stderr));
  });
});
