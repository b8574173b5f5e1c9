/**
 * Whether a process that was noted earlier is still the same one: its pid together with its start token (spec cli 4.1,
 * 4.3). A pid alone is reused.
 *
 * @module
 */
/** The two facts of `/proc/<pid>/stat` used here. */
export interface ProcessStat {
  /** One letter, `Z` for a zombie. */
  readonly state: string;
  /** Field 22: start time in clock ticks since boot, decimal. */
  readonly start: string;
}

/** Takes `/proc/<pid>/stat` apart; `null` when it is not of that form. The name may hold spaces and parentheses. */
export function parseProcessStat(text: string): ProcessStat | null {
  // The first field after the name is number 3.
  const fields = text.slice(text.lastIndexOf(")") + 1).trimStart().split(" ", 22 - 2);
  const [state] = fields;
  const start = fields[22 - 3];
  if (state === undefined || !/^[A-Za-z]$/.test(state) || start === undefined || !/^\d+$/.test(start)) return null;
  return { state, start };
}

/** Whether only its exit status is left of a process. */
export function hasEnded({ state }: ProcessStat): boolean {
  return state === "Z" || state === "X";
}

/**
 * What `/proc/<pid>/stat` tells: `null` when there is no such process, `untold` when it could not be read, for want of a
 * descriptor for instance.
 */
export type ReadStat = ProcessStat | "untold" | null;

/** Reads it. */
export type StatReader = (pid: number) => ReadStat;

function readProcessStat(pid: number): ReadStat {
  try {
    return parseProcessStat(Deno.readTextFileSync(`/proc/${pid}/stat`));
  } catch (error) {
    // It may end between being opened and being read.
    const isGone = error instanceof Deno.errors.NotFound || (error as Error).message.includes("(os error 3)");
    return isGone ? null : "untold";
  }
}

/** Start token of a process, compared for equality only; `null` when it can't be read. */
export function startToken(pid: number): string | null {
  const stat = readProcessStat(pid);
  return stat === null || stat === "untold" ? null : stat.start;
}

/** Start token of this process, `""` when it can't be read (spec cli 4.1). */
export function ownStartToken(): string {
  return startToken(Deno.pid) ?? "";
}

let shown: boolean | undefined;

/** Whether `/proc` shows the processes of others: the first one is always there. `hidepid` and other systems hide it. */
function procShowsAll(): boolean {
  if (shown !== undefined) return shown;
  const first = readProcessStat(1);
  // Another time it may tell.
  if (first === "untold") return false;
  return shown = first !== null;
}

/** Whether a pid is held by anything, as signal 0 tells. */
function pidIsHeld(pid: number): boolean {
  try {
    Deno.kill(pid, 0);
    return true;
  } catch (error) {
    // A process of another user may not be signalled, and exists.
    return !(error instanceof Deno.errors.NotFound);
  }
}

/** What a pid tells now: its process, `null` for none; `unreadable` when there is one that does not show itself. */
function lookAt(pid: number, readStat: StatReader = readProcessStat): ProcessStat | "unreadable" | null {
  if (!Number.isSafeInteger(pid) || pid <= 0 || pid > 0x7fff_ffff) return null;
  const stat = readStat(pid);
  if (stat === "untold") return pidIsHeld(pid) ? "unreadable" : null;
  // The first signal a program sends loads 2 ms of code.
  if (stat === null) return !procShowsAll() && pidIsHeld(pid) ? "unreadable" : null;
  return hasEnded(stat) ? null : stat;
}

/** Whether a process holds the pid. One of another user counts, a zombie does not (spec cli 4.3, layer 1). */
export function processExists(pid: number): boolean {
  return lookAt(pid) !== null;
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
 * @param readStat How processes are read; whoever has many to look at has a faster way (`kernel_records.ts`).
 */
export function readProcess(pid: number, start: string, readStat?: StatReader): ProcessReading {
  let now = lookAt(pid, readStat);
  // It may have ended between the two looks that this takes.
  if (now === "unreadable") now = lookAt(pid, readStat);
  if (now === null) return { state: "gone", reason: `no process holds pid ${pid}` };
  if (now === "unreadable" || start === "") {
    return { state: "unverified", reason: `pid ${pid}'s start time could not be read` };
  }
  if (now.start === start) return { state: "same" };
  return { state: "gone", reason: `pid ${pid} is held by a process that started at another time` };
}
