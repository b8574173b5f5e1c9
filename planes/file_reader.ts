/**
 * The one reader of both planes (seed resource-plane, Writing files an external reader will read): bytes, size, modification
 * time and hash come from a single open of the file, and the hash is that of the bytes that are handed out.
 *
 * A file that grows while it is read is served as far as it reached when it was opened; one that shrinks is served as far as
 * it still reaches. Neither is told from a whole one, as the seed has it; hash and length describe what is served.
 *
 * @module
 */
import type { RootedFile } from "../base/rooted_dir.ts";
import { isRootedError } from "../base/rooted_error.ts";
import type { ExportRoot, OpenExport } from "./export_root.ts";
import { type FileError, isRefusal, type PlaneRefusal, refusal } from "./plane_refusal.ts";

/** What was read. */
export interface ReadFile {
  readonly bytes: Uint8Array<ArrayBuffer>;
  /** Unix milliseconds. */
  readonly mtimeMs: number;
  /** Lower-case hex. */
  readonly sha256: string;
}

/**
 * Takes room for so many bytes before they are read. `true` or `false` at once where that is known, else once there is room
 * or none came in time. Whoever gave it knows when the bytes are gone again.
 */
export type Admit = (bytes: number) => boolean | Promise<boolean>;

/** Up to so many bytes a file is read at once and takes no room: about what a socket takes by itself. */
export const SMALL_FILE_BYTES = 64 << 10;

/** What a larger file is read and hashed in. */
const PIECE_BYTES = 1 << 20;

const FULL = refusal("too_many_answers", "as many large files are being written as are held at once; try again");

/** Unix milliseconds of a time in nanoseconds. */
export function unixMs(nanoseconds: bigint): number {
  return Number(nanoseconds / 1_000_000n);
}

/** How `node:crypto` hashes, loaded at the first use. */
type Hashing = Pick<typeof import("node:crypto"), "createHash">;
let loaded: Promise<Hashing> | undefined;

/** The hashes of the platform, ten times as fast as those in JavaScript. */
export function loadHashing(): Promise<Hashing> {
  return loaded ??= import("node:crypto");
}

/**
 * Reads one file below an export root.
 *
 * @param path As `judgePath` lets it pass.
 * @param opening Called before each opening of the file; what it says goes with the bytes of the last one.
 */
export async function readExported(
  root: ExportRoot,
  path: string,
  admit: Admit,
  opening: () => void = () => {},
): Promise<ReadFile | PlaneRefusal<FileError>> {
  const hashing = await loadHashing();
  for (let admitted = SMALL_FILE_BYTES;;) {
    let wanted = admitted;
    let room: ReturnType<Admit> = true;
    opening();
    const read = await readOnce(root, path, hashing, (size) => {
      if (size <= admitted) return true;
      wanted = size;
      room = admit(size);
      return room === true;
    });
    if (read !== "no_room") return read;
    // Nothing is held while it waits: the file is opened anew then, and may be another.
    if (!await room) return FULL;
    admitted = wanted;
  }
}

/** Opens and reads. @param fits Whether so many bytes may be read now. */
async function readOnce(
  root: ExportRoot,
  path: string,
  { createHash }: Hashing,
  fits: (size: number) => boolean,
): Promise<ReadFile | PlaneRefusal<FileError> | "no_room"> {
  const found = root.open();
  if (found === null) return refusal("not_found", "the exported folder does not exist");
  if (isRefusal(found)) return found;
  using folder = found.folder;
  const judged = openJudged(folder, path, root.options.maxBytes);
  if (isRefusal(judged)) return judged;
  using file = judged.file;
  const { size, mtime } = judged;
  if (!fits(size)) return "no_room";
  try {
    const hash = createHash("sha256");
    const bytes = new Uint8Array(size);
    let length = 0;
    while (length < size) {
      const piece = bytes.subarray(length, length + PIECE_BYTES);
      const count = size <= SMALL_FILE_BYTES ? file.read(length, piece) : await file.readElsewhere(length, piece);
      if (count === 0) break;
      hash.update(piece.subarray(0, count));
      length += count;
    }
    const served = length === size ? bytes : bytes.subarray(0, length);
    return { bytes: served, mtimeMs: unixMs(mtime), sha256: hash.digest("hex") };
  } catch (error) {
    if (isRootedError(error)) return refusal("io_error", `the file cannot be read: ${error.reason}`);
    if (error instanceof RangeError) return refusal("io_error", "the file does not fit into memory");
    throw error;
  }
}

/** Opens a file and judges its size, as its descriptor tells it. */
export function openJudged(
  folder: OpenExport,
  path: string,
  maxBytes: number,
): { readonly file: RootedFile; readonly size: number; readonly mtime: bigint } | PlaneRefusal<FileError> {
  const file = folder.openFile(path);
  if (isRefusal(file)) return file;
  const { size, mtime } = file.opened;
  if (size <= maxBytes) return { file, size, mtime };
  file.close();
  return refusal("too_large", `the file has ${size} bytes, more than the ${maxBytes} that are served`);
}
