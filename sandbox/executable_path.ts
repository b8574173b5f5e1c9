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

/** The first match of a name, see {@linkcode findExecutables}; `null` without one. */
export function findExecutable(name: string, path: string): ExecutablePath | null {
  return search(name, path).next().value ?? null;
}

/**
 * Every regular file of that name with an execute bit, in the order of `PATH`. Relative and empty `PATH` entries are
 * passed over: they would mean the work folder.
 */
export function findExecutables(name: string, path: string): ExecutablePath[] {
  return [...search(name, path)];
}

function* search(name: string, path: string): Generator<ExecutablePath, undefined> {
  if (name === "" || name.includes("/") || name === "." || name === "..") return;
  for (const directory of path.split(":")) {
    if (!directory.startsWith("/")) continue;
    const invoked = `${directory.replace(/\/+$/, "")}/${name}`;
    let canonical: string;
    try {
      const stat = Deno.statSync(invoked);
      if (!stat.isFile || ((stat.mode ?? 0) & 0o111) === 0) continue;
      canonical = Deno.realPathSync(invoked);
    } catch {
      continue;
    }
    yield { invoked, canonical };
  }
}
