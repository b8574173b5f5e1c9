import assert from "node:assert/strict";
import { compileC, FLAGS } from "../sandbox/confine_build.ts";
import { compilersFor, hostTarget } from "../scripts/build_target.ts";

Deno.test("the launcher's SHA-256 is the standard's, by instruction and in plain C, for every length around a block", async () => {
  const folder = await Deno.makeTempDir();
  try {
    const source = decodeURIComponent(new URL("sha256_check.c", import.meta.url).pathname);
    await compileC([source], `${folder}/check`, ["-std=gnu11", ...FLAGS], compilersFor(hostTarget()), "the check");
    const lengths = [...Array.from({ length: 140 }, (_, length) => length), 100_003];
    for (const length of lengths) {
      const bytes = Uint8Array.from({ length }, (_, at) => (at * 31 + length) & 0xff);
      const expected = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes)).toHex();
      for (const args of [[], ["plain"]]) {
        const child = new Deno.Command(`${folder}/check`, { args, stdin: "piped", stdout: "piped" }).spawn();
        const writer = child.stdin.getWriter();
        await writer.write(bytes);
        await writer.close();
        const { stdout } = await child.output();
        assert.equal(new TextDecoder().decode(stdout), expected, `${length} bytes ${args}`);
      }
    }
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});
