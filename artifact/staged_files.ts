/**
 * Putting the files of one set in place together: all are staged beside their places, then renamed; whoever fails or
 * dies in between leaves what the next writer takes back (spec cli 7, rule 3).
 *
 * A set is files that differ in their suffix alone. The last suffix is staged last and renamed last, so it is still
 * staged exactly when all were staged and the write did not reach its end. What stood there before is kept under a second
 * name until then.
 *
 * @module
 */
import { pathExists } from "../base/path_exists.ts";

/** A suffix and the new content of the file that ends with it. */
export interface SetPart {
  readonly suffix: string;
  readonly content: string | Uint8Array;
}

type Role = "staged" | "before" | "restore";

const BESIDE = /^\.(.+)\.([0-9a-f]{32})\.(staged|before|restore)$/;

function beside(stem: string, suffix: string, id: string, role: Role): string {
  const slash = stem.lastIndexOf("/");
  return `${stem.slice(0, slash + 1)}.${stem.slice(slash + 1)}${suffix}.${id}.${role}`;
}

/**
 * Puts the files of a set in place of what is there, all or none. The caller holds the directory's lock.
 *
 * @param stem Path of every file of the set, without its suffix.
 * @throws What the file operation threw, after everything was taken back.
 */
export async function replaceSet(stem: string, parts: readonly SetPart[]): Promise<void> {
  const id = crypto.randomUUID().replaceAll("-", "");
  const suffixes = parts.map((part) => part.suffix);
  try {
    for (const { suffix, content } of parts) await writeNewFile(beside(stem, suffix, id, "staged"), content);
    for (const suffix of suffixes) await keepBefore(`${stem}${suffix}`, beside(stem, suffix, id, "before"));
    for (const suffix of suffixes) await Deno.rename(beside(stem, suffix, id, "staged"), `${stem}${suffix}`);
  } catch (error) {
    await undo(stem, suffixes, id);
    throw error;
  }
  for (const suffix of suffixes) await removeQuietly(beside(stem, suffix, id, "before"));
}

/**
 * Takes back what writers that were killed left in a directory. The caller holds its lock; being killed in here is
 * harmless, the next call goes on.
 *
 * @param suffixes Those of the sets written there, in the order of {@linkcode replaceSet}.
 */
export async function undoInterruptedWrites(directory: string, suffixes: readonly string[]): Promise<void> {
  const found = new Map<string, string>();
  for await (const entry of Deno.readDir(directory)) {
    const match = BESIDE.exec(entry.name);
    if (match === null) continue;
    const suffix = suffixes.find((candidate) => match[1]!.endsWith(candidate));
    if (suffix !== undefined) found.set(match[2]!, match[1]!.slice(0, -suffix.length));
  }
  for (const [id, stem] of found) await undo(`${directory}/${stem}`, suffixes, id);
}

async function undo(stem: string, suffixes: readonly string[], id: string): Promise<void> {
  const last = suffixes.at(-1)!;
  if (await pathExists(beside(stem, last, id, "staged"))) {
    for (const suffix of suffixes) {
      const path = `${stem}${suffix}`;
      // Still staged: what is in its place was not touched.
      if (await pathExists(beside(stem, suffix, id, "staged"))) continue;
      const before = beside(stem, suffix, id, "before");
      if (await pathExists(before)) {
        // A copy, so that being killed here leaves what this starts from.
        const copy = beside(stem, suffix, id, "restore");
        await Deno.copyFile(before, copy);
        await Deno.rename(copy, path);
      } else {
        await removeQuietly(path);
      }
    }
  }
  // The mark that something is to be taken back goes first.
  await removeQuietly(beside(stem, last, id, "staged"));
  for (const suffix of suffixes) {
    for (const role of ["staged", "before", "restore"] as const) await removeQuietly(beside(stem, suffix, id, role));
  }
}

/** Keeps what is at `path` under a second name, when there is something. */
async function keepBefore(path: string, before: string): Promise<void> {
  try {
    await Deno.link(path, before);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return;
    // A file system without hard links.
    await Deno.copyFile(path, before);
  }
}

/**
 * Creates a file that must not exist yet, writes it whole and syncs it to the disk. A file that could not be written
 * whole is removed again.
 */
export async function writeNewFile(path: string, content: Uint8Array | string): Promise<void> {
  const file = await Deno.open(path, { write: true, createNew: true });
  try {
    let rest = typeof content === "string" ? new TextEncoder().encode(content) : content;
    while (rest.length > 0) rest = rest.subarray(await file.write(rest));
    await file.sync();
  } catch (error) {
    file.close();
    await removeQuietly(path);
    throw error;
  }
  file.close();
}

/** Removes a file that may be gone already; used where another failure is being reported. */
export async function removeQuietly(path: string): Promise<void> {
  try {
    await Deno.remove(path);
  } catch {
    // The failure that led here is the one that is told.
  }
}
