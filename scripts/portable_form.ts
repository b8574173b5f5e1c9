/**
 * The portable form of a program in one file: the launcher with everything else appended (launcher/contents.c has the
 * layout). Pure but for reading the files that go in.
 *
 * @module
 */
import zlib from "node:zlib";
import { sha256Hex } from "../artifact/sha256.ts";

/** A file as it is to be unpacked. */
export interface PortableFile {
  /** Relative, without `.` and `..`, as the launcher checks again. */
  readonly path: string;
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly executable: boolean;
}

/** Files that are unpacked together, under a name that follows from what they are. */
export interface PortablePart {
  readonly name: string;
  readonly files: readonly PortableFile[];
}

/** A part as it is stored. */
export interface StoredPart {
  /** Name of its directory in the cache. */
  readonly directory: string;
  /** Its lines in the list of contents, without the first. */
  readonly lines: readonly string[];
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly compressed: boolean;
}

/** Letters of a hash that name a directory: 128 bits. */
const NAME_LETTERS = 32;

const COMPRESSION = {
  [zlib.constants.ZSTD_c_compressionLevel]: 9,
  [zlib.constants.ZSTD_c_checksumFlag]: 1,
};

/** For files that repeat what others hold: translations of different components contain the same engine. */
const FAR_COMPRESSION = {
  ...COMPRESSION,
  [zlib.constants.ZSTD_c_enableLongDistanceMatching]: 1,
  // The most a decompressor takes without being told to. It needs as much memory, which takes time to get.
  [zlib.constants.ZSTD_c_windowLog]: 27,
};

/** Lays a part out for storing. */
export async function storedPart(part: PortablePart, compress: boolean): Promise<StoredPart> {
  const lines: string[] = [];
  const hashes: string[] = [];
  for (const { path, bytes, executable } of part.files) {
    if (/[\t\n]/.test(path)) throw new Error(`'${path}' cannot be the name of an unpacked file`);
    lines.push(`file\t${bytes.length}\t${executable ? "700" : "600"}\t${path}`);
    hashes.push(await sha256Hex(bytes));
  }
  const key = await sha256Hex(new TextEncoder().encode([...lines, ...hashes].join("\n")));
  const whole = new Uint8Array(part.files.reduce((sum, { bytes }) => sum + bytes.length, 0));
  let at = 0;
  for (const { bytes } of part.files) {
    whole.set(bytes, at);
    at += bytes.length;
  }
  const params = part.files.length > 1 ? FAR_COMPRESSION : COMPRESSION;
  const bytes = compress ? new Uint8Array(zlib.zstdCompressSync(whole, { params })) : whole;
  return { directory: `${part.name}-${key.slice(0, NAME_LETTERS)}`, lines, bytes, compressed: compress };
}

/**
 * The whole file, in pieces to be written one after the other.
 *
 * @param run The program to execute: a part and a file of it.
 * @param args Makes its arguments from the directories of the parts, each as the launcher is told it.
 */
export async function portableFile(
  launcher: Uint8Array<ArrayBuffer>,
  parts: readonly StoredPart[],
  run: { readonly part: StoredPart; readonly path: string },
  args: readonly string[],
): Promise<readonly Uint8Array<ArrayBuffer>[]> {
  const lines: string[] = [];
  let offset = launcher.length;
  for (const part of parts) {
    const { directory, bytes, compressed } = part;
    const fields = [directory, offset, bytes.length, await sha256Hex(bytes), compressed ? "zstd" : "stored"];
    lines.push(`part\t${fields.join("\t")}`, ...part.lines);
    offset += bytes.length;
  }
  lines.push(`run\t${run.part.directory}/${run.path}`, ...args.map((text) => `arg\t${text}`));
  const index = new TextEncoder().encode(`${lines.join("\n")}\n`);
  const footer = new Uint8Array(56);
  const view = new DataView(footer.buffer);
  view.setBigUint64(0, BigInt(offset), true);
  view.setBigUint64(8, BigInt(index.length), true);
  footer.set(new Uint8Array(await crypto.subtle.digest("SHA-256", index)), 16);
  footer.set(new TextEncoder().encode("MURPACK1"), 48);
  return [launcher, ...parts.map(({ bytes }) => bytes), index, footer];
}

/** How a file of a part is named in an argument: the launcher puts the cache's path in. */
export function inCache(part: StoredPart, path: string): string {
  return `%/${part.directory}/${path}`;
}

/** Every file below a folder, in one order everywhere. */
export async function filesOf(folder: string, below = ""): Promise<PortableFile[]> {
  const entries = await Array.fromAsync(Deno.readDir(`${folder}/${below}`));
  const files: PortableFile[] = [];
  for (const { name, isDirectory } of entries.sort((a, b) => (a.name < b.name ? -1 : 1))) {
    const path = `${below}${name}`;
    if (isDirectory) files.push(...await filesOf(folder, `${path}/`));
    else {
      const { mode } = await Deno.stat(`${folder}/${path}`);
      files.push({ path, bytes: await Deno.readFile(`${folder}/${path}`), executable: ((mode ?? 0) & 0o100) !== 0 });
    }
  }
  return files;
}
