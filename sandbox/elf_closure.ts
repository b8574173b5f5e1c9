/**
 * What the kernel and the dynamic loader open to start a program: the file, its interpreter and its libraries, and theirs
 * (spec containment 4.1, rule 3). Only ELF64 is read, of either byte order; what can't be read or understood adds nothing
 * further, and nothing here fails a launch.
 *
 * @module
 */

/** What one ELF file names. */
export interface ElfNeeds {
  /** `PT_INTERP`, `null` for a static file or a library. */
  readonly interpreter: string | null;
  /** `DT_NEEDED`, in order. */
  readonly needed: readonly string[];
  /** `DT_RPATH` and `DT_RUNPATH`, split at colons, `$ORIGIN` unexpanded. */
  readonly searchPath: readonly string[];
}

/** Reads `length` bytes at `offset`; fewer at the end of the file. */
export type ReadAt = (offset: number, length: number) => Uint8Array;

/** Most entries of any table that are read; files with more are not understood. */
const MAX_ENTRIES = 4_096;

/** Longest name in a string table. */
const MAX_NAME = 4_096;

const decoder = new TextDecoder();

/** Takes an ELF64 file apart; `null` when it is none. */
export function parseElf(read: ReadAt): ElfNeeds | null {
  try {
    return parse(read);
  } catch (error) {
    // A table that reaches past the end of the file.
    if (error instanceof RangeError) return null;
    throw error;
  }
}

function parse(read: ReadAt): ElfNeeds | null {
  const header = read(0, 64);
  if (header.length < 64 || header[0] !== 0x7f || decoder.decode(header.subarray(1, 4)) !== "ELF") return null;
  if (header[4] !== 2 || (header[5] !== 1 && header[5] !== 2)) return null;
  const little = header[5] === 1;
  const view = (bytes: Uint8Array) => new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const wide = (at: DataView, offset: number) => Number(at.getBigUint64(offset, little));
  const head = view(header);
  const tableAt = wide(head, 32);
  const entrySize = head.getUint16(54, little);
  const entryCount = head.getUint16(56, little);
  if (entrySize < 56 || entryCount > MAX_ENTRIES) return null;

  const loads: { readonly offset: number; readonly address: number; readonly size: number }[] = [];
  let interpreter: string | null = null;
  let dynamic: { readonly offset: number; readonly size: number } | null = null;
  const table = read(tableAt, entrySize * entryCount);
  for (let index = 0; index < entryCount; index++) {
    const entry = view(table.subarray(index * entrySize, index * entrySize + 56));
    const type = entry.getUint32(0, little);
    const offset = wide(entry, 8);
    const size = wide(entry, 32);
    if (type === 1) loads.push({ offset, address: wide(entry, 16), size });
    if (type === 2) dynamic = { offset, size };
    if (type === 3) interpreter = text(read(offset, Math.min(size, MAX_NAME)));
  }
  if (dynamic === null) return { interpreter, needed: [], searchPath: [] };

  const needed: number[] = [];
  const paths: number[] = [];
  let strings: number | null = null;
  const entries = read(dynamic.offset, Math.min(dynamic.size, MAX_ENTRIES * 16));
  for (let at = 0; at + 16 <= entries.length; at += 16) {
    const entry = view(entries.subarray(at, at + 16));
    const tag = wide(entry, 0);
    const value = wide(entry, 8);
    if (tag === 0) break;
    if (tag === 1) needed.push(value);
    if (tag === 5) strings = value;
    if (tag === 15 || tag === 29) paths.push(value);
  }
  // The table is named by its address in memory; its place in the file follows from the segment that holds it.
  const load = loads.find(({ address, size }) => strings !== null && strings >= address && strings < address + size);
  if (strings === null || load === undefined) return { interpreter, needed: [], searchPath: [] };
  const base = strings - load.address + load.offset;
  const name = (offset: number) => text(read(base + offset, MAX_NAME));
  return {
    interpreter,
    needed: needed.map(name).filter((value) => value !== ""),
    searchPath: paths.flatMap((offset) => name(offset).split(":")).filter((value) => value !== ""),
  };
}

function text(bytes: Uint8Array): string {
  const end = bytes.indexOf(0);
  return decoder.decode(end < 0 ? bytes : bytes.subarray(0, end));
}

/** Directories the loader searches last; those of the machine's architecture first, as where they exist they are used. */
const LIBRARY_DIRECTORIES = [
  `/lib/${Deno.build.arch}-linux-gnu`,
  `/usr/lib/${Deno.build.arch}-linux-gnu`,
  "/lib64",
  "/usr/lib64",
  "/lib",
  "/usr/lib",
] as const;

/** Most files of one closure. */
const MAX_FILES = 1_024;

/**
 * Canonical paths of a program and all it needs, the program first, breadth-first, without duplicates. Empty when the
 * program itself is not there.
 */
export function elfClosure(program: string): string[] {
  const found = new Set<string>();
  const pending = [program];
  while (pending.length > 0 && found.size < MAX_FILES) {
    const path = canonical(pending.shift()!);
    if (path === null || found.has(path)) continue;
    found.add(path);
    const needs = readElf(path);
    if (needs === null) continue;
    const origin = path.slice(0, path.lastIndexOf("/")) || "/";
    if (needs.interpreter !== null) pending.push(needs.interpreter);
    for (const name of needs.needed) {
      const library = locate(name, origin, needs.searchPath);
      if (library !== null) pending.push(library);
    }
  }
  return [...found];
}

function locate(name: string, origin: string, searchPath: readonly string[]): string | null {
  if (name.includes("/")) return name.startsWith("/") ? name : `${origin}/${name}`;
  const own = searchPath.map((directory) => directory.replace(/\$ORIGIN|\$\{ORIGIN\}/g, origin));
  for (const directory of [...own, ...LIBRARY_DIRECTORIES]) {
    if (directory.startsWith("/") && canonical(`${directory}/${name}`) !== null) return `${directory}/${name}`;
  }
  return null;
}

function canonical(path: string): string | null {
  try {
    return Deno.realPathSync(path);
  } catch {
    return null;
  }
}

function readElf(path: string): ElfNeeds | null {
  try {
    // A fifo under a library's name must not hold the launch.
    if (!Deno.statSync(path).isFile) return null;
    using file = Deno.openSync(path);
    return parseElf((offset, length) => {
      const bytes = new Uint8Array(length);
      file.seekSync(offset, Deno.SeekMode.Start);
      let have = 0;
      while (have < length) {
        const count = file.readSync(bytes.subarray(have));
        if (count === null) break;
        have += count;
      }
      return bytes.subarray(0, have);
    });
  } catch {
    return null;
  }
}
