/**
 * Writing a file so that a reader finds the old content or the new, never a part: a staging file beside it, filled,
 * synced and renamed. What fails leaves the old file and no staging file behind.
 *
 * @module
 */
import { RootedDir, type RootedFile } from "./rooted_dir.ts";
import { isRootedError, RootedError } from "./rooted_error.ts";

/** How a file is written. */
export interface AtomicWriteOptions {
  /** Exact mode of the file. Default: that of the file it replaces, else `0o666` less the umask. */
  readonly mode?: number;
  /** Fail with `exist` when the name is taken. */
  readonly exclusive?: boolean;
  /** Wait until content and name are on the disk. Default true. */
  readonly durable?: boolean;
}

const encoder = new TextEncoder();

function stagingName(): string {
  const random = crypto.getRandomValues(new Uint8Array(8));
  // Hidden, and never ending like a file that is read by its ending (spec cli 4.1).
  return `.mur-${Array.from(random, (byte) => byte.toString(16).padStart(2, "0")).join("")}.tmp`;
}

const STAGING_NAME = /^\.mur-[0-9a-f]{16}\.tmp$/;

/**
 * Removes the staging files of writers that were killed. The caller holds a lock that every writer of the directory takes,
 * so that none of them is in use.
 *
 * @throws {RootedError}
 */
export function removeInterruptedWrites(path: string): void {
  using dir = openParent(path);
  for (const { name, kind } of dir.readDir()) {
    if (kind === "file" && STAGING_NAME.test(name)) dir.unlink(name);
  }
}

/** Has failures name the file that was to be written: nobody knows the staging file beside it. */
function naming(file: string, write: () => void): void {
  try {
    write();
  } catch (error) {
    if (!isRootedError(error)) throw error;
    throw new RootedError(error.kind, "write", file, error.reason);
  }
}

/**
 * Writes `name` in a held directory.
 *
 * @throws {RootedError} `loop` when the name is a symbolic link: it is neither followed nor replaced (spec session 4.3);
 * `exist`, `access`, `insufficient-space`, …
 */
export function writeAtomicallyIn(
  dir: RootedDir,
  name: string,
  content: string | Uint8Array<ArrayBuffer>,
  options: AtomicWriteOptions = {},
): void {
  const slash = name.lastIndexOf("/");
  if (slash < 0) return naming(name, () => replace(dir, name, content, options));
  using parent = dir.openDir(name.slice(0, slash));
  naming(name, () => replace(parent, name.slice(slash + 1), content, options));
}

function replace(
  dir: RootedDir,
  name: string,
  content: string | Uint8Array<ArrayBuffer>,
  options: AtomicWriteOptions,
): void {
  const replaced = replacedMode(dir, name, options.exclusive ?? false);
  const mode = options.mode ?? replaced;
  const staging = stagingName();
  let file: RootedFile | undefined;
  try {
    // Nobody else reads it before it has the mode it shall have.
    file = dir.openFile(staging, { write: true, createNew: true, mode: mode === null ? 0o666 : 0o600 });
    file.write(0, typeof content === "string" ? encoder.encode(content) : content);
    if (mode !== null) file.chmod(mode);
    if (options.durable ?? true) file.sync();
    file.close();
    if (options.exclusive) publishNew(dir, staging, name);
    else dir.rename(staging, dir, name);
  } catch (error) {
    if (file !== undefined) {
      file.close();
      try {
        dir.unlink(staging);
      } catch {
        // The first failure is the one to tell.
      }
    }
    throw error;
  }
  if (options.durable ?? true) dir.sync();
}

/**
 * A file that is written piece by piece, and appears whole under its name or not at all. What stands under the name is
 * replaced, a symbolic link itself and not what it points to. Disposed of before it is published, it leaves nothing.
 *
 * ```ts
 * using file = StagedFile.create(dir, "report.md");
 * for await (const piece of pieces) file.write(piece);
 * file.publish();
 * ```
 */
export class StagedFile implements Disposable {
  readonly #dir: RootedDir;
  readonly #name: string;
  readonly #staging: string;
  readonly #file: RootedFile;
  #length = 0;
  #over = false;

  private constructor(dir: RootedDir, name: string, staging: string, file: RootedFile) {
    this.#dir = dir;
    this.#name = name;
    this.#staging = staging;
    this.#file = file;
  }

  /**
   * Begins a file.
   *
   * @param name In `dir` itself. @param options.mode Before the umask; default `0o666`.
   * @throws {RootedError}
   */
  static create(dir: RootedDir, name: string, options: { readonly mode?: number } = {}): StagedFile {
    const staging = stagingName();
    return new StagedFile(dir, name, staging, dir.openFile(staging, { write: true, createNew: true, ...options }));
  }

  /** Bytes written so far. */
  get length(): number {
    return this.#length;
  }

  /** Appends. @throws {RootedError} `insufficient-space`, … */
  write(bytes: Uint8Array<ArrayBuffer>): void {
    naming(this.#name, () => this.#file.write(this.#length, bytes));
    this.#length += bytes.length;
  }

  /** Gives it its name. It is not waited for the disk. @throws {RootedError} */
  publish(): void {
    naming(this.#name, () => this.#dir.rename(this.#staging, this.#dir, this.#name));
    this.#over = true;
    this.#file.close();
  }

  [Symbol.dispose](): void {
    if (this.#over) return;
    this.#over = true;
    this.#file.close();
    try {
      this.#dir.unlink(this.#staging);
    } catch {
      // Somebody else removed it.
    }
  }
}

/** Mode of the file that will be replaced; `null` when there is none. */
function replacedMode(dir: RootedDir, name: string, exclusive: boolean): number | null {
  try {
    const stat = dir.stat(name, { follow: false });
    if (exclusive) throw new RootedError("exist", "write", name);
    if (stat.kind === "symlink") throw new RootedError("loop", "write", name, "it is a symbolic link");
    if (stat.kind === "directory") throw new RootedError("is-directory", "write", name);
    return stat.mode;
  } catch (error) {
    if (isRootedError(error, "no-entry")) return null;
    throw error;
  }
}

function publishNew(dir: RootedDir, staging: string, name: string): void {
  try {
    dir.rename(staging, dir, name, { noReplace: true });
  } catch (error) {
    // Some file systems do not know the flag; a second name is as exclusive.
    if (!isRootedError(error, "invalid", "unsupported")) throw error;
    dir.link(staging, dir, name);
    dir.unlink(staging);
  }
}

/**
 * Writes the file at `path`. Symbolic links in the directory part are followed: the path is the operator's.
 *
 * @throws {RootedError} As {@linkcode writeAtomicallyIn}; `no-entry` when the directory does not exist.
 */
export function writeAtomically(
  path: string,
  content: string | Uint8Array<ArrayBuffer>,
  options: AtomicWriteOptions = {},
): void {
  const slash = path.lastIndexOf("/");
  const parent = slash < 0 ? "." : path.slice(0, slash) || "/";
  naming(path, () => {
    using dir = openParent(parent);
    replace(dir, path.slice(slash + 1), content, options);
  });
}

function openParent(path: string): RootedDir {
  try {
    return RootedDir.open(path);
  } catch (error) {
    if (!isRootedError(error, "no-entry")) throw error;
    throw new RootedError("no-entry", "open", path, `there is no directory ${path}`);
  }
}
