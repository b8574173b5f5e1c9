/**
 * Starting a component host behind its walls (spec containment 19.12, components 3.9).
 *
 * @module
 */
import { elfClosure } from "./elf_closure.ts";
import { guardArguments } from "./guard.ts";

/** A program to run as component host. */
export interface ComponentHostProgram {
  /** Absolute path. */
  readonly command: string;
  readonly args: readonly string[];
  /** Files and directories it reads besides itself and its libraries. */
  readonly reads: readonly string[];
}

/** Closures of this process's host programs: several hosts are started, and reading the files takes milliseconds. */
const closures = new Map<string, readonly string[]>();

/**
 * The helper's arguments for a component host: what the program and its libraries need is left readable and executable,
 * `reads` readable, nothing writable. The host's standard input stays its own; when its other end closes, or this process
 * ends in any way, the host is killed.
 *
 * @param memoryBytes Kill the host when more of it is resident.
 */
export function componentHostArguments(program: ComponentHostProgram, memoryBytes?: number): string[] {
  const command = Deno.realPathSync(program.command);
  let closure = closures.get(command);
  if (closure === undefined) closures.set(command, closure = elfClosure(command));
  return guardArguments(
    {
      input: "pass",
      componentHost: { execute: closure, read: program.reads },
      ...(memoryBytes === undefined ? {} : { samples: { memory_bytes: memoryBytes } }),
    },
    command,
    program.args,
  );
}
