/**
 * Which program a script is run by, as its first line says (spec containment 7.1).
 *
 * @module
 */

/** Most bytes of a first line that are read. */
const MAX_FIRST_LINE = 512;

/** A script's interpreter. */
export interface ScriptInterpreter {
  /** What the kernel executes, as written. */
  readonly path: string;
  /** Bare name of the program that reads the script. */
  readonly name: string;
}

/**
 * Reads the first line of a file; `null` when it is no script.
 *
 * `#!/usr/bin/env -S NAME=value python3 -u` names `python3`; `env` with nothing behind it names `env`.
 *
 * @param head The first bytes of the file.
 */
export function parseInterpreter(head: Uint8Array): ScriptInterpreter | null {
  if (head[0] !== 0x23 || head[1] !== 0x21) return null;
  const line = new TextDecoder().decode(head.subarray(2, MAX_FIRST_LINE)).split(/[\r\n]/, 1)[0]!;
  const [path = "", ...rest] = line.trim().split(/[ \t]+/);
  const name = path.slice(path.lastIndexOf("/") + 1);
  if (name !== "env") return { path, name };
  const named = rest.find((token) => !token.startsWith("-") && !token.includes("="));
  return { path, name: named === undefined ? "env" : named.slice(named.lastIndexOf("/") + 1) };
}

/** The interpreter of a file; `null` when it is no script or can't be read. */
export function interpreterOf(path: string): ScriptInterpreter | null {
  const head = new Uint8Array(MAX_FIRST_LINE);
  try {
    using file = Deno.openSync(path);
    return parseInterpreter(head.subarray(0, file.readSync(head) ?? 0));
  } catch {
    return null;
  }
}
