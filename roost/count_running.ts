/**
 * Counting the capsules that run on this host when the daemon starts (seed roost "Capsules running at startup"; spec roost
 * 2.3). Nothing is written in the directory.
 *
 * @module
 */
import { readProcess } from "../base/process_identity.ts";
import { peekRunningDirectory, type RunningRecord } from "../base/running_record.ts";

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
export function countRunning(dir: string): StartCount {
  const { records, older, unreadable } = peekRunningDirectory(dir);
  const found = records.filter(({ pid, process_start }) => readProcess(pid, process_start).state !== "gone");
  return {
    found: found.map(({ session_id, pid, process_start }) => ({ session_id, pid, process_start })),
    read: records.length + older.length + unreadable.length,
    stale: records.length - found.length,
    unreadable: older.length + unreadable.length,
  };
}
