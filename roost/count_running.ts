/**
 * Counting the capsules that run on this host when the daemon starts (seed roost "Capsules running at startup"; spec roost
 * 2.3). Nothing is written in the directory.
 *
 * @module
 */
import { parseProcessStat, readProcess } from "../base/process_identity.ts";
import { peekRunningDirectory, type RunningRecord, type SmallFileReader } from "../base/running_record.ts";

/** A running session as its record names it. */
export type RecordedSession = Pick<RunningRecord, "session_id" | "pid" | "process_start">;

/** What the count found. */
export interface StartCount {
  /** Sessions that are counted. */
  readonly found: readonly RecordedSession[];
  /** Every `.json` file that was read, parseable or not. */
  readonly read: number;
  /** Records whose capsule is gone. */
  readonly stale: number;
  /** Files that hold no record, or one of an older format. */
  readonly unreadable: number;
}

/**
 * Counts what runs now.
 *
 * @throws {MurError} `E-RUN-028` when the directory cannot be listed; its cause is the system's.
 */
export async function countRunning(dir: string): Promise<StartCount> {
  const readSmallFile = entriesIn(dir) > MANY ? await loadSmallFileReader() : null;
  const { records, older, unreadable } = peekRunningDirectory(dir, readSmallFile ?? undefined);
  const found = records.filter(({ pid, process_start }) => {
    // That it is the same can be told quickly; whatever else it is takes a closer look.
    const stat = readSmallFile?.(`/proc/${pid}/stat`);
    const process = stat ? parseProcessStat(stat) : null;
    if (process !== null && process.start === process_start && process.state !== "Z" && process.state !== "X") {
      return true;
    }
    return readProcess(pid, process_start).state !== "gone";
  });
  return {
    found: found.map(({ session_id, pid, process_start }) => ({ session_id, pid, process_start })),
    read: records.length + older.length + unreadable.length,
    stale: records.length - found.length,
    unreadable: older.length + unreadable.length,
  };
}

/** From so many entries on, loading a faster reader takes less than it saves. */
const MANY = 100;

function entriesIn(dir: string): number {
  try {
    let count = 0;
    for (const _ of Deno.readDirSync(dir)) count++;
    return count;
  } catch {
    // Reading it says what is wrong with it.
    return 0;
  }
}

async function loadSmallFileReader(): Promise<SmallFileReader | null> {
  return (await import("../base/small_file.ts")).openSmallFileReader();
}
