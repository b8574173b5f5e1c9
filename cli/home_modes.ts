/**
 * The modes of what lies in `~/.murmur`, against what spec cli 2.1 says of each entry.
 *
 * @module
 */
import { reasonOf } from "../base/errors.ts";
import type { MurmurHome } from "../base/murmur_home.ts";

/** How an entry of the home is to be kept. */
interface EntryRule {
  /** For nobody but its owner. */
  readonly ownerOnly: boolean;
  /** How many levels of directories below are owner-only too. */
  readonly depth: number;
  /** Whether files on those levels are. */
  readonly files: boolean;
}

/** The known entries, in the order of spec cli 2.1. */
const RULES: ReadonlyMap<string, EntryRule> = new Map([
  [".", { ownerOnly: true, depth: 0, files: false }],
  ["config.yaml", { ownerOnly: true, depth: 0, files: false }],
  ["artifacts", { ownerOnly: false, depth: 0, files: false }],
  ["compiled", { ownerOnly: true, depth: 0, files: false }],
  ["running", { ownerOnly: true, depth: 0, files: true }],
  ["records", { ownerOnly: true, depth: Infinity, files: false }],
  ["sessions", { ownerOnly: true, depth: 1, files: false }],
  ["conversations", { ownerOnly: true, depth: 2, files: true }],
  ["state", { ownerOnly: true, depth: 1, files: false }],
  ["spend", { ownerOnly: true, depth: 0, files: true }],
  ["formations", { ownerOnly: true, depth: 2, files: false }],
  ["deployments.json", { ownerOnly: true, depth: 0, files: false }],
  ["deploy_staging", { ownerOnly: true, depth: 0, files: false }],
  ["deploy_keys", { ownerOnly: true, depth: 0, files: true }],
  ["bin", { ownerOnly: false, depth: 0, files: false }],
]);

/** Most entries looked at below the home. */
const MAX_LOOKED_AT = 20_000;

/** A path that others than its owner can use. */
export interface WiderPath {
  readonly path: string;
  readonly mode: number;
  readonly expected: number;
}

/** What was found of one entry. */
export interface HomeEntry {
  readonly name: string;
  readonly state:
    | { readonly kind: "mode"; readonly mode: number }
    | { readonly kind: "absent" }
    | { readonly kind: "unreadable"; readonly reason: string };
  readonly ownerOnly: boolean;
  /** The entry itself and what lies below it, where it is too wide. */
  readonly wider: readonly WiderPath[];
}

/** Looks at a home: the known entries in their order, then any other by name. */
export async function inspectHome(home: MurmurHome): Promise<readonly HomeEntry[]> {
  const names = [...RULES.keys()];
  try {
    const found = (await Array.fromAsync(Deno.readDir(home.root))).map((entry) => entry.name).sort();
    names.push(...found.filter((name) => !RULES.has(name)));
  } catch {
    // The line of the home itself says why.
  }
  const budget = { left: MAX_LOOKED_AT };
  const entries: HomeEntry[] = [];
  for (const name of names) entries.push(await inspectEntry(home.root, name, budget));
  return entries;
}

async function inspectEntry(root: string, name: string, budget: { left: number }): Promise<HomeEntry> {
  const rule = RULES.get(name) ?? { ownerOnly: false, depth: 0, files: false };
  const path = name === "." ? root : `${root}/${name}`;
  let info: Deno.FileInfo;
  try {
    info = await Deno.lstat(path);
  } catch (error) {
    const { ownerOnly } = rule;
    if (error instanceof Deno.errors.NotFound || error instanceof Deno.errors.NotADirectory) {
      return { name, state: { kind: "absent" }, ownerOnly, wider: [] };
    }
    return { name, state: { kind: "unreadable", reason: reasonOf(error) }, ownerOnly, wider: [] };
  }
  const mode = (info.mode ?? 0) & 0o777;
  const wider: WiderPath[] = [];
  if (rule.ownerOnly) {
    judge(path, info, wider);
    if (info.isDirectory && name !== ".") await walk(path, rule.depth, rule, budget, wider);
  }
  return { name, state: { kind: "mode", mode }, ownerOnly: rule.ownerOnly, wider };
}

function judge(path: string, info: Deno.FileInfo, wider: WiderPath[]): void {
  const mode = (info.mode ?? 0) & 0o777;
  // The mode of a symbolic link says nothing.
  if (info.isSymlink || (mode & 0o077) === 0) return;
  wider.push({ path, mode, expected: info.isDirectory ? 0o700 : 0o600 });
}

async function walk(
  directory: string,
  depth: number,
  rule: EntryRule,
  budget: { left: number },
  wider: WiderPath[],
): Promise<void> {
  let entries: Deno.DirEntry[];
  try {
    entries = (await Array.fromAsync(Deno.readDir(directory))).sort((a, b) => (a.name < b.name ? -1 : 1));
  } catch {
    return;
  }
  for (const entry of entries) {
    const looksAt = entry.isDirectory ? depth > 0 : rule.files && entry.isFile;
    if (!looksAt || budget.left-- <= 0) continue;
    const path = `${directory}/${entry.name}`;
    try {
      judge(path, await Deno.lstat(path), wider);
    } catch {
      // Gone since it was listed.
      continue;
    }
    // What a session keeps in its own directory is behind that directory's mode.
    if (entry.isDirectory && !entry.name.startsWith("ses_")) await walk(path, depth - 1, rule, budget, wider);
  }
}

/** `0700` and the like. */
export function octalMode(mode: number): string {
  return mode.toString(8).padStart(4, "0");
}
