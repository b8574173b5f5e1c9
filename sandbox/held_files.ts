/**
 * Files that have no name any more and are held open: they take place on a disk that no walk through its folders finds
 * (spec containment 14.3). Those of this process, which keeps the output of commands so, count as well.
 *
 * @module
 */
import { letOthersWork } from "../base/other_work.ts";
import type { RootedDir } from "../base/rooted_dir.ts";

/** Milliseconds of looking before other work gets its turn. */
const SLICE_MS = 8;

/** Bytes of a disk that a block stands for. */
const BLOCK = 512;

/** This process and all that descend from it. */
function processTree(): string[] {
  const children = new Map<string, string[]>();
  for (const { name } of Deno.readDirSync("/proc")) {
    if (!/^\d+$/.test(name)) continue;
    try {
      const stat = Deno.readTextFileSync(`/proc/${name}/stat`);
      // A program's name, in brackets, may hold anything.
      const parent = stat.slice(stat.lastIndexOf(")") + 2).split(" ")[1]!;
      children.set(parent, [...children.get(parent) ?? [], name]);
    } catch {
      // It has ended.
    }
  }
  const tree = [String(Deno.pid)];
  for (const pid of tree) tree.push(...children.get(pid) ?? []);
  return tree;
}

/** What tells a file from all others. */
function identityOf({ dev, ino }: Deno.FileInfo): string {
  return `${dev} ${ino}`;
}

/** The files without a name that this process has open now. Before the first command runs they hold nothing of one's. */
export function namelessOfThisProcess(): ReadonlySet<string> {
  const infos = Deno.build.os === "linux" ? descriptorsOf("self").map(statOf) : [];
  return new Set(infos.flatMap((info) => info?.isFile && info.nlink === 0 ? [identityOf(info)] : []));
}

/**
 * Bytes on the disks of `roots` of files without a name that this process or one it started has open, each counted once.
 * 0 where the system does not tell. Other work goes on meanwhile.
 *
 * @param before What {@linkcode namelessOfThisProcess} gave before the first command; not counted.
 * @param stop Ends the search early; the sum so far is then meaningless.
 */
export async function heldBytes(
  roots: readonly RootedDir[],
  before: ReadonlySet<string>,
  stop?: AbortSignal,
): Promise<number> {
  if (Deno.build.os !== "linux") return 0;
  const seen = new Set(before);
  let sum = 0;
  let slice = performance.now();
  try {
    const disks = new Set(roots.filter(({ fd }) => fd >= 0).map(({ fd }) => Deno.statSync(`/proc/self/fd/${fd}`).dev));
    for (const pid of processTree()) {
      for (const path of descriptorsOf(pid)) {
        if (performance.now() - slice > SLICE_MS) {
          await letOthersWork();
          if (stop?.aborted) return sum;
          slice = performance.now();
        }
        const info = statOf(path);
        if (info === null || !info.isFile || info.nlink !== 0 || !disks.has(info.dev)) continue;
        const key = identityOf(info);
        if (!seen.has(key)) sum += (info.blocks ?? 0) * BLOCK;
        seen.add(key);
      }
    }
  } catch {
    // No /proc.
  }
  return sum;
}

function descriptorsOf(pid: string): string[] {
  try {
    return [...Deno.readDirSync(`/proc/${pid}/fd`)].map(({ name }) => `/proc/${pid}/fd/${name}`);
  } catch {
    // It has ended, or is none of this user's.
    return [];
  }
}

function statOf(path: string): Deno.FileInfo | null {
  try {
    return Deno.statSync(path);
  } catch {
    return null;
  }
}
