/**
 * Sessions as a tree: each below the one that delegated it. Pure.
 *
 * @module
 */

/** One session in the order it is shown. */
export interface TreeEntry<T> {
  readonly session: T;
  /** What stands in front of its name: nothing at the top, else the branch it hangs on. */
  readonly branch: string;
}

/**
 * Puts delegated sessions behind their parents. Siblings keep the order they are given in; a session whose parent is not
 * among them stands at the top.
 *
 * @param idOf Id of a session.
 * @param parentOf Id of the session that delegated it; `undefined`: nobody did.
 */
export function sessionTree<T>(
  sessions: readonly T[],
  idOf: (session: T) => string,
  parentOf: (session: T) => string | undefined,
): TreeEntry<T>[] {
  const ids = new Set(sessions.map(idOf));
  const children = Map.groupBy(sessions, (session) => {
    const parent = parentOf(session);
    return parent !== undefined && ids.has(parent) ? parent : null;
  });
  const entries: TreeEntry<T>[] = [];
  const shown = new Set<T>();
  const show = (siblings: readonly T[], indent: string | null) => {
    siblings.forEach((session, index) => {
      if (shown.has(session)) return;
      shown.add(session);
      const last = index === siblings.length - 1;
      entries.push({ session, branch: indent === null ? "" : `${indent}${last ? "└─ " : "├─ "}` });
      show(children.get(idOf(session)) ?? [], indent === null ? "" : `${indent}${last ? "   " : "│  "}`);
    });
  };
  show(children.get(null) ?? [], null);
  // Records are files: those that name each other in a circle are shown all the same.
  for (const session of sessions) if (!shown.has(session)) show([session], null);
  return entries;
}
