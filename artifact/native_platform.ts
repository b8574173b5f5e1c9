/**
 * The platforms a native binary is built for, read from its header (spec cli 11.5, `E-RUN-021` at run).
 *
 * @module
 */

const ELF_MACHINES: ReadonlyMap<number, string> = new Map([[62, "x86_64"], [183, "aarch64"]]);
const MACH_CPUS: ReadonlyMap<number, string> = new Map([[0x01000007, "x86_64"], [0x0100000c, "aarch64"]]);

/** Most slices of a universal binary that are looked at. */
const MAX_SLICES = 16;

/**
 * Platform tags of a binary: one for ELF and thin Mach-O, one per known slice of a universal binary, none when the
 * format or the processor is not one this product knows (a script, for example).
 */
export function nativePlatforms(bytes: Uint8Array): readonly string[] {
  if (bytes.length < 20) return [];
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const magic = view.getUint32(0, false);
  if (magic === 0x7f454c46) {
    // 64-bit, little-endian; system V and Linux are the ABIs Linux programs carry.
    const plain = bytes[4] === 2 && bytes[5] === 1 && (bytes[7] === 0 || bytes[7] === 3);
    const machine = ELF_MACHINES.get(view.getUint16(18, true));
    return plain && machine !== undefined ? [`linux-${machine}`] : [];
  }
  if (magic === 0xcffaedfe) {
    const cpu = MACH_CPUS.get(view.getUint32(4, true));
    return cpu === undefined ? [] : [`darwin-${cpu}`];
  }
  // A Java class file starts the same way; its version stands where the count is, and is far above this bound.
  if (magic === 0xcafebabe || magic === 0xcafebabf) {
    const count = view.getUint32(4, false);
    const step = magic === 0xcafebabe ? 20 : 32;
    if (count > MAX_SLICES || 8 + count * step > bytes.length) return [];
    const tags = [];
    for (let index = 0; index < count; index++) {
      const cpu = MACH_CPUS.get(view.getUint32(8 + index * step, false));
      if (cpu !== undefined) tags.push(`darwin-${cpu}`);
    }
    return tags;
  }
  return [];
}
