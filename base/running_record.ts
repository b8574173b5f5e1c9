/**
 * Running-capsule records, `~/.murmur/running/<session id>.json`: how a running session is found on this machine (spec
 * cli 4.1, 4.2). They hold door tokens, so file and directory are the owner's alone.
 *
 * @module
 */
import * as v from "valibot";
import { writeAtomicallyIn } from "./atomic_file.ts";
import { ioError, MurError, reasonOf } from "./errors.ts";
import { isId } from "./ids.ts";
import { type ProcessReading, readProcess } from "./process_identity.ts";
import { RootedDir } from "./rooted_dir.ts";
import { isRootedError } from "./rooted_error.ts";

const integer = v.pipe(v.number(), v.safeInteger());

/** The one table of keys; unknown ones are ignored. */
const SCHEMA = v.object({
  session_id: v.pipe(v.string(), v.regex(/^[A-Za-z0-9_.-]+$/)),
  url: v.nullable(v.string()),
  pid: integer,
  process_start: v.string(),
  capsule_name: v.string(),
  capsule_version: v.string(),
  workdir: v.string(),
  records_dir: v.string(),
  outlives_launcher: v.boolean(),
  started_at: v.string(),
  door_token: v.optional(v.string()),
  credentials: v.optional(v.record(v.string(), v.string())),
  formation_id: v.optional(v.pipe(v.string(), v.check((id) => isId("frm", id)))),
  formation_member: v.optional(v.string()),
  formation_entry: v.optional(v.boolean()),
  formation_lifeline: v.optional(v.boolean()),
  formation_launcher: v.optional(v.object({ pid: integer, process_start: v.string() })),
  spawned_by: v.optional(v.string()),
});

/** One record, keys as in the file. Members that are absent are omitted from it. */
export type RunningRecord = Readonly<v.InferOutput<typeof SCHEMA>>;

/** A record of an older build: all there but `records_dir`. */
export type OlderRunningRecord = Readonly<Omit<v.InferOutput<typeof SCHEMA>, "records_dir">>;

const OLDER_SCHEMA = v.omit(SCHEMA, ["records_dir"]);

/** What a file of the directory holds. */
export type ParsedRunningRecord =
  | { readonly kind: "record"; readonly record: RunningRecord }
  | { readonly kind: "older"; readonly record: OlderRunningRecord }
  | { readonly kind: "unreadable" };

/** Reads a record's text. */
export function parseRunningRecord(text: string): ParsedRunningRecord {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return { kind: "unreadable" };
  }
  const record = v.safeParse(SCHEMA, value);
  if (record.success) return { kind: "record", record: record.output };
  const lacksOnlyRecords = typeof value === "object" && value !== null && !("records_dir" in value);
  const older = lacksOnlyRecords ? v.safeParse(OLDER_SCHEMA, value) : undefined;
  return older?.success ? { kind: "older", record: older.output } : { kind: "unreadable" };
}

/** A record's text: pretty-printed, empty `credentials` and false flags left out. */
export function formatRunningRecord(record: RunningRecord): string {
  const { credentials, formation_entry, formation_lifeline, ...rest } = record;
  const kept = {
    ...rest,
    ...(credentials !== undefined && Object.keys(credentials).length > 0 ? { credentials } : {}),
    ...(formation_entry ? { formation_entry } : {}),
    ...(formation_lifeline ? { formation_lifeline } : {}),
  };
  return `${JSON.stringify(kept, null, 2)}\n`;
}

/** Everything the directory holds, newest session first. */
export interface RunningDirectory {
  readonly records: readonly RunningRecord[];
  readonly older: readonly OlderRunningRecord[];
  /** Names of files that are no records. */
  readonly unreadable: readonly string[];
}

/** Largest record that is read. */
const MAX_RECORD_BYTES = 1 << 20;

function openOwn(dir: string): RootedDir {
  const slash = dir.replace(/\/+$/, "").lastIndexOf("/");
  Deno.mkdirSync(dir.slice(0, slash) || "/", { recursive: true, mode: 0o700 });
  try {
    Deno.mkdirSync(dir, { mode: 0o700 });
  } catch (error) {
    if (!(error instanceof Deno.errors.AlreadyExists)) throw error;
  }
  // It may have been made with other bits.
  if ((Deno.statSync(dir).mode! & 0o777) !== 0o700) Deno.chmodSync(dir, 0o700);
  return RootedDir.open(dir, { symlinks: "refuse" });
}

function read(root: RootedDir): RunningDirectory {
  const records: RunningRecord[] = [];
  const older: OlderRunningRecord[] = [];
  const unreadable: string[] = [];
  for (const { name } of root.readDir()) {
    if (!name.endsWith(".json")) continue;
    let parsed: ParsedRunningRecord = { kind: "unreadable" };
    try {
      using file = root.openFile(name);
      parsed = parseRunningRecord(new TextDecoder().decode(file.readAll(MAX_RECORD_BYTES)));
    } catch (error) {
      // Its session has just ended.
      if (isRootedError(error, "no-entry")) continue;
      if (!isRootedError(error)) throw error;
    }
    // A record under another session's name would let one session's end remove the other's.
    if (parsed.kind === "unreadable" || `${parsed.record.session_id}.json` !== name) unreadable.push(name);
    else if (parsed.kind === "record") records.push(parsed.record);
    else older.push(parsed.record);
  }
  const descending = (a: { session_id: string }, b: { session_id: string }) =>
    a.session_id < b.session_id ? 1 : a.session_id > b.session_id ? -1 : 0;
  return { records: records.sort(descending), older: older.sort(descending), unreadable: unreadable.sort() };
}

/**
 * Reads the directory for a command: makes it when it is missing, holds it at 0700, removes files that are no records.
 *
 * @throws {MurError} `E-RUN-028` when it can't be made, changed or listed; then nothing was removed.
 */
export function readRunningDirectory(dir: string): RunningDirectory {
  try {
    using root = openOwn(dir);
    const found = read(root);
    for (const name of found.unreadable) {
      try {
        root.unlink(name);
      } catch {
        // Another reader was faster, or it is a directory: no record either way.
      }
    }
    return found;
  } catch (cause) {
    throw new MurError("E-RUN-028", `the running-capsule records in ${dir} cannot be read: ${reasonOf(cause)}`, {
      hint: "check that you own the directory and may write to it",
      cause,
    });
  }
}

/**
 * Reads the directory and changes nothing, as the spawn daemon does. A missing directory holds nothing.
 *
 * @throws {MurError} When it can't be listed.
 */
export function peekRunningDirectory(dir: string): RunningDirectory {
  try {
    using root = RootedDir.open(dir, { symlinks: "refuse" });
    return read(root);
  } catch (error) {
    if (isRootedError(error, "no-entry")) return { records: [], older: [], unreadable: [] };
    throw error;
  }
}

/**
 * Writes a session's record, whole or not at all, readable by its owner alone.
 *
 * @throws {MurError} The caller warns `W-SEC-023` and goes on.
 */
export function writeRunningRecord(dir: string, record: RunningRecord): void {
  try {
    using root = openOwn(dir);
    writeAtomicallyIn(root, `${record.session_id}.json`, formatRunningRecord(record), { mode: 0o600, durable: false });
  } catch (error) {
    throw error instanceof MurError ? error : ioError(`write the running-capsule record in ${dir}`, error);
  }
}

/** Removes a session's record and its control token; neither need be there. */
export function removeRunningRecord(dir: string, sessionId: string): void {
  try {
    using root = RootedDir.open(dir, { symlinks: "refuse" });
    for (const name of [`${sessionId}.json`, `${sessionId}.control`]) {
      try {
        root.unlink(name);
      } catch (error) {
        if (!isRootedError(error, "no-entry")) throw error;
      }
    }
  } catch (error) {
    if (!isRootedError(error, "no-entry")) throw error;
  }
}

/** Layers 1 and 2 of a record: whether the process that wrote it still runs (spec cli 4.3). */
export function readRecordProcess(record: Pick<RunningRecord, "pid" | "process_start">): ProcessReading {
  return readProcess(record.pid, record.process_start);
}
