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
  /** Files that hold no record, or one of an older format, and those that could not be opened. */
  readonly unreadable: number;
}

/**
 * Counts what runs now.
 *
 * @throws {MurError} `E-RUN-028` when the directory cannot be listed; its cause is the system's.
 */
export function countRunning(dir: string): StartCount {
  const { records, older, ...others } = peekRunningDirectory(dir);
  const unreadable = older.length + others.unreadable.length + others.unopened.length;
  const found = records.filter(({ pid, process_start }) => readProcess(pid, process_start).state !== "gone");
  return {
    found: found.map(({ session_id, pid, process_start }) => ({ session_id, pid, process_start })),
    read: records.length + unreadable,
    stale: records.length - found.length,
    unreadable,
  };
}
