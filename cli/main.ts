/**
 * Entry of the `mur` executable.
 *
 * {@linkcode main} takes its arguments and a {@linkcode CliContext} and answers the exit status, so that programs that
 * embed the command line, tests first of all, can run it with streams, environment and time bounds of their own.
 *
 * What every start pays for is imported at the top; everything else is loaded by the command that needs it.
 *
 * @module
 */
import { VERSION } from "../base/version.ts";
import { type CliContext, processContext } from "./context.ts";

/**
 * Runs one `mur` command.
 *
 * @returns The exit status: 0, 1 for a coded failure, 2 for a usage error, or what the command defines (spec cli 1.2).
 */
export async function main(args: readonly string[], context: CliContext = processContext()): Promise<number> {
  // Answered before the parser is loaded: scripts ask for the version often.
  if (args.length === 1 && args[0] === "--version") {
    context.stdout.line(`mur ${VERSION}`);
    return 0;
  }
  // So is the list of what runs.
  if (args[0] === "ps") {
    const status = await (await import("./quick_ps.ts")).quickPs(args, context);
    if (status !== null) return status;
  }
  const { runApplication } = await import("./application.ts");
  return await runApplication(args, context);
}

if (import.meta.main) Deno.exit(await main(Deno.args));
