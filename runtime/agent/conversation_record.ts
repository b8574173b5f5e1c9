/**
 * The conversation record: every message that entered a context, one JSON line each, kept across launches
 * (spec session 13.1 to 13.3).
 *
 * The runtime is the only writer. Several launches may append to one record; each line is one write. Handles for peer files
 * are no matter of record: `<handle:ID>` stands in their place.
 *
 * @module
 */
import { writeAtomically } from "../../base/atomic_file.ts";
import { reasonOf } from "../../base/errors.ts";
import { redactPeerTokens } from "../trace/trace_redaction.ts";
import { type Message, parseMessage, recordJson } from "./message.ts";

/** Where a record lies. */
export interface RecordLocation {
  /** `~/.murmur/conversations`. */
  readonly conversations: string;
  /** `context.record_store`, else the capsule name. */
  readonly store: string;
  readonly contextId: string;
}

/** First line of a record under `context.retain`. */
export interface RecordHeader {
  readonly type: "murmur.record";
  readonly capsule: string;
  readonly created_ms: number;
  readonly truncated?: {
    /** Messages dropped so far. */
    readonly dropped: number;
    readonly oldest_surviving_id: string | null;
    readonly last_dropped_id: string;
    readonly at_ms: number;
  };
}

/** A record as read. */
export interface RecordContent {
  readonly header: RecordHeader | null;
  /** In file order; of two lines with one id the first. */
  readonly entries: readonly { readonly line: string; readonly message: Message }[];
  /** Number, from 1, of the first line that is neither header nor message. */
  readonly firstSkipped: number | null;
}

/**
 * Whether a context id can name a directory: one path segment that hides nothing (spec session 1). Half a character has no
 * name of its own: every such id would name the same directory.
 */
export function isContextSegment(id: string): boolean {
  return id !== "" && !id.startsWith(".") && !/[/\0]/.test(id) && id.isWellFormed();
}

/** Directory of one context. */
export function recordDirectory(location: RecordLocation): string {
  return `${location.conversations}/${location.store}/${location.contextId}`;
}

/** `conversation.jsonl` of one context. */
export function recordPath(location: RecordLocation): string {
  return `${recordDirectory(location)}/conversation.jsonl`;
}

function parseHeader(value: unknown): RecordHeader | null {
  if (typeof value !== "object" || value === null) return null;
  const header = value as Partial<Record<keyof RecordHeader, unknown>>;
  return header.type === "murmur.record" ? value as RecordHeader : null;
}

/** Reads the text of a record. What is no message is skipped. */
export function parseRecord(text: string): RecordContent {
  const entries: { line: string; message: Message }[] = [];
  const seen = new Set<string>();
  let header: RecordHeader | null = null;
  let firstSkipped: number | null = null;
  const lines = text.split("\n");
  if (lines.at(-1) === "") lines.pop();
  lines.forEach((line, index) => {
    let value: unknown;
    try {
      value = JSON.parse(line);
    } catch {
      value = null;
    }
    // The id of a message without one must be the same at every reading.
    const message = parseMessage(value, `msg_line_${index + 1}`);
    if (message !== null) {
      if (!seen.has(message.id)) entries.push({ line, message });
      seen.add(message.id);
      return;
    }
    const found = index === 0 ? parseHeader(value) : null;
    if (found !== null) header = found;
    else firstSkipped ??= index + 1;
  });
  return { header, entries, firstSkipped };
}

/** A record's text after keeping its newest `keep` messages, and how many that dropped; ids are unchanged. */
export function truncatedRecord(
  content: RecordContent,
  keep: number,
  by: { readonly capsule: string; readonly nowMs: number },
): { readonly text: string; readonly dropped: number } {
  const dropped = Math.max(0, content.entries.length - keep);
  const survivors = content.entries.slice(dropped);
  const lastDropped = content.entries[dropped - 1];
  const base: RecordHeader = content.header ?? { type: "murmur.record", capsule: by.capsule, created_ms: by.nowMs };
  const header: RecordHeader = lastDropped === undefined ? base : {
    ...base,
    truncated: {
      dropped: (base.truncated?.dropped ?? 0) + dropped,
      oldest_surviving_id: survivors[0]?.message.id ?? null,
      last_dropped_id: lastDropped.message.id,
      at_ms: by.nowMs,
    },
  };
  const lines = [JSON.stringify(header), ...survivors.map(({ line }) => line)];
  return { text: `${lines.join("\n")}\n`, dropped };
}

/**
 * Reads a record; a missing one is empty.
 *
 * @throws {Deno.errors} When it is there and cannot be read.
 */
export function readRecord(path: string): RecordContent {
  try {
    return parseRecord(Deno.readTextFileSync(path));
  } catch (cause) {
    if (cause instanceof Deno.errors.NotFound) return { header: null, entries: [], firstSkipped: null };
    throw cause;
  }
}

function writeAll(file: Deno.FsFile, bytes: Uint8Array): void {
  let rest = bytes;
  while (rest.length > 0) rest = rest.subarray(file.writeSync(rest));
}

/** How a record is opened. */
export interface RecordOptions {
  readonly location: RecordLocation;
  /** Capsule name when `context.retain` is declared: the record then starts with a header. */
  readonly headerCapsule: string | null;
  /** Takes each problem once: stderr and `logs/bootstrap.log`. */
  readonly report: (text: string) => void;
  /** Unix milliseconds. */
  readonly now?: () => number;
}

function headerLine(options: RecordOptions): string {
  const header: RecordHeader = {
    type: "murmur.record",
    capsule: options.headerCapsule ?? "",
    created_ms: (options.now ?? Date.now)(),
  };
  return `${JSON.stringify(header)}\n`;
}

/** One context's record, open for appending. Nothing is created before the first append. */
export class ConversationRecord {
  readonly #options: RecordOptions;
  readonly #path: string;
  readonly #recorded: Set<string>;
  /** False when the context id names no directory or the record cannot be read: then nothing is recorded. */
  readonly #usable: boolean;
  #failed = false;
  #reported = false;

  /** The messages found when the record was opened. */
  readonly messages: readonly Message[];

  private constructor(options: RecordOptions, messages: readonly Message[], unusable: string | null) {
    this.#options = options;
    this.#path = recordPath(options.location);
    this.messages = messages;
    this.#recorded = new Set(messages.map(({ id }) => id));
    this.#usable = unusable === null;
    if (unusable !== null) this.#reportOnce(unusable);
  }

  /**
   * Reads what is there and, when a header is wanted, gives one to a record that has none. A record that cannot be read,
   * or a context id that names no directory, is reported, and that conversation is not recorded.
   */
  static open(options: RecordOptions): ConversationRecord {
    const { contextId } = options.location;
    if (!isContextSegment(contextId)) {
      return new ConversationRecord(options, [], `context id '${contextId}' is not one path segment`);
    }
    const path = recordPath(options.location);
    try {
      const content = readRecord(path);
      if (content.firstSkipped !== null) {
        options.report(`conversation record ${path}: line ${content.firstSkipped} is no message and was skipped`);
      }
      const headless = content.header === null && (content.entries.length > 0 || content.firstSkipped !== null);
      if (options.headerCapsule !== null && headless) {
        writeAtomically(path, `${headerLine(options)}${Deno.readTextFileSync(path)}`, { mode: 0o600 });
      }
      return new ConversationRecord(options, content.entries.map(({ message }) => message), null);
    } catch (cause) {
      return new ConversationRecord(options, [], reasonOf(cause));
    }
  }

  /** Tries again after a failure of the attempt before. */
  beginAttempt(): void {
    this.#failed = false;
  }

  /**
   * Appends the messages whose ids are not recorded yet. The first failure is reported and leaves the rest of the attempt
   * unrecorded, so that the record has no hole; appending the whole list again in the next attempt closes the gap.
   */
  append(messages: readonly Message[]): void {
    if (!this.#usable || this.#failed) return;
    const fresh = messages.filter((message) => !this.#recorded.has(message.id));
    if (fresh.length === 0) return;
    try {
      this.#appendFresh(fresh);
    } catch (cause) {
      this.#failed = true;
      this.#reportOnce(reasonOf(cause));
    }
  }

  #appendFresh(fresh: readonly Message[]): void {
    this.#makeDirectories();
    const file = Deno.openSync(this.#path, { read: true, append: true, create: true, mode: 0o600 });
    try {
      const { size } = file.statSync();
      if (size > 0) {
        file.seekSync(size - 1, Deno.SeekMode.Start);
        const last = new Uint8Array(1);
        // A torn tail costs only itself.
        if (file.readSync(last) === 1 && last[0] !== 0x0a) writeAll(file, new Uint8Array([0x0a]));
      }
      const encoder = new TextEncoder();
      if (size === 0 && this.#options.headerCapsule !== null) writeAll(file, encoder.encode(headerLine(this.#options)));
      for (const message of fresh) {
        if (this.#recorded.has(message.id)) continue;
        writeAll(file, encoder.encode(`${redactPeerTokens(recordJson(message))}\n`));
        this.#recorded.add(message.id);
      }
    } finally {
      file.close();
    }
  }

  /** All three levels 0700. */
  #makeDirectories(): void {
    const { conversations, store } = this.#options.location;
    for (const directory of [conversations, `${conversations}/${store}`, recordDirectory(this.#options.location)]) {
      Deno.mkdirSync(directory, { recursive: true, mode: 0o700 });
    }
  }

  #reportOnce(reason: string): void {
    if (this.#reported) return;
    this.#reported = true;
    this.#options.report(`this conversation is not recorded: ${this.#path}: ${reason}`);
  }
}
