/**
 * C programs of the escape suite, built for a test.
 *
 * @module
 */
import assert from "node:assert/strict";

/** Builds `tests/escape/<name>.c` as a static program `<directory>/<name>`; its path. */
export async function buildTestProgram(name: string, directory: string): Promise<string> {
  const source = decodeURIComponent(new URL(`../escape/${name}.c`, import.meta.url).pathname);
  const target = `${directory}/${name}`;
  const { success, stderr } = await new Deno.Command("cc", {
    args: ["-static", "-O1", "-Wall", "-Wextra", "-Werror", "-o", target, source],
  }).output();
  assert.ok(success, new TextDecoder().decode(stderr));
  return target;
}
