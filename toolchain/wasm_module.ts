/**
 * Core WebAssembly modules as sections, and just enough of their instructions to walk a function's code (WebAssembly 2.0,
 * binary format). Reads what a compiler wrote; nothing here is for hostile input.
 *
 * @module
 */

/** One section: its id and content. */
export interface Section {
  readonly id: number;
  readonly body: Uint8Array;
}

/** Reads the integers and names of the binary format. */
export class WasmReader {
  readonly bytes: Uint8Array;
  position: number;

  constructor(bytes: Uint8Array, position = 0) {
    this.bytes = bytes;
    this.position = position;
  }

  get atEnd(): boolean {
    return this.position >= this.bytes.length;
  }

  byte(): number {
    const value = this.bytes[this.position++];
    if (value === undefined) throw new RangeError("the module ends too early");
    return value;
  }

  /** An unsigned LEB128 integer of up to 32 bits. */
  u32(): number {
    let value = 0;
    for (let shift = 0; shift < 35; shift += 7) {
      const byte = this.byte();
      value += (byte & 0x7f) * 2 ** shift;
      if (byte < 0x80) return value;
    }
    throw new RangeError("an integer of the module is too long");
  }

  /** Passes over a LEB128 integer of any width. */
  skipLeb(): void {
    while (this.byte() >= 0x80);
  }

  /** The next bytes, not copied. */
  take(length: number): Uint8Array {
    if (this.position + length > this.bytes.length) throw new RangeError("the module ends too early");
    const part = this.bytes.subarray(this.position, this.position + length);
    this.position += length;
    return part;
  }

  name(): string {
    return new TextDecoder().decode(this.take(this.u32()));
  }
}

/** An unsigned LEB128 integer. */
export function leb(value: number): number[] {
  const bytes: number[] = [];
  do {
    const low = value % 128;
    value = Math.floor(value / 128);
    bytes.push(value > 0 ? low | 0x80 : low);
  } while (value > 0);
  return bytes;
}

/** Joins byte sequences. */
export function concat(parts: readonly (Uint8Array | readonly number[])[]): Uint8Array<ArrayBuffer> {
  const all = new Uint8Array(parts.reduce((length, part) => length + part.length, 0));
  let offset = 0;
  for (const part of parts) {
    all.set(part, offset);
    offset += part.length;
  }
  return all;
}

const HEADER = [0x00, 0x61, 0x73, 0x6d, 0x01, 0x00, 0x00, 0x00];

/** Sections of a module, in order. */
export function readSections(module: Uint8Array): Section[] {
  if (!HEADER.every((byte, index) => module[index] === byte)) throw new RangeError("not a core module");
  const reader = new WasmReader(module, HEADER.length);
  const sections: Section[] = [];
  while (!reader.atEnd) {
    const id = reader.byte();
    sections.push({ id, body: reader.take(reader.u32()) });
  }
  return sections;
}

/** A module of these sections. */
export function writeSections(sections: readonly Section[]): Uint8Array<ArrayBuffer> {
  return concat([HEADER, ...sections.flatMap(({ id, body }) => [[id, ...leb(body.length)], body])]);
}

/** Passes over the immediates of one instruction; `call` tells of a direct call. */
function skipInstruction(reader: WasmReader, call: (start: number, target: number, end: number) => void): void {
  const start = reader.position;
  const opcode = reader.byte();
  if (opcode === 0x10) {
    const target = reader.u32();
    call(start, target, reader.position);
  } else if (opcode >= 0x02 && opcode <= 0x04) reader.skipLeb(); // block, loop, if: a block type
  else if (opcode === 0x0c || opcode === 0x0d) reader.skipLeb(); // br, br_if
  else if (opcode === 0x0e) { for (let count = reader.u32() + 1; count > 0; count--) reader.skipLeb(); }
  // br_table
  else if (opcode === 0x11) reader.skipLeb(), reader.skipLeb(); // call_indirect
  else if (opcode === 0x1c) reader.take(reader.u32()); // select with types
  else if (opcode >= 0x20 && opcode <= 0x26) reader.skipLeb(); // locals, globals, table.get, table.set
  else if (opcode >= 0x28 && opcode <= 0x3e) reader.skipLeb(), reader.skipLeb(); // loads and stores
  else if (opcode === 0x3f || opcode === 0x40) reader.skipLeb(); // memory.size, memory.grow
  else if (opcode === 0x41 || opcode === 0x42) reader.skipLeb(); // i32.const, i64.const
  else if (opcode === 0x43) reader.take(4);
  else if (opcode === 0x44) reader.take(8);
  else if (opcode === 0xd0 || opcode === 0xd2) reader.skipLeb(); // ref.null, ref.func
  else if (opcode === 0xfc) {
    const operation = reader.u32();
    // Saturating conversions have no immediates; of the bulk operations three have two, the others one.
    if (operation === 8 || operation === 10 || operation === 12 || operation === 14) reader.skipLeb(), reader.skipLeb();
    else if (operation > 8 && operation <= 17) reader.skipLeb();
  } else if (opcode > 0xd2 || (opcode >= 0x12 && opcode <= 0x19) || (opcode >= 0x06 && opcode <= 0x0a)) {
    throw new RangeError(`an instruction of the module is not known here: 0x${opcode.toString(16)}`);
  }
}

/**
 * Replaces the target of direct calls in one function body; `null` when it has none of them.
 *
 * @param onRedirect Told each old target that was replaced.
 */
export function redirectCalls(
  body: Uint8Array,
  targets: ReadonlyMap<number, number>,
  onRedirect: (target: number) => void,
): Uint8Array | null {
  const reader = new WasmReader(body);
  for (let groups = reader.u32(); groups > 0; groups--) reader.skipLeb(), reader.byte();
  const parts: (Uint8Array | number[])[] = [];
  let copied = 0;
  while (!reader.atEnd) {
    skipInstruction(reader, (start, target, end) => {
      const replacement = targets.get(target);
      if (replacement === undefined) return;
      parts.push(body.subarray(copied, start), [0x10, ...leb(replacement)]);
      copied = end;
      onRedirect(target);
    });
  }
  if (parts.length === 0) return null;
  return concat([...parts, body.subarray(copied)]);
}
