/**
 * Finding the binary a bare name means, once at launch (spec containment 4.1, rule 2).
 *
 * @module
 */

/** A name resolved on `PATH`. */
export interface ExecutablePath {
  /** The first match: what is executed, since programs of many names look at their own. */
  readonly invoked: string;
  /** The same, canonical: what traces and reports name. */
  readonly canonical: string;
}

/**
 * The first regular file of that name with an execute bit. Relative and empty `PATH` entries are passed over: they would
 * mean the work folder.
 */
export function findExecutable(name: string, path: string): ExecutablePath | null {
  if (name === "" || name.includes("/") || name === "." || name === "..") return null;
  for (const directory of path.split(":")) {
    if (!directory.startsWith("/")) continue;
    const invoked = `${directory.replace(/\/+$/, "")}/${name}`;
    try {
      const stat = Deno.statSync(invoked);
      if (!stat.isFile || ((stat.mode ?? 0) & 0o111) === 0) continue;
      return { invoked, canonical: Deno.realPathSync(invoked) };
    } catch {
      // Not here.
    }
  }
  return null;
}
