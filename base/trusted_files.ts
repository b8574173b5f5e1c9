/**
 * Files a later launch trusts: the manifest, the lock file, `.env`, `.murmur/`, prompt files, local skills. They are never
 * writable through a rooted directory that was given their list, under no name and by no way (spec containment 4.8,
 * rule 3; session 4.7).
 *
 * @module
 */
import { AT_FDCWD, AT_SYMLINK_NOFOLLOW, type CString, cString, type FileStat, type Libc, O } from "./libc.ts";
import { RootedError } from "./rooted_error.ts";

/** One trusted path. */
export interface TrustedPath {
  /** Absolute path. It need not exist: then it can't be created. */
  readonly path: string;
  /** Whether everything below it is trusted too. */
  readonly tree?: boolean;
  /** A tree of which nothing may even be read: keys and records of all sessions (spec session 4.2). */
  readonly hidden?: boolean;
}

/** A list of trusted paths, for `RootedDir.open`. */
export class TrustedFiles {
  readonly paths: readonly TrustedPath[];

  constructor(paths: Iterable<TrustedPath>) {
    this.paths = [...paths];
  }
}

/** Symbolic links followed while a trusted path is taken apart. */
const MAX_LINKS = 40;

/** Directories above a place that are looked at before it counts as lost. */
const MAX_DEPTH = 1_024;

/** Entries of trusted trees that are compared with a file that has more than one name. */
const MAX_TREE_ENTRIES = 100_000;

const SELF: CString = cString(".")!;
const PARENT: CString = cString("..")!;

function key(stat: FileStat): string {
  return `${stat.dev}:${stat.ino}`;
}

/** Spelling that equal names share on file systems that ignore case or normalise. */
function folded(name: string): string {
  return name.normalize("NFKC").toUpperCase();
}

/** The last step of a trusted path: a held directory and the name in it. */
interface Leaf {
  readonly dir: number;
  readonly name: CString;
  readonly tree: boolean;
  readonly hidden: boolean;
}

/** The trusted files that lie below one root, ready to be asked before every change. */
export class TrustGuard {
  readonly #c: Libc;
  readonly #root: string;
  /** Names nobody may change, by the directory that holds them: the trusted paths and every step towards them. */
  readonly #names = new Map<string, Set<string>>();
  /** Directories on the way to a trusted path. */
  readonly #ancestors = new Set<string>();
  /** Directories of which everything inside is trusted, held. */
  readonly #trees = new Map<string, number>();
  /** The last steps: a held directory and the name in it. Looked up at each question, so a rewritten file stays trusted. */
  readonly #leaves: Leaf[] = [];
  #closed = false;

  private constructor(c: Libc, root: string) {
    this.#c = c;
    this.#root = root;
  }

  /** The guard of a root, or `null` when none of the paths lies below it. */
  static of(c: Libc, root: number, trusted: TrustedFiles): TrustGuard | null {
    const stat = c.fstat(root);
    if (typeof stat === "number") return null;
    const guard = new TrustGuard(c, key(stat));
    for (const { path, tree, hidden } of trusted.paths) guard.#add(path, tree ?? false, hidden ?? false);
    if (guard.#names.size > 0) return guard;
    guard.close();
    return null;
  }

  /** Walks from `/` to the path and notes every step that lies below the root, links and their targets included. */
  #add(path: string, tree: boolean, hidden: boolean): void {
    const c = this.#c;
    const start = c.openat(AT_FDCWD, cString("/")!, O.PATH | O.DIRECTORY);
    if (start < 0) return;
    const stack = [start];
    const depthOfRoot: number[] = [];
    const note = () => {
      const stat = c.fstat(stack.at(-1)!);
      if (typeof stat !== "number" && key(stat) === this.#root) depthOfRoot.push(stack.length);
    };
    note();
    const pending = path.split("/").reverse();
    let links = 0;
    try {
      for (;;) {
        const name = pending.pop();
        if (name === undefined) return;
        if (name === "" || name === ".") continue;
        if (name === "..") {
          if (stack.length > 1) c.close(stack.pop()!);
          while (depthOfRoot.length > 0 && depthOfRoot.at(-1)! > stack.length) depthOfRoot.pop();
          continue;
        }
        const dir = stack.at(-1)!;
        const bytes = cString(name);
        if (bytes === null) return;
        const last = pending.every((piece) => piece === "" || piece === ".");
        const below = depthOfRoot.length > 0;
        const stat = c.statx(dir, bytes, AT_SYMLINK_NOFOLLOW);
        if (below) this.#protect(dir, name, bytes, last || typeof stat === "number" ? { tree, hidden } : null);
        // Nothing there yet: its first missing step is protected, so it can't come to be.
        if (typeof stat === "number") return;
        if (stat.kind === "symlink") {
          const target = c.readlinkat(dir, bytes);
          if (typeof target === "number" || ++links > MAX_LINKS) return;
          const text = new TextDecoder().decode(target);
          if (text.startsWith("/")) {
            for (const fd of stack.splice(1)) c.close(fd);
            depthOfRoot.length = 0;
            note();
          }
          pending.push(...text.split("/").reverse());
          continue;
        }
        if (stat.kind !== "directory") return;
        const next = c.openat(dir, bytes, O.PATH | O.DIRECTORY | O.NOFOLLOW);
        if (next < 0) return;
        stack.push(next);
        if (below) {
          this.#ancestors.add(key(stat));
          if (last && tree && !this.#trees.has(key(stat))) {
            this.#trees.set(key(stat), this.#hold(next));
          }
        }
        note();
      }
    } finally {
      for (const fd of stack) c.close(fd);
    }
  }

  #protect(dir: number, name: string, bytes: CString, leaf: Pick<Leaf, "tree" | "hidden"> | null): void {
    const stat = this.#c.fstat(dir);
    if (typeof stat === "number") return;
    let names = this.#names.get(key(stat));
    if (names === undefined) this.#names.set(key(stat), names = new Set());
    names.add(folded(name));
    if (leaf !== null) this.#leaves.push({ dir: this.#hold(dir), name: bytes, ...leaf });
  }

  #hold(dir: number): number {
    const fd = this.#c.openat(dir, SELF, O.PATH | O.DIRECTORY);
    if (fd >= 0) return fd;
    this.close();
    throw RootedError.fromResult(fd, "hold", "the directory of a trusted file");
  }

  /** Whether the entry `name` of the open directory `dir` must stay as it is: not be made, written, moved or removed. */
  protectsName(dir: number, name: string): boolean {
    if (this.#closed) return true;
    const stat = this.#c.fstat(dir);
    if (typeof stat === "number") return true;
    if (this.#names.get(key(stat))?.has(folded(name))) return true;
    return this.#insideTree(dir);
  }

  /** Whether a file that exists is a trusted one, whatever name it was met under. */
  protectsFile(stat: FileStat): boolean {
    if (this.#closed) return true;
    const wanted = key(stat);
    if (this.#ancestors.has(wanted)) return true;
    for (const leaf of this.#leaves) {
      const current = this.#c.statx(leaf.dir, leaf.name, 0);
      if (typeof current !== "number" && key(current) === wanted) return true;
    }
    // A file with one name was met under that name, whose directory protectsName has judged.
    return stat.nlink > 1 && stat.kind !== "directory" && this.#treesHold(wanted);
  }

  /** Whether anything below the root is hidden. */
  get hides(): boolean {
    return this.#closed || this.#leaves.some(({ hidden }) => hidden);
  }

  /** Whether the open directory `dir` is a hidden tree or lies in one. */
  hidesDirectory(dir: number): boolean {
    if (this.#closed) return true;
    const leaves = this.#leaves.filter(({ hidden }) => hidden);
    return leaves.length > 0 && this.#inside(dir, this.#currentKeys(leaves));
  }

  /** Whether `dir` is a trusted tree or lies in one. */
  #insideTree(dir: number): boolean {
    if (!this.#leaves.some((leaf) => leaf.tree)) return false;
    return this.#inside(dir, this.#treeKeys());
  }

  /** Whether `dir` is one of the directories or lies in one. A place that no longer hangs below the root counts as inside. */
  #inside(dir: number, current: ReadonlySet<string>): boolean {
    const c = this.#c;
    let fd = dir;
    try {
      let below: string | null = null;
      for (let depth = 0; depth < MAX_DEPTH; depth++) {
        const stat = c.fstat(fd);
        if (typeof stat === "number") return true;
        const here = key(stat);
        if (current.has(here)) return true;
        if (here === this.#root) return false;
        // `..` of `/` is itself.
        if (here === below) return true;
        below = here;
        const up = c.openat(fd, PARENT, O.PATH | O.DIRECTORY);
        if (fd !== dir) c.close(fd);
        fd = up;
        if (fd < 0) return true;
      }
      return true;
    } finally {
      if (fd !== dir && fd >= 0) c.close(fd);
    }
  }

  /** Identities of the trees, as they were at the start and as their names lead to them now. */
  #treeKeys(): Set<string> {
    return this.#currentKeys(this.#leaves.filter(({ tree }) => tree)).union(new Set(this.#trees.keys()));
  }

  #currentKeys(leaves: readonly Leaf[]): Set<string> {
    const keys = new Set<string>();
    for (const leaf of leaves) {
      const stat = this.#c.statx(leaf.dir, leaf.name, 0);
      if (typeof stat !== "number" && stat.kind === "directory") keys.add(key(stat));
    }
    return keys;
  }

  /** Whether a file in one of the trees has this identity. Trees too large to look through count as holding it. */
  #treesHold(wanted: string): boolean {
    const c = this.#c;
    const buffer = new Uint8Array(32_768);
    let seen = 0;
    const holds = (dir: number, path: CString, depth: number): boolean => {
      const fd = c.openat(dir, path, O.RDONLY | O.DIRECTORY | O.NOFOLLOW);
      if (fd < 0) return false;
      try {
        const directories: CString[] = [];
        for (;;) {
          const entries = c.getdents(fd, buffer);
          if (typeof entries === "number" || entries.length === 0) break;
          for (const entry of entries) {
            if (++seen > MAX_TREE_ENTRIES) return true;
            const name = new Uint8Array(entry.name.length + 1);
            name.set(entry.name);
            const stat = c.statx(fd, name, AT_SYMLINK_NOFOLLOW);
            if (typeof stat === "number") continue;
            if (key(stat) === wanted) return true;
            if (stat.kind === "directory") directories.push(name);
          }
        }
        if (depth >= MAX_DEPTH) return directories.length > 0;
        return directories.some((name) => holds(fd, name, depth + 1));
      } finally {
        c.close(fd);
      }
    };
    for (const fd of this.#trees.values()) if (holds(fd, SELF, 0)) return true;
    for (const leaf of this.#leaves) if (leaf.tree && holds(leaf.dir, leaf.name, 0)) return true;
    return false;
  }

  /** Lets go of the held directories; from then on everything is protected. */
  close(): void {
    this.#closed = true;
    for (const fd of this.#trees.values()) this.#c.close(fd);
    for (const { dir } of this.#leaves) this.#c.close(dir);
    this.#trees.clear();
    this.#leaves.length = 0;
  }
}
