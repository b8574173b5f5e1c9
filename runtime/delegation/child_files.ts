/**
 * What a child's records directory holds for its parent, read and written once its process is gone: `completion.json` and
 * its answer (roost seed "How the outcome arrives", spec roost 14.4, 16.2). The paths a child names are never opened.
 *
 * @module
 */
import { writeAtomicallyIn } from "../../base/atomic_file.ts";
import { reasonOf } from "../../base/errors.ts";
import { RootedDir } from "../../base/rooted_dir.ts";
import { isRootedError } from "../../base/rooted_error.ts";
import {
  type CompletionRecord,
  formatRecord,
  MAX_RECORD_BYTES,
  parseRecord,
  type ReadRecord,
} from "./completion_record.ts";
import { type Answer, characterBoundary, keptAnswerPath, MAX_ANSWER_BYTES } from "./outcome_block.ts";

const COMPLETION = "completion.json";

/** An agent capsule's answer, below its records directory. */
const RESULT = "out/result.txt";

/** Largest answer of which a copy is kept, in bytes. */
const MAX_KEPT_BYTES = 64 * 1024 * 1024;

function openRecords(recordsDir: string): RootedDir {
  return RootedDir.open(recordsDir, { symlinks: "refuse" });
}

/** Reads a child's `completion.json`. */
export function readCompletion(
  recordsDir: string,
  expected: { readonly delegationId: string; readonly sessionId: string },
): ReadRecord {
  try {
    using records = openRecords(recordsDir);
    using file = records.openFile(COMPLETION, { follow: false });
    return parseRecord(new TextDecoder().decode(file.readAll(MAX_RECORD_BYTES)), expected);
  } catch (cause) {
    if (isRootedError(cause, "no-entry")) return { kind: "missing" };
    if (isRootedError(cause)) return { kind: "unreadable", reason: cause.message };
    throw cause;
  }
}

/**
 * Writes a `completion.json`, whole.
 *
 * @throws {RootedError}
 */
export function writeCompletion(recordsDir: string, record: CompletionRecord): void {
  using records = openRecords(recordsDir);
  writeAtomicallyIn(records, COMPLETION, formatRecord(record), { mode: 0o600 });
}

/** Absolute path of a session's answer; `null` when it left none. */
export function resultPath(recordsDir: string): string | null {
  try {
    using records = openRecords(recordsDir);
    return records.stat(RESULT, { follow: false }).kind === "file" ? `${recordsDir}/${RESULT}` : null;
  } catch (cause) {
    if (isRootedError(cause)) return null;
    throw cause;
  }
}

/**
 * Reads a child's answer; one that is too long for a conversation is cut, and kept whole for the parent's tools.
 *
 * @param runtime The parent's runtime directory.
 */
export function readAnswer(recordsDir: string, runtime: RootedDir, delegationId: string): Answer {
  try {
    using records = openRecords(recordsDir);
    using file = records.openFile(RESULT, { follow: false });
    const { size } = file.stat();
    if (size === 0) return { kind: "empty" };
    const isTooLarge = size > MAX_KEPT_BYTES;
    const bytes = isTooLarge ? firstBytes(file, MAX_ANSWER_BYTES + 1) : file.readAll(MAX_KEPT_BYTES);
    if (bytes.length <= MAX_ANSWER_BYTES) return { kind: "whole", text: decode(bytes) };
    const keptBytes = characterBoundary(bytes, MAX_ANSWER_BYTES);
    return {
      kind: "cut",
      text: decode(bytes.subarray(0, keptBytes)),
      keptBytes,
      totalBytes: size,
      notKept: isTooLarge ? `it is larger than ${MAX_KEPT_BYTES} bytes` : keep(runtime, delegationId, bytes),
    };
  } catch (cause) {
    if (isRootedError(cause, "no-entry")) return { kind: "missing" };
    if (isRootedError(cause)) return { kind: "unreadable", reason: cause.message };
    throw cause;
  }
}

/** Keeps a whole answer. @returns why it could not be kept; `null` when it is. */
function keep(runtime: RootedDir, delegationId: string, bytes: Uint8Array<ArrayBuffer>): string | null {
  try {
    if (!runtime.exists("delegations")) runtime.mkdir("delegations", { mode: 0o700 });
    writeAtomicallyIn(runtime, keptAnswerPath(delegationId), bytes, { mode: 0o600, durable: false });
    return null;
  } catch (cause) {
    return reasonOf(cause);
  }
}

function firstBytes(
  file: { read(offset: number, buffer: Uint8Array<ArrayBuffer>): number },
  count: number,
): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(count);
  let length = 0;
  for (let read = -1; length < count && read !== 0; length += read) read = file.read(length, bytes.subarray(length));
  return bytes.subarray(0, length);
}

function decode(bytes: Uint8Array): string {
  return new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes);
}
