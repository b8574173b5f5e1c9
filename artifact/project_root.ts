/**
 * Where a project begins (spec cli 2.2).
 *
 * @module
 */
import { parentDirectory } from "../base/paths.ts";

const MANIFEST_NAME = "murmur.yaml";

/** Directory of the nearest `murmur.yaml` at or above a directory; `null` when there is none. */
// deno-lint-ignore require-await -- a small file is read at once: turns of the event loop would cost a launch more
export async function projectRoot(from: string): Promise<string | null> {
  for (let directory = from;; directory = parentDirectory(directory)) {
    try {
      const { isFile, size } = Deno.statSync(`${directory === "/" ? "" : directory}/${MANIFEST_NAME}`);
      // An empty file of a trusted name is a placeholder and reads as absent (spec cli 2.2).
      if (isFile && size > 0) return directory;
    } catch (cause) {
      if (!(cause instanceof Deno.errors.NotFound) && !(cause instanceof Deno.errors.NotADirectory)) throw cause;
    }
    if (directory === "/") return null;
  }
}

/**
 * The directories in which the search for a project's root looked and found nothing: a manifest in one of them would make it
 * the root.
 *
 * @param root What {@linkcode projectRoot} answered for `from`.
 */
export function directoriesBelowRoot(from: string, root: string | null): string[] {
  const passed: string[] = [];
  for (let directory = from; directory !== root; directory = parentDirectory(directory)) {
    passed.push(directory);
    if (directory === "/") break;
  }
  return passed;
}
