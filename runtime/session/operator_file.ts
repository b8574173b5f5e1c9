/**
 * Text files the operator names: task, prompts, local skills. A path that leads to a pipe or a device would never end, and
 * one to a huge file would take the memory.
 *
 * @module
 */
import { ioError, MurError } from "../../base/errors.ts";

/** Longest text that is read, in bytes. */
export const MAX_TEXT_BYTES = 16 * 1024 * 1024;

/**
 * Reads a text file; bytes that are not UTF-8 become U+FFFD.
 *
 * @throws {MurError} `E-IO-001` to `E-IO-003`: absent, forbidden, no regular file, longer than {@linkcode MAX_TEXT_BYTES}.
 */
export async function readOperatorText(path: string): Promise<string> {
  try {
    const { isFile } = await Deno.stat(path);
    if (!isFile) throw new MurError("E-IO-003", `${path} is not a regular file`);
    using file = await Deno.open(path, { read: true });
    const parts: Uint8Array[] = [];
    let length = 0;
    for await (const part of file.readable) {
      length += part.length;
      if (length > MAX_TEXT_BYTES) throw new MurError("E-IO-003", `${path} is larger than ${MAX_TEXT_BYTES} bytes`);
      parts.push(part);
    }
    return await new Blob(parts as Uint8Array<ArrayBuffer>[]).text();
  } catch (cause) {
    throw cause instanceof MurError ? cause : ioError(`read ${path}`, cause);
  }
}
