/**
 * Reading running records and the processes they name by the kernel's own calls: for whoever has many, it takes a third of the
 * time that Deno's file access does.
 *
 * @module
 */
import { ERRNO, type Libc } from "./libc.ts";
import { parseProcessStat, type ReadStat } from "./process_identity.ts";
import { ABSENT, MAX_RECORD_BYTES, type RecordReader, type RecordText, UNOPENED } from "./running_record.ts";
import { SmallFileReader } from "./small_file.ts";

/** Largest `/proc/<pid>/stat`, in bytes: some fifty numbers and a name. */
const MAX_STAT_BYTES = 4_096;

/** Reads the records of one running directory. */
export class KernelRecords implements Disposable {
  readonly #records: SmallFileReader;
  readonly #processes: SmallFileReader;

  /** @param dir Absolute path of the running directory. */
  constructor(c: Libc, dir: string) {
    this.#records = new SmallFileReader(c, dir, MAX_RECORD_BYTES);
    this.#processes = new SmallFileReader(c, "/proc", MAX_STAT_BYTES);
  }

  [Symbol.dispose](): void {
    this.#records[Symbol.dispose]();
    this.#processes[Symbol.dispose]();
  }

  /** The texts of records. */
  readonly readTexts: RecordReader = (names) => this.#records.readAll(names).map(recordText);

  /** What the kernel tells of processes, in their order. */
  readStats(pids: readonly number[]): readonly ReadStat[] {
    return this.#processes.readAll(pids.map((pid) => `${pid}/stat`)).map(processStat);
  }
}

function recordText(read: string | number): RecordText {
  if (typeof read === "string") return read;
  return read === -ERRNO.EFBIG ? null : read === -ERRNO.ENOENT ? ABSENT : UNOPENED;
}

function processStat(read: string | number): ReadStat {
  if (typeof read === "string") return parseProcessStat(read);
  // It may end between being opened and being read.
  return read === -ERRNO.ENOENT || read === -ERRNO.ESRCH ? null : "untold";
}
