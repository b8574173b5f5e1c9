/**
 * Names inside the binary of a component.
 *
 * @module
 */
import { concat, leb, WasmReader } from "./wasm_module.ts";

/** Version under which the worlds are linked; the engine would not link `wasi:http` beside its own `wasi:io`. */
export const LINK_VERSION = "0.1.10";
/** The version that was meant; of the same length, so that it can be put in its place. */
export const WASI_VERSION = "0.2.10";

const COMPONENT = [0x00, 0x61, 0x73, 0x6d, 0x0d, 0x00, 0x01, 0x00];
const CORE_MODULE = 1;
const NESTED_COMPONENT = 4;
const CORE_DATA = 11;

/** Text of an interface package as it is linked (see {@linkcode LINK_VERSION}). */
export function linkedWit(text: string): string {
  return text.replace(/(wasi:(?!http)[a-z]+(?:\/[a-z-]+)?)@0\.2\.10/g, `$1@${LINK_VERSION}`);
}

/**
 * Gives the interfaces of a linked component the version that was meant. Names in data, so also whatever an author's code
 * says, are left alone.
 */
export function restoreVersions(component: Uint8Array): Uint8Array<ArrayBuffer> {
  const renamed = new Uint8Array(component);
  renameIn(renamed, 0, renamed.length, COMPONENT.length);
  return renamed;
}

function renameIn(bytes: Uint8Array, start: number, end: number, header: number): void {
  const core = bytes[start + 4] === 0x01;
  const reader = new WasmReader(bytes.subarray(0, end), start + header);
  while (!reader.atEnd) {
    const id = reader.byte();
    const length = reader.u32();
    const from = reader.position;
    reader.take(length);
    if (!core && (id === CORE_MODULE || id === NESTED_COMPONENT)) renameIn(bytes, from, from + length, header);
    else if (!core || id !== CORE_DATA) renameText(bytes.subarray(from, from + length));
  }
}

function renameText(section: Uint8Array): void {
  const version = new TextEncoder().encode(`@${LINK_VERSION}`);
  const wanted = new TextEncoder().encode(`@${WASI_VERSION}`);
  for (let at = section.indexOf(0x40); at !== -1; at = section.indexOf(0x40, at + 1)) {
    if (!version.every((byte, index) => section[at + index] === byte)) continue;
    const before = new TextDecoder().decode(section.subarray(Math.max(0, at - 64), at));
    if (/wasi:[a-z]+\/[a-z-]+$/.test(before)) section.set(wanted, at);
  }
}

/** Adds what the artifact is called to a component, in the sections other tools read it from. */
export function withIdentity(component: Uint8Array, name: string, version: string): Uint8Array<ArrayBuffer> {
  const text = (value: string) => new TextEncoder().encode(value);
  const named = text(name);
  const custom = (section: string, content: Uint8Array) => {
    const title = text(section);
    const body = concat([leb(title.length), title, content]);
    return concat([[0x00], leb(body.length), body]);
  };
  const nameContent = concat([leb(named.length), named]);
  return concat([
    component,
    custom("component-name", concat([[0x00], leb(nameContent.length), nameContent])),
    custom("version", text(version)),
  ]);
}
