/**
 * The contained commands once more, under a helper built with the address and undefined-behaviour sanitizers.
 *
 * @module
 */
import { testConfinedCommands } from "../tests/support/confined_command_suite.ts";
import { buildSanitized } from "./testing/sanitized_helper.ts";

let directory: string | undefined;
let built: Promise<string | null> | undefined;

async function build(): Promise<string | null> {
  directory = await Deno.makeTempDir();
  const program = `${directory}/mur-confine`;
  return await buildSanitized(program) ? program : null;
}

testConfinedCommands("sanitized", () => built ??= build());

Deno.test("sanitized: the built helper is removed", async () => {
  if (directory !== undefined) await Deno.remove(directory, { recursive: true });
});
