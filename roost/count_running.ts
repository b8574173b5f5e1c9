/**
 * Counting the capsules that run on this host when the daemon starts (seed roost "Capsules running at startup"; spec roost
 * 2.3). Nothing is written in the directory.
 *
 * @module
 */
import { KernelRecords } from "../base/kernel_records.ts";
import type { Libc } from "../base/libc.ts";
import { runningInstances } from "../base/process_instance.ts";
import { readRecordProcess, type RunningRecord, surveyRunningDirectory } from "../base/running_record.ts";

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
 * @param c Reads records and processes, since the daemon's start waits for it.
 * @throws {MurError} `E-RUN-028` when the directory cannot be listed; its cause is the system's.
 */
export function countRunning(dir: string, c: Libc): StartCount {
  using kernel = new KernelRecords(c, dir);
  const { records, older, ...others } = surveyRunningDirectory(dir, kernel.readTexts);
  const unreadable = older.length + others.unreadable.length + others.unopened.length;
  const running = runningInstances(c, records);
  const unknown = records.filter((_, index) => !running[index]);
  const stats = kernel.readStats(unknown.map(({ pid }) => pid));
  const gone = new Set(
    unknown.filter((record, index) => readRecordProcess(record, () => stats[index]!).state === "gone"),
  );
  const found = records.filter((record) => !gone.has(record));
  return {
    found: found.map(({ session_id, pid, process_start }) => ({ session_id, pid, process_start })),
    read: records.length + unreadable,
    stale: records.length - found.length,
    unreadable,
  };
}
