/**
 * Running-capsule records, `~/.murmur/running/<session id>.json`: how a running session is found on this machine (spec
 * cli 4.1, 4.2). They hold door tokens, so file and directory are the owner's alone; no agent reaches them.
 *
 * Reading them is all that `mur ps` does before its first line, so this takes nothing but Deno's own file access; whoever
 * has many of them hands in a faster reader (`kernel_records.ts`).
 * `write_running_record.ts` writes them.
 *
 * @module
 */
import { MurError, reasonOf } from "./errors.ts";
import { isId } from "./ids.ts";
import { type ProcessReading, readProcess, type StatReader } from "./process_identity.ts";

/** One record, keys as in the file. Members that are absent are omitted from it. */
export interface RunningRecord {
  readonly session_id: string;
  readonly url: string | null;
  readonly pid: number;
  readonly process_start: string;
  readonly capsule_name: string;
  readonly capsule_version: string;
  readonly workdir: string;
  readonly records_dir: string;
  readonly outlives_launcher: boolean;
  readonly started_at: string;
  /**
   * Where the door is bound when `localhost` does not lead there: another may listen on the same port of another address,
   * and must not be given the token.
   */
  readonly bound_address?: string;
  readonly door_token?: string;
  readonly credentials?: Readonly<Record<string, string>>;
  readonly formation_id?: string;
  readonly formation_member?: string;
  readonly formation_entry?: boolean;
  readonly formation_lifeline?: boolean;
  readonly formation_launcher?: { readonly pid: number; readonly process_start: string };
  readonly spawned_by?: string;
  /** The process once more, as the kernel counts them (`process_instance.ts`). */
  readonly process_instance?: string;
}

/** A record of an older build: all there but `records_dir`. */
export type OlderRunningRecord = Omit<RunningRecord, "records_dir">;

/** What a value has to be: of a type by its name, or whatever a function says. */
type Check = "string" | "boolean" | ((value: unknown) => boolean);
const isText = (value: unknown) => typeof value === "string";
const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/**
 * The one table of keys; unknown ones are ignored. Written out by hand: a library that checks schemas takes longer to
 * load than `mur ps` takes to read 200 records.
 */
const REQUIRED: { readonly [K in keyof OlderRunningRecord as undefined extends RunningRecord[K] ? never : K]: Check } =
  {
    session_id: (value) => typeof value === "string" && /^[A-Za-z0-9_.-]+$/.test(value),
    url: (value) => value === null || typeof value === "string",
    pid: Number.isSafeInteger,
    process_start: "string",
    capsule_name: "string",
    capsule_version: "string",
    workdir: "string",
    outlives_launcher: "boolean",
    started_at: "string",
  };
const OPTIONAL: { readonly [K in keyof RunningRecord as undefined extends RunningRecord[K] ? K : never]-?: Check } = {
  bound_address: "string",
  door_token: "string",
  credentials: (value) => isObject(value) && Object.values(value).every(isText),
  formation_id: (value) => typeof value === "string" && isId("frm", value),
  formation_member: "string",
  formation_entry: "boolean",
  formation_lifeline: "boolean",
  formation_launcher: (value) => isObject(value) && Number.isSafeInteger(value.pid) && isText(value.process_start),
  spawned_by: "string",
  process_instance: "string",
};
/** The table by key, with what the record of an older build may lack. */
const CHECKS: ReadonlyMap<string, Check> = new Map(
  Object.entries({ ...REQUIRED, records_dir: "string" as const, ...OPTIONAL }),
);
const REQUIRED_KEYS = Object.keys(REQUIRED);

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
  if (!isObject(value)) return { kind: "unreadable" };
  let record = value;
  // Through what is written, not the table: taking a thousand records apart is part of what the daemon's start takes.
  for (const key in value) {
    const check = CHECKS.get(key);
    const written = value[key];
    const type = typeof written;
    if (check === undefined) record = withoutUnknown(value);
    else if (typeof check === "string" ? type !== check : !check(written)) return { kind: "unreadable" };
  }
  for (const key of REQUIRED_KEYS) if (record[key] === undefined) return { kind: "unreadable" };
  return record.records_dir === undefined
    ? { kind: "older", record: record as unknown as OlderRunningRecord }
    : { kind: "record", record: record as unknown as RunningRecord };
}

function withoutUnknown(value: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(value).filter(([key]) => CHECKS.has(key)));
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

/** Everything the directory holds. */
export interface RunningDirectory {
  readonly records: readonly RunningRecord[];
  readonly older: readonly OlderRunningRecord[];
  /** Names of files that are no records. */
  readonly unreadable: readonly string[];
  /** Names of files that are there and could not be opened: what they hold is not known. */
  readonly unopened: readonly string[];
  /** Ids of sessions with a control token. */
  readonly controlTokens: ReadonlySet<string>;
}

/** Largest record, in bytes. What is longer was written by nobody who writes records. */
export const MAX_RECORD_BYTES = 1 << 20;

/** A file that is there no more: its session has just ended. */
export const ABSENT = Symbol("absent");
/** A file that cannot be read: what it holds is not known. */
export const UNOPENED = Symbol("unopened");

/** What a file holds; `null` when that is longer than {@linkcode MAX_RECORD_BYTES}. */
export type RecordText = string | null | typeof ABSENT | typeof UNOPENED;

/** Reads files of the directory that may be records, in their order. */
export type RecordReader = (names: readonly string[]) => readonly RecordText[];

function readByDeno(dir: string): RecordReader {
  return (names) => names.map((name) => readText(`${dir}/${name}`));
}

function readText(path: string): RecordText {
  try {
    return Deno.lstatSync(path).size <= MAX_RECORD_BYTES ? Deno.readTextFileSync(path) : null;
  } catch (error) {
    return error instanceof Deno.errors.NotFound ? ABSENT : UNOPENED;
  }
}

/** End of the name of a session's control token. */
const CONTROL_SUFFIX = ".control";

/** Makes the directory when it is missing and holds it at 0700. */
export function holdRunningDirectory(dir: string): void {
  const slash = dir.replace(/\/+$/, "").lastIndexOf("/");
  Deno.mkdirSync(dir.slice(0, slash) || "/", { recursive: true, mode: 0o700 });
  try {
    Deno.mkdirSync(dir, { mode: 0o700 });
  } catch (error) {
    if (!(error instanceof Deno.errors.AlreadyExists)) throw error;
  }
  // It may have been made with other bits, and a link may stand in its place.
  const { isDirectory, mode } = Deno.lstatSync(dir);
  if (!isDirectory) throw new Deno.errors.NotADirectory(`${dir} is not a directory`);
  if ((mode! & 0o777) !== 0o700) Deno.chmodSync(dir, 0o700);
}

/** What the directory lists. */
export interface RunningListing {
  readonly dir: string;
  /** Names of files that may be records. */
  readonly names: readonly string[];
  /** Names of what may be none. */
  readonly unreadable: readonly string[];
  /** Ids of sessions with a control token. */
  readonly controlTokens: ReadonlySet<string>;
}

function list(dir: string): RunningListing {
  const names: string[] = [];
  const unreadable: string[] = [];
  const controlTokens = new Set<string>();
  for (const { name, isFile } of Deno.readDirSync(dir)) {
    if (name.endsWith(CONTROL_SUFFIX)) controlTokens.add(name.slice(0, -CONTROL_SUFFIX.length));
    if (!name.endsWith(".json")) continue;
    // A link is no record, and a pipe would be waited for.
    (isFile ? names : unreadable).push(name);
  }
  return { dir, names, unreadable, controlTokens };
}

/** What a file of that name holds. */
function parseNamed(name: string, text: string | null): ParsedRunningRecord {
  const parsed: ParsedRunningRecord = text === null ? { kind: "unreadable" } : parseRunningRecord(text);
  // A record under another session's name would let one session's end remove the other's.
  return parsed.kind === "unreadable" || `${parsed.record.session_id}.json` === name ? parsed : { kind: "unreadable" };
}

function read(dir: string, readTexts: RecordReader): RunningDirectory {
  const records: RunningRecord[] = [];
  const older: OlderRunningRecord[] = [];
  const unopened: string[] = [];
  const listing = list(dir);
  const unreadable = [...listing.unreadable];
  const texts = readTexts(listing.names);
  for (let index = 0; index < texts.length; index++) {
    const name = listing.names[index]!;
    const text = texts[index]!;
    if (text === ABSENT) continue;
    if (text === UNOPENED) {
      unopened.push(name);
      continue;
    }
    const parsed = parseNamed(name, text);
    if (parsed.kind === "unreadable") unreadable.push(name);
    else if (parsed.kind === "record") records.push(parsed.record);
    else older.push(parsed.record);
  }
  return { records, older, unreadable, unopened, controlTokens: listing.controlTokens };
}

/** The newest session first. */
function newestFirst(a: { readonly session_id: string }, b: { readonly session_id: string }): number {
  return a.session_id < b.session_id ? 1 : a.session_id > b.session_id ? -1 : 0;
}

function cannotBeRead(dir: string, cause: unknown, hint?: string): MurError {
  return new MurError("E-RUN-028", `the running-capsule records in ${dir} cannot be read: ${reasonOf(cause)}`, {
    ...(hint === undefined ? {} : { hint }),
    cause,
  });
}

/**
 * Lists the directory for a command: makes it when it is missing, and holds it at 0700.
 *
 * @throws {MurError} `E-RUN-028` when it can't be made, changed or listed.
 */
export function openRunningDirectory(dir: string): RunningListing {
  try {
    holdRunningDirectory(dir);
    return list(dir);
  } catch (cause) {
    throw cannotBeRead(dir, cause, "check that you own the directory and may write to it");
  }
}

/** A record of this or an older build. */
export type FoundRecord = Exclude<ParsedRunningRecord, { readonly kind: "unreadable" }>;

/**
 * Reads the records that were listed, in no order. Files that are none are removed.
 *
 * @param readTexts How files are read.
 */
export function takeRecords(
  { dir, names, unreadable }: RunningListing,
  readTexts: RecordReader = readByDeno(dir),
): readonly FoundRecord[] {
  for (const name of unreadable) removeUnreadable(`${dir}/${name}`);
  const found: FoundRecord[] = [];
  const texts = readTexts(names);
  for (let index = 0; index < texts.length; index++) {
    const name = names[index]!;
    const text = texts[index]!;
    if (text === ABSENT || text === UNOPENED) continue;
    const parsed = parseNamed(name, text);
    if (parsed.kind === "unreadable") removeUnreadable(`${dir}/${name}`);
    else found.push(parsed);
  }
  return found;
}

function removeUnreadable(path: string): void {
  try {
    Deno.removeSync(path);
  } catch {
    // Another reader was faster, or it is a directory: no record either way.
  }
}

/**
 * Reads the directory, the newest session first, and changes nothing. A missing directory holds nothing.
 *
 * @throws {MurError} `E-RUN-028` when it can't be listed.
 */
export function peekRunningDirectory(dir: string): RunningDirectory {
  const { records, older, unreadable, ...rest } = surveyRunningDirectory(dir, readByDeno(dir));
  return {
    ...rest,
    records: records.toSorted(newestFirst),
    older: older.toSorted(newestFirst),
    unreadable: unreadable.toSorted(),
  };
}

/**
 * The same in no order, as the spawn daemon does for its count.
 *
 * @param readTexts How files are read.
 * @throws {MurError} `E-RUN-028` when it can't be listed.
 */
export function surveyRunningDirectory(dir: string, readTexts: RecordReader): RunningDirectory {
  try {
    return read(dir, readTexts);
  } catch (cause) {
    if (cause instanceof Deno.errors.NotFound) {
      return { records: [], older: [], unreadable: [], unopened: [], controlTokens: new Set() };
    }
    throw cannotBeRead(dir, cause);
  }
}

/**
 * Removes a session's record and its control token; neither need be there.
 *
 * @param options.controlToken False when it is known that there is no token.
 */
export function removeRunningRecord(
  dir: string,
  sessionId: string,
  { controlToken = true }: { readonly controlToken?: boolean } = {},
): void {
  removeIfThere(`${dir}/${sessionId}.json`);
  if (controlToken) removeIfThere(`${dir}/${sessionId}${CONTROL_SUFFIX}`);
}

function removeIfThere(path: string): void {
  try {
    Deno.removeSync(path);
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  }
}

/**
 * Layers 1 and 2 of a record: whether the process that wrote it still runs (spec cli 4.3).
 *
 * @param readStat How processes are read.
 */
export function readRecordProcess(
  record: Pick<RunningRecord, "pid" | "process_start">,
  readStat?: StatReader,
): ProcessReading {
  return readProcess(record.pid, record.process_start, readStat);
}
