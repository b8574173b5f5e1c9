/**
 * Shells that complete `mur` with the script it prints.
 *
 * @module
 */
import assert from "node:assert/strict";
import { murCommand } from "./mur_process.ts";

/** Runs a script in a shell where `mur` is this checkout's. */
export async function inShell(shell: string, args: readonly string[], script: string, home: string): Promise<string> {
  const quoted = murCommand([]).map((word) => `'${word}'`).join(" ");
  await Deno.writeTextFile(`${home}/mur`, `#!/bin/sh\nexec ${quoted} "$@"\n`, { mode: 0o755 });
  const { stdout, stderr } = await new Deno.Command(shell, {
    args: [...args, script],
    env: {
      PATH: `${home}:${Deno.env.get("PATH")}`,
      HOME: home,
      DENO_DIR: Deno.env.get("DENO_DIR") ?? `${Deno.env.get("HOME")}/.cache/deno`,
    },
    cwd: home,
  }).output();
  const decoder = new TextDecoder();
  assert.equal(decoder.decode(stderr), "");
  return decoder.decode(stdout);
}
