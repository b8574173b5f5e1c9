/**
 * Directories that are the owner's alone (spec cli 2.1).
 *
 * @module
 */
import { MurError, reasonOf } from "./errors.ts";
import type { MurmurHome } from "./murmur_home.ts";

/** Makes every missing component of an absolute path 0700. A component that is there keeps its mode. */
export function makePrivate(path: string): void {
  const missing: string[] = [];
  for (let current = path; current !== "/" && current !== ""; current = current.slice(0, current.lastIndexOf("/"))) {
    try {
      if (!Deno.statSync(current).isDirectory) throw new MurError("E-IO-003", `${current} is not a directory`);
      break;
    } catch (cause) {
      if (!(cause instanceof Deno.errors.NotFound)) throw cause;
      missing.push(current);
    }
  }
  for (const directory of missing.reverse()) {
    try {
      Deno.mkdirSync(directory, { mode: 0o700 });
      // The umask may have taken bits of the owner's.
      Deno.chmodSync(directory, 0o700);
    } catch (cause) {
      // Another launch made it meanwhile.
      if (!(cause instanceof Deno.errors.AlreadyExists)) throw cause;
    }
  }
}

/** `~/.murmur` with group and other bits removed and the owner's left alone (spec cli 2.1). */
export function prepareMurmurHome(home: MurmurHome): void {
  try {
    makePrivate(home.root);
    const { mode } = Deno.statSync(home.root);
    if (mode !== null && (mode & 0o077) !== 0) Deno.chmodSync(home.root, mode & 0o700);
  } catch (cause) {
    if (cause instanceof MurError) throw cause;
    throw new MurError("E-IO-003", `${home.root} cannot be used: ${reasonOf(cause)}`, {
      hint: "set HOME to a directory you own and may write",
      cause,
    });
  }
}
