/**
 * Path arithmetic without the file system.
 *
 * @module
 */

/** Absolute form of a path, taken against `cwd`; `.` and `..` are resolved as text, a trailing slash goes. */
export function absolutePath(cwd: string, path: string): string {
  const joined = path.startsWith("/") ? path : `${cwd}/${path}`;
  const parts: string[] = [];
  for (const part of joined.split("/")) {
    if (part === "..") parts.pop();
    else if (part !== "" && part !== ".") parts.push(part);
  }
  return `/${parts.join("/")}`;
}

/** The directory part of an absolute path. */
export function parentDirectory(path: string): string {
  return path.slice(0, path.lastIndexOf("/")) || "/";
}

/** Whether an absolute path is a folder or lies in it, component by component: `/a/bc` does not lie in `/a/b`. */
export function isAtOrBelow(path: string, folder: string): boolean {
  return path === folder || path.startsWith(folder === "/" ? "/" : `${folder}/`);
}
