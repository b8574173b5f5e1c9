/**
 * How many descriptors this process may have open.
 *
 * @module
 */

/**
 * The limit.
 *
 * @param limits Text of `/proc/self/limits`; empty where there is none.
 * @returns `Infinity` where the system does not tell.
 */
export function descriptorLimit(limits: string = ownLimits()): number {
  const limit = /^Max open files +(\d+)/m.exec(limits);
  return limit === null ? Infinity : Number(limit[1]);
}

function ownLimits(): string {
  try {
    return Deno.readTextFileSync("/proc/self/limits");
  } catch {
    return "";
  }
}
