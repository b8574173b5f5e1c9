/**
 * The evidence of `~/.murmur/running` about sessions that may have died: those found at the start, and those that registered
 * since (seed roost "Capsules running at startup"; spec roost 2.3, 4.1 rule 3). Nothing is ever written there.
 *
 * Asked before every decision, so it costs as little as the evidence allows: the records are read again only when the
 * directory has changed, and one call of the kernel tells of all processes.
 *
 * @module
 */
import { FileStamp } from "../base/file_stamp.ts";
import { ProcessWatch } from "../base/process_watch.ts";
import { parseRunningRecord } from "../base/running_record.ts";
import type { RecordedSession } from "./count_running.ts";
import { SlotMap } from "./slot_map.ts";

/** The process a record names. */
interface RecordedProcess {
  readonly pid: number;
  readonly start: string;
}

/** Sessions that are gone. */
export interface Gone {
  readonly found: readonly string[];
  readonly registered: readonly string[];
}

const NOBODY: Gone = { found: [], registered: [] };

/** Ids that may name a record; any other has none. */
const RECORD_ID = /^[A-Za-z0-9_-][A-Za-z0-9_.-]*$/;

/** Largest record, in bytes. */
const MAX_RECORD_BYTES = 1 << 20;

/**
 * Sessions whose record was not seen that are looked at by their names. For more the directory is listed, which leaves so much
 * to collect that a daemon asked often takes half as much memory again.
 */
const MAX_BY_NAME = 16;

/** The census of one running directory. */
export class RunningCensus implements Disposable {
  readonly #dir: string;
  readonly #processes: ProcessWatch;
  /** Sessions found at the start that have not registered, as their records named them. */
  readonly #found = new Map<string, RecordedSession>();
  /** Registered sessions that run, with their record; `null` while none was seen. */
  readonly #registered = new SlotMap<{ readonly process: RecordedProcess; readonly stamp: FileStamp } | null>();
  /** The directory as it was when the records of all registered sessions had been read. */
  readonly #directory: FileStamp;
  /** Whether that still holds, as far as the directory does not change. */
  #settled = false;

  constructor(dir: string, found: readonly RecordedSession[], processes: ProcessWatch = new ProcessWatch()) {
    this.#dir = dir;
    this.#directory = new FileStamp(dir);
    this.#processes = processes;
    for (const session of found) {
      this.#found.set(session.session_id, session);
      processes.watch(session.session_id, { pid: session.pid, start: session.process_start });
    }
  }

  /** A session registers: from now on its own record tells of it. */
  register(id: string): void {
    const noted = this.#found.get(id);
    this.#found.delete(id);
    if (noted !== undefined) {
      const process = { pid: noted.pid, start: noted.process_start };
      this.#registered.set(id, { process, stamp: this.#stampOf(id) });
      this.#settled = false;
      return;
    }
    this.#registered.set(id, null);
    if (!RECORD_ID.test(id)) return;
    const stamp = this.#stampOf(id);
    // One that comes later changes the directory.
    if (stamp.look() === "absent") return;
    this.#settled = false;
    // Read now: it may be gone again, with its process, before anybody asks anything.
    const process = readRecord(`${this.#dir}/${id}.json`, id);
    if (process !== null) this.#see(id, process, stamp);
  }

  /** A session has ended. */
  forget(id: string): void {
    this.#registered.delete(id);
    this.#processes.forget(id);
  }

  /** Looks again, and forgets whom it names. */
  gone(): Gone {
    if (this.#found.size === 0 && this.#registered.size === 0) return NOBODY;
    const lost = this.#registered.size === 0 ? [] : this.#lostRecords();
    for (const id of lost) this.forget(id);
    const ended = this.#processes.gone();
    if (lost.length === 0 && ended.length === 0) return NOBODY;
    const found: string[] = [];
    for (const id of ended) {
      if (this.#registered.delete(id)) lost.push(id);
      else if (this.#found.delete(id)) found.push(id);
    }
    return { found, registered: lost };
  }

  [Symbol.dispose](): void {
    this.#processes[Symbol.dispose]();
  }

  /** Registered sessions whose record was there and is gone, or names another process. */
  #lostRecords(): string[] {
    if (this.#settled && this.#directory.isUnchanged()) return [];
    const now = Date.now();
    const directory = this.#directory.look();
    let settled = directory === "there" && this.#directory.keep(now);
    let unseen = 0;
    let names = directory === "absent" ? NO_NAMES : null;
    const lost: string[] = [];
    for (const [id, seen] of this.#registered) {
      if (!RECORD_ID.test(id)) continue;
      // A listing may miss what is being replaced; what was seen is always looked at by its name.
      if (seen === null && ++unseen > MAX_BY_NAME) {
        names ??= namesIn(this.#dir);
        // What cannot be listed proves nothing.
        if (names === null) settled = false;
        if (!names?.has(`${id}.json`)) continue;
      }
      const stamp = seen?.stamp ?? this.#stampOf(id);
      if (stamp.isUnchanged()) continue;
      const lookedAt = Date.now();
      const state = stamp.look();
      if (state === "absent") {
        if (seen !== null) lost.push(id);
        continue;
      }
      const isKept = state === "there" && stamp.keep(lookedAt);
      const process = readRecord(`${this.#dir}/${id}.json`, id);
      // Neither does what cannot be read.
      if (process === null) {
        settled = false;
        continue;
      }
      settled &&= isKept;
      if (seen === null) {
        this.#see(id, process, stamp);
      } else if (process.pid !== seen.process.pid || process.start !== seen.process.start) {
        lost.push(id);
      }
    }
    this.#settled = settled;
    return lost;
  }

  /** The record of a registered session was seen. */
  #see(id: string, process: RecordedProcess, stamp: FileStamp): void {
    this.#registered.set(id, { process, stamp });
    this.#processes.watch(id, process);
  }

  #stampOf(id: string): FileStamp {
    return new FileStamp(`${this.#dir}/${id}.json`);
  }
}

const NO_NAMES: ReadonlySet<string> = new Set();

function namesIn(dir: string): ReadonlySet<string> | null {
  try {
    return new Set(Deno.readDirSync(dir).map(({ name }) => name));
  } catch {
    return null;
  }
}

/** The process a record names; `null` when the file cannot be read or holds no record of the session. */
function readRecord(path: string, id: string): RecordedProcess | null {
  try {
    const { isFile, size } = Deno.lstatSync(path);
    if (!isFile || size > MAX_RECORD_BYTES) return null;
    const parsed = parseRunningRecord(Deno.readTextFileSync(path));
    if (parsed.kind === "unreadable" || parsed.record.session_id !== id) return null;
    return { pid: parsed.record.pid, start: parsed.record.process_start };
  } catch {
    return null;
  }
}
