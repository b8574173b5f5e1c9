/**
 * `capabilities.resources` as kernel limits of each process (spec containment 14).
 *
 * @module
 */
import type { ProcessLimits } from "../artifact/manifest/capsule_manifest.ts";
import type { RlimitName } from "./confine_records.ts";

/**
 * Kernel limits of each process.
 *
 * @param baseline Tasks the runtime's user owns at launch: `max_processes` counts what comes on top, and the kernel counts all.
 */
export function processRlimits(limits: ProcessLimits, baseline: number): Partial<Record<RlimitName, number>> {
  return {
    nofile: limits.maxOpenFiles,
    fsize: limits.maxFileSizeBytes,
    cpu: limits.cpuSeconds,
    nproc: baseline + limits.maxProcesses,
    // Engines reserve address space by the gigabyte; only who asks for it gets that limit.
    ...(limits.declared.has("memory_bytes") ? { as: limits.memoryBytes } : {}),
  };
}

/** Threads of all processes of a user, as `RLIMIT_NPROC` counts them; 0 where the system does not tell. */
export function taskBaseline(uid: number | null = Deno.uid()): number {
  let count = 0;
  try {
    for (const { name } of Deno.readDirSync("/proc")) {
      if (!/^\d+$/.test(name)) continue;
      try {
        // This process is not dumpable, so its entry belongs to root.
        if (Number(name) !== Deno.pid && Deno.statSync(`/proc/${name}`).uid !== uid) continue;
        for (const _ of Deno.readDirSync(`/proc/${name}/task`)) count++;
      } catch {
        // It ended meanwhile.
      }
    }
  } catch {
    return 0;
  }
  return count;
}
