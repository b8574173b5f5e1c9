/**
 * The evidence of `~/.murmur/running` about sessions that may have died: those found at the start, and those that registered
 * since (seed roost "Capsules running at startup"; spec roost 2.3, 4.1 rule 3). Nothing is ever written there.
 *
 * Asked before every decision, so it costs as little as the evidence allows: the records are read again only when the
 * directory has changed, and one call of the kernel tells of all processes.
 *
 * @module
 */
import { ProcessWatch } from "../base/process_watch.ts";
import { parseRunningRecord } from "../base/running_record.ts";
import type { RecordedSession } from "./count_running.ts";

/** A record as it was read, and which file that was. */
interface SeenRecord {
  readonly pid: number;
  readonly start: string;
  readonly file: FileIdentity | null;
}

/** Tells one state of a file from another. */
interface FileIdentity {
  readonly dev: number;
  readonly ino: number | null;
  readonly modified: number;
  readonly changed: number;
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
 * How long after a change, in milliseconds, another may leave the same times: on file systems that keep parts of seconds,
 * and on those that keep none.
 */
const RACY_MS = { fine: 100, coarse: 2_500 };

/** The census of one running directory. */
export class RunningCensus implements Disposable {
  readonly #dir: string;
  readonly #processes: ProcessWatch;
  /** Sessions found at the start that have not registered, as their records named them. */
  readonly #found = new Map<string, RecordedSession>();
  /** Registered sessions that run, with their record; `null` while none was seen. */
  readonly #registered = new Map<string, SeenRecord | null>();
  /** The directory as it was when all records of registered sessions were read; `null` when they have to be again. */
  #settled: FileIdentity | null = null;

  constructor(dir: string, found: readonly RecordedSession[], processes: ProcessWatch = new ProcessWatch()) {
    this.#dir = dir;
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
    this.#registered.set(id, noted === undefined ? null : { pid: noted.pid, start: noted.process_start, file: null });
    this.#settled = null;
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
    const now = Date.now();
    const directory = identityOf(this.#dir);
    if (directory === "unreadable") return [];
    if (directory !== null && this.#settled !== null && sameIdentity(directory, this.#settled)) return [];
    const lost: string[] = [];
    const names = directory === null ? NO_NAMES : namesIn(this.#dir);
    // What cannot be listed proves nothing.
    if (names === null) return [];
    let settled = directory !== null && isPast(directory, now);
    for (const [id, seen] of this.#registered) {
      // A listing may miss what is replaced meanwhile; what was seen is looked at by its name.
      if (!RECORD_ID.test(id) || (seen === null && !names.has(`${id}.json`))) continue;
      const path = `${this.#dir}/${id}.json`;
      const file = identityOf(path);
      if (file === null) {
        if (seen !== null) lost.push(id);
        continue;
      }
      if (file !== "unreadable" && seen?.file && sameIdentity(file, seen.file)) continue;
      const record = file === "unreadable" ? null : readRecord(path, id);
      if (record === null) {
        settled = false;
        continue;
      }
      if (seen !== null && (record.pid !== seen.pid || record.start !== seen.start)) {
        lost.push(id);
        continue;
      }
      const known = file !== "unreadable" && isPast(file, now) ? file : null;
      this.#registered.set(id, { ...record, file: known });
      // A session found at the start is watched already.
      if (seen === null) this.#processes.watch(id, record);
    }
    this.#settled = settled ? directory : null;
    return lost;
  }
}

const NO_NAMES: ReadonlySet<string> = new Set();

/** Identity and times of a file; `null` when there is none. */
function identityOf(path: string): FileIdentity | "unreadable" | null {
  try {
    const { dev, ino, mtime, ctime } = Deno.lstatSync(path);
    return { dev, ino, modified: mtime?.getTime() ?? NaN, changed: ctime?.getTime() ?? NaN };
  } catch (error) {
    return error instanceof Deno.errors.NotFound ? null : "unreadable";
  }
}

function sameIdentity(a: FileIdentity, b: FileIdentity): boolean {
  return a.ino === b.ino && a.modified === b.modified && a.changed === b.changed && a.dev === b.dev;
}

/** Whether a later change is sure to leave other times. */
function isPast({ modified, changed }: FileIdentity, now: number): boolean {
  const latest = Math.max(modified, changed);
  return latest + (latest % 1_000 === 0 ? RACY_MS.coarse : RACY_MS.fine) < now;
}

function namesIn(dir: string): ReadonlySet<string> | null {
  try {
    return new Set(Deno.readDirSync(dir).map(({ name }) => name));
  } catch {
    return null;
  }
}

/** The process a record names; `null` when the file cannot be read or holds no record of the session. */
function readRecord(path: string, id: string): { readonly pid: number; readonly start: string } | null {
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
