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

/** Every directory strictly between `folder` and `path`, which lies below it, from the top down. */
export function directoriesBetween(folder: string, path: string): string[] {
  const prefix = folder === "/" ? "" : folder;
  const steps = path.slice(prefix.length + 1).split("/").slice(0, -1);
  return steps.map((_, index) => `${prefix}/${steps.slice(0, index + 1).join("/")}`);
}
