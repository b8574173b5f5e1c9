/**
 * Resident size of a process and everything below it, from `/proc`. Address space says nothing of a V8 process, which
 * reserves far more than it uses (spec containment 19.12).
 *
 * @module
 */

const PAGE_BYTES = 4_096;
const MAX_PROCESSES = 64;

/** Bytes in memory of the process and its descendants; `null` where the system does not tell. */
export function residentBytes(pid: number): number | null {
  if (Deno.build.os !== "linux") return null;
  let sum = 0;
  const pids = [pid];
  // The list grows while it is walked: a guard around the host is its parent.
  for (let at = 0; at < pids.length && at < MAX_PROCESSES; at++) {
    const process = `/proc/${pids[at]}`;
    try {
      const [, resident] = Deno.readTextFileSync(`${process}/statm`).split(" ");
      sum += Number(resident) * PAGE_BYTES;
      const children = Deno.readTextFileSync(`${process}/task/${pids[at]}/children`).trim();
      if (children !== "") pids.push(...children.split(" ").map(Number));
    } catch {
      // It ended meanwhile.
      if (at === 0) return null;
    }
  }
  return sum;
}
