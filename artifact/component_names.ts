/**
 * The interface names a WebAssembly component imports and exports, read from its binary (spec cli 7 `wit_contracts`,
 * components 1.2). Only the two top-level sections are looked at; nothing is validated, compiled or run.
 *
 * @module
 */

/** Interface names in binary order, each once. */
export interface ComponentNames {
  readonly exports: readonly string[];
  readonly imports: readonly string[];
}

const IMPORT_SECTION = 10;
const EXPORT_SECTION = 11;

/** Most names of one direction that are kept; a component with more is not one this product makes sense of. */
const MAX_NAMES = 10_000;

/** Thrown inside this module only, and turned into `null`. */
class Malformed extends Error {}

class Reader {
  #at: number;
  readonly #bytes: Uint8Array;
  readonly #end: number;

  constructor(bytes: Uint8Array, at: number, end: number) {
    if (end > bytes.length) throw new Malformed();
    this.#bytes = bytes;
    this.#at = at;
    this.#end = end;
  }

  get done(): boolean {
    return this.#at >= this.#end;
  }

  byte(): number {
    if (this.#at >= this.#end) throw new Malformed();
    return this.#bytes[this.#at++]!;
  }

  /** An unsigned 32-bit number in LEB128. */
  u32(): number {
    let value = 0;
    for (let shift = 0; shift < 35; shift += 7) {
      const byte = this.byte();
      value += (byte & 0x7f) * 2 ** shift;
      if ((byte & 0x80) === 0) {
        if (value > 0xffffffff) throw new Malformed();
        return value;
      }
    }
    throw new Malformed();
  }

  text(): string {
    const length = this.u32();
    const start = this.#skip(length);
    try {
      return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(this.#bytes.subarray(start, this.#at));
    } catch {
      throw new Malformed();
    }
  }

  /** A reader over the next `length` bytes, which this one steps over. */
  section(length: number): Reader {
    const start = this.#skip(length);
    return new Reader(this.#bytes, start, this.#at);
  }

  #skip(length: number): number {
    const start = this.#at;
    if (length > this.#end - start) throw new Malformed();
    this.#at = start + length;
    return start;
  }
}

/** `importname'` or `exportname'`: a kind byte, then the text; kind 2 is followed by a list of options. */
function externName(reader: Reader): string {
  const kind = reader.byte();
  if (kind > 2) throw new Malformed();
  const name = reader.text();
  if (kind === 2) {
    // Options of the newer form: a version suffix, or another text.
    for (let count = reader.u32(); count > 0; count--) {
      reader.byte();
      reader.text();
    }
  }
  return name;
}

function externDescription(reader: Reader): void {
  const sort = reader.byte();
  switch (sort) {
    case 0x00: // core module
      if (reader.byte() !== 0x11) throw new Malformed();
      reader.u32();
      return;
    case 0x01: // function
    case 0x04: // component
    case 0x05: // instance
      reader.u32();
      return;
    case 0x02: // value: equal to one, or of a type
      if (reader.byte() === 0x00) reader.u32();
      else valueType(reader);
      return;
    case 0x03: // type: equal to one, or a fresh resource
      if (reader.byte() === 0x00) reader.u32();
      return;
    default:
      throw new Malformed();
  }
}

/** A value type is a primitive in one byte, or a signed index. */
function valueType(reader: Reader): void {
  while ((reader.byte() & 0x80) !== 0) {
    if (reader.done) throw new Malformed();
  }
}

/** Names of interfaces: `namespace:package/interface`, with or without `@version`. */
function isInterfaceName(name: string): boolean {
  return /^[^\s:/]+:[^\s/]+\/\S+$/.test(name);
}

/** Whether the bytes start as a component, as opposed to a core module, does. */
export function isComponent(bytes: Uint8Array): boolean {
  const preamble = [0x00, 0x61, 0x73, 0x6d, 0x0d, 0x00, 0x01, 0x00];
  return preamble.every((byte, index) => bytes[index] === byte);
}

/**
 * Reads the interface names of a component.
 *
 * @returns `null` when the bytes are no component, or one whose import or export section cannot be followed.
 */
export function componentNames(bytes: Uint8Array): ComponentNames | null {
  if (!isComponent(bytes)) return null;
  const imports = new Set<string>();
  const exports = new Set<string>();
  try {
    const reader = new Reader(bytes, 8, bytes.length);
    while (!reader.done) {
      const id = reader.byte();
      const section = reader.section(reader.u32());
      if (id !== IMPORT_SECTION && id !== EXPORT_SECTION) continue;
      const names = id === IMPORT_SECTION ? imports : exports;
      for (let count = section.u32(); count > 0; count--) {
        const name = externName(section);
        if (id === IMPORT_SECTION) {
          externDescription(section);
        } else {
          // The sort and index of what is exported, then its type when one is ascribed.
          if (section.byte() === 0x00) section.byte();
          section.u32();
          if (section.byte() === 0x01) externDescription(section);
        }
        if (isInterfaceName(name)) names.add(name);
        if (names.size > MAX_NAMES) return null;
      }
    }
  } catch (error) {
    if (error instanceof Malformed) return null;
    throw error;
  }
  return { exports: [...exports], imports: [...imports] };
}
