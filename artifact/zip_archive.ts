/**
 * Reading zip archives that anyone may have made (spec cli 6.4).
 *
 * Everything is judged before a byte is inflated: the end record must be the only one and close the file, the central
 * directory must fill the space before it, local headers must say what the directory says, entries may not overlap, and
 * a declared size must be one the compressed bytes can reach. What inflates to something else is refused while it
 * inflates. Nothing is ever unpacked to a path an entry names.
 *
 * @module
 */
import { MurError } from "../base/errors.ts";
import { inflate } from "./inflate.ts";

/** Largest archive that is read, in bytes. */
export const MAX_ARCHIVE_BYTES = 1024 ** 3;

/** Most entries an archive may have. */
export const MAX_ENTRIES = 10_000;

/** Default of `MURMUR_MAX_ARTIFACT_DECOMPRESSED_BYTES`, in bytes (spec cli 6.4). */
export const DEFAULT_MAX_DECOMPRESSED_BYTES = 524_288_000;

/** Deflate makes at most this many bytes of one. */
const MAX_DEFLATE_RATIO = 1032;

/** Compressed bytes given to the inflater at a time; it makes at most 1032 times as many before the count is taken. */
const INFLATE_STEP = 16 * 1024;

const END_SIGNATURE = 0x06054b50;
const ZIP64_LOCATOR_SIGNATURE = 0x07064b50;
const CENTRAL_SIGNATURE = 0x02014b50;
const LOCAL_SIGNATURE = 0x04034b50;
const END_LENGTH = 22;
const MAX_COMMENT = 0xffff;

/** A regular file in an archive. */
export interface ZipEntry {
  readonly name: string;
  /** Size once inflated, as declared; checked when read. */
  readonly size: number;
  readonly compressedSize: number;
  /** 0 stored, 8 deflated; another one cannot be read. */
  readonly method: number;
  readonly encrypted: boolean;
  readonly crc32: number;
  readonly dataOffset: number;
}

/** An archive whose directory passed every check. */
export interface ZipArchive {
  /** What messages call it. */
  readonly label: string;
  /**
   * The regular files by name, in directory order. Folders, links, devices and names that are absolute, climb with
   * `..` or hold `\`, NUL or bytes that are no UTF-8 are left out: they count as absent.
   */
  readonly entries: ReadonlyMap<string, ZipEntry>;
  readonly bytes: Uint8Array<ArrayBuffer>;
}

/** Ceiling for one inflated entry, from `MURMUR_MAX_ARTIFACT_DECOMPRESSED_BYTES`; unset or unparseable: the default. */
export function maxDecompressedBytes(env: { get(name: string): string | undefined }): number {
  const value = env.get("MURMUR_MAX_ARTIFACT_DECOMPRESSED_BYTES");
  if (value === undefined || !/^\d+$/.test(value)) return DEFAULT_MAX_DECOMPRESSED_BYTES;
  const bytes = Number(value);
  return Number.isSafeInteger(bytes) ? bytes : DEFAULT_MAX_DECOMPRESSED_BYTES;
}

function refuse(label: string, reason: string): MurError {
  return new MurError("E-IO-003", `${label} is not a usable artifact archive: ${reason}`);
}

/** Whether an entry name stays a file below the archive's root, however it is read. */
export function isSafeEntryName(name: string): boolean {
  if (name === "" || name.startsWith("/") || name.endsWith("/")) return false;
  // deno-lint-ignore no-control-regex -- control characters are what is looked for
  if (/[\\\x00-\x1f\x7f]/.test(name) || /^[A-Za-z]:/.test(name)) return false;
  return name.split("/").every((part) => part !== "" && part !== "." && part !== "..");
}

function findEnd(bytes: Uint8Array, view: DataView, label: string): number {
  const length = view.byteLength;
  const first = Math.max(0, length - END_LENGTH - MAX_COMMENT);
  let found = -1;
  for (
    let at = bytes.lastIndexOf(END_SIGNATURE & 0xff, length - END_LENGTH);
    at >= first;
    at = at === 0 ? -1 : bytes.lastIndexOf(END_SIGNATURE & 0xff, at - 1)
  ) {
    if (view.getUint32(at, true) !== END_SIGNATURE) continue;
    if (at + END_LENGTH + view.getUint16(at + 20, true) !== length) continue;
    // Two readings of one file: which of them another reader takes cannot be known.
    if (found !== -1) throw refuse(label, "it has two end records");
    found = at;
  }
  if (found === -1) throw refuse(label, "it has no end record; it is cut short or no zip file");
  return found;
}

/**
 * Reads the directory of an archive.
 *
 * @param label What messages call the archive, e.g. `'./x.mur.zip'`.
 * @throws {MurError} `E-IO-003` for anything that is not one plain, consistent zip file.
 */
export function openZip(bytes: Uint8Array<ArrayBuffer>, label: string): ZipArchive {
  if (bytes.length > MAX_ARCHIVE_BYTES) throw refuse(label, `it is larger than ${MAX_ARCHIVE_BYTES} bytes`);
  if (bytes.length < END_LENGTH) throw refuse(label, "it is too short to be a zip file");
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const end = findEnd(bytes, view, label);
  const count = view.getUint16(end + 10, true);
  const directorySize = view.getUint32(end + 12, true);
  const directoryOffset = view.getUint32(end + 16, true);
  const hasLocator = end >= 20 && view.getUint32(end - 20, true) === ZIP64_LOCATOR_SIGNATURE;
  if (hasLocator || count === 0xffff || directoryOffset === 0xffffffff || directorySize === 0xffffffff) {
    throw refuse(label, "it is in the zip64 format, which artifacts do not use");
  }
  const onOneDisk = view.getUint32(end + 4, true) === 0 && view.getUint16(end + 8, true) === count;
  if (!onOneDisk) throw refuse(label, "it is one part of a split archive");
  if (count > MAX_ENTRIES) throw refuse(label, `it has ${count} entries, more than ${MAX_ENTRIES}`);
  if (directoryOffset + directorySize !== end) throw refuse(label, "its directory does not end at its end record");

  const entries = new Map<string, ZipEntry>();
  const ranges: { readonly start: number; readonly end: number }[] = [];
  let at = directoryOffset;
  for (let index = 0; index < count; index++) {
    if (at + 46 > end || view.getUint32(at, true) !== CENTRAL_SIGNATURE) {
      throw refuse(label, `its directory is damaged at entry ${index + 1}`);
    }
    const madeBy = view.getUint16(at + 4, true) >>> 8;
    const flags = view.getUint16(at + 8, true);
    const method = view.getUint16(at + 10, true);
    const crc32 = view.getUint32(at + 16, true);
    const compressedSize = view.getUint32(at + 20, true);
    const size = view.getUint32(at + 24, true);
    const nameLength = view.getUint16(at + 28, true);
    const rest = view.getUint16(at + 30, true) + view.getUint16(at + 32, true);
    const mode = madeBy === 3 ? view.getUint16(at + 40, true) : 0;
    const offset = view.getUint32(at + 42, true);
    const nameEnd = at + 46 + nameLength;
    if (nameEnd + rest > end) throw refuse(label, `its directory is damaged at entry ${index + 1}`);
    if (compressedSize === 0xffffffff || size === 0xffffffff || offset === 0xffffffff) {
      throw refuse(label, "it is in the zip64 format, which artifacts do not use");
    }
    const nameBytes = bytes.subarray(at + 46, nameEnd);
    at = nameEnd + rest;

    if (offset + 30 > directoryOffset || view.getUint32(offset, true) !== LOCAL_SIGNATURE) {
      throw refuse(label, `entry ${index + 1} has no local header`);
    }
    const localNameLength = view.getUint16(offset + 26, true);
    const dataOffset = offset + 30 + localNameLength + view.getUint16(offset + 28, true);
    const dataEnd = dataOffset + compressedSize;
    if (dataEnd > directoryOffset) throw refuse(label, `the data of entry ${index + 1} reaches beyond its place`);
    ranges.push({ start: offset, end: dataEnd });
    const localFlags = view.getUint16(offset + 6, true);
    const sameName = localNameLength === nameLength &&
      nameBytes.every((byte, i) => byte === bytes[offset + 30 + i]);
    // Bit 3: the local header was written before the sizes were known.
    const sameSizes = (localFlags & 8) !== 0 ||
      (view.getUint32(offset + 14, true) === crc32 && view.getUint32(offset + 18, true) === compressedSize &&
        view.getUint32(offset + 22, true) === size);
    const sameForm = view.getUint16(offset + 8, true) === method && (localFlags & 0x2041) === (flags & 0x2041);
    if (!sameName || !sameForm || !sameSizes) {
      throw refuse(label, `the two headers of entry ${index + 1} contradict each other`);
    }

    const name = decodeName(nameBytes);
    const type = mode & 0o170000;
    if (name === null || !isSafeEntryName(name) || (type !== 0 && type !== 0o100000)) continue;
    if (entries.has(name)) throw refuse(label, `it has two entries named '${name}'`);
    const reachable = method === 8
      ? size <= compressedSize * MAX_DEFLATE_RATIO
      : method !== 0 || size === compressedSize;
    if (!reachable) throw refuse(label, `the declared size of '${name}' is not one its data can have`);
    // Bits 0, 6 and 13: encrypted, strongly encrypted, headers masked.
    const encrypted = (flags & 0x2041) !== 0;
    entries.set(name, { name, size, compressedSize, method, encrypted, crc32, dataOffset });
  }
  if (at !== end) throw refuse(label, "its directory holds more than its entries");
  ranges.sort((a, b) => a.start - b.start);
  for (let index = 1; index < ranges.length; index++) {
    if (ranges[index]!.start < ranges[index - 1]!.end) throw refuse(label, "its entries overlap");
  }
  return { label, entries, bytes };
}

function decodeName(bytes: Uint8Array): string | null {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return null;
  }
}

/**
 * Reads one entry whole.
 *
 * @param maxBytes Most bytes it may inflate to. Memory stays below that plus 16 MiB.
 * @param isCeiling Whether that is the ceiling of the environment, which the operator can raise.
 * @throws {MurError} `E-IO-003` when the entry is larger than that, is not what it declares, or cannot be read.
 */
export async function readZipEntry(
  archive: ZipArchive,
  entry: ZipEntry,
  maxBytes: number,
  isCeiling = true,
): Promise<Uint8Array<ArrayBuffer>> {
  const { label } = archive;
  if (entry.encrypted) throw refuse(label, `'${entry.name}' is encrypted`);
  if (entry.method !== 0 && entry.method !== 8) {
    throw refuse(label, `'${entry.name}' is compressed by method ${entry.method}, only deflate is known`);
  }
  if (entry.size > maxBytes) {
    const options = isCeiling
      ? { hint: "MURMUR_MAX_ARTIFACT_DECOMPRESSED_BYTES raises the ceiling for archives you trust" }
      : {};
    throw new MurError("E-IO-003", `'${entry.name}' in ${label} inflates to more than ${maxBytes} bytes`, options);
  }
  const packed = archive.bytes.subarray(entry.dataOffset, entry.dataOffset + entry.compressedSize);
  const content = entry.method === 0 ? packed.slice() : await inflateEntry(packed, entry, label);
  if (crc32(content) !== entry.crc32) throw refuse(label, `the checksum of '${entry.name}' does not match its content`);
  return content;
}

async function inflateEntry(
  packed: Uint8Array<ArrayBuffer>,
  entry: ZipEntry,
  label: string,
): Promise<Uint8Array<ArrayBuffer>> {
  if (entry.size <= MAX_INFLATED_AT_ONCE) {
    const content = inflate(packed, entry.size);
    if (content === "larger") throw refuse(label, `'${entry.name}' inflates to more than it declares`);
    if (content === "damaged") throw refuse(label, `the data of '${entry.name}' is damaged`);
    if (content.length !== entry.size) throw refuse(label, `'${entry.name}' inflates to less than it declares`);
    return content;
  }
  const content = new Uint8Array(entry.size);
  let fed = 0;
  let made = 0;
  const source = new ReadableStream<Uint8Array<ArrayBuffer>>({
    pull(controller) {
      if (fed >= packed.length) return controller.close();
      controller.enqueue(packed.subarray(fed, fed + INFLATE_STEP));
      fed += INFLATE_STEP;
    },
  }, { highWaterMark: 0 });
  try {
    for await (const chunk of source.pipeThrough(new DecompressionStream("deflate-raw"))) {
      if (made + chunk.length > entry.size) throw refuse(label, `'${entry.name}' inflates to more than it declares`);
      content.set(chunk, made);
      made += chunk.length;
    }
  } catch (error) {
    if (error instanceof MurError) throw error;
    throw refuse(label, `the data of '${entry.name}' is damaged`);
  }
  if (made !== entry.size) throw refuse(label, `'${entry.name}' inflates to less than it declares`);
  return content;
}

/** Larger entries go through the platform's stream, which does not hold up this thread. */
const MAX_INFLATED_AT_ONCE = 64 << 10;

let crcTable: Uint32Array | undefined;

/** CRC-32 as zip files use it (ISO 3309). */
export function crc32(bytes: Uint8Array): number {
  crcTable ??= Uint32Array.from({ length: 256 }, (_, n) => {
    for (let bit = 0; bit < 8; bit++) n = (n & 1) !== 0 ? (n >>> 1) ^ 0xedb88320 : n >>> 1;
    return n;
  });
  let crc = 0xffffffff;
  for (let at = 0; at < bytes.length; at++) crc = crcTable[(crc ^ bytes[at]!) & 0xff]! ^ (crc >>> 8);
  return (crc ^ 0xffffffff) >>> 0;
}
