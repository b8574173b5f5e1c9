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
 * Files a process has mapped to be executed: the program, its interpreter and its libraries, as the loader found them.
 * Reading it takes a fraction of what taking the files apart does.
 *
 * @param maps Text of `/proc/<pid>/maps`.
 * @param program Canonical path of the program that runs there.
 * @returns canonical paths, the program first; `null` when the text does not tell them all.
 */
export function mappedFiles(maps: string, program: string): string[] | null {
  const found = new Set([program]);
  let itself = false;
  for (const [, path] of maps.matchAll(/^[^ ]+ ..x[^/\n]*(\/.*)$/gm)) {
    // One replaced on disk is no longer what the next process is given.
    if (path!.endsWith(" (deleted)") || path!.includes("\\")) return null;
    itself ||= path === program;
    found.add(path!);
  }
  return itself ? [...found] : null;
}

/** What a program needs to start. One that runs here already tells by what it is made of. */
function needsOf(command: string): readonly string[] {
  try {
    const own = mappedFiles(Deno.readTextFileSync("/proc/self/maps"), command);
    if (own !== null) return own;
  } catch {
    // Not every system tells it.
  }
  return elfClosure(command);
}

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
  if (closure === undefined) closures.set(command, closure = needsOf(command));
  return guardArguments(
    {
      componentHost: { execute: closure, read: program.reads },
      ...(memoryBytes === undefined ? {} : { memoryBytes }),
    },
    command,
    program.args,
  );
}
