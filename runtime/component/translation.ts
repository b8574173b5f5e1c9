/**
 * A translated component as it is kept on disk and passed between processes: names, glue code, core modules, in one
 * piece whose SHA-256 is its first part (spec components 3.9, "Translation").
 *
 * ```
 * 32 bytes SHA-256 of all that follows
 * u32 length of the header, little endian; the header as JSON
 * the glue code as UTF-8; the core modules one after the other
 * ```
 *
 * @module
 */

/** Bytes of the sum that an encoded translation begins with. */
export const SUM_BYTES = 32;

/** One core module of a component. */
export interface CoreModule {
  /** Name by which the glue code asks for it. */
  readonly name: string;
  readonly sha256: string;
  readonly bytes: Uint8Array<ArrayBuffer>;
}

/** What a component asks for and offers. */
export interface TranslationNames {
  /** Versioned names, sorted. */
  readonly imports: readonly string[];
  readonly exports: readonly string[];
  /** Imports of which the component uses a function or resource, without versions. The others hold types only. */
  readonly usedImports: readonly string[];
}

/** A component ready to be loaded by a host. A decoded one lies in one buffer as a whole. */
export interface Translation extends TranslationNames {
  /** Text of a function body that returns the `instantiate` function, as UTF-8. */
  readonly glue: Uint8Array<ArrayBuffer>;
  readonly modules: readonly CoreModule[];
}

interface HeaderJson extends TranslationNames {
  readonly glueBytes: number;
  readonly modules: readonly { readonly name: string; readonly sha256: string; readonly bytes: number }[];
}

/** Encodes a translation. */
export async function encodeTranslation(translation: Translation): Promise<Uint8Array<ArrayBuffer>> {
  const { glue } = translation;
  const header: HeaderJson = {
    imports: translation.imports,
    exports: translation.exports,
    usedImports: translation.usedImports,
    glueBytes: glue.length,
    modules: translation.modules.map(({ name, sha256, bytes }) => ({ name, sha256, bytes: bytes.length })),
  };
  const json = new TextEncoder().encode(JSON.stringify(header));
  const modulesBytes = translation.modules.reduce((sum, { bytes }) => sum + bytes.length, 0);
  const whole = new Uint8Array(SUM_BYTES + 4 + json.length + glue.length + modulesBytes);
  new DataView(whole.buffer).setUint32(SUM_BYTES, json.length, true);
  let at = SUM_BYTES + 4;
  for (const part of [json, glue, ...translation.modules.map(({ bytes }) => bytes)]) {
    whole.set(part, at);
    at += part.length;
  }
  whole.set(new Uint8Array(await crypto.subtle.digest("SHA-256", whole.subarray(SUM_BYTES))));
  return whole;
}

/** Decodes a translation; `null` when the bytes are not exactly what was encoded. */
export async function decodeTranslation(bytes: Uint8Array<ArrayBuffer>): Promise<Translation | null> {
  if (bytes.length < SUM_BYTES + 4) return null;
  const sum = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes.subarray(SUM_BYTES)));
  if (sum.some((byte, index) => byte !== bytes[index])) return null;
  // The sum is right: what follows was written by `encodeTranslation`.
  const headerBytes = new DataView(bytes.buffer, bytes.byteOffset + SUM_BYTES, 4).getUint32(0, true);
  let at = SUM_BYTES + 4 + headerBytes;
  let header: HeaderJson;
  try {
    header = JSON.parse(new TextDecoder().decode(bytes.subarray(SUM_BYTES + 4, at))) as HeaderJson;
  } catch {
    return null;
  }
  const glue = bytes.subarray(at, at += header.glueBytes);
  const modules = header.modules.map(({ name, sha256, bytes: length }) => ({
    name,
    sha256,
    bytes: bytes.subarray(at, at += length),
  }));
  if (at !== bytes.length) return null;
  const { imports, exports, usedImports } = header;
  return { imports, exports, usedImports, glue, modules };
}
