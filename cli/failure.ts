/**
 * How a failed command is reported: the error as the last thing on stderr, and the exit status (spec diagnostics 1.1).
 *
 * @module
 */
import { formatError, ioError, MurError, reasonOf } from "../base/errors.ts";
import type { CliContext } from "./context.ts";
import { UsageError } from "./usage_error.ts";

/** Exit status of a usage error (spec cli 1.2). */
export const USAGE_STATUS = 2;

/** Prints a failure and answers its exit status: 2 for a usage error, 1 for every coded one. */
export function reportFailure(error: unknown, context: CliContext): number {
  if (error instanceof UsageError) {
    context.stderr.line(`mur: ${error.message}`);
    return USAGE_STATUS;
  }
  if (error instanceof MurError) {
    context.stderr.line(formatError(error));
    return 1;
  }
  if (isSystemError(error)) {
    const { code } = ioError("go on", error);
    context.stderr.line(formatError(new MurError(code, `the system refused what was to be done: ${reasonOf(error)}`)));
    return 1;
  }
  // A defect of this program, not of its input: the stack helps whoever mends it.
  context.stderr.line(formatError(
    new MurError("E-IO-003", `unexpected failure: ${reasonOf(error)}`, {
      hint: "this is a defect of mur; set MUR_DEBUG=1 to see where it happened",
    }),
  ));
  if (context.env.get("MUR_DEBUG") && error instanceof Error && error.stack) context.stderr.line(error.stack);
  return 1;
}

/**
 * The status of a command that has run: a success whose output could not be written is none.
 *
 * @param keepsStatus A session ends with the status of its tasks, whatever becomes of its streams (spec cli 12.4).
 */
export function finalStatus(status: number, context: CliContext, keepsStatus = false): number {
  const lost = context.lostOutput();
  return lost === null || status !== 0 || keepsStatus
    ? status
    : reportFailure(ioError("write standard output", lost), context);
}

/** Whether the operating system refused something, which is no defect of this program; such errors carry its name. */
function isSystemError(error: unknown): error is Error {
  return error instanceof Error && "code" in error && typeof error.code === "string" && /^E[A-Z0-9]+$/.test(error.code);
}
