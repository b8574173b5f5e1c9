/**
 * What a workdir snapshot took and left out, as both sides record it (roost seed "Workdir snapshot", spec roost 11).
 *
 * @module
 */
import { MurError } from "../../base/errors.ts";
import { isJsonObject, type JsonValue } from "../../base/json_value.ts";

/** Why an entry is not in the copy. */
export type SkipReason = "fifo" | "socket" | "device" | "unreadable" | "runtime-owned";

/** An entry of the parent's folder that is not in the copy. */
export interface SkippedEntry {
  /** Relative to the parent's folder. */
  readonly path: string;
  readonly reason: SkipReason;
}

/** The record of a copy, keys as in the trace of both sides. */
export interface SnapshotReport {
  /** The parent's work folder, absolute. */
  readonly source: string;
  readonly files: number;
  readonly directories: number;
  readonly links: number;
  /** Bytes of content, holes included. */
  readonly bytes: number;
  /** In the order they were met, the first of them: a folder may hold any number. */
  readonly skipped: readonly SkippedEntry[];
  /** How many more were skipped than are listed; absent when all are. */
  readonly skipped_unlisted?: number;
}

const REASONS: readonly SkipReason[] = ["fifo", "socket", "device", "unreadable", "runtime-owned"];

/**
 * Reads a report a parent's runtime handed over. Only what is known is kept.
 *
 * @throws {MurError} `E-RUN-020`.
 */
export function parseSnapshotReport(text: string): SnapshotReport {
  const unreadable = (why: string) =>
    new MurError("E-RUN-020", `the snapshot report on standard input cannot be read: ${why}`, {
      hint: "only a parent's runtime hands one over",
    });
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw unreadable("it is no JSON");
  }
  if (!isJsonObject(value)) throw unreadable("it is no JSON object");
  const { source, skipped, skipped_unlisted } = value;
  if (typeof source !== "string" || !source.startsWith("/")) throw unreadable("'source' is no absolute path");
  const count = (name: string, number: JsonValue | undefined): number => {
    if (typeof number === "number" && Number.isSafeInteger(number) && number >= 0) return number;
    throw unreadable(`'${name}' is no count`);
  };
  if (!Array.isArray(skipped)) throw unreadable("'skipped' is no list");
  return {
    source,
    files: count("files", value.files),
    directories: count("directories", value.directories),
    links: count("links", value.links),
    bytes: count("bytes", value.bytes),
    skipped: skipped.map((entry: unknown): SkippedEntry => {
      const path = isJsonObject(entry) ? entry.path : undefined;
      const reason = isJsonObject(entry) ? REASONS.find((word) => word === entry.reason) : undefined;
      if (typeof path !== "string" || reason === undefined) throw unreadable("'skipped' holds no path and reason");
      return { path, reason };
    }),
    ...(skipped_unlisted === undefined ? {} : { skipped_unlisted: count("skipped_unlisted", skipped_unlisted) }),
  };
}
