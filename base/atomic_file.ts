/**
 * Replacing a file whole: whoever reads it, whenever the writer dies, sees the old content or the new, never a part.
 * And one writer at a time in a directory.
 *
 * @module
 */
import { MurError } from "./errors.ts";

export interface AtomicWriteOptions {
  /** Mode of the new file, set whatever the umask is. Default: 0666 less the umask. */
  readonly mode?: number;
  /** Name of the temporary file, in the same directory. Default: `.<name>.<unique>.tmp`. */
  readonly temporaryName?: string;
}

/**
 * Writes a file through a temporary sibling: created exclusively, written, synced to the disk, renamed. On failure the
 * temporary file is removed and the target is untouched.
 *
 * @throws What the file operation threw; the caller names the operation (`ioError`).
 */
export async function writeFileAtomic(
  path: string,
  content: Uint8Array | string,
  options: AtomicWriteOptions = {},
): Promise<void> {
  const slash = path.lastIndexOf("/");
  const directory = path.slice(0, slash + 1);
  const name = options.temporaryName ?? `.${path.slice(slash + 1)}.${crypto.randomUUID()}.tmp`;
  const temporary = `${directory}${name}`;
  await writeNewFile(temporary, content, options.mode);
  try {
    await Deno.rename(temporary, path);
  } catch (error) {
    await removeQuietly(temporary);
    throw error;
  }
}

/**
 * Creates a file that must not exist yet, writes it whole and syncs it to the disk. A file that could not be written
 * whole is removed again.
 */
export async function writeNewFile(path: string, content: Uint8Array | string, mode?: number): Promise<void> {
  const file = await Deno.open(path, { write: true, createNew: true });
  try {
    if (mode !== undefined) await Deno.chmod(path, mode);
    let rest = typeof content === "string" ? new TextEncoder().encode(content) : content;
    while (rest.length > 0) rest = rest.subarray(await file.write(rest));
    await file.sync();
  } catch (error) {
    file.close();
    await removeQuietly(path);
    throw error;
  }
  file.close();
}

/** Removes a file that may be gone already; used where another failure is being reported. */
export async function removeQuietly(path: string): Promise<void> {
  try {
    await Deno.remove(path);
  } catch {
    // The failure that led here is the one that is told.
  }
}

/**
 * Runs `work` while this process alone holds the directory's write lock: `flock(2)` on the directory itself, so that
 * nothing is left behind and a writer that dies lets go of it. Readers take no lock.
 *
 * @param timeout How long another holder is waited for, in milliseconds.
 * @throws {MurError} `E-IO-003` when another process still holds it.
 */
export async function withDirectoryLock<T>(directory: string, work: () => Promise<T>, timeout = 60_000): Promise<T> {
  const held = await Deno.open(directory, { read: true });
  try {
    const deadline = Date.now() + timeout;
    for (let pause = 2; !(await held.tryLock(true)); pause = Math.min(pause * 2, 100)) {
      if (Date.now() >= deadline) {
        throw new MurError("E-IO-003", `another process is still writing in ${directory}`, {
          hint: "wait for it to end, or stop it, and try again",
        });
      }
      await new Promise((resolve) => setTimeout(resolve, pause));
    }
    return await work();
  } finally {
    held.close();
  }
}
