/**
 * The subtree of the work folder that a plane shows, and the one way to a file in it (seed resource-plane, Path resolution,
 * steps 3 and 4; spec containment 4.7).
 *
 * The root is opened anew for each request, since the agent may put another directory in its place. A file is then opened
 * from the root's descriptor by the kernel, which resolves the path and keeps it beneath the root in the same step: nothing
 * that happens between a check and an opening can lead out. Only for a link that leads out of the root's descriptor by its
 * text (an absolute one, one with `..`) and may still come back in, the path is made canonical first; what is opened then is
 * the canonical path, beneath the root again.
 *
 * @module
 */
import type { RootedDir, RootedFile } from "../base/rooted_dir.ts";
import { isRootedError } from "../base/rooted_error.ts";
import { isAtOrBelow } from "../base/paths.ts";
import { MurError, type SourcePlace } from "../base/errors.ts";
import { type FileError, type PlaneRefusal, refusal } from "./plane_refusal.ts";

/** What a plane shows. */
export interface ExportRootOptions {
  /**
   * The work folder, held. Its policy for symbolic links is that of {@linkcode ExportRootOptions.symlinks}; files it hides
   * stay hidden.
   */
  readonly workdir: RootedDir;
  /** `exports.*.root`, verbatim. */
  readonly root: string;
  /** Largest file that is served, in bytes. */
  readonly maxBytes: number;
  /** By the achieved containment class: `refused` under `scoped`. */
  readonly symlinks: "refused" | "followed-inside";
}

/** How often a path that was made canonical is tried again when it changed meanwhile. */
const MAX_RACED = 8;

function selfPath(fd: number): string {
  return `/proc/self/fd/${fd}`;
}

/** Where a descriptor is now, as the kernel tells; `null` when it is nowhere any more. */
function placeOf(fd: number): string | null {
  try {
    const place = Deno.readLinkSync(selfPath(fd));
    if (!place.startsWith("/")) return null;
    // So the kernel marks what was removed, and so may a name end.
    return !place.endsWith(" (deleted)") || isAt(fd, place) ? place : null;
  } catch {
    return null;
  }
}

/** Whether what a descriptor holds has that very name. @throws {Error} When nothing has it. */
function isAt(fd: number, place: string): boolean {
  const [held, named] = [Deno.statSync(selfPath(fd)), Deno.lstatSync(place)];
  return held.dev === named.dev && held.ino === named.ino;
}

/** The path of `place` from `root`; `null` when it does not lie there. */
function below(root: string, place: string): string | null {
  if (place === root) return ".";
  return isAtOrBelow(place, root) ? place.slice(root === "/" ? 1 : root.length + 1) : null;
}

/** The canonical form of a path below a directory, relative to it; `null` when it leads out, or nowhere. */
function canonicalBelow(directory: RootedDir, path: string): string | null {
  const root = placeOf(directory.fd);
  if (root === null) return null;
  try {
    return below(root, Deno.realPathSync(`${selfPath(directory.fd)}/${path}`));
  } catch {
    return null;
  }
}

const OUTSIDE = refusal("outside_root", "the path leads out of the exported folder");
const NOT_FOUND = refusal("not_found", "nothing in the exported folder has that path");
const SYMLINK = refusal("symlink_refused", "a symbolic link stands in the path, and this session follows none");
const NOT_REGULAR = refusal("not_a_regular_file", "the path names something that is no regular file");

/** An exported folder. */
export class ExportRoot {
  readonly options: ExportRootOptions;

  constructor(options: ExportRootOptions) {
    this.options = options;
  }

  /** Opens the folder as it is now; `null` when there is none. Whoever called disposes of it. */
  open(): { readonly folder: OpenExport } | PlaneRefusal<FileError> | null {
    const { workdir, root, symlinks } = this.options;
    try {
      return { folder: new OpenExport(reach(workdir, root, symlinks, (path) => workdir.openDir(path)), this.options) };
    } catch (error) {
      const refused = refusalOf(error, workdir, root, symlinks);
      return refused.error === "not_found" || refused.error === "not_a_regular_file" ? null : refused;
    }
  }
}

/** Opens by the kernel's way, and by the canonical path when a link led out that may come back. */
function reach<T>(
  directory: RootedDir,
  path: string,
  symlinks: ExportRootOptions["symlinks"],
  open: (path: string) => T,
): T {
  for (let raced = 0, current = path;; raced++) {
    try {
      return open(current);
    } catch (error) {
      if (!isRootedError(error, "not-permitted") || symlinks === "refused" || raced >= MAX_RACED) throw error;
      const canonical = canonicalBelow(directory, path);
      if (canonical === null || canonical === current) throw error;
      current = canonical;
    }
  }
}

/** What a failed opening means to the caller. */
function refusalOf(
  error: unknown,
  directory: RootedDir,
  path: string,
  symlinks: ExportRootOptions["symlinks"],
): PlaneRefusal<FileError> {
  if (isRootedError(error, "no-entry", "not-directory", "name-too-long", "illegal-byte-sequence")) return NOT_FOUND;
  if (isRootedError(error, "loop")) return symlinks === "refused" ? SYMLINK : NOT_FOUND;
  if (isRootedError(error, "is-directory")) return NOT_REGULAR;
  if (isRootedError(error, "not-permitted")) return notPermitted(directory, path, symlinks);
  if (isRootedError(error)) return refusal("io_error", `the file cannot be read: ${error.reason}`);
  throw error;
}

/** Tells what is no regular file from what leads out or is hidden. Looks only; nothing is served from here. */
function notPermitted(
  directory: RootedDir,
  path: string,
  symlinks: ExportRootOptions["symlinks"],
): PlaneRefusal<FileError> {
  try {
    const { kind } = reach(directory, path, symlinks, (reached) => directory.stat(reached));
    return kind === "file" || kind === "directory" ? OUTSIDE : NOT_REGULAR;
  } catch (error) {
    return isRootedError(error, "no-entry") ? NOT_FOUND : OUTSIDE;
  }
}

/** An exported folder that one request holds. */
export class OpenExport implements Disposable {
  readonly #options: ExportRootOptions;
  /** Held; for listings. */
  readonly directory: RootedDir;

  constructor(directory: RootedDir, options: ExportRootOptions) {
    this.directory = directory;
    this.#options = options;
  }

  /** Opens a regular file. @param path As `judgePath` lets it pass. */
  openFile(path: string): RootedFile | PlaneRefusal<FileError> {
    const { symlinks } = this.#options;
    try {
      return reach(this.directory, path, symlinks, (reached) => this.directory.openFile(reached));
    } catch (error) {
      return refusalOf(error, this.directory, path, symlinks);
    }
  }

  /** The canonical path of an open file from the root, as its descriptor says; `null` when it does not lie there any more. */
  canonicalPath(file: RootedFile): string | null {
    const [root, place] = [placeOf(this.directory.fd), placeOf(file.fd)];
    return root === null || place === null ? null : below(root, place);
  }

  [Symbol.dispose](): void {
    this.directory.close();
  }
}

/**
 * Refuses a root that is there and leads out of the work folder. One that is not there yet is fine.
 *
 * @param workdir The work folder; links inside it are followed.
 * @param field `exports.files.root` or `exports.peer_files.root`.
 * @throws {MurError} `E-CAP-007`.
 */
export function judgeExportRoot(workdir: RootedDir, root: string, field: string, place: SourcePlace | undefined): void {
  const opened = new ExportRoot({ workdir, root, maxBytes: 0, symlinks: "followed-inside" }).open();
  if (opened === null) return;
  if ("folder" in opened) return opened.folder[Symbol.dispose]();
  // What cannot be opened for another reason may be opened later; until then its requests are told so.
  if (opened.error !== "outside_root") return;
  throw new MurError("E-CAP-007", `${field} '${root}' leads out of the work folder ${workdir.path}`, {
    hint: "name a folder inside the work folder, or remove the symbolic link that leads out",
    ...(place === undefined ? {} : { place }),
  });
}
