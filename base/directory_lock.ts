/**
 * One writer at a time in a directory.
 *
 * @module
 */
import { MurError } from "./errors.ts";

/** How a directory is locked. */
export interface DirectoryLockOptions {
  /** How long another holder is waited for, in milliseconds. Default: one minute. */
  readonly timeout?: number;
  /** Hold it beside other readers, keeping writers out. Default false. */
  readonly shared?: boolean;
}

/**
 * Runs `work` while this process alone holds the directory's write lock: `flock(2)` on the directory itself, so that
 * nothing is left behind and a writer that dies lets go of it.
 *
 * @throws {MurError} `E-IO-003` when another process still holds it.
 */
export async function withDirectoryLock<T>(
  directory: string,
  work: () => Promise<T>,
  { timeout = 60_000, shared = false }: DirectoryLockOptions = {},
): Promise<T> {
  const held = Deno.openSync(directory, { read: true });
  try {
    const deadline = Date.now() + timeout;
    for (let pause = 2; !held.tryLockSync(!shared); pause = Math.min(pause * 2, 20)) {
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
