/**
 * What `capabilities.shell.allow` means on this host, resolved once at launch: which files its names may run, and what
 * those open to start (spec containment 4.1). A file made later under an allowed name gains nothing.
 *
 * @module
 */
import { elfClosure } from "./elf_closure.ts";
import { type ExecutablePath, findExecutables } from "./executable_path.ts";

/** One entry of `shell.allow`. */
export interface AllowedBinary {
  readonly name: string;
  /** Every match on `PATH`, the one that is run first; empty when there is none. */
  readonly matches: readonly ExecutablePath[];
}

/** The resolved allow list. */
export interface ShellAllow {
  /** In the order they are allowed, each name once. */
  readonly binaries: readonly AllowedBinary[];
  /** Canonical files that may be executed: every match, its loader and libraries. Without duplicates. */
  readonly execute: readonly string[];
}

/** Resolves the names; one that is nowhere on `path` contributes nothing. */
export function resolveShellAllow(names: readonly string[], path: string): ShellAllow {
  const binaries = [...new Set(names)].filter((name) => name !== "").map((name) => ({
    name,
    matches: findExecutables(name, path),
  }));
  const execute = new Set<string>();
  const roots = new Set(binaries.flatMap(({ matches }) => matches.map(({ canonical }) => canonical)));
  for (const root of roots) for (const file of elfClosure(root)) execute.add(file);
  return { binaries, execute: [...execute] };
}
