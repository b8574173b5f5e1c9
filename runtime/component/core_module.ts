/**
 * Rewrites core modules so that the growth limits of spec containment 15 hold: {@linkcode recordDenials} makes refused
 * growth visible (once, when a component is translated), {@linkcode capModule} lowers the declared maxima to the limits
 * (each time a module is handed to a host). The engine then refuses growth beyond them.
 *
 * Pure: bytes in, bytes out. No index in the module moves: everything new is appended.
 *
 * @module
 */

import { DENIED_MEMORY, DENIED_TABLE } from "./growth_globals.ts";

/** Bytes of a page of linear memory. */
export const PAGE_BYTES = 65_536;

/** The bytes are no core module this code can read. */
export class CoreModuleError extends Error {
  override readonly name = "CoreModuleError";
}

/** A declared minimum is above its limit: the module cannot be instantiated under it. */
export interface MinimumExceeded {
  readonly what: "memory" | "table";
  /** Bytes or elements the module declares as its minimum. */
  readonly asked: number;
}

const Section = {
  type: 1,
  import: 2,
  function: 3,
  table: 4,
  memory: 5,
  global: 6,
  export: 7,
  code: 10,
} as const;

/** Sections in the order the format wants them. */
const ORDER = [1, 2, 3, 4, 5, 13, 6, 7, 8, 9, 12, 10, 11];

interface SectionBytes {
  readonly id: number;
  readonly payload: Uint8Array;
}

class Reader {
  readonly bytes: Uint8Array;
  at: number;

  constructor(bytes: Uint8Array, at = 0) {
    this.bytes = bytes;
    this.at = at;
  }

  get done(): boolean {
    return this.at >= this.bytes.length;
  }

  byte(): number {
    const value = this.bytes[this.at++];
    if (value === undefined) throw new CoreModuleError("the module ends too early");
    return value;
  }

  u32(): number {
    let value = 0;
    for (let factor = 1, length = 0; length < 5; length++, factor *= 128) {
      const byte = this.byte();
      value += (byte & 0x7f) * factor;
      if (byte < 0x80) return value;
    }
    throw new CoreModuleError("a number is too long");
  }

  /** Any LEB128 number up to 64 bits, as far as a JavaScript number holds it. */
  u64(): number {
    let value = 0;
    for (let factor = 1, length = 0; length < 10; length++, factor *= 128) {
      const byte = this.byte();
      value += (byte & 0x7f) * factor;
      if (byte < 0x80) return value;
    }
    throw new CoreModuleError("a number is too long");
  }

  skipLeb(): void {
    for (let length = 0; length < 10; length++) if (this.byte() < 0x80) return;
    throw new CoreModuleError("a number is too long");
  }

  skip(count: number): void {
    this.at += count;
    if (this.at > this.bytes.length) throw new CoreModuleError("the module ends too early");
  }

  take(count: number): Uint8Array {
    const from = this.at;
    this.skip(count);
    return this.bytes.subarray(from, this.at);
  }

  skipName(): void {
    this.skip(this.u32());
  }
}

class Writer {
  #parts: Uint8Array[] = [];
  #length = 0;

  bytes(part: Uint8Array | readonly number[]): this {
    const bytes = part instanceof Uint8Array ? part : Uint8Array.from(part);
    this.#parts.push(bytes);
    this.#length += bytes.length;
    return this;
  }

  u32(value: number): this {
    return this.bytes(leb(value));
  }

  name(text: string): this {
    const bytes = new TextEncoder().encode(text);
    return this.u32(bytes.length).bytes(bytes);
  }

  get length(): number {
    return this.#length;
  }

  /** What was written, in pieces. */
  get pieces(): readonly Uint8Array[] {
    return this.#parts;
  }

  finish(): Uint8Array<ArrayBuffer> {
    const whole = new Uint8Array(this.#length);
    let at = 0;
    for (const part of this.#parts) {
      whole.set(part, at);
      at += part.length;
    }
    return whole;
  }
}

function leb(value: number): number[] {
  const bytes: number[] = [];
  for (;;) {
    const low = value % 128;
    value = Math.floor(value / 128);
    if (value === 0) return [...bytes, low];
    bytes.push(low | 0x80);
  }
}

const PREAMBLE = [0x00, 0x61, 0x73, 0x6d, 0x01, 0x00, 0x00, 0x00];

function readSections(bytes: Uint8Array): SectionBytes[] {
  if (PREAMBLE.some((byte, index) => bytes[index] !== byte)) throw new CoreModuleError("not a core module");
  const reader = new Reader(bytes, 8);
  const sections: SectionBytes[] = [];
  while (!reader.done) {
    const id = reader.byte();
    sections.push({ id, payload: reader.take(reader.u32()) });
  }
  return sections;
}

function writeSections(sections: readonly SectionBytes[]): Writer {
  const writer = new Writer().bytes(PREAMBLE);
  for (const { id, payload } of sections) writer.bytes([id]).u32(payload.length).bytes(payload);
  return writer;
}

function sectionOf(sections: readonly SectionBytes[], id: number): Uint8Array | undefined {
  return sections.find((section) => section.id === id)?.payload;
}

interface Limits {
  readonly flags: number;
  readonly minimum: number;
  readonly maximum: number | null;
  /** Custom page size as its exponent, `null` when the format's own. */
  readonly pageSizeLog: number | null;
}

const HAS_MAXIMUM = 1;
const INDEX_64 = 4;
const CUSTOM_PAGE = 8;

function readLimits(reader: Reader): Limits {
  const flags = reader.byte();
  if (flags > 15) throw new CoreModuleError(`limits of an unknown kind (${flags})`);
  const minimum = reader.u64();
  const maximum = (flags & HAS_MAXIMUM) !== 0 ? reader.u64() : null;
  const pageSizeLog = (flags & CUSTOM_PAGE) !== 0 ? reader.u32() : null;
  return { flags, minimum, maximum, pageSizeLog };
}

function writeLimits(writer: Writer, limits: Limits, maximum: number): void {
  writer.bytes([limits.flags | HAS_MAXIMUM]).u32(limits.minimum).u32(maximum);
  if (limits.pageSizeLog !== null) writer.u32(limits.pageSizeLog);
}

/** Reads one reference type, which may take more than a byte. */
function skipValueType(reader: Reader): void {
  const byte = reader.byte();
  if (byte === 0x63 || byte === 0x64) reader.skipLeb();
}

/**
 * Lowers the declared maxima of the module's own memories and tables to the limits.
 *
 * @param memoryBytes Most bytes of one linear memory.
 * @param tableElements Most elements of one table.
 * @returns the module in pieces, most of them of `bytes` itself, or what its declared minimum asks for beyond a limit.
 * @throws {CoreModuleError} when the module cannot be read.
 */
export function capModule(
  bytes: Uint8Array,
  memoryBytes: number,
  tableElements: number,
): readonly Uint8Array[] | MinimumExceeded {
  const sections = readSections(bytes);
  let exceeded: MinimumExceeded | null = null;
  const capped = sections.map((section) => {
    if (section.id !== Section.memory && section.id !== Section.table) return section;
    const reader = new Reader(section.payload);
    const count = reader.u32();
    const writer = new Writer().u32(count);
    for (let i = 0; i < count; i++) {
      if (section.id === Section.memory) {
        const limits = readLimits(reader);
        const page = limits.pageSizeLog === null ? PAGE_BYTES : 2 ** limits.pageSizeLog;
        const cap = Math.floor(memoryBytes / page);
        if (limits.minimum > cap) exceeded ??= { what: "memory", asked: limits.minimum * page };
        writeLimits(writer, limits, Math.min(limits.maximum ?? Infinity, Math.max(cap, limits.minimum)));
        continue;
      }
      const from = reader.at;
      // A table with an initial value: 0x40 0x00, then the type as usual, then an expression.
      const withValue = section.payload[from] === 0x40;
      if (withValue) reader.skip(2);
      skipValueType(reader);
      writer.bytes(section.payload.subarray(from, reader.at));
      const limits = readLimits(reader);
      if (limits.minimum > tableElements) exceeded ??= { what: "table", asked: limits.minimum };
      writeLimits(writer, limits, Math.min(limits.maximum ?? Infinity, Math.max(tableElements, limits.minimum)));
      if (withValue) {
        const start = reader.at;
        while (skipInstruction(reader) !== Op.end);
        writer.bytes(section.payload.subarray(start, reader.at));
      }
    }
    if (!reader.done) throw new CoreModuleError("bytes left in a section");
    return { id: section.id, payload: writer.finish() };
  });
  return exceeded ?? writeSections(capped).pieces;
}

const Op = { end: 0x0b, call: 0x10, memoryGrow: 0x40, tableGrow: 0xfc0f } as const;

/**
 * Skips one instruction with its operands.
 *
 * @returns its opcode; two-byte opcodes as `prefix << 8 | code`.
 * @throws {CoreModuleError} when it is not known.
 */
function skipInstruction(reader: Reader): number {
  const op = reader.byte();
  if (op >= 0x45 && op <= 0xc4) return op;
  if (op >= 0x28 && op <= 0x3e) {
    skipMemoryArgument(reader);
    return op;
  }
  switch (op) {
    case 0x00:
    case 0x01:
    case 0x05:
    case 0x0a:
    case 0x0b:
    case 0x0f:
    case 0x19:
    case 0x1a:
    case 0x1b:
    case 0xd1:
    case 0xd3:
    case 0xd4:
      return op;
    case 0x02:
    case 0x03:
    case 0x04:
    case 0x06:
      skipBlockType(reader);
      return op;
    case 0x07:
    case 0x08:
    case 0x09:
    case 0x0c:
    case 0x0d:
    case 0x10:
    case 0x12:
    case 0x14:
    case 0x15:
    case 0x18:
    case 0x20:
    case 0x21:
    case 0x22:
    case 0x23:
    case 0x24:
    case 0x25:
    case 0x26:
    case 0x3f:
    case 0x40:
    case 0x41:
    case 0x42:
    case 0xd0:
    case 0xd2:
    case 0xd5:
    case 0xd6:
      reader.skipLeb();
      return op;
    case 0x0e:
      for (let left = reader.u32() + 1; left > 0; left--) reader.skipLeb();
      return op;
    case 0x11:
    case 0x13:
      reader.skipLeb();
      reader.skipLeb();
      return op;
    case 0x1c:
      for (let left = reader.u32(); left > 0; left--) skipValueType(reader);
      return op;
    case 0x1f: {
      skipBlockType(reader);
      for (let left = reader.u32(); left > 0; left--) {
        const kind = reader.byte();
        if (kind > 3) throw new CoreModuleError(`an unknown catch clause ${kind}`);
        if (kind < 2) reader.skipLeb();
        reader.skipLeb();
      }
      return op;
    }
    case 0x43:
      reader.skip(4);
      return op;
    case 0x44:
      reader.skip(8);
      return op;
    case 0xfc:
      return op << 8 | skipNumericExtension(reader);
    case 0xfd:
      skipVector(reader);
      return op;
    case 0xfe:
      skipAtomic(reader);
      return op;
    default:
      throw new CoreModuleError(`an unknown instruction 0x${op.toString(16)}`);
  }
}

function skipBlockType(reader: Reader): void {
  const first = reader.bytes[reader.at];
  reader.skipLeb();
  if (first === 0x63 || first === 0x64) reader.skipLeb();
}

function skipMemoryArgument(reader: Reader): void {
  const align = reader.u32();
  if ((align & 0x40) !== 0) reader.skipLeb();
  reader.skipLeb();
}

function skipNumericExtension(reader: Reader): number {
  const code = reader.u32();
  if (code <= 7 || (code >= 19 && code <= 22)) return code;
  switch (code) {
    case 8:
    case 10:
    case 12:
    case 14:
      reader.skipLeb();
      reader.skipLeb();
      return code;
    case 9:
    case 11:
    case 13:
    case 15:
    case 16:
    case 17:
    case 18:
      reader.skipLeb();
      return code;
    default:
      throw new CoreModuleError(`an unknown instruction 0xfc ${code}`);
  }
}

function skipVector(reader: Reader): void {
  const code = reader.u32();
  if (code <= 11 || code === 92 || code === 93) skipMemoryArgument(reader);
  else if (code <= 13) reader.skip(16);
  else if (code >= 21 && code <= 34) reader.skip(1);
  else if (code >= 84 && code <= 91) {
    skipMemoryArgument(reader);
    reader.skip(1);
  } else if (code > 0x113) throw new CoreModuleError(`an unknown instruction 0xfd ${code}`);
}

function skipAtomic(reader: Reader): void {
  const code = reader.u32();
  if (code === 3) reader.skip(1);
  else if (code <= 2 || (code >= 0x10 && code <= 0x4e)) skipMemoryArgument(reader);
  else throw new CoreModuleError(`an unknown instruction 0xfe ${code}`);
}

interface Growth {
  /** The whole replaced module. */
  readonly kind: "memory" | "table";
  readonly index: number;
}

/** What a module imports and declares, as far as appending needs it. */
interface Shape {
  readonly types: number;
  readonly functions: number;
  readonly globals: number;
  /** Whether each memory is addressed by 64 bits. */
  readonly memories: readonly boolean[];
  /** Reference type of each table; `null` when it is addressed by 64 bits. */
  readonly tables: readonly (Uint8Array | null)[];
}

function readShape(sections: readonly SectionBytes[]): Shape | null {
  const types = sectionOf(sections, Section.type);
  if (types === undefined) return null;
  const typeReader = new Reader(types);
  const typeCount = typeReader.u32();
  for (let i = 0; i < typeCount; i++) {
    // Recursive groups and subtypes: the count of types is not the count of entries.
    if (typeReader.byte() !== 0x60) return null;
    for (const _ of [0, 1]) for (let left = typeReader.u32(); left > 0; left--) skipValueType(typeReader);
  }
  let functions = 0;
  let globals = 0;
  const memories: boolean[] = [];
  const tables: (Uint8Array | null)[] = [];
  const readTable = (reader: Reader) => {
    const from = reader.at;
    skipValueType(reader);
    const type = reader.bytes.subarray(from, reader.at);
    tables.push((readLimits(reader).flags & INDEX_64) === 0 ? type : null);
  };
  const readMemory = (reader: Reader) => {
    const limits = readLimits(reader);
    memories.push((limits.flags & INDEX_64) !== 0);
  };
  const imports = sectionOf(sections, Section.import);
  if (imports !== undefined) {
    const reader = new Reader(imports);
    for (let left = reader.u32(); left > 0; left--) {
      reader.skipName();
      reader.skipName();
      switch (reader.byte()) {
        case 0:
          reader.skipLeb();
          functions++;
          break;
        case 1:
          readTable(reader);
          break;
        case 2:
          readMemory(reader);
          break;
        case 3:
          skipValueType(reader);
          reader.skip(1);
          globals++;
          break;
        case 4:
          reader.skip(1);
          reader.skipLeb();
          break;
        default:
          throw new CoreModuleError("an import of an unknown kind");
      }
    }
  }
  for (const [id, read] of [[Section.table, readTable], [Section.memory, readMemory]] as const) {
    const payload = sectionOf(sections, id);
    if (payload === undefined) continue;
    const reader = new Reader(payload);
    for (let left = reader.u32(); left > 0; left--) {
      // A table with an initial value is left alone: its module grows unrecorded, but bounded.
      if (id === Section.table && payload[reader.at] === 0x40) return null;
      read(reader);
    }
  }
  const functionSection = sectionOf(sections, Section.function);
  if (functionSection !== undefined) functions += new Reader(functionSection).u32();
  const globalSection = sectionOf(sections, Section.global);
  if (globalSection !== undefined) globals += new Reader(globalSection).u32();
  return { types: typeCount, functions, globals, memories, tables };
}

/** Body of a function that grows a memory or table and keeps the first total that was refused. */
function growBody(growth: Growth, wide: boolean, global: number): Uint8Array {
  const i32 = 0x7f;
  const i64 = 0x7e;
  const memory = growth.kind === "memory";
  const size = memory ? [0x3f, ...leb(growth.index)] : [0xfc, ...leb(16), ...leb(growth.index)];
  const grow = memory ? [0x40, ...leb(growth.index)] : [0xfc, ...leb(15), ...leb(growth.index)];
  const extend = wide ? [] : [0xad];
  // Parameters: the delta of a memory; the value and the delta of a table. Then one local for the result.
  const delta = memory ? 0 : 1;
  const result = delta + 1;
  const code = [
    ...(memory ? [] : [0x20, 0]),
    ...[0x20, delta],
    ...grow,
    ...[0x22, result],
    ...(wide ? [0x42, 0x7f, 0x51] : [0x41, 0x7f, 0x46]),
    ...[0x04, 0x40],
    ...[0x23, ...leb(global), 0x50, 0x04, 0x40],
    ...size,
    ...extend,
    ...[0x20, delta],
    ...extend,
    ...[0x7c, 0x24, ...leb(global)],
    ...[0x0b, 0x0b],
    ...[0x20, result],
    0x0b,
  ];
  const body = [1, 1, wide ? i64 : i32, ...code];
  return Uint8Array.from([...leb(body.length), ...body]);
}

/** Appends `items` to a section that begins with a count, and makes the section when it is missing. */
function append(sections: SectionBytes[], id: number, items: readonly Uint8Array[]): void {
  const index = sections.findIndex((section) => section.id === id);
  const old = index === -1 ? Uint8Array.of(0) : sections[index]!.payload;
  const reader = new Reader(old);
  const writer = new Writer().u32(reader.u32() + items.length).bytes(old.subarray(reader.at));
  for (const item of items) writer.bytes(item);
  const section = { id, payload: writer.finish() };
  if (index !== -1) {
    sections[index] = section;
    return;
  }
  const rank = ORDER.indexOf(id);
  const before = sections.findIndex((other) => other.id !== 0 && ORDER.indexOf(other.id) > rank);
  sections.splice(before === -1 ? sections.length : before, 0, section);
}

/**
 * Replaces every instruction that grows a memory or table by a call of a function that does the same and keeps the first
 * refused total in an exported global ({@linkcode DENIED_MEMORY}, {@linkcode DENIED_TABLE}).
 *
 * A module without such instructions, or with features whose growth cannot be told here (garbage-collected types,
 * instructions unknown to this code), comes back as it was: its growth is bounded by {@linkcode capModule} all the same,
 * a trap that follows a refusal is then reported as a trap.
 *
 * @throws {CoreModuleError} when the bytes are no core module.
 */
export function recordDenials(bytes: Uint8Array): Uint8Array {
  const sections = readSections(bytes);
  const code = sectionOf(sections, Section.code);
  const shape = readShape(sections);
  if (code === undefined || shape === null) return bytes;

  const found: Growth[] = [];
  const newFunction = (kind: Growth["kind"], index: number): number | null => {
    if (kind === "memory" ? shape.memories[index] === undefined : (shape.tables[index] ?? null) === null) return null;
    let position = found.findIndex((growth) => growth.kind === kind && growth.index === index);
    if (position === -1) position = found.push({ kind, index }) - 1;
    return shape.functions + position;
  };
  let bodies: Uint8Array;
  try {
    bodies = rewriteBodies(code, newFunction);
  } catch (error) {
    if (error instanceof CoreModuleError) return bytes;
    throw error;
  }
  if (found.length === 0) return bytes;

  const result = sections.map((section) => section.id === Section.code ? { id: section.id, payload: bodies } : section);
  const kinds = (["memory", "table"] as const).filter((kind) => found.some((growth) => growth.kind === kind));
  const globalOf = (kind: Growth["kind"]) => shape.globals + kinds.indexOf(kind);
  const wide = (growth: Growth) => growth.kind === "memory" && shape.memories[growth.index] === true;
  append(
    result,
    Section.type,
    found.map((growth) => {
      const number = wide(growth) ? 0x7e : 0x7f;
      return growth.kind === "memory"
        ? Uint8Array.of(0x60, 1, number, 1, number)
        : Uint8Array.from([0x60, 2, ...shape.tables[growth.index]!, number, 1, number]);
    }),
  );
  append(result, Section.function, found.map((_, index) => Uint8Array.from(leb(shape.types + index))));
  append(result, Section.global, kinds.map(() => Uint8Array.of(0x7e, 1, 0x42, 0, 0x0b)));
  append(
    result,
    Section.export,
    kinds.map((kind) =>
      new Writer().name(kind === "memory" ? DENIED_MEMORY : DENIED_TABLE).bytes([3]).u32(globalOf(kind)).finish()
    ),
  );
  append(result, Section.code, found.map((growth) => growBody(growth, wide(growth), globalOf(growth.kind))));
  return writeSections(result).finish();
}

function rewriteBodies(code: Uint8Array, functionFor: (kind: Growth["kind"], index: number) => number | null) {
  const reader = new Reader(code);
  const count = reader.u32();
  const writer = new Writer().u32(count);
  for (let i = 0; i < count; i++) {
    const start = reader.at;
    const size = reader.u32();
    const body = new Reader(code.subarray(0, reader.at + size), reader.at);
    reader.skip(size);
    const from = body.at;
    for (let groups = body.u32(); groups > 0; groups--) {
      body.skipLeb();
      skipValueType(body);
    }
    const parts: Uint8Array[] = [];
    let copied = from;
    while (!body.done) {
      const at = body.at;
      const op = skipInstruction(body);
      if (op !== Op.memoryGrow && op !== Op.tableGrow) continue;
      const operand = new Reader(code, at + 1);
      if (op === Op.tableGrow) operand.u32();
      const index = operand.u32();
      const target = functionFor(op === Op.memoryGrow ? "memory" : "table", index);
      if (target === null) continue;
      parts.push(code.subarray(copied, at), Uint8Array.from([Op.call, ...leb(target)]));
      copied = body.at;
    }
    if (parts.length === 0) {
      writer.bytes(code.subarray(start, reader.at));
      continue;
    }
    parts.push(code.subarray(copied, reader.at));
    writer.u32(parts.reduce((sum, part) => sum + part.length, 0));
    for (const part of parts) writer.bytes(part);
  }
  if (!reader.done) throw new CoreModuleError("bytes left in the code section");
  return writer.finish();
}
