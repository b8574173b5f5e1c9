/**
 * Writing zip archives whose bytes follow from their content alone (spec cli 6.3): deflate by a pinned pure JavaScript
 * compressor, entry time 1980-01-01 00:00:00, mode 0644, no extra fields, entries in the order given.
 *
 * @module
 */
import { MurError } from "../base/errors.ts";
import { crc32, isSafeEntryName, MAX_ARCHIVE_BYTES, MAX_ENTRIES } from "./zip_archive.ts";

/** A file to pack. */
export interface ZipInput {
  readonly name: string;
  readonly bytes: Uint8Array;
}

/** 1980-01-01 as DOS dates write it; the time of day is zero. */
const DOS_DATE = (1 << 5) | 1;
/** Written by zip specification 2.0 on Unix, so that the mode is read. */
const MADE_BY = (3 << 8) | 20;
const MODE = 0o100644;

/**
 * Packs files into an archive that {@linkcode openZip} reads.
 *
 * @throws {MurError} `E-IO-003` when the archive would have names or sizes a reader refuses.
 */
export async function writeZip(inputs: readonly ZipInput[]): Promise<Uint8Array<ArrayBuffer>> {
  const { deflateSync } = await import("fflate");
  if (inputs.length > MAX_ENTRIES) {
    throw new MurError("E-IO-003", `an archive holds at most ${MAX_ENTRIES} entries, this one has ${inputs.length}`);
  }
  const encoder = new TextEncoder();
  const names = new Set<string>();
  const locals: Uint8Array[] = [];
  const directory: Uint8Array[] = [];
  let offset = 0;
  for (const { name, bytes } of inputs) {
    if (!isSafeEntryName(name) || names.has(name)) {
      throw new MurError("E-IO-003", `'${name}' cannot be the name of an archive entry`);
    }
    names.add(name);
    const nameBytes = encoder.encode(name);
    const packed = deflateSync(bytes, { level: 9 });
    const header = new Uint8Array(30 + nameBytes.length);
    const view = new DataView(header.buffer);
    // Bit 11: the name is UTF-8. Left out for plain ASCII, where it says nothing.
    const flags = nameBytes.length === name.length ? 0 : 1 << 11;
    view.setUint32(0, 0x04034b50, true);
    view.setUint16(4, 20, true);
    view.setUint16(6, flags, true);
    view.setUint16(8, 8, true);
    view.setUint16(12, DOS_DATE, true);
    view.setUint32(14, crc32(bytes), true);
    view.setUint32(18, packed.length, true);
    view.setUint32(22, bytes.length, true);
    view.setUint16(26, nameBytes.length, true);
    header.set(nameBytes, 30);
    const central = new Uint8Array(46 + nameBytes.length);
    const centralView = new DataView(central.buffer);
    centralView.setUint32(0, 0x02014b50, true);
    centralView.setUint16(4, MADE_BY, true);
    // Version needed, flags, method, time, date, checksum, sizes and name length are the local header's.
    central.set(header.subarray(4, 28), 6);
    centralView.setUint16(30, 0, true);
    centralView.setUint32(38, (MODE << 16) >>> 0, true);
    centralView.setUint32(42, offset, true);
    central.set(nameBytes, 46);
    locals.push(header, packed);
    directory.push(central);
    offset += header.length + packed.length;
    if (offset > MAX_ARCHIVE_BYTES) {
      throw new MurError("E-IO-003", `the archive would be larger than ${MAX_ARCHIVE_BYTES} bytes`);
    }
  }
  const directorySize = directory.reduce((sum, part) => sum + part.length, 0);
  const end = new Uint8Array(22);
  const endView = new DataView(end.buffer);
  endView.setUint32(0, 0x06054b50, true);
  endView.setUint16(8, inputs.length, true);
  endView.setUint16(10, inputs.length, true);
  endView.setUint32(12, directorySize, true);
  endView.setUint32(16, offset, true);
  const archive = new Uint8Array(offset + directorySize + end.length);
  let at = 0;
  for (const part of [...locals, ...directory, end]) {
    archive.set(part, at);
    at += part.length;
  }
  return archive;
}
