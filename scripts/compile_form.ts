/**
 * The compile form of a program in one file: `deno compile`, which needs the base binary `denort` of the machine it builds
 * for. Deno fetches that from its own site; `DENORT_BIN` names a copy.
 *
 * @module
 */
import type { BuildTarget } from "./build_target.ts";
import type { ProgramFolder } from "./program_files.ts";

/** Nothing is fetched, asked, or read from a project, whatever lies around. Both forms start the program with these. */
export const ISOLATED_START: readonly string[] = [
  "--quiet",
  "--no-prompt",
  "--no-config",
  "--no-lock",
  "--no-remote",
  "--no-npm",
  "--cached-only",
  "--node-modules-dir=none",
];

/** Arguments of `deno` that make the file. */
export function compileArguments(program: ProgramFolder, target: BuildTarget, output: string): readonly string[] {
  return [
    "compile",
    ...ISOLATED_START,
    ...program.flags,
    // The helper and esbuild's program are executed, which only files on the disk are.
    "--self-extracting",
    "--include",
    program.folder,
    "--target",
    target.triple,
    "--output",
    output,
    `${program.folder}/${program.entry}`,
  ];
}

/**
 * Makes the file.
 *
 * @throws {Error} With Deno's words, which name the base binary when that is what is missing.
 */
export async function compileProgram(program: ProgramFolder, target: BuildTarget, output: string): Promise<void> {
  const { success, stderr } = await new Deno.Command(Deno.execPath(), {
    args: [...compileArguments(program, target, output)],
    stdin: "null",
    stdout: "null",
  }).output();
  if (!success) throw new Error(`deno compile: ${new TextDecoder().decode(stderr).trim()}`);
}

/** Whether the base binary is at hand, so that nothing need be fetched. */
export function hasCompileBase(env: { get(name: string): string | undefined } = Deno.env): boolean {
  return (env.get("DENORT_BIN") ?? "") !== "";
}
