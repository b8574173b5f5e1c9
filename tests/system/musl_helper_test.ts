import assert from "node:assert/strict";
import { buildConfine, confineSources } from "../../sandbox/confine_build.ts";
import { guardArguments } from "../../sandbox/guard.ts";

const SOURCES = decodeURIComponent(new URL("../../sandbox/confine", import.meta.url).pathname);

Deno.test("the helper builds with musl into a small static binary that runs programs", async () => {
  const directory = await Deno.makeTempDir();
  try {
    const helper = `${directory}/mur-confine`;
    await buildConfine(confineSources(SOURCES), helper);
    const { size } = await Deno.stat(helper);
    // glibc's static form is several times this size, so it was musl that was used.
    assert.ok(size <= 150 * 1024, `${size} bytes`);
    const child = new Deno.Command(helper, {
      args: guardArguments({}, "/bin/sh", ["-c", "echo out; echo err >&2; exit 7"]),
      stdin: "piped",
      stdout: "piped",
      stderr: "piped",
    }).spawn();
    const [stdout, stderr, status] = await Promise.all([
      new Response(child.stdout).text(),
      new Response(child.stderr).text(),
      child.status,
    ]);
    await child.stdin.close().catch(() => {});
    assert.equal(stdout, "out\n");
    assert.equal(stderr, "err\n");
    assert.equal(status.code, 7);
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
});
