/**
 * `mur ps` without the parser of command lines: prompts and loops of shells ask for it, and the parser takes longer to load
 * than the list to print.
 *
 * @module
 */
import type { CliContext } from "./context.ts";
import { finalStatus, reportFailure } from "./failure.ts";
import { ps } from "./ps.ts";

/** Runs `mur ps` or `mur ps --json` and answers its status; `null` for any other arguments. */
export async function quickPs(args: readonly string[], context: CliContext): Promise<number | null> {
  const [command, flag, ...more] = args;
  if (command !== "ps" || (flag !== undefined && flag !== "--json") || more.length > 0) return null;
  const status = await ps(context, { json: flag === "--json" }).catch((error) => reportFailure(error, context));
  return finalStatus(status, context);
}
