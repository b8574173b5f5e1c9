/**
 * The helper built with the compiler's sanitizers, which end it at the first fault they see.
 *
 * @module
 */
import { confineSources } from "../confine_build.ts";

const DIRECTORY = decodeURIComponent(new URL("../confine", import.meta.url).pathname);

/** Whether this machine's compiler has the sanitizers, and if so the programs built with them in a directory. */
export async function buildSanitized(
  target: string,
  sources: readonly string[] = confineSources(DIRECTORY),
): Promise<boolean> {
  const { success, stderr } = await new Deno.Command("cc", {
    args: [
      "-std=c11",
      "-g",
      "-O1",
      "-Wall",
      "-Wextra",
      "-Werror",
      "-fno-omit-frame-pointer",
      "-fsanitize=address,undefined",
      "-fno-sanitize-recover=all",
      `-I${DIRECTORY}`,
      "-o",
      target,
      ...sources.filter((path) => path.endsWith(".c")),
    ],
    stdin: "null",
    stdout: "null",
    stderr: "piped",
  }).output();
  const said = new TextDecoder().decode(stderr);
  // The run-time part of the sanitizers is a package of its own on some systems.
  if (!success && /lib(?:asan|ubsan)|cannot find -l/.test(said)) return false;
  if (!success) throw new Error(said);
  return true;
}

/** Path of one of the helper's files, or of a test's beside them. */
export function confineSource(name: string): string {
  return `${DIRECTORY}/${name}`;
}
