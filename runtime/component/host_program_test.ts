import assert from "node:assert/strict";
import { componentHostScript } from "./host_program.ts";

const REPOSITORY = decodeURIComponent(new URL("../../", import.meta.url).pathname);

Deno.test("the host is made without the caller's environment, and its text is the same everywhere", async () => {
  const directory = await Deno.makeTempDir({ prefix: "murmur-host-" });
  try {
    // The bundler would start this in place of its own helper if it were told of it.
    const spy = `${directory}/spy`;
    await Deno.writeTextFile(spy, `#!/bin/sh\nenv > ${directory}/seen\n`, { mode: 0o700 });
    const module = JSON.stringify(new URL("./host_program.ts", import.meta.url).href);
    const { success, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
      args: [
        "eval",
        "--config",
        `${REPOSITORY}deno.json`,
        `const { makeComponentHost } = await import(${module}); console.log(await makeComponentHost());`,
      ],
      cwd: directory,
      env: { ESBUILD_BINARY_PATH: spy, PROVIDER_API_KEY: "sk-1" },
    }).output();
    const text = new TextDecoder().decode(stdout);
    assert.ok(success, new TextDecoder().decode(stderr));
    await assert.rejects(Deno.stat(`${directory}/seen`), Deno.errors.NotFound);
    assert.equal(text.trimEnd(), (await componentHostScript())!.trimEnd());
    assert.deepEqual(text.split("\n").filter((line) => line.includes(REPOSITORY) || line.includes("../")), []);
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
});
