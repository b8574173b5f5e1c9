/**
 * `mur list`: what a store holds (spec cli 11.2).
 *
 * @module
 */
import { globalStore, projectStore, type StoreListing } from "../artifact/store.ts";
import { platformTag } from "../artifact/platform.ts";
import { projectRoot } from "../artifact/project_root.ts";
import type { CliContext } from "./context.ts";
import { printTable } from "./text_table.ts";
import { UsageError } from "./usage_error.ts";

/** Flags of `mur list`. */
export interface ListFlags {
  readonly global?: boolean;
  readonly all?: boolean;
  /** Prefix of an interface name. */
  readonly contract?: string;
}

/** Prints the project store's artifacts inside a project, else the global store's. */
export async function list(context: CliContext, flags: ListFlags): Promise<number> {
  if (flags.global && flags.all) throw new UsageError("--all does not go with -g");
  const root = await projectRoot(context.cwd);
  const inProject = root !== null && !flags.global;
  const scopes: { readonly scope: string; readonly rows: readonly StoreListing[] }[] = [];
  if (inProject) scopes.push({ scope: "project", rows: await projectStore(root).list() });
  if (!inProject || flags.all) scopes.push({ scope: "global", rows: await globalStore(context.home()).list() });

  const { contract } = flags;
  const header = ["NAME", "VERSION", "RUNTIME", "PLATFORMS"];
  if (contract !== undefined) header.push("CONTRACTS");
  if (flags.all) header.unshift("SCOPE");
  const cells: string[][] = [];
  for (const { scope, rows } of scopes) {
    for (const row of rows) {
      const names = [...(row.contracts?.exports ?? []), ...(row.contracts?.imports ?? [])];
      const matching = contract === undefined ? [] : [...new Set(names.filter((name) => name.startsWith(contract)))];
      if (contract !== undefined && matching.length === 0) continue;
      const platforms = row.platforms.map(platformTag).join(", ");
      const line = [row.name, row.version, row.role === "" ? "—" : row.role, platforms === "" ? "—" : platforms];
      if (contract !== undefined) line.push(matching.join(", "));
      cells.push(flags.all ? [scope, ...line] : line);
    }
  }
  if (cells.length === 0) context.stdout.line("No artifacts found.");
  else printTable(context.stdout, header, cells);
  return 0;
}
