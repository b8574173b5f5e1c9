/**
 * Removing what is kept of sessions: records directories, and those of the delegated children whose work folders lie in
 * them (spec trace 12.6).
 *
 * @module
 */
import { ioError, MurError } from "../../base/errors.ts";
import { isId } from "../../base/ids.ts";
import type { MurmurHome } from "../../base/murmur_home.ts";
import { RootedDir } from "../../base/rooted_dir.ts";
import { isRootedError } from "../../base/rooted_error.ts";
import { groupSessions, type RecordedSession } from "./session_address.ts";

/** A session and all that goes with it, children before their parents. */
export async function sessionTree(home: MurmurHome, session: RecordedSession): Promise<RecordedSession[]> {
  const tree: RecordedSession[] = [];
  for (const folder of await childFolders(session)) {
    for (const child of await groupSessions({ home, directory: folder })) tree.push(...await sessionTree(home, child));
  }
  return [...tree, session];
}

/** Folders of a records directory that commands may write. */
const COMMANDS_FOLDERS: ReadonlySet<string> = new Set(["home", "tmp"]);

/**
 * Sessions of other launches whose records lie in this one's: a launch whose work folder is that session's own, or below it,
 * has its group there. They are none of its records.
 */
export async function foreignSessions(session: RecordedSession): Promise<RecordedSession[]> {
  const found: RecordedSession[] = [];
  const look = async (directory: string, isCommands: boolean) => {
    const isTop = directory === session.directory;
    try {
      for await (const { name, isDirectory } of Deno.readDir(directory)) {
        // Work folders of delegated children; their records lie elsewhere.
        if (!isDirectory || (isTop && name === "children")) continue;
        if (isId("ses", name)) found.push({ id: name, directory: `${directory}/${name}` });
        else await look(`${directory}/${name}`, isCommands || (isTop && COMMANDS_FOLDERS.has(name)));
      }
    } catch (cause) {
      // A command closed it, or nested folders past what a path can name: no launch was there.
      if (!isCommands) throw cause;
    }
  };
  try {
    await look(session.directory, false);
  } catch (cause) {
    if (!(cause instanceof Deno.errors.NotFound)) throw ioError(`list ${session.directory}`, cause);
  }
  return found.sort((a, b) => (a.directory < b.directory ? -1 : 1));
}

/** Work folders of the children a session delegated to. */
async function childFolders(session: RecordedSession): Promise<string[]> {
  const children = `${session.directory}/children`;
  const folders: string[] = [];
  try {
    for await (const entry of Deno.readDir(children)) if (entry.isDirectory) folders.push(`${children}/${entry.name}`);
  } catch (cause) {
    if (!(cause instanceof Deno.errors.NotFound)) throw ioError(`list ${children}`, cause);
  }
  return folders.sort();
}

/**
 * Removes records directories whole, in the order given. What fails leaves the later ones, so that a parent, which names
 * its children, goes after them.
 *
 * @param removed Told of each session that is gone.
 * @throws {MurError} `E-IO-002`, `E-IO-003`.
 */
export function removeSessions(
  home: MurmurHome,
  sessions: readonly RecordedSession[],
  removed: (session: RecordedSession) => void,
): void {
  using root = RootedDir.open(home.records, { symlinks: "refuse" });
  for (const session of sessions) {
    const below = session.directory.slice(home.records.length + 1);
    try {
      root.removeAll(below);
    } catch (error) {
      if (!(error instanceof MurError)) throw error;
      throw new MurError(error.code, `cannot remove ${session.directory}: ${error.message}`, {
        hint: `chmod -R u+rwX ${session.directory} lets its owner remove what a command closed`,
        cause: error,
      });
    }
    removeEmptyGroup(root, session.directory.slice(home.records.length + 1));
    removed(session);
  }
}

/**
 * Removes the group a child's session lay in, upwards as far as its parent's name goes: nobody starts there any more. The
 * groups of other folders stay, empty or not, since a launch may be about to use one.
 */
function removeEmptyGroup(root: RootedDir, removed: string): void {
  const parts = removed.split("/");
  for (parts.pop(); parts.some((part) => part.startsWith("ses_")); parts.pop()) {
    try {
      root.rmdir(parts.join("/"));
    } catch (error) {
      // It still holds something, or is gone.
      if (isRootedError(error)) return;
      throw error;
    }
  }
}
