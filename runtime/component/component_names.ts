/**
 * Names of a component's imports and exports, read from its binary form without translating it. Also tells components,
 * core modules and other bytes apart.
 *
 * @module
 */

/** What the bytes of an artifact are. */
export type BinaryKind = "component" | "core-module" | "unknown";

/** Tells by the preamble what `bytes` claim to be. */
export function binaryKind(bytes: Uint8Array): BinaryKind {
  const magic = [0x00, 0x61, 0x73, 0x6d];
  if (bytes.length < 8 || magic.some((byte, index) => bytes[index] !== byte)) return "unknown";
  // Version and layer, two bytes each, little endian: a core module is layer 0, a component layer 1.
  const layer = bytes[6]! | bytes[7]! << 8;
  const version = bytes[4]! | bytes[5]! << 8;
  if (layer === 0 && version === 1) return "core-module";
  return layer === 1 ? "component" : "unknown";
}

/** Top-level names of a component. */
export interface ComponentNames {
  /** Sorted. */
  readonly imports: readonly string[];
  /** Sorted. */
  readonly exports: readonly string[];
}

/** The bytes can't be read as a component. */
export class ComponentNamesError extends Error {
  override readonly name = "ComponentNamesError";
}

const IMPORT_SECTION = 10;
const EXPORT_SECTION = 11;
const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/**
 * Reads the names. Nothing but the import and export sections is looked into; that the rest is valid is the
 * translation's to find out.
 *
 * @throws {ComponentNamesError} when the bytes are no component or end too early.
 */
export function componentNames(bytes: Uint8Array): ComponentNames {
  if (binaryKind(bytes) !== "component") throw new ComponentNamesError("not a component");
  const imports = new Set<string>();
  const exports = new Set<string>();
  const file = new Reader(bytes, 8, bytes.length);
  while (!file.done) {
    const id = file.byte();
    const size = file.u32();
    const section = file.part(size);
    if (id === IMPORT_SECTION) {
      for (let left = section.u32(); left > 0; left--) {
        imports.add(section.externName());
        section.skipExternDescription();
      }
    } else if (id === EXPORT_SECTION) {
      for (let left = section.u32(); left > 0; left--) {
        exports.add(section.externName());
        section.skipSortIndex();
        if (section.byte() !== 0) section.skipExternDescription();
      }
    }
  }
  return { imports: [...imports].sort(), exports: [...exports].sort() };
}

class Reader {
  readonly #bytes: Uint8Array;
  readonly #end: number;
  #at: number;

  constructor(bytes: Uint8Array, at: number, end: number) {
    this.#bytes = bytes;
    this.#at = at;
    this.#end = end;
  }

  get done(): boolean {
    return this.#at >= this.#end;
  }

  byte(): number {
    if (this.done) throw new ComponentNamesError("the component ends too early");
    return this.#bytes[this.#at++]!;
  }

  u32(): number {
    let value = 0;
    for (let factor = 1, length = 0; length < 5; length++, factor *= 128) {
      const byte = this.byte();
      value += (byte & 0x7f) * factor;
      if (byte < 0x80) return value;
    }
    throw new ComponentNamesError("a number is too long");
  }

  #skip(length: number): number {
    const from = this.#at;
    this.#at += length;
    if (this.#at > this.#end) throw new ComponentNamesError("the component ends too early");
    return from;
  }

  part(size: number): Reader {
    const from = this.#skip(size);
    return new Reader(this.#bytes, from, from + size);
  }

  text(): string {
    const length = this.u32();
    const from = this.#skip(length);
    try {
      return decoder.decode(this.#bytes.subarray(from, from + length));
    } catch {
      throw new ComponentNamesError("a name is no UTF-8");
    }
  }

  /** A plain name (0, 1) or one with options such as a version suffix (2). */
  externName(): string {
    const kind = this.byte();
    if (kind > 2) throw new ComponentNamesError("a name of an unknown kind");
    const name = this.text();
    if (kind === 2) {
      for (let left = this.u32(); left > 0; left--) {
        this.byte();
        this.text();
      }
    }
    return name;
  }

  skipSortIndex(): void {
    if (this.byte() === 0) this.byte();
    this.u32();
  }

  skipExternDescription(): void {
    switch (this.byte()) {
      case 0x00:
        this.byte();
        this.u32();
        return;
      case 0x01:
      case 0x04:
      case 0x05:
        this.u32();
        return;
      case 0x03:
        // A type: equal to another, or a fresh resource.
        if (this.byte() === 0) this.u32();
        return;
      case 0x02:
        if (this.byte() === 0) this.u32();
        else this.#skipValueType();
        return;
      default:
        throw new ComponentNamesError("an import or export of an unknown kind");
    }
  }

  /** A primitive type or the index of one: a signed number either way. */
  #skipValueType(): void {
    for (let length = 0; length < 5; length++) if (this.byte() < 0x80) return;
    throw new ComponentNamesError("a number is too long");
  }
}
