/**
 * Reading many small files in a row, each with three calls of the kernel and nothing around them: a third of what Deno takes.
 *
 * @module
 */
import { AT_FDCWD, cString, type Libc, libc, O } from "./libc.ts";
import type { SmallFileReader } from "./running_record.ts";

/** What is larger is left to others. */
const MAX_SMALL = 16_384;

/**
 * A reader of small files. Links are not followed, and nothing is waited for.
 *
 * @returns `null` where the kernel cannot be called.
 */
export function openSmallFileReader(): SmallFileReader | null {
  let c: Libc;
  try {
    c = libc();
  } catch {
    return null;
  }
  const buffer = new Uint8Array(MAX_SMALL);
  const decoder = new TextDecoder();
  const flags = O.RDONLY | O.NOFOLLOW | O.NONBLOCK;
  return (path) => {
    const name = cString(path);
    const file = name === null ? -1 : c.openat(AT_FDCWD, name, flags);
    if (file < 0) return null;
    const length = c.read(file, buffer);
    c.close(file);
    // Empty is also what a pipe without a writer reads as; a full buffer may be cut.
    return length <= 0 || length === buffer.length ? null : decoder.decode(buffer.subarray(0, length));
  };
}
