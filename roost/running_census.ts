/**
 * The evidence of `~/.murmur/running`: which capsules run on this host when the daemon starts, and which sessions have died
 * since (seed roost "Capsules running at startup"; spec roost 2.3, 4.1 rule 3). Nothing is ever written there.
 *
 * @module
 */
import { readProcess } from "../base/process_identity.ts";
import { parseRunningRecord, peekRunningDirectory, type RunningRecord } from "../base/running_record.ts";

/** A process as a record names it. */
type RecordedProcess = Pick<RunningRecord, "pid" | "process_start">;

/** What the count at the start found. */
export interface StartCount {
  /** Sessions that are counted. */
  readonly found: readonly string[];
  /** Every `.json` file that was read, parseable or not. */
  readonly read: number;
  /** Records whose capsule is gone. */
  readonly stale: number;
  /** Files that hold no record, or one of an older format. */
  readonly unreadable: number;
}

/** Sessions that were found to be gone. */
export interface Gone {
  readonly found: readonly string[];
  readonly registered: readonly string[];
}

const NOBODY: Gone = { found: [], registered: [] };

/** Ids that may name a record; any other has none. */
const RECORD_ID = /^[A-Za-z0-9_-][A-Za-z0-9_.-]*$/;

/** The census of one running directory. */
export class RunningCensus {
  readonly #dir: string;
  readonly #found = new Map<string, RecordedProcess>();
  /** Registered sessions that run, with the process their record named; `null` while none was seen. */
  readonly #registered = new Map<string, RecordedProcess | null>();

  constructor(dir: string) {
    this.#dir = dir;
  }

  /**
   * Counts what runs now.
   *
   * @throws {MurError} `E-RUN-028` when the directory cannot be listed; its cause is the system's.
   */
  count(): StartCount {
    const { records, older, unreadable } = peekRunningDirectory(this.#dir);
    let stale = 0;
    for (const { session_id, pid, process_start } of records) {
      if (readProcess(pid, process_start).state === "gone") stale++;
      else this.#found.set(session_id, { pid, process_start });
    }
    return {
      found: [...this.#found.keys()],
      read: records.length + older.length + unreadable.length,
      stale,
      unreadable: older.length + unreadable.length,
    };
  }

  /** A session registers: from now on its own record tells of it. */
  register(id: string): void {
    this.#registered.set(id, this.#found.get(id) ?? null);
    this.#found.delete(id);
  }

  /** A session has ended. */
  forget(id: string): void {
    this.#registered.delete(id);
  }

  /** Looks again, and forgets whom it names. */
  gone(): Gone {
    if (this.#found.size === 0 && this.#registered.size === 0) return NOBODY;
    const found: string[] = [];
    for (const [id, process] of this.#found) {
      if (readProcess(process.pid, process.process_start).state !== "gone") continue;
      this.#found.delete(id);
      found.push(id);
    }
    const registered: string[] = [];
    for (const [id, seen] of this.#registered) {
      if (!this.#hasDied(id, seen)) continue;
      this.#registered.delete(id);
      registered.push(id);
    }
    return { found, registered };
  }

  #hasDied(id: string, seen: RecordedProcess | null): boolean {
    const record = this.#read(id);
    // What cannot be read proves nothing.
    if (record === "unreadable") return seen !== null && isGone(seen);
    if (record === "absent") return seen !== null;
    if (seen === null) this.#registered.set(id, record);
    else if (record.pid !== seen.pid || record.process_start !== seen.process_start) return true;
    return isGone(record);
  }

  #read(id: string): RecordedProcess | "absent" | "unreadable" {
    if (!RECORD_ID.test(id)) return "absent";
    let text: string;
    try {
      text = Deno.readTextFileSync(`${this.#dir}/${id}.json`);
    } catch (error) {
      return error instanceof Deno.errors.NotFound ? "absent" : "unreadable";
    }
    const parsed = parseRunningRecord(text);
    if (parsed.kind === "unreadable" || parsed.record.session_id !== id) return "unreadable";
    const { pid, process_start } = parsed.record;
    return { pid, process_start };
  }
}

function isGone({ pid, process_start }: RecordedProcess): boolean {
  return readProcess(pid, process_start).state === "gone";
}
