/**
 * Commands with no grants to speak of, for tests of what lies around them: system call list, processes and network of
 * their own, the files of whoever runs the test.
 *
 * @module
 */
import { makeControlDirectory } from "../confine_control.ts";
import { checkoutHelper } from "../confine_helper.ts";
import type { CommandRecord } from "../confine_records.ts";
import { type ConfinedCommand, type ConfinedStart, startConfinedCommand } from "../confined_command.ts";

/** What a test says of a command. */
export interface PlainCommand extends Pick<ConfinedStart, "env" | "input" | "keep" | "spoolDir"> {
  readonly program: string;
  readonly args: readonly string[];
  readonly cwd: string;
  /** Limits. */
  readonly records?: readonly CommandRecord[];
}

/** Starts one; its control sockets lie in a directory made below `place`. */
export async function startPlainCommand(place: string, command: PlainCommand): Promise<ConfinedCommand> {
  const { program, args, cwd, records = [], ...streams } = command;
  const controlDirectory = `${place}/ctl`;
  makeControlDirectory(controlDirectory);
  return startConfinedCommand({
    ...streams,
    helper: await checkoutHelper(),
    controlDirectory,
    records: [
      { op: "tier", tier: "seccomp" },
      { op: "exec", path: program, argv: [program, ...args] },
      { op: "ids", uid: Deno.uid()!, gid: Deno.gid()! },
      { op: "cwd", path: cwd },
      ...records,
    ],
    connectMs: 10_000,
  });
}
