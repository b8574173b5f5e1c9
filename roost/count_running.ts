/**
 * Counting the capsules that run on this host when the daemon starts (seed roost "Capsules running at startup"; spec roost
 * 2.3). Nothing is written in the directory.
 *
 * @module
 */
import { ERRNO, type Libc } from "../base/libc.ts";
import { hasEnded, parseProcessStat, readProcess } from "../base/process_identity.ts";
import { runningInstances } from "../base/process_instance.ts";
import {
  ABSENT,
  MAX_RECORD_BYTES,
  type RecordReader,
  type RunningRecord,
  surveyRunningDirectory,
  UNOPENED,
} from "../base/running_record.ts";
import { SmallFileReader } from "../base/small_file.ts";

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

/** Largest `/proc/<pid>/stat`, in bytes: some fifty numbers and a name. */
const MAX_STAT_BYTES = 4_096;

/**
 * Counts what runs now.
 *
 * @param c Reads records and processes: it takes a third of the time Deno does, for what the daemon's start waits for.
 * @throws {MurError} `E-RUN-028` when the directory cannot be listed; its cause is the system's.
 */
export function countRunning(dir: string, c: Libc): StartCount {
  using reader = new SmallFileReader(c, dir, MAX_RECORD_BYTES);
  const { records, older, ...others } = surveyRunningDirectory(dir, recordsOf(reader));
  const unreadable = older.length + others.unreadable.length + others.unopened.length;
  const running = runningInstances(c, records);
  const unknown = records.filter((_, index) => !running[index]);
  using stats = new SmallFileReader(c, "/proc", MAX_STAT_BYTES);
  const texts = stats.readAll(unknown.map(({ pid }) => `${pid}/stat`));
  const gone = new Set(unknown.filter(({ pid, process_start }, index) =>
    !isThatProcess(texts[index]!, process_start) &&
    // Why it is another one, or seems to be, takes a closer look.
    readProcess(pid, process_start).state === "gone"
  ));
  const found = records.filter((record) => !gone.has(record));
  return {
    found: found.map(({ session_id, pid, process_start }) => ({ session_id, pid, process_start })),
    read: records.length + unreadable,
    stale: records.length - found.length,
    unreadable,
  };
}

function recordsOf(reader: SmallFileReader): RecordReader {
  return (names) =>
    reader.readAll(names).map((text) => {
      if (typeof text === "string") return text;
      return text === -ERRNO.EFBIG ? null : text === -ERRNO.ENOENT ? ABSENT : UNOPENED;
    });
}

function isThatProcess(text: string | number, start: string): boolean {
  if (typeof text === "number") return false;
  const stat = parseProcessStat(text);
  return stat !== null && stat.start === start && !hasEnded(stat);
}
