/**
 * Paths that are written relative to the work folder and may never leave it (spec manifest 3.6). Text rules only: where
 * a path leads through symbolic links is decided where it is opened.
 *
 * @module
 */

/** Why a path is none of the work folder. */
export type WorkdirPathProblem = "absolute" | "escapes";

/** Judges a path: relative, and at no component above where it started. `a/../b` is fine, `a/../../a` is not. */
export function workdirPathProblem(path: string): WorkdirPathProblem | null {
  if (path.startsWith("/")) return "absolute";
  let depth = 0;
  for (const part of path.split("/")) {
    if (part === "" || part === ".") continue;
    depth += part === ".." ? -1 : 1;
    if (depth < 0) return "escapes";
  }
  return null;
}

/**
 * The path without empty, `.` and `..` components; `.` is the work folder itself.
 *
 * @param path One that {@linkcode workdirPathProblem} finds nothing wrong with.
 */
export function normalWorkdirPath(path: string): string {
  const parts: string[] = [];
  for (const part of path.split("/")) {
    if (part === "" || part === ".") continue;
    if (part === "..") parts.pop();
    else parts.push(part);
  }
  return parts.length === 0 ? "." : parts.join("/");
}

/** Whether `folder` is `path` or holds it, component by component: `tests` covers `tests/a`, not `tests2`. Both normal. */
export function workdirPathCovers(folder: string, path: string): boolean {
  return folder === "." || folder === path || path.startsWith(`${folder}/`);
}
