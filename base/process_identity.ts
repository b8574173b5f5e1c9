/**
 * Whether a process that was noted earlier is still the same one: its pid together with its start token (spec cli 4.1,
 * 4.3). A pid alone is reused.
 *
 * @module
 */
import { ERRNO, libc } from "./libc.ts";

/** The two facts of `/proc/<pid>/stat` used here. */
export interface ProcessStat {
  /** One letter, `Z` for a zombie. */
  readonly state: string;
  /** Field 22: start time in clock ticks since boot, decimal. */
  readonly start: string;
}

/** Takes `/proc/<pid>/stat` apart; `null` when it is not of that form. The name may hold spaces and parentheses. */
export function parseProcessStat(text: string): ProcessStat | null {
  const fields = text.slice(text.lastIndexOf(")") + 1).trim().split(/\s+/);
  const [state] = fields;
  // The first field after the name is number 3.
  const start = fields[22 - 3];
  if (state === undefined || !/^[A-Za-z]$/.test(state) || start === undefined || !/^\d+$/.test(start)) return null;
  return { state, start };
}

function readProcessStat(pid: number): ProcessStat | null {
  try {
    return parseProcessStat(Deno.readTextFileSync(`/proc/${pid}/stat`));
  } catch {
    return null;
  }
}

/** Start token of a process, compared for equality only; `null` when it can't be read. */
export function startToken(pid: number): string | null {
  return readProcessStat(pid)?.start ?? null;
}

/** Start token of this process, `""` when it can't be read (spec cli 4.1). */
export function ownStartToken(): string {
  return startToken(Deno.pid) ?? "";
}

/** Whether a process holds the pid. One of another user counts, a zombie does not (spec cli 4.3, layer 1). */
export function processExists(pid: number): boolean {
  if (!Number.isSafeInteger(pid) || pid <= 0 || pid > 0x7fff_ffff) return false;
  const result = libc().kill(pid, 0);
  if (result !== 0 && result !== -ERRNO.EPERM) return false;
  const state = readProcessStat(pid)?.state;
  return state !== "Z" && state !== "X";
}

/** What layers 1 and 2 say of a noted process (spec cli 4.3). */
export type ProcessReading =
  | { readonly state: "same" }
  | { readonly state: "gone"; readonly reason: string }
  | { readonly state: "unverified"; readonly reason: string };

/**
 * Compares a noted process with what runs now.
 *
 * @param start Its start token as noted. An empty one, whose writer could not read its own, verifies nothing.
 */
export function readProcess(pid: number, start: string): ProcessReading {
  if (!processExists(pid)) return { state: "gone", reason: `no process holds pid ${pid}` };
  const now = startToken(pid);
  if (now === null || start === "") {
    // It may have ended between the two looks.
    if (!processExists(pid)) return { state: "gone", reason: `no process holds pid ${pid}` };
    return { state: "unverified", reason: `pid ${pid}'s start time could not be read` };
  }
  if (now === start) return { state: "same" };
  return { state: "gone", reason: `pid ${pid} is held by a process that started at another time` };
}
